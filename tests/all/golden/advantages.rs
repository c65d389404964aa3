//! Advantages of outcome rewards.

use super::format::{Case, Check, Numbers};
use whet_algorithm::{Baseline, Scale, Singleton, gdpo, group_relative};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "adv_grpo_verl" | "adv_grpo_vectorized_verl" | "adv_drgrpo_verl" => grpo_verl,
        "adv_rloo_verl" => rloo_verl,
        "adv_rloo_vectorized_verl" => rloo_vectorized_verl,
        "adv_rloo_relax" => rloo_relax,
        "adv_grpo_slime" => grpo_slime,
        "adv_grpo_trl" => grpo_trl,
        _ => return None,
    })
}

/// Sums of token rewards, which is where peers put an outcome.
fn outcomes(case: &Case) -> Vec<f64> {
    case.rows("token_level_rewards").iter().map(|row| row.iter().sum()).collect()
}

fn groups(case: &Case) -> Vec<u32> {
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
