//! Policy losses beyond PPO's clip.

use super::format::{Case, Check, Numbers};
use super::losses::{
    Batch, SEQUENCE, TOKEN, clip_config_verl, list, slime_weights, tensor, trl_weights, weighted,
};
use tch::{Kind, Tensor};
use whet_algorithm::selection::{self, Budget};
use whet_algorithm::{Kl, KlEstimator, Reduction};
use whet_trainer::loss::{self, Region, Surrogate};
use whet_trainer::{Objective, Ratio, RatioLevel};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "loss_cispo_verl" => cispo_verl,
        "loss_cispo_slime" => cispo_slime,
        "loss_cispo_relax" => cispo_relax,
        "loss_cispo_trl" => cispo_trl,
        "loss_sapo_verl" => sapo_verl,
        "loss_sapo_relax" => sapo_relax,
        "loss_sapo_trl" => sapo_trl,
        "loss_sapo_areal" => sapo_areal,
        "loss_gspo_token_verl" | "loss_gspo_token_verl_seqadv" => gspo_token_verl,
        "loss_gspo_token_trl" => gspo_token_trl,
        "loss_gspo_trl" => gspo_trl,
        "loss_gspo_slime" => gspo_slime,
        "loss_gmpo_verl" => gmpo_verl,
        "loss_gmpo_trl" => gmpo_trl,
        "loss_dppo_tv_verl" | "loss_dppo_kl_verl" => dppo_verl,
        "loss_dppo_prime" => dppo_prime,
        "loss_dro_verl" => dro_verl,
        "loss_drpo_unirl" | "loss_spo_unirl" => spo_unirl,
        "loss_cppo_unirl" => cppo_unirl,
        "loss_grpo_clip_unirl" => grpo_clip_unirl,
        "loss_cpgd_lightrft" => cpgd_lightrft,
        "loss_clip_cov_verl" => clip_cov_verl,
        "loss_kl_cov_verl" => kl_cov_verl,
        "loss_vespo_trl" => vespo_trl,
        "loss_m2po_relax" => m2po_relax,
        "loss_opsm_slime" => opsm_slime,
        "loss_opsm_trl" => opsm_trl,
        _ => return None,
    })
}

pub const CLAMPED: Ratio = Ratio { level: RatioLevel::Token, clamp_log: Some(20.0) };

fn verl(case: &Case, batch: &Batch, loss: Tensor, mode: &str) -> Result<Numbers, String> {
    Ok(batch.numbers(&(weighted(case, loss) * batch.mode(mode)).sum(Kind::Double)))
}

/// The token values' sum over trained tokens, as peers that reduce later record it.
fn masked_sum(batch: &Batch, loss: &Tensor) -> Numbers {
    let total = (loss * &batch.tokens.mask).sum(Kind::Double);
    vec![
        ("masked_sum".into(), vec![total.double_value(&[])]),
        ("grad_log_prob".into(), batch.gradient(&total)),
    ]
}

fn cispo(low: f64, high: f64, by_sign: bool) -> Objective {
    Objective::Cispo { low, high, by_sign }
}

fn cispo_verl(case: &Case) -> Result<Numbers, String> {
    let Objective::Clip { low, high, .. } = clip_config_verl(case, None) else {
        return Err("no clip".into());
    };
    let batch = Batch::new(case);
    let loss = batch.objective(cispo(1.0 - low, 1.0 + high, false), CLAMPED);
    verl(case, &batch, loss, case.text("loss_agg_mode"))
}

fn cispo_slime(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let objective = cispo(1.0 - case.param("eps_clip"), 1.0 + case.param("eps_clip_high"), false);
    let loss = batch.objective(objective, TOKEN);
    Ok(batch.numbers(&(loss * slime_weights(case, &batch)).sum(Kind::Double)))
}

fn cispo_relax(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let objective = cispo(1.0 - case.param("eps_clip"), 1.0 + case.param("eps_clip_high"), true);
    Ok(masked_sum(&batch, &batch.objective(objective, TOKEN)))
}

fn trl(case: &Case, batch: &Batch, loss: Tensor) -> Result<Numbers, String> {
    Ok(batch.numbers(&(loss * trl_weights(case, batch)).sum(Kind::Double)))
}

fn cispo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(cispo(0.0, case.param("epsilon_high"), false), TOKEN);
    trl(case, &batch, loss)
}

fn sapo(case: &Case) -> Objective {
    let of = |name: &str, default| {
        let named = [format!("config.tau_{name}"), format!("tau_{name}"), format!("sapo_temperature_{name}")];
        named.iter().find_map(|n| case.maybe(n)).unwrap_or(default)
    };
    Objective::Sapo { positive: of("pos", 1.0), negative: of("neg", 1.05) }
}

fn sapo_verl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    // verl reduces SAPO by sequences, whatever the mode.
    verl(case, &batch, batch.objective(sapo(case), CLAMPED), "seq-mean-token-mean")
}

fn sapo_relax(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    Ok(masked_sum(&batch, &batch.objective(sapo(case), TOKEN)))
}

fn level(case: &Case) -> Ratio {
    if case.text("level") == "sequence" { SEQUENCE } else { TOKEN }
}

fn sapo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(sapo(case), level(case));
    trl(case, &batch, loss)
}

fn sapo_areal(case: &Case) -> Result<Numbers, String> {
    let batch = super::areal_losses::with_level(case, Batch::new(case));
    let loss = batch.objective(sapo(case), level(case));
    Ok(batch.numbers(&(loss * batch.mode("token-mean")).sum(Kind::Double)))
}

const SEQUENCE_TOKEN: Ratio = Ratio { level: RatioLevel::SequenceToken, clamp_log: None };

fn gspo_token_verl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    // verl bounds the log-ratio from above alone, at 10; below, no double is that small.
    let ratio = Ratio { clamp_log: Some(10.0), ..SEQUENCE_TOKEN };
    let loss = batch.objective(clip_config_verl(case, None), ratio);
    verl(case, &batch, loss, "seq-mean-token-mean")
}

fn clip_trl(case: &Case) -> Objective {
    let low = case.maybe("epsilon").or_else(|| case.maybe("epsilon_low")).unwrap_or(0.2);
    let high = case.maybe("epsilon_high").unwrap_or(low);
    Objective::Clip { low, high, dual: None, cap: case.maybe("delta") }
}

/// TRL's GRPO reduction where no loss type is named.
fn trl_grpo(case: &Case, batch: &Batch, loss: Tensor) -> Result<Numbers, String> {
    if !case.text("loss_type").is_empty() {
        return trl(case, batch, loss);
    }
    let weights = batch.weights(Reduction::SequenceMeanTokenMean, batch.mask.len());
    Ok(batch.numbers(&(loss * weights).sum(Kind::Double)))
}

fn gspo_token_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(clip_trl(case), SEQUENCE_TOKEN);
    trl_grpo(case, &batch, loss)
}

/// TRL's KL term, k3 per token.
fn with_kl_trl(case: &Case, batch: &Batch, loss: Tensor) -> Tensor {
    let Some(beta) = case.maybe("beta").filter(|&b| b != 0.0) else { return loss };
    let reference = tensor(&case.flat("ref_log_prob"));
    let estimator = KlEstimator::plain(Kl::K3);
    let kl = loss::divergence(estimator, &batch.tokens.log_prob, &reference, &batch.tokens.old);
    loss + kl.where_self(&batch.tokens.mask.to_kind(Kind::Bool), &kl.zeros_like()) * beta
}

/// A number per sequence that TRL has, where a sequence without a trained token counts too.
fn empty_rows(batch: &Batch, value: impl Fn(usize) -> f64) -> f64 {
    let rows = batch.lengths.iter().enumerate().filter(|(_, n)| **n == 0);
    rows.map(|(s, _)| value(s)).sum::<f64>() / batch.lengths.len() as f64
}

fn gspo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(clip_trl(case), SEQUENCE);
    let loss = with_kl_trl(case, &batch, loss);
    trl_grpo(case, &batch, loss)
}

fn gspo_slime(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let low = case.param("eps_clip");
    let high = case.maybe("eps_clip_high").unwrap_or(low);
    let loss = batch.objective(Objective::Clip { low, high, dual: None, cap: None }, SEQUENCE);
    Ok(batch.numbers(&(loss * slime_weights(case, &batch)).sum(Kind::Double)))
}

fn gmpo_verl(case: &Case) -> Result<Numbers, String> {
    let Objective::Clip { low, high, .. } = clip_config_verl(case, None) else {
        return Err("no clip".into());
    };
    let batch = Batch::new(case);
    let mut loss = batch.objective(Objective::Gmpo { low, high }, TOKEN);
    if case.has("rollout_is_weights") {
        // One weight per sequence: the geometric mean of its tokens'.
        let log_weights = tensor(&case.flat("rollout_is_weights")).log();
        loss = loss * batch.tokens.means(&log_weights).exp();
    }
    let weights = batch.weights(Reduction::SequenceMeanTokenMean, batch.mask.len());
    Ok(batch.numbers(&(loss * weights).sum(Kind::Double)))
}

fn gmpo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let objective = Objective::Gmpo { low: case.param("epsilon_low"), high: case.param("epsilon_high") };
    let loss = batch.objective(objective, TOKEN);
    let weights = batch.weights(Reduction::SequenceMeanTokenMean, batch.mask.len());
    let loss = with_kl_trl(case, &batch, loss);
    let total = (loss * weights).sum(Kind::Double);
    // TRL counts a sequence without a trained token as ratio 1: a constant without gradient.
    let advantages = case.flat("seq_advantages");
    Ok(batch.numbers(&(total + empty_rows(&batch, |s| -advantages[s]))))
}

fn dppo_verl(case: &Case) -> Result<Numbers, String> {
    let Objective::Clip { low, high, .. } = clip_config_verl(case, None) else {
        return Err("no clip".into());
    };
    let batch = Batch::new(case);
    let by_variation = case.file.contains("_tv_");
    let region =
        if by_variation { Region::TotalVariation { low, high } } else { Region::BinaryKl { low, high } };
    let surrogate = Surrogate::Detached { cap: case.param("config.clip_ratio_c") };
    let loss = batch.objective(Objective::Dppo { region, surrogate, drift: 0.0 }, CLAMPED);
    verl(case, &batch, loss, case.text("loss_agg_mode"))
}

fn dppo_prime(case: &Case) -> Result<Numbers, String> {
    let tau = case.param("cfg.adv_tau");
    let advantages: Vec<f64> = case.flat("advantages").iter().map(|a| a * tau).collect();
    let batch = Batch::of(case, &case.flat("old_log_prob"), &advantages);
    let region = if case.text("kind") == "ipo" {
        Region::Absolute { bound: case.param("cfg.ipo_threshold") }
    } else {
        Region::TotalVariation {
            low: case.param("cfg.dppo_mask_low"),
            high: case.param("cfg.dppo_mask_high"),
        }
    };
    let drift = case.param("cfg.kl_tau");
    let objective = Objective::Dppo { region, surrogate: Surrogate::Ratio, drift };
    let mut loss = batch.objective(objective, TOKEN);
    if case.flag("weighted") {
        loss = loss * tensor(&case.flat("loss_weights"));
    }
    let total = (loss * &batch.tokens.mask).sum(Kind::Double);
    Ok(vec![
        ("loss_sum".into(), vec![total.double_value(&[])]),
        ("grad_log_prob".into(), batch.gradient(&total)),
    ])
}

fn dro_verl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(Objective::Dro { beta: case.param("config.policy_loss.dro_beta") }, TOKEN);
    verl(case, &batch, loss, case.text("loss_agg_mode"))
}

fn spo_unirl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let by_probability = case.file.contains("drpo");
    Ok(masked_sum(
        &batch,
        &batch.objective(Objective::Spo { eps: case.param("epsilon"), by_probability }, CLAMPED),
    ))
}

fn cppo_unirl(case: &Case) -> Result<Numbers, String> {
    let mut batch = Batch::new(case);
    let budget =
        Budget { delta: case.param("delta"), least_weight: case.param("w_min"), rate: case.param("delta_b") };
    let (log_prob, old) = (case.rows("log_prob"), case.rows("old_log_prob"));
    let lengths = case.flat("lengths");
    let mut within = Vec::new();
    for (s, row) in log_prob.iter().enumerate() {
        let n = lengths[s] as usize;
        within.extend(budget.within(&row[..n], &old[s][..n]));
        within.resize((s + 1) * batch.columns, false);
    }
    batch.tokens.picked = Some(Tensor::from_slice(&within));
    let result = loss::policy(Objective::Within { budget }, CLAMPED, &batch.tokens);
    Ok(masked_sum(&batch, &result.loss))
}

fn grpo_clip_unirl(case: &Case) -> Result<Numbers, String> {
    let progress = case.param("progress");
    // The bound may shrink over a run.
    let factor = match case.text("schedule") {
        "linear_decay" => 1.0 - 0.5 * progress,
        "cosine_decay" => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        _ => 1.0,
    };
    let low = case.param("clip") * factor;
    let high = case.maybe("high").unwrap_or(low);
    let batch = Batch::new(case);
    Ok(masked_sum(&batch, &batch.objective(Objective::Clip { low, high, dual: None, cap: None }, TOKEN)))
}

fn cpgd_lightrft(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let eps = case.param("clip_eps");
    let objective =
        if case.flag("cpg") { Objective::Cpgd { low: eps, high: eps } } else { Objective::ppo(eps) };
    let weights = batch.weights(Reduction::SequenceMeanTokenMean, batch.mask.len());
    let total = (batch.objective(objective, TOKEN) * weights).sum(Kind::Double);
    Ok(batch.numbers(&total))
}

/// Trained tokens as one list, and the covariance of each.
fn covariances(batch: &Batch) -> (Vec<bool>, Vec<f64>) {
    let mask = batch.mask.concat();
    let cov = selection::covariance(&list(&batch.tokens.advantage), &list(&batch.tokens.log_prob), &mask);
    (mask, cov)
}

fn clip_cov_verl(case: &Case) -> Result<Numbers, String> {
    let mut batch = Batch::new(case);
    let Objective::Clip { low, high, .. } = clip_config_verl(case, None) else {
        return Err("no clip".into());
    };
    let (mask, cov) = covariances(&batch);
    let clip = Objective::Clip { low, high, dual: None, cap: None };
    let clipped = Vec::<bool>::try_from(&loss::policy(clip, TOKEN, &batch.tokens).clipped)
        .map_err(|e| e.to_string())?;
    let of = |name: &str| case.param(&format!("config.policy_loss.clip_cov_{name}"));
    let covariance = (of("lb"), of("ub"));
    let picked = selection::clip_cov(&cov, &mask, &clipped, covariance, of("ratio"));
    batch.tokens.picked = Some(Tensor::from_slice(&picked));
    let loss = batch.objective(Objective::ClipCov { low, high, covariance, share: of("ratio") }, TOKEN);
    verl(case, &batch, loss, case.text("loss_agg_mode"))
}

fn kl_cov_verl(case: &Case) -> Result<Numbers, String> {
    let mut batch = Batch::new(case);
    let (mask, cov) = covariances(&batch);
    let share = case.param("config.policy_loss.kl_cov_ratio");
    let picked = selection::kl_cov(&cov, &mask, share);
    batch.tokens.picked = Some(Tensor::from_slice(&picked));
    let coefficient = case.param("config.policy_loss.ppo_kl_coef");
    let loss = batch.objective(Objective::KlCov { coefficient, share }, TOKEN);
    verl(case, &batch, loss, case.text("loss_agg_mode"))
}

fn vespo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    // The peer's text as recorded lets the gradient through the weight.
    let objective = Objective::Vespo { positive: (2.0, 3.0), negative: (3.0, 2.0), detached: false };
    let loss = batch.objective(objective, TOKEN);
    trl(case, &batch, loss)
}

fn m2po_relax(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let (log_prob, old) = (case.flat("log_prob"), case.flat("old_log_prob"));
    // Relax's statistics see masked tokens too.
    let log_ratio: Vec<f64> = log_prob.iter().zip(&old).map(|(p, q)| p - q).collect();
    let least = (case.param("miniclip_low"), case.param("miniclip_high"));
    let found =
        selection::second_moment(&case.flat("advantages"), &log_ratio, case.param("kl2_budget"), least);
    let objective = Objective::Clip { low: found.low, high: found.high, dual: None, cap: None };
    let loss = batch.objective(objective, TOKEN);
    let mut numbers = masked_sum(&batch, &loss);
    numbers.extend([
        ("m2_before".to_owned(), vec![found.before]),
        ("m2_after".to_owned(), vec![found.after]),
        ("eps_low".to_owned(), vec![found.low]),
        ("eps_high".to_owned(), vec![found.high]),
    ]);
    Ok(numbers)
}

/// The factor 0 at tokens that a rule leaves out; denominators stay.
fn without(case: &Case, batch: &Batch, sampler: &str, delta: f64) -> Tensor {
    let (log_prob, other) = (case.rows("log_prob"), case.rows(sampler));
    let advantages = list(&batch.tokens.advantage);
    let left_out: Vec<f64> = (0..batch.mask.len())
        .flat_map(|s| {
            let advantages = &advantages[s * batch.columns..(s + 1) * batch.columns];
            selection::off_policy(advantages, &other[s], &log_prob[s], &batch.mask[s], delta)
        })
        .map(|out| if out { 0.0 } else { 1.0 })
        .collect();
    tensor(&left_out)
}

fn opsm_slime(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let low = case.param("eps_clip");
    let high = case.maybe("eps_clip_high").unwrap_or(low);
    let loss = batch.objective(Objective::Clip { low, high, dual: None, cap: None }, TOKEN);
    let kept = without(case, &batch, "old_log_prob", case.param("opsm_delta"));
    Ok(batch.numbers(&(loss * kept * slime_weights(case, &batch)).sum(Kind::Double)))
}

fn opsm_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(clip_trl(case), TOKEN);
    let kept = without(case, &batch, "rollout_log_prob", case.param("opsm"));
    trl(case, &batch, loss * kept)
}
