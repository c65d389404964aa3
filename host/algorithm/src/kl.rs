//! Estimators of `KL(policy || reference)` from the log-probabilities of sampled tokens.
//!
//! With `d = log p_ref - log p`, all of them are unbiased or low-variance samples of the same
//! divergence (Schulman, "Approximating KL divergence"). Peers clamp them differently; the
//! clamps are part of the value, and no gradient passes where one acts.

/// Which sample of the divergence is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kl {
    /// `-d`: unbiased, of either sign.
    K1,
    /// `|d|`.
    Abs,
    /// `d² / 2`: biased, never negative; its gradient is that of the divergence.
    K2,
    /// `exp(d) - d - 1`: unbiased, never negative ("low variance").
    K3,
}

/// How the gradient of the estimate is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KlGradient {
    /// That of the value.
    #[default]
    Direct,
    /// That of K2, whatever the value (verl's suffix `+`): as an expectation, the true gradient.
    StraightThrough,
    /// The value times `exp(log p - log p_old)`, differentiated (DeepSeek-V3.2, slime `unbiased`, TRL
    /// `use_bias_correction_kl`).
    Reweighted,
    /// The value times `exp(log p - sg(log p))`: equal value, plus the score-function term (NeMo RL).
    Score,
}

/// An estimator with its clamps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KlEstimator {
    /// The sample taken.
    pub kl: Kl,
    /// Bounds `d` to `±` this before use, if set. verl and NeMo RL: 20.
    pub clamp_ratio: Option<f64>,
    /// Bounds the estimate to `±` this, if set. verl and NeMo RL, OpenRLHF, AReaL: 10.
    pub clamp_value: Option<f64>,
    /// How the gradient is formed.
    pub gradient: KlGradient,
}

impl KlEstimator {
    /// As the formula says, without clamps (TRL, LightRFT, slime's `k1`, `k2`, `k3`).
    pub fn plain(kl: Kl) -> Self {
        KlEstimator { kl, clamp_ratio: None, clamp_value: None, gradient: KlGradient::Direct }
    }

    /// As verl bounds it: K3 with `d` in ±20 and the value in ±10, the others as they are.
    pub fn bounded(kl: Kl) -> Self {
        match kl {
            Kl::K3 => KlEstimator { clamp_ratio: Some(20.0), clamp_value: Some(10.0), ..Self::plain(kl) },
            _ => Self::plain(kl),
        }
    }

    /// Without a bound on `d`, the value in `±bound` (OpenRLHF and AReaL with 10; slime's `low_var_kl`).
    pub fn bounded_value(kl: Kl, bound: f64) -> Self {
        KlEstimator { clamp_value: Some(bound), ..Self::plain(kl) }
    }

    /// The estimate for one token, in nats.
    pub fn value(&self, log_prob: f64, reference: f64) -> f64 {
        let mut d = reference - log_prob;
        if let Some(bound) = self.clamp_ratio {
            d = d.clamp(-bound, bound);
        }
        let value = match self.kl {
            Kl::K1 => -d,
            Kl::Abs => d.abs(),
            Kl::K2 => 0.5 * d * d,
            // exp_m1 keeps the digits of small differences, where K3 is of the order of d².
            Kl::K3 => d.exp_m1() - d,
        };
        self.clamp_value.map_or(value, |bound| value.clamp(-bound, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_policies_do_not_diverge() {
        for kl in [Kl::K1, Kl::Abs, Kl::K2, Kl::K3] {
            assert_eq!(KlEstimator::plain(kl).value(-1.25, -1.25), 0.0);
        }
    }

    #[test]
    fn k1_and_k3_average_to_the_divergence() {
        let (p, q) = ([0.7f64, 0.2, 0.1], [0.5f64, 0.25, 0.25]);
        let exact: f64 = p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum();
        for kl in [Kl::K1, Kl::K3] {
            let average: f64 =
                p.iter().zip(q).map(|(p, q)| p * KlEstimator::plain(kl).value(p.ln(), q.ln())).sum();
            assert!((average - exact).abs() < 1e-12, "{kl:?}: {average} instead of {exact}");
        }
    }

    #[test]
    fn k3_is_never_negative_and_small_near_zero() {
        for step in -100..100 {
            let d = f64::from(step) * 1e-9;
            let value = KlEstimator::plain(Kl::K3).value(0.0, d);
            assert!((value - 0.5 * d * d).abs() <= 1e-21, "{d}: {value}");
        }
    }

    #[test]
    fn bounds_hold_at_the_extremes() {
        let k3 = KlEstimator::bounded(Kl::K3);
        assert_eq!(k3.value(-50.0, 0.0), 10.0);
        assert_eq!(KlEstimator::bounded(Kl::K1).value(-50.0, 0.0), -50.0);
    }
}
