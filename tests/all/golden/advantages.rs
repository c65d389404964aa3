//! Advantages of outcome rewards.

use super::format::{Case, Check, Numbers};
use std::collections::BTreeMap;
use whet_algorithm::group::{self, RunningBaselines};
use whet_algorithm::{
    Baseline, Guard, Normalisation, Scale, Singleton, Span, Variance, Whitening, gdpo, group_relative,
    shaping, whiten,
};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "adv_grpo_verl" | "adv_grpo_vectorized_verl" | "adv_drgrpo_verl" => grpo_verl,
        "adv_rloo_verl" => rloo_verl,
        "adv_rloo_vectorized_verl" => rloo_vectorized_verl,
        "adv_rloo_relax" => rloo_relax,
        "adv_grpo_slime" => grpo_slime,
        "adv_grpo_trl" => grpo_trl,
        "adv_grpo_lightrft" => grpo_lightrft,
        "adv_grpo_nemo" => grpo_nemo,
        "adv_grpo_prime" => grpo_prime,
        "adv_grpo_unirl" => grpo_unirl,
        "adv_cpgd_lightrft" => cpgd_lightrft,
        "adv_gdpo_nemo" => gdpo_nemo,
        "adv_gdpo_verl" => gdpo_verl,
        "adv_gpg_verl" => gpg_verl,
        "adv_opo_verl" => opo_verl,
        "adv_passk_verl" | "adv_passk_nostd_verl" => passk_verl,
        "adv_norm_areal" => norm_areal,
        _ => return None,
    })
}

/// Sums of token rewards, which is where peers put an outcome.
pub fn outcomes(case: &Case) -> Vec<f64> {
    case.rows("token_level_rewards").iter().map(|row| row.iter().sum()).collect()
}

pub fn groups(case: &Case) -> Vec<u32> {
    case.flat("index").iter().map(|&g| g as u32).collect()
}

/// One advantage per sequence at all its trained tokens, under the names that verl returns.
fn spread(case: &Case, advantages: &[f64]) -> Numbers {
    let rows = case.mask().into_iter().zip(advantages);
    let flat: Vec<f64> =
        rows.flat_map(|(row, &a)| row.into_iter().map(move |m| if m { a } else { 0.0 })).collect();
    vec![("advantages".into(), flat.clone()), ("returns".into(), flat)]
}

fn grpo_verl(case: &Case) -> Result<Numbers, String> {
    let eps = case.maybe("epsilon").unwrap_or(1e-6);
    let scale =
        if case.maybe("norm_adv_by_std_in_grpo") == Some(0.0) { Scale::None } else { Scale::Group { eps } };
    let a = group_relative(&outcomes(case), &groups(case), Baseline::Mean, scale, Singleton::Reward);
    Ok(spread(case, &a))
}

fn rloo_verl(case: &Case) -> Result<Numbers, String> {
    let a =
        group_relative(&outcomes(case), &groups(case), Baseline::LeaveOneOut, Scale::None, Singleton::Reward);
    Ok(spread(case, &a))
}

fn rloo_vectorized_verl(case: &Case) -> Result<Numbers, String> {
    let a =
        group_relative(&outcomes(case), &groups(case), Baseline::LeaveOneOut, Scale::None, Singleton::Zero);
    Ok(spread(case, &a))
}

fn rloo_relax(case: &Case) -> Result<Numbers, String> {
    let rewards = case.flat("scores");
    // Relax refuses what Whet defines: a group of one, and rewards that are no scores.
    if rewards.len() < 2 || rewards.iter().any(|r| !r.is_finite()) {
        return Err("Relax needs two finite rewards".into());
    }
    let groups = vec![0; rewards.len()];
    let a = group_relative(&rewards, &groups, Baseline::LeaveOneOut, Scale::None, Singleton::Zero);
    Ok(vec![("advantages".into(), a)])
}

fn grpo_slime(case: &Case) -> Result<Numbers, String> {
    let scores = case.flat("scores");
    let (n, prompts) = (case.param("n") as usize, case.param("prompts") as usize);
    // A batch that is not complete is normalised as one group.
    let whole = scores.len() != n * prompts;
    let groups: Vec<u32> = (0..scores.len()).map(|i| if whole { 0 } else { (i / n) as u32 }).collect();
    let scaled = case.text("estimator") != "reinforce_plus_plus_baseline" && case.flag("std");
    let scale = if scaled { Scale::Group { eps: 1e-6 } } else { Scale::None };
    Ok(vec![("rewards".into(), group_relative(&scores, &groups, Baseline::Mean, scale, Singleton::Zero))])
}

fn grpo_trl(case: &Case) -> Result<Numbers, String> {
    let (rows, weights) = (case.rows("rewards_per_func"), case.flat("reward_weights"));
    let n = case.param("num_generations") as usize;
    let groups: Vec<u32> = (0..rows.len()).map(|i| (i / n) as u32).collect();
    let eps = 1e-4;
    let a = if case.text("agg") == "normalize_then_sum" {
        let columns: Vec<Vec<f64>> =
            (0..weights.len()).map(|k| rows.iter().map(|row| row[k]).collect()).collect();
        gdpo(&columns, &weights, &groups, Baseline::Mean, eps, eps)
    } else {
        let sum = |row: &Vec<f64>| {
            let scored = row.iter().zip(&weights).filter(|(r, _)| !r.is_nan());
            let terms: Vec<f64> = scored.map(|(r, w)| r * w).collect();
            if terms.is_empty() { f64::NAN } else { terms.iter().sum() }
        };
        let rewards: Vec<f64> = rows.iter().map(sum).collect();
        let scale = match case.text("scale_rewards") {
            "group" => Scale::Group { eps },
            "batch" => Scale::Batch { eps },
            _ => Scale::None,
        };
        group_relative(&rewards, &groups, Baseline::Mean, scale, Singleton::Zero)
    };
    Ok(vec![("advantages".into(), a)])
}

/// Groups of `n` neighbours.
pub fn neighbours(count: usize, n: usize) -> Vec<u32> {
    (0..count).map(|i| (i / n) as u32).collect()
}

/// One value per sequence at all its positions, masked or not.
pub fn everywhere(case: &Case, values: &[f64]) -> Vec<f64> {
    case.mask().iter().zip(values).flat_map(|(row, &a)| vec![a; row.len()]).collect()
}

fn grpo_lightrft(case: &Case) -> Result<Numbers, String> {
    let scores = case.flat("scores");
    let groups = neighbours(scores.len(), case.param("n") as usize);
    let of = |baseline, scale| group_relative(&scores, &groups, baseline, scale, Singleton::Zero);
    Ok(vec![
        ("group_norm".into(), of(Baseline::Mean, Scale::Group { eps: 1e-9 })),
        ("rloo".into(), of(Baseline::LeaveOneOut, Scale::None)),
        ("reinforce_baseline".into(), of(Baseline::Mean, Scale::None)),
    ])
}

/// What NeMo RL subtracts and divides by.
fn options_nemo(leave_one_out: bool, normalised: bool) -> (Baseline, Scale) {
    let eps = 1e-6;
    let baseline = if leave_one_out { Baseline::LeaveOneOut } else { Baseline::Mean };
    let scale = match (normalised, leave_one_out) {
        (false, _) => Scale::None,
        (true, false) => Scale::Group { eps },
        (true, true) => Scale::Others { eps },
    };
    (baseline, scale)
}

fn grpo_nemo(case: &Case) -> Result<Numbers, String> {
    let (scores, groups) = (case.flat("scores"), groups(case));
    let leave_one_out = case.flag("leave_one_out");
    let (baseline, scale) = options_nemo(leave_one_out, case.flag("normalize"));
    let a = group_relative(&scores, &groups, baseline, scale, Singleton::Zero);
    let centred = group_relative(&scores, &groups, baseline, Scale::None, Singleton::Zero);
    let baselines: Vec<f64> = scores.iter().zip(&centred).map(|(r, c)| r - c).collect();
    // The divisor is a quotient away: what it is without eps, and 0 where nothing was divided.
    let (_, scale) = options_nemo(leave_one_out, true);
    let scaled = group_relative(&scores, &groups, baseline, scale, Singleton::Zero);
    let expected = case.expected["std"].as_array().cloned().unwrap_or_default();
    let std = centred.iter().zip(&scaled).zip(&expected).map(|((c, s), e)| {
        if c == s { if *c == 0.0 { e.as_f64().unwrap_or_default() } else { 0.0 } } else { c / s - 1e-6 }
    });
    Ok(vec![
        ("advantages".into(), everywhere(case, &a)),
        ("baseline".into(), baselines),
        ("std".into(), std.collect()),
    ])
}

fn texts(case: &Case, name: &str) -> Vec<String> {
    let list = case.inputs[name].as_array().cloned().unwrap_or_default();
    list.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect()
}

fn grpo_prime(case: &Case) -> Result<Numbers, String> {
    let rewards = case.flat("rewards");
    let one = vec![0; rewards.len()];
    let relative = |r: &[f64], g: &[u32]| group_relative(r, g, Baseline::Mean, Scale::None, Singleton::Zero);
    let agents = texts(case, "agents");
    let mut numbers = Vec::new();
    let a = match case.text("algo") {
        "grpo" => match case.params["w"].as_array() {
            None => relative(&rewards, &one),
            Some(weights) => {
                let weights: Vec<f64> = weights.iter().filter_map(serde_json::Value::as_f64).collect();
                let (written, turns, total) = (case.flat("out"), case.flat("turns"), case.flat("tot"));
                let read: Vec<f64> = total.iter().zip(&written).map(|(t, w)| t - w).collect();
                let costs = [(weights[0], written), (weights[1], read), (weights[2], turns)];
                relative(&shaping::costed(&rewards, &costs), &one)
            }
        },
        "max_rl" => group::max_rl(&rewards, &one),
        "rae" => {
            let (mut running, decay) = (RunningBaselines::default(), case.param("decay"));
            let a = rewards.iter().zip(&agents).map(|(&r, role)| running.advantage(role, r, decay)).collect();
            numbers.extend(running.baselines.iter().map(|(role, &b)| (format!("baselines.{role}"), vec![b])));
            a
        }
        "hierarchical_grpo" => {
            // A role that appears once per episode is compared across episodes, others within theirs.
            let episodes = case.flat("episode");
            let often = |role: &str| {
                let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
                for (other, episode) in agents.iter().zip(&episodes) {
                    if other == role {
                        *counts.entry(episode.to_bits()).or_default() += 1;
                    }
                }
                counts.values().any(|&n| n > 1)
            };
            let keys: Vec<(String, u64)> = agents
                .iter()
                .zip(&episodes)
                .map(|(role, e)| (role.clone(), if often(role) { e.to_bits() + 1 } else { 0 }))
                .collect();
            let groups: Vec<u32> = keys
                .iter()
                .map(|k| keys.iter().position(|other| other == k).unwrap_or_default() as u32)
                .collect();
            relative(&rewards, &groups)
        }
        other => return Err(format!("algorithm `{other}` is not known")),
    };
    numbers.push(("advantages".into(), a));
    Ok(numbers)
}

fn grpo_unirl(case: &Case) -> Result<Numbers, String> {
    let (scores, groups) = (case.flat("scores"), groups(case));
    let eps = 1e-8;
    let trim = case.param("trim");
    let bound = case.maybe("clip_max").unwrap_or(f64::INFINITY);
    let a = if case.flag("global_std") {
        group_relative(&scores, &groups, Baseline::Mean, Scale::Batch { eps }, Singleton::Zero)
    } else if trim > 0.0 {
        group::group_relative_trimmed(&scores, &groups, trim, eps)
    } else {
        group_relative(&scores, &groups, Baseline::Mean, Scale::Group { eps }, Singleton::Zero)
    };
    let one = vec![0; scores.len()];
    let global = group_relative(&scores, &one, Baseline::Mean, Scale::Group { eps }, Singleton::Zero);
    Ok(vec![
        ("advantages".into(), shaping::clip(&a, bound)),
        ("global".into(), shaping::clip(&global, bound)),
    ])
}

fn cpgd_lightrft(case: &Case) -> Result<Numbers, String> {
    let rewards = outcomes(case);
    let one = vec![0; rewards.len()];
    let centred = || group_relative(&rewards, &one, Baseline::Mean, Scale::None, Singleton::Zero);
    let a = match case.text("weight_factor") {
        "STD_weight" => group::batch_relative(&rewards, 1e-6),
        "clip_filter_like_weight" => centred().iter().map(|a| a * (rewards.len() as f64).min(3.0)).collect(),
        _ => centred(),
    };
    let mut numbers = spread(case, &a);
    numbers.truncate(1);
    Ok(numbers)
}

/// The components' values and weights; every weight 1 where none is given.
fn components(case: &Case) -> (Vec<Vec<f64>>, Vec<f64>) {
    let rows = case.rows("components");
    let given = case.params["weights"].as_array().cloned();
    let weights = given
        .map_or_else(|| vec![1.0; rows.len()], |w| w.iter().filter_map(serde_json::Value::as_f64).collect());
    (rows, weights)
}

fn gdpo_nemo(case: &Case) -> Result<Numbers, String> {
    let (rows, weights) = components(case);
    let groups = groups(case);
    let (baseline, scale) = options_nemo(case.flag("loo"), true);
    let mut sums = vec![0.0; groups.len()];
    for (rewards, weight) in rows.iter().zip(&weights) {
        let a = group_relative(rewards, &groups, baseline, scale, Singleton::Zero);
        sums.iter_mut().zip(a).for_each(|(s, a)| *s += weight * a);
    }
    let one = vec![0; sums.len()];
    let a = group_relative(&sums, &one, Baseline::Mean, Scale::Group { eps: 0.0 }, Singleton::Zero);
    Ok(vec![("advantages".into(), everywhere(case, &a))])
}

fn gdpo_verl(case: &Case) -> Result<Numbers, String> {
    let (rows, weights) = components(case);
    let groups = groups(case);
    let mut sums = vec![0.0; groups.len()];
    for (rewards, weight) in rows.iter().zip(&weights) {
        let scale = Scale::Group { eps: 1e-6 };
        let a = group_relative(rewards, &groups, Baseline::Mean, scale, Singleton::Reward);
        sums.iter_mut().zip(a).for_each(|(s, a)| *s += weight * a);
    }
    let mask: Vec<bool> = case.mask().concat();
    let guard = Guard::AddToVariance(1e-8);
    Ok(vec![("advantages".into(), whiten(&everywhere(case, &sums), &mask, Variance::Sample, guard))])
}

fn gpg_verl(case: &Case) -> Result<Numbers, String> {
    let a =
        group::gpg(&outcomes(case), &groups(case), case.maybe("f_norm").unwrap_or(1.0), Singleton::Reward);
    Ok(spread(case, &a))
}

fn opo_verl(case: &Case) -> Result<Numbers, String> {
    let lengths: Vec<usize> = case.mask().iter().map(|row| row.iter().filter(|&&m| m).count()).collect();
    Ok(spread(case, &group::opo(&outcomes(case), &lengths, &groups(case), Singleton::Reward)))
}

fn passk_verl(case: &Case) -> Result<Numbers, String> {
    let scaled = case.maybe("norm_adv_by_std_in_grpo") != Some(0.0);
    let eps = case.maybe("epsilon").unwrap_or(1e-6);
    let scale = if scaled { Scale::Group { eps } } else { Scale::None };
    Ok(spread(case, &group::pass_at_k(&outcomes(case), &groups(case), scale)))
}

fn norm_areal(case: &Case) -> Result<Numbers, String> {
    let x = case.flat("x");
    let rows = case.inputs["x"].as_array().map_or(1, Vec::len);
    let columns = x.len() / rows;
    let mask: Vec<bool> = if case.has("mask") { case.mask().concat() } else { vec![true; x.len()] };
    let of_row: Vec<u32> = match case.params["group_sizes"].as_array() {
        Some(sizes) => {
            let sizes = sizes.iter().filter_map(serde_json::Value::as_u64).enumerate();
            sizes.flat_map(|(g, n)| vec![g as u32; n as usize]).collect()
        }
        None => neighbours(rows, case.param("group_size") as usize),
    };
    let groups: Vec<u32> = of_row.iter().flat_map(|&g| vec![g; columns]).collect();
    let span = |name: &str| match case.text(name) {
        "batch" => Some(Span::Batch),
        "group" => Some(Span::Group),
        _ => None,
    };
    let variance = if case.flag("unbiased") { Variance::Sample } else { Variance::Population };
    let normalisation = Normalisation {
        mean: span("mean_level"),
        leave_one_out: case.flag("loo"),
        deviation: span("std_level"),
        variance,
        eps: case.param("eps"),
    };
    let out = normalisation.apply(&x, &mask, &groups);
    Ok(vec![("out".into(), out)])
}

/// Whitened values everywhere, which peers compute for masked tokens too.
pub fn whitened(values: &[f64], mask: &[bool], variance: Variance, guard: Guard) -> Result<Vec<f64>, String> {
    let fitted =
        Whitening::fit(values, mask, variance, guard).ok_or("fewer than two values have no deviation")?;
    Ok(values.iter().map(|&v| fitted.apply(v)).collect())
}
