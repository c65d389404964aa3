//! The training half of a step: what was answered and kept becomes advantages, losses and updates.
//!
//! Knows nothing of how the samples were asked for.

use crate::advantage::{apply_native, apply_plugin, trainable};
use crate::rollout::Answered;
use crate::step::Roles;
use crate::{RunError, options};
use std::collections::{HashMap, HashSet};
use whet_trainer::{LossMetrics, StepMetrics, TrainSample, Which};
use whet_trajectory::{GroupId, SampleId};

/// What a step has learnt, and from what.
#[derive(Debug, Default)]
pub struct Learnt {
    /// Advantage of each sample that was trained on: the mean over its tokens.
    pub advantages: HashMap<SampleId, f64>,
    /// One per loss that was differentiated.
    pub losses: Vec<LossMetrics>,
    /// One per optimiser update.
    pub updates: Vec<StepMetrics>,
}

impl Roles {
    /// Updates the trainer with the groups of a step. Until the first update, an error leaves it as it was.
    pub fn learn_from(&mut self, kept: &[Answered]) -> Result<Learnt, RunError> {
        let mut samples = trainable(kept);
        let updates = self.recipe.algorithm.epochs * self.recipe.algorithm.minibatches;
        self.fill_logprobs(&mut samples, updates > 1)?;
        match &self.plugins.advantage {
            None => apply_native(&mut samples, kept, self.recipe.algorithm.scale),
            Some(plugin) if !samples.is_empty() => apply_plugin(&mut samples, kept, plugin)?,
            Some(_) => {}
        }
        let advantages = samples.iter().map(|s| (s.id.clone(), mean_advantage(s))).collect();
        let (losses, updates) = self.learn(&samples)?;
        Ok(Learnt { advantages, losses, updates })
    }

    /// The trainer's log-probs before the first of several updates, and the reference's, so that each is
    /// computed once. With one update the losses compute both in passing.
    fn fill_logprobs(&self, samples: &mut [TrainSample], several: bool) -> Result<(), RunError> {
        if !several || samples.is_empty() {
            return Ok(());
        }
        let loss = options::loss(&self.recipe);
        let old = self.trainer.logprobs(samples, Which::Policy, loss.temperature)?;
        for (sample, logprobs) in samples.iter_mut().zip(old) {
            sample.old_logprobs = Some(logprobs);
        }
        if loss.kl.is_some() {
            let reference = self.trainer.logprobs(samples, Which::Reference, loss.temperature)?;
            for (sample, logprobs) in samples.iter_mut().zip(reference) {
                sample.reference_logprobs = Some(logprobs);
            }
        }
        Ok(())
    }

    fn learn(&mut self, samples: &[TrainSample]) -> Result<(Vec<LossMetrics>, Vec<StepMetrics>), RunError> {
        let (mut losses, mut updates) = (Vec::new(), Vec::new());
        if samples.is_empty() {
            return Ok((losses, updates));
        }
        let loss = options::loss(&self.recipe);
        for _ in 0..self.recipe.algorithm.epochs {
            for part in minibatches(samples, self.recipe.algorithm.minibatches) {
                losses.push(self.trainer.forward_backward(part, &loss)?);
                updates.push(self.trainer.optimiser_step());
            }
        }
        Ok((losses, updates))
    }
}

/// Cuts samples into at most `parts` runs of whole groups, as even as the number of groups allows.
fn minibatches(samples: &[TrainSample], parts: usize) -> Vec<&[TrainSample]> {
    let groups: HashSet<&GroupId> = samples.iter().map(|s| &s.group).collect();
    let parts = parts.clamp(1, groups.len().max(1));
    let mut runs = Vec::with_capacity(parts);
    let (mut start, mut group) = (0, 0);
    for (index, sample) in samples.iter().enumerate() {
        let last_of_group = samples.get(index + 1).is_none_or(|next| next.group != sample.group);
        if !last_of_group {
            continue;
        }
        group += 1;
        // A run ends where its share of the groups is reached.
        if group * parts >= (runs.len() + 1) * groups.len() {
            runs.push(&samples[start..=index]);
            start = index + 1;
        }
    }
    runs
}

/// The mean over the response tokens.
fn mean_advantage(sample: &TrainSample) -> f64 {
    let response = &sample.advantages[sample.prompt_len..];
    response.iter().map(|a| f64::from(*a)).sum::<f64>() / response.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(group: usize, k: usize) -> TrainSample {
        TrainSample {
            id: SampleId(format!("{group}/{k}")),
            group: GroupId(group.to_string()),
            tokens: vec![1, 2],
            prompt_len: 1,
            loss_mask: vec![false, true],
            rollout_logprobs: vec![0.0; 2],
            advantages: vec![0.0; 2],
            old_logprobs: None,
            reference_logprobs: None,
        }
    }

    #[test]
    fn for_every_number_of_parts_groups_stay_whole_and_nothing_is_lost() {
        for (groups, parts) in [(1, 1), (5, 2), (8, 3), (3, 8), (7, 7)] {
            let samples: Vec<TrainSample> =
                (0..groups).flat_map(|g| (0..=g % 3).map(move |k| sample(g, k))).collect();
            let runs = minibatches(&samples, parts);
            assert_eq!(runs.len(), parts.min(groups));
            assert_eq!(runs.iter().map(|r| r.len()).sum::<usize>(), samples.len());
            for pair in runs.windows(2) {
                assert_ne!(pair[0].last().unwrap().group, pair[1][0].group);
            }
        }
    }
}
