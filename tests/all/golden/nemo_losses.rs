//! Losses of NeMo RL and OpenRLHF, and verl's policy gradient without an old policy.

use super::corrections::{rejected_verl, threshold, weights_verl};
use super::format::{Case, Check, Numbers};
use super::losses::{Batch, SEQUENCE, TOKEN, tensor};
use super::policy_losses::CLAMPED;
use tch::{Kind, Tensor};
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, KlGradient, Level, Outside, Reduction};
use whet_trainer::loss;
use whet_trainer::{Objective, Ratio};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "loss_ppo_nemo" | "loss_gspo_nemo" | "loss_cispo_nemo" | "loss_is_nemo" => nemo,
        "loss_ppo_openrlhf" => openrlhf,
        "loss_reinforce_verl" => reinforce_verl,
        _ => return None,
    })
}

/// Weights of all tokens, by sequence.
fn corrected(correction: Correction, old: &[Vec<f64>], rollout: &[Vec<f64>], mask: &[Vec<bool>]) -> Vec<f64> {
    // What is not finite says nothing and weighs nothing, as in NeMo RL.
    let one = |w: f64| if w.is_finite() { w } else { 0.0 };
    (0..mask.len()).flat_map(|s| correction.weights(&old[s], &rollout[s], &mask[s])).map(one).collect()
}

/// Sequences whose geometric mean ratio is outside are left out, others keep their tokens' raw weights.
fn sequence_masked(bounds: Bounds, old: &[Vec<f64>], rollout: &[Vec<f64>], mask: &[Vec<bool>]) -> Vec<f64> {
    let open = Bounds { low: None, high: None };
    let of = |level, bounds, outside| Correction { level, bounds, outside, clamp_log: None };
    let kept = corrected(of(Level::Geometric, bounds, Outside::Zero), old, rollout, mask);
    let raw = corrected(of(Level::Token, open, Outside::Bound), old, rollout, mask);
    raw.iter().zip(kept).map(|(w, k)| if k == 0.0 { 0.0 } else { *w }).collect()
}

fn nemo(case: &Case) -> Result<Numbers, String> {
    // A sample that is masked out has no trained token.
    let mut batch = Batch::new(case);
    if case.has("sample_mask") {
        let kept = case.flat("sample_mask");
        for (s, row) in batch.mask.iter_mut().enumerate() {
            row.iter_mut().for_each(|m| *m &= kept[s] != 0.0);
        }
        batch = batch.masked();
    }
    let of = |name: &str| case.maybe(&format!("cfg.{name}"));
    let set = |name: &str| of(name).is_some_and(|v| v != 0.0);
    let low = of("ratio_clip_min").unwrap_or(0.2);
    let high = of("ratio_clip_max").unwrap_or(0.2);
    let whole = set("sequence_level_importance_ratios");
    let ratio = if whole { SEQUENCE } else { TOKEN };
    let objective = if set("use_cispo") {
        Objective::Cispo { low: 1.0 - low, high: 1.0 + high, by_sign: false }
    } else if set("disable_ppo_ratio") {
        Objective::Reinforce
    } else {
        Objective::Clip { low, high, dual: of("ratio_clip_c"), cap: None }
    };
    if set("force_on_policy_ratio") {
        batch.tokens.old = batch.tokens.log_prob.detach();
    }
    let mut loss = batch.objective(objective, ratio);
    let (old, rollout) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    if set("use_importance_sampling_correction") {
        let bounds = Bounds {
            low: of("truncated_importance_sampling_ratio_min"),
            high: of("truncated_importance_sampling_ratio"),
        };
        let level = if whole { Level::Sequence } else { Level::Token };
        let correct = |outside| {
            corrected(Correction { level, bounds, outside, clamp_log: None }, &old, &rollout, &batch.mask)
        };
        let weights = match case.text("cfg.truncated_importance_sampling_type") {
            "icepop" => correct(Outside::Zero),
            "seq-mask-tis" => sequence_masked(bounds, &old, &rollout, &batch.mask),
            _ => correct(Outside::Bound),
        };
        loss = loss * tensor(&weights);
    }
    if let Some(beta) = of("reference_policy_kl_penalty").filter(|&b| b != 0.0) {
        let kl = match case.text("cfg.reference_policy_kl_type") {
            "k1" => Kl::K1,
            "k2" => Kl::K2,
            _ => Kl::K3,
        };
        // On policy, the estimate is weighted by the ratio to the sampler, else by 1 with a gradient.
        let sampled = set("use_on_policy_kl_approximation");
        let gradient = if sampled { KlGradient::Reweighted } else { KlGradient::Score };
        let estimator = KlEstimator { kl, clamp_ratio: Some(20.0), clamp_value: Some(10.0), gradient };
        let (reference, rollout) =
            (tensor(&case.flat("ref_log_prob")), tensor(&case.flat("rollout_log_prob")));
        let trained = batch.tokens.mask.to_kind(Kind::Bool);
        let kl = loss::divergence(estimator, &batch.tokens.log_prob, &reference, &rollout);
        let kl = kl.where_self(&trained, &kl.zeros_like());
        loss = loss + kl * beta;
    }
    let by_token = of("token_level_loss") != Some(0.0);
    let weights = if by_token {
        batch.weights(Reduction::TokenMean, 0)
    } else {
        // Every sample counts that is not masked out, with or without a trained token.
        let samples = case.flat("sample_mask").iter().filter(|&&m| m != 0.0).count();
        batch.weights(Reduction::SequenceMeanTokenMean, samples)
    };
    let mut total = (loss * weights).sum(Kind::Double);
    if let Some(weight) = of("positive_example_nll_weight").filter(|&w| w != 0.0) {
        // VAPO: the likelihood of answers that were right, over their tokens.
        let right = case.flat("rewards");
        let lengths: Vec<usize> =
            batch.lengths.iter().zip(&right).map(|(&n, &r)| if r > 0.0 { n } else { 0 }).collect();
        let per_sequence = Reduction::TokenMean.weights(&lengths, 0);
        let rows = batch.mask.iter().zip(per_sequence);
        let flat: Vec<f64> = rows
            .flat_map(|(row, w)| row.iter().map(move |&m| if m { w } else { 0.0 }).collect::<Vec<_>>())
            .collect();
        total = total - (&batch.tokens.log_prob * tensor(&flat)).sum(Kind::Double) * weight;
    }
    Ok(batch.numbers(&total))
}

fn openrlhf(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let of = |name: &str| case.maybe(&format!("kw.{name}"));
    let low = of("clip_eps_low").unwrap_or(0.2);
    let high = of("clip_eps_high").unwrap_or(0.2);
    let objective = Objective::Clip { low, high, dual: of("dual_clip"), cap: None };
    let gspo = case.text("kw.policy_loss_type") == "gspo";
    let corrects = of("enable_vllm_is_correction").is_some_and(|v| v != 0.0);
    let (old, rollout) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    let loss = if gspo && corrects {
        // The ratio compares with the sampler itself.
        let advantages = case.flat("advantages");
        let direct = Batch::of(case, &rollout.concat(), &advantages);
        let batch_loss = loss::policy(objective, SEQUENCE, &direct.tokens).loss;
        return finish(case, &direct, batch_loss, &old, &rollout, corrects, gspo);
    } else if gspo {
        batch.objective(objective, SEQUENCE)
    } else {
        batch.objective(objective, CLAMPED)
    };
    finish(case, &batch, loss, &old, &rollout, corrects, gspo)
}

fn finish(
    case: &Case,
    batch: &Batch,
    mut loss: Tensor,
    old: &[Vec<f64>],
    rollout: &[Vec<f64>],
    corrects: bool,
    gspo: bool,
) -> Result<Numbers, String> {
    let of = |name: &str| case.maybe(&format!("kw.{name}"));
    if corrects && !gspo {
        let bounds =
            Bounds { low: of("vllm_is_truncated_threshold.0"), high: of("vllm_is_truncated_threshold.1") };
        let correct = |outside| {
            let correction = Correction { level: Level::Token, bounds, outside, clamp_log: None };
            corrected(correction, old, rollout, &batch.mask)
        };
        let weights = match case.text("kw.vllm_is_correction_type") {
            "icepop" => correct(Outside::Zero),
            "seq-mask-tis" => sequence_masked(bounds, old, rollout, &batch.mask),
            _ => correct(Outside::Bound),
        };
        loss = loss * tensor(&weights);
    }
    // GSPO is reduced by sequences, whatever the setting.
    let by_token = of("token_level_loss") != Some(0.0) && !gspo;
    let ranks = case.maybe("call.dp_size").unwrap_or(1.0);
    let weights = if by_token {
        match case.maybe("call.batch_num_tokens") {
            Some(tokens) => batch.weights(Reduction::TokenSum, 0) * (ranks / tokens),
            None => batch.mode("token-mean"),
        }
    } else {
        match case.maybe("call.global_batch_size") {
            Some(n) => batch.weights(Reduction::SequenceMeanTokenMean, 1) * (ranks / n),
            None => batch.mode("seq-mean-token-mean"),
        }
    };
    Ok(batch.numbers(&(loss * weights).sum(Kind::Double)))
}

fn reinforce_verl(case: &Case) -> Result<Numbers, String> {
    // Without an old policy, the sampler's log-probabilities stand for it, and weights see the current policy.
    let batch = Batch::new(case);
    let (log_prob, old) = (case.rows("log_prob"), case.rows("old_log_prob"));
    let mut kept = batch.mask.clone();
    if !case.params["rs"].is_null() {
        kept =
            rejected_verl(case.text("rs"), &threshold(case, "rs_threshold"), &log_prob, &old, &batch.mask)?;
    }
    let weights = if case.params["rollout_is"].is_null() || case.text("loss_type") != "reinforce" {
        vec![1.0; kept.concat().len()]
    } else {
        let bound = threshold(case, "threshold");
        let level = case.text("rollout_is");
        weights_verl(level, &bound, case.flag("bn"), &log_prob, &old, &batch.mask)?.concat()
    };
    let mut rest = Batch::new(case);
    rest.mask = kept;
    let rest = rest.masked();
    let objective = match case.text("loss_type") {
        "reinforce" => Objective::Reinforce,
        // verl's clip has its dual bound by default.
        _ => Objective::Clip { low: 0.2, high: 0.2, dual: Some(3.0), cap: None },
    };
    let ratio = Ratio { clamp_log: Some(20.0), ..TOKEN };
    let loss = rest.objective(objective, ratio) * tensor(&weights);
    Ok(rest.numbers(&(loss * rest.mode(case.text("loss_agg_mode"))).sum(Kind::Double)))
}
