//! Warnings that a run gives by itself, each with its cause and what to do.
//!
//! An alert is a pure function of the steps so far (the last one is now). [`AlertWatch`] lets each speak
//! once until it clears: a warning that is repeated every step is no longer read.

use crate::StepStatistics;
use std::collections::HashSet;

/// Which warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// Filters dropped every group: the step trained on nothing.
    EveryGroupDropped,
    /// Every group's rewards are equal: there is nothing to learn from.
    NoVariance,
    /// Every reward is 0.
    EveryRewardZero,
    /// The reward found nothing to grade.
    NothingExtracted,
    /// Most samples have no score.
    ScoringFails,
    /// The reward plugin fails now and then.
    PluginFails,
    /// Most responses end at the token limit.
    CutOff,
    /// The policy says the same whatever it is asked.
    OneAnswer,
    /// The policy left the reference.
    KlExplodes,
    /// The gradient is far larger than before, or not finite.
    GradientExplodes,
    /// Optimiser steps change nothing.
    WeightsStandStill,
    /// Rollout and trainer disagree on the same tokens.
    EngineDrift,
    /// The rollout engine does not have the weights that it was given.
    SyncMismatch,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Alert {
    /// Which one.
    pub kind: AlertKind,
    /// What is the case, with numbers.
    pub cause: String,
    /// What to do.
    pub remedy: String,
}

/// An advantage below this is rounding.
const NO_ADVANTAGE: f64 = 1e-6;

/// Looks at the steps so far; the last one is now.
type Check = fn(&[StepStatistics]) -> Option<Alert>;

/// All alerts, in the order in which they are told: causes before consequences.
const ALERTS: [Check; 13] = [
    scoring_fails,
    plugin_fails,
    nothing_extracted,
    every_reward_zero,
    cut_off,
    every_group_dropped,
    no_variance,
    one_answer_takes_over,
    kl_explodes,
    gradient_explodes,
    weights_stand_still,
    engine_drift,
    sync_mismatch,
];

/// Remembers which alerts are on.
#[derive(Debug, Default)]
pub struct AlertWatch {
    history: Vec<StepStatistics>,
    on: HashSet<AlertKind>,
}

impl AlertWatch {
    /// Adds a step; returns the alerts that were not on before it.
    pub fn observe(&mut self, step: StepStatistics) -> Vec<Alert> {
        self.history.push(step);
        let now: Vec<Alert> = ALERTS.iter().filter_map(|alert| alert(&self.history)).collect();
        let before = std::mem::replace(&mut self.on, now.iter().map(|a| a.kind).collect());
        now.into_iter().filter(|a| !before.contains(&a.kind)).collect()
    }
}

/// At least half of the samples have no score.
pub fn scoring_fails(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let without = now.samples - now.scored.min(now.samples);
    if now.samples == 0 || without * 2 < now.samples {
        return None;
    }
    let kinds: Vec<String> = now.failures.iter().map(|(kind, n)| format!("{kind} x {n}")).collect();
    let why = match (&kinds[..], &now.unscored_note) {
        ([], Some((note, n))) => format!("; {n} say: \"{note}\""),
        ([], None) => String::new(),
        (kinds, Some((note, _))) => format!("; failures: {}; most often: \"{note}\"", kinds.join(", ")),
        (kinds, None) => format!("; failures: {}", kinds.join(", ")),
    };
    alert(
        AlertKind::ScoringFails,
        format!("{without} of {} samples have no score{why}", now.samples),
        "run `whet doctor` on the recipe: it grades every label against itself and names the rows that the reward cannot grade",
    )
}

/// The reward failed on at least one in twenty samples, though most have a score.
pub fn plugin_fails(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let failed: usize = now.failures.iter().map(|(_, n)| n).sum();
    if failed == 0 || failed * 20 < now.samples || scoring_fails(steps).is_some() {
        return None;
    }
    let kinds: Vec<String> = now.failures.iter().map(|(kind, n)| format!("{kind} x {n}")).collect();
    alert(
        AlertKind::PluginFails,
        format!("a reward plugin failed on {failed} of {} samples: {}", now.samples, kinds.join(", ")),
        "trajectories/ has these samples with the reason, and plugins.jsonl what the plugin logged; `whet plugin run` repeats them",
    )
}

/// At least nine of ten scored samples carry a note that nothing was found to grade.
pub fn nothing_extracted(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    if !now.learns_from_rewards || now.scored == 0 || now.unextracted * 10 < now.scored * 9 {
        return None;
    }
    let quote = now.common_note.as_ref().map_or(String::new(), |(note, _)| format!(": \"{note}\""));
    alert(
        AlertKind::NothingExtracted,
        format!(
            "the reward found nothing to grade in {} of {} responses{quote}",
            now.unextracted, now.scored
        ),
        "compare the responses above with what the plugin looks for; ask for that form in the system prompt, show it in few-shot examples, or choose a lenient extraction in the plugin's config",
    )
}

/// Every scored sample has reward 0, and 0 is not what the run has climbed to from below.
pub fn every_reward_zero(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let climbed = steps.iter().any(|s| s.reward < 0.0);
    if !now.learns_from_rewards || now.scored == 0 || now.zero_rewards < now.scored || climbed {
        return None;
    }
    let quote =
        now.common_note.as_ref().map_or(String::new(), |(note, n)| format!("; {n} notes say: \"{note}\""));
    alert(
        AlertKind::EveryRewardZero,
        format!("every reward is 0 ({} samples){quote}", now.scored),
        "look at the responses and notes; if the model cannot do the task at all yet, begin with easier rows, more samples per prompt or a reward for partial success",
    )
}

/// More than half of the responses ended at the token limit.
pub fn cut_off(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let share = now.cut_off.filter(|share| *share > 0.5)?;
    alert(
        AlertKind::CutOff,
        format!(
            "{:.0} % of the responses were cut off at rollout.max-tokens = {}",
            share * 100.0,
            now.max_tokens
        ),
        "raise rollout.max-tokens, or add a stop string that ends the answer; a response without its end is rarely graded right",
    )
}

/// The filters left no group to train on.
pub fn every_group_dropped(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let dropped: usize = now.dropped.iter().map(|(_, n)| n).sum();
    if now.trained > 0 || dropped == 0 {
        return None;
    }
    let reasons: Vec<String> = now.dropped.iter().map(|(reason, n)| format!("{reason} x {n}")).collect();
    alert(
        AlertKind::EveryGroupDropped,
        format!(
            "the filters dropped all {dropped} groups, so this step trained on nothing ({})",
            reasons.join(", ")
        ),
        "loosen the filter; sample on until enough groups pass (rollout.dynamic); or take rows that suit the model, easier ones if it fails them all",
    )
}

/// No group of two or more has unequal rewards, and the estimator makes nothing of that: a critic, a greedy answer or
/// the other groups may give equal rewards an advantage all the same. Where they are equal because every sample is as good as any was
/// so far, that is success: one such step says nothing, three in a row say that the rows are used up.
pub fn no_variance(steps: &[StepStatistics]) -> Option<Alert> {
    let idle = |step: &StepStatistics| {
        let equal = step.groups > 0 && step.groups_with_variance == 0;
        step.learns_from_rewards && equal && step.largest_advantage.abs() <= NO_ADVANTAGE
    };
    let (first, now) = (steps.first()?, steps.last()?);
    if !idle(now) {
        return None;
    }
    let best = steps.iter().map(|s| s.reward).fold(f64::NEG_INFINITY, f64::max);
    if now.reward > first.reward && now.reward >= best {
        let run = steps.iter().rev().take_while(|s| idle(s) && s.reward >= best).count();
        return if run < 3 {
            None
        } else {
            alert(
                AlertKind::NoVariance,
                format!(
                    "every sample of the last {run} steps has the best reward of the run: nothing is left to learn"
                ),
                "stop here, or go on with harder rows",
            )
        };
    }
    alert(
        AlertKind::NoVariance,
        format!(
            "in all {} groups every sample has the same reward, so no advantage differs from 0",
            now.groups
        ),
        "use rows that are neither always nor never solved, more samples per prompt, a higher temperature, or a reward with finer steps",
    )
}

/// One response is given to at least four prompts that want different answers, or the distribution has no
/// entropy left while the reward is no better than at the start.
pub fn one_answer_takes_over(steps: &[StepStatistics]) -> Option<Alert> {
    let (first, now) = (steps.first()?, steps.last()?);
    let remedy = "raise the temperature, lower train.learning-rate, add a KL penalty (algorithm.kl), and check that the reward cannot be won with one fixed answer";
    if let Some((response, share)) = &now.common_response
        && *share >= 0.8
        && now.prompts >= 4
        && now.labels != 1
    {
        let short: String = response.chars().take(60).collect();
        return alert(
            AlertKind::OneAnswer,
            format!(
                "one answer takes over: {:.0} % of the responses to {} prompts are {short:?}",
                share * 100.0,
                now.prompts
            ),
            remedy,
        );
    }
    let collapsed = steps.len() > 5 && now.entropy < 0.01 && now.entropy < 0.1 * first.entropy;
    if collapsed && now.reward <= first.reward + 0.05 {
        return alert(
            AlertKind::OneAnswer,
            format!(
                "the entropy fell from {:.3} to {:.4} nats per token without a gain in reward",
                first.entropy, now.entropy
            ),
            remedy,
        );
    }
    None
}

/// The KL estimate is not finite, above 10, or above 0.5 and more than ten times its recent median.
pub fn kl_explodes(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let recent = median(steps, |s| Some(s.kl.abs()));
    let jumped = now.kl.abs() > 0.5 && recent.is_some_and(|m| now.kl.abs() > 10.0 * m);
    if now.kl.is_finite() && now.kl.abs() <= 10.0 && !jumped {
        return None;
    }
    alert(
        AlertKind::KlExplodes,
        format!("the KL estimate is {:.3} nats per token{}", now.kl, before(recent)),
        "lower train.learning-rate or raise the KL coefficient; go back to an earlier checkpoint if the reward has fallen",
    )
}

/// The gradient norm is not finite, or above 1 and more than ten times its recent median.
pub fn gradient_explodes(steps: &[StepStatistics]) -> Option<Alert> {
    let norm = steps.last()?.grad_norm?;
    let recent = median(steps, |s| s.grad_norm);
    let jumped = norm > 1.0 && recent.is_some_and(|m| norm > 10.0 * m);
    if norm.is_finite() && !jumped {
        return None;
    }
    alert(
        AlertKind::GradientExplodes,
        format!("the gradient norm is {norm:.3}{}", before(recent)),
        "lower train.learning-rate, lengthen the warm-up or clip lower; a norm that is not finite also means that the step was lost",
    )
}

/// An optimiser step with a gradient and a learning rate left the probed weights as they were.
pub fn weights_stand_still(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    let moved = now.weight_change? != 0.0;
    let idle = now.learning_rate == 0.0 || now.grad_norm.is_none_or(|norm| norm == 0.0);
    if moved || idle {
        return None;
    }
    alert(
        AlertKind::WeightsStandStill,
        format!(
            "the optimiser step changed nothing that the rollout engine sees (gradient norm {:.2e}, learning rate {:.1e})",
            now.grad_norm.unwrap_or(0.0),
            now.learning_rate
        ),
        "updates this small vanish in bf16: raise train.learning-rate, or run the model in fp32",
    )
}

/// Rollout and trainer log-probs of the same tokens are further apart than the precision explains.
pub fn engine_drift(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    if now.drift <= now.drift_limit {
        return None;
    }
    alert(
        AlertKind::EngineDrift,
        format!(
            "rollout and trainer log-probs differ by {:.4} on average; at most {} is expected of this precision and device",
            now.drift, now.drift_limit
        ),
        "importance weights are unreliable: use fp32, or a bound by algorithm.correction; if it persists in fp32 or on a CPU this is a defect worth reporting",
    )
}

/// After the weights were handed over, the engine gives a fixed text other log-probs than the trainer.
pub fn sync_mismatch(steps: &[StepStatistics]) -> Option<Alert> {
    let now = steps.last()?;
    // A gap that is no number is the worst of all.
    let gap = now.sync_gap.filter(|gap| gap.is_nan() || *gap > now.sync_limit)?;
    alert(
        AlertKind::SyncMismatch,
        format!(
            "after the weights were handed over, engine and trainer differ by {gap:.4} on average on the same text; at most {} is expected of this precision and device",
            now.sync_limit
        ),
        "the engine samples from other weights than the trainer trains: stop the run and report it, with the model's config.json",
    )
}

/// Median of up to twenty steps before the current one; `None` while there are fewer than five. Steps
/// with exactly 0 had nothing to learn and say nothing about what is usual.
fn median(steps: &[StepStatistics], value: impl Fn(&StepStatistics) -> Option<f64>) -> Option<f64> {
    let (_, earlier) = steps.split_last()?;
    let mut values: Vec<f64> =
        earlier.iter().rev().filter_map(value).filter(|v| v.is_finite() && *v != 0.0).take(20).collect();
    if values.len() < 5 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some(values[values.len() / 2])
}

fn before(recent: Option<f64>) -> String {
    recent.map_or(String::new(), |m| format!("; it was {m:.3}"))
}

fn alert(kind: AlertKind, cause: String, remedy: &str) -> Option<Alert> {
    Some(Alert { kind, cause, remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step about which nothing is wrong.
    fn healthy() -> StepStatistics {
        StepStatistics {
            step: 1,
            groups: 8,
            groups_with_variance: 5,
            learns_from_rewards: true,
            largest_advantage: 1.2,
            trained: 6,
            dropped: vec![("difficulty: too-hard".into(), 2)],
            samples: 64,
            scored: 64,
            zero_rewards: 30,
            unextracted: 4,
            common_note: Some(("found 12, expected 45".into(), 3)),
            unscored_note: None,
            failures: Vec::new(),
            cut_off: Some(0.1),
            max_tokens: 32,
            prompts: 8,
            labels: 8,
            common_response: Some(("45".into(), 0.1)),
            entropy: 0.8,
            reward: 0.5,
            kl: 0.01,
            grad_norm: Some(0.7),
            weight_change: Some(1e-4),
            learning_rate: 1e-5,
            drift: 0.01,
            drift_limit: 0.05,
            sync_gap: Some(0.01),
            sync_limit: 0.15,
        }
    }

    fn steps(count: usize, last: impl Fn(&mut StepStatistics)) -> Vec<StepStatistics> {
        let mut steps = vec![healthy(); count];
        last(steps.last_mut().unwrap());
        steps
    }

    #[test]
    fn a_healthy_run_is_silent() {
        for alert in ALERTS {
            assert_eq!(alert(&vec![healthy(); 12]), None);
        }
    }

    #[test]
    fn half_the_samples_without_a_score_is_told_with_the_kinds() {
        let told = scoring_fails(&steps(1, |s| {
            s.scored = 30;
            s.failures = vec![("wall-timeout".into(), 34)];
        }));
        assert!(told.unwrap().cause.contains("wall-timeout x 34"));
        assert_eq!(scoring_fails(&steps(1, |s| s.scored = 40)), None);
    }

    #[test]
    fn what_samples_without_a_score_say_is_quoted_and_not_what_scored_ones_say() {
        let told = scoring_fails(&steps(1, |s| {
            s.scored = 30;
            s.common_note = Some(("no answer: no number".into(), 20));
            s.unscored_note = Some(("the label \"cat\" is not a number".into(), 34));
        }));
        let cause = told.unwrap().cause;
        assert!(cause.contains("34 say: \"the label") && !cause.contains("no answer"), "{cause}");
    }

    #[test]
    fn a_plugin_that_fails_now_and_then_is_told() {
        let failing = |n| {
            steps(1, |s| {
                s.scored = s.samples - n;
                s.failures = vec![("trapped".into(), n)];
            })
        };
        let told = plugin_fails(&failing(8)).unwrap();
        assert!(told.cause.contains("failed on 8 of 64 samples: trapped x 8"), "{}", told.cause);
        assert_eq!(plugin_fails(&failing(3)), None);
        assert_eq!(plugin_fails(&failing(40)), None, "that most samples have no score is told otherwise");
    }

    #[test]
    fn notes_that_nothing_was_found_are_quoted() {
        let told = nothing_extracted(&steps(1, |s| {
            s.unextracted = 60;
            s.common_note = Some(("no number in the response".into(), 60));
        }));
        assert!(told.unwrap().cause.contains("no number in the response"));
        assert_eq!(nothing_extracted(&steps(1, |s| s.unextracted = 50)), None);
    }

    #[test]
    fn rewards_that_are_all_zero_are_told() {
        assert!(every_reward_zero(&steps(1, |s| s.zero_rewards = 64)).is_some());
        assert_eq!(every_reward_zero(&steps(1, |s| s.zero_rewards = 63)), None);
        let mut penalty = steps(2, |s| (s.zero_rewards, s.reward) = (64, 0.0));
        penalty[0].reward = -0.4;
        assert_eq!(every_reward_zero(&penalty), None);
        assert_eq!(every_reward_zero(&steps(1, |s| (s.scored, s.zero_rewards) = (0, 0))), None);
    }

    #[test]
    fn cut_off_responses_name_the_limit() {
        let told = cut_off(&steps(1, |s| s.cut_off = Some(0.9)));
        assert!(told.unwrap().cause.contains("max-tokens = 32"));
        assert_eq!(cut_off(&steps(1, |s| s.cut_off = None)), None);
    }

    #[test]
    fn a_step_of_which_filters_leave_nothing_is_told_with_filters_reasons_and_counts() {
        let told = every_group_dropped(&steps(1, |s| {
            s.trained = 0;
            s.dropped = vec![("difficulty: too-hard".into(), 7), ("zero-variance: equal".into(), 1)];
        }))
        .unwrap();
        assert!(told.cause.contains("all 8 groups"), "{}", told.cause);
        assert!(told.cause.contains("difficulty: too-hard x 7, zero-variance: equal x 1"), "{}", told.cause);
        assert!(told.remedy.contains("rollout.dynamic"), "{}", told.remedy);
        assert_eq!(every_group_dropped(&steps(1, |s| s.trained = 1)), None);
        let unscored = steps(1, |s| (s.trained, s.dropped) = (0, Vec::new()));
        assert_eq!(every_group_dropped(&unscored), None, "no filter is to blame");
    }

    #[test]
    fn groups_without_variance_are_told() {
        let flat = |s: &mut StepStatistics| (s.groups_with_variance, s.largest_advantage) = (0, 0.0);
        assert!(no_variance(&steps(1, flat)).is_some());
        assert_eq!(no_variance(&steps(1, |s| s.groups_with_variance = 1)), None);
    }

    #[test]
    fn equal_rewards_are_no_trouble_where_the_estimator_learns_from_them() {
        assert_eq!(no_variance(&steps(1, |s| s.groups_with_variance = 0)), None);
        let rounding = |s: &mut StepStatistics| (s.groups_with_variance, s.largest_advantage) = (0, 1e-11);
        assert!(no_variance(&steps(1, rounding)).is_some());
    }

    #[test]
    fn rewards_that_are_only_measured_are_not_warned_about() {
        let measured = steps(1, |s| {
            s.learns_from_rewards = false;
            (s.groups_with_variance, s.largest_advantage) = (0, 0.0);
            (s.zero_rewards, s.unextracted) = (64, 64);
        });
        for check in ALERTS {
            assert_eq!(check(&measured), None);
        }
    }

    #[test]
    fn a_step_in_which_everything_is_solved_is_no_trouble_but_three_are_the_end() {
        let solved = || {
            steps(1, |s| (s.groups_with_variance, s.largest_advantage, s.reward) = (0, 0.0, 1.0)).remove(0)
        };
        let mut run = vec![healthy(), solved(), solved(), solved()];
        run[0].reward = 0.1;
        assert_eq!(no_variance(&run[..2]), None);
        assert!(no_variance(&run).unwrap().cause.contains("nothing is left to learn"));
        run[3].reward = 0.5;
        assert!(no_variance(&run).unwrap().cause.contains("no advantage differs"));
    }

    #[test]
    fn one_answer_to_many_prompts_is_told_but_not_when_it_is_the_right_one() {
        let taken = |s: &mut StepStatistics| s.common_response = Some(("99".into(), 0.95));
        assert!(one_answer_takes_over(&steps(1, taken)).is_some());
        let same_label = steps(1, |s| {
            taken(s);
            s.labels = 1;
        });
        assert_eq!(one_answer_takes_over(&same_label), None);
    }

    #[test]
    fn entropy_that_falls_without_gain_is_told_and_with_gain_is_not() {
        assert!(one_answer_takes_over(&steps(10, |s| s.entropy = 0.001)).is_some());
        let solved = steps(10, |s| (s.entropy, s.reward) = (0.001, 1.0));
        assert_eq!(one_answer_takes_over(&solved), None);
    }

    #[test]
    fn an_exploding_kl_is_told_against_its_own_past() {
        assert!(kl_explodes(&steps(10, |s| s.kl = 0.9)).is_some());
        assert!(kl_explodes(&steps(1, |s| s.kl = f64::NAN)).is_some());
        assert_eq!(kl_explodes(&steps(2, |s| s.kl = 0.9)), None);
    }

    #[test]
    fn an_exploding_gradient_is_told_against_its_own_past() {
        assert!(gradient_explodes(&steps(10, |s| s.grad_norm = Some(50.0))).is_some());
        assert!(gradient_explodes(&steps(1, |s| s.grad_norm = Some(f64::INFINITY))).is_some());
        assert_eq!(gradient_explodes(&steps(10, |s| s.grad_norm = Some(2.0))), None);
        let mut idle = steps(10, |s| s.grad_norm = Some(2.0));
        idle[..9].iter_mut().for_each(|s| s.grad_norm = Some(0.0));
        assert_eq!(gradient_explodes(&idle), None);
    }

    #[test]
    fn weights_that_stand_still_are_told_only_when_they_should_move() {
        assert!(weights_stand_still(&steps(3, |s| s.weight_change = Some(0.0))).is_some());
        let no_gradient = steps(3, |s| (s.weight_change, s.grad_norm) = (Some(0.0), Some(0.0)));
        assert_eq!(weights_stand_still(&no_gradient), None);
        let no_rate = steps(3, |s| (s.weight_change, s.learning_rate) = (Some(0.0), 0.0));
        assert_eq!(weights_stand_still(&no_rate), None);
    }

    #[test]
    fn engines_that_disagree_are_told() {
        assert!(engine_drift(&steps(1, |s| s.drift = 0.2)).is_some());
    }

    #[test]
    fn an_engine_with_other_weights_is_told() {
        assert!(sync_mismatch(&steps(1, |s| s.sync_gap = Some(1.5))).is_some());
        assert!(sync_mismatch(&steps(1, |s| s.sync_gap = Some(f64::NAN))).is_some());
        assert_eq!(sync_mismatch(&steps(1, |s| s.sync_gap = None)), None);
    }

    #[test]
    fn an_alert_speaks_once_until_it_clears() {
        let mut watch = AlertWatch::default();
        let flat = || StepStatistics { groups_with_variance: 0, largest_advantage: 0.0, ..healthy() };
        assert_eq!(watch.observe(flat()).len(), 1);
        assert_eq!(watch.observe(flat()).len(), 0);
        assert_eq!(watch.observe(healthy()).len(), 0);
        assert_eq!(watch.observe(flat())[0].kind, AlertKind::NoVariance);
    }
}
