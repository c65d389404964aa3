//! `[rollout]`: how responses are sampled.

use crate::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How responses are sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Rollout {
    /// Prompts of one step.
    #[schemars(range(min = 1))]
    pub prompts_per_step: usize,
    /// Responses to each prompt: the group that advantages compare.
    #[schemars(range(min = 1))]
    pub samples_per_prompt: usize,
    /// Sample on until enough groups pass the filters; without it a step trains on what they leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<Dynamic>,
    /// Longest response, in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
    /// Divides the logits; 0 always takes the likeliest token.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub temperature: f64,
    /// Keep the likeliest tokens whose probabilities reach this sum; 1 keeps all.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub top_p: f64,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep tokens that are at least this likely relative to the likeliest; 0 keeps all.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: f64,
    /// Texts that end a response.
    #[schemars(inner(length(min = 1)))]
    pub stop: Vec<String>,
    /// Token ids that end a response, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// Memory for keys and values of running sequences.
    pub kv_budget: ByteSize,
    /// Most sequences decoded at once.
    #[schemars(range(min = 1))]
    pub max_running: usize,
}

/// Dynamic sampling: every step trains on `prompts-per-step` groups that pass the filters (DAPO, arXiv 2503.14476).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Dynamic {
    /// The first attempt asks so many times the prompts of a step; later ones ask for what is missing.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub oversample: f64,
    /// Attempts of one step. After the last, groups that a filter would spare fill what is missing, and if they do not
    /// suffice the run stops.
    #[schemars(range(min = 1))]
    pub max_attempts: usize,
}

impl Default for Dynamic {
    fn default() -> Self {
        Dynamic { oversample: 1.5, max_attempts: 10 }
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Rollout {
            prompts_per_step: 8,
            samples_per_prompt: 8,
            dynamic: None,
            max_tokens: 256,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            stop: Vec::new(),
            stop_ids: Vec::new(),
            kv_budget: ByteSize(1 << 30),
            max_running: 256,
        }
    }
}
