//! From a row of logits and one random number to a token.
//!
//! The row is read twice (maximum; sums per stretch) and then only where the draw falls, so sampling
//! from the whole vocabulary writes nothing back. Nothing here knows sequences.

use crate::request::Sampling;
use whet_native::vocabulary::{CHUNK, exp_sums, exponential, greatest};
use whet_native::{Isa, Number};

/// A token and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drawn {
    pub token: u32,
    /// In the distribution drawn from.
    pub logprob: f32,
    /// Of that distribution, in nats.
    pub entropy: f32,
}

/// Memory that draws reuse.
#[derive(Default)]
pub(crate) struct Workspace {
    sums: Vec<[f32; 2]>,
    candidates: Vec<(f32, u32)>,
}

/// Draws a token with `uniform` in `[0, 1)`; `None` when a logit is not finite.
///
/// `p_i` is proportional to `exp(x_i / temperature)` over the kept tokens: the `top_k` most likely, of these the fewest
/// that have probability `top_p` together, of these the ones at least `min_p` times as likely as the first. Equal logits
/// rank by id. Temperature 0 takes the first.
pub(crate) fn draw<T: Number>(
    isa: Isa,
    row: &[T],
    sampling: &Sampling,
    uniform: f64,
    work: &mut Workspace,
) -> Option<Drawn> {
    let top = greatest(isa, row);
    if !top.is_finite() {
        return None;
    }
    if sampling.temperature == 0.0 {
        let token = row.iter().position(|x| x.to_f32() == top)? as u32;
        let (total, entropy) = totals(isa, row, top, 1.0, work);
        return Some(Drawn { token, logprob: -total.ln() as f32, entropy });
    }
    let scale = (1.0 / sampling.temperature) as f32;
    let (total, entropy) = totals(isa, row, top, scale, work);
    let truncated = sampling.top_k > 0 || sampling.top_p < 1.0 || sampling.min_p > 0.0;
    if truncated {
        return Some(draw_truncated(isa, row, sampling, top, scale, total, uniform, work));
    }
    // Find the stretch, then the token within it.
    let mut before = 0.0;
    let (mut chunk, mut left) = (0, 0.0);
    for (i, [sum, _]) in work.sums.iter().enumerate() {
        let sum = f64::from(*sum);
        if sum > 0.0 {
            (chunk, left) = (i, uniform * total - before);
            if left < sum {
                break;
            }
        }
        before += sum;
    }
    let start = chunk * CHUNK;
    let mut token = start;
    for (i, x) in row[start..row.len().min(start + CHUNK)].iter().enumerate() {
        let weight = f64::from(exponential(isa, (x.to_f32() - top) * scale));
        if weight > 0.0 {
            token = start + i;
            if left < weight {
                break;
            }
            left -= weight;
        }
    }
    let logprob = f64::from((row[token].to_f32() - top) * scale) - total.ln();
    Some(Drawn { token: token as u32, logprob: logprob as f32, entropy })
}

/// `token` with its log-probability at temperature 1; `None` when a logit is not finite.
pub(crate) fn score<T: Number>(isa: Isa, row: &[T], token: u32, work: &mut Workspace) -> Option<Drawn> {
    let top = greatest(isa, row);
    if !top.is_finite() {
        return None;
    }
    let (total, entropy) = totals(isa, row, top, 1.0, work);
    let logprob = (f64::from(row[token as usize].to_f32() - top) - total.ln()) as f32;
    Some(Drawn { token, logprob, entropy })
}

/// `sum e^y` and the entropy `ln sum e^y - sum y e^y / sum e^y`, with `y` relative to the maximum.
fn totals<T: Number>(isa: Isa, row: &[T], top: f32, scale: f32, work: &mut Workspace) -> (f64, f32) {
    exp_sums(isa, row, top, scale, &mut work.sums);
    let (mut total, mut weighted) = (0f64, 0f64);
    for [sum, part] in &work.sums {
        total += f64::from(*sum);
        weighted += f64::from(*part);
    }
    (total, (total.ln() - weighted / total) as f32)
}

#[allow(clippy::too_many_arguments)]
fn draw_truncated<T: Number>(
    isa: Isa,
    row: &[T],
    sampling: &Sampling,
    top: f32,
    scale: f32,
    total: f64,
    uniform: f64,
    work: &mut Workspace,
) -> Drawn {
    // Only what min-p keeps can be kept at all, but it must not shift what top-k and top-p count.
    let counts_all = sampling.top_k > 0 || sampling.top_p < 1.0;
    let floor = if sampling.min_p > 0.0 { sampling.min_p.ln() } else { f64::NEG_INFINITY };
    let candidates = &mut work.candidates;
    candidates.clear();
    let relative = |x: &T| (x.to_f32() - top) * scale;
    let all = row.iter().enumerate().map(|(i, x)| (relative(x), i as u32));
    if counts_all {
        candidates.extend(all);
    } else {
        candidates.extend(all.filter(|(y, _)| f64::from(*y) >= floor));
    }
    let weight = |y: f32| f64::from(exponential(isa, y));

    let limited = sampling.top_k > 0 && (sampling.top_k as usize) < candidates.len();
    let limit = if limited { sampling.top_k as usize } else { candidates.len() };
    let mut sorted = 0;
    if limited || sampling.top_p == 1.0 {
        sort_first(candidates, limit);
        sorted = limit;
    }
    let mut keep = limit;
    if sampling.top_p < 1.0 {
        let of = if limited { candidates[..limit].iter().map(|(y, _)| weight(*y)).sum() } else { total };
        let mut sum = 0.0;
        keep = 0;
        while keep < limit && sum < sampling.top_p * of {
            // Few tokens usually suffice, so only a growing head of the list is sorted.
            if keep == sorted {
                sorted = limit.min((sorted * 8).max(256));
                sort_first(candidates, sorted);
            }
            sum += weight(candidates[keep].0);
            keep += 1;
        }
    }
    let kept = &candidates[..keep];
    let above = kept.iter().take_while(|(y, _)| f64::from(*y) >= floor).count().max(1);
    let kept = &kept[..above];

    let total: f64 = kept.iter().map(|(y, _)| weight(*y)).sum();
    let mut left = uniform * total;
    let mut chosen = kept[0];
    for &(y, token) in kept {
        let w = weight(y);
        if w > 0.0 {
            chosen = (y, token);
            if left < w {
                break;
            }
            left -= w;
        }
    }
    let weighted: f64 = kept.iter().map(|(y, _)| f64::from(*y) * weight(*y)).sum();
    Drawn {
        token: chosen.1,
        logprob: (f64::from(chosen.0) - total.ln()) as f32,
        entropy: (total.ln() - weighted / total) as f32,
    }
}

/// Puts the `n` most likely candidates first, in order; equal ones by id.
fn sort_first(candidates: &mut [(f32, u32)], n: usize) {
    let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if n < candidates.len() {
        candidates.select_nth_unstable_by(n, order);
    }
    candidates[..n].sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniform;
    use half::bf16;

    fn logits(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 120.0 - 4.0).collect()
    }

    /// The kept set and its probabilities by the definition, in f64.
    fn definition(row: &[f32], s: &Sampling) -> Vec<(u32, f64)> {
        let mut p: Vec<(u32, f64)> =
            row.iter().enumerate().map(|(i, x)| (i as u32, (f64::from(*x) / s.temperature).exp())).collect();
        p.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let normalise = |p: &mut Vec<(u32, f64)>| {
            let total: f64 = p.iter().map(|x| x.1).sum();
            p.iter_mut().for_each(|x| x.1 /= total);
        };
        if s.top_k > 0 {
            p.truncate(s.top_k as usize);
        }
        normalise(&mut p);
        if s.top_p < 1.0 {
            let mut sum = 0.0;
            let n = p
                .iter()
                .take_while(|x| {
                    let before = sum;
                    sum += x.1;
                    before < s.top_p
                })
                .count();
            p.truncate(n);
        }
        let first = p[0].1;
        p.retain(|x| x.1 >= s.min_p * first);
        normalise(&mut p);
        p
    }

    fn settings() -> Vec<Sampling> {
        let base = Sampling::default();
        vec![
            base.clone(),
            Sampling { temperature: 0.7, ..base.clone() },
            Sampling { temperature: 1.8, ..base.clone() },
            Sampling { top_k: 5, ..base.clone() },
            Sampling { top_k: 1, ..base.clone() },
            Sampling { top_p: 0.9, ..base.clone() },
            Sampling { top_p: 1e-9, ..base.clone() },
            Sampling { min_p: 0.2, ..base.clone() },
            Sampling { top_k: 40, top_p: 0.8, min_p: 0.05, temperature: 0.8, ..base.clone() },
            Sampling { top_k: 100_000, top_p: 0.999, ..base },
        ]
    }

    #[test]
    fn every_draw_is_of_the_kept_set_with_its_exact_log_probability_and_entropy() {
        let row = logits(1003);
        let mut work = Workspace::default();
        for s in settings() {
            let expected = definition(&row, &s);
            let entropy: f64 = -expected.iter().map(|(_, p)| p * p.ln()).sum::<f64>();
            for i in 0..2000 {
                let d = draw(Isa::detect(), &row, &s, uniform(3, i), &mut work).unwrap();
                let (_, p) =
                    expected.iter().find(|(t, _)| *t == d.token).unwrap_or_else(|| panic!("{s:?}: {d:?}"));
                assert!((f64::from(d.logprob) - p.ln()).abs() < 1e-5, "{s:?}: {d:?} {}", p.ln());
                assert!((f64::from(d.entropy) - entropy).abs() < 1e-4, "{s:?}: {d:?} {entropy}");
            }
        }
    }

    #[test]
    fn the_smallest_and_the_greatest_number_reach_the_ends_of_the_kept_set() {
        let row = logits(700);
        let mut work = Workspace::default();
        for s in settings() {
            for u in [0.0, 1.0 - f64::EPSILON] {
                let d = draw(Isa::detect(), &row, &s, u, &mut work).unwrap();
                assert!(definition(&row, &s).iter().any(|(t, _)| *t == d.token), "{s:?}");
            }
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        // Chi-square over the kept tokens: mean = degrees of freedom, and six deviations of room.
        let row = logits(97);
        let mut work = Workspace::default();
        for s in settings() {
            let expected = definition(&row, &s);
            let n = 60_000;
            let mut counts = std::collections::HashMap::new();
            for i in 0..n {
                let d = draw(Isa::detect(), &row, &s, uniform(11, i), &mut work).unwrap();
                *counts.entry(d.token).or_insert(0u32) += 1;
            }
            let (mut chi, mut cells) = (0.0, 0);
            for (token, p) in &expected {
                let want = p * n as f64;
                if want >= 5.0 {
                    let got = f64::from(counts.get(token).copied().unwrap_or(0));
                    chi += (got - want).powi(2) / want;
                    cells += 1;
                }
            }
            let freedom = f64::from(cells) - 1.0;
            assert!(chi <= freedom + 6.0 * (2.0 * freedom).sqrt() + 1e-9, "{s:?}: {chi} over {freedom}");
        }
    }

    #[test]
    fn temperature_zero_takes_the_first_of_the_most_likely() {
        let mut row = logits(500);
        row[77] = 9.0;
        row[300] = 9.0;
        let s = Sampling { temperature: 0.0, ..Sampling::default() };
        let d = draw(Isa::detect(), &row, &s, 0.99, &mut Workspace::default()).unwrap();
        assert_eq!(d.token, 77);
        let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        assert!((f64::from(d.logprob) - (9.0 - total.ln())).abs() < 1e-5);
    }

    #[test]
    fn the_same_number_draws_the_same_token_in_every_instruction_set_and_format() {
        let wide: Vec<f32> = logits(2000).iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
        let narrow: Vec<bf16> = wide.iter().map(|x| bf16::from_f32(*x)).collect();
        let s = Sampling::default();
        for i in 0..500 {
            let u = uniform(5, i);
            let want = draw(Isa::Portable, &wide, &s, u, &mut Workspace::default()).unwrap();
            for isa in Isa::available() {
                let a = draw(isa, &wide, &s, u, &mut Workspace::default()).unwrap();
                let b = draw(isa, &narrow, &s, u, &mut Workspace::default()).unwrap();
                assert_eq!((a.token, b.token), (want.token, want.token));
                assert_eq!(a, b);
                assert!(
                    (a.logprob - score(isa, &wide, a.token, &mut Workspace::default()).unwrap().logprob)
                        .abs()
                        < 1e-6
                );
            }
        }
    }

    #[test]
    fn a_logit_that_is_not_finite_is_noticed() {
        let mut row = logits(300);
        row[299] = f32::NAN;
        assert_eq!(draw(Isa::detect(), &row, &Sampling::default(), 0.5, &mut Workspace::default()), None);
    }
}
