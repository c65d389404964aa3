//! Advantages per token, whitening, and rewards placed on tokens.

use super::advantages::{everywhere, groups, neighbours, outcomes, whitened};
use super::format::{Case, Check, Numbers};
use whet_algorithm::shaping::{AdaptiveKl, clip, overlong};
use whet_algorithm::tokens::{self, Gae};
use whet_algorithm::{
    Alignment, Baseline, Guard, Kl, KlEstimator, Scale, Singleton, Trajectory, Variance, group_relative,
    optimal_token_baseline, whiten,
};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "adv_reinforce_pp_verl" => reinforce_pp_verl,
        "adv_reinforce_pp_baseline_verl" => reinforce_pp_baseline_verl,
        "adv_reinforce_pp_nemo" => reinforce_pp_nemo,
        "adv_reinforce_pp_relax" => reinforce_pp_relax,
        "adv_remax_verl" => remax_verl,
        "adv_gae_verl" => gae_verl,
        "adv_gae_slime" => gae_slime,
        "adv_gae_lightrft" => gae_lightrft,
        "adv_gae_nemo" => gae_nemo,
        "adv_gae_areal" => gae_areal,
        "adv_slime" => slime,
        "adv_openrlhf" => openrlhf,
        "adv_otb_verl" => otb_verl,
        "masked_whiten_verl" => whiten_verl,
        "masked_whiten_others" => whiten_others,
        "reward_kl_penalty_verl" => kl_penalty_verl,
        "reward_overlong" => overlong_file,
        "opd_adv" => opd,
        _ => return None,
    })
}

const VERL: Guard = Guard::AddToVariance(1e-8);

/// Applies `formula` to each row and joins the results.
fn each_row(rows: usize, formula: impl FnMut(usize) -> Vec<f64>) -> Vec<f64> {
    (0..rows).flat_map(formula).collect()
}

fn added(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Values with those that are masked replaced by 0.
fn masked(values: &[f64], mask: &[bool]) -> Vec<f64> {
    values.iter().zip(mask).map(|(&v, &m)| if m { v } else { 0.0 }).collect()
}

fn divergences(estimator: KlEstimator, log_prob: &[f64], reference: &[f64]) -> Vec<f64> {
    log_prob.iter().zip(reference).map(|(&p, &q)| estimator.value(p, q)).collect()
}

fn reinforce_pp_verl(case: &Case) -> Result<Numbers, String> {
    let (rewards, mask, gamma) = (case.rows("token_level_rewards"), case.mask(), case.param("gamma"));
    let returns = each_row(mask.len(), |s| tokens::returns(&rewards[s], Some(&mask[s]), gamma));
    let flat = mask.concat();
    let a = masked(&whitened(&returns, &flat, Variance::Sample, VERL)?, &flat);
    Ok(vec![("advantages".into(), a), ("returns".into(), returns)])
}

fn reinforce_pp_baseline_verl(case: &Case) -> Result<Numbers, String> {
    let centred =
        group_relative(&outcomes(case), &groups(case), Baseline::Mean, Scale::None, Singleton::Reward);
    let mask = case.mask().concat();
    let a = whiten(&everywhere(case, &centred), &mask, Variance::Sample, VERL);
    Ok(vec![("advantages".into(), a.clone()), ("returns".into(), a)])
}

fn reinforce_pp_nemo(case: &Case) -> Result<Numbers, String> {
    let (scores, groups, mask) = (case.flat("scores"), groups(case), case.mask().concat());
    let kl = divergences(KlEstimator::plain(Kl::K2), &case.flat("log_prob"), &case.flat("ref_log_prob"));
    let beta = if case.flag("kl") { 0.1 } else { 0.0 };
    let guard = Guard::LeastVariance(1e-8);
    let normalised = |values: &[f64], beta: f64| {
        let values: Vec<f64> =
            everywhere(case, values).iter().zip(&kl).map(|(a, kl)| a - beta * kl).collect();
        whitened(&values, &mask, Variance::Population, guard)
    };
    let minus_baseline = case.flag("minus_baseline");
    let centred = group_relative(&scores, &groups, Baseline::Mean, Scale::None, Singleton::Zero);
    Ok(vec![
        ("advantages".into(), normalised(if minus_baseline { &centred } else { &scores }, beta)?),
        ("raw_advantages".into(), normalised(&scores, 0.0)?),
    ])
}

fn reinforce_pp_relax(case: &Case) -> Result<Numbers, String> {
    let (rewards, kl, mask) = (case.flat("rewards"), case.rows("kl"), case.mask());
    let (beta, gamma) = (case.param("kl_coef"), case.param("gamma"));
    let returns = each_row(mask.len(), |s| {
        let token = tokens::terminal_rewards(rewards[s], Some(&kl[s]), beta, &mask[s]);
        masked(&tokens::returns(&token, None, gamma), &mask[s])
    });
    Ok(vec![("returns".into(), returns)])
}

fn remax_verl(case: &Case) -> Result<Numbers, String> {
    let (rewards, mask) = (case.rows("token_level_rewards"), case.mask());
    let greedy = case.flat("reward_baselines");
    Ok(vec![
        ("advantages".into(), each_row(mask.len(), |s| tokens::remax(&rewards[s], &mask[s], greedy[s]))),
        ("returns".into(), each_row(mask.len(), |s| tokens::remax(&rewards[s], &mask[s], 0.0))),
    ])
}

fn gae_verl(case: &Case) -> Result<Numbers, String> {
    let (rewards, values, mask) = (case.rows("token_level_rewards"), case.rows("values"), case.mask());
    let gae = Gae { gamma: case.param("gamma"), lambda: case.param("lam"), bootstrap: 0.0 };
    let a = each_row(mask.len(), |s| gae.advantages(&rewards[s], &values[s], Some(&mask[s])));
    let returns = added(&a, &values.concat());
    Ok(vec![
        ("advantages".into(), whitened(&a, &mask.concat(), Variance::Sample, VERL)?),
        ("returns".into(), returns),
    ])
}

fn gae_slime(case: &Case) -> Result<Numbers, String> {
    let (rewards, values) = (case.rows("rewards"), case.rows("values"));
    let gae = Gae { gamma: case.param("gamma"), lambda: case.param("lambd"), bootstrap: 0.0 };
    let a = each_row(rewards.len(), |s| gae.advantages(&rewards[s], &values[s], None));
    let returns = added(&a, &values.concat());
    let names = ["advantages", "returns", "chunked_advantages", "chunked_returns"];
    Ok(names.into_iter().map(str::to_owned).zip([a.clone(), returns.clone(), a, returns]).collect())
}

fn gae_lightrft(case: &Case) -> Result<Numbers, String> {
    let (rewards, values, mask) = (case.rows("rewards"), case.rows("values"), case.mask());
    let gae = Gae { gamma: case.param("gamma"), lambda: case.param("lam"), bootstrap: 0.0 };
    // Masked tokens are steps without reward and value.
    let row = |s: usize| gae.advantages(&masked(&rewards[s], &mask[s]), &masked(&values[s], &mask[s]), None);
    let mut a = each_row(mask.len(), row);
    let returns = added(&a, &masked(&values.concat(), &mask.concat()));
    if case.flag("norm") {
        a = whitened(&a, &mask.concat(), Variance::Sample, Guard::AddToDeviation(1e-9))?;
    }
    if case.flag("clip") {
        a = clip(&a, case.param("clip"));
    }
    Ok(vec![("advantages".into(), a), ("returns".into(), returns)])
}

fn gae_nemo(case: &Case) -> Result<Numbers, String> {
    let (rewards, values, mask) = (case.flat("rewards"), case.rows("values"), case.mask());
    let (log_prob, reference) = (case.rows("log_prob"), case.rows("ref_log_prob"));
    let beta = if case.flag("kl") { 0.1 } else { 0.0 };
    let gamma = case.param("gamma");
    let estimate = |s: usize, name: &str| {
        let trained = mask[s].iter().filter(|&&m| m).count();
        let alpha = case.param("alpha");
        let lambda = case.maybe(name).unwrap_or(case.param("lam"));
        let adaptive = name == "lam_policy" && alpha > 0.0;
        let lambda = if adaptive { tokens::length_adaptive_lambda(alpha, trained) } else { lambda };
        let kl = divergences(KlEstimator::bounded(Kl::K3), &log_prob[s], &reference[s]);
        let token = tokens::terminal_rewards(rewards[s], Some(&kl), beta, &mask[s]);
        Gae { gamma, lambda, bootstrap: 0.0 }.advantages(&token, &values[s], Some(&mask[s]))
    };
    let flat = mask.concat();
    let returns = each_row(mask.len(), |s| added(&estimate(s, "lam_value"), &values[s]));
    let mut a = each_row(mask.len(), |s| masked(&estimate(s, "lam_policy"), &mask[s]));
    if case.flag("normalize") {
        a = whiten(&a, &flat, Variance::Sample, VERL);
    }
    Ok(vec![("advantages".into(), a), ("returns".into(), returns)])
}

fn gae_areal(case: &Case) -> Result<Numbers, String> {
    let (rewards, values, mask) = (case.rows("rewards"), case.rows("values"), case.mask());
    let (turns, cut) = (case.rows("turn_ids"), case.flat("seq_no_eos"));
    let of = |s: usize| {
        let last = values[s].last().copied().unwrap_or_default();
        Gae { gamma: case.param("gamma"), lambda: case.param("lam"), bootstrap: last * cut[s] }
    };
    // The last place holds the value to bootstrap from.
    let a = each_row(mask.len(), |s| {
        let n = mask[s].len() - 1;
        let mut a = of(s).advantages(&rewards[s][..n], &values[s][..n], Some(&mask[s][..n]));
        a.push(0.0);
        a
    });
    let by_turn = each_row(mask.len(), |s| {
        let turns: Vec<Option<u32>> = turns[s].iter().map(|&t| (t >= 0.0).then_some(t as u32)).collect();
        of(s).turn_advantages(&rewards[s], &values[s], &turns)
    });
    // A turn's value is that of its first token.
    let turn_values = each_row(mask.len(), |s| {
        let first = |t: usize| turns[s].iter().position(|&other| other == turns[s][t]).unwrap_or(t);
        (0..turns[s].len()).map(|t| values[s][if turns[s][t] >= 0.0 { first(t) } else { t }]).collect()
    });
    Ok(vec![
        ("returns".into(), added(&a, &values.concat())),
        ("advantages".into(), a),
        ("turn_returns".into(), added(&by_turn, &turn_values)),
        ("turn_advantages".into(), by_turn),
    ])
}

fn slime(case: &Case) -> Result<Numbers, String> {
    let rewards = case.flat("rewards");
    let lengths: Vec<usize> = case.flat("lengths").iter().map(|&n| n as usize).collect();
    let cut = |name: &str| -> Vec<Vec<f64>> {
        case.rows(name).into_iter().zip(&lengths).map(|(row, &n)| row[..n].to_vec()).collect()
    };
    let (log_prob, reference, teacher) = (cut("log_probs"), cut("ref_log_probs"), cut("teacher_log_probs"));
    let values = cut("values");
    let mask: Vec<Vec<bool>> =
        case.mask().into_iter().zip(&lengths).map(|(row, &n)| row[..n].to_vec()).collect();
    let estimator = super::losses::kl_slime(case.text("kl_type"), false);
    let (beta, gamma) = (case.param("kl_coef"), case.param("gamma"));
    let kl = |s: usize| divergences(estimator, &log_prob[s], &reference[s]);
    let mut returns: Vec<Vec<f64>> = Vec::new();
    let mut advantages: Vec<Vec<f64>> = Vec::new();
    for s in 0..rewards.len() {
        let n = lengths[s];
        let (a, g) = match case.text("estimator") {
            "grpo" => (vec![rewards[s]; n], vec![rewards[s]; n]),
            "ppo" => {
                let token = tokens::terminal_rewards(rewards[s], Some(&kl(s)), beta, &vec![true; n]);
                let a = Gae { gamma, lambda: case.param("lam"), bootstrap: 0.0 }
                    .advantages(&token, &values[s], None);
                let g = added(&a, &values[s]);
                (a, g)
            }
            "reinforce_plus_plus" => {
                if !mask[s].contains(&true) {
                    return Err("slime needs a trained token in every sequence".into());
                }
                let token = tokens::terminal_rewards(rewards[s], Some(&kl(s)), beta, &mask[s]);
                let g = tokens::returns(&token, None, gamma);
                (g.clone(), g)
            }
            "reinforce_plus_plus_baseline" => {
                let a: Vec<f64> = kl(s).iter().map(|kl| rewards[s] - beta * kl).collect();
                (a.clone(), a)
            }
            other => return Err(format!("estimator `{other}` is not known")),
        };
        let distilled = tokens::distil(&a, &log_prob[s], &teacher[s], case.param("opd"));
        // Here slime's returns and advantages are one list.
        let shared = case.text("estimator") == "reinforce_plus_plus_baseline";
        returns.push(if shared { distilled.clone() } else { g });
        advantages.push(distilled);
    }
    let mut flat = advantages.concat();
    if case.flag("normalize") {
        flat = whitened(&flat, &mask.concat(), Variance::Sample, VERL)?;
    }
    Ok(vec![("advantages".into(), flat), ("returns".into(), returns.concat())])
}

fn openrlhf(case: &Case) -> Result<Numbers, String> {
    let (scores, kl, mask) = (case.flat("scores"), case.rows("kl"), case.mask());
    let values = case.rows("values");
    let groups = neighbours(scores.len(), case.param("n") as usize);
    let (beta, gamma) = (case.param("kl_coef"), case.param("gamma"));
    let relative = |baseline, scale| group_relative(&scores, &groups, baseline, scale, Singleton::Zero);
    let estimator = case.text("estimator");
    let rewards = match estimator {
        "rloo" => relative(Baseline::LeaveOneOut, Scale::None),
        "reinforce_baseline" | "dr_grpo" => relative(Baseline::Mean, Scale::None),
        "group_norm" => relative(Baseline::Mean, Scale::Group { eps: 1e-9 }),
        _ => scores.clone(),
    };
    let token = |s: usize| tokens::terminal_rewards(rewards[s], Some(&kl[s]), beta, &mask[s]);
    let (a, returns) = if estimator == "gae" {
        let gae = Gae { gamma, lambda: case.param("lam"), bootstrap: 0.0 };
        let a = each_row(mask.len(), |s| gae.advantages(&token(s), &masked(&values[s], &mask[s]), None));
        let returns = added(&a, &masked(&values.concat(), &mask.concat()));
        (a, returns)
    } else {
        let returns = each_row(mask.len(), |s| tokens::returns(&token(s), None, gamma));
        (returns.clone(), returns)
    };
    let a = match estimator {
        "gae" | "reinforce" | "reinforce_baseline" => {
            whitened(&a, &mask.concat(), Variance::Population, Guard::LeastVariance(1e-8))?
        }
        _ => a,
    };
    Ok(vec![("advantages".into(), a), ("returns".into(), returns)])
}

fn otb_verl(case: &Case) -> Result<Numbers, String> {
    let (rewards, mask) = (case.rows("token_level_rewards"), case.mask());
    let (old, squares, weights) =
        (case.rows("old_log_probs"), case.rows("sum_pi_squared"), case.rows("rollout_is_weights"));
    let trajectories: Vec<Trajectory> = (0..mask.len())
        .map(|s| Trajectory {
            rewards: rewards[s].clone(),
            mask: mask[s].clone(),
            old: old[s].clone(),
            squares: squares[s].clone(),
            weights: case.flag("use_is").then(|| weights[s].clone()),
        })
        .collect();
    let mut numbers = Vec::new();
    for (name, alignment) in [("otb", Alignment::Position), ("tir", Alignment::Trained)] {
        let zero_tail = case.flag("zero_tail");
        let (a, g) = optimal_token_baseline(&trajectories, &groups(case), alignment, zero_tail, 1e-8);
        numbers.push((format!("{name}_advantages"), a.concat()));
        numbers.push((format!("{name}_returns"), g.concat()));
    }
    Ok(numbers)
}

fn whiten_verl(case: &Case) -> Result<Numbers, String> {
    let (x, mask) = (case.flat("x"), case.mask().concat());
    let fitted =
        whet_algorithm::Whitening::fit(&x, &mask, Variance::Sample, VERL).ok_or("fewer than two values")?;
    let shift = if case.flag("shift_mean") { 0.0 } else { fitted.mean };
    Ok(vec![("out".into(), x.iter().map(|&v| fitted.apply(v) + shift).collect())])
}

fn whiten_others(case: &Case) -> Result<Numbers, String> {
    let (x, mask) = (case.flat("x"), case.mask().concat());
    let variance = if case.flag("unbiased") { Variance::Sample } else { Variance::Population };
    // AReaL multiplies by the mask first, so that a masked value is a 0 that is whitened.
    let areal = whitened(&x, &mask, variance, Guard::AddToDeviation(1e-5))?;
    let zero = whet_algorithm::Whitening::fit(&x, &mask, variance, Guard::AddToDeviation(1e-5))
        .map(|w| w.apply(0.0));
    let areal =
        areal.iter().zip(&mask).map(|(&v, &m)| if m { v } else { zero.unwrap_or_default() }).collect();
    Ok(vec![("slime".into(), whitened(&x, &mask, Variance::Sample, VERL)?), ("areal".into(), areal)])
}

fn kl_penalty_verl(case: &Case) -> Result<Numbers, String> {
    let (old, reference, mask) = (case.rows("old_log_prob"), case.rows("ref_log_prob"), case.mask());
    let scores = case.rows("token_level_scores");
    let kind = if case.text("kl") == "low_var_kl" { Kl::K3 } else { Kl::K1 };
    let mut control =
        AdaptiveKl { beta: case.param("init"), target: case.param("target"), horizon: case.param("horizon") };
    let (mut betas, mut currents, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
    let steps = case.expected["beta"].as_array().map_or(0, Vec::len);
    for _ in 0..steps {
        let mut means = Vec::new();
        let mut token = Vec::new();
        for s in 0..mask.len() {
            let kl = divergences(KlEstimator::bounded(kind), &old[s], &reference[s]);
            let kl = masked(&kl, &mask[s]);
            let trained = mask[s].iter().filter(|&&m| m).count().max(1) as f64;
            means.push(kl.iter().sum::<f64>() / trained);
            token.extend(scores[s].iter().zip(&kl).map(|(r, kl)| r - control.beta * kl));
        }
        let current = means.iter().sum::<f64>() / means.len() as f64;
        betas.push(control.beta);
        currents.push(current);
        rewards = token;
        if case.flag("adaptive") {
            control.update(current, mask.len());
        }
    }
    Ok(vec![
        ("beta".into(), betas),
        ("current_kl".into(), currents),
        ("token_level_rewards".into(), rewards),
        ("beta_final".into(), vec![control.beta]),
    ])
}

fn overlong_file(case: &Case) -> Result<Numbers, String> {
    let (longest, buffer) = (case.param("max_len") as usize, case.param("buffer") as usize);
    let shaped: Vec<f64> = case
        .flat("lengths")
        .iter()
        .zip(case.flat("rewards"))
        .map(|(&n, r)| overlong(r, n as usize, longest, buffer, case.param("penalty"), false))
        .collect();
    Ok(["verl", "areal", "nemo"].into_iter().map(|name| (name.to_owned(), shaped.clone())).collect())
}

fn opd(case: &Case) -> Result<Numbers, String> {
    let (old, teacher) = (case.flat("old_log_prob"), case.flat("teacher_log_prob"));
    let (advantages, mask) = (case.flat("advantages"), case.mask().concat());
    let coefficient = case.param("coef");
    let reverse = tokens::distil(&advantages, &old, &teacher, coefficient);
    let low_variance: Vec<f64> = divergences(KlEstimator::bounded_value(Kl::K3, 10.0), &old, &teacher)
        .iter()
        .zip(&advantages)
        .map(|(kl, a)| a - coefficient * kl)
        .collect();
    let zeros = vec![0.0; old.len()];
    Ok(vec![
        ("slime".into(), reverse.clone()),
        ("relax_reverse_kl".into(), reverse),
        ("relax_low_var_kl".into(), low_variance),
        ("nemo".into(), masked(&tokens::distil(&zeros, &old, &teacher, 1.0), &mask)),
    ])
}
