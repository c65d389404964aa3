//! What changes rewards and advantages on their way, and what the loss has beside the policy gradient.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Penalty for leaving the reference model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kl {
    /// Its weight; 0 loads no reference model.
    #[schemars(range(min = 0.0))]
    pub coefficient: f64,
    /// Estimator of the divergence per token.
    pub estimator: KlEstimator,
    /// How its gradient is formed.
    pub gradient: KlGradient,
    /// Where the penalty is.
    pub placement: Placement,
    /// Steers the coefficient to a target divergence; it then begins at `coefficient`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveKl>,
}

/// Estimators of KL(policy || reference) from one token's `d = log p_ref - log p`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KlEstimator {
    /// Unbiased, of either sign.
    K1,
    /// Its absolute value.
    Abs,
    /// Biased, never negative; its gradient is that of the divergence.
    K2,
    /// Never negative, small variance, bounded.
    #[default]
    K3,
    /// K3 without bounds.
    K3Free,
    /// K3 with a bound on the value alone.
    LowVar,
}

/// How the gradient of the divergence is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KlGradient {
    /// That of the value.
    #[default]
    Direct,
    /// That of K2, whatever the value (verl's `k1+`, `k3+`).
    StraightThrough,
    /// The value times the ratio, differentiated (DeepSeek-V3.2's unbiased KL).
    Unbiased,
    /// The value plus the score-function term (NeMo RL).
    Score,
}

/// Where the KL penalty is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Added to the loss.
    #[default]
    Loss,
    /// Taken off the rewards, token by token, before advantages.
    Reward,
}

/// A coefficient that follows the divergence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct AdaptiveKl {
    /// The mean divergence aimed at, in nats per token.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub target: f64,
    /// Sequences over which the coefficient may change by its whole.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub horizon: f64,
}

/// What entropy is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Entropy {
    /// Weight of the entropy that is taken off the loss; 0 leaves it out.
    #[schemars(range(min = 0.0))]
    pub bonus: f64,
    /// Only this share of the tokens, those of highest entropy, has a policy gradient (arXiv 2506.01939: 0.2).
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub top_share: f64,
}

/// What long answers lose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Overlong {
    /// Largest penalty, reached at `rollout.max-tokens`; 0 takes nothing off (DAPO: 1).
    #[schemars(range(min = 0.0))]
    pub penalty: f64,
    /// Tokens before `rollout.max-tokens` over which the penalty rises in a line; a fifth of it unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub buffer: Option<usize>,
    /// Answers that were cut off are not trained on, but count in their group (overlong filtering).
    pub filter: bool,
}

/// Whether advantages are whitened over the step's trained tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whiten {
    /// They are not.
    #[default]
    None,
    /// With the variance over `n - 1` (verl, slime).
    Sample,
    /// With the variance over `n` (OpenRLHF, NeMo RL).
    Population,
}

impl Default for Kl {
    fn default() -> Self {
        Kl {
            coefficient: 0.0,
            estimator: KlEstimator::default(),
            gradient: KlGradient::default(),
            placement: Placement::default(),
            adaptive: None,
        }
    }
}

impl Default for AdaptiveKl {
    fn default() -> Self {
        AdaptiveKl { target: 0.1, horizon: 10_000.0 }
    }
}

impl Default for Entropy {
    fn default() -> Self {
        Entropy { bonus: 0.0, top_share: 1.0 }
    }
}

impl Default for Overlong {
    fn default() -> Self {
        Overlong { penalty: 0.0, buffer: None, filter: false }
    }
}
