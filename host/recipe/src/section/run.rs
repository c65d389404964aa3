//! `[eval]`, `[log]`, `[run]`: measuring, writing down, resuming.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How the model is measured on `data.test`: always before the first and after the last step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Eval {
    /// Also after every so many steps; 0 does not.
    pub every: u64,
    /// Rows of the test data to use, from the first; all unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prompts: Option<usize>,
    /// Responses to each prompt.
    #[schemars(range(min = 1))]
    pub samples_per_prompt: usize,
    /// Divides the logits; 0 always takes the likeliest token.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub temperature: f64,
    /// Longest response, in tokens; `rollout.max-tokens` unless given.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
}

/// What the run writes down, beside `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Log {
    /// Write TensorBoard events.
    pub tensorboard: bool,
    /// Write every prompt, response, score and note as JSONL.
    pub trajectories: bool,
    /// Responses of the first step, and of the last table, that are shown on the terminal.
    pub show_samples: usize,
}

/// Where the run lives and how it can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Run {
    /// The run's directory; unless given, `runs/` and the recipe's name, in the current directory.
    pub dir: PathBuf,
    /// Steps between checkpoints; 0 writes one at the end only.
    pub checkpoint_every: u64,
    /// Checkpoints to keep.
    #[schemars(range(min = 1))]
    pub keep: usize,
}

impl Default for Eval {
    fn default() -> Self {
        Eval { every: 0, prompts: None, samples_per_prompt: 1, temperature: 0.0, max_tokens: 256 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log { tensorboard: true, trajectories: true, show_samples: 2 }
    }
}

impl Default for Run {
    fn default() -> Self {
        Run { dir: "runs/recipe".into(), checkpoint_every: 10, keep: 2 }
    }
}
