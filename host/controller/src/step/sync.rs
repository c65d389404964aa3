//! Handing new weights to the engine, and proving that they arrived.
//!
//! A fixed text is kept for the whole run. After every update the engine's log-probs of it must equal the
//! trainer's, and differ from those before the update: an engine that kept old weights, or took others,
//! shows at once, long before a reward curve would.

use crate::RunError;
use std::sync::Arc;
use whet_rollout::Engine;
use whet_trainer::{TrainSample, Trainer, Which};
use whet_trajectory::{GroupId, SampleId, WeightVersion};

/// Tokens of the fixed text; more would cost time, not certainty.
const LENGTH: usize = 64;

/// The fixed text and what the engine last said about it.
#[derive(Debug)]
pub struct Probe {
    ids: Arc<[u32]>,
    engine: Vec<f32>,
}

/// What an update did, as the probe saw it. Log-probs are in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sync {
    /// Largest difference between engine and trainer.
    pub gap: f64,
    /// Mean of that difference: in bf16 a single unlikely token may differ much, the mean cannot unless the
    /// weights do.
    pub gap_mean: f64,
    /// Largest difference between the engine after and before.
    pub change: f64,
    /// Seconds for handing over and probing.
    pub seconds: f64,
}

impl Probe {
    /// Takes the first tokens of a prompt of the run as the fixed text.
    pub fn new(prompt: &[u32], engine: &dyn Engine) -> Result<Self, RunError> {
        let mut ids = prompt[..prompt.len().min(LENGTH)].to_vec();
        // One token alone has no log-prob; a doubled one has.
        if ids.len() == 1 {
            ids.push(ids[0]);
        }
        let engine = engine.logprobs(&ids, 1)?;
        Ok(Probe { ids: ids.into(), engine })
    }

    /// Gives the trainer's weights to the engine as `version` and compares.
    pub fn hand_over(
        &mut self,
        engine: &dyn Engine,
        trainer: &Trainer,
        version: WeightVersion,
    ) -> Result<Sync, RunError> {
        let began = std::time::Instant::now();
        engine.update_weights(version, trainer.weights())?;
        let now = engine.logprobs(&self.ids, 1)?;
        let sample = self.sample();
        let trainer = trainer.logprobs(std::slice::from_ref(&sample), Which::Policy, 1.0)?;
        let trainer = trainer.first().map_or(&[][..], |l| &l[1..]);
        let sync = Sync {
            gap: largest(&now, trainer),
            gap_mean: mean(&now, trainer),
            change: largest(&now, &self.engine),
            seconds: began.elapsed().as_secs_f64(),
        };
        self.engine = now;
        Ok(sync)
    }

    fn sample(&self) -> TrainSample {
        let count = self.ids.len();
        TrainSample {
            id: SampleId::from("probe"),
            group: GroupId::from("probe"),
            tokens: self.ids.to_vec(),
            prompt_len: 1,
            loss_mask: (0..count).map(|t| t > 0).collect(),
            rollout_logprobs: vec![0.0; count],
            advantages: vec![0.0; count],
            old_logprobs: None,
            reference_logprobs: None,
        }
    }
}

/// Absolute differences; one NaN where a list is short, so that no damage passes for agreement.
fn differences(a: &[f32], b: &[f32]) -> Vec<f64> {
    if a.len() != b.len() {
        return vec![f64::NAN];
    }
    a.iter().zip(b).map(|(x, y)| f64::from(x - y).abs()).collect()
}

/// Largest absolute difference; NaN where one side is NaN.
fn largest(a: &[f32], b: &[f32]) -> f64 {
    let worse = |worst: f64, d: f64| if d.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(d) };
    differences(a, b).into_iter().fold(0.0, worse)
}

/// Mean absolute difference; NaN where one side is NaN.
fn mean(a: &[f32], b: &[f32]) -> f64 {
    let differences = differences(a, b);
    differences.iter().sum::<f64>() / differences.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{largest, mean};

    #[test]
    fn a_missing_or_broken_number_never_passes_for_agreement() {
        for distance in [largest, mean] {
            assert!(distance(&[-1.0], &[]).is_nan());
            assert!(distance(&[f32::NAN, -1.0], &[-1.0, -1.0]).is_nan());
        }
        assert_eq!(largest(&[-1.0, -2.0], &[-1.5, -2.0]), 0.5);
        assert_eq!(mean(&[-1.0, -2.0], &[-1.5, -2.0]), 0.25);
    }
}
