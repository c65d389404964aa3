//! The critic of a run: values before an update, updates towards the returns, and how well the values explain these.

use crate::setup::{self, LoadedModel};
use crate::step::learn::minibatches;
use crate::{RunError, options};
use std::path::Path;
use whet_algorithm::Reduction;
use whet_recipe::Recipe;
use whet_trainer::loss::{ValueError, ValueLoss};
use whet_trainer::{Goal, StepMetrics, TrainSample, ValueMetrics, ValueModel};

/// Half the squared error, as verl, OpenRLHF and NeMo RL have it.
const FACTOR: f64 = 0.5;

/// A critic and how it learns.
pub struct Critic {
    model: ValueModel,
    loss: ValueLoss,
    epochs: usize,
    minibatches: usize,
    /// Steps at the start in which it learns alone.
    pub alone: u64,
}

/// Numbers of a step, by metric.
pub type Numbers = Vec<(&'static str, f64)>;

/// The recipe's critic, if it has one.
pub fn load(recipe: &Recipe, policy: &LoadedModel) -> Result<Option<Critic>, RunError> {
    let Some(section) = &recipe.critic else { return Ok(None) };
    let source = section.source.as_ref().unwrap_or(&recipe.model.source);
    let loaded = setup::load_scored(source, recipe.model.dtype, policy.device)?;
    if section.source.is_some() {
        setup::same_tokenizer("critic", source, &policy.checkpoint, &loaded.checkpoint)?;
    }
    // One precision for both: `auto` looks at the size of each.
    let options = options::critic(recipe, section, policy.kind, policy.device);
    let model = ValueModel::new(&loaded.checkpoint.config, loaded.checkpoint.weights, options)?;
    Ok(Some(Critic {
        model,
        loss: ValueLoss {
            clip: (section.value_clip > 0.0).then_some(section.value_clip),
            error: match section.huber > 0.0 {
                true => ValueError::Huber { delta: section.huber },
                false => ValueError::Squared,
            },
            factor: FACTOR,
        },
        epochs: section.epochs,
        minibatches: section.minibatches,
        alone: section.critic_only_steps,
    }))
}

impl Critic {
    /// The value of every sampled token.
    pub fn values(&self, samples: &[TrainSample]) -> Result<Vec<Vec<f32>>, RunError> {
        Ok(self.model.values(samples)?)
    }

    /// Learns from the returns of a step.
    ///
    /// * `values`: those before it; `returns`: one list per sample, read where tokens are trained
    pub fn learn(
        &mut self,
        samples: &[TrainSample],
        values: Vec<Vec<f32>>,
        returns: Vec<Vec<f32>>,
    ) -> Result<Numbers, RunError> {
        let mut numbers = vec![("critic/explained_variance", explained(samples, &values, &returns))];
        let goals: Vec<Goal> =
            values.into_iter().zip(returns).map(|(old, returns)| Goal { old, returns }).collect();
        let (mut losses, mut updates): (Vec<ValueMetrics>, Vec<StepMetrics>) = (Vec::new(), Vec::new());
        for _ in 0..self.epochs {
            let mut start = 0;
            for part in minibatches(samples, self.minibatches) {
                let goals = &goals[start..start + part.len()];
                start += part.len();
                losses.push(self.model.forward_backward(part, goals, self.loss, Reduction::TokenMean)?);
                updates.push(self.model.optimiser_step());
            }
        }
        let of = |value: fn(&ValueMetrics) -> f64| {
            losses.iter().map(value).sum::<f64>() / losses.len().max(1) as f64
        };
        numbers.extend([
            ("critic/loss", of(|l| l.loss)),
            ("critic/clip_fraction", of(|l| l.clip_fraction)),
            ("critic/value_mean", of(|l| l.value)),
            ("critic/return_mean", of(|l| l.returns)),
        ]);
        if let Some(last) = updates.last() {
            let norm = updates.iter().map(|u| u.grad_norm).sum::<f64>() / updates.len() as f64;
            numbers.extend([("critic/grad_norm", norm), ("critic/learning_rate", last.lr)]);
        }
        Ok(numbers)
    }

    /// Writes what a resumed run needs.
    pub fn save(&self, dir: &Path) -> Result<(), RunError> {
        Ok(self.model.save(dir)?)
    }

    /// Reads it.
    pub fn load(&mut self, dir: &Path) -> Result<(), RunError> {
        Ok(self.model.load(dir)?)
    }
}

/// `1 - Var(R - V) / Var(R)` over the trained tokens: 1 for a critic that knows, 0 for one that says the same of all,
/// below 0 for one that misleads. 0 where all returns are equal and there is nothing to explain.
fn explained(samples: &[TrainSample], values: &[Vec<f32>], returns: &[Vec<f32>]) -> f64 {
    let mut pairs = Vec::new();
    for ((sample, values), returns) in samples.iter().zip(values).zip(returns) {
        let trained = (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]);
        pairs.extend(trained.map(|t| (f64::from(values[t]), f64::from(returns[t]))));
    }
    let variance = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let count = pairs.len().max(1) as f64;
        let mean = pairs.iter().map(of).sum::<f64>() / count;
        pairs.iter().map(|pair| (of(pair) - mean).powi(2)).sum::<f64>() / count
    };
    let of_returns = variance(&|(_, r)| *r);
    if of_returns == 0.0 { 0.0 } else { 1.0 - variance(&|(v, r)| r - v) / of_returns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_trajectory::{GroupId, SampleId};

    #[test]
    fn explained_variance_is_one_for_a_critic_that_knows_and_zero_for_one_that_does_not_care() {
        let sample = TrainSample::given(
            SampleId::from("a"),
            GroupId::from("a"),
            vec![1, 2, 3, 4],
            vec![false, true, true, true],
        );
        let found = |values: [f32; 4], returns: [f32; 4]| {
            explained(std::slice::from_ref(&sample), &[values.to_vec()], &[returns.to_vec()])
        };
        assert_eq!(found([9.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]), 1.0);
        assert_eq!(found([9.0, 2.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0]), 0.0);
        assert_eq!(found([9.0, 1.0, 2.0, 3.0], [0.0, 5.0, 5.0, 5.0]), 0.0);
        assert!(found([0.0, 3.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0]) < 0.0);
    }
}
