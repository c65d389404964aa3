//! `[train]`: how the loss changes the weights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the loss changes the weights (AdamW).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Train {
    /// Steps of the run: each samples, scores and updates once.
    #[schemars(range(min = 1))]
    pub steps: u64,
    /// Rows, or pairs of answers, of one step; for tasks that sample nothing.
    #[schemars(range(min = 1))]
    pub batch_size: usize,
    /// Highest learning rate.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub learning_rate: f64,
    /// How the learning rate moves after warm-up.
    pub schedule: Schedule,
    /// Optimiser updates over which the learning rate rises from 0.
    pub warmup: u64,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight_decay: f64,
    /// Decay of the running means of the gradient and of its square.
    #[schemars(inner(range(min = 0.0, max = 0.999_999_9)))]
    pub betas: [f64; 2],
    /// Added to the denominator of the update.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// The gradient's norm is cut to this; 0 leaves it.
    #[schemars(range(min = 0.0))]
    pub grad_clip: f64,
    /// Tokens that go through the model at once; the result does not depend on it, memory does.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Recompute each layer in the backward pass: much less memory for about a third more time. On CPUs it is always so.
    pub gradient_checkpointing: bool,
}

/// How the learning rate moves after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Stays.
    #[default]
    Constant,
    /// Falls to 0 along a line.
    Linear,
    /// Falls to 0 along half a cosine.
    Cosine,
}

impl Default for Train {
    fn default() -> Self {
        Train {
            steps: 100,
            batch_size: 16,
            learning_rate: 1e-6,
            schedule: Schedule::default(),
            warmup: 0,
            weight_decay: 0.0,
            betas: [0.9, 0.99],
            eps: 1e-8,
            grad_clip: 1.0,
            micro_batch_tokens: 4096,
            gradient_checkpointing: false,
        }
    }
}
