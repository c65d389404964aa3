//! Rewards changed before advantages: length, divergence, bounds.

/// DAPO's soft overlong penalty: from `max_length - buffer` tokens on, the reward falls in a line by `penalty` per
/// `buffer` tokens.
///
/// * `floor`: never less than `-penalty` (the paper), or falling on beyond `max_length` (verl, AReaL, NeMo RL)
///
/// Source: DAPO (arXiv 2503.14476).
pub fn overlong(
    reward: f64,
    length: usize,
    max_length: usize,
    buffer: usize,
    penalty: f64,
    floor: bool,
) -> f64 {
    let excess = length as f64 - (max_length as f64 - buffer as f64);
    let shaped = (-excess / buffer as f64 * penalty).min(0.0);
    reward + if floor { shaped.max(-penalty) } else { shaped }
}

/// What answers cost beside each other: `r_i - mean(r) Σ_k w_k c_ik / max_j c_jk` for one group.
///
/// * `costs`: per kind of cost (tokens written, tokens read, turns) its weight and one value per sample
///
/// Source: prime-rl's length penalty.
pub fn costed(rewards: &[f64], costs: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let mean = crate::group::mean_of(rewards);
    let share = |i: usize| -> f64 {
        let one = |(weight, values): &(f64, Vec<f64>)| {
            let largest = values.iter().copied().fold(0.0, f64::max);
            if largest > 0.0 { weight * values[i] / largest } else { 0.0 }
        };
        costs.iter().map(one).sum()
    };
    rewards.iter().enumerate().map(|(i, r)| r - mean * share(i)).collect()
}

/// A coefficient that steers the divergence to a target: after each batch of `n` sequences
/// `β ← β (1 + clip(kl / target - 1, ±0.2) n / horizon)`.
///
/// Source: Ziegler et al. (arXiv 1909.08593), verl's adaptive controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveKl {
    /// The coefficient now.
    pub beta: f64,
    /// The divergence aimed at.
    pub target: f64,
    /// Sequences over which the coefficient may change by its whole.
    pub horizon: f64,
}

impl AdaptiveKl {
    /// Moves the coefficient after a batch with mean divergence `kl`.
    pub fn update(&mut self, kl: f64, sequences: usize) {
        let error = (kl / self.target - 1.0).clamp(-0.2, 0.2);
        self.beta *= 1.0 + error * sequences as f64 / self.horizon;
    }
}

/// `±bound` around 0, for rewards and advantages; what is not finite stays so.
pub fn clip(values: &[f64], bound: f64) -> Vec<f64> {
    values.iter().map(|v| v.clamp(-bound, bound)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlong_penalty_begins_at_the_buffer_and_may_have_a_floor() {
        let at = |length, floor| overlong(1.0, length, 20, 4, 1.0, floor);
        assert_eq!([at(16, true), at(18, true), at(20, true), at(24, true)], [1.0, 0.5, 0.0, 0.0]);
        assert_eq!(at(24, false), -1.0);
    }

    #[test]
    fn the_coefficient_rises_above_the_target_and_falls_below_it() {
        let mut kl = AdaptiveKl { beta: 0.1, target: 0.05, horizon: 100.0 };
        kl.update(0.5, 50);
        assert!((kl.beta - 0.11).abs() < 1e-12);
        kl.update(0.0, 50);
        assert!((kl.beta - 0.099).abs() < 1e-12);
    }
}
