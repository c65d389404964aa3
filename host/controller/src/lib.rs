//! Wires roles into a run: steps, data order, weights from trainer to engine, checkpoints, resume.
//!
//! Knows nothing of HTTP or of the command line. One file per concern: [`train`] drives [`step`]s; a step
//! asks and filters ([`gather`], [`rollout`]), scores ([`score`], [`policy`]), learns ([`learn`],
//! [`advantage`]), and hands weights over ([`sync`]). Results are joined on sample ids throughout.

pub mod advantage;
pub mod checkpoint;
pub mod conversation;
pub mod critic;
pub mod directory;
pub mod doctor;
pub mod estimate;
pub mod evaluate;
pub mod gather;
pub mod judges;
pub mod label_lint;
pub mod learn;
pub mod loss;
pub mod offline;
pub mod options;
pub mod plugins;
pub mod policy;
pub mod prompt;
pub mod report;
pub mod rescore;
pub mod rollout;
pub mod saved;
pub mod score;
pub mod seed;
pub mod setup;
pub mod step;
pub mod sync;
pub mod teacher;
pub mod teacher_server;

mod error;
mod imitation;
mod plugin_log;
mod preference;
mod reward_model;
mod run;
mod stop;

pub use error::RunError;
pub use run::{RunEnd, train};
pub use stop::Stop;
