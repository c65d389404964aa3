//! Rules over a whole batch that pick tokens, or set the bounds of a clip.
//!
//! They read numbers of every token before any gradient is formed, so that a batch cut into
//! micro-batches is treated as the whole it is.

/// `(A_t - mean A)(lp_t - mean lp)` over trained tokens, 0 at others: how much a token's update moves entropy.
///
/// Source: arXiv 2505.22617.
pub fn covariance(advantages: &[f64], log_prob: &[f64], mask: &[bool]) -> Vec<f64> {
    let n = mask.iter().filter(|&&m| m).count().max(1) as f64;
    let mean = |values: &[f64]| values.iter().zip(mask).filter(|(_, m)| **m).map(|(v, _)| v).sum::<f64>() / n;
    let (a, lp) = (mean(advantages), mean(log_prob));
    (0..mask.len()).map(|t| if mask[t] { (advantages[t] - a) * (log_prob[t] - lp) } else { 0.0 }).collect()
}

/// Clip-Cov's candidates: trained tokens with a covariance strictly between the bounds that PPO does not clip
/// already. Of these, `max(1, ⌊share · trained⌋)` are picked, spread evenly from the largest covariance to the least
/// rather than drawn at random, so that a batch has the same gradient in any order; with `share = 1` all are, as
/// in verl.
pub fn clip_cov(
    covariance: &[f64],
    mask: &[bool],
    clipped: &[bool],
    (lower, upper): (f64, f64),
    share: f64,
) -> Vec<bool> {
    let mut candidates: Vec<usize> = (0..mask.len())
        .filter(|&t| mask[t] && !clipped[t] && covariance[t] > lower && covariance[t] < upper)
        .collect();
    candidates.sort_by(|&a, &b| covariance[b].total_cmp(&covariance[a]));
    let trained = mask.iter().filter(|&&m| m).count();
    let count = ((share * trained as f64) as usize).max(1).min(candidates.len());
    let mut picked = vec![false; mask.len()];
    for n in 0..count {
        picked[candidates[n * candidates.len() / count]] = true;
    }
    picked
}

/// KL-Cov's tokens: the `max(1, ⌊share · trained⌋)` trained ones of largest covariance, the earlier first in a tie.
pub fn kl_cov(covariance: &[f64], mask: &[bool], share: f64) -> Vec<bool> {
    let mut trained: Vec<usize> = (0..mask.len()).filter(|&t| mask[t]).collect();
    let count = ((share * trained.len() as f64) as usize).max(1).min(trained.len());
    trained.sort_by(|&a, &b| covariance[b].total_cmp(&covariance[a]));
    let mut picked = vec![false; mask.len()];
    for &t in &trained[..count] {
        picked[t] = true;
    }
    picked
}

/// M2PO's clip bounds, as Relax derives them (arXiv 2510.01161).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondMoment {
    /// Mean squared log-ratio of the harmful tokens.
    pub before: f64,
    /// The same with each log-ratio at its bound at most.
    pub after: f64,
    /// Bound below: the ratio is at least `1 - low`.
    pub low: f64,
    /// Bound above: the ratio is at most `1 + high`.
    pub high: f64,
}

/// Bounds that keep the second moment of the harmful tokens' log-ratios within `budget`.
///
/// Harmful are tokens whose ratio has moved where the advantage points. Within the budget nothing is clipped
/// (`low` 1 and `high` 1e5 - 1 stand for that). Otherwise the largest squares are levelled to the square just below
/// the level at which the budget is met.
///
/// * `least`: bounds are at least these, below and above
pub fn second_moment(advantages: &[f64], log_ratio: &[f64], budget: f64, least: (f64, f64)) -> SecondMoment {
    let harmful = |(a, d): (&f64, &f64)| {
        let r = d.exp();
        let moved = (*a > 1e-12 && r > 1.0 + 1e-12) || (*a < -1e-12 && r < 1.0 - 1e-12);
        moved.then_some(d * d)
    };
    let mut squares: Vec<f64> = advantages.iter().zip(log_ratio).filter_map(harmful).collect();
    squares.sort_by(f64::total_cmp);
    let n = squares.len() as f64;
    let before = if squares.is_empty() { 0.0 } else { squares.iter().sum::<f64>() / n };
    if squares.is_empty() || before <= budget {
        return SecondMoment { before, after: before, low: 1.0, high: 1e5 - 1.0 };
    }
    // Levelled at square k, those below keep theirs: Σ_{i<k} d²_i + (n - k) d²_k.
    let mut sum = 0.0;
    let mut k = squares.len();
    for (i, square) in squares.iter().enumerate() {
        if sum + square * (n - i as f64) > budget * n {
            k = i;
            break;
        }
        sum += square;
    }
    let tau = if k == 0 { 0.0 } else { (squares[k - 1] - 1e-12).max(0.0).sqrt() };
    let after = if k == 0 {
        before
    } else {
        (squares[..k].iter().sum::<f64>() + (n - k as f64) * squares[k - 1]) / n
    };
    SecondMoment {
        before,
        after,
        low: (1.0 - (-tau).exp()).max(least.0),
        high: (tau.exp() - 1.0).max(least.1),
    }
}

/// M2PO as a mask, as AReaL has it: tokens of the largest squared log-ratio are left out, one by one, until the mean
/// square of the rest is below `threshold`; never all of them. Returns what is kept of `mask`.
pub fn second_moment_mask(log_ratio: &[f64], mask: &[bool], threshold: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..mask.len()).filter(|&t| mask[t]).collect();
    order.sort_by(|&a, &b| (log_ratio[b] * log_ratio[b]).total_cmp(&(log_ratio[a] * log_ratio[a])));
    let mut kept = mask.to_vec();
    for from in 0..order.len() {
        let rest = &order[from..];
        let mean = rest.iter().map(|&t| log_ratio[t] * log_ratio[t]).sum::<f64>() / rest.len() as f64;
        if mean < threshold || rest.len() == 1 {
            break;
        }
        kept[order[from]] = false;
    }
    kept
}

/// Off-policy sequence masking: tokens of one sequence that are left out, those with `A < 0` in a sequence whose mean
/// `log p_old - log p` is above `delta` (DeepSeek-V3.2; slime decides by token, TRL has one advantage per sequence).
pub fn off_policy(advantages: &[f64], old: &[f64], log_prob: &[f64], mask: &[bool], delta: f64) -> Vec<bool> {
    let n = mask.iter().filter(|&&m| m).count().max(1) as f64;
    let total: f64 = (0..mask.len()).filter(|&t| mask[t]).map(|t| old[t] - log_prob[t]).sum();
    advantages.iter().map(|&a| a < 0.0 && total / n > delta).collect()
}

/// The trained tokens whose value is among the `max(1, ⌈share · trained⌉)` largest; what equals the least of these, to
/// six digits, is picked too, so that neither order nor rounding matters: answers that begin alike have the same
/// values at the same places. Of entropies: high-entropy tokens.
///
/// Source: arXiv 2506.01939; TRL `top_entropy_quantile`.
pub fn top_share(values: &[f64], mask: &[bool], share: f64) -> Vec<bool> {
    let mut trained: Vec<f64> = (0..mask.len()).filter(|&t| mask[t]).map(|t| values[t]).collect();
    trained.sort_by(|a, b| b.total_cmp(a));
    let count = ((share * trained.len() as f64).ceil() as usize).clamp(1, trained.len().max(1));
    let Some(least) = trained.get(count - 1).copied() else { return vec![false; mask.len()] };
    let least = least - 1e-6 * least.abs();
    (0..mask.len()).map(|t| mask[t] && values[t] >= least).collect()
}

/// CPPO's budget of change along a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Greatest change of one token's probability.
    pub delta: f64,
    /// Weight of the last token; the first has 1.
    pub least_weight: f64,
    /// Least rate at which the budget grows per token; the greatest is twice that.
    pub rate: f64,
}

impl Budget {
    /// Which tokens are within their budget, over all tokens of a sequence, trained or not.
    ///
    /// With `D = |p - p_old|`, weights falling in a line, and `Z = w D`: token `t` has `min(delta, delta + b W_{t-1} -
    /// S_{t-1})`, where `b` is the 90th percentile of `D` within its bounds and `W`, `S` sum `w` and `Z` so far.
    ///
    /// Source: UniRL's CPPO.
    pub fn within(&self, log_prob: &[f64], old: &[f64]) -> Vec<bool> {
        let changes: Vec<f64> = log_prob.iter().zip(old).map(|(p, q)| (p.exp() - q.exp()).abs()).collect();
        let rate = quantile(&changes, 0.9).clamp(self.rate, 2.0 * self.rate);
        let last = changes.len().saturating_sub(1).max(1) as f64;
        let (mut weights, mut spent) = (0.0, 0.0);
        changes
            .iter()
            .enumerate()
            .map(|(t, change)| {
                let weight = 1.0 - (1.0 - self.least_weight) * t as f64 / last;
                let cost = weight * change;
                let allowed = self.delta.min(self.delta + rate * weights - spent);
                weights += weight;
                spent += cost;
                cost <= allowed
            })
            .collect()
    }
}

/// The quantile with linear interpolation; 0 of nothing.
fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = q * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(a), Some(b)) => a + (b - a) * (place - place.floor()),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_that_moves_entropy_most_is_picked() {
        let mask = [true, true, true, false];
        let cov = covariance(&[1.0, 0.0, -1.0, 9.0], &[-0.1, -1.0, -3.0, -9.0], &mask);
        assert_eq!(cov[3], 0.0);
        assert_eq!(kl_cov(&cov, &mask, 0.4), [false, false, true, false]);
    }

    #[test]
    fn a_second_moment_within_its_budget_clips_nothing() {
        let found = second_moment(&[1.0, -1.0], &[0.1, -0.1], 0.02, (0.3, 0.5));
        assert_eq!((found.low, found.high), (1.0, 1e5 - 1.0));
        let found = second_moment(&[1.0, 1.0, 1.0], &[0.1, 0.2, 3.0], 0.02, (0.0, 0.0));
        assert!(found.after <= 0.02 && (found.high - (0.1f64.exp() - 1.0)).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn the_top_share_holds_at_least_one_token_and_every_one_that_equals_its_least() {
        let mask = [true, true, true, true, false];
        assert_eq!(top_share(&[0.1, 2.0, 0.5, 0.5, 9.0], &mask, 0.5), [false, true, true, true, false]);
        assert_eq!(top_share(&[0.1, 2.0, 0.5, 0.5, 9.0], &mask, 1e-9), [false, true, false, false, false]);
        assert_eq!(top_share(&[0.0; 5], &mask, 1.0), mask);
        assert_eq!(top_share(&[1.0], &[false], 0.5), [false]);
    }

    #[test]
    fn the_second_moment_mask_never_drops_everything() {
        assert_eq!(second_moment_mask(&[2.0, 0.1, 3.0], &[true; 3], 0.05), [false, true, false]);
        assert_eq!(second_moment_mask(&[2.0, 3.0], &[true; 2], 1e-9), [true, false]);
    }
}
