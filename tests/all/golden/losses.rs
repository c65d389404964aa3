//! Policy losses and their reductions.

use super::format::{Case, Check, Numbers};
use tch::{Kind, Tensor};
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, KlGradient, Level, Outside, Reduction, reduction};
use whet_trainer::loss::{self, Tokens};
use whet_trainer::{Objective, Ratio, RatioLevel};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "loss_ppo_clip_verl" | "loss_clip_higher_verl" | "loss_dual_clip_verl" => clip_verl,
        "loss_gpg_verl" => gpg_verl,
        "loss_rloo_relax" => rloo_relax,
        "loss_ppo_slime" | "loss_tis_slime" => ppo_slime,
        "loss_ppo_trl" => ppo_trl,
        "agg_verl" => agg_verl,
        "agg_slime_openrlhf" => agg_slime_openrlhf,
        _ => return None,
    })
}

/// A case's tokens as flat tensors, with the log-probabilities as the leaf of the graph.
pub struct Batch {
    pub leaf: Tensor,
    pub tokens: Tokens,
    pub mask: Vec<Vec<bool>>,
    pub lengths: Vec<usize>,
    pub columns: usize,
}

pub const TOKEN: Ratio = Ratio { level: RatioLevel::Token, clamp_log: None };
pub const SEQUENCE: Ratio = Ratio { level: RatioLevel::Sequence, clamp_log: None };

impl Batch {
    pub fn new(case: &Case) -> Batch {
        let advantages = if case.has("seq_advantages") {
            let columns = case.rows("mask")[0].len();
            case.flat("seq_advantages").into_iter().flat_map(|a| vec![a; columns]).collect()
        } else {
            case.flat("advantages")
        };
        let old = if case.has("old_log_prob") { "old_log_prob" } else { "log_prob" };
        Batch::of(case, &case.flat(old), &advantages)
    }

    pub fn of(case: &Case, old: &[f64], advantages: &[f64]) -> Batch {
        let mask = case.mask();
        let columns = mask.first().map_or(0, Vec::len);
        let leaf = Tensor::from_slice(&case.flat("log_prob")).set_requires_grad(true);
        let trained: Vec<bool> = mask.iter().flatten().copied().collect();
        let sequence: Vec<i64> = (0..mask.len()).flat_map(|row| vec![row as i64; columns]).collect();
        let tokens = Tokens::new(
            &leaf,
            &Tensor::from_slice(old),
            &Tensor::from_slice(advantages),
            &Tensor::from_slice(&trained),
            &Tensor::from_slice(&sequence),
            mask.len() as i64,
        );
        let lengths = mask.iter().map(|row| row.iter().filter(|&&m| m).count()).collect();
        Batch { leaf, tokens, mask, lengths, columns }
    }

    /// The same tokens with the mask as it is now.
    pub fn masked(mut self) -> Batch {
        let trained = Tensor::from_slice(&self.mask.concat());
        self.tokens = Tokens::new(
            &self.leaf,
            &self.tokens.old,
            &self.tokens.advantage,
            &trained,
            &self.tokens.sequence,
            self.tokens.sequences,
        );
        self.lengths = self.mask.iter().map(|row| row.iter().filter(|&&m| m).count()).collect();
        self
    }

    /// The reduction's weight of every token, 0 where masked.
    pub fn weights(&self, reduction: Reduction, sequences: usize) -> Tensor {
        let weights = reduction.weights(&self.lengths, sequences);
        let rows = self.mask.iter().zip(weights);
        let flat: Vec<f64> = rows
            .flat_map(|(row, w)| row.iter().map(move |&m| if m { w } else { 0.0 }).collect::<Vec<_>>())
            .collect();
        Tensor::from_slice(&flat)
    }

    /// The weights of a peer's mode, counting the sequences that have a trained token.
    pub fn mode(&self, mode: &str) -> Tensor {
        self.weights(reduction_of(mode, self.columns as f64), reduction::trained(&self.lengths))
    }

    pub fn objective(&self, objective: Objective, ratio: Ratio) -> Tensor {
        loss::policy(objective, ratio, &self.tokens).loss
    }

    pub fn gradient(&self, total: &Tensor) -> Vec<f64> {
        gradient(total, &self.leaf)
    }

    /// The loss and its gradient under the names that all files use.
    pub fn numbers(&self, total: &Tensor) -> Numbers {
        vec![("loss".into(), vec![total.double_value(&[])]), ("grad_log_prob".into(), self.gradient(total))]
    }
}

/// `d total / d leaf`; zero where no graph leads there.
pub fn gradient(total: &Tensor, leaf: &Tensor) -> Vec<f64> {
    if !total.requires_grad() {
        return vec![0.0; leaf.numel()];
    }
    let grad = Tensor::run_backward(&[total], &[leaf], true, false).remove(0);
    if grad.defined() { list(&grad) } else { vec![0.0; leaf.numel()] }
}

pub fn list(values: &Tensor) -> Vec<f64> {
    Vec::try_from(values.to_kind(Kind::Double).contiguous().view([-1])).expect("numbers")
}

pub fn tensor(values: &[f64]) -> Tensor {
    Tensor::from_slice(values)
}

pub fn reduction_of(mode: &str, columns: f64) -> Reduction {
    match mode {
        "token-mean" => Reduction::TokenMean,
        "token-sum" => Reduction::TokenSum,
        "seq-mean-token-sum" => Reduction::SequenceMeanTokenSum,
        "seq-mean-token-sum-norm" => Reduction::SequenceMeanTokenSumNorm { length: columns },
        "seq-mean-token-mean" => Reduction::SequenceMeanTokenMean,
        other => panic!("reduction `{other}` is not known"),
    }
}

/// verl weights tokens by `rollout_is_weights` after clipping, where given.
pub fn weighted(case: &Case, loss: Tensor) -> Tensor {
    if case.has("rollout_is_weights") { loss * tensor(&case.flat("rollout_is_weights")) } else { loss }
}

pub fn clip_config_verl(case: &Case, dual: Option<f64>) -> Objective {
    let clip = case.maybe("config.clip_ratio").unwrap_or(0.2);
    Objective::Clip {
        low: case.maybe("config.clip_ratio_low").unwrap_or(clip),
        high: case.maybe("config.clip_ratio_high").unwrap_or(clip),
        dual,
        cap: None,
    }
}

fn clip_verl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let objective = clip_config_verl(case, Some(case.param("config.clip_ratio_c")));
    let ratio = Ratio { clamp_log: Some(20.0), ..TOKEN };
    let loss = weighted(case, batch.objective(objective, ratio));
    Ok(batch.numbers(&(loss * batch.mode(case.text("loss_agg_mode"))).sum(Kind::Double)))
}

fn gpg_verl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = weighted(case, batch.objective(Objective::Reinforce, TOKEN));
    Ok(batch.numbers(&(loss * batch.mode(case.text("loss_agg_mode"))).sum(Kind::Double)))
}

fn rloo_relax(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let loss = batch.objective(Objective::Reinforce, TOKEN);
    let total = (&loss * &batch.tokens.mask).sum(Kind::Double);
    Ok(vec![
        ("masked_sum".into(), vec![total.double_value(&[])]),
        ("grad_log_prob".into(), batch.gradient(&total)),
    ])
}

/// slime's estimators by name.
pub fn kl_slime(name: &str, unbiased: bool) -> KlEstimator {
    let (kl, clamp_value) = match name {
        "k1" => (Kl::K1, None),
        "k2" => (Kl::K2, None),
        "k3" => (Kl::K3, None),
        "low_var_kl" => (Kl::K3, Some(10.0)),
        other => panic!("KL `{other}` is not known"),
    };
    let gradient = if unbiased { KlGradient::Reweighted } else { KlGradient::Direct };
    KlEstimator { clamp_value, gradient, ..KlEstimator::plain(kl) }
}

/// slime sums over samples; the caller divides by the configured batch.
pub fn slime_weights(case: &Case, batch: &Batch) -> Tensor {
    let reduction =
        if case.flag("per_token") { Reduction::TokenSum } else { Reduction::SequenceMeanTokenMean };
    batch.weights(reduction, 1)
}

fn ppo_slime(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let low = case.param("eps_clip");
    let high = case.maybe("eps_clip_high").unwrap_or(low);
    let objective = Objective::Clip { low, high, dual: case.maybe("eps_clip_c"), cap: None };
    let mut loss = batch.objective(objective, TOKEN);
    if case.has("rollout_log_prob") && !case.text("tis").is_empty() {
        let outside = if case.text("tis") == "icepop" { Outside::Zero } else { Outside::Bound };
        let bounds = Bounds { low: case.maybe("tis_clip_low"), high: case.maybe("tis_clip") };
        let correction = Correction { level: Level::Token, bounds, outside, clamp_log: None };
        let (old, rollout) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
        let weights: Vec<f64> =
            (0..old.len()).flat_map(|s| correction.weights(&old[s], &rollout[s], &batch.mask[s])).collect();
        loss = loss * tensor(&weights);
    }
    let weights = slime_weights(case, &batch);
    let mut total = (loss * &weights).sum(Kind::Double);
    if !case.text("kl_type").is_empty() {
        let estimator = kl_slime(case.text("kl_type"), case.flag("unbiased"));
        let reference = tensor(&case.flat("ref_log_prob"));
        let kl = loss::divergence(estimator, &batch.tokens.log_prob, &reference, &batch.tokens.old);
        // `where`, not a product: what is masked may be infinite.
        let kl = kl.where_self(&batch.tokens.mask.to_kind(Kind::Bool), &kl.zeros_like());
        total = total + (kl * weights).sum(Kind::Double) * case.param("kl_coef");
    }
    Ok(batch.numbers(&total))
}

/// TRL's reductions: weights of tokens (or, at sequence level, of each token's share of its sequence).
pub fn trl_weights(case: &Case, batch: &Batch) -> Tensor {
    let rows = batch.mask.len();
    let accumulation = case.maybe("ga").unwrap_or(1.0);
    let max_length = case.maybe("max_len").unwrap_or(batch.columns as f64);
    let items = case.maybe("num_items_in_batch");
    let weights = match case.text("loss_type") {
        "grpo" | "sapo" => batch.weights(Reduction::SequenceMeanTokenMean, rows),
        "bnpo" => batch.weights(Reduction::TokenMean, rows),
        "dr_grpo" => batch.weights(Reduction::SequenceMeanTokenSumNorm { length: max_length }, rows),
        "luspo" => batch.weights(Reduction::SequenceMeanTokenSum, rows),
        "dapo" | "cispo" | "vespo" => match items {
            Some(items) => batch.weights(Reduction::TokenSum, rows) / items,
            None => batch.weights(Reduction::TokenMean, rows),
        },
        other => panic!("loss type `{other}` is not known"),
    };
    weights / accumulation
}

fn ppo_trl(case: &Case) -> Result<Numbers, String> {
    let batch = Batch::new(case);
    let low = case.maybe("epsilon").or_else(|| case.maybe("epsilon_low")).unwrap_or(0.2);
    let high = case.maybe("epsilon_high").unwrap_or(low);
    let objective = Objective::Clip { low, high, dual: None, cap: case.maybe("delta") };
    let ratio = if case.text("level") == "sequence" { SEQUENCE } else { TOKEN };
    let mut loss = batch.objective(objective, ratio);
    if case.flag("use_is") {
        loss = loss * tensor(&case.flat("importance_sampling_ratio"));
    }
    if let Some(beta) = case.maybe("beta").filter(|&b| b != 0.0) {
        let gradient = if case.flag("bias_kl") { KlGradient::Reweighted } else { KlGradient::Direct };
        let estimator = KlEstimator { gradient, ..KlEstimator::plain(Kl::K3) };
        let reference = tensor(&case.flat("ref_log_prob"));
        let kl = loss::divergence(estimator, &batch.tokens.log_prob, &reference, &batch.tokens.old);
        let kl = kl.where_self(&batch.tokens.mask.to_kind(Kind::Bool), &kl.zeros_like());
        loss = loss + kl * beta;
    }
    let weights = trl_weights(case, &batch);
    Ok(batch.numbers(&(loss * weights).sum(Kind::Double)))
}

fn reduced(case: &Case, weights: &[f64]) -> (f64, Vec<f64>) {
    let (rows, mask) = (case.rows("loss_mat"), case.mask());
    let mut total = 0.0;
    let mut gradient = Vec::new();
    for (s, row) in rows.iter().enumerate() {
        for (t, &value) in row.iter().enumerate() {
            let weight = if mask[s][t] { weights[s] } else { 0.0 };
            total += if mask[s][t] { weight * value } else { 0.0 };
            gradient.push(weight);
        }
    }
    (total, gradient)
}

fn lengths(case: &Case) -> Vec<usize> {
    case.mask().iter().map(|row| row.iter().filter(|&&m| m).count()).collect()
}

fn agg_verl(case: &Case) -> Result<Numbers, String> {
    let lengths = lengths(case);
    let columns = case.rows("mask")[0].len() as f64;
    let mode = reduction_of(case.text("mode"), case.maybe("kw.loss_scale_factor").unwrap_or(columns));
    let ranks = case.maybe("kw.dp_size").unwrap_or(1.0);
    let sequences = case.maybe("kw.global_batch_size").map_or(reduction::trained(&lengths), |n| n as usize);
    let mut weights = mode.weights(&lengths, sequences);
    if let (Reduction::TokenMean, Some(tokens)) = (mode, case.maybe("kw.batch_num_tokens")) {
        // A part of a batch of `tokens` tokens in all.
        weights = Reduction::TokenSum.weights(&lengths, 0).iter().map(|w| w / tokens).collect();
    }
    let weights: Vec<f64> = weights.iter().map(|w| w * ranks).collect();
    let (loss, gradient) = reduced(case, &weights);
    Ok(vec![("loss".into(), vec![loss]), ("grad_loss_mat".into(), gradient)])
}

fn agg_slime_openrlhf(case: &Case) -> Result<Numbers, String> {
    let lengths = lengths(case);
    let sums = case.flat("rollout_mask_sums");
    let trained = reduction::trained(&lengths);
    // Samples of one rollout share its denominator: weights of a token sum over the rollout's length.
    let rollout: Vec<f64> = sums.iter().map(|n| 1.0 / n.max(1.0)).collect();
    let mut numbers = Vec::new();
    for (name, weights) in [
        ("slime_sample", Reduction::SequenceMeanTokenMean.weights(&lengths, 1)),
        ("slime_rollout", rollout),
        ("slime_token", Reduction::TokenSum.weights(&lengths, 1)),
        ("open_token", Reduction::TokenMean.weights(&lengths, trained)),
        ("open_sample", Reduction::SequenceMeanTokenMean.weights(&lengths, trained)),
    ] {
        let (loss, gradient) = reduced(case, &weights);
        numbers.push((format!("{name}.loss"), vec![loss]));
        numbers.push((format!("{name}.grad_loss_mat"), gradient));
    }
    Ok(numbers)
}
