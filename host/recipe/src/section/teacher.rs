//! `[teacher]`: the model that a student is distilled from.

use super::Dtype;
use crate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A model that is not trained, whose probabilities the trained one learns: in the advantages, with
/// `algorithm.estimator = "distillation"`, or in the loss, with `loss`. It must have the trained model's tokenizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Teacher {
    /// A model that is loaded here, written as `model.source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub source: Option<String>,
    /// Precision of a teacher that is loaded here.
    pub dtype: Dtype,
    /// A server that has the teacher, up to `/v1`: vLLM, SGLang, or another with OpenAI's `/completions` that echoes a
    /// prompt's log-probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("examples" = ["http://localhost:8000/v1"]))]
    pub base_url: Option<String>,
    /// The teacher's name at the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The environment variable that holds the server's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub api_key_env: Option<String>,
    /// How long the server may take for one sequence.
    pub timeout: Time,
    /// How often a request that failed for a passing reason is sent again.
    #[schemars(range(max = 20))]
    pub retries: u32,
    /// Requests at once.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: usize,
    /// The divergence from the teacher's distributions, added to the loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<TeacherLoss>,
}

/// The divergence from the teacher's distributions at every sampled token, added to the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct TeacherLoss {
    /// Which divergence.
    pub divergence: TeacherDivergence,
    /// The teacher's weight in the mixture of `jensen` (TRL's `beta`).
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub beta: f64,
    /// Compare over this many tokens only; 0 compares over the whole vocabulary, which a server cannot tell.
    pub top_k: usize,
    /// Whose likeliest tokens these are.
    pub tokens: TopTokens,
    /// What becomes of the probability of the other tokens.
    pub rest: RestOfTokens,
    /// Weight in the loss.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub coefficient: f64,
    /// Leave the policy-gradient term out: rewards are then measured, not learnt from. Without a `[reward]` it is so anyway.
    pub alone: bool,
}

/// Divergences between the student's and the teacher's distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherDivergence {
    /// `KL(student || teacher)`: the student keeps to what the teacher would do.
    #[default]
    Reverse,
    /// `KL(teacher || student)`: the student covers what the teacher does.
    Forward,
    /// `β KL(teacher || M) + (1 - β) KL(student || M)` with `M = β teacher + (1 - β) student` (arXiv 2306.13649).
    Jensen,
}

/// Whose likeliest tokens are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopTokens {
    /// The teacher's.
    #[default]
    Teacher,
    /// The student's.
    Student,
}

/// What becomes of the probability of tokens that are not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestOfTokens {
    /// It is one more outcome.
    #[default]
    Bin,
    /// Both distributions are made to sum to 1 without it.
    Renormalise,
    /// It is left out.
    Drop,
}

impl Default for Teacher {
    fn default() -> Self {
        Teacher {
            source: None,
            dtype: Dtype::default(),
            base_url: None,
            model: None,
            api_key_env: None,
            timeout: Time(Duration::from_secs(120)),
            retries: 3,
            concurrency: 8,
            loss: None,
        }
    }
}

impl Default for TeacherLoss {
    fn default() -> Self {
        TeacherLoss {
            divergence: TeacherDivergence::default(),
            beta: 0.5,
            top_k: 0,
            tokens: TopTokens::default(),
            rest: RestOfTokens::default(),
            coefficient: 1.0,
            alone: false,
        }
    }
}
