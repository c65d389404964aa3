//! Advantages per token: returns, generalised advantage estimation, rewards placed on tokens.
//!
//! One sequence at a time. A *gap* is a run of tokens that are not trained between others that are:
//! what a tool or the user said. Peers disagree whether gap tokens are steps of the policy; with a
//! mask they are not (verl, NeMo RL, AReaL), without one every token is (slime, Relax, OpenRLHF,
//! LightRFT), and the two differ as soon as `gamma` or `lambda` is below 1.

/// Discounted returns `G_t = ρ_t + γ G_{t+1}`.
///
/// With a mask, `G` passes through gaps unchanged, their rewards are ignored, and masked tokens get 0.
/// Source: REINFORCE++ (arXiv 2501.03262).
pub fn returns(rewards: &[f64], mask: Option<&[bool]>, gamma: f64) -> Vec<f64> {
    let mut out = vec![0.0; rewards.len()];
    let mut carried = 0.0;
    for t in (0..rewards.len()).rev() {
        if mask.is_none_or(|m| m[t]) {
            carried = rewards[t] + gamma * carried;
            out[t] = carried;
        }
    }
    out
}

/// Generalised advantage estimation's discount and trace decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gae {
    /// Discount `γ`.
    pub gamma: f64,
    /// Decay `λ`.
    pub lambda: f64,
    /// Value after the last token: 0 for an episode that has ended, the critic's where it was cut off.
    pub bootstrap: f64,
}

impl Gae {
    /// `δ_t = ρ_t + γ V_{t+1} - V_t`, `A_t = δ_t + γ λ A_{t+1}`.
    ///
    /// With a mask, `A` and the next value pass through gaps unchanged; a masked token gets what passes.
    /// Returns for the critic are `A + V`. Source: arXiv 1506.02438.
    pub fn advantages(&self, rewards: &[f64], values: &[f64], mask: Option<&[bool]>) -> Vec<f64> {
        let mut out = vec![0.0; rewards.len()];
        let (mut advantage, mut next) = (0.0, self.bootstrap);
        for t in (0..rewards.len()).rev() {
            if mask.is_none_or(|m| m[t]) {
                advantage = rewards[t] + self.gamma * next - values[t] + self.gamma * self.lambda * advantage;
                next = values[t];
            }
            out[t] = advantage;
        }
        out
    }

    /// The same with whole turns as steps: a turn's reward is the sum of its tokens', its value that of its
    /// first token, and all its tokens get its advantage; tokens of no turn get 0.
    ///
    /// * `turns`: the turn of each token, ascending; `None` outside
    ///
    /// Source: AReaL's turn-level estimation.
    pub fn turn_advantages(&self, rewards: &[f64], values: &[f64], turns: &[Option<u32>]) -> Vec<f64> {
        let mut steps: Vec<(u32, f64, f64)> = Vec::new();
        for (t, turn) in turns.iter().enumerate() {
            match (turn, steps.last_mut()) {
                (Some(turn), Some(last)) if last.0 == *turn => last.1 += rewards[t],
                (Some(turn), _) => steps.push((*turn, rewards[t], values[t])),
                (None, _) => {}
            }
        }
        let (step_rewards, step_values): (Vec<f64>, Vec<f64>) = steps.iter().map(|s| (s.1, s.2)).unzip();
        let advantages = self.advantages(&step_rewards, &step_values, None);
        let of = |turn: &u32| steps.iter().position(|s| s.0 == *turn).map(|i| advantages[i]);
        turns.iter().map(|turn| turn.as_ref().and_then(of).unwrap_or(0.0)).collect()
    }
}

/// Trace decay that grows with the length of the answer: `λ = 1 - 1 / max(α n, 1)`; 0 without a trained token.
///
/// Source: VAPO (arXiv 2504.05118).
pub fn length_adaptive_lambda(alpha: f64, trained: usize) -> f64 {
    if trained == 0 { 0.0 } else { 1.0 - 1.0 / (alpha * trained as f64).max(1.0) }
}

/// Token rewards `ρ_t = -β kl_t` on trained tokens, plus `reward` on the last of them.
///
/// A sequence without a trained token has only zeros; what `kl` holds at masked tokens does not matter.
pub fn terminal_rewards(reward: f64, kl: Option<&[f64]>, beta: f64, mask: &[bool]) -> Vec<f64> {
    let mut out: Vec<f64> = mask
        .iter()
        .enumerate()
        .map(|(t, &m)| if m { kl.map_or(0.0, |kl| -beta * kl[t]) } else { 0.0 })
        .collect();
    if let Some(last) = mask.iter().rposition(|&m| m) {
        out[last] += reward;
    }
    out
}

/// ReMax: `A_t = G_t - b` on trained tokens, with `G` the undiscounted return over trained tokens and `b` the
/// reward of the greedy answer; a masked token keeps `G_t`, as in verl, where nothing trains on it.
///
/// Source: arXiv 2310.10505.
pub fn remax(rewards: &[f64], mask: &[bool], greedy: f64) -> Vec<f64> {
    let mut carried = 0.0;
    let mut out = vec![0.0; rewards.len()];
    for t in (0..rewards.len()).rev() {
        if mask[t] {
            carried += rewards[t];
        }
        out[t] = carried - if mask[t] { greedy } else { 0.0 };
    }
    out
}

/// On-policy distillation in the advantage: `A_t - coefficient (log p - log p_teacher)`.
///
/// Sources: slime (`log p` of the trainer before the update), Relax (`log p` of the sampler), NeMo RL
/// (the advantage is this term alone). slime and Relax apply it to masked tokens too, which changes nothing.
pub fn distil(advantages: &[f64], log_prob: &[f64], teacher: &[f64], coefficient: f64) -> Vec<f64> {
    let one = |(a, (p, q)): (&f64, (&f64, &f64))| a - coefficient * (p - q);
    advantages.iter().zip(log_prob.iter().zip(teacher)).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_not_a_step_of_the_policy() {
        let with_gap = returns(&[0.0, 9.0, 9.0, 1.0], Some(&[true, false, false, true]), 0.5);
        assert_eq!(with_gap, [0.5, 0.0, 0.0, 1.0]);
        assert_eq!(returns(&[0.0, 0.0, 0.0, 1.0], None, 0.5), [0.125, 0.25, 0.5, 1.0]);
    }

    #[test]
    fn with_lambda_one_the_advantage_is_the_return_less_the_value() {
        let gae = Gae { gamma: 0.9, lambda: 1.0, bootstrap: 0.0 };
        let (rewards, values) = ([0.1, -0.2, 1.0], [0.3, 0.5, 0.2]);
        let advantages = gae.advantages(&rewards, &values, None);
        for (t, g) in returns(&rewards, None, 0.9).into_iter().enumerate() {
            assert!((advantages[t] - (g - values[t])).abs() < 1e-12);
        }
    }

    #[test]
    fn values_at_gaps_never_matter() {
        let gae = Gae { gamma: 0.9, lambda: 0.8, bootstrap: 0.4 };
        let mask = [true, false, true];
        let a = gae.advantages(&[0.1, 0.0, 1.0], &[0.3, 0.0, 0.2], Some(&mask));
        let b = gae.advantages(&[0.1, f64::NAN, 1.0], &[0.3, f64::NAN, 0.2], Some(&mask));
        assert_eq!((a[0], a[2]), (b[0], b[2]));
    }

    #[test]
    fn the_reward_lies_on_the_last_trained_token() {
        let kl = [1.0, f64::NAN, 2.0, f64::NAN];
        assert_eq!(terminal_rewards(5.0, Some(&kl), 0.1, &[true, false, true, false]), [-0.1, 0.0, 4.8, 0.0]);
        assert_eq!(terminal_rewards(5.0, None, 0.0, &[false; 2]), [0.0; 2]);
    }
}
