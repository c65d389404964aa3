//! Weights for tokens that another policy sampled than the one trained.
//!
//! The rollout engine's probabilities differ a little from the trainer's (other kernels, other
//! batch shapes), and more when weights moved on since. `w = p_old / p_rollout`, bounded, repairs
//! the expectation. The weights are constants: no gradient passes through them.

use crate::kl::KlEstimator;

/// Over what the ratio is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each token by itself.
    Token,
    /// The product over the sequence's trained tokens.
    Sequence,
    /// The geometric mean over the sequence's trained tokens.
    Geometric,
}

/// What a ratio outside its bounds becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The bound (truncated importance sampling).
    Bound,
    /// 0: the token, or the sequence, is left out (IcePop, masked importance sampling).
    Zero,
}

/// The range a ratio may have; no bound where `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Least ratio.
    pub low: Option<f64>,
    /// Greatest ratio.
    pub high: Option<f64>,
}

/// A bounded importance weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// Over what the ratio is formed.
    pub level: Level,
    /// The range it may have.
    pub bounds: Bounds,
    /// What it becomes outside.
    pub outside: Outside,
    /// Bounds the log-ratio to `±` this before the exponential, if set (verl, slime's MIS: 20).
    pub clamp_log: Option<f64>,
}

impl Correction {
    /// Truncated importance sampling per token: `min(p_old / p_rollout, cap)`.
    ///
    /// Source: "Your efficient RL framework secretly brings you off-policy RL training" (TIS); slime `--use-tis`.
    pub fn truncated(cap: f64) -> Self {
        Correction {
            level: Level::Token,
            bounds: Bounds { low: None, high: Some(cap) },
            outside: Outside::Bound,
            clamp_log: None,
        }
    }

    /// The weights of one sequence's tokens; a masked token has weight 1 at token level, and the
    /// sequence's at the others.
    ///
    /// * `old`, `rollout`: log-probabilities by the trainer and by the sampler
    /// * `mask`: which tokens are trained
    pub fn weights(&self, old: &[f64], rollout: &[f64], mask: &[bool]) -> Vec<f64> {
        let log_ratio = |t: usize| if mask[t] { old[t] - rollout[t] } else { 0.0 };
        let trained = mask.iter().filter(|&&m| m).count().max(1) as f64;
        let total: f64 = (0..old.len()).map(log_ratio).sum();
        (0..old.len())
            .map(|t| match self.level {
                Level::Token => log_ratio(t),
                Level::Sequence => total,
                Level::Geometric => total / trained,
            })
            .map(|log_weight| self.bound(log_weight))
            .collect()
    }

    /// The weight that a log-ratio becomes.
    pub fn bound(&self, log_ratio: f64) -> f64 {
        let ratio = self.clamp_log.map_or(log_ratio, |bound| log_ratio.clamp(-bound, bound)).exp();
        let low = self.bounds.low.unwrap_or(0.0);
        let high = self.bounds.high.unwrap_or(f64::INFINITY);
        match self.outside {
            Outside::Bound => ratio.max(low).min(high),
            Outside::Zero if ratio < low || ratio > high => 0.0,
            Outside::Zero => ratio,
        }
    }
}

/// How a rejection measures the distance of trainer and sampler at a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// `p_old / p_rollout`; over a sequence in log space, so that the mean is the geometric one.
    Ratio,
    /// A divergence.
    Divergence {
        /// Its estimator.
        estimator: KlEstimator,
        /// Of the sampler from the trainer (verl, where K1 is `-log ratio`), or of the trainer from the sampler
        /// (AReaL, where K1 is `log ratio`).
        of_sampler: bool,
    },
    /// The larger of both divergences between the two-outcome distributions (AReaL).
    Binary,
}

/// How the tokens of a sequence become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
    /// The greatest.
    Max,
}

/// Leaves out tokens, or whole sequences, that sampler and trainer disagree on too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejection {
    /// The measure.
    pub metric: Metric,
    /// Over a sequence's trained tokens, or each token by itself.
    pub over: Option<Aggregate>,
    /// What it may be.
    pub bounds: Bounds,
}

impl Rejection {
    /// Which tokens of one sequence are within bounds. A sequence without a trained token is, as its measure
    /// is 0 (and its ratio 1).
    pub fn within(&self, old: &[f64], rollout: &[f64], mask: &[bool]) -> Vec<bool> {
        let fits = |measure: f64| {
            let low = self.bounds.low.unwrap_or(f64::NEG_INFINITY);
            let high = self.bounds.high.unwrap_or(f64::INFINITY);
            measure >= low && measure <= high
        };
        let Some(aggregate) = self.over else {
            return (0..mask.len()).map(|t| fits(self.measure(old[t], rollout[t]))).collect();
        };
        let by_ratio = self.metric == Metric::Ratio;
        let one = |t: usize| {
            if by_ratio { finite(old[t] - rollout[t]) } else { self.measure(old[t], rollout[t]) }
        };
        let trained: Vec<f64> = (0..mask.len()).filter(|&t| mask[t]).map(one).collect();
        let whole = match aggregate {
            _ if trained.is_empty() => 0.0,
            Aggregate::Sum => trained.iter().sum(),
            Aggregate::Mean => trained.iter().sum::<f64>() / trained.len() as f64,
            Aggregate::Max => trained.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        vec![fits(if by_ratio { whole.exp() } else { whole }); mask.len()]
    }

    fn measure(&self, old: f64, rollout: f64) -> f64 {
        match self.metric {
            Metric::Ratio => finite(old - rollout).exp(),
            Metric::Divergence { estimator, of_sampler: true } => estimator.value(rollout, old),
            Metric::Divergence { estimator, of_sampler: false } => estimator.value(old, rollout),
            Metric::Binary => binary_kl(old, rollout).max(binary_kl(rollout, old)),
        }
    }
}

/// A log-ratio of two impossible events says nothing.
fn finite(log_ratio: f64) -> f64 {
    if log_ratio.is_finite() { log_ratio } else { 0.0 }
}

/// `KL(P || Q)` where only two outcomes are told apart: the token and all others.
pub fn binary_kl(log_p: f64, log_q: f64) -> f64 {
    let probability = |log: f64| log.exp().clamp(1e-8, 1.0 - 1e-8);
    let (p, q) = (probability(log_p), probability(log_q));
    p * (p / q).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).ln()
}

/// Whether any trained token of a sequence has a ratio below `threshold`: a token that the trainer holds all but
/// impossible spoils the whole sequence (slime's veto).
pub fn vetoed(old: &[f64], rollout: &[f64], mask: &[bool], threshold: f64) -> bool {
    (0..mask.len()).any(|t| mask[t] && old[t] - rollout[t] < threshold.ln())
}

/// Divides all weights by their mean, so that a correction does not change the scale of the loss: the mean over
/// trained tokens, or over the sequences' means where each sequence has one weight.
///
/// * `empty`: whether sequences without a trained token count, as 0 (slime), or not (verl)
pub fn normalise(weights: &mut [Vec<f64>], masks: &[Vec<bool>], level: Level, empty: bool) {
    let trained = |s: usize| masks[s].iter().filter(|&&m| m).count();
    let sum = |s: usize| weights[s].iter().zip(&masks[s]).filter(|(_, m)| **m).map(|(w, _)| w).sum::<f64>();
    let rows = 0..weights.len();
    let mean = if level == Level::Token {
        rows.clone().map(sum).sum::<f64>() / rows.map(trained).sum::<usize>().max(1) as f64
    } else {
        let counted: Vec<usize> = rows.filter(|&s| empty || trained(s) > 0).collect();
        counted.iter().map(|&s| sum(s) / trained(s).max(1) as f64).sum::<f64>() / counted.len().max(1) as f64
    };
    if mean > 1e-8 {
        weights.iter_mut().flatten().for_each(|w| *w /= mean);
    }
}

/// How far trainer and sampler are apart over a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    /// Mean over sequences of the trainer's perplexity.
    pub trainer_perplexity: f64,
    /// Mean over sequences of its logarithm.
    pub trainer_log_perplexity: f64,
    /// Mean over sequences of the sampler's perplexity.
    pub rollout_perplexity: f64,
    /// Mean over sequences of its logarithm.
    pub rollout_log_perplexity: f64,
    /// Mean over trained tokens of `log p_rollout - log p_old`.
    pub kl: f64,
    /// Mean over trained tokens of K3.
    pub k3: f64,
    /// Mean of the squared ratio less 1, over trained tokens.
    pub chi2_token: f64,
    /// The same of sequences' ratios, over sequences.
    pub chi2_sequence: f64,
}

/// Statistics of the mismatch; a sequence without a trained token enters the means over sequences as one of
/// log-perplexity 0, as in verl. Log-ratios are bounded at ±20 where they are squared.
pub fn mismatch(old: &[Vec<f64>], rollout: &[Vec<f64>], masks: &[Vec<bool>]) -> Mismatch {
    let trained = |s: usize| (0..masks[s].len()).filter(move |&t| masks[s][t]);
    let count: usize = (0..masks.len()).map(|s| trained(s).count()).sum();
    let over_tokens = |f: &dyn Fn(f64) -> f64| {
        let sum: f64 =
            (0..masks.len()).flat_map(|s| trained(s).map(move |t| f(old[s][t] - rollout[s][t]))).sum();
        sum / count.max(1) as f64
    };
    let over_sequences =
        |f: &dyn Fn(usize) -> f64| (0..masks.len()).map(f).sum::<f64>() / masks.len().max(1) as f64;
    let log_perplexity = |list: &[Vec<f64>], s: usize| {
        -trained(s).map(|t| list[s][t]).sum::<f64>() / trained(s).count().max(1) as f64
    };
    let squared = |log_ratio: f64| (2.0 * log_ratio.clamp(-20.0, 20.0)).exp();
    let total = |s: usize| trained(s).map(|t| old[s][t] - rollout[s][t]).sum::<f64>();
    Mismatch {
        trainer_perplexity: over_sequences(&|s| log_perplexity(old, s).exp()),
        trainer_log_perplexity: over_sequences(&|s| log_perplexity(old, s)),
        rollout_perplexity: over_sequences(&|s| log_perplexity(rollout, s).exp()),
        rollout_log_perplexity: over_sequences(&|s| log_perplexity(rollout, s)),
        kl: over_tokens(&|log_ratio| -log_ratio),
        k3: over_tokens(&|log_ratio| log_ratio.exp_m1() - log_ratio),
        chi2_token: over_tokens(&squared) - 1.0,
        chi2_sequence: over_sequences(&|s| squared(total(s))) - 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [f64; 3] = [-1.0, -2.0, -0.5];
    const ROLLOUT: [f64; 3] = [-1.0, -4.0, -0.25];

    #[test]
    fn truncation_keeps_small_ratios_and_caps_large_ones() {
        let weights = Correction::truncated(2.0).weights(&OLD, &ROLLOUT, &[true; 3]);
        assert_eq!(weights, vec![1.0, 2.0, (-0.25f64).exp()]);
    }

    #[test]
    fn icepop_drops_what_is_outside() {
        let icepop = Correction { outside: Outside::Zero, ..Correction::truncated(2.0) };
        assert_eq!(icepop.weights(&OLD, &ROLLOUT, &[true; 3])[1], 0.0);
    }

    #[test]
    fn masked_tokens_never_enter_a_sequence_ratio() {
        for level in [Level::Sequence, Level::Geometric] {
            let correction = Correction { level, ..Correction::truncated(100.0) };
            let plain = correction.weights(&OLD, &ROLLOUT, &[true, false, true]);
            let other = correction.weights(&[-1.0, f64::NAN, -0.5], &ROLLOUT, &[true, false, true]);
            assert_eq!(plain, other);
        }
    }
}
