//! The training half of a step: what was answered and kept becomes advantages, losses and updates.
//!
//! Knows nothing of how the samples were asked for. In order: log-probabilities that something needs
//! before the first update, rewards shaped, advantages ([`crate::step::estimate`] or a plugin), advantages
//! shaped, updates ([`crate::step::loss`]).

use crate::step::Roles;
use crate::step::advantage::{apply_plugin, trainable};
use crate::step::estimate::{Answer, Tokens, estimate};
use crate::step::rollout::{Answered, Ask, all_groups, roll_out};
use crate::step::teacher::Said;
use crate::step::{loss, policy};
use crate::{RunError, options};
use std::collections::{HashMap, HashSet};
use whet_algorithm::shaping::{self, AdaptiveKl};
use whet_algorithm::{Guard, Variance, whiten};
use whet_observe::Console;
use whet_recipe::{Algorithm, Estimator, Placement, Whiten};
use whet_trainer::{LossMetrics, StepMetrics, TrainSample, Which};
use whet_trajectory::{FinishReason, GroupId, SampleId};

/// Keeps the quotient by the deviation of whitened advantages finite, as verl and slime.
const EPS: f64 = 1e-8;

/// The divergence from the reference where it is taken off the rewards.
const KL: &str = "kl/reference";

/// What a step has learnt, and from what.
#[derive(Debug, Default)]
pub struct Learnt {
    /// Advantage of each sample that was trained on: the mean over its tokens.
    pub advantages: HashMap<SampleId, f64>,
    /// One per loss that was differentiated.
    pub losses: Vec<LossMetrics>,
    /// One per optimiser update.
    pub updates: Vec<StepMetrics>,
    /// Numbers that only this recipe's algorithm has, by metric.
    pub numbers: Vec<(&'static str, f64)>,
}

/// What the algorithm needs to know of the samples before the first update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// The trainer's log-probabilities.
    old: bool,
    /// The sums of squared probabilities too.
    squares: bool,
    /// The reference's log-probabilities.
    reference: bool,
}

impl Needs {
    fn of(algorithm: &Algorithm, plugin: bool) -> Needs {
        let several = algorithm.epochs * algorithm.minibatches > 1;
        let penalty = algorithm.kl.coefficient > 0.0;
        let in_reward = penalty && algorithm.kl.placement == Placement::Reward;
        let squares = !plugin && matches!(algorithm.estimator, Estimator::Otb { .. });
        let compares = !plugin && matches!(algorithm.estimator, Estimator::Distillation { .. });
        // With one update and nothing else that asks, the losses compute both in passing.
        Needs {
            old: several || in_reward || squares || compares,
            squares,
            reference: in_reward || (penalty && several),
        }
    }
}

impl Roles {
    /// Updates the trainer with the groups of a step. Until the first update, an error leaves it as it was.
    pub fn learn_from(
        &mut self,
        step: u64,
        kept: &[Answered],
        console: &Console,
    ) -> Result<Learnt, RunError> {
        let mut samples = trainable(kept);
        if samples.is_empty() {
            return Ok(Learnt::default());
        }
        let needs = Needs::of(&self.recipe.algorithm, self.plugins.advantage.is_some());
        let squares = self.fill_logprobs(&mut samples, needs)?;
        let mut numbers = Vec::new();
        let values = self.critic.as_ref().map(|critic| critic.values(&samples)).transpose()?;
        let said = self.ask_teacher(&samples)?;
        let known = Known { squares, values: values.as_deref().unwrap_or_default(), teacher: &said.logprobs };
        let returns = match &self.plugins.advantage {
            // The divergence from the teacher is the whole loss: no token has an advantage.
            _ if self.recipe.teacher_alone() => Vec::new(),
            None => self.apply_estimator(&mut samples, kept, &known, console, &mut numbers)?,
            Some(plugin) => {
                apply_plugin(&mut samples, kept, plugin, known.values)?;
                rewards_to_go(&samples, kept)
            }
        };
        shape_advantages(&mut samples, &self.recipe.algorithm);
        if self.recipe.algorithm.overlong.filter {
            numbers.push(("overlong/filtered", leave_out_cut_off(&mut samples, kept) as f64));
        }
        if !said.logprobs.is_empty() {
            numbers.push(("teacher/kl", apart(&samples, &said.logprobs)));
        }
        let advantages = samples.iter().map(|s| (s.id.clone(), mean_advantage(s))).collect();
        let (losses, updates) = match &self.critic {
            Some(critic) if step <= critic.alone => (Vec::new(), Vec::new()),
            _ => self.learn(&samples, &said)?,
        };
        if let (Some(critic), Some(values)) = (&mut self.critic, values) {
            numbers.extend(critic.learn(&samples, values, returns)?);
        }
        self.steer_kl(&losses, samples.len(), &mut numbers);
        Ok(Learnt { advantages, losses, updates, numbers })
    }

    /// The trainer's log-probs before the first update, and the reference's, where something needs them; returns
    /// `Σ p²` by sample and token where asked for.
    fn fill_logprobs(&self, samples: &mut [TrainSample], needs: Needs) -> Result<Vec<Vec<f64>>, RunError> {
        let temperature = loss::temperature(&self.recipe);
        let mut squares = Vec::new();
        if needs.squares {
            let found = self.trainer.distributions(samples, temperature, true)?;
            for (sample, found) in samples.iter_mut().zip(found) {
                sample.old_logprobs = Some(found.log_prob.iter().map(|&p| p as f32).collect());
                squares.push(found.squares);
            }
        } else if needs.old {
            let old = self.trainer.logprobs(samples, Which::Policy, temperature)?;
            for (sample, logprobs) in samples.iter_mut().zip(old) {
                sample.old_logprobs = Some(logprobs);
            }
        }
        if needs.reference {
            let reference = self.trainer.logprobs(samples, Which::Reference, temperature)?;
            for (sample, logprobs) in samples.iter_mut().zip(reference) {
                sample.reference_logprobs = Some(logprobs);
            }
        }
        Ok(squares)
    }

    /// Gives every sample the advantages of the recipe's estimator.
    fn apply_estimator(
        &self,
        samples: &mut [TrainSample],
        kept: &[Answered],
        known: &Known<'_>,
        console: &Console,
        numbers: &mut Vec<(&'static str, f64)>,
    ) -> Result<Vec<Vec<f32>>, RunError> {
        let algorithm = &self.recipe.algorithm;
        let greedy = match algorithm.estimator {
            Estimator::Remax => Some(self.greedy_rewards(kept, console)?),
            _ => None,
        };
        let columns = match algorithm.estimator {
            Estimator::Gdpo { .. } => self.columns(kept)?,
            _ => Vec::new(),
        };
        let place: HashMap<&SampleId, usize> = samples.iter().enumerate().map(|(n, s)| (&s.id, n)).collect();
        let (mut answers, mut of_sample) = (Vec::new(), vec![None; samples.len()]);
        for (number, answered) in kept.iter().enumerate() {
            for (completion, judgement) in answered.completions.iter().zip(&answered.judgements) {
                let Some(reward) = judgement.reward() else { continue };
                let baseline = greedy.as_ref().map_or(Some(0.0), |g| g.get(&answered.ask.group).copied());
                // Without a score of the greedy answer there is nothing to compare with.
                let Some(baseline) = baseline else { continue };
                let sample = place.get(&completion.id).copied();
                if let Some(sample) = sample {
                    of_sample[sample] = Some(answers.len());
                }
                answers.push(Answer {
                    group: number as u32,
                    reward: self.shaped(reward, completion.tokens.len()),
                    components: columns.iter().map(|column| column.value(judgement)).collect(),
                    greedy: baseline,
                    length: completion.tokens.len(),
                    tokens: sample.map(|n| self.tokens(&samples[n], n, known)),
                });
            }
        }
        let weights: Vec<f64> = columns.iter().map(|c| c.weight).collect();
        let estimated = estimate(&algorithm.estimator, &answers, &weights);
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        if algorithm.reward_clip > 0.0 || algorithm.overlong.penalty > 0.0 {
            numbers.push(("reward/shaped", mean(answers.iter().map(|a| a.reward).collect())));
        }
        if let Some(greedy) = &greedy {
            numbers.push(("reward/greedy", mean(greedy.values().copied().collect())));
        }
        if self.in_reward() {
            // The mean over answers of each one's mean, in nats per token.
            let of = |t: &Tokens| {
                let trained = t.mask.iter().filter(|&&m| m).count().max(1) as f64;
                t.penalty.iter().sum::<f64>() / self.kl_coefficient / trained
            };
            numbers.push((KL, mean(answers.iter().filter_map(|a| a.tokens.as_ref()).map(of).collect())));
        }
        let mut goals: Vec<Vec<f32>> = samples.iter().map(|s| vec![0.0; s.tokens.len()]).collect();
        for ((sample, answer), goals) in samples.iter_mut().zip(of_sample).zip(&mut goals) {
            let prompt = sample.prompt_len;
            if let Some(returns) = answer.and_then(|answer| estimated.returns.get(answer)) {
                goals[prompt..].iter_mut().zip(returns).for_each(|(slot, goal)| *slot = *goal as f32);
            }
            match answer {
                Some(answer) => {
                    let found = estimated.advantages[answer].iter();
                    sample.advantages[prompt..].iter_mut().zip(found).for_each(|(slot, a)| *slot = *a as f32);
                }
                None => sample.loss_mask.fill(false),
            }
        }
        Ok(goals)
    }

    /// What the teacher says of the samples, as far as something reads it.
    fn ask_teacher(&self, samples: &[TrainSample]) -> Result<Said, RunError> {
        let Some(teacher) = &self.teacher else { return Ok(Said::default()) };
        let plugin = self.plugins.advantage.is_some();
        let compares = !plugin && matches!(self.recipe.algorithm.estimator, Estimator::Distillation { .. });
        let tokens = self.recipe.train.micro_batch_tokens;
        teacher.ask(samples, compares, loss::temperature(&self.recipe), tokens)
    }

    /// What estimators read of a sample's response tokens.
    fn tokens(&self, sample: &TrainSample, n: usize, known: &Known<'_>) -> Tokens {
        let from = sample.prompt_len;
        let wide = |list: &Option<Vec<f32>>| -> Vec<f64> {
            list.iter().flat_map(|l| &l[from..]).map(|&p| f64::from(p)).collect()
        };
        let mask = sample.loss_mask[from..].to_vec();
        let log_prob = wide(&sample.old_logprobs);
        let mut penalty = Vec::new();
        if self.in_reward() {
            let estimator = loss::kl(&self.recipe.algorithm.kl);
            let pairs = log_prob.iter().zip(wide(&sample.reference_logprobs)).zip(&mask);
            let one = |((&p, q), &m): ((&f64, f64), &bool)| {
                if m { self.kl_coefficient * estimator.value(p, q) } else { 0.0 }
            };
            penalty = pairs.map(one).collect();
        }
        let squares = known.squares.get(n).map_or_else(Vec::new, |s| s[from..].to_vec());
        let of = |lists: &[Vec<f32>]| -> Vec<f64> {
            lists.get(n).iter().flat_map(|l| &l[from..]).map(|&v| f64::from(v)).collect()
        };
        Tokens { mask, penalty, log_prob, squares, values: of(known.values), teacher: of(known.teacher) }
    }

    /// The reward as the recipe shapes it.
    fn shaped(&self, reward: f64, length: usize) -> f64 {
        let algorithm = &self.recipe.algorithm;
        let bound = if algorithm.reward_clip > 0.0 { algorithm.reward_clip } else { f64::INFINITY };
        let reward = shaping::clip(&[reward], bound)[0];
        if algorithm.overlong.penalty == 0.0 {
            return reward;
        }
        let longest = self.recipe.rollout.max_tokens;
        let buffer = algorithm.overlong.buffer.unwrap_or(longest / 5).max(1);
        shaping::overlong(reward, length, longest, buffer, algorithm.overlong.penalty, true)
    }

    /// The reward of the greedy answer to every group's prompt, where it has one.
    fn greedy_rewards(
        &self,
        kept: &[Answered],
        console: &Console,
    ) -> Result<HashMap<GroupId, f64>, RunError> {
        let mut asked = HashMap::new();
        let asks: Vec<Ask> = kept
            .iter()
            .map(|answered| {
                let group = GroupId(format!("{}/greedy", answered.ask.group));
                asked.insert(group.clone(), answered.ask.group.clone());
                Ask { group, prompt: answered.ask.prompt.clone(), seeds: vec![0] }
            })
            .collect();
        let sampling = options::greedy(&self.recipe);
        let scorer = &self.plugins.scorer;
        let rollout = roll_out(&*self.engine, asks, &sampling, scorer, console, None, &mut all_groups)?;
        let Some(rollout) = rollout else { return Err(RunError::EngineDied { missing: 0, all: 0 }) };
        policy::check_failures(
            rollout.groups.iter().flat_map(|g| &g.judgements),
            self.recipe.on_failure.abort_above,
        )?;
        let reward = |answered: &Answered| {
            let reward = answered.judgements.first()?.reward()?;
            let length = answered.completions.first()?.tokens.len();
            Some((asked.get(&answered.ask.group)?.clone(), self.shaped(reward, length)))
        };
        Ok(rollout.groups.iter().filter_map(reward).collect())
    }

    /// The parts of the reward that are normalised each by itself: the components that the recipe weighs, or a
    /// reward as a whole where it weighs none.
    fn columns(&self, kept: &[Answered]) -> Result<Vec<Column>, RunError> {
        let rewards = &self.plugins.scorer.rewards;
        let mut columns = Vec::new();
        for reward in rewards {
            let prefix = if rewards.len() == 1 { String::new() } else { format!("{}/", reward.name) };
            if reward.weights.is_empty() {
                columns.push(Column { name: prefix.clone(), whole: true, weight: reward.weight });
            }
            columns.extend(reward.weights.iter().map(|(name, weight)| Column {
                name: format!("{prefix}{name}"),
                whole: false,
                weight: reward.weight * weight,
            }));
        }
        let judgements = || kept.iter().flat_map(|g| &g.judgements);
        for column in &columns {
            if !judgements().any(|j| column.value(j).is_finite()) {
                let mut known: Vec<String> =
                    judgements().flat_map(|j| j.components()).map(|c| c.name.clone()).collect();
                known.sort();
                known.dedup();
                return Err(RunError::NoComponent { name: column.name.clone(), known });
            }
        }
        Ok(columns)
    }

    fn in_reward(&self) -> bool {
        let kl = &self.recipe.algorithm.kl;
        kl.coefficient > 0.0 && kl.placement == Placement::Reward
    }

    /// Moves the coefficient of the divergence, where the recipe says so.
    fn steer_kl(&mut self, losses: &[LossMetrics], sequences: usize, numbers: &mut Vec<(&'static str, f64)>) {
        let kl = &self.recipe.algorithm.kl;
        if kl.coefficient == 0.0 {
            return;
        }
        numbers.push(("kl/coefficient", self.kl_coefficient));
        let Some(adaptive) = kl.adaptive else { return };
        let in_reward = numbers.iter().find(|(name, _)| *name == KL).map(|(_, kl)| *kl);
        let in_loss = losses.iter().map(|l| l.kl).sum::<f64>() / losses.len().max(1) as f64;
        let mut controller =
            AdaptiveKl { beta: self.kl_coefficient, target: adaptive.target, horizon: adaptive.horizon };
        controller.update(in_reward.unwrap_or(in_loss), sequences);
        self.kl_coefficient = controller.beta;
    }

    fn learn(
        &mut self,
        samples: &[TrainSample],
        said: &Said,
    ) -> Result<(Vec<LossMetrics>, Vec<StepMetrics>), RunError> {
        let term = self.teacher.as_ref().and_then(|teacher| teacher.term(said));
        let (mut losses, mut updates) = (Vec::new(), Vec::new());
        let mut loss = loss::loss(&self.recipe);
        if let Some(term) = &mut loss.kl {
            term.coefficient = self.kl_coefficient;
        }
        for _ in 0..self.recipe.algorithm.epochs {
            for part in minibatches(samples, self.recipe.algorithm.minibatches) {
                losses.push(match &term {
                    None => self.trainer.forward_backward(part, &loss)?,
                    Some(term) => self.trainer.forward_backward_towards(part, &loss, term)?,
                });
                updates.push(self.trainer.optimiser_step());
            }
        }
        Ok((losses, updates))
    }
}

/// What is known of the samples besides log-probabilities; one list per sample, or none where nobody reads them.
struct Known<'a> {
    /// `Σ p²` of the distribution each token was drawn from.
    squares: Vec<Vec<f64>>,
    /// The critic's values.
    values: &'a [Vec<f32>],
    /// The teacher's log-probabilities.
    teacher: &'a [Vec<f32>],
}

/// Mean over the sampled tokens of the policy's log-probability less the teacher's, an estimate of the divergence.
fn apart(samples: &[TrainSample], teacher: &[Vec<f32>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for (sample, teacher) in samples.iter().zip(teacher) {
        let own = sample.old_logprobs.as_ref().unwrap_or(&sample.rollout_logprobs);
        for t in (0..teacher.len()).filter(|&t| sample.loss_mask[t]) {
            sum += f64::from(own[t] - teacher[t]);
            count += 1;
        }
    }
    sum / f64::from(count.max(1))
}

/// What a critic learns beside an advantage plugin, whose baseline only the plugin knows: the reward that is still to
/// come, undiscounted.
fn rewards_to_go(samples: &[TrainSample], kept: &[Answered]) -> Vec<Vec<f32>> {
    let mut rewards = HashMap::new();
    for (completion, judgement) in kept.iter().flat_map(|g| g.completions.iter().zip(&g.judgements)) {
        rewards.insert(&completion.id, judgement.reward().unwrap_or(0.0));
    }
    let goal = |s: &TrainSample| vec![rewards.get(&s.id).copied().unwrap_or(0.0) as f32; s.tokens.len()];
    samples.iter().map(goal).collect()
}

/// A part of the reward.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    /// A component's name, or what the names of all of a reward's begin with.
    name: String,
    /// Whether it is the sum of all of a reward's components.
    whole: bool,
    /// Its factor in the sum.
    weight: f64,
}

impl Column {
    /// NaN where the sample has no such part.
    fn value(&self, judgement: &policy::Judgement) -> f64 {
        let own = judgement.components().iter().filter(|c| match self.whole {
            true => c.name.starts_with(&self.name),
            false => c.name == self.name,
        });
        let values: Vec<f64> = own.map(|c| c.value).collect();
        if values.is_empty() { f64::NAN } else { values.iter().sum() }
    }
}

/// Whitens and bounds advantages as the recipe says.
fn shape_advantages(samples: &mut [TrainSample], algorithm: &Algorithm) {
    let variance = match algorithm.whiten {
        Whiten::None => None,
        Whiten::Sample => Some((Variance::Sample, Guard::AddToVariance(EPS))),
        Whiten::Population => Some((Variance::Population, Guard::LeastVariance(EPS))),
    };
    if let Some((variance, guard)) = variance {
        let values: Vec<f64> = samples.iter().flat_map(|s| &s.advantages).map(|&a| f64::from(a)).collect();
        let mask: Vec<bool> = samples.iter().flat_map(|s| &s.loss_mask).copied().collect();
        let mut whitened = whiten(&values, &mask, variance, guard).into_iter();
        for slot in samples.iter_mut().flat_map(|s| &mut s.advantages) {
            *slot = whitened.next().unwrap_or(0.0) as f32;
        }
    }
    if algorithm.advantage_clip > 0.0 {
        let bound = algorithm.advantage_clip as f32;
        samples.iter_mut().flat_map(|s| &mut s.advantages).for_each(|a| *a = a.clamp(-bound, bound));
    }
}

/// Takes answers that were cut off out of the loss; returns how many.
fn leave_out_cut_off(samples: &mut [TrainSample], kept: &[Answered]) -> usize {
    let completions = kept.iter().flat_map(|g| &g.completions);
    let cut: HashSet<&SampleId> =
        completions.filter(|c| c.finish == FinishReason::Length).map(|c| &c.id).collect();
    let mut count = 0;
    for sample in samples.iter_mut().filter(|s| cut.contains(&s.id)) {
        sample.loss_mask.fill(false);
        count += 1;
    }
    count
}

/// Cuts samples into at most `parts` runs of whole groups, as even as the number of groups allows.
pub(crate) fn minibatches(samples: &[TrainSample], parts: usize) -> Vec<&[TrainSample]> {
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
