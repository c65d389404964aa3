//! AReaL's losses: a proximal policy between the sampler and the policy, and its rejection of tokens.

use super::format::{Case, Check, Numbers};
use super::losses::{Batch, SEQUENCE, TOKEN, tensor};
use tch::{Kind, Tensor};
use whet_algorithm::correction::{Aggregate, Metric, Rejection};
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, Level, Outside, selection};
use whet_trainer::Objective;

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "loss_ppo_areal" | "loss_gspo_areal" => ppo,
        "loss_decoupled_ppo_areal" => ppo,
        "loss_cispo_areal" => cispo,
        "loss_m2po_areal" => m2po,
        "rc_rejection_areal" => rejection,
        _ => return None,
    })
}

/// At sequence level AReaL takes the mean of a sequence's advantages.
pub fn with_level(case: &Case, mut batch: Batch) -> Batch {
    if case.text("level") == "sequence" {
        batch.tokens.advantage = batch.tokens.means(&batch.tokens.advantage) * &batch.tokens.mask;
    }
    batch
}

fn clip(case: &Case) -> Objective {
    let low = case.param("eps_clip");
    let high = case.maybe("eps_clip_higher").unwrap_or(low);
    Objective::Clip { low, high, dual: case.maybe("c_clip"), cap: None }
}

/// Tokens kept, and the weight of each.
struct Rejected {
    mask: Vec<bool>,
    weights: Vec<f64>,
    /// How many trained tokens were left out, or had their weight bounded.
    filtered: f64,
}

/// AReaL's rejection: a [`Rejection`] whose outside is left out, or a weight that is bounded there.
fn rejected(case: &Case, mask: &[Vec<bool>]) -> Option<Rejected> {
    if case.params["rs"].is_null() {
        return None;
    }
    let of = |name: &str| case.text(&format!("rs.{name}"));
    let whole = of("level") == "sequence";
    let bounds = Bounds { low: case.maybe("rs.lower"), high: case.maybe("rs.upper") };
    let divergence = |kl| Metric::Divergence { estimator: KlEstimator::plain(kl), of_sampler: false };
    let metric = match of("metric") {
        "ratio" => Metric::Ratio,
        "kl_k1" => divergence(Kl::K1),
        "kl_k2" => divergence(Kl::K2),
        "kl_k3" => divergence(Kl::K3),
        "binary_kl" => Metric::Binary,
        other => panic!("metric `{other}` is not known"),
    };
    let aggregate = match of("agg") {
        "sum" => Aggregate::Sum,
        "max" => Aggregate::Max,
        _ => Aggregate::Mean,
    };
    let rule = Rejection { metric, over: whole.then_some(aggregate), bounds };
    let level = if whole && metric == Metric::Ratio { Level::Geometric } else { Level::Token };
    let open = Bounds { low: None, high: None };
    let free = Correction { level, bounds: open, outside: Outside::Bound, clamp_log: None };
    let (old, mut behaviour) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    // A ratio that is not finite says nothing: AReaL takes it for 1.
    for (row, old) in behaviour.iter_mut().zip(&old) {
        row.iter_mut().zip(old).for_each(|(b, o)| *b = if (o - *b).is_finite() { *b } else { *o });
    }
    let mut all = Rejected { mask: vec![], weights: vec![], filtered: 0.0 };
    for (s, mask) in mask.iter().enumerate() {
        let within = rule.within(&old[s], &behaviour[s], mask);
        let weights = free.weights(&old[s], &behaviour[s], mask);
        for t in 0..mask.len() {
            let zero = of("action") == "mask";
            let bounded = weights[t].max(bounds.low.unwrap_or(0.0)).min(bounds.high.unwrap_or(f64::INFINITY));
            // Over sequences, only those outside have their weights bounded.
            let weight = if zero || (whole && within[t]) { weights[t] } else { bounded };
            let kept = mask[t] && (within[t] || !zero);
            let filtered = mask[t] && (if zero { !within[t] } else { weight != weights[t] });
            all.filtered += f64::from(u8::from(filtered));
            all.mask.push(kept);
            all.weights.push(if kept { weight } else { 0.0 });
        }
    }
    Some(all)
}

/// Trained tokens before rejection are the denominator.
fn total(batch: &Batch, loss: &Tensor, rejected: Option<&Rejected>) -> Tensor {
    let loss = loss * batch.mode("token-mean");
    match rejected {
        None => loss.sum(Kind::Double),
        Some(r) => (loss * tensor(&r.weights)).sum(Kind::Double),
    }
}

fn ppo(case: &Case) -> Result<Numbers, String> {
    let batch = with_level(case, Batch::new(case));
    let ratio = if case.text("level") == "sequence" { SEQUENCE } else { TOKEN };
    let rejected = rejected(case, &batch.mask);
    let loss = batch.objective(clip(case), ratio);
    let mut numbers = batch.numbers(&total(&batch, &loss, rejected.as_ref()));
    if let Some(r) = &rejected {
        numbers.push(("behave_imp_weight".into(), r.weights.clone()));
        numbers.push(("filtered_fraction".into(), vec![fraction(r, &batch.mask)]));
    }
    Ok(numbers)
}

fn cispo(case: &Case) -> Result<Numbers, String> {
    let low = 1.0 - case.param("eps_clip");
    let high = case.maybe("eps_clip_higher").filter(|&h| h > 0.0).ok_or("CISPO needs an upper bound")?;
    let batch = Batch::new(case);
    let rejected = rejected(case, &batch.mask);
    let loss = batch.objective(Objective::Cispo { low, high: 1.0 + high, by_sign: false }, TOKEN);
    Ok(batch.numbers(&total(&batch, &loss, rejected.as_ref())))
}

fn m2po(case: &Case) -> Result<Numbers, String> {
    let (proximal, behaviour) = (case.flat("old_log_prob"), case.flat("rollout_log_prob"));
    let log_ratio: Vec<f64> = behaviour.iter().zip(&proximal).map(|(b, p)| b - p).collect();
    let mask = case.mask();
    let kept = selection::second_moment_mask(&log_ratio, &mask.concat(), case.param("m2"));
    let columns = mask[0].len();
    let mut batch = Batch::new(case);
    // Tokens left out do not count in the denominator.
    batch.mask = kept.chunks(columns).map(<[bool]>::to_vec).collect();
    batch.lengths = batch.mask.iter().map(|row| row.iter().filter(|&&m| m).count()).collect();
    let loss = batch.objective(clip(case), TOKEN);
    let mut numbers = batch.numbers(&(loss * batch.mode("token-mean")).sum(Kind::Double));
    let as_number = |m: &bool| f64::from(u8::from(*m));
    numbers.push(("m2_mask".into(), kept.iter().map(as_number).collect()));
    Ok(numbers)
}

fn fraction(rejected: &Rejected, mask: &[Vec<bool>]) -> f64 {
    rejected.filtered / (mask.concat().iter().filter(|&&m| m).count() as f64).max(1.0)
}

fn rejection(case: &Case) -> Result<Numbers, String> {
    let mask = case.mask();
    let found = rejected(case, &mask).ok_or("no rule")?;
    let filtered = fraction(&found, &mask);
    Ok(vec![
        ("mask".into(), found.mask.iter().map(|&m| f64::from(u8::from(m))).collect()),
        ("weight".into(), found.weights),
        ("filtered_fraction".into(), vec![filtered]),
    ])
}
