//! Advantages of outcome rewards: how one sample did against the others of its prompt.

use std::collections::BTreeMap;

/// What is subtracted from a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The mean of the group.
    Mean,
    /// The mean of the group's other members (RLOO).
    LeaveOneOut,
}

/// What the centred reward is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Nothing (Dr. GRPO).
    None,
    /// The group's standard deviation (n - 1) plus `eps`. Peers differ in `eps`: 1e-4 in TRL, 1e-6 in
    /// verl, slime and Relax, 1e-8 in UniRL, 1e-9 in OpenRLHF and LightRFT.
    Group {
        /// Keeps the quotient finite.
        eps: f64,
    },
    /// The standard deviation (n - 1) of all scores of the batch plus `eps` (TRL `scale_rewards = "batch"`).
    Batch {
        /// Keeps the quotient finite.
        eps: f64,
    },
}

/// What a group of one gets, where no comparison is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Singleton {
    /// Exactly 0: nothing was learnt (NeMo RL, TRL, prime-rl, verl's vectorised RLOO).
    #[default]
    Zero,
    /// The reward as it is, over `1 + eps` where scaled by the group (verl's GRPO, RLOO, OPO, GPG).
    Reward,
}

/// Group-relative advantage: `A_i = (r_i - b_i) / s`.
///
/// * `rewards`: one per sample; a value that is not finite is no score
/// * `groups`: the prompt group of each sample; members need not be adjacent
/// * `baseline`: `b_i`, the mean of the group or of its other members
/// * `scale`: `s`, see [`Scale`]
/// * `singleton`: the rule for groups with one score
///
/// A group whose scores are all equal gets exactly 0, and so does a sample without a score.
/// Lists of different length have no meaning here: the shorter one decides.
///
/// Source: GRPO (arXiv 2402.03300), Dr. GRPO (2503.20783), RLOO (2402.14740).
pub fn group_relative(
    rewards: &[f64],
    groups: &[u32],
    baseline: Baseline,
    scale: Scale,
    singleton: Singleton,
) -> Vec<f64> {
    let batch_std = match scale {
        Scale::Batch { .. } => std_of(&rewards.iter().copied().filter(|r| r.is_finite()).collect::<Vec<_>>()),
        _ => 0.0,
    };
    let mut advantages = vec![0.0; rewards.len()];
    for members in members_of(groups).values() {
        let scored: Vec<usize> =
            members.iter().copied().filter(|&i| rewards.get(i).is_some_and(|r| r.is_finite())).collect();
        let scores: Vec<f64> = scored.iter().map(|&i| rewards[i]).collect();
        if let [only] = scores[..] {
            advantages[scored[0]] = match (singleton, scale) {
                (Singleton::Zero, _) => 0.0,
                (Singleton::Reward, Scale::None) => only,
                (Singleton::Reward, Scale::Group { eps }) => only / (1.0 + eps),
                (Singleton::Reward, Scale::Batch { eps }) => only / (batch_std + eps),
            };
            continue;
        }
        if scores.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let (n, mean) = (scores.len() as f64, mean_of(&scores));
        let divisor = match scale {
            Scale::None => 1.0,
            Scale::Group { eps } => std_of(&scores) + eps,
            Scale::Batch { eps } => batch_std + eps,
        };
        for (&i, &score) in scored.iter().zip(&scores) {
            let centred = match baseline {
                Baseline::Mean => score - mean,
                Baseline::LeaveOneOut => (score - mean) * n / (n - 1.0),
            };
            advantages[i] = centred / divisor;
        }
    }
    advantages
}

/// Group reward-decoupled advantage: every component is normalised in its group, then their weighted sum
/// over the batch: `A = (s - mean(s)) / (std(s) + batch_eps)` with `s_i = Σ_k w_k (r_ik - b_ik) / (std_ik + eps)`.
///
/// * `components`: per reward component one value per sample; a value that is not finite is no score
/// * `weights`: one per component
/// * `groups`, `baseline`: as for [`group_relative`]
///
/// A sample without a score in any component gets 0 and leaves the batch's statistics.
/// Source: GDPO (arXiv 2601.05242), as TRL's `normalize_then_sum`, which has 1e-4 for both eps.
pub fn gdpo(
    components: &[Vec<f64>],
    weights: &[f64],
    groups: &[u32],
    baseline: Baseline,
    eps: f64,
    batch_eps: f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; groups.len()];
    for (rewards, weight) in components.iter().zip(weights) {
        let advantages = group_relative(rewards, groups, baseline, Scale::Group { eps }, Singleton::Zero);
        for (sum, advantage) in sums.iter_mut().zip(advantages) {
            *sum += weight * advantage;
        }
    }
    let scored = |i: usize| components.iter().any(|rewards| rewards.get(i).is_some_and(|r| r.is_finite()));
    let counted: Vec<f64> = (0..sums.len()).filter(|&i| scored(i)).map(|i| sums[i]).collect();
    let (mean, std) = (mean_of(&counted), std_of(&counted));
    (0..sums.len()).map(|i| if scored(i) { (sums[i] - mean) / (std + batch_eps) } else { 0.0 }).collect()
}

/// The indices of every group's members, in order of appearance; a shared step of the estimators here.
pub(crate) fn members_of(groups: &[u32]) -> BTreeMap<u32, Vec<usize>> {
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, &group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(i);
    }
    members
}

pub(crate) fn mean_of(values: &[f64]) -> f64 {
    // Summed in order of size, so that the result does not depend on the order of the samples.
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation with n - 1; 0 for fewer than two values.
pub(crate) fn std_of(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean_of(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - mean).powi(2)).collect();
    (mean_of(&squares) * values.len() as f64 / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRPO: Scale = Scale::Group { eps: 1e-6 };

    fn grpo(rewards: &[f64], groups: &[u32]) -> Vec<f64> {
        group_relative(rewards, groups, Baseline::Mean, GRPO, Singleton::Zero)
    }

    #[test]
    fn equal_rewards_give_exactly_zero() {
        // 0.1 is not exact in binary: a mean of ten of them may differ from 0.1 in the last digit.
        assert_eq!(grpo(&[0.1; 10], &[7; 10]), vec![0.0; 10]);
    }

    #[test]
    fn a_group_of_one_gets_zero_or_its_reward_as_told() {
        assert_eq!(grpo(&[3.0], &[0]), vec![0.0]);
        assert_eq!(
            group_relative(&[3.0], &[0], Baseline::LeaveOneOut, Scale::None, Singleton::Reward),
            vec![3.0]
        );
        assert_eq!(
            group_relative(&[3.0], &[0], Baseline::Mean, GRPO, Singleton::Reward),
            vec![3.0 / (1.0 + 1e-6)]
        );
    }

    #[test]
    fn a_sample_without_a_score_gets_zero_and_leaves_the_statistics() {
        let with = grpo(&[1.0, f64::NAN, 0.0, f64::INFINITY, 0.0], &[0; 5]);
        let without = grpo(&[1.0, 0.0, 0.0], &[0; 3]);
        assert_eq!(with, vec![without[0], 0.0, without[1], 0.0, without[2]]);
    }

    #[test]
    fn one_right_answer_of_four_is_pushed_up_and_the_others_down() {
        let advantages = grpo(&[1.0, 0.0, 0.0, 0.0], &[0; 4]);
        assert!((advantages[0] - 1.5).abs() < 1e-5 && (advantages[1] + 0.5).abs() < 1e-5);
    }

    #[test]
    fn leave_one_out_compares_with_the_others_only() {
        let advantages =
            group_relative(&[3.0, 1.0, 2.0], &[0; 3], Baseline::LeaveOneOut, Scale::None, Singleton::Zero);
        assert_eq!(advantages, vec![1.5, -1.5, 0.0]);
    }

    proptest! {
        #[test]
        fn for_every_batch_advantages_sum_to_zero_in_each_group(
            samples in prop::collection::vec((-5.0..5.0f64, 0u32..4), 1..40)
        ) {
            let (rewards, groups): (Vec<f64>, Vec<u32>) = samples.into_iter().unzip();
            for scale in [Scale::None, GRPO, Scale::Batch { eps: 1e-4 }] {
                let advantages = group_relative(&rewards, &groups, Baseline::Mean, scale, Singleton::Zero);
                for members in members_of(&groups).values() {
                    let sum: f64 = members.iter().map(|&i| advantages[i]).sum();
                    prop_assert!(sum.abs() < 1e-6, "{scale:?}: {sum}");
                }
            }
        }

        #[test]
        fn for_every_batch_order_does_not_matter(
            samples in prop::collection::vec((-5.0..5.0f64, 0u32..4), 1..40), turn in 0usize..40
        ) {
            let turn = turn % samples.len();
            let mut turned = samples.clone();
            turned.rotate_left(turn);
            let (rewards, groups): (Vec<f64>, Vec<u32>) = samples.into_iter().unzip();
            let (turned_rewards, turned_groups): (Vec<f64>, Vec<u32>) = turned.into_iter().unzip();
            let mut expected = grpo(&rewards, &groups);
            expected.rotate_left(turn);
            prop_assert_eq!(expected, grpo(&turned_rewards, &turned_groups));
        }

        #[test]
        fn for_every_group_scaled_advantages_ignore_shift_and_scale_of_the_rewards(
            rewards in prop::collection::vec(-5.0..5.0f64, 2..12), shift in -3.0..3.0f64, factor in 0.5..4.0f64
        ) {
            let groups = vec![0; rewards.len()];
            let scale = Scale::Group { eps: 0.0 };
            prop_assume!(std_of(&rewards) > 1e-3);
            let plain = group_relative(&rewards, &groups, Baseline::Mean, scale, Singleton::Zero);
            let moved: Vec<f64> = rewards.iter().map(|r| r * factor + shift).collect();
            let moved = group_relative(&moved, &groups, Baseline::Mean, scale, Singleton::Zero);
            for (a, b) in plain.iter().zip(&moved) {
                prop_assert!((a - b).abs() < 1e-9);
            }
        }
    }
}
