//! The optimal token baseline: what to subtract from a return at each token so that gradients vary least.

use crate::group::members_of;

/// What is known of one trajectory, one entry per token.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// Token rewards.
    pub rewards: Vec<f64>,
    /// Which tokens are trained.
    pub mask: Vec<bool>,
    /// Log-probability of each token under the old policy.
    pub old: Vec<f64>,
    /// `Σ_v p_v²` of the distribution each token was drawn from.
    pub squares: Vec<f64>,
    /// Importance weight of each token, if off-policy.
    pub weights: Option<Vec<f64>>,
}

/// Which tokens of two trajectories are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Those at the same place in the response, gaps counted.
    Position,
    /// Those that are trained as the same n-th, so that tool answers do not shift them (verl's `tir` form).
    Trained,
}

/// `A_t = G_t - B_t` with `B_t = Σ_i G W / (Σ_i W + eps)` over the group's trajectories that have token `t`, and
/// `W_t = Σ_{j≤t} (1 - 2 p_j + Σ p²)`, times the squared importance weight where there is one: the gradient's
/// energy so far. Masked tokens get 0; a trajectory without a companion has `B = 0`.
///
/// * `zero_tail`: where one trajectory alone is longest, what no other reaches has `B = 0`
///
/// Returns advantages and returns. Source: arXiv 2602.07078.
pub fn optimal_token_baseline(
    trajectories: &[Trajectory],
    groups: &[u32],
    alignment: Alignment,
    zero_tail: bool,
    eps: f64,
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let returns: Vec<Vec<f64>> = trajectories.iter().map(to_go).collect();
    let energies: Vec<Vec<f64>> = trajectories.iter().map(energy).collect();
    let steps: Vec<Vec<Option<usize>>> = trajectories.iter().map(|t| steps(t, alignment)).collect();
    let mut advantages: Vec<Vec<f64>> = trajectories.iter().map(|t| vec![0.0; t.mask.len()]).collect();
    for members in members_of(groups).values() {
        let trained = |i: usize| trajectories[i].mask.iter().filter(|&&m| m).count();
        let counted: Vec<usize> = match alignment {
            Alignment::Position => members.clone(),
            Alignment::Trained => members.iter().copied().filter(|&i| trained(i) > 0).collect(),
        };
        let width = counted.iter().flat_map(|&i| steps[i].iter().flatten()).max().map_or(0, |s| s + 1);
        let (mut above, mut below) = (vec![0.0; width], vec![0.0; width]);
        for &i in &counted {
            for (t, step) in steps[i].iter().enumerate() {
                if let Some(step) = *step {
                    above[step] += returns[i][t] * energies[i][t];
                    below[step] += energies[i][t];
                }
            }
        }
        let mut lengths: Vec<usize> = counted.iter().map(|&i| trained(i)).collect();
        lengths.sort_unstable();
        // Only the longest alone has a tail, which begins where the second longest ends.
        let tail = match lengths[..] {
            [.., second, longest] if zero_tail && longest > second => Some((longest, second)),
            _ => None,
        };
        for &i in members {
            for (t, step) in steps[i].iter().enumerate() {
                let Some(step) = *step else { continue };
                let beyond = tail.is_some_and(|(longest, second)| trained(i) == longest && step >= second);
                let baseline =
                    if counted.len() < 2 || beyond { 0.0 } else { above[step] / (below[step] + eps) };
                advantages[i][t] = returns[i][t] - baseline;
            }
        }
    }
    (advantages, returns)
}

/// Reward to go over trained tokens, at every token.
fn to_go(trajectory: &Trajectory) -> Vec<f64> {
    let mut carried = 0.0;
    let mut out = vec![0.0; trajectory.mask.len()];
    for t in (0..out.len()).rev() {
        if trajectory.mask[t] {
            carried += trajectory.rewards[t];
        }
        out[t] = carried;
    }
    out
}

fn energy(trajectory: &Trajectory) -> Vec<f64> {
    let mut total = 0.0;
    let weight = |t: usize| trajectory.weights.as_ref().map_or(1.0, |w| w[t] * w[t]);
    (0..trajectory.mask.len())
        .map(|t| {
            if trajectory.mask[t] {
                total += (1.0 - 2.0 * trajectory.old[t].exp() + trajectory.squares[t]) * weight(t);
            }
            total
        })
        .collect()
}

/// The step of every trained token, by which tokens of a group are compared.
fn steps(trajectory: &Trajectory, alignment: Alignment) -> Vec<Option<usize>> {
    let mut next = 0;
    trajectory
        .mask
        .iter()
        .enumerate()
        .map(|(t, &trained)| {
            let step = match alignment {
                Alignment::Position => t,
                Alignment::Trained => next,
            };
            next += usize::from(trained);
            trained.then_some(step)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trajectory(reward: f64, length: usize) -> Trajectory {
        let mut rewards = vec![0.0; length];
        rewards[length - 1] = reward;
        let (old, squares) = (vec![-1.0; length], vec![0.3; length]);
        Trajectory { rewards, mask: vec![true; length], old, squares, weights: None }
    }

    #[test]
    fn equal_paths_have_the_mean_as_their_baseline() {
        let group = [trajectory(1.0, 3), trajectory(0.0, 3)];
        let (advantages, _) = optimal_token_baseline(&group, &[0, 0], Alignment::Position, true, 0.0);
        for (first, second) in advantages[0].iter().zip(&advantages[1]) {
            assert!((first - 0.5).abs() < 1e-12 && (second + 0.5).abs() < 1e-12);
        }
    }

    #[test]
    fn what_only_the_longest_reaches_has_no_baseline() {
        let group = [trajectory(1.0, 4), trajectory(1.0, 2)];
        let (advantages, _) = optimal_token_baseline(&group, &[0, 0], Alignment::Trained, true, 0.0);
        assert!(advantages[0][1].abs() < 1e-12);
        assert_eq!(advantages[0][2..], [1.0, 1.0]);
    }
}
