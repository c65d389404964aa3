//! Weights for tokens of another policy, and rejections.

use super::format::{Case, Check, Numbers};
use whet_algorithm::correction::{self, Aggregate, Metric, Rejection};
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, Level, Outside, selection};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "rc_tis_trl" => tis_trl,
        "rc_is_weights_verl" => is_weights_verl,
        "rc_rejection_verl" => rejection_verl,
        "rc_combined_verl" => combined_verl,
        "rc_mis_slime" => mis_slime,
        "rc_offpolicy_metrics_verl" => offpolicy_metrics_verl,
        "opsm_mask" => opsm_mask,
        _ => return None,
    })
}

fn tis_trl(case: &Case) -> Result<Numbers, String> {
    let mode = case.text("mode");
    let level = if mode.starts_with("sequence") { Level::Sequence } else { Level::Token };
    let outside = if mode.ends_with("mask") { Outside::Zero } else { Outside::Bound };
    let bounds = Bounds { low: case.maybe("lo"), high: case.maybe("hi") };
    let correction = Correction { level, bounds, outside, clamp_log: None };
    let (old, rollout) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    let mut ratio = Vec::new();
    for (s, mask) in case.mask().iter().enumerate() {
        let weights = correction.weights(&old[s], &rollout[s], mask);
        // TRL keeps one number per sequence at sequence level.
        ratio.extend(if level == Level::Sequence { &weights[..1] } else { &weights[..] });
    }
    Ok(vec![("ratio".into(), ratio)])
}

/// A list per sequence.
pub type Rows = Vec<Vec<f64>>;

/// verl's importance weights, 0 at masked tokens: truncated at a number, or 0 outside `low_high`.
pub fn weights_verl(
    level: &str,
    threshold: &str,
    normalised: bool,
    old: &Rows,
    rollout: &Rows,
    mask: &[Vec<bool>],
) -> Result<Rows, String> {
    let level = match level {
        "token" => Level::Token,
        "sequence" => Level::Sequence,
        other => return Err(format!("weights over `{other}` are not known")),
    };
    let parse = |text: &str| text.parse::<f64>().ok().filter(|v| *v > 0.0).ok_or("a bound must be above 0");
    let (bounds, outside) = match threshold.split_once('_') {
        Some((low, high)) => (Bounds { low: Some(parse(low)?), high: Some(parse(high)?) }, Outside::Zero),
        None => (Bounds { low: None, high: Some(parse(threshold)?) }, Outside::Bound),
    };
    let correction = Correction { level, bounds, outside, clamp_log: Some(20.0) };
    let row = |s: usize| {
        let weights = correction.weights(&old[s], &rollout[s], &mask[s]);
        weights.iter().zip(&mask[s]).map(|(&w, &m)| if m { w } else { 0.0 }).collect()
    };
    let mut weights: Rows = (0..mask.len()).map(row).collect();
    if normalised {
        correction::normalise(&mut weights, mask, level, false);
    }
    Ok(weights)
}

/// verl's rejection rules, comma separated with a bound each (or one for all), as the mask that is left.
pub fn rejected_verl(
    rules: &str,
    thresholds: &str,
    old: &Rows,
    rollout: &Rows,
    mask: &[Vec<bool>],
) -> Result<Vec<Vec<bool>>, String> {
    let bounds: Vec<&str> = thresholds.split(',').map(str::trim).collect();
    let mut left = mask.to_vec();
    for (n, rule) in rules.split(',').map(str::trim).enumerate() {
        let bound = if bounds.len() == 1 { bounds[0] } else { bounds[n] };
        let number = |text: &str| text.parse::<f64>().map_err(|e| format!("`{text}`: {e}"));
        let (over, kind) = match rule {
            "token_k1" | "token_k2" | "token_k3" => (None, &rule[6..]),
            _ => match rule.rsplit_once('_') {
                Some(("seq_sum", kind)) => (Some(Aggregate::Sum), kind),
                Some(("seq_mean", kind)) => (Some(Aggregate::Mean), kind),
                Some(("seq_max", kind @ ("k2" | "k3"))) => (Some(Aggregate::Max), kind),
                _ => return Err(format!("rule `{rule}` is not known")),
            },
        };
        let (kl, bounds) = match kind {
            // K1's bounds are ratios, compared in log space; one number stands for itself and its inverse.
            "k1" => {
                let (low, high) = match bound.split_once('_') {
                    Some((low, high)) => (number(low)?, number(high)?),
                    None => (1.0 / number(bound)?, number(bound)?),
                };
                if low <= 0.0 || high < low {
                    return Err(format!("bounds `{bound}` must be above 0 and ascend"));
                }
                (Kl::K1, Bounds { low: Some(low.ln()), high: Some(high.ln()) })
            }
            other => {
                let high = number(bound)?;
                if high <= 0.0 {
                    return Err(format!("the bound `{bound}` must be above 0"));
                }
                let kl = if other == "k2" { Kl::K2 } else { Kl::K3 };
                (kl, Bounds { low: None, high: Some(high) })
            }
        };
        let estimator = KlEstimator { clamp_ratio: Some(20.0), ..KlEstimator::plain(kl) };
        let rejection =
            Rejection { metric: Metric::Divergence { estimator, of_sampler: true }, over, bounds };
        for (s, row) in left.iter_mut().enumerate() {
            let within = rejection.within(&old[s], &rollout[s], &mask[s]);
            row.iter_mut().zip(within).for_each(|(kept, within)| *kept &= within);
        }
    }
    Ok(left)
}

fn numbers_of(mask: &[Vec<bool>]) -> Vec<f64> {
    mask.iter().flatten().map(|&m| f64::from(u8::from(m))).collect()
}

/// A parameter that may be a number or a text.
pub fn threshold(case: &Case, name: &str) -> String {
    case.maybe(name).map_or_else(|| case.text(name).to_owned(), |v| v.to_string())
}

/// Log-ratios as old log-probabilities against rollout ones of 0.
fn from_log_ratio(case: &Case) -> (Rows, Rows) {
    let log_ratio = case.rows("log_ratio");
    let zeros = log_ratio.iter().map(|row| vec![0.0; row.len()]).collect();
    (log_ratio, zeros)
}

fn is_weights_verl(case: &Case) -> Result<Numbers, String> {
    let (old, rollout) = from_log_ratio(case);
    let bound = threshold(case, "threshold");
    let weights = weights_verl(case.text("level"), &bound, case.flag("bn"), &old, &rollout, &case.mask())?;
    Ok(vec![("weights".into(), weights.concat())])
}

fn rejection_verl(case: &Case) -> Result<Numbers, String> {
    let (old, rollout) = from_log_ratio(case);
    let mask = rejected_verl(case.text("rs"), &threshold(case, "threshold"), &old, &rollout, &case.mask())?;
    Ok(vec![("mask".into(), numbers_of(&mask))])
}

fn combined_verl(case: &Case) -> Result<Numbers, String> {
    let (old, rollout, mask) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"), case.mask());
    let kept = rejected_verl(case.text("rs"), &threshold(case, "threshold"), &old, &rollout, &mask)?;
    let mut numbers = vec![("mask".to_owned(), numbers_of(&kept))];
    if !case.expected["weights"].is_null() {
        let level = case.text("is");
        let weights = if level.is_empty() {
            mask.iter().map(|row| vec![1.0; row.len()]).collect()
        } else {
            weights_verl(level, "2.0", false, &old, &rollout, &mask)?
        };
        numbers.push(("weights".into(), weights.concat()));
    }
    Ok(numbers)
}

fn mis_slime(case: &Case) -> Result<Numbers, String> {
    let (old, rollout, mask) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"), case.mask());
    let level = |name: &str| match case.text(name) {
        "sequence" => Level::Sequence,
        "geometric" => Level::Geometric,
        _ => Level::Token,
    };
    let high = case.param("up");
    let low = case.maybe("lo").unwrap_or(1.0 / high);
    let open = Bounds { low: None, high: None };
    let of = |level, bounds| Correction { level, bounds, outside: Outside::Bound, clamp_log: Some(20.0) };
    let tis = level("tis_level");
    let mode = case.text("tis_mode");
    let bounds = match mode {
        "truncate" => Bounds { low: None, high: Some(high) },
        "clip" => Bounds { low: Some(low), high: Some(high) },
        _ => open,
    };
    if case.flag("bn") && tis == Level::Geometric {
        return Err("the mean of geometric weights is not defined".into());
    }
    let mut weights = Vec::new();
    let mut kept = mask.clone();
    for s in 0..mask.len() {
        let row = of(tis, bounds).weights(&old[s], &rollout[s], &mask[s]);
        weights.push(row.iter().zip(&mask[s]).map(|(&w, &m)| if m { w } else { 0.0 }).collect::<Vec<f64>>());
        let mut drop_outside = |level, low: f64, high: f64| {
            let ratios = of(level, open).weights(&old[s], &rollout[s], &mask[s]);
            kept[s].iter_mut().zip(ratios).for_each(|(kept, r)| *kept &= r >= low && r <= high);
        };
        if mode == "mask" {
            drop_outside(tis, low, high);
        }
        if !case.params["rs_level"].is_null() {
            let bounds = (case.maybe("rs_lo").unwrap_or(low), case.maybe("rs_up").unwrap_or(high));
            drop_outside(level("rs_level"), bounds.0, bounds.1);
            if case.maybe("veto").is_some_and(|v| correction::vetoed(&old[s], &rollout[s], &mask[s], v)) {
                kept[s].fill(false);
            }
        }
    }
    if case.flag("bn") {
        correction::normalise(&mut weights, &mask, tis, true);
    }
    Ok(vec![("weights".into(), weights.concat()), ("mask".into(), numbers_of(&kept))])
}

fn offpolicy_metrics_verl(case: &Case) -> Result<Numbers, String> {
    let (old, rollout, mask) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"), case.mask());
    let found = correction::mismatch(&old, &rollout, &mask);
    let fields = [
        ("training_ppl", found.trainer_perplexity),
        ("training_log_ppl", found.trainer_log_perplexity),
        ("kl", found.kl),
        ("k3_kl", found.k3),
        ("rollout_ppl", found.rollout_perplexity),
        ("rollout_log_ppl", found.rollout_log_perplexity),
        ("chi2_token", found.chi2_token),
        ("chi2_seq", found.chi2_sequence),
    ];
    Ok(fields.into_iter().map(|(name, value)| (format!("metrics.{name}"), vec![value])).collect())
}

fn opsm_mask(case: &Case) -> Result<Numbers, String> {
    let (log_prob, old, rollout) =
        (case.rows("log_prob"), case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    let (advantages, mask, delta) = (case.rows("advantages"), case.mask(), case.param("delta"));
    let kept = |out: &bool| if *out { 0.0 } else { 1.0 };
    let (mut slime, mut trl) = (Vec::new(), Vec::new());
    for s in 0..mask.len() {
        let by_old = selection::off_policy(&advantages[s], &old[s], &log_prob[s], &mask[s], delta);
        slime.extend(by_old.iter().map(kept));
        let by_sampler = selection::off_policy(&advantages[s], &rollout[s], &log_prob[s], &mask[s], delta);
        trl.push(kept(&by_sampler[0]));
    }
    Ok(vec![("slime_mask".into(), slime), ("trl_mask".into(), trl)])
}
