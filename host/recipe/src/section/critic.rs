//! `[critic]`: the model of values that `estimator = "gae"` reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model that says what reward is to be expected at every token; it learns beside the policy (PPO).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Critic {
    /// The model it starts from, written as `model.source`; the policy's unless given. It must have the policy's
    /// tokenizer. A reward model that Whet or transformers saved brings its head along; any other gets a head of zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub source: Option<String>,
    /// Highest learning rate.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub learning_rate: f64,
    /// The critic's updates over which its learning rate rises from 0.
    pub warmup: u64,
    /// Steps at the start in which the critic alone learns, so that the policy never follows values that mean nothing.
    pub critic_only_steps: u64,
    /// How far a value may move from what it was at the start of the step before its loss stops falling; 0 sets no
    /// bound. verl and OpenRLHF have 0.5, slime and Relax 0.2.
    #[schemars(range(min = 0.0))]
    pub value_clip: f64,
    /// Errors beyond this count linearly rather than squared (AReaL has 10); 0 squares all.
    #[schemars(range(min = 0.0))]
    pub huber: f64,
    /// Passes over the samples of a step.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Optimiser updates in each pass; groups are never split.
    #[schemars(range(min = 1))]
    pub minibatches: usize,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight_decay: f64,
    /// The gradient's norm is cut to this; 0 leaves it.
    #[schemars(range(min = 0.0))]
    pub grad_clip: f64,
}

impl Default for Critic {
    fn default() -> Self {
        Critic {
            source: None,
            learning_rate: 1e-5,
            warmup: 0,
            critic_only_steps: 0,
            value_clip: 0.2,
            huber: 0.0,
            epochs: 1,
            minibatches: 1,
            weight_decay: 0.0,
            grad_clip: 1.0,
        }
    }
}
