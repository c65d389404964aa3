//! WebAssembly plugins: admission, limits, instances, worlds; knows nothing of training.
//!
//! A [`Host`] turns the bytes of a component into a [`RewardPlugin`], a [`FilterPlugin`] or an
//! [`AdvantagePlugin`]. Bytes are a stranger's: they are measured, validated and matched against
//! the recipe's grants before they are compiled ([`LoadError`] says what was wrong), and each call
//! runs in a fresh store under every limit ([`CallError`] says what ended it). Environments have
//! their place in the contract; their host comes with multi-turn rollouts.
//!
//! Invariants: only this crate knows wasmtime; a store never outlives its call; no compiled code
//! crosses a trust boundary; a failure is never a score.

mod admission;
mod advantage;
mod bindings;
mod cache;
mod call;
mod capabilities;
mod columns;
mod convert;
mod digest;
mod engine;
mod error;
mod filter;
mod find;
mod grant;
mod host;
mod limits;
mod log;
mod media;
mod reward;
mod schema;
mod state;
mod stats;
mod store;
#[cfg(test)]
mod tests;

pub use admission::{Kind, validate};
pub use advantage::AdvantagePlugin;
pub use columns::{Advantages, Batch};
pub use digest::{Digest, DigestError};
pub use error::{CallError, LoadError};
pub use filter::{FilterPlugin, Row, ScoredGroup, Verdict};
pub use find::{FindError, PLUGINS_DIR, find, standard_folders, user_cache_dir};
pub use grant::{Grant, GrantError, Grants};
pub use host::{Descriptor, Determinism, Host, HostOptions, Inspection, Kept, Use};
pub use limits::{AdmissionCaps, Limits, Profile};
pub use log::{LogLevel, LogLine, LogSink, sanitise};
pub use reward::RewardPlugin;
pub use stats::Stats;
pub use whet_capability::{Cancel, Services};
