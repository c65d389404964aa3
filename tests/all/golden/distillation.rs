//! Divergences from a teacher.

use super::format::{Case, Check, Numbers};
use super::losses::{Batch, TOKEN, gradient, list, tensor};
use tch::{Kind, Tensor};
use whet_trainer::Objective;
use whet_trainer::loss;
use whet_trainer::loss::distillation::{Divergence, Rest, divergence};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "kl_full_gkd_trl" => gkd_trl,
        "kl_full_nemo" => full_nemo,
        "kl_topk_relax" => topk_relax,
        "kl_topk_verl" => topk_verl,
        "opd_loss_prime" => prime,
        _ => return None,
    })
}

/// `[N, V]` logits with positions and sequences as rows.
fn logits(case: &Case, name: &str) -> Tensor {
    let rows: Vec<Vec<f64>> = case.inputs[name]
        .as_array()
        .map(|sequences| {
            sequences.iter().flat_map(|s| s.as_array().cloned().unwrap_or_default()).collect::<Vec<_>>()
        })
        .unwrap_or_default()
        .iter()
        .map(|row| {
            row.as_array().map(|r| r.iter().filter_map(super::format::number).collect()).unwrap_or_default()
        })
        .collect();
    let width = rows.first().map_or(0, Vec::len) as i64;
    tensor(&rows.concat()).view([-1, width])
}

fn finish(loss: &Tensor, leaf: &Tensor) -> Numbers {
    vec![("loss".into(), vec![loss.double_value(&[])]), ("grad_student_logits".into(), gradient(loss, leaf))]
}

fn gkd_trl(case: &Case) -> Result<Numbers, String> {
    let temperature = case.param("temperature");
    let leaf = logits(case, "student").set_requires_grad(true);
    let student = (&leaf / temperature).log_softmax(-1, Kind::Double);
    let teacher = (logits(case, "teacher") / temperature).log_softmax(-1, Kind::Double);
    let beta = case.param("beta");
    let kind = match beta {
        0.0 => Divergence::Forward,
        1.0 => Divergence::Reverse,
        teacher => Divergence::Jensen { teacher },
    };
    let per_token = divergence(kind, Rest::Dropped, &student, &teacher);
    let mask = case.mask();
    let (weights, denominator) = if case.text("labels") == "mask" {
        let flat: Vec<f64> = mask.concat().iter().map(|&m| f64::from(u8::from(m))).collect();
        let count = flat.iter().sum::<f64>().max(1.0);
        (flat, count)
    } else {
        // Without labels TRL divides by the batch alone.
        (vec![1.0; per_token.numel()], mask.len() as f64)
    };
    let denominator = match (case.text("reduction"), case.maybe("num_items")) {
        (_, Some(items)) => items,
        ("sum", None) => 1.0,
        ("mean", None) => denominator * leaf.size()[1] as f64,
        _ => denominator,
    };
    let total = (per_token * tensor(&weights)).sum(Kind::Double) / denominator;
    Ok(finish(&total, &leaf))
}

/// Indices of the teacher's `k` most probable tokens, `[N, k]`.
fn topk(teacher: &Tensor, k: i64) -> Tensor {
    teacher.topk(k, -1, true, true).1
}

fn full_nemo(case: &Case) -> Result<Numbers, String> {
    let leaf = logits(case, "student").set_requires_grad(true);
    let student = leaf.log_softmax(-1, Kind::Double);
    let teacher = logits(case, "teacher").log_softmax(-1, Kind::Double);
    let ids = topk(&teacher, case.param("k") as i64);
    let (s, t) = (student.gather(-1, &ids, false), teacher.gather(-1, &ids, false));
    let of = |kind| divergence(kind, Rest::Dropped, &s, &t);
    let w = case.param("w");
    let mut per_token = match case.text("kl_type") {
        "forward" => of(Divergence::Forward),
        "reverse" => of(Divergence::Reverse),
        _ => of(Divergence::Forward) * w + of(Divergence::Reverse) * (1.0 - w),
    };
    if case.flag("zero") && case.text("kl_type") != "forward" {
        let scale = if case.text("kl_type") == "mixed" { 1.0 - w } else { 1.0 };
        per_token = per_token + loss::distillation::outside(&student, &s, 100.0) * scale;
    }
    let flat: Vec<f64> = case.mask().concat().iter().map(|&m| f64::from(u8::from(m))).collect();
    let count = flat.iter().sum::<f64>();
    let total = (per_token * tensor(&flat)).sum(Kind::Double) / count.max(1.0);
    Ok(finish(&total, &leaf))
}

fn topk_relax(case: &Case) -> Result<Numbers, String> {
    let sampled = !case.flag("topk");
    let clamp = case.maybe("clamp");
    let leaf = tensor(&case.flat("s_lp")).set_requires_grad(true);
    let bounded = |t: &Tensor| clamp.map_or_else(|| t.shallow_clone(), |least| t.clamp_min(least));
    let (s, t) = (bounded(&leaf), bounded(&tensor(&case.flat("t_lp"))));
    let rows = case.inputs["s_lp"].as_array().map_or(0, Vec::len) as i64;
    let alpha = case.param("alpha");
    let kl = if sampled {
        match case.text("kl") {
            "reverse_kl" => s - t,
            "low_var_kl" => {
                let estimator = whet_algorithm::KlEstimator::bounded_value(whet_algorithm::Kl::K3, 10.0);
                loss::divergence(estimator, &s, &t, &s)
            }
            other => return Err(format!("KL `{other}` is not known")),
        }
    } else {
        let (mut s, mut t) = (s.view([rows, -1]), t.view([rows, -1]));
        if case.text("kl") == "low_var_kl" {
            // Relax sums over everything.
            let estimator = whet_algorithm::KlEstimator::plain(whet_algorithm::Kl::K3);
            let total = loss::divergence(estimator, &s, &t, &s).sum(Kind::Double);
            let grad = gradient(&total, &leaf);
            return Ok(vec![
                ("kl".into(), vec![total.double_value(&[])]),
                ("grad_student_log_probs".into(), grad),
            ]);
        }
        if case.has("kmask") {
            // What is masked has no probability on either side.
            let known = tensor(&case.flat("kmask")).view([rows, -1]).gt(0.5);
            let nothing = known.to_kind(Kind::Double).full_like(-1e4);
            (s, t) = (s.where_self(&known, &nothing), t.where_self(&known, &nothing));
        }
        let kind = match case.text("kl") {
            "reverse_kl" => Divergence::Reverse,
            "forward_kl" => Divergence::Forward,
            "jsd" => Divergence::Jensen { teacher: alpha },
            other => return Err(format!("KL `{other}` is not known")),
        };
        let rest = match case.text("norm") {
            "tail" => Rest::Bin,
            "norm" => Rest::Renormalised,
            _ => Rest::Dropped,
        };
        divergence(kind, rest, &s, &t)
    };
    Ok(vec![
        ("kl".into(), list(&kl)),
        ("grad_student_log_probs".into(), gradient(&kl.sum(Kind::Double), &leaf)),
    ])
}

fn topk_verl(case: &Case) -> Result<Numbers, String> {
    let leaf = logits(case, "student").set_requires_grad(true);
    let student = leaf.log_softmax(-1, Kind::Double);
    let teacher = logits(case, "teacher").log_softmax(-1, Kind::Double);
    let k = case.param("k") as i64;
    let ids = topk(&teacher, k);
    let (s, t) = (student.gather(-1, &ids, false), teacher.gather(-1, &ids, false));
    let bounded =
        |x: &Tensor| case.maybe("clamp").map_or_else(|| x.shallow_clone(), |least| x.clamp_min(least));
    let kl = divergence(Divergence::Forward, Rest::Dropped, &bounded(&s), &bounded(&t));
    let flat: Vec<f64> = case.mask().concat().iter().map(|&m| f64::from(u8::from(m))).collect();
    let mask = tensor(&flat);
    let mass = |x: &Tensor| list(&x.exp().sum_dim_intlist([-1i64].as_slice(), false, Kind::Double));
    // Where the teacher's and the student's likeliest tokens agree, and the mean part of those in the divergence.
    let own = topk(&student, k);
    let both = ids.unsqueeze(-1).eq_tensor(&own.unsqueeze(-2)).any_dim(-1, false).to_kind(Kind::Double);
    let count = both.sum_dim_intlist([-1i64].as_slice(), false, Kind::Double);
    let (s_, t_) = (bounded(&s).detach(), bounded(&t));
    let part = (t_.exp() * (s_ - t_) * &both).sum_dim_intlist([-1i64].as_slice(), false, Kind::Double);
    let agreement = part / count.clamp_min(1.0);
    Ok(vec![
        ("overlap_count".into(), list(&count)),
        ("overlap_token_advantage".into(), list(&agreement)),
        ("distillation_losses".into(), list(&kl)),
        ("student_mass".into(), mass(&s)),
        ("teacher_mass".into(), mass(&t)),
        ("grad_student_logits".into(), gradient(&(kl * mask).sum(Kind::Double), &leaf)),
    ])
}

fn prime(case: &Case) -> Result<Numbers, String> {
    let (log_prob, reference) = (case.flat("log_prob"), case.flat("ref_log_prob"));
    let toward: Vec<f64> = log_prob.iter().zip(&reference).map(|(p, q)| q - p).collect();
    let batch = Batch::of(case, &case.flat("old_log_prob"), &toward);
    let weights = if case.flag("weighted") {
        tensor(&case.flat("loss_weights"))
    } else {
        batch.tokens.mask.ones_like()
    };
    let weights = weights * &batch.tokens.mask;
    // One-sided: only tokens that fell too far are left out, whatever the advantage.
    let mut numbers = Vec::new();
    let moved = batch.tokens.log_prob.detach().exp() - batch.tokens.old.exp();
    let loss = loss::policy(Objective::Importance, TOKEN, &batch.tokens).loss;
    let kept = loss.zeros_like().where_self(&moved.lt(-0.2), &loss);
    let drift = (&batch.tokens.log_prob - &batch.tokens.old).square() * 1e-3;
    for (name, loss) in [("ref_kl", kept + drift), ("ce", -&batch.tokens.log_prob)] {
        let total = (loss * &weights).sum(Kind::Double);
        numbers.push((format!("{name}.loss_sum"), vec![total.double_value(&[])]));
        numbers.push((format!("{name}.grad_log_prob"), batch.gradient(&total)));
    }
    Ok(numbers)
}
