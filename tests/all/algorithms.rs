//! Every algorithm can be chosen, combined, explained and run.

use crate::whet::{self, tiny_model, tiny_run};
use std::path::Path;
use whet_observe::{Metrics, read_metrics};
use whet_recipe::{Estimator, Loss, Preset, Ratio, Recipe, Rejection, Scale, algorithms};
use whet_trajectory::FinishReason;

/// A recipe with these lines, or what is wrong with it.
fn load(lines: &str) -> Result<Recipe, String> {
    load_with(lines, &[])
}

fn load_with(lines: &str, overrides: &[&str]) -> Result<Recipe, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.jsonl"), "{}\n").unwrap();
    let path = folder.path().join("r.toml");
    let top = if lines.starts_with('[') { "" } else { lines };
    let sections = if lines.starts_with('[') { lines } else { "" };
    let text = format!(
        "{top}model = \"{}\"\n[data]\ntrain = \"train.jsonl\"\n[reward]\nplugin = \"length\"\n{sections}",
        tiny_model().display()
    );
    std::fs::write(&path, text).unwrap();
    let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
    Recipe::load_with(&path, &overrides)
        .map_err(|e| e.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

fn algorithm(lines: &str) -> whet_recipe::Algorithm {
    load(lines).unwrap_or_else(|e| panic!("{lines}: {e}")).algorithm
}

#[test]
fn a_preset_is_named_alone_or_varied_key_by_key() {
    let alone = algorithm("algorithm = \"dapo\"\n");
    assert_eq!(alone.loss, Loss::clip(0.2, 0.28));
    assert_eq!((alone.preset, alone.overlong.penalty), (Preset::Dapo, 1.0));
    // The preset's kind with one option changed.
    let varied = algorithm("[algorithm]\npreset = \"dapo\"\nloss = { low = 0.1 }\n");
    assert_eq!(varied.loss, Loss::clip(0.1, 0.28));
    // Another kind has its own defaults.
    let other = algorithm("[algorithm]\npreset = \"dapo\"\nloss = \"sapo\"\nscale = \"none\"\n");
    assert_eq!(other.loss, Loss::Sapo { positive: 1.0, negative: 1.05 });
    assert!(matches!(other.estimator, Estimator::GroupRelative { scale: Scale::None, .. }));
    assert_eq!(other.overlong.penalty, 1.0, "what is not written stays the preset's");
    let set = load_with("algorithm = \"gspo\"\n", &["algorithm.clip-high=5e-4"]).unwrap().algorithm;
    assert_eq!((set.preset, set.ratio, set.loss), (Preset::Gspo, Ratio::Sequence, Loss::clip(3e-4, 5e-4)));
    let rules =
        algorithm("[algorithm]\nrejection = [\"veto\", { kind = \"opsm\", against = \"rollout\" }]\n");
    assert!(
        matches!(rules.rejection[..], [Rejection::Veto { .. }, Rejection::Opsm { delta, .. }] if delta == 1e-4)
    );
}

#[test]
fn bounds_are_read_as_the_peers_write_them() {
    for (lines, low, high) in [
        ("loss = { kind = \"cispo\", eps-low = 0.2, eps-high = 0.28 }\n", 0.8, 1.28),
        ("loss = { kind = \"cispo\", eps-high = 4.0 }\n", 0.0, 5.0),
        ("loss = { kind = \"cispo\", low = 0.1, high = 6.0 }\n", 0.1, 6.0),
    ] {
        let found = algorithm(&format!("[algorithm]\n{lines}"));
        assert_eq!(found.loss, Loss::Cispo { low, high, by_sign: false }, "{lines}");
    }
}

#[test]
fn a_resolved_recipe_of_every_preset_loads_back_equal() {
    for preset in Preset::ALL {
        let needs = match preset {
            Preset::Ppo => "[critic]\n",
            Preset::Distillation => &format!("[teacher]\nsource = \"{}\"\n", tiny_model().display()),
            Preset::Gdpo => "[reward.weights]\nfits = 1.0\nother = 0.5\n",
            _ => "",
        };
        let recipe = load(&format!("[algorithm]\npreset = \"{}\"\n{needs}", preset.name()))
            .unwrap_or_else(|e| panic!("{preset:?}: {e}"));
        assert_eq!(recipe.algorithm.preset, preset);
        let folder = tempfile::tempdir().unwrap();
        // The data file is gone with its folder; its path still has to exist.
        let train = folder.path().join("train.jsonl");
        std::fs::write(&train, "{}\n").unwrap();
        let resolved = recipe
            .resolved_toml()
            .replace(&recipe.data.train[0].path.display().to_string(), &train.display().to_string());
        let path = folder.path().join("again.toml");
        std::fs::write(&path, &resolved).unwrap();
        let again = Recipe::load(&path).unwrap_or_else(|e| panic!("{preset:?}: {e}\n{resolved}"));
        assert_eq!(again.algorithm, recipe.algorithm, "{resolved}");
    }
}

#[test]
fn what_cannot_be_combined_is_refused_with_reason_place_and_remedy() {
    for (lines, key, reason) in [
        ("estimator = \"gae\"", "algorithm.estimator", "needs the values of a critic"),
        ("preset = \"ppo\"", "algorithm.estimator", "needs the values of a critic"),
        ("estimator = \"distillation\"", "algorithm.estimator", "the log-probabilities of a teacher"),
        ("preset = \"gdpo\"", "algorithm.estimator", "names no two of them"),
        ("loss = \"clip-cov\"\nratio = \"sequence\"", "algorithm.ratio", "the probability of each token"),
        ("loss = \"m2po\"\nratio = \"sequence-token\"", "algorithm.ratio", "the probability of each token"),
        ("loss = \"m2po\"\nold = \"current\"", "algorithm.old", "nothing is ever clipped"),
        ("old = \"rollout\"", "algorithm.correction", "would do so twice"),
        ("loss = { kind = \"cispo\", low = 2.0, high = 1.0 }", "algorithm.loss.low", "above the greatest"),
        ("correction = { kind = \"icepop\", low = 9.0 }", "algorithm.correction.low", "above the largest"),
        (
            "correction = { kind = \"tis\", level = \"geometric\", normalise = true }",
            "algorithm.correction.normalise",
            "no importance weight",
        ),
        ("rejection = [\"opsm\"]", "algorithm.rejection[0].against", "nothing has become less likely"),
        (
            "estimator = \"max-rl\"\nkl = { coefficient = 0.1, placement = \"reward\" }",
            "algorithm.kl.placement",
            "would be ignored",
        ),
        (
            "estimator = { kind = \"pass-at-k\", scale = \"batch\" }",
            "algorithm.estimator.scale",
            "divided by the group's deviation",
        ),
        (
            "overlong = { penalty = 1.0, buffer = 9999 }",
            "algorithm.overlong.buffer",
            "longer than the longest",
        ),
        ("clip-high = 0.3\nloss = { high = 0.2 }", "algorithm.clip-high", "which is the same"),
    ] {
        let words = load(&format!("[algorithm]\n{lines}\n")).expect_err(lines);
        assert!(words.contains(&format!("`{key}`")) && words.contains(reason), "{lines}: {words}");
        assert!(words.contains("--> r.toml:") && words.contains("= help: "), "{lines}: {words}");
    }
    let alone = load("[rollout]\nsamples-per-prompt = 1\n[algorithm]\npreset = \"rloo\"\n").expect_err("one");
    assert!(alone.contains("nothing to be compared with"), "{alone}");
    for preset in ["remax", "reinforce++"] {
        let lines = format!("[rollout]\nsamples-per-prompt = 1\n[algorithm]\npreset = \"{preset}\"\n");
        assert!(load(&lines).is_ok(), "{preset} compares with no group");
    }
    let greedy = "[rollout]\ntemperature = 0\nsamples-per-prompt = 1\n[algorithm]\npreset = \"remax\"\n";
    assert!(load(greedy).expect_err("greedy").contains("greedy sampling gives no other"));
}

/// The lines of `whet recipe explain` about the algorithm.
fn explained(lines: &str) -> String {
    let recipe = load(lines).unwrap_or_else(|e| panic!("{lines}: {e}"));
    let line = |(name, text): &(&str, String)| format!("{name:<11}{text}").trim_end().to_owned();
    algorithms::explain(&recipe).iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_algorithm_is_explained_by_its_formulas_with_the_numbers_in_them() {
    insta::assert_snapshot!(explained("algorithm = \"dapo\"\n"), @r#"
    preset     dapo: Decoupled clip, token mean, soft overlong penalty (arXiv 2503.14476).
    shaping    r - (length - 205) / 51 beyond 205 tokens, at most 1 off (DAPO arXiv 2503.14476)
    advantage  group-relative: A_i = (r_i - b_i) / (s + 1e-6), b the mean of the group, s the deviation of the group
    loss       clip: L = max(-A r, -A clip(r, 0.8, 1.28))
    ratio      r = p / p_old, log r in ±20; p_old the trainer's before the step's first update
    correction tis: L times min(w, 2); w = p_old / p_rollout of the token
    reduction  token-mean: Σ L / N
    sources    GRPO arXiv 2402.03300, Dr. GRPO 2503.20783, RLOO 2402.14740; PPO arXiv 1707.06347, clip-higher 2503.14476, dual clip 1912.09729
    "#);
    insta::assert_snapshot!(explained("algorithm = \"gspo\"\n"), @r#"
    preset     gspo: Group sequence policy optimisation (arXiv 2507.18071).
    advantage  group-relative: A_i = (r_i - b_i) / (s + 1e-6), b the mean of the group, s the deviation of the group
    loss       clip: L = max(-A r, -A clip(r, 0.9997, 1.0004))
    ratio      r = exp(mean_t log(p / p_old)); p_old the trainer's before the step's first update
    correction tis: L times min(w, 2); w = p_old / p_rollout of the token
    reduction  seq-mean-token-mean: 1/S Σ_s 1/n_s Σ_t L
    sources    GRPO arXiv 2402.03300, Dr. GRPO 2503.20783, RLOO 2402.14740; PPO arXiv 1707.06347, clip-higher 2503.14476, dual clip 1912.09729; GSPO arXiv 2507.18071
    "#);
    insta::assert_snapshot!(explained("algorithm = \"reinforce++\"\n"), @r#"
    preset     reinforce++: Whitened returns with the KL penalty in the reward (arXiv 2501.03262).
    advantage  returns: A_t = G_t = ρ_t + G_(t+1), ρ the reward at the last token less the KL penalty at each
               A whitened over the step's tokens: (A - mean) / std, variance over n - 1
    loss       clip: L = max(-A r, -A clip(r, 0.8, 1.2))
    ratio      r = p / p_old, log r in ±20; p_old the trainer's before the step's first update
    correction tis: L times min(w, 2); w = p_old / p_rollout of the token
    kl         0.001 · k1 off the reward of every token; k1 = -d; d = log p_ref - log p
    reduction  token-mean: Σ L / N
    sources    REINFORCE++ arXiv 2501.03262; PPO arXiv 1707.06347, clip-higher 2503.14476, dual clip 1912.09729
    "#);
    insta::assert_snapshot!(explained(
        "[algorithm]\npreset = \"dr-grpo\"\nold = \"current\"\nloss = { kind = \"dppo\", region = \"binary-kl\" }\n\
         entropy = { bonus = 0.01, top-share = 0.2 }\nadvantage-clip = 5\nreward-clip = 10\n\
         correction = { kind = \"mis\", normalise = true }\nrejection = [\"veto\", \"mismatch\"]\n\
         kl = { coefficient = 0.01, gradient = \"unbiased\", adaptive = { target = 0.05 } }\n"
    ), @r#"
    preset     dr-grpo: GRPO without its biases by deviation and length (arXiv 2503.20783).
    shaping    r clipped to ±10
    advantage  group-relative: A_i = r_i - b_i, b the mean of the group
               A clipped to ±5
    loss       dppo: L = -A sg(min(r, 20)) lp where p is in its binary-kl region (0.2 down, 0.2 up) or comes back, else 0
    ratio      r = p / p_old, log r in ±20; p_old the policy itself, so that r = 1
    correction mis: L times w where 0.5 ≤ w ≤ 5, else 0; w = p_old / p_rollout of the whole answer; divided by its mean over the batch
    rejection  veto: L = 0 in answers with any p_old / p_rollout < 1e-4
    rejection  mismatch: L = 0 in answers whose mean k3 is above 0.01; k3 = exp(d) - d - 1, d = log p_old - log p_rollout
    tokens     L = 0 but at the share of 0.2 with the highest entropy
    entropy    - 0.01 · entropy of each token's distribution
    kl         + 0.01 · k3 at every token; k3 = exp(d) - d - 1, d in ±20, the value in ±10; d = log p_ref - log p; its gradient is that of the estimate times p / p_old; after every step the coefficient is multiplied by 1 + clip(kl / 0.05 - 1, ±0.2) · answers / 10000
    reduction  seq-mean-token-sum-norm: 1/(S · 256) Σ_s Σ_t L
    sources    GRPO arXiv 2402.03300, Dr. GRPO 2503.20783, RLOO 2402.14740; DPPO arXiv 2602.04879
    "#);
}

/// Metrics of the training steps of a run.
fn steps(run: &Path) -> Vec<Metrics> {
    let lines = read_metrics(&run.join("metrics.jsonl")).unwrap();
    lines.into_iter().map(|l| l.metrics).filter(|m| m.contains_key("reward/mean")).collect()
}

/// Trains two steps with `lines` in `[algorithm]`, which must succeed, and returns their metrics.
fn train(name: &str, lines: &str, more: &[(&str, &str)]) -> Vec<Metrics> {
    let section = format!("[algorithm]\n{lines}\n[train]");
    let mut changes = vec![
        ("[train]", section.as_str()),
        ("test = \"test.jsonl\"\n", ""),
        ("[eval]\ntemperature = 1.0\n", ""),
        ("steps = 8", "steps = 2"),
    ];
    changes.extend(more);
    let dir = tiny_run(&changes);
    let output = whet::run(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{error}", output.status);
    let steps = steps(&dir.path().join("run"));
    assert_eq!(steps.len(), 2, "{name}");
    for metrics in &steps {
        for (key, value) in metrics {
            assert!(value.is_finite(), "{name}: {key} is {value}");
        }
        assert!(metrics["train/grad_norm"] > 0.0, "{name}: nothing was learnt");
    }
    steps
}

/// A second reward, for what normalises each by itself.
const TWO_REWARDS: (&str, &str) = (
    "[reward]\nplugin = \"length\"",
    "[[reward]]\nplugin = \"length\"\nconfig = { target = 8 }\nweight = 0.5\n[[reward]]\nplugin = \"length\"",
);

#[test]
fn every_preset_trains_a_tiny_model_and_reports_finite_numbers() {
    for preset in Preset::ALL {
        let more: &[(&str, &str)] = match preset {
            // These two have a test of their own, with a critic and a teacher.
            Preset::Ppo | Preset::Distillation => continue,
            Preset::Gdpo => &[TWO_REWARDS],
            // For rewards above 0; those of `length` are not.
            Preset::Maxrl => &[("mode = \"at-most\" }", "mode = \"at-most\" }\nweight = -1.0")],
            _ => &[],
        };
        let name = preset.name();
        train(&name, &format!("preset = \"{name}\"\nminibatches = 2"), more);
    }
}

#[test]
fn every_other_part_trains_a_tiny_model_and_reports_what_it_did() {
    let rejection = "rejection = [{ kind = \"mismatch\", measure = \"ratio\", over = \"token\", high = 1.0 }, \
                     \"veto\", { kind = \"opsm\", against = \"rollout\" }, \"second-moment\"]";
    let steps = train("rejection", rejection, &[]);
    assert!(
        steps[1]["loss/rejected"] > 0.05,
        "half of all ratios are above 1: {}",
        steps[1]["loss/rejected"]
    );
    for correction in [
        "{ kind = \"tis\", level = \"sequence\", normalise = true }",
        "{ kind = \"clamp\", level = \"geometric\" }",
        "\"icepop\"",
        "\"mis\"",
        "\"seq-mask-tis\"",
    ] {
        train(correction, &format!("correction = {correction}"), &[]);
    }
    for estimator in ["\"group-trimmed\"", "\"batch-relative\"", "\"normalised\""] {
        train(estimator, &format!("estimator = {estimator}"), &[]);
    }
    for kl in ["k1", "abs", "k2", "k3-free", "low-var"] {
        for gradient in ["direct", "straight-through", "unbiased", "score"] {
            if gradient != "direct" && kl != "k1" {
                continue;
            }
            let lines = format!(
                "kl = {{ coefficient = 0.1, estimator = \"{kl}\", gradient = \"{gradient}\" }}\nminibatches = 2"
            );
            let steps = train(&lines, &lines, &[]);
            assert_eq!(steps[1]["kl/coefficient"], 0.1);
        }
    }
    for lines in [
        "entropy = { bonus = 0.01, top-share = 0.2 }",
        "reduction = \"token-sum\"\nold = \"current\"",
        "reduction = \"seq-mean-token-sum\"\nratio = \"sequence-token\"\nepochs = 2",
        "whiten = \"population\"\nadvantage-clip = 1.0\nreward-clip = 0.5",
        "overlong = { penalty = 0.5, buffer = 4 }",
        "loss = { kind = \"dppo\", region = \"absolute\", surrogate = \"ratio\", drift = 0.001 }\nold = \"rollout\"\ncorrection = \"none\"",
    ] {
        train(lines, lines, &[]);
    }
}

#[test]
fn answers_that_were_cut_off_are_filtered_from_the_loss_but_count_in_their_group() {
    let dir = tiny_run(&[
        ("[train]", "[algorithm]\noverlong = { filter = true }\n[train]"),
        ("steps = 8", "steps = 1"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let records = whet::trajectories(&run);
    let cut = records.iter().filter(|r| r.finish == FinishReason::Length);
    let (count, tokens) = cut.fold((0, 0), |(n, t), r| (n + 1, t + r.logprobs.len()));
    assert!(count > 0, "a random model hardly ever ends");
    let metrics = &steps(&run)[0];
    assert_eq!(metrics["overlong/filtered"], f64::from(count));
    assert_eq!(metrics["train/tokens"], metrics["rollout/tokens"] - tokens as f64);
    assert!(records.iter().all(|r| r.advantage.is_some()));
}

#[test]
fn an_adaptive_coefficient_moves_and_a_resumed_run_goes_on_with_it() {
    let lines = "[algorithm]\nepochs = 2\n\
                 kl = { coefficient = 0.5, placement = \"PLACE\", adaptive = { target = 1e-9, horizon = 100 } }\n[train]";
    for place in ["loss", "reward"] {
        let lines = lines.replace("PLACE", place);
        let dir = tiny_run(&[("[train]", &lines), ("steps = 8", "steps = 4")]);
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
        let whole = steps(&dir.path().join("whole"));
        let coefficients: Vec<f64> = whole.iter().map(|m| m["kl/coefficient"]).collect();
        assert_eq!(coefficients[0], 0.5);
        // 32 answers of a horizon of 100, and the divergence is far above the target.
        assert!((coefficients[3] / coefficients[2] - 1.064).abs() < 1e-9, "{place}: {coefficients:?}");
        let short = ["train", "recipe.toml", "--quiet", "--set", "train.steps=2"];
        whet::succeed(dir.path(), &short);
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--resume"]);
        let resumed = steps(&dir.path().join("run"));
        assert_eq!(resumed.iter().map(|m| m["kl/coefficient"]).collect::<Vec<_>>(), coefficients, "{place}");
        let weights = |run: &str| {
            std::fs::read(dir.path().join(run).join("checkpoints/step-000004/trainer/weights.safetensors"))
                .unwrap()
        };
        assert!(weights("whole") == weights("run"), "{place}: other weights");
    }
}

#[test]
fn remax_subtracts_the_reward_of_the_greedy_answer() {
    let dir =
        tiny_run(&[("[train]", "[algorithm]\npreset = \"remax\"\n[train]"), ("steps = 8", "steps = 1")]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let mut baselines: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
    for record in whet::trajectories(&run) {
        let baseline = record.reward.unwrap() - record.advantage.unwrap();
        baselines.entry(record.group.0).or_default().push(baseline);
    }
    let mut means = Vec::new();
    for (group, found) in &baselines {
        assert!(found.iter().all(|b| (b - found[0]).abs() < 1e-6), "{group}: {found:?}");
        means.push(found[0]);
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    assert!((steps(&run)[0]["reward/greedy"] - mean).abs() < 1e-6);
}
