//! `group-norm`: group-relative advantages as in GRPO, as a worked example of a custom estimator.
//!
//! `A_i = (r_i - mean_g) / (std_g + eps)`, where `mean_g` and `std_g` (with n - 1) are taken over
//! the scored samples of `i`'s prompt group. A group whose rewards are all equal, a group of one
//! and a sample without a score (a reward that is not finite) get exactly 0. It gives the numbers
//! of the native estimator, to the precision of `f32`.
//!
//! Configuration:
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `scale` | `"std"` | `"none"` leaves the division out (Dr. GRPO) |
//! | `eps` | `1e-6` | keeps the quotient finite |
//!
//! Source: GRPO (arXiv 2402.03300), Dr. GRPO (2503.20783).

use std::collections::BTreeMap;
use whet_plugin::{Advantage, Advantages, Batch, Configured, Error, advantage};

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    scale: Scale,
    eps: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    Std,
    None,
}

impl Default for Config {
    fn default() -> Self {
        Config { scale: Scale::Std, eps: 1e-6 }
    }
}

struct GroupNorm(Config);

impl Configured for GroupNorm {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "scale": {"enum": ["std", "none"], "default": "std", "description": "divide by the group's standard deviation, or by nothing"},
    "eps": {"type": "number", "exclusiveMinimum": 0, "default": 1e-6, "description": "added to the standard deviation"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.eps.is_finite() && config.eps > 0.0 {
            Ok(GroupNorm(config))
        } else {
            Err(format!("`eps` must be above 0, not {}", config.eps))
        }
    }
}

impl Advantage for GroupNorm {
    fn estimate(&self, batch: &Batch) -> Result<Advantages, Error> {
        if batch.groups.len() != batch.rewards.len() {
            return Err(Error::InvalidInput(format!(
                "groups has {} entries, rewards {}",
                batch.groups.len(),
                batch.rewards.len()
            )));
        }
        Ok(Advantages::PerSample(self.advantages(&batch.rewards, &batch.groups)))
    }
}

advantage!(GroupNorm: Configured);

impl GroupNorm {
    fn advantages(&self, rewards: &[f32], groups: &[u32]) -> Vec<f32> {
        let mut scored: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, &group) in groups.iter().enumerate() {
            if rewards[i].is_finite() {
                scored.entry(group).or_default().push(i);
            }
        }
        let mut advantages = vec![0.0; rewards.len()];
        for members in scored.values() {
            if members.iter().all(|&i| rewards[i] == rewards[members[0]]) {
                continue;
            }
            // In order of size, so that the result does not depend on the order of the samples.
            let mut sorted: Vec<f64> = members.iter().map(|&i| f64::from(rewards[i])).collect();
            sorted.sort_by(f64::total_cmp);
            let n = sorted.len() as f64;
            let mean = sorted.iter().sum::<f64>() / n;
            let divisor = match self.0.scale {
                Scale::None => 1.0,
                Scale::Std => {
                    let squares: f64 = sorted.iter().map(|r| (r - mean) * (r - mean)).sum();
                    (squares / (n - 1.0)).sqrt() + self.0.eps
                }
            };
            for &i in members {
                advantages[i] = ((f64::from(rewards[i]) - mean) / divisor) as f32;
            }
        }
        advantages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::configured;

    fn grpo() -> GroupNorm {
        GroupNorm(Config::default())
    }

    fn close(found: &[f32], expected: &[f32]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-5)
    }

    #[test]
    fn a_group_is_centred_and_scaled_by_its_own_deviation() {
        let advantages = grpo().advantages(&[1.0, 0.0, 0.0, 1.0], &[7, 7, 7, 7]);
        assert!(close(&advantages, &[0.866_024, -0.866_024, -0.866_024, 0.866_024]), "{advantages:?}");
        let none = configured::<GroupNorm>(r#"{"scale": "none"}"#).unwrap();
        assert!(close(&none.advantages(&[1.0, 0.0, 0.0, 0.0], &[1; 4]), &[0.75, -0.25, -0.25, -0.25]));
    }

    #[test]
    fn nothing_to_compare_gives_exactly_zero() {
        let rewards = [0.1, 0.1, 0.1, 3.0, f32::NAN, f32::INFINITY];
        assert_eq!(grpo().advantages(&rewards, &[0, 0, 0, 1, 0, 1]), [0.0; 6]);
    }

    #[test]
    fn samples_without_a_score_leave_the_others_as_they_were() {
        let with = grpo().advantages(&[1.0, f32::NAN, 0.0], &[0, 0, 0]);
        let without = grpo().advantages(&[1.0, 0.0], &[0, 0]);
        assert_eq!(with, [without[0], 0.0, without[1]]);
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for config in [r#"{"eps": 0}"#, r#"{"eps": -1}"#, r#"{"scale": "batch"}"#, r#"{"std": true}"#] {
            assert!(configured::<GroupNorm>(config).is_err(), "{config}");
        }
    }

    proptest! {
        #[test]
        fn for_every_batch_groups_are_centred_and_do_not_touch_each_other(
            rewards in proptest::collection::vec(-10.0f32..10.0, 1..40),
            assignment in proptest::collection::vec(0u32..4, 40),
        ) {
            let groups = &assignment[..rewards.len()];
            let advantages = grpo().advantages(&rewards, groups);
            for group in 0..4 {
                let members: Vec<usize> = (0..rewards.len()).filter(|&i| groups[i] == group).collect();
                let sum: f32 = members.iter().map(|&i| advantages[i]).sum();
                prop_assert!(sum.abs() < 1e-3, "group {group}: {sum}");
                let own: Vec<f32> = members.iter().map(|&i| rewards[i]).collect();
                let alone = grpo().advantages(&own, &vec![0; own.len()]);
                for (&i, a) in members.iter().zip(alone) {
                    prop_assert_eq!(advantages[i], a);
                }
            }
        }
    }
}
