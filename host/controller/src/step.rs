//! One training step: ask, score, choose, weigh, learn, hand over.

use crate::advantage::{apply_native, apply_plugin, trainable};
use crate::plugins::Plugins;
use crate::prompt::Prompt;
use crate::report::{Seconds, StepReport};
use crate::rollout::{Answered, Ask, group_of, roll_out};
use crate::setup::{Tally, count};
use crate::sync::Probe;
use crate::{RunError, options, policy, seed};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use whet_observe::Console;
use whet_plugin_host::{Host, ScoredGroup};
use whet_recipe::Recipe;
use whet_recipe::data::Order;
use whet_rollout::Engine;
use whet_trainer::{LossMetrics, StepMetrics, TrainSample, Trainer, Which};
use whet_trajectory::{Group, GroupId};

/// Everything that takes part in a step.
pub struct Roles {
    /// The run's recipe.
    pub recipe: Recipe,
    /// Samples.
    pub engine: Box<dyn Engine>,
    /// Learns.
    pub trainer: Trainer,
    /// Scores, filters, weighs.
    pub plugins: Plugins,
    /// The clock of the plugins' deadlines stops with it.
    pub host: Host,
    /// What is asked.
    pub prompts: Vec<Arc<Prompt>>,
    /// In which order.
    pub order: Order,
    /// Proves that weights arrive.
    pub probe: Probe,
}

/// Losses and updates of a step.
type Learnt = (Vec<LossMetrics>, Vec<StepMetrics>);

impl Roles {
    /// Does step `step`, counted from 1. Until the first update, an error leaves the trainer as it was.
    pub fn step(&mut self, step: u64, console: &mut Console) -> Result<StepReport, RunError> {
        let began = Instant::now();
        let asks = self.asks(step);
        let sampling = options::sampling(&self.recipe);
        console.phase("rollout", asks.len() * self.recipe.rollout.samples_per_prompt);
        let rollout = roll_out(&*self.engine, asks, &sampling, &self.plugins.scorer, console, None);
        console.end_phase();
        // Without a stop the rollout always runs to its end.
        let Some(rollout) = rollout? else { return Err(RunError::EngineDied { missing: 0, all: 0 }) };
        let judgements = rollout.groups.iter().flat_map(|g| &g.judgements);
        policy::check_failures(judgements, self.recipe.on_failure.abort_above)?;

        console.phase("train", 1);
        let training = Instant::now();
        let (kept, dropped) = self.filter_groups(&rollout.groups)?;
        let mut samples = trainable(&kept);
        let updates = self.recipe.algorithm.epochs * self.recipe.algorithm.minibatches;
        self.fill_logprobs(&mut samples, updates > 1)?;
        match &self.plugins.advantage {
            None => apply_native(&mut samples, &kept, self.recipe.algorithm.scale),
            Some(plugin) if !samples.is_empty() => apply_plugin(&mut samples, &kept, plugin)?,
            Some(_) => {}
        }
        let advantages = samples.iter().map(|s| (s.id.clone(), mean_advantage(s))).collect();
        let (losses, updates) = self.learn(&samples)?;
        let train = training.elapsed().as_secs_f64();
        let updated = updates.iter().any(|u| !u.skipped);
        let sync = match updated {
            true => Some(self.probe.hand_over(&*self.engine, &self.trainer, self.trainer.version())?),
            false => None,
        };
        console.end_phase();
        let per_step = self.recipe.rollout.prompts_per_step as u64;
        Ok(StepReport {
            step,
            groups: rollout.groups,
            dropped,
            advantages,
            losses,
            updates,
            sync,
            epoch: (step * per_step) as f64 / self.prompts.len() as f64,
            seconds: Seconds {
                rollout: rollout.sampling_seconds,
                reward: rollout.scoring_seconds,
                train,
                sync: sync.map_or(0.0, |s| s.seconds),
                step: began.elapsed().as_secs_f64(),
            },
        })
    }

    /// The prompts of a step. A row that a small data set brings twice into one step makes two groups.
    fn asks(&self, step: u64) -> Vec<Ask> {
        let rollout = &self.recipe.rollout;
        let count = rollout.prompts_per_step as u64;
        let rows = self.order.rows((step - 1) * count..step * count);
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let ask = |(slot, row): (usize, usize)| {
            let prompt = self.prompts[row].clone();
            let again = seen.entry(row).and_modify(|n| *n += 1).or_insert(0);
            let again = if *again == 0 { String::new() } else { format!(".{again}") };
            Ask {
                group: GroupId(format!("step{step}/row{}{again}", prompt.row)),
                prompt,
                seeds: (0..rollout.samples_per_prompt)
                    .map(|k| seed::sample(self.recipe.seed, step, slot, k))
                    .collect(),
            }
        };
        rows.into_iter().enumerate().map(ask).collect()
    }

    /// The groups that every filter keeps, and how many were dropped by which reason. Where none would be
    /// left, those that a filter marked `keep-if-short` are used.
    fn filter_groups(&self, all: &[Answered]) -> Result<(Vec<Answered>, Tally), RunError> {
        let mut kept: Vec<&Answered> = all.iter().collect();
        let mut dropped = Vec::new();
        for filter in &self.plugins.filters {
            if kept.is_empty() {
                break;
            }
            let groups: Vec<Group> = kept.iter().map(|a| group_of(&a.ask, &a.completions)).collect();
            let rewards: Vec<Vec<Option<f64>>> =
                kept.iter().map(|a| a.judgements.iter().map(|j| j.reward()).collect()).collect();
            let scored: Vec<ScoredGroup<'_>> =
                groups.iter().zip(&rewards).map(|(group, rewards)| ScoredGroup { group, rewards }).collect();
            let verdicts = filter.plugin.keep_groups(&scored).map_err(|error| RunError::PluginCall {
                role: "filter",
                name: filter.name.clone(),
                failure: error.into(),
            })?;
            let short = !verdicts.iter().any(|v| v.keep);
            let mut next = Vec::with_capacity(kept.len());
            for (group, verdict) in kept.into_iter().zip(verdicts) {
                if verdict.keep || (short && verdict.keep_if_short) {
                    next.push(group);
                } else {
                    count(&mut dropped, &verdict.reason);
                }
            }
            kept = next;
        }
        Ok((kept.into_iter().cloned().collect(), dropped))
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

    fn learn(&mut self, samples: &[TrainSample]) -> Result<Learnt, RunError> {
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
    use whet_trajectory::SampleId;

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
