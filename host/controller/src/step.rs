//! One training step: ask, score, choose, learn ([`crate::learn`]), hand over.

use crate::learn::Learnt;
use crate::plugins::Plugins;
use crate::prompt::Prompt;
use crate::report::{Seconds, StepReport};
use crate::rollout::{Answered, Ask, group_of, roll_out};
use crate::setup::{Tally, count};
use crate::sync::Probe;
use crate::{RunError, options, policy, seed};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use whet_observe::Console;
use whet_plugin_host::{Host, ScoredGroup};
use whet_recipe::Recipe;
use whet_recipe::data::Order;
use whet_rollout::Engine;
use whet_trainer::Trainer;
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
        let Learnt { advantages, losses, updates } = self.learn_from(&kept)?;
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
}
