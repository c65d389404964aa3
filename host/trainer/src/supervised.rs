//! Supervised fine-tuning: the cross-entropy of given tokens.

use crate::TrainError;
use crate::batch::to_list;
use crate::frozen::check;
use crate::layout::{Forest, Layout};
use crate::sample::TrainSample;
use crate::trainer::Trainer;
use serde::Serialize;
use tch::Tensor;
use whet_algorithm::{Reduction, reduction};

/// What a batch of texts found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SupervisedMetrics {
    /// The loss: cross-entropy in nats, reduced.
    pub loss: f64,
    /// Mean cross-entropy of a trained token, whatever the reduction; its exponential is the perplexity.
    pub cross_entropy: f64,
    /// Trained tokens.
    pub tokens: usize,
    /// Token rows computed.
    pub rows: usize,
    /// Micro-batches.
    pub micro_batches: usize,
}

impl Trainer {
    /// Adds the gradient of the cross-entropy of the trained tokens.
    ///
    /// # Errors
    /// When a sample is malformed, before anything is computed.
    pub fn imitate(
        &mut self,
        samples: &[TrainSample],
        reduction: Reduction,
    ) -> Result<SupervisedMetrics, TrainError> {
        check(samples, self.body.config())?;
        let lengths: Vec<usize> = samples.iter().map(TrainSample::trained).collect();
        let weights = reduction.weights(&lengths, reduction::trained(&lengths));
        let members: Vec<usize> = (0..samples.len()).filter(|&s| lengths[s] > 0).collect();
        let mut metrics = SupervisedMetrics { tokens: lengths.iter().sum(), ..SupervisedMetrics::default() };
        let forest = Forest::new(samples, &members);
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            let layout = Layout::new(samples, &forest, part);
            let weights: Vec<f64> = layout.targets.iter().map(|t| weights[t.sample]).collect();
            self.pass(&layout, 1.0, |log_probs| {
                for (log_prob, weight) in to_list(log_probs)?.into_iter().zip(&weights) {
                    metrics.loss -= log_prob * weight;
                    metrics.cross_entropy -= log_prob;
                }
                Ok(-Tensor::from_slice(&weights))
            })?;
            metrics.rows += layout.ids.len();
            metrics.micro_batches += 1;
        }
        metrics.cross_entropy /= metrics.tokens.max(1) as f64;
        Ok(metrics)
    }

    /// Mean cross-entropy of a trained token, without a gradient; NaN without any.
    ///
    /// # Errors
    /// When a sample is malformed.
    pub fn cross_entropy(&self, samples: &[TrainSample]) -> Result<f64, TrainError> {
        let lists = self.logprobs(samples, crate::Which::Policy, 1.0)?;
        let sum: f64 = lists.iter().flatten().map(|&lp| f64::from(lp)).sum();
        Ok(-sum / samples.iter().map(TrainSample::trained).sum::<usize>() as f64)
    }
}
