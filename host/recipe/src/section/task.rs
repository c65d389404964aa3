//! `task`, `[sft]` and `[dpo]`: training that samples nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run teaches the model, and from what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Reinforcement learning: the model answers, and rewards (or a teacher) say how good the answers are.
    #[default]
    Rl,
    /// Supervised fine-tuning: the model imitates the answers of the data.
    Sft,
    /// Direct preference optimisation: the model learns which of two answers is preferred.
    Dpo,
    /// A reward model: a scalar head learns to score preferred answers higher.
    RewardModel,
}

/// How answers are imitated (`task = "sft"`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Sft {
    /// Which of the assistant's turns are learnt.
    pub turns: Turns,
}

/// Which of the assistant's turns are learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// All of them.
    #[default]
    All,
    /// The last one; what was said before is context.
    Last,
}

/// How preferences become a loss (`task = "dpo"`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Dpo {
    /// The loss of `h`, by how much more than the reference the model prefers the chosen answer.
    pub loss: DpoLoss,
    /// `β`: how closely the model keeps to the reference, which is the model at the start.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// The part of the preferences that is taken to be the wrong way round.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 0.5))]
    pub label_smoothing: f64,
}

/// Losses of preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DpoLoss {
    /// `-log σ(β h)` (DPO, arXiv 2305.18290).
    #[default]
    Sigmoid,
    /// `max(0, 1 - β h)` (SLiC, arXiv 2305.10425).
    Hinge,
    /// `(h - 1 / (2 β))²` over mean log-probabilities of tokens (IPO, arXiv 2310.12036).
    Ipo,
}

impl Default for Dpo {
    fn default() -> Self {
        Dpo { loss: DpoLoss::default(), beta: 0.1, label_smoothing: 0.0 }
    }
}

impl Task {
    /// As recipes write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Task::Rl => "rl",
            Task::Sft => "sft",
            Task::Dpo => "dpo",
            Task::RewardModel => "reward-model",
        }
    }

    /// Whether it learns from two answers to one prompt.
    pub fn compares(self) -> bool {
        matches!(self, Task::Dpo | Task::RewardModel)
    }
}
