//! What a batch and an update report.

use serde::Serialize;

/// Wall-clock seconds by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Layers, forward.
    pub forward: f64,
    /// Output layer and log-probabilities, forward and backward.
    pub head: f64,
    /// Layers, backward, recomputation included.
    pub backward: f64,
    /// The reference's forward.
    pub reference: f64,
}

/// What forward-backward found. Losses are those of the whole batch; means, extremes and fractions are over
/// the tokens that were computed: all trained ones, but those of samples without an advantage where the loss
/// has no gradient without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LossMetrics {
    /// The loss that was differentiated.
    pub loss: f64,
    /// Its policy-gradient part.
    pub policy_loss: f64,
    /// Mean divergence from the reference, by the loss's estimator; 0 without one.
    pub kl: f64,
    /// Mean divergence from the teacher's distribution; 0 without one.
    pub teacher: f64,
    /// Fraction of tokens whose loss a bound decided.
    pub clip_fraction: f64,
    /// Mean entropy of the distributions that tokens were drawn from, in nats.
    pub entropy: f64,
    /// Mean ratio `p / p_old`.
    pub ratio_mean: f64,
    /// Least ratio.
    pub ratio_min: f64,
    /// Greatest ratio.
    pub ratio_max: f64,
    /// Mean of `p_old / p_rollout` after its bounds; 1 without a correction.
    pub correction_mean: f64,
    /// Fraction of tokens where a bound of the correction acted.
    pub correction_fraction: f64,
    /// Fraction of tokens that a rule of rejection left out of the policy-gradient term.
    pub rejected: f64,
    /// Mean of `|log p_old - log p_rollout|`: how far trainer and sampler disagree on the same tokens.
    pub mismatch_mean: f64,
    /// Greatest of these.
    pub mismatch_max: f64,
    /// Mean of `log p_rollout - log p_old`, an estimate of the divergence of sampler and trainer.
    pub mismatch_kl: f64,
    /// Trained tokens.
    pub tokens: usize,
    /// Those of them whose log-probabilities were computed.
    pub computed: usize,
    /// Sequences with a trained token.
    pub sequences: usize,
    /// Token rows computed, shared prompts counted once per micro-batch.
    pub rows: usize,
    /// Micro-batches.
    pub micro_batches: usize,
    /// Where time went.
    pub seconds: Seconds,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepMetrics {
    /// Euclidean norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Factor that clipping applied; 1 where the norm was within bounds.
    pub clip_scale: f64,
    /// Learning rate of this update.
    pub lr: f64,
    /// The gradient was not finite (or there was none): weights stay as they were.
    pub skipped: bool,
    /// Updates behind the weights now.
    pub version: u64,
    /// Wall-clock seconds of the update.
    pub seconds: f64,
}

/// Sums over micro-batches that become [`LossMetrics`].
#[derive(Debug)]
pub(crate) struct Meter {
    pub sums: LossMetrics,
}

impl Meter {
    pub fn new(tokens: usize, sequences: usize) -> Meter {
        let sums = LossMetrics {
            ratio_min: f64::INFINITY,
            ratio_max: f64::NEG_INFINITY,
            tokens,
            sequences,
            ..LossMetrics::default()
        };
        Meter { sums }
    }

    /// Sums over tokens become means.
    pub fn finish(self) -> LossMetrics {
        let mut m = self.sums;
        if m.computed == 0 {
            (m.ratio_min, m.ratio_max, m.ratio_mean, m.correction_mean) = (1.0, 1.0, 1.0, 1.0);
            return m;
        }
        for sum in [
            &mut m.kl,
            &mut m.teacher,
            &mut m.clip_fraction,
            &mut m.entropy,
            &mut m.ratio_mean,
            &mut m.correction_mean,
            &mut m.correction_fraction,
            &mut m.rejected,
            &mut m.mismatch_mean,
            &mut m.mismatch_kl,
        ] {
            *sum /= m.computed as f64;
        }
        m
    }
}
