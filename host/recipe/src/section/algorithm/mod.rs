//! `[algorithm]`: how rewards become a loss.
//!
//! An algorithm is an estimator, a loss, a reduction, penalties and corrections, each a typed value
//! with its own options. A preset names a published combination; every key that a recipe writes
//! itself replaces the preset's. What the kinds compute is in [`crate::definition`], and what a
//! preset stands for in [`crate::preset`].

mod correction;
mod estimator;
mod loss;
mod penalty;

pub use correction::{Against, Correction, Measure, Over, Rejection, WeightLevel};
pub use estimator::{Alignment, Baseline, Estimator, GaeSteps, Gaps, Scale, Singleton, Span, Variance};
pub use loss::{Loss, Old, Ratio, Reduction, Region, Surrogate};
pub use penalty::{AdaptiveKl, Entropy, Kl, KlEstimator, KlGradient, Overlong, Placement, Whiten};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How rewards become a loss: the name of a preset alone, or a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Algorithm {
    /// The published method that the other keys of this section vary.
    pub preset: Preset,
    /// How rewards become advantages.
    pub estimator: Estimator,
    /// What answers lose that come near, or are cut off at, `rollout.max-tokens`.
    pub overlong: Overlong,
    /// Rewards are cut to ± this before advantages; 0 leaves them.
    #[schemars(range(min = 0.0))]
    pub reward_clip: f64,
    /// Whether advantages are brought to mean 0 and deviation 1 over the step's trained tokens.
    pub whiten: Whiten,
    /// Advantages are cut to ± this; 0 leaves them.
    #[schemars(range(min = 0.0))]
    pub advantage_clip: f64,
    /// The policy-gradient term.
    pub loss: Loss,
    /// Over what the probability ratio `r` is formed.
    pub ratio: Ratio,
    /// Bounds the log-ratio to ± this before the exponential; 0 leaves it (verl and OpenRLHF: 20).
    #[schemars(range(min = 0.0))]
    pub ratio_clamp: f64,
    /// Whose probabilities the ratio compares with.
    pub old: Old,
    /// How token losses become one number.
    pub reduction: Reduction,
    /// Penalty for leaving the reference model, which is the model at the start.
    pub kl: Kl,
    /// What entropy is worth, and which tokens are trained by it.
    pub entropy: Entropy,
    /// What is done about rollout and trainer giving the same token different probabilities.
    pub correction: Correction,
    /// Tokens and sequences that are left out of the policy-gradient term, by rule: one rule, or a list of them.
    pub rejection: Vec<Rejection>,
    /// Passes over the samples of a step.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Optimiser updates in each pass; groups are never split.
    #[schemars(range(min = 1))]
    pub minibatches: usize,
}

/// A published method; what it expands to is in `docs/algorithms.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Group relative policy optimisation (arXiv 2402.03300).
    #[default]
    Grpo,
    /// GRPO without its biases by deviation and length (arXiv 2503.20783).
    DrGrpo,
    /// Decoupled clip, token mean, soft overlong penalty (arXiv 2503.14476).
    Dapo,
    /// Group sequence policy optimisation (arXiv 2507.18071).
    Gspo,
    /// REINFORCE with a leave-one-out baseline (arXiv 2402.14740).
    Rloo,
    /// Whitened returns with the KL penalty in the reward (arXiv 2501.03262).
    #[serde(rename = "reinforce++")]
    ReinforcePlusPlus,
    /// The same over the group's mean, with K2 in the loss (arXiv 2501.03262).
    #[serde(rename = "reinforce++-baseline")]
    ReinforcePlusPlusBaseline,
    /// The greedy answer's reward as baseline (arXiv 2310.10505).
    Remax,
    /// Each reward component normalised by itself (arXiv 2601.05242).
    Gdpo,
    /// Length-weighted optimal baseline (arXiv 2505.23585).
    Opo,
    /// Group policy gradient (arXiv 2504.02546).
    Gpg,
    /// Clipped importance weights that keep every token's gradient (arXiv 2506.13585).
    Cispo,
    /// A smooth gate in place of the clip (arXiv 2511.20347).
    Sapo,
    /// Geometric mean of ratios (arXiv 2507.20673).
    Gmpo,
    /// Clip bounds from the second moment of stale tokens (arXiv 2510.01161).
    M2po,
    /// A trust region on probabilities (arXiv 2602.04879).
    Dppo,
    /// No gradient for some tokens of high covariance (arXiv 2505.22617).
    ClipCov,
    /// A penalty on the tokens of highest covariance (arXiv 2505.22617).
    KlCov,
    /// Clipped policy gradient optimisation with drift (arXiv 2505.12504).
    Cpgd,
    /// A quadratic penalty weighted by probability (arXiv 2606.09821).
    Drpo,
    /// Simple policy optimisation: a quadratic penalty (arXiv 2401.16025).
    Spo,
    /// A budget of change along the sequence (arXiv 2606.10968).
    Cppo,
    /// Direct reward optimisation (arXiv 2405.19107).
    Dro,
    /// Soft weights over whole sequences (arXiv 2602.10693).
    Vespo,
    /// Only the best of a group is pushed (arXiv 2503.19595).
    PassAtK,
    /// Advantages relative to the success rate (arXiv 2602.02710).
    Maxrl,
    /// Proximal policy optimisation with a critic (arXiv 1707.06347).
    Ppo,
    /// Optimal token baseline (arXiv 2602.07078).
    Otb,
    /// On-policy distillation from a teacher.
    Distillation,
}

impl Default for Algorithm {
    fn default() -> Self {
        crate::preset::algorithm(Preset::default())
    }
}

/// The kinds of every part that has kinds, each with its default options.
pub(crate) fn kinds(part: &str) -> Vec<Value> {
    fn values<T: Serialize>(all: &[T]) -> Vec<Value> {
        all.iter().filter_map(|kind| serde_json::to_value(kind).ok()).collect()
    }
    match part {
        "estimator" => values(&Estimator::all()),
        "loss" => values(&Loss::all()),
        "reduction" => values(&Reduction::all()),
        "correction" => values(&Correction::all()),
        "rejection" => values(&Rejection::all()),
        _ => Vec::new(),
    }
}
