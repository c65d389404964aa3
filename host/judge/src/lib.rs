//! A language model that judges, for plugins that ask one.
//!
//! [`Judges`] sends questions to OpenAI-compatible endpoints, one per route of the recipe, within each
//! route's concurrency, pace and token budget, and tries again where a failure may pass. Every answer
//! is kept under a digest of its question, on disk when the run has a directory: a question that was
//! answered once is answered alike for ever, at no cost, so that a resumed, replayed or re-scored run
//! has the same rewards. [`Canned`] answers from a file instead, for testing judge plugins offline.
//! Knows nothing of what is judged, and shows no key to anyone.

mod cache;
mod canned;
mod chat;
mod endpoint;
mod judges;
mod pace;

pub use cache::{CacheError, Memory};
pub use canned::{Canned, CannedError};
pub use endpoint::{AddressError, Endpoint, address};
pub use judges::Judges;
