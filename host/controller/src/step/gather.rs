//! Gathering the groups of a step: ask, score, filter, and with dynamic sampling ask on until enough pass.
//!
//! Without `[rollout] dynamic` a step asks its prompts once and trains on what the filters leave. With it
//! (DAPO, arXiv 2503.14476) a step trains on the first `prompts-per-step` groups that pass, counted in the
//! order in which they were asked: neither the engine's speed nor the length of a response decides which
//! groups these are, so short answers are not preferred and a resumed run gathers the same ones. What was
//! asked beyond the last group that counted is cancelled, and its prompts come first in the next step.
//!
//! Knows nothing of losses.

use crate::plugins::Named;
use crate::setup::{Tally, count};
use crate::step::Roles;
use crate::step::policy::{self, Judgement};
use crate::step::rollout::{Answered, Ask, all_groups, group_of, roll_out};
use crate::{RunError, options, seed};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use whet_observe::Console;
use whet_plugin_host::{FilterPlugin, ScoredGroup};
use whet_recipe::Dynamic;
use whet_trajectory::{Group, GroupId};

/// The groups of a step.
#[derive(Debug)]
pub struct Gathered {
    /// All groups that were asked and counted, in that order, also those that a filter dropped.
    pub groups: Vec<Answered>,
    /// Which of them are trained on, as indices, ascending.
    pub chosen: Vec<usize>,
    /// Groups not trained on, by who dropped them and why.
    pub dropped: Vec<(Drop, usize)>,
    /// Groups that are trained on though a filter would rather drop them, since too few passed.
    pub spared: usize,
    /// How often prompts were asked.
    pub attempts: usize,
    /// Responses asked for in vain: enough groups had passed before them.
    pub discarded: usize,
    /// Position in the data order after the last group that counted.
    pub position: u64,
    /// Seconds until the last response.
    pub sampling_seconds: f64,
    /// Seconds from the last response to the last score, over all attempts.
    pub scoring_seconds: f64,
}

impl Gathered {
    /// The groups that are trained on.
    pub fn chosen(&self) -> Vec<Answered> {
        self.chosen.iter().map(|&i| self.groups[i].clone()).collect()
    }

    /// Groups not trained on, by the reason of the filter that dropped them.
    pub fn dropped_by_reason(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        for (drop, count) in &self.dropped {
            *reasons.entry(drop.reason.as_str()).or_default() += count;
        }
        reasons
    }

    /// How many groups are trained on, and how many were sampled.
    pub fn counts(&self) -> [usize; 2] {
        [self.chosen.len(), self.groups.len()]
    }
}

/// What the filters say about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// All keep it.
    Kept,
    /// One drops it, unless too few groups pass.
    Spared(Drop),
    /// One drops it.
    Dropped(Drop),
}

/// Who drops a group, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// The filter's name.
    pub filter: String,
    /// What it says.
    pub reason: String,
}

impl Roles {
    /// The groups of step `step`.
    pub(crate) fn gather(&self, step: u64, console: &mut Console) -> Result<Gathered, RunError> {
        match &self.recipe.rollout.dynamic {
            None => self.gather_once(step, console),
            Some(dynamic) => self.gather_until_enough(step, dynamic, console),
        }
    }

    fn gather_once(&self, step: u64, console: &mut Console) -> Result<Gathered, RunError> {
        let wanted = self.recipe.rollout.prompts_per_step;
        let asks = self.asks(step, 0..wanted, &mut HashMap::new());
        console.phase("rollout", wanted * self.recipe.rollout.samples_per_prompt);
        let sampling = options::sampling(&self.recipe);
        let scorer = &self.plugins.scorer;
        let rollout = roll_out(&*self.engine, asks, &sampling, scorer, console, None, &mut all_groups);
        console.end_phase();
        // Without a stop the rollout always runs to its end.
        let Some(rollout) = rollout? else { return Err(RunError::EngineDied { missing: 0, all: 0 }) };
        self.check_failures(&rollout.groups)?;
        let fates = judge_groups(&self.plugins.filters, &rollout.groups.iter().collect::<Vec<_>>())?;
        // A batch of any size trains; only an empty one is short.
        let wanted = if fates.contains(&Fate::Kept) { 0 } else { wanted };
        let (chosen, spared) = choose(&fates, wanted);
        Ok(Gathered {
            dropped: tally(&fates, &chosen),
            chosen,
            spared,
            groups: rollout.groups,
            attempts: 1,
            discarded: 0,
            position: self.position + self.recipe.rollout.prompts_per_step as u64,
            sampling_seconds: rollout.sampling_seconds,
            scoring_seconds: rollout.scoring_seconds,
        })
    }

    fn gather_until_enough(
        &self,
        step: u64,
        dynamic: &Dynamic,
        console: &mut Console,
    ) -> Result<Gathered, RunError> {
        let (wanted, samples) =
            (self.recipe.rollout.prompts_per_step, self.recipe.rollout.samples_per_prompt);
        let sampling = options::sampling(&self.recipe);
        let (mut groups, mut fates, mut seen) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut attempts, mut discarded, mut passed) = (0, 0, 0);
        let (mut sampling_seconds, mut scoring_seconds) = (0.0, 0.0);
        while attempts < dynamic.max_attempts && passed < wanted {
            attempts += 1;
            let number = attempt_size(dynamic.oversample, wanted, passed, groups.len());
            let asks = self.asks(step, groups.len()..groups.len() + number, &mut seen);
            let title =
                if attempts == 1 { "rollout".to_owned() } else { format!("rollout, attempt {attempts}") };
            console.phase(&title, number * samples);
            let scorer = &self.plugins.scorer;
            let watch = &*console;
            watch.phase_note(&format!("{passed}/{wanted} groups"));
            let mut taker = |group: &Answered| {
                let fate = judge_groups(&self.plugins.filters, &[group])?;
                passed += usize::from(fate.contains(&Fate::Kept));
                fates.extend(fate);
                watch.phase_note(&format!("{passed}/{wanted} groups"));
                Ok(if passed == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let rollout = roll_out(&*self.engine, asks, &sampling, scorer, watch, None, &mut taker);
            console.end_phase();
            let Some(rollout) = rollout? else { return Err(RunError::EngineDied { missing: 0, all: 0 }) };
            discarded += rollout.discarded;
            sampling_seconds += rollout.sampling_seconds;
            scoring_seconds += rollout.scoring_seconds;
            groups.extend(rollout.groups);
            // Groups without scores pass no filter: what is wrong is the reward, and it is told as such.
            self.check_failures(&groups)?;
        }
        let (chosen, spared) = choose(&fates, wanted);
        if chosen.len() < wanted {
            return Err(starved(step, wanted, chosen.len(), attempts, &fates));
        }
        Ok(Gathered {
            dropped: tally(&fates, &chosen),
            chosen,
            spared,
            position: self.position + groups.len() as u64,
            groups,
            attempts,
            discarded,
            sampling_seconds,
            scoring_seconds,
        })
    }

    /// The prompts at `slots` of a step, counted from the run's position in the data. A row that a small
    /// data set brings again makes a group of its own; `seen` counts how often each was asked.
    fn asks(&self, step: u64, slots: std::ops::Range<usize>, seen: &mut HashMap<usize, usize>) -> Vec<Ask> {
        let first = self.position;
        let rows = self.order.rows(first + slots.start as u64..first + slots.end as u64);
        let mut ask = |(slot, row): (usize, usize)| {
            let prompt = self.prompts[row].clone();
            let again = seen.entry(row).and_modify(|n| *n += 1).or_insert(0);
            let again = if *again == 0 { String::new() } else { format!(".{again}") };
            Ask {
                group: GroupId(format!("step{step}/row{}{again}", prompt.row)),
                prompt,
                seeds: (0..self.recipe.rollout.samples_per_prompt)
                    .map(|k| seed::sample(self.recipe.seed, step, slot, k))
                    .collect(),
            }
        };
        slots.zip(rows).map(&mut ask).collect()
    }

    fn check_failures(&self, groups: &[Answered]) -> Result<(), RunError> {
        let judgements = groups.iter().flat_map(|g| &g.judgements);
        policy::check_failures(judgements, self.recipe.on_failure.abort_above)
    }
}

/// Prompts of the next attempt: of the first one `oversample` times what the step needs; later what is
/// missing, as many times as it took so far to have one pass, but never more than at first.
fn attempt_size(oversample: f64, wanted: usize, passed: usize, asked: usize) -> usize {
    let whole = (wanted as f64 * oversample).ceil();
    if passed == 0 {
        return whole as usize;
    }
    let (missing, per_pass) = ((wanted - passed) as f64, asked as f64 / passed as f64);
    (missing * per_pass * oversample).ceil().min(whole) as usize
}

/// What all filters together say about each group: the first that drops it decides, and one that drops it
/// for good outweighs one that would spare it.
fn judge_groups(filters: &[Named<FilterPlugin>], all: &[&Answered]) -> Result<Vec<Fate>, RunError> {
    let mut fates = vec![Fate::Kept; all.len()];
    for filter in filters {
        let open: Vec<usize> = (0..all.len()).filter(|&i| !matches!(fates[i], Fate::Dropped(_))).collect();
        if open.is_empty() {
            break;
        }
        let groups: Vec<Group> = open.iter().map(|&i| group_of(&all[i].ask, &all[i].completions)).collect();
        let rewards: Vec<Vec<Option<f64>>> =
            open.iter().map(|&i| all[i].judgements.iter().map(Judgement::reward).collect()).collect();
        let scored: Vec<ScoredGroup<'_>> =
            groups.iter().zip(&rewards).map(|(group, rewards)| ScoredGroup { group, rewards }).collect();
        let verdicts = filter.plugin.keep_groups(&scored).map_err(|error| RunError::PluginCall {
            role: "filter",
            name: filter.name.clone(),
            failure: error.into(),
        })?;
        for (i, verdict) in open.into_iter().zip(verdicts) {
            if verdict.keep {
                continue;
            }
            let drop = Drop { filter: filter.name.clone(), reason: verdict.reason };
            fates[i] = match (verdict.keep_if_short, &fates[i]) {
                (true, Fate::Spared(first)) => Fate::Spared(first.clone()),
                (true, _) => Fate::Spared(drop),
                (false, _) => Fate::Dropped(drop),
            };
        }
    }
    Ok(fates)
}

/// The groups to train on: those that are kept and, while they are fewer than `wanted`, the first of those
/// that are spared; also how many of the latter.
fn choose(fates: &[Fate], wanted: usize) -> (Vec<usize>, usize) {
    let mut chosen: Vec<usize> = (0..fates.len()).filter(|&i| fates[i] == Fate::Kept).collect();
    let missing = wanted.saturating_sub(chosen.len());
    let spared = (0..fates.len()).filter(|&i| matches!(fates[i], Fate::Spared(_))).take(missing);
    let kept = chosen.len();
    chosen.extend(spared);
    let spared = chosen.len() - kept;
    chosen.sort_unstable();
    (chosen, spared)
}

/// How many groups that were not chosen were dropped by whom and why.
fn tally(fates: &[Fate], chosen: &[usize]) -> Vec<(Drop, usize)> {
    let mut dropped: Vec<(Drop, usize)> = Vec::new();
    for (i, fate) in fates.iter().enumerate() {
        if let Fate::Spared(drop) | Fate::Dropped(drop) = fate
            && chosen.binary_search(&i).is_err()
        {
            match dropped.iter_mut().find(|(known, _)| known == drop) {
                Some((_, count)) => *count += 1,
                None => dropped.push((drop.clone(), 1)),
            }
        }
    }
    dropped
}

/// The error of a step that found too few groups.
fn starved(step: u64, wanted: usize, found: usize, attempts: usize, fates: &[Fate]) -> RunError {
    let mut dropped = Tally::new();
    for fate in fates {
        if let Fate::Dropped(Drop { filter, reason }) = fate {
            count(&mut dropped, &format!("{filter} dropped NUMBER for {reason}"));
        }
    }
    dropped.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let dropped = dropped.into_iter().map(|(text, n)| text.replacen("NUMBER", &n.to_string(), 1));
    RunError::Starved { step, wanted, found, asked: fates.len(), attempts, dropped: dropped.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop(filter: &str, reason: &str) -> Drop {
        Drop { filter: filter.into(), reason: reason.into() }
    }

    #[test]
    fn spared_groups_fill_what_is_missing_in_the_order_of_asking() {
        let spared = || Fate::Spared(drop("a", "equal"));
        let fates = [spared(), Fate::Kept, Fate::Dropped(drop("b", "bad")), spared(), spared(), Fate::Kept];
        assert_eq!(choose(&fates, 2), (vec![1, 5], 0));
        assert_eq!(choose(&fates, 4), (vec![0, 1, 3, 5], 2));
        assert_eq!(choose(&fates, 9), (vec![0, 1, 3, 4, 5], 3));
        assert_eq!(tally(&fates, &[0, 1, 3, 5]), [(drop("b", "bad"), 1), (drop("a", "equal"), 1)]);
    }

    #[test]
    fn later_attempts_ask_for_what_is_missing_by_what_passed_so_far() {
        assert_eq!(attempt_size(1.5, 8, 0, 0), 12);
        // Nothing passed: another whole attempt.
        assert_eq!(attempt_size(1.5, 8, 0, 12), 12);
        // A third passed, so one that is missing costs three, and half as many again to be safe.
        assert_eq!(attempt_size(1.5, 8, 6, 18), 9);
        assert_eq!(attempt_size(1.5, 8, 1, 12), 12);
        assert_eq!(attempt_size(1.0, 8, 7, 8), 2);
    }

    #[test]
    fn who_starved_a_step_is_named_with_the_most_frequent_reason_first() {
        let mut fates = vec![Fate::Dropped(drop("difficulty", "too-easy")); 3];
        fates.extend(vec![Fate::Dropped(drop("zero-variance", "too-few-scores")); 5]);
        fates.push(Fate::Kept);
        let text = starved(7, 4, 1, 2, &fates).to_string();
        assert!(text.starts_with("step 7 starved: 1 of 4 groups"), "{text}");
        assert!(text.contains("2 attempts with 9 prompts"), "{text}");
        let (first, second) = (text.find("zero-variance dropped 5"), text.find("difficulty dropped 3"));
        assert!(first.is_some() && first < second, "{text}");
    }
}
