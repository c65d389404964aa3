//! Wires roles into a run: steps, data order, weights from trainer to engine, checkpoints, resume.
//!
//! Knows nothing of HTTP or of the command line. [`train`] drives [`step`]s, of which each asks, scores, learns and
//! hands weights over; tasks without rollouts (SFT, preferences, reward models) are driven by [`offline`]. Results
//! are joined on sample ids throughout.

pub mod checkpoint;
pub mod directory;
pub mod doctor;
pub mod evaluate;
pub mod judges;
pub mod offline;
pub mod options;
pub mod plugins;
pub mod prompt;
pub mod rescore;
pub mod saved;
pub mod seed;
pub mod setup;
pub mod step;

mod error;
mod plugin_log;
mod run;
mod stop;

pub use error::RunError;
pub use run::{RunEnd, train};
pub use stop::Stop;
