//! What a step looked like: as metrics, as the statistics that alerts read, as trajectory lines.

use crate::options;
use crate::step::gather::Gathered;
use crate::step::policy::Judgement;
use crate::step::rollout::Answered;
use crate::step::sync::Sync;
use std::collections::{BTreeMap, HashMap, HashSet};
use whet_observe::{
    Metrics, OutcomeKind, SampleRecord, Shown, StepStatistics, says_nothing_found, tally_notes,
};
use whet_recipe::Recipe;
use whet_rollout::Completion;
use whet_trainer::{LossMetrics, StepMetrics};
use whet_trajectory::{FinishReason, SampleId};

/// Everything that a step found out.
#[derive(Debug)]
pub struct StepReport {
    /// The step, counted from 1.
    pub step: u64,
    /// The groups, and which of them were trained on.
    pub gathered: Gathered,
    /// Advantage of each sample that was trained on: the mean over its tokens.
    pub advantages: HashMap<SampleId, f64>,
    /// One per loss that was differentiated.
    pub losses: Vec<LossMetrics>,
    /// One per optimiser update.
    pub updates: Vec<StepMetrics>,
    /// Numbers that only the recipe's algorithm has, by metric.
    pub numbers: Vec<(&'static str, f64)>,
    /// What handing over the weights did, if there was an update.
    pub sync: Option<Sync>,
    /// Passes over the data that are behind the run.
    pub epoch: f64,
    /// Seconds by phase.
    pub seconds: Seconds,
}

/// Where a step's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// Until the last response.
    pub rollout: f64,
    /// From the last response to the last score.
    pub reward: f64,
    /// Losses and updates.
    pub train: f64,
    /// Handing over weights.
    pub sync: f64,
    /// All together.
    pub step: f64,
}

impl StepReport {
    /// Mean reward of the scored samples; NaN without any.
    pub fn reward(&self) -> f64 {
        mean(self.judgements().filter_map(Judgement::reward))
    }

    /// Mean KL estimate: against the reference where the loss has it, else between sampler and trainer.
    pub fn kl(&self) -> f64 {
        let against_reference = mean(self.losses.iter().map(|l| l.kl));
        if against_reference != 0.0 {
            against_reference
        } else {
            mean(self.losses.iter().map(|l| l.mismatch_kl))
        }
    }

    /// Mean response length in tokens.
    pub fn length(&self) -> f64 {
        mean(self.completions().map(|c| c.tokens.len() as f64))
    }

    fn judgements(&self) -> impl Iterator<Item = &Judgement> {
        self.gathered.groups.iter().flat_map(|g| &g.judgements)
    }

    fn completions(&self) -> impl Iterator<Item = &Completion> {
        self.gathered.groups.iter().flat_map(|g| &g.completions)
    }

    /// Groups of two or more scores, and how many of them have unequal ones.
    fn variance(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for group in &self.gathered.groups {
            let rewards: Vec<f64> = group.judgements.iter().filter_map(Judgement::reward).collect();
            if rewards.len() >= 2 {
                counts.0 += 1;
                counts.1 += usize::from(rewards.iter().any(|r| *r != rewards[0]));
            }
        }
        counts
    }

    /// The line of `metrics.jsonl`.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let mut put = |name: &str, value: f64| {
            metrics.insert(name.to_owned(), value);
        };
        let rewards: Vec<f64> = self.judgements().filter_map(Judgement::reward).collect();
        put("reward/mean", mean(rewards.iter().copied()));
        put("reward/std", deviation(&rewards));
        put("reward/scored", rewards.len() as f64);
        let (mut unscorable, mut failures) = (0, BTreeMap::<&str, usize>::new());
        for judgement in self.judgements() {
            match judgement {
                Judgement::Unscorable { .. } => unscorable += 1,
                Judgement::Failed(failure) => *failures.entry(&failure.kind).or_default() += 1,
                Judgement::Scored { .. } => {}
            }
        }
        put("reward/unscorable", f64::from(unscorable));
        put("reward/failed", failures.values().sum::<usize>() as f64);
        for (kind, count) in failures {
            put(&format!("reward/failed/{kind}"), count as f64);
        }
        let mut components: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for component in self.judgements().flat_map(Judgement::components) {
            components.entry(&component.name).or_default().push(component.value);
        }
        for (name, values) in components {
            put(&format!("reward/component/{name}"), mean(values.into_iter()));
        }
        let (groups, varied) = self.variance();
        put("group/with_variance", if groups == 0 { 0.0 } else { varied as f64 / groups as f64 });
        put("group/sampled", self.gathered.groups.len() as f64);
        put("group/trained", self.gathered.chosen.len() as f64);
        put("group/spared", self.gathered.spared as f64);
        put("group/dropped", self.gathered.dropped.iter().map(|(_, n)| n).sum::<usize>() as f64);
        for (reason, count) in self.gathered.dropped_by_reason() {
            put(&format!("group/dropped/{reason}"), count as f64);
        }

        let lengths: Vec<f64> = self.completions().map(|c| c.tokens.len() as f64).collect();
        let tokens: f64 = lengths.iter().sum();
        put("rollout/attempts", self.gathered.attempts as f64);
        put("rollout/discarded", self.gathered.discarded as f64);
        put("rollout/samples", lengths.len() as f64);
        put("rollout/tokens", tokens);
        put("rollout/length", mean(lengths.iter().copied()));
        put("rollout/length_max", lengths.iter().copied().fold(0.0, f64::max));
        put("rollout/cut_off", self.cut_off());
        put("rollout/entropy", self.entropy());
        put("rollout/tokens_per_second", tokens / self.seconds.rollout.max(1e-9));

        if !self.losses.is_empty() {
            let over = |value: fn(&LossMetrics) -> f64| mean(self.losses.iter().map(value));
            put("loss/total", over(|l| l.loss));
            put("loss/policy", over(|l| l.policy_loss));
            put("loss/kl", over(|l| l.kl));
            if self.losses.iter().any(|l| l.teacher != 0.0) {
                put("loss/teacher", over(|l| l.teacher));
            }
            put("loss/clip_fraction", over(|l| l.clip_fraction));
            put("loss/ratio_mean", over(|l| l.ratio_mean));
            put("loss/correction_mean", over(|l| l.correction_mean));
            put("loss/correction_fraction", over(|l| l.correction_fraction));
            put("loss/rejected", over(|l| l.rejected));
            put("train/entropy", over(|l| l.entropy));
            put("train/tokens", self.losses.iter().map(|l| l.tokens).sum::<usize>() as f64);
            put("train/computed", self.losses.iter().map(|l| l.computed).sum::<usize>() as f64);
            put("train/rows", self.losses.iter().map(|l| l.rows).sum::<usize>() as f64);
            put("logprob/difference_mean", over(|l| l.mismatch_mean));
            put("logprob/difference_max", self.drift_max());
            put("logprob/kl", over(|l| l.mismatch_kl));
        }
        for (name, value) in &self.numbers {
            put(name, *value);
        }
        if let Some(last) = self.updates.last() {
            put("train/grad_norm", mean(self.updates.iter().map(|u| u.grad_norm)));
            put("train/learning_rate", last.lr);
            put("train/clip_scale", mean(self.updates.iter().map(|u| u.clip_scale)));
            put("train/updates_skipped", self.updates.iter().filter(|u| u.skipped).count() as f64);
            put("train/version", last.version as f64);
        }
        if let Some(sync) = self.sync {
            put("sync/gap", sync.gap);
            put("sync/gap_mean", sync.gap_mean);
            put("sync/change", sync.change);
        }
        put("data/epoch", self.epoch);
        put("time/step", self.seconds.step);
        put("time/rollout", self.seconds.rollout);
        put("time/reward", self.seconds.reward);
        put("time/train", self.seconds.train);
        put("time/sync", self.seconds.sync);
        metrics
    }

    /// What alerts look at. `agrees`: whether engine and trainer are to agree to the digits of f32.
    pub fn statistics(&self, recipe: &Recipe, agrees: bool) -> StepStatistics {
        let sampling = options::sampling(recipe);
        let scored: Vec<&Judgement> = self.judgements().filter(|j| j.reward().is_some()).collect();
        let common = |of: &dyn Fn(Option<f64>) -> bool| {
            let notes: Vec<String> =
                self.judgements().filter(|j| of(j.reward())).filter_map(Judgement::note).collect();
            tally_notes(notes.iter().map(String::as_str))
        };
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for judgement in self.judgements() {
            if let Judgement::Failed(failure) = judgement {
                *failures.entry(failure.kind.clone()).or_default() += 1;
            }
        }
        let says_nothing = |j: &&&Judgement| j.note().is_some_and(|n| says_nothing_found(&n));
        let (groups, groups_with_variance) = self.variance();
        let samples = self.judgements().count();
        let responses = tally_notes(self.completions().map(|c| c.text.as_str()));
        let labels: HashSet<&str> =
            self.gathered.groups.iter().filter_map(|g| g.ask.prompt.label.as_deref()).collect();
        let prompts: HashSet<usize> = self.gathered.groups.iter().map(|g| g.ask.prompt.row).collect();
        // A truncated distribution is not the trainer's, so no difference is too large.
        let truncated = sampling.top_p < 1.0 || sampling.top_k > 0 || sampling.min_p > 0.0;
        let drift_limit = match (truncated || sampling.temperature == 0.0, agrees) {
            (true, _) => f64::INFINITY,
            (false, true) => 1e-4,
            // Logits of 16 to 32, as confident models have them, are 0.125 apart in bf16.
            (false, false) => 0.2,
        };
        StepStatistics {
            step: self.step,
            groups,
            groups_with_variance,
            // An advantage plugin stands in for the estimator.
            learns_from_rewards: !recipe.teacher_alone()
                && (recipe.advantage.is_some() || recipe.learns_from_rewards()),
            largest_advantage: self.advantages.values().fold(0.0, |largest, a| a.abs().max(largest)),
            trained: self.gathered.chosen.len(),
            dropped: self
                .gathered
                .dropped
                .iter()
                .map(|(drop, n)| (format!("{}: {}", drop.filter, drop.reason), *n))
                .collect(),
            samples,
            scored: scored.len(),
            zero_rewards: scored.iter().filter(|j| j.reward() == Some(0.0)).count(),
            unextracted: scored.iter().filter(says_nothing).count(),
            common_note: common(&|reward| reward.is_none_or(|r| r == 0.0)),
            unscored_note: common(&|reward| reward.is_none()),
            failures: failures.into_iter().collect(),
            cut_off: Some(self.cut_off()),
            max_tokens: sampling.max_tokens,
            prompts: prompts.len(),
            labels: labels.len(),
            common_response: responses.map(|(text, n)| (text, n as f64 / samples.max(1) as f64)),
            entropy: self.entropy(),
            reward: self.reward(),
            kl: self.losses.iter().map(|l| l.kl).sum::<f64>() / self.losses.len().max(1) as f64,
            grad_norm: (!self.updates.is_empty()).then(|| mean(self.updates.iter().map(|u| u.grad_norm))),
            weight_change: self.sync.map(|s| s.change),
            learning_rate: self.updates.last().map_or(0.0, |u| u.lr),
            drift: if self.losses.is_empty() {
                0.0
            } else {
                mean(self.losses.iter().map(|l| l.mismatch_mean))
            },
            drift_limit,
            sync_gap: self.sync.map(|s| s.gap_mean),
            sync_limit: if agrees { 1e-4 } else { 0.15 },
        }
    }

    /// The lines of the step's trajectory file.
    pub fn records(&self) -> Vec<SampleRecord> {
        self.gathered.groups.iter().flat_map(|g| record(self.step, g, Some(&self.advantages))).collect()
    }

    /// The first samples of as many groups, for people to look at: of each the best and another one.
    pub fn shown(&self, count: usize) -> Vec<Shown> {
        let mut shown = Vec::new();
        for group in &self.gathered.groups {
            let rank = |k: &usize| group.judgements[*k].reward().unwrap_or(f64::NEG_INFINITY);
            let best = (0..group.judgements.len()).max_by(|a, b| rank(a).total_cmp(&rank(b)).then(b.cmp(a)));
            let other = best.map(|b| usize::from(b == 0)).filter(|o| *o < group.judgements.len());
            for k in best.into_iter().chain(other) {
                if shown.len() == count {
                    return shown;
                }
                let judgement = &group.judgements[k];
                shown.push(Shown {
                    prompt: group.ask.prompt.question(),
                    response: group.completions[k].text.clone(),
                    label: group.ask.prompt.label.clone(),
                    reward: judgement.reward(),
                    note: judgement.note(),
                });
            }
        }
        shown
    }

    fn cut_off(&self) -> f64 {
        mean(self.completions().map(|c| f64::from(u8::from(c.finish == FinishReason::Length))))
    }

    /// Nats per token, over all tokens.
    fn entropy(&self) -> f64 {
        let tokens: f64 = self.completions().map(|c| c.tokens.len() as f64).sum();
        let sum: f64 = self.completions().map(|c| f64::from(c.entropy_mean) * c.tokens.len() as f64).sum();
        if tokens == 0.0 { 0.0 } else { sum / tokens }
    }

    fn drift_max(&self) -> f64 {
        self.losses.iter().map(|l| l.mismatch_max).fold(0.0, f64::max)
    }
}

/// A group's samples as lines.
pub fn record(step: u64, group: &Answered, advantages: Option<&HashMap<SampleId, f64>>) -> Vec<SampleRecord> {
    let prompt = &group.ask.prompt;
    let line = |(completion, judgement): (&Completion, &Judgement)| {
        let mut tokens = prompt.ids.to_vec();
        tokens.extend(&completion.tokens);
        let (outcome, reason) = match judgement {
            Judgement::Scored { .. } => (OutcomeKind::Scored, None),
            Judgement::Unscorable { reason } => (OutcomeKind::Unscorable, Some(reason.clone())),
            Judgement::Failed(failure) => (OutcomeKind::Error, Some(failure.to_string())),
        };
        SampleRecord {
            step,
            id: completion.id.clone(),
            group: group.ask.group.clone(),
            row: prompt.row_id.clone(),
            prompt: prompt.messages.clone(),
            label: prompt.label.clone(),
            metadata: prompt.metadata.clone(),
            response: completion.text.clone(),
            finish: completion.finish,
            tokens,
            prompt_tokens: prompt.ids.len(),
            logprobs: completion.logprobs.clone(),
            versions: completion.versions.clone(),
            outcome,
            reward: judgement.reward(),
            components: judgement.components().to_vec(),
            note: if reason.is_none() { judgement.note() } else { None },
            reason,
            advantage: advantages.and_then(|a| a.get(&completion.id)).copied(),
        }
    };
    group.completions.iter().zip(&group.judgements).map(line).collect()
}

/// NaN without values.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// With n - 1; 0 for fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let center = mean(values.iter().copied());
    (values.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}
