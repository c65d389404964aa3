//! Every part of an algorithm by name: its formula, where it comes from, and which peer's form it is.
//!
//! One table for `whet recipe explain`, which fills in a recipe's numbers, and for the page
//! `docs/algorithms.md`, which leaves the options' names. In a formula `{low}` stands for the option
//! `low`; what a kind is for, and what its options mean, stands at the types of [`crate::section`].

/// A kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The key of `[algorithm]`, as in `loss`, or `kl.estimator`.
    pub part: &'static str,
    /// The kind, as recipes write it.
    pub name: &'static str,
    /// What it computes.
    pub formula: &'static str,
    /// The paper, if there is one.
    pub source: &'static str,
    /// Projects whose form this is, and how theirs differ.
    pub peers: &'static str,
}

/// What the symbols of formulas mean.
pub const SYMBOLS: [(&str, &str); 10] = [
    ("r_i", "reward of answer i, shaped"),
    ("A", "advantage of a token"),
    ("p, p_old", "probability of a token under the policy and under the old policy (`old`)"),
    ("r", "the ratio p / p_old, formed as `ratio` says; lp = log p"),
    ("d", "log p_ref - log p in the KL penalty; log p_old - log p_rollout in corrections"),
    ("w", "p_old / p_rollout, formed as `level` says; no gradient passes through it"),
    ("G_t", "reward to go: the discounted sum of token rewards from t on"),
    ("V_t", "the critic's value at t"),
    ("sg(x)", "x, but no gradient passes"),
    ("S, n_s, N", "answers in the batch, sampled tokens of answer s, sampled tokens in all"),
];

const fn define(
    part: &'static str,
    name: &'static str,
    formula: &'static str,
    source: &'static str,
    peers: &'static str,
) -> Definition {
    Definition { part, name, formula, source, peers }
}

/// All kinds, in the order of the documentation.
pub const DEFINITIONS: &[Definition] = &[
    define(
        "estimator",
        "group-relative",
        "A_i = (r_i - b_i) / (s + {eps}), b the {baseline} of the group, s the deviation of the {scale}",
        "GRPO arXiv 2402.03300, Dr. GRPO 2503.20783, RLOO 2402.14740",
        "verl `grpo`, slime and Relax with eps 1e-6 and `singleton = \"reward\"` (verl); TRL with eps 1e-4; OpenRLHF and \
         LightRFT with 1e-9; NeMo RL with `baseline = \"leave-one-out\"`, `scale = \"others\"`; prime-rl with \
         `scale = \"none\"`. Equal rewards give exactly 0.",
    ),
    define(
        "estimator",
        "group-trimmed",
        "A_i = (r_i - mean) / (s + {eps}), both without {trim} of all scores at either end",
        "",
        "UniRL `trim_outliers_ratio`",
    ),
    define(
        "estimator",
        "batch-relative",
        "A_i = (r_i - mean of the step) / (s + {eps}), s the deviation of the step with 1/n",
        "CPGD arXiv 2505.12504",
        "LightRFT `cpgd`, whose paper speaks of group statistics",
    ),
    define(
        "estimator",
        "normalised",
        "A_i = (r_i - mean over {mean}) / (s over {deviation} + {eps})",
        "",
        "AReaL `adv_norm`",
    ),
    define(
        "estimator",
        "opo",
        "A_i = r_i - Σ_j n_j r_j / Σ_j n_j over the group",
        "OPO arXiv 2505.23585",
        "verl `opo` with `singleton = \"reward\"`",
    ),
    define(
        "estimator",
        "gpg",
        "A_i = α (r_i - mean of the group) / {norm}, α = scores / scores that are not 0",
        "GPG arXiv 2504.02546",
        "verl `gpg` with `singleton = \"reward\"`",
    ),
    define(
        "estimator",
        "pass-at-k",
        "A_best = (r_best - r_second) / (s + {eps}), s the deviation of the {scale}; all others 0",
        "Pass@k training arXiv 2503.19595",
        "verl `grpo_passk`",
    ),
    define(
        "estimator",
        "max-rl",
        "A_i = (r_i - mean of the group) / mean of the group; 0 where the mean is not positive",
        "MaxRL arXiv 2602.02710",
        "prime-rl `max_rl`",
    ),
    define(
        "estimator",
        "gdpo",
        "A = (z - mean z) / (std z + {batch-eps}), z_i = Σ_k w_k (r_ik - b_k) / (std_k + {eps}), b_k the \
         {baseline} of component k in the group",
        "GDPO arXiv 2601.05242",
        "TRL `normalize_then_sum`; verl whitens over tokens instead (`batch-eps` 0 and `whiten`), NeMo RL has no eps",
    ),
    define(
        "estimator",
        "returns",
        "A_t = G_t = ρ_t + {gamma} · G_(t+1), ρ the reward at the last token less the KL penalty at each",
        "REINFORCE++ arXiv 2501.03262",
        "verl and NeMo RL with `gaps = \"skip\"`; slime, Relax and OpenRLHF with `gaps = \"step\"`",
    ),
    define(
        "estimator",
        "remax",
        "A_t = G_t - reward of the greedy answer",
        "ReMax arXiv 2310.10505",
        "verl `remax`",
    ),
    define(
        "estimator",
        "gae",
        "A_t = δ_t + {gamma} · {lambda} · A_(t+1), δ_t = ρ_t + {gamma} · V_(t+1) - V_t; the critic learns A + V",
        "GAE arXiv 1506.02438, VAPO 2504.05118",
        "verl and NeMo RL with `gaps = \"skip\"`; slime, Relax, OpenRLHF and LightRFT with `gaps = \"step\"`; AReaL's \
         turns with `steps = \"turn\"`",
    ),
    define(
        "estimator",
        "otb",
        "A_t = G_t - Σ_i G W / (Σ_i W + {eps}) over the group's answers that have token t, W_t = Σ_(j≤t) (1 - 2 p_j + Σ p²)",
        "arXiv 2602.07078",
        "verl `optimal_token_baseline`, and `tir_optimal_token_baseline` with `alignment = \"trained\"`",
    ),
    define(
        "estimator",
        "distillation",
        "A_t = {coefficient} · (log p_teacher - log p_old), plus the rewards' group-relative advantage where `rewards` is set",
        "on-policy distillation",
        "slime and NeMo RL; Relax takes the sampler's log-probability",
    ),
    define(
        "loss",
        "clip",
        "max(-A r, -A clip(r, 1 - {low}, 1 + {high}))",
        "PPO arXiv 1707.06347, clip-higher 2503.14476, dual clip 1912.09729",
        "verl (with `dual = 3.0`), slime, TRL (`delta` is `cap`), OpenRLHF, NeMo RL, AReaL, Relax",
    ),
    define("loss", "reinforce", "-A lp", "REINFORCE", "verl `gpg`, Relax `rloo`, LightRFT"),
    define("loss", "importance", "-A r", "", "NeMo RL, Tinker `importance_sampling`"),
    define(
        "loss",
        "cispo",
        "-sg(clip(r, {low}, {high})) A lp",
        "CISPO arXiv 2506.13585",
        "verl, slime, AReaL and NeMo RL write `eps-low`, `eps-high` for 1 ± eps; TRL's `epsilon_high` is `high` itself; \
         Relax bounds by the sign of A (`by-sign`)",
    ),
    define(
        "loss",
        "sapo",
        "-A (4/τ) σ(τ (r - 1)), τ = {positive} where A > 0, else {negative}",
        "SAPO arXiv 2511.20347",
        "verl, TRL, AReaL, Relax",
    ),
    define(
        "loss",
        "gmpo",
        "-Ā exp(mean_t d*), d* = sgn(A) min(sgn(A) log r, sgn(A) clip(log r, -{low}, {high}))",
        "GMPO arXiv 2507.20673",
        "verl `geo_mean`, TRL",
    ),
    define(
        "loss",
        "m2po",
        "max(-A r, -A clip(r, 1 - ε_low, 1 + ε_high)), ε the bounds at which the mean (log r)² of harmful tokens is {budget}, at \
         least {least-low} and {least-high}",
        "M2PO arXiv 2510.01161",
        "Relax, over the whole batch rather than each micro-batch; AReaL's form is the rejection `second-moment`",
    ),
    define(
        "loss",
        "dppo",
        "-A sg(min(r, {cap})) lp, or -A r with the surrogate `ratio`, where p is in its region ({low} down, {high} up) or comes \
         back, else 0; plus {drift} · (log r)²",
        "DPPO arXiv 2602.04879",
        "verl `dppo_tv`, `dppo_kl`; prime-rl with `surrogate = \"ratio\"`, `drift = 1e-3`",
    ),
    define(
        "loss",
        "clip-cov",
        "max(-A r, -A clip(r, 1 - {low}, 1 + {high})), but 0 at {share} of all tokens, spread over those with \
         (A - Ā)(lp - mean lp) in {covariance}",
        "arXiv 2505.22617",
        "verl `clip_cov`, which draws them at random",
    ),
    define(
        "loss",
        "kl-cov",
        "-A r, plus {coefficient} · |log r| at the {share} of all tokens with the largest (A - Ā)(lp - mean lp)",
        "arXiv 2505.22617",
        "verl `kl_cov`",
    ),
    define(
        "loss",
        "cpgd",
        "-A min(lp, lp_old + log(1 + {high})) where A > 0, else -A max(lp, lp_old + log(1 - {low}))",
        "CPGD arXiv 2505.12504",
        "LightRFT",
    ),
    define("loss", "drpo", "-A r + |A| p_old (r - 1)² / (2 · {eps})", "DRPO arXiv 2606.09821", "UniRL"),
    define("loss", "spo", "-A r + |A| (r - 1)² / (2 · {eps})", "SPO arXiv 2401.16025", "UniRL"),
    define(
        "loss",
        "cppo",
        "-A r where r comes back to 1 or the change w_t |p - p_old| is within its budget (δ {delta}, weights from 1 to \
         {least-weight}, rate {rate}), else 0",
        "CPPO arXiv 2606.10968",
        "UniRL, whose masked tokens spend too",
    ),
    define("loss", "dro", "-(A lp - {beta} / 2 · (log r)²)", "DRO arXiv 2405.19107", "verl, Tinker"),
    define(
        "loss",
        "vespo",
        "-φ A lp, φ = exp(λ + k log W - λ W), W = Π r; (k, λ) = {positive} where A ≥ 0, else {negative}",
        "VESPO arXiv 2602.10693",
        "TRL",
    ),
    define("ratio", "token", "r = p / p_old", "PPO", "all"),
    define(
        "ratio",
        "sequence",
        "r = exp(mean_t log(p / p_old))",
        "GSPO arXiv 2507.18071",
        "TRL `sequence`, slime, NeMo RL, AReaL, OpenRLHF",
    ),
    define(
        "ratio",
        "sequence-token",
        "r = sg(exp(mean_t log(p / p_old))) p / sg(p)",
        "GSPO-token arXiv 2507.18071",
        "verl `gspo`, TRL `sequence_token`",
    ),
    define("reduction", "token-mean", "Σ L / N", "DAPO arXiv 2503.14476", "verl, OpenRLHF; TRL `dapo`"),
    define("reduction", "token-sum", "Σ L", "", "verl, prime-rl"),
    define(
        "reduction",
        "seq-mean-token-mean",
        "1/S Σ_s 1/n_s Σ_t L",
        "GRPO arXiv 2402.03300",
        "slime; TRL `grpo`. S counts answers with a sampled token, as verl and OpenRLHF do",
    ),
    define("reduction", "seq-mean-token-sum", "1/S Σ_s Σ_t L", "", "verl"),
    define(
        "reduction",
        "seq-mean-token-sum-norm",
        "1/(S · {length}) Σ_s Σ_t L",
        "Dr. GRPO arXiv 2503.20783",
        "verl with a constant `loss_scale_factor`; TRL `dr_grpo`",
    ),
    define("kl.estimator", "k1", "-d", "", "verl, slime, OpenRLHF `k1`"),
    define("kl.estimator", "abs", "|d|", "", "verl `abs`"),
    define("kl.estimator", "k2", "d² / 2", "", "verl, slime, OpenRLHF `k2`"),
    define(
        "kl.estimator",
        "k3",
        "exp(d) - d - 1, d in ±20, the value in ±10",
        "Schulman, \"Approximating KL divergence\"",
        "verl `k3` (`low_var_kl`), NeMo RL",
    ),
    define("kl.estimator", "k3-free", "exp(d) - d - 1", "", "TRL, LightRFT; slime `k3`"),
    define(
        "kl.estimator",
        "low-var",
        "exp(d) - d - 1, the value in ±10",
        "",
        "slime and Relax `low_var_kl`, OpenRLHF and AReaL `k3`",
    ),
    define("kl.gradient", "direct", "that of the estimate", "", "all"),
    define("kl.gradient", "straight-through", "that of d² / 2", "", "verl `k1+`, `k3+`"),
    define(
        "kl.gradient",
        "unbiased",
        "that of the estimate times p / p_old",
        "DeepSeek-V3.2 arXiv 2512.02556",
        "slime `--use-unbiased-kl`, TRL `use_bias_correction_kl`",
    ),
    define("kl.gradient", "score", "that of the estimate times p / sg(p)", "arXiv 2506.09477", "NeMo RL"),
    define("correction", "none", "1", "", ""),
    define(
        "correction",
        "tis",
        "min(w, {cap}); w by {level}",
        "truncated importance sampling",
        "slime `--use-tis`, NeMo RL; verl with `level = \"sequence\"`; TRL `token_truncate`, `sequence_truncate`",
    ),
    define("correction", "clamp", "clip(w, {low}, {high}); w by {level}", "", "slime MIS `clip`"),
    define(
        "correction",
        "icepop",
        "w where {low} ≤ w ≤ {high}, else 0",
        "IcePop",
        "NeMo RL, OpenRLHF, slime and Relax `icepop_function`; verl's `\"0.5_5.0\"` over tokens",
    ),
    define(
        "correction",
        "mis",
        "w where {low} ≤ w ≤ {high}, else 0; w by {level}",
        "masked importance sampling",
        "TRL `sequence_mask`, `token_mask`; slime MIS; verl's `\"0.5_5.0\"`",
    ),
    define(
        "correction",
        "seq-mask-tis",
        "w where its geometric mean over the answer is in [{low}, {high}], else 0",
        "",
        "NeMo RL and OpenRLHF `seq-mask-tis`",
    ),
    define(
        "rejection",
        "mismatch",
        "0 where the measure, of a token or as `over` says, is above {high} (or below `low`)",
        "",
        "verl `rollout_rs` (token, seq_sum, seq_mean, seq_max of k1, k2, k3), AReaL's behaviour masks",
    ),
    define("rejection", "veto", "0 in answers with any p_old / p_rollout < {below}", "", "slime MIS `veto`"),
    define(
        "rejection",
        "opsm",
        "0 where A < 0 in answers with mean_t (log p_{against} - log p) > {delta}",
        "DeepSeek-V3.2 arXiv 2512.02556",
        "slime `--use-opsm`; TRL `off_policy_mask_threshold` with `against = \"rollout\"`",
    ),
    define(
        "rejection",
        "second-moment",
        "0 at the tokens of largest (log p_old - log p_rollout)², until the mean of the rest is below {threshold}",
        "M2PO arXiv 2510.01161",
        "AReaL `m2_threshold`, over the whole batch",
    ),
];

/// The definition of a kind.
pub fn definition(part: &str, name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|d| d.part == part && d.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section;
    use serde_json::Value;

    #[test]
    fn every_kind_has_a_definition_and_every_definition_a_kind() {
        let schema = crate::schema();
        let named = |part: &str| -> Vec<String> {
            let kinds = section::kinds(part);
            if !kinds.is_empty() {
                return kinds.iter().filter_map(|k| Some(k["kind"].as_str()?.to_owned())).collect();
            }
            let definition = match part {
                "ratio" => "Ratio",
                "kl.estimator" => "KlEstimator",
                _ => "KlGradient",
            };
            let choices = schema["$defs"][definition]["oneOf"].as_array().cloned().unwrap_or_default();
            choices.iter().filter_map(|c| Some(c["const"].as_str()?.to_owned())).collect()
        };
        for part in [
            "estimator",
            "loss",
            "ratio",
            "reduction",
            "kl.estimator",
            "kl.gradient",
            "correction",
            "rejection",
        ] {
            let mut defined: Vec<&str> =
                DEFINITIONS.iter().filter(|d| d.part == part).map(|d| d.name).collect();
            let mut named = named(part);
            defined.sort_unstable();
            named.sort();
            assert_eq!(defined, named, "{part}");
        }
    }

    #[test]
    fn every_name_in_a_formula_is_an_option_of_its_kind() {
        let schema = crate::schema();
        for definition in DEFINITIONS {
            let options: Vec<String> =
                crate::algorithms::kind_schema(&schema, definition.part, definition.name)
                    .and_then(|kind| kind.get("properties"))
                    .and_then(Value::as_object)
                    .map(|keys| keys.keys().cloned().collect())
                    .unwrap_or_default();
            for part in definition.formula.split('{').skip(1) {
                let name = part.split('}').next().unwrap_or_default();
                assert!(options.iter().any(|o| o == name), "{}: {name}", definition.name);
            }
        }
    }
}
