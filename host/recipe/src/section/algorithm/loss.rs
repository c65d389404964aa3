//! The policy-gradient term, the ratio in it, and how tokens become one number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy-gradient term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Loss {
    /// The clipped ratio.
    Clip {
        /// The ratio is clipped below at `1 - low`.
        #[schemars(range(min = 0.0, max = 1.0))]
        low: f64,
        /// The ratio is clipped above at `1 + high`.
        #[schemars(range(min = 0.0))]
        high: f64,
        /// Where `A < 0`, the loss is at most `-dual A` (verl: 3).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 1))]
        dual: Option<f64>,
        /// Bounds the ratio in the branch that is not clipped (TRL's `delta`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        cap: Option<f64>,
    },
    /// The log-probability itself, no ratio.
    Reinforce,
    /// The ratio, never clipped.
    Importance,
    /// The log-probability, weighted by the bounded ratio; `eps-low` and `eps-high` are read as `1 ± eps`.
    Cispo {
        /// Least weight.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Greatest weight.
        #[schemars(range(min = 0.0))]
        high: f64,
        /// `high` holds where `A ≥ 0`, `low` where `A < 0` (Relax).
        by_sign: bool,
    },
    /// A sigmoid of the ratio.
    Sapo {
        /// Temperature where `A > 0`.
        #[schemars(extend("exclusiveMinimum" = 0))]
        positive: f64,
        /// Temperature elsewhere.
        #[schemars(extend("exclusiveMinimum" = 0))]
        negative: f64,
    },
    /// The geometric mean of the sequence's clipped ratios.
    Gmpo {
        /// The log-ratio is at least `-low`.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// The log-ratio is at most `high`.
        #[schemars(range(min = 0.0))]
        high: f64,
    },
    /// The clipped ratio with bounds that keep the second moment of harmful tokens within a budget.
    M2po {
        /// Mean squared log-ratio that harmful tokens may have (paper: 0.04, Relax: 0.01).
        #[schemars(extend("exclusiveMinimum" = 0))]
        budget: f64,
        /// The bound below is at least this.
        #[schemars(range(min = 0.0, max = 1.0))]
        least_low: f64,
        /// The bound above is at least this.
        #[schemars(range(min = 0.0))]
        least_high: f64,
    },
    /// The surrogate inside a trust region on probabilities.
    Dppo {
        /// The region.
        region: Region,
        /// Bound where the probability is to fall.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Bound where the probability is to rise.
        #[schemars(range(min = 0.0))]
        high: f64,
        /// What is summed inside.
        surrogate: Surrogate,
        /// Greatest weight of the detached surrogate.
        #[schemars(extend("exclusiveMinimum" = 0))]
        cap: f64,
        /// Factor of the squared log-ratio (prime-rl: 1e-3).
        #[schemars(range(min = 0.0))]
        drift: f64,
    },
    /// The clipped ratio, but nothing at some tokens of high covariance.
    ClipCov {
        /// The ratio is clipped below at `1 - low`.
        #[schemars(range(min = 0.0, max = 1.0))]
        low: f64,
        /// The ratio is clipped above at `1 + high`.
        #[schemars(range(min = 0.0))]
        high: f64,
        /// Candidates have a covariance between these.
        covariance: [f64; 2],
        /// Share of the tokens that is picked.
        #[schemars(range(min = 0.0, max = 1.0))]
        share: f64,
    },
    /// The ratio, with a penalty at the tokens of highest covariance.
    KlCov {
        /// Factor of the penalty.
        #[schemars(range(min = 0.0))]
        coefficient: f64,
        /// Share of the tokens that is picked.
        #[schemars(range(min = 0.0, max = 1.0))]
        share: f64,
    },
    /// The clipped log-probability.
    Cpgd {
        /// The probability falls to `1 - low` of the old one at most.
        #[schemars(range(min = 0.0, max = 1.0))]
        low: f64,
        /// The probability rises to `1 + high` of the old one at most.
        #[schemars(range(min = 0.0))]
        high: f64,
    },
    /// The ratio with a quadratic penalty, weighted by the old probability.
    Drpo {
        /// Size of the trust region.
        #[schemars(extend("exclusiveMinimum" = 0))]
        eps: f64,
    },
    /// The ratio with a quadratic penalty.
    Spo {
        /// Size of the trust region.
        #[schemars(extend("exclusiveMinimum" = 0))]
        eps: f64,
    },
    /// The ratio where a budget of change along the sequence allows it.
    Cppo {
        /// Greatest change of one token's probability.
        #[schemars(extend("exclusiveMinimum" = 0))]
        delta: f64,
        /// Weight of the last token; the first has 1.
        #[schemars(range(min = 0.0, max = 1.0))]
        least_weight: f64,
        /// Least rate at which the budget grows.
        #[schemars(range(min = 0.0))]
        rate: f64,
    },
    /// The log-probability with a quadratic penalty.
    Dro {
        /// Factor of the penalty.
        #[schemars(extend("exclusiveMinimum" = 0))]
        beta: f64,
    },
    /// The log-probability, weighted smoothly by the ratio of whole sequences.
    Vespo {
        /// No gradient passes through the weight, as in the paper.
        detached: bool,
        /// `k` and `λ` where `A ≥ 0`.
        positive: [f64; 2],
        /// `k` and `λ` where `A < 0`.
        negative: [f64; 2],
    },
}

/// What DPPO bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// How far the probability moves where the advantage points.
    TotalVariation,
    /// The divergence of the two-outcome distributions.
    BinaryKl,
    /// How far the probability moves, wherever; `high` is the bound (prime-rl).
    Absolute,
}

/// What DPPO sums inside its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Surrogate {
    /// The log-probability, weighted by the capped ratio (verl).
    Detached,
    /// The ratio (prime-rl).
    Ratio,
}

/// Over what `r = p / p_old` is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// Each token by itself (PPO).
    #[default]
    Token,
    /// The geometric mean over the sequence (GSPO; TRL, slime, NeMo RL, AReaL).
    Sequence,
    /// The value of `sequence`, the gradient of `token` (GSPO-token; verl's `gspo`).
    SequenceToken,
}

/// Whose probabilities the ratio compares with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Old {
    /// The trainer's before the first update of the step; with a correction this is decoupled PPO.
    #[default]
    Trainer,
    /// The rollout's: the ratio corrects for both (verl's bypass mode).
    Rollout,
    /// The trainer's at this very update: the ratio is 1, a plain policy gradient (true on-policy).
    Current,
}

/// How token losses become one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Reduction {
    /// Mean over all sampled tokens of the batch: long responses weigh more.
    TokenMean,
    /// Sum over all sampled tokens.
    TokenSum,
    /// Mean over responses of each one's token mean: every response weighs the same.
    SeqMeanTokenMean,
    /// Mean over responses of each one's token sum.
    SeqMeanTokenSum,
    /// The same over a constant length: no bias by length.
    SeqMeanTokenSumNorm {
        /// The constant; `rollout.max-tokens` unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        length: Option<f64>,
    },
}

impl Loss {
    /// PPO's.
    pub fn clip(low: f64, high: f64) -> Self {
        Loss::Clip { low, high, dual: None, cap: None }
    }

    /// Every kind with its default options.
    pub fn all() -> Vec<Loss> {
        vec![
            Loss::clip(0.2, 0.2),
            Loss::Reinforce,
            Loss::Importance,
            Loss::Cispo { low: 0.0, high: 5.0, by_sign: false },
            Loss::Sapo { positive: 1.0, negative: 1.05 },
            Loss::Gmpo { low: 0.4, high: 0.4 },
            Loss::M2po { budget: 0.04, least_low: 0.3, least_high: 0.5 },
            Loss::Dppo {
                region: Region::TotalVariation,
                low: 0.2,
                high: 0.2,
                surrogate: Surrogate::Detached,
                cap: 20.0,
                drift: 0.0,
            },
            Loss::ClipCov { low: 0.2, high: 0.2, covariance: [1.0, 5.0], share: 2e-4 },
            Loss::KlCov { coefficient: 0.1, share: 2e-4 },
            Loss::Cpgd { low: 0.2, high: 0.2 },
            Loss::Drpo { eps: 12.5 },
            Loss::Spo { eps: 12.5 },
            Loss::Cppo { delta: 0.2, least_weight: 0.8, rate: 0.02 },
            Loss::Dro { beta: 0.05 },
            Loss::Vespo { detached: true, positive: [2.0, 3.0], negative: [3.0, 2.0] },
        ]
    }

    /// Whether the loss has its own idea of what a token's ratio is, so that one over sequences is never read.
    pub fn by_token(&self) -> bool {
        use Loss as L;
        matches!(
            self,
            L::Reinforce
                | L::Gmpo { .. }
                | L::M2po { .. }
                | L::Dppo { .. }
                | L::ClipCov { .. }
                | L::KlCov { .. }
                | L::Cpgd { .. }
                | L::Drpo { .. }
                | L::Cppo { .. }
                | L::Dro { .. }
                | L::Vespo { .. }
        )
    }

    /// Whether the loss compares with an old policy at all.
    pub fn has_ratio(&self) -> bool {
        *self != Loss::Reinforce
    }
}

impl Reduction {
    /// Every kind with its default options.
    pub fn all() -> Vec<Reduction> {
        vec![
            Reduction::TokenMean,
            Reduction::TokenSum,
            Reduction::SeqMeanTokenMean,
            Reduction::SeqMeanTokenSum,
            Reduction::SeqMeanTokenSumNorm { length: None },
        ]
    }
}
