//! `[algorithm]`: how rewards become a loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How rewards become a loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Algorithm {
    /// The published method that the other keys of this section vary.
    pub preset: Preset,
    /// What the centred reward is divided by.
    pub scale: Scale,
    /// The probability ratio is clipped below at `1 - clip-low`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub clip_low: f64,
    /// The probability ratio is clipped above at `1 + clip-high`.
    #[schemars(range(min = 0.0))]
    pub clip_high: f64,
    /// Penalty for leaving the reference model, which is the model at the start.
    pub kl: Kl,
    /// How token losses become one number.
    pub reduction: Reduction,
    /// What is done about rollout and trainer giving the same token different probabilities.
    pub correction: Correction,
    /// Passes over the samples of a step.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Optimiser updates in each pass; groups are never split.
    #[schemars(range(min = 1))]
    pub minibatches: usize,
}

/// A published method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Group relative policy optimisation (arXiv 2402.03300).
    #[default]
    Grpo,
}

/// What the centred reward is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The standard deviation of the prompt's group.
    #[default]
    Group,
    /// The standard deviation of the whole batch.
    Batch,
    /// Nothing (Dr. GRPO, arXiv 2503.20783).
    None,
}

/// Penalty for leaving the reference model, added to the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kl {
    /// Estimator of the divergence per token.
    pub estimator: KlEstimator,
    /// Weight in the loss; 0 loads no reference model.
    #[schemars(range(min = 0.0))]
    pub coefficient: f64,
}

/// Estimators of KL(policy || reference) from one token's log-ratio `d = log p - log p_ref`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KlEstimator {
    /// `d`.
    K1,
    /// `d^2 / 2`.
    K2,
    /// `exp(-d) - 1 + d`: never negative, small variance.
    #[default]
    K3,
}

/// How token losses become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    /// Mean over all sampled tokens of the batch: long responses weigh more.
    #[default]
    TokenMean,
    /// Mean over responses of each one's token mean: every response weighs the same.
    SeqMeanTokenMean,
}

/// Importance correction between the rollout's log-probabilities and the trainer's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Correction {
    /// The correction.
    pub kind: CorrectionKind,
    /// Largest weight of a token.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cap: f64,
}

/// Kinds of importance correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectionKind {
    /// No correction.
    None,
    /// Truncated importance sampling: each token's loss is multiplied by `min(p_trainer / p_rollout, cap)`.
    #[default]
    Tis,
}

impl Default for Algorithm {
    fn default() -> Self {
        Algorithm {
            preset: Preset::default(),
            scale: Scale::default(),
            clip_low: 0.2,
            clip_high: 0.2,
            kl: Kl::default(),
            reduction: Reduction::default(),
            correction: Correction::default(),
            epochs: 1,
            minibatches: 1,
        }
    }
}

impl Default for Kl {
    fn default() -> Self {
        Kl { estimator: KlEstimator::default(), coefficient: 0.0 }
    }
}

impl Default for Correction {
    fn default() -> Self {
        Correction { kind: CorrectionKind::default(), cap: 2.0 }
    }
}
