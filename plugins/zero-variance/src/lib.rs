//! `zero-variance`: a filter that drops groups whose rewards are all equal.
//!
//! In a group-relative algorithm such a group has advantage 0 everywhere: it costs a training step
//! and teaches nothing (DAPO's dynamic sampling). Samples without a score do not count; a group
//! with fewer than two scores has nothing to compare.
//!
//! | reason | when | used if too few groups pass |
//! |---|---|---|
//! | `kept` | two rewards differ | - |
//! | `zero-variance` | all rewards are equal | yes |
//! | `too-few-scores` | fewer than two samples have a score | no |
//!
//! It takes no configuration and keeps every row.

use whet_plugin::{Error, Filter, ScoredGroup, Verdict, filter};

struct ZeroVariance;

impl Filter for ZeroVariance {
    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        Ok(groups.iter().map(|group| verdict(&group.rewards)).collect())
    }
}

filter!(ZeroVariance);

fn verdict(rewards: &[Option<f64>]) -> Verdict {
    let mut scores = rewards.iter().flatten();
    match (scores.next(), scores.next()) {
        (Some(first), Some(second)) => {
            if first == second && scores.all(|score| score == first) {
                Verdict::spare("zero-variance")
            } else {
                Verdict::keep()
            }
        }
        _ => Verdict::drop("too-few-scores"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing;

    #[test]
    fn groups_are_judged_by_their_scores_alone() {
        let cases: [(&[Option<f64>], &str); 7] = [
            (&[Some(1.0), Some(0.0)], "kept"),
            (&[Some(0.5), None, Some(0.5), Some(0.25)], "kept"),
            (&[Some(1.0), Some(1.0), Some(1.0)], "zero-variance"),
            (&[Some(0.0), Some(-0.0)], "zero-variance"),
            (&[Some(1.0), None], "too-few-scores"),
            (&[None, None], "too-few-scores"),
            (&[], "too-few-scores"),
        ];
        for (rewards, reason) in cases {
            assert_eq!(verdict(rewards).reason, reason, "{rewards:?}");
        }
    }

    #[test]
    fn an_equal_group_may_fill_a_short_batch_and_an_unscored_one_may_not() {
        let group = |rewards: &[Option<f64>]| ScoredGroup {
            group: testing::group(None, &["a", "b"]),
            rewards: rewards.to_vec(),
        };
        let groups = [group(&[Some(1.0), Some(1.0)]), group(&[None, None]), group(&[Some(1.0), Some(0.0)])];
        let verdicts = ZeroVariance.keep_groups(&groups).unwrap();
        let flags: Vec<_> = verdicts.iter().map(|v| (v.keep, v.keep_if_short)).collect();
        assert_eq!(flags, [(false, true), (false, false), (true, true)]);
    }
}
