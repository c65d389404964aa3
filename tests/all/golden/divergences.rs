//! Estimators of the divergence from a reference.

use super::format::{Case, Check, Numbers};
use super::losses::{gradient, kl_slime, list, tensor};
use tch::{Kind, Tensor};
use whet_algorithm::{Kl, KlEstimator, KlGradient};
use whet_trainer::loss;

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "kl_verl" => kl_verl,
        "kl_slime" => kl_slime_file,
        "kl_others" => kl_others,
        "kl_nemo" => kl_nemo,
        _ => return None,
    })
}

/// The estimate at every token, and the gradient of its sum.
fn estimate(case: &Case, estimator: KlEstimator) -> [Vec<f64>; 2] {
    let leaf = tensor(&case.flat("log_prob")).set_requires_grad(true);
    let old = if case.has("old_log_prob") { tensor(&case.flat("old_log_prob")) } else { leaf.detach() };
    let kl = loss::divergence(estimator, &leaf, &tensor(&case.flat("ref_log_prob")), &old);
    [list(&kl), gradient(&kl.sum(Kind::Double), &leaf)]
}

fn named([kl, grad]: [Vec<f64>; 2], prefix: &str) -> Numbers {
    vec![(format!("{prefix}kl"), kl), (format!("{prefix}grad_log_prob"), grad)]
}

fn kl_verl(case: &Case) -> Result<Numbers, String> {
    let name = case.text("kl");
    let (base, straight) = name.strip_suffix('+').map_or((name, false), |base| (base, true));
    let kl = match base {
        "kl" | "k1" => Kl::K1,
        "abs" => Kl::Abs,
        "mse" | "k2" => Kl::K2,
        "low_var_kl" | "k3" => Kl::K3,
        other => return Err(format!("KL `{other}` is not known")),
    };
    let gradient = if straight { KlGradient::StraightThrough } else { KlGradient::Direct };
    Ok(named(estimate(case, KlEstimator { gradient, ..KlEstimator::bounded(kl) }), ""))
}

fn kl_slime_file(case: &Case) -> Result<Numbers, String> {
    Ok(named(estimate(case, kl_slime(case.text("kl"), case.flag("unbiased"))), ""))
}

fn kl_nemo(case: &Case) -> Result<Numbers, String> {
    let kl = match case.text("kl") {
        "k1" => Kl::K1,
        "k2" => Kl::K2,
        "k3" => Kl::K3,
        other => return Err(format!("KL `{other}` is not known")),
    };
    let gradient = if case.text("weights") == "score" { KlGradient::Score } else { KlGradient::Direct };
    let estimator = KlEstimator {
        kl,
        clamp_ratio: case.maybe("in_clamp"),
        clamp_value: case.maybe("out_clamp"),
        gradient,
    };
    Ok(named(estimate(case, estimator), ""))
}

fn kl_others(case: &Case) -> Result<Numbers, String> {
    let plain = kl_slime(case.text("kl"), false);
    let bounded = KlEstimator { clamp_value: Some(10.0), ..plain };
    let mut numbers = Vec::new();
    for (name, estimator) in [("openrlhf.", bounded), ("areal.", bounded), ("areal_noclamp.", plain)] {
        numbers.extend(named(estimate(case, estimator), name));
    }
    // LightRFT masks the log-ratio: masked tokens are estimated at equality.
    let trained: Vec<bool> = case.mask().into_iter().flatten().collect();
    let trained = Tensor::from_slice(&trained);
    let leaf = tensor(&case.flat("log_prob")).set_requires_grad(true);
    let masked = leaf.where_self(&trained, &leaf.zeros_like());
    let reference = tensor(&case.flat("ref_log_prob")).where_self(&trained, &leaf.zeros_like());
    let kl = loss::divergence(plain, &masked, &reference, &masked.detach());
    let pair = [list(&kl), gradient(&kl.sum(Kind::Double), &leaf)];
    numbers.extend(named(pair, "lightrft."));
    numbers.retain(|(name, _)| case.expected.pointer(&format!("/{}", name.replace('.', "/"))).is_some());
    Ok(numbers)
}
