//! The numbers of one step that alerts look at.

use std::collections::HashMap;

/// What one step looked like. Fractions are in 0..=1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepStatistics {
    /// The step, counted from 1.
    pub step: u64,
    /// Groups of two or more samples with a score.
    pub groups: usize,
    /// Those among `groups` whose rewards are not all equal.
    pub groups_with_variance: usize,
    /// Whether the recipe learns from rewards; they may be measured only, as where a teacher is all that is learnt from.
    pub learns_from_rewards: bool,
    /// Largest mean advantage of a sample, by magnitude; 0 where none was trained on.
    pub largest_advantage: f64,
    /// Groups that were trained on.
    pub trained: usize,
    /// How many groups which filter dropped, for which reason, as `FILTER: REASON`.
    pub dropped: Vec<(String, usize)>,
    /// Samples that were rolled out.
    pub samples: usize,
    /// Samples with a score.
    pub scored: usize,
    /// Scored samples whose reward is exactly 0.
    pub zero_rewards: usize,
    /// Scored samples whose note says that nothing was found in the response.
    pub unextracted: usize,
    /// The most frequent note, or reason for having no score, among samples without reward; and how many
    /// say it.
    pub common_note: Option<(String, usize)>,
    /// The same among samples without a score.
    pub unscored_note: Option<(String, usize)>,
    /// Failures of the reward by kind.
    pub failures: Vec<(String, usize)>,
    /// Fraction of responses that ended at the token limit; `None` where the recipe wants all of them to.
    pub cut_off: Option<f64>,
    /// Token limit of a response.
    pub max_tokens: usize,
    /// Different prompts in the step.
    pub prompts: usize,
    /// Different labels in the step; 0 when rows have none.
    pub labels: usize,
    /// The most frequent response and its share of all samples.
    pub common_response: Option<(String, f64)>,
    /// Mean entropy of the sampling distribution, in nats per token.
    pub entropy: f64,
    /// Mean reward of scored samples.
    pub reward: f64,
    /// Mean KL estimate per token.
    pub kl: f64,
    /// Norm of the gradient before clipping; `None` when no optimiser step was made.
    pub grad_norm: Option<f64>,
    /// Largest change of the rollout engine's log-probs of a fixed text by the optimiser step; `None` when
    /// none was made.
    pub weight_change: Option<f64>,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Mean absolute difference between rollout and trainer log-probs.
    pub drift: f64,
    /// The most that `drift` may be for the run's precision and device.
    pub drift_limit: f64,
    /// Mean absolute difference between the engine's and the trainer's log-probs of a fixed text, after the
    /// weights were handed over; `None` when they were not.
    pub sync_gap: Option<f64>,
    /// The most that `sync_gap` may be for the run's precision and device.
    pub sync_limit: f64,
}

/// Does a plugin's note say that it found nothing to grade? Notes are for people, so this is a guess that
/// only words a warning; it never changes a score.
pub fn says_nothing_found(note: &str) -> bool {
    let note = note.trim().to_lowercase();
    ["no ", "nothing", "none", "empty"].iter().any(|start| note.starts_with(start))
        || ["not found", "could not extract", "cannot extract", "nothing to grade"]
            .iter()
            .any(|part| note.contains(part))
}

/// The most frequent note and its count; among equals the first in alphabetical order.
pub fn tally_notes<'a>(notes: impl Iterator<Item = &'a str>) -> Option<(String, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for note in notes {
        *counts.entry(note).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)))
        .map(|(note, count)| (note.to_owned(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_note_wins_and_ties_do_not_depend_on_order() {
        assert_eq!(tally_notes(["a", "b", "b"].into_iter()), Some(("b".into(), 2)));
        assert_eq!(tally_notes(["b", "a"].into_iter()), Some(("a".into(), 1)));
        assert_eq!(tally_notes([].into_iter()), None);
    }

    #[test]
    fn notes_about_missing_answers_are_recognised() {
        assert!(says_nothing_found("no number in the response"));
        assert!(says_nothing_found("final answer not found"));
        assert!(!says_nothing_found("found 12, expected 45"));
        assert!(!says_nothing_found("now 12"));
    }
}
