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
    /// The standard deviation (n - 1) of the group's other members plus `eps`; nothing where that is 0, as in
    /// a group of two (NeMo RL with a leave-one-out baseline).
    Others {
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
                (Singleton::Reward, Scale::None | Scale::Others { .. }) => only,
                (Singleton::Reward, Scale::Group { eps }) => only / (1.0 + eps),
                (Singleton::Reward, Scale::Batch { eps }) => only / (batch_std + eps),
            };
            continue;
        }
        if scores.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let (n, mean) = (scores.len() as f64, mean_of(&scores));
        let group_std = std_of(&scores);
        for (position, (&i, &score)) in scored.iter().zip(&scores).enumerate() {
            let divisor = match scale {
                Scale::None => 1.0,
                Scale::Group { eps } => group_std + eps,
                Scale::Batch { eps } => batch_std + eps,
                Scale::Others { eps } => {
                    let others: Vec<f64> = [&scores[..position], &scores[position + 1..]].concat();
                    let std = std_of(&others);
                    if std > 0.0 { std + eps } else { 1.0 }
                }
            };
            let centred = match baseline {
                Baseline::Mean => score - mean,
                Baseline::LeaveOneOut => (score - mean) * n / (n - 1.0),
            };
            advantages[i] = centred / divisor;
        }
    }
    advantages
}

/// [`group_relative`] with mean and deviation of each group taken without its extremes: of `n` scores,
/// `⌊n · trim⌋` at either end are left out, where a score remains and the group has more than two.
///
/// Source: UniRL `trim_outliers_ratio`. A group of one gets 0.
pub fn group_relative_trimmed(rewards: &[f64], groups: &[u32], trim: f64, eps: f64) -> Vec<f64> {
    let mut advantages = vec![0.0; rewards.len()];
    for members in members_of(groups).values() {
        let scored: Vec<usize> =
            members.iter().copied().filter(|&i| rewards.get(i).is_some_and(|r| r.is_finite())).collect();
        let mut sorted: Vec<f64> = scored.iter().map(|&i| rewards[i]).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < 2 || sorted.first() == sorted.last() {
            continue;
        }
        let cut = (sorted.len() as f64 * trim) as usize;
        let kept = if sorted.len() > 2 && 2 * cut < sorted.len() {
            &sorted[cut..sorted.len() - cut]
        } else {
            &sorted
        };
        let (mean, std) = (mean_of(kept), std_of(kept));
        for i in scored {
            advantages[i] = (rewards[i] - mean) / (std + eps);
        }
    }
    advantages
}

/// Optimal reward baseline: `A_i = r_i - Σ_j l_j r_j / Σ_j l_j` over the group, with `l` the trained tokens.
///
/// A group whose samples have no trained token has no baseline to subtract; its advantages reach none.
/// Source: OPO (arXiv 2505.23585).
pub fn opo(rewards: &[f64], lengths: &[usize], groups: &[u32], singleton: Singleton) -> Vec<f64> {
    each_group(rewards, groups, singleton, |members, scores| {
        let weights: Vec<f64> = members.iter().map(|&i| lengths[i] as f64).collect();
        let total: f64 = weights.iter().sum();
        let weighted: f64 = weights.iter().zip(scores).map(|(w, r)| w * r).sum();
        let baseline = if total > 0.0 { weighted / total } else { 0.0 };
        scores.iter().map(|r| r - baseline).collect()
    })
}

/// Group policy gradient: `A_i = α (r_i - mean_g) / norm` with `α = B / max(1, scores that are not 0)`.
///
/// Source: GPG (arXiv 2504.02546), as verl computes `α`.
pub fn gpg(rewards: &[f64], groups: &[u32], norm: f64, singleton: Singleton) -> Vec<f64> {
    let scored = rewards.iter().filter(|r| r.is_finite());
    let (count, nonzero) = scored.fold((0, 0), |(n, k), &r| (n + 1, k + usize::from(r != 0.0)));
    let alpha = f64::from(count) / (nonzero.max(1) as f64);
    let centred = group_relative(rewards, groups, Baseline::Mean, Scale::None, singleton);
    centred.into_iter().map(|a| alpha * a / norm).collect()
}

/// Pass@k: the best of a group alone gets `(r_max - r_second) / s`, the others 0; a tie for the best gives 0.
///
/// * `scale`: [`Scale::Group`] or [`Scale::None`]; a group of one gets 0
///
/// Source: Pass@k training (arXiv 2503.19595), verl `grpo_passk`.
pub fn pass_at_k(rewards: &[f64], groups: &[u32], scale: Scale) -> Vec<f64> {
    each_group(rewards, groups, Singleton::Zero, |_, scores| {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let gap = scores[order[0]] - scores[order[1]];
        let mut advantages = vec![0.0; scores.len()];
        advantages[order[0]] = match scale {
            Scale::Group { eps } => gap / (std_of(scores) + eps),
            _ => gap,
        };
        advantages
    })
}

/// MaxRL: `A_i = (r_i - mean_g) / mean_g`, 0 where the mean is not positive.
///
/// Source: arXiv 2602.02710, prime-rl `max_rl`; meant for rewards of 0 and 1.
pub fn max_rl(rewards: &[f64], groups: &[u32]) -> Vec<f64> {
    each_group(rewards, groups, Singleton::Zero, |_, scores| {
        let mean = mean_of(scores);
        scores.iter().map(|r| if mean > 0.0 { (r - mean) / mean } else { 0.0 }).collect()
    })
}

/// Batch-relative advantage, without groups: `A_i = (r_i - mean) / (std + eps)` with the population's deviation.
///
/// Source: CPGD (arXiv 2505.12504) as LightRFT computes it; its paper speaks of group statistics.
pub fn batch_relative(rewards: &[f64], eps: f64) -> Vec<f64> {
    let scored: Vec<f64> = rewards.iter().copied().filter(|r| r.is_finite()).collect();
    if scored.windows(2).all(|pair| pair[0] == pair[1]) {
        return vec![0.0; rewards.len()];
    }
    let (n, mean) = (scored.len() as f64, mean_of(&scored));
    let std = std_of(&scored) * ((n - 1.0) / n).sqrt();
    rewards.iter().map(|r| if r.is_finite() { (r - mean) / (std + eps) } else { 0.0 }).collect()
}

/// Baselines that follow the rewards of each role over a run: `A = r - b`, then `b ← decay b + (1 - decay) r`.
///
/// Source: role-conditioned advantage (SPIRAL, arXiv 2506.24119), prime-rl `rae`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningBaselines {
    /// The baseline of each role met so far; 0 before.
    pub baselines: BTreeMap<String, f64>,
}

impl RunningBaselines {
    /// The advantage of one reward, which then moves its role's baseline. A reward that is not finite
    /// gives 0 and moves nothing.
    pub fn advantage(&mut self, role: &str, reward: f64, decay: f64) -> f64 {
        if !reward.is_finite() {
            return 0.0;
        }
        let baseline = self.baselines.entry(role.to_owned()).or_insert(0.0);
        let advantage = reward - *baseline;
        *baseline = decay * *baseline + (1.0 - decay) * reward;
        advantage
    }
}

/// Applies `formula` to the finite scores of each group of at least two and spreads the results.
fn each_group(
    rewards: &[f64],
    groups: &[u32],
    singleton: Singleton,
    formula: impl Fn(&[usize], &[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let mut advantages = vec![0.0; rewards.len()];
    for members in members_of(groups).values() {
        let scored: Vec<usize> =
            members.iter().copied().filter(|&i| rewards.get(i).is_some_and(|r| r.is_finite())).collect();
        let scores: Vec<f64> = scored.iter().map(|&i| rewards[i]).collect();
        if let [only] = scores[..] {
            advantages[scored[0]] = if singleton == Singleton::Reward { only } else { 0.0 };
        } else if scores.windows(2).any(|pair| pair[0] != pair[1]) {
            for (&i, advantage) in scored.iter().zip(formula(&scored, &scores)) {
                advantages[i] = advantage;
            }
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
