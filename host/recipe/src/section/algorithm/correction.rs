//! What is done about tokens that another policy sampled than the one trained.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A weight `w = p_old / p_rollout` on the policy-gradient term, bounded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Correction {
    /// No weight.
    None,
    /// Truncated importance sampling.
    Tis {
        /// Largest weight.
        #[schemars(extend("exclusiveMinimum" = 0))]
        cap: f64,
        /// Over what the weight is formed.
        level: WeightLevel,
        /// Weights are divided by their mean over the batch (verl's batch normalisation).
        normalise: bool,
    },
    /// Bounded on both sides (slime's `clip`).
    Clamp {
        /// Least weight.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Largest weight.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
        /// Over what the weight is formed.
        level: WeightLevel,
        /// Weights are divided by their mean over the batch.
        normalise: bool,
    },
    /// Tokens with a weight outside the bounds are left out.
    Icepop {
        /// Least weight.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Largest weight.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
    },
    /// Masked importance sampling: sequences (or tokens) with a weight outside the bounds are left out.
    Mis {
        /// Least weight.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Largest weight.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
        /// Over what the weight is formed.
        level: WeightLevel,
        /// Weights are divided by their mean over the batch.
        normalise: bool,
    },
    /// Token weights, without the sequences whose geometric mean is outside the bounds.
    SeqMaskTis {
        /// Least geometric mean.
        #[schemars(range(min = 0.0))]
        low: f64,
        /// Largest geometric mean.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
    },
}

/// Over what an importance weight is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WeightLevel {
    /// Each token by itself.
    Token,
    /// The product over the sequence.
    Sequence,
    /// The geometric mean over the sequence.
    Geometric,
}

/// A rule by which tokens or sequences are left out of the policy-gradient term. Means keep counting them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Rejection {
    /// What sampler and trainer disagree on too much (verl's `rollout_rs`, AReaL).
    Mismatch {
        /// The measure of a token.
        measure: Measure,
        /// How a sequence's tokens become one measure, or that they do not.
        over: Over,
        /// Least measure; for `ratio` and `k1` a ratio.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<f64>,
        /// Largest measure; for `ratio` and `k1` a ratio.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
    },
    /// Sequences with a token that the trainer holds all but impossible (slime).
    Veto {
        /// A ratio below this spoils the sequence.
        #[schemars(extend("exclusiveMinimum" = 0))]
        below: f64,
    },
    /// Off-policy sequence masking: tokens with `A < 0` in sequences that have become less likely.
    Opsm {
        /// Mean fall of the log-probability that is allowed.
        delta: f64,
        /// From whose log-probability the fall is counted.
        against: Against,
    },
    /// Tokens of the largest squared log-ratio of trainer and sampler, until the mean of the rest is small.
    SecondMoment {
        /// Mean square that may remain.
        #[schemars(extend("exclusiveMinimum" = 0))]
        threshold: f64,
    },
}

/// How far trainer and sampler are apart at a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// `p_old / p_rollout`.
    Ratio,
    /// `p_rollout / p_old`, compared in log space (verl's `k1`).
    K1,
    /// `d² / 2` with `d` the log-ratio.
    K2,
    /// `exp(d) - d - 1` with `d = log p_old - log p_rollout`.
    K3,
    /// The larger divergence of the two-outcome distributions (AReaL's KPop).
    Binary,
}

/// How a sequence's tokens become one measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Each token is judged by itself.
    Token,
    /// Their mean judges the sequence; of ratios the geometric one.
    SequenceMean,
    /// Their sum; of ratios their product.
    SequenceSum,
    /// The greatest.
    SequenceMax,
}

/// From whose log-probability a fall is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The old policy's (slime).
    Old,
    /// The sampler's (TRL).
    Rollout,
}

impl Correction {
    /// TIS over tokens.
    pub fn tis(cap: f64) -> Self {
        Correction::Tis { cap, level: WeightLevel::Token, normalise: false }
    }

    /// Every kind with its default options.
    pub fn all() -> Vec<Correction> {
        vec![
            Correction::None,
            Correction::tis(2.0),
            Correction::Clamp { low: 0.5, high: 2.0, level: WeightLevel::Token, normalise: false },
            Correction::Icepop { low: 0.5, high: 5.0 },
            Correction::Mis { low: 0.5, high: 5.0, level: WeightLevel::Sequence, normalise: false },
            Correction::SeqMaskTis { low: 0.999, high: 1.002 },
        ]
    }
}

impl Rejection {
    /// Every kind with its default options.
    pub fn all() -> Vec<Rejection> {
        vec![
            Rejection::Mismatch { measure: Measure::K3, over: Over::SequenceMean, low: None, high: 0.01 },
            Rejection::Veto { below: 1e-4 },
            Rejection::Opsm { delta: 1e-4, against: Against::Old },
            Rejection::SecondMoment { threshold: 0.04 },
        ]
    }
}
