//! From outcomes to rewards: what several plugins say together, and what a failure does.
//!
//! A failure is never a score. A sample that any reward could not score has no reward: it is left out of
//! its group's statistics and of the loss, and counted. When too large a part of a step failed, the run
//! stops rather than learn from what is left.

use crate::RunError;
use std::collections::BTreeMap;
use whet_recipe::{Combine, Comparison};
use whet_trajectory::{Component, Failure, Grade, Outcome};

/// What one reward plugin said about a sample, and how it counts.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// The plugin's name, for people.
    pub plugin: &'a str,
    /// Factor of this plugin's reward in the total.
    pub weight: f64,
    /// Factors of its components; 1 where silent.
    pub weights: &'a [(String, f64)],
    /// How its reward enters the total.
    pub combine: Combine,
    /// What must hold for its reward to count.
    pub gates: &'a [Gate],
    /// What it said.
    pub outcome: Outcome,
}

/// A condition on a component of a sample's rewards.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Which of the rewards has the component, in the recipe's order.
    pub reward: usize,
    /// The component, by its plugin's name for it.
    pub component: String,
    /// How it compares with `value` where the condition holds.
    pub comparison: Comparison,
    /// A finite number.
    pub value: f64,
}

/// A sample's reward and what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It counts.
    Scored {
        /// The sum of the weighted rewards times the factors, each 0 where its gate is closed.
        reward: f64,
        /// Component values before weights; `plugin/name` where several plugins judge.
        components: Vec<Component>,
        /// The plugins' notes.
        note: Option<String>,
    },
    /// There is no right score.
    Unscorable {
        /// Why, for people.
        reason: String,
    },
    /// A plugin failed.
    Failed(Failure),
}

impl Judgement {
    /// The reward, if there is one.
    pub fn reward(&self) -> Option<f64> {
        match self {
            Judgement::Scored { reward, .. } => Some(*reward),
            _ => None,
        }
    }

    /// The parts of the reward; none unless scored.
    pub fn components(&self) -> &[Component] {
        match self {
            Judgement::Scored { components, .. } => components,
            _ => &[],
        }
    }

    /// What people read beside the score: the note, the reason, or the failure.
    pub fn note(&self) -> Option<String> {
        match self {
            Judgement::Scored { note, .. } => note.clone(),
            Judgement::Unscorable { reason } => Some(reason.clone()),
            Judgement::Failed(failure) => Some(failure.to_string()),
        }
    }
}

/// Joins what all rewards said about one sample: a failure outweighs "unscorable", which outweighs scores,
/// also where a gate would make the reward 0.
pub fn judge(verdicts: Vec<Verdict<'_>>) -> Judgement {
    let alone = verdicts.len() == 1;
    let named = |plugin: &str, text: String| if alone { text } else { format!("{plugin}: {text}") };
    let total = total(&verdicts);
    let (mut components, mut notes) = (Vec::new(), Vec::new());
    let mut unscorable = None;
    for verdict in verdicts {
        match verdict.outcome {
            Outcome::Failed(failure) => return Judgement::Failed(failure),
            Outcome::Unscorable { reason } => {
                unscorable.get_or_insert_with(|| named(verdict.plugin, reason));
            }
            Outcome::Scored(Grade { components: parts, note, .. }) => {
                components.extend(parts.into_iter().map(|c| Component {
                    name: if alone { c.name } else { format!("{}/{}", verdict.plugin, c.name) },
                    value: c.value,
                }));
                notes.extend(note.map(|n| named(verdict.plugin, n)));
            }
        }
    }
    if let Some(reason) = unscorable {
        return Judgement::Unscorable { reason };
    }
    let reward = match total {
        Ok(reward) => reward,
        Err(reason) => return Judgement::Unscorable { reason },
    };
    Judgement::Scored { reward, components, note: (!notes.is_empty()).then(|| notes.join("; ")) }
}

/// `sum of weight * reward` over what is added, times `weight * reward` of each factor; a reward whose gate
/// is closed counts as 0. Only meant where every reward is scored.
fn total(verdicts: &[Verdict<'_>]) -> Result<f64, String> {
    let (mut sum, mut product) = (None::<f64>, 1.0);
    for verdict in verdicts {
        let open = verdict.gates.iter().map(|gate| is_open(gate, verdicts)).collect::<Result<Vec<_>, _>>()?;
        let reward = match open.iter().all(|open| *open) {
            true => verdict.weight * verdict.outcome.reward(verdict.weights).unwrap_or(0.0),
            false => 0.0,
        };
        match verdict.combine {
            Combine::Sum => sum = Some(sum.unwrap_or(0.0) + reward),
            Combine::Product => product *= reward,
        }
    }
    let total = sum.unwrap_or(1.0) * product;
    // Finite components and weights may still overflow; that is then no number to learn from.
    if total.is_finite() { Ok(total) } else { Err("the rewards together are not finite".into()) }
}

/// Whether the condition holds. Without its component there is no telling.
fn is_open(gate: &Gate, verdicts: &[Verdict<'_>]) -> Result<bool, String> {
    let parts = verdicts.get(gate.reward).map(|verdict| &verdict.outcome);
    let Some(Outcome::Scored(grade)) = parts else { return Ok(false) };
    match grade.components.iter().find(|c| c.name == gate.component) {
        Some(component) => Ok(gate.comparison.holds(component.value, gate.value)),
        None => Err(format!("the sample has no component `{}`, which a gate asks for", gate.component)),
    }
}

/// Stops the run when more than `abort_above` of the samples have no score because a plugin failed.
pub fn check_failures<'a>(
    judgements: impl Iterator<Item = &'a Judgement>,
    abort_above: f64,
) -> Result<(), RunError> {
    let (mut all, mut failed) = (0, 0);
    let mut kinds: BTreeMap<&str, (usize, &Failure)> = BTreeMap::new();
    for judgement in judgements {
        all += 1;
        if let Judgement::Failed(failure) = judgement {
            failed += 1;
            kinds.entry(&failure.kind).or_insert((0, failure)).0 += 1;
        }
    }
    if failed == 0 || failed as f64 <= abort_above * all as f64 {
        return Ok(());
    }
    let most = kinds.values().max_by_key(|(count, _)| *count).map(|(_, failure)| failure.to_string());
    Err(RunError::TooManyFailures { failed, all, abort_above, example: most.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_trajectory::Attribution;

    fn scored(plugin: &str, weight: f64, name: &str, value: f64) -> Verdict<'static> {
        let grade = Grade {
            components: vec![Component { name: name.into(), value }],
            spans: Vec::new(),
            note: Some(format!("{name} is {value}")),
        };
        Verdict {
            plugin: if plugin == "a" { "a" } else { "b" },
            weight,
            weights: &[],
            combine: Combine::Sum,
            gates: &[],
            outcome: Outcome::Scored(grade),
        }
    }

    fn failure(kind: &str) -> Failure {
        Failure {
            kind: kind.into(),
            message: "it broke".into(),
            attribution: Attribution::Plugin,
            retryable: false,
        }
    }

    #[test]
    fn rewards_add_up_by_their_weights() {
        let joined = judge(vec![scored("a", 1.0, "correct", 1.0), scored("b", 0.5, "short", 0.5)]);
        let Judgement::Scored { reward, components, note } = joined else { panic!("{joined:?}") };
        assert_eq!(reward, 1.25);
        assert_eq!(components.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a/correct", "b/short"]);
        assert_eq!(note.as_deref(), Some("a: correct is 1; b: short is 0.5"));
    }

    fn gate(reward: usize, component: &str, comparison: Comparison, value: f64) -> Gate {
        Gate { reward, component: component.into(), comparison, value }
    }

    #[test]
    fn factors_multiply_the_sum_of_the_rest() {
        let factor = |value| Verdict { combine: Combine::Product, ..scored("b", 0.5, "ok", value) };
        let sum = || scored("a", 2.0, "correct", 3.0);
        assert_eq!(judge(vec![sum(), factor(1.0), scored("a", 1.0, "more", 4.0)]).reward(), Some(5.0));
        assert_eq!(judge(vec![factor(0.0), sum()]).reward(), Some(0.0));
        assert_eq!(judge(vec![factor(1.0), factor(3.0)]).reward(), Some(0.75), "nothing is added");
    }

    #[test]
    fn a_reward_counts_where_its_gates_are_open() {
        let open = [gate(1, "ok", Comparison::AtLeast, 1.0)];
        let gated = |ok| {
            vec![Verdict { gates: &open, ..scored("a", 1.0, "correct", 2.0) }, scored("b", 0.5, "ok", ok)]
        };
        assert_eq!(judge(gated(1.0)).reward(), Some(2.5));
        assert_eq!(judge(gated(0.0)).reward(), Some(0.0));
        let two = [gate(1, "ok", Comparison::AtLeast, 1.0), gate(0, "correct", Comparison::Below, 2.0)];
        let both =
            vec![Verdict { gates: &two, ..scored("a", 1.0, "correct", 2.0) }, scored("b", 0.5, "ok", 1.0)];
        assert_eq!(judge(both).reward(), Some(0.5));
        let factor = Verdict { gates: &open, combine: Combine::Product, ..scored("a", 1.0, "correct", 2.0) };
        assert_eq!(judge(vec![factor, scored("b", 1.0, "ok", 0.0)]).reward(), Some(0.0));
    }

    #[test]
    fn a_gate_without_its_component_cannot_be_decided() {
        let gates = [gate(0, "missing", Comparison::AtLeast, 1.0)];
        let joined = judge(vec![Verdict { gates: &gates, ..scored("a", 1.0, "correct", 2.0) }]);
        assert!(
            matches!(&joined, Judgement::Unscorable { reason } if reason.contains("`missing`")),
            "{joined:?}"
        );
    }

    #[test]
    fn a_closed_gate_hides_no_failure() {
        let closed = [gate(0, "correct", Comparison::AtLeast, 1.0)];
        let failed = Verdict {
            outcome: Outcome::Failed(failure("unavailable")),
            gates: &closed,
            ..scored("b", 1.0, "x", 0.0)
        };
        let joined = judge(vec![scored("a", 1.0, "correct", 0.0), failed]);
        assert_eq!(joined, Judgement::Failed(failure("unavailable")));
    }

    #[test]
    fn one_plugin_keeps_its_plain_names() {
        let Judgement::Scored { components, note, .. } = judge(vec![scored("a", 1.0, "correct", 1.0)]) else {
            panic!()
        };
        assert_eq!(components[0].name, "correct");
        assert_eq!(note.as_deref(), Some("correct is 1"));
    }

    #[test]
    fn a_failure_is_never_a_number_whatever_the_others_say() {
        let failed =
            Verdict { outcome: Outcome::Failed(failure("wall-timeout")), ..scored("b", 1.0, "x", 0.0) };
        let joined = judge(vec![scored("a", 1.0, "correct", 1.0), failed]);
        assert_eq!(joined.reward(), None);
        assert_eq!(joined, Judgement::Failed(failure("wall-timeout")));
    }

    #[test]
    fn a_sample_that_one_reward_cannot_grade_has_no_reward() {
        let unscorable = Verdict {
            outcome: Outcome::Unscorable { reason: "no label".into() },
            ..scored("b", 1.0, "x", 0.0)
        };
        let joined = judge(vec![unscorable, scored("a", 1.0, "correct", 1.0)]);
        assert_eq!(joined, Judgement::Unscorable { reason: "b: no label".into() });
    }

    #[test]
    fn a_sum_that_overflows_is_no_score() {
        let joined = judge(vec![scored("a", f64::MAX, "x", 2.0)]);
        assert_eq!(joined.reward(), None);
    }

    #[test]
    fn the_run_stops_above_the_rate_and_names_the_usual_failure() {
        let mut judgements = vec![judge(vec![scored("a", 1.0, "correct", 1.0)]); 2];
        judgements.extend([Judgement::Failed(failure("wall-timeout")), Judgement::Failed(failure("trap"))]);
        judgements.push(Judgement::Failed(failure("wall-timeout")));
        assert!(check_failures(judgements.iter(), 0.6).is_ok());
        let error = check_failures(judgements.iter(), 0.5).unwrap_err().to_string();
        assert!(error.contains("3 of 5") && error.contains("wall-timeout"), "{error}");
    }
}
