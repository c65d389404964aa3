//! Weights for tokens that another policy sampled than the one trained.
//!
//! The rollout engine's probabilities differ a little from the trainer's (other kernels, other
//! batch shapes), and more when weights moved on since. `w = p_old / p_rollout`, bounded, repairs
//! the expectation. The weights are constants: no gradient passes through them.

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
