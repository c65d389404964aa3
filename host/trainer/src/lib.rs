//! Losses, optimiser, packing, checkpoints; does not know where samples come from.
//!
//! The verbs of [`Trainer`] are those of a training service: log-probabilities, forward-backward,
//! optimiser step, save, load, export. A batch's loss is defined once, over the whole batch;
//! micro-batches only sum, so that every split of a batch has the same gradient.

mod batch;
mod body;
mod checkpoint;
mod distil;
mod distribution;
mod frozen;
mod head;
mod kernels;
mod layout;
mod lora;
pub mod loss;
mod metrics;
mod optimiser;
mod plan;
mod preference;
mod sample;
mod supervised;
mod tensorfile;
#[cfg(test)]
mod tests;
mod trainer;
mod values;

pub use checkpoint::CheckpointError;
pub use distil::{Distillation, Support, Teacher, Told};
pub use distribution::Distribution;
pub use frozen::Frozen;
pub use lora::{LoraOptions, MODULES};
pub use loss::{KlTerm, LossError, LossOptions, Objective, OldPolicy, Ratio, RatioLevel};
pub use metrics::{LossMetrics, Seconds, StepMetrics};
pub use optimiser::{AdamW, Decay, Schedule};
pub use preference::{Pair, PairLogProbs, PreferenceMetrics};
pub use sample::{SampleError, TrainSample};
pub use supervised::SupervisedMetrics;
pub use trainer::{TrainOptions, Trainer, Which};
pub use values::{Goal, TextPair, ValueMetrics, ValueModel};

use std::path::{Path, PathBuf};

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// A loss makes no sense.
    #[error(transparent)]
    Loss(#[from] LossError),
    /// A sample cannot be trained on.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The model's tensors do not fit its configuration.
    #[error(transparent)]
    Model(#[from] whet_model::ModelError),
    /// A checkpoint is torn or of another model.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// libtorch refused an operation, mostly for want of memory.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl TrainError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        TrainError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, reason: &dyn std::fmt::Display) -> Self {
        TrainError::Format { path: path.to_owned(), reason: reason.to_string() }
    }
}
