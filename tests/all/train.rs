//! A whole run on a tiny model: it learns, and leaves behind what it promises.

use crate::whet::{self, tiny_run};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use whet_observe::{Metrics, OutcomeKind, read_metrics};

/// Metrics of the training steps alone.
fn steps(run: &Path) -> Vec<Metrics> {
    let lines = read_metrics(&run.join("metrics.jsonl")).unwrap();
    lines.into_iter().map(|l| l.metrics).filter(|m| m.contains_key("reward/mean")).collect()
}

fn weights(run: &Path, step: u64) -> Vec<u8> {
    let file = format!("checkpoints/step-{step:06}/trainer/weights.safetensors");
    std::fs::read(run.join(file)).unwrap()
}

#[test]
fn reward_rises_on_what_can_be_learnt() {
    let dir = tiny_run(&[("steps = 8", "steps = 24")]);
    let shown = whet::succeed(dir.path(), &["train", "recipe.toml"]);
    let run = dir.path().join("run");
    let steps = steps(&run);
    assert_eq!(steps.len(), 24);
    let mean = |part: &[Metrics]| part.iter().map(|m| m["reward/mean"]).sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&steps[..3]), mean(&steps[21..]));
    assert!(last > first + 0.4, "from {first} to {last}");

    let evals: Vec<f64> = read_metrics(&run.join("metrics.jsonl"))
        .unwrap()
        .iter()
        .filter_map(|l| l.metrics.get("eval/reward").copied())
        .collect();
    assert_eq!(evals.len(), 2, "before and after");
    assert!(evals[1] > evals[0] + 0.4, "{evals:?}");
    // The first responses with score and note, one line per step, the table of before and after.
    assert!(shown.contains("characters)") && shown.contains("step 24/24"), "{shown}");
    assert!(shown.lines().any(|l| l.contains("before") && l.contains("after")), "{shown}");
}

#[test]
fn every_step_proves_that_the_engine_has_the_trainers_weights() {
    let dir = tiny_run(&[]);
    // In bf16 too: both compute with one forward pass. A high learning rate, so that bf16 weights move.
    for settings in
        [["model.dtype=fp32", "train.learning-rate=0.01"], ["model.dtype=bf16", "train.learning-rate=0.01"]]
    {
        let [dtype, rate] = settings;
        let arguments = ["train", "recipe.toml", "--run-dir", dtype, "--set", dtype, "--set", rate];
        let warned = whet::run(dir.path(), &arguments).stderr;
        let warned = String::from_utf8_lossy(&warned);
        assert!(!warned.contains("engine and trainer") && !warned.contains("log-probs differ"), "{warned}");
        for metrics in steps(&dir.path().join(dtype)) {
            assert!(
                metrics["sync/gap"] < 1e-5,
                "{dtype}: engine and trainer differ: {}",
                metrics["sync/gap"]
            );
            assert!(metrics["sync/change"] > 0.0, "{dtype}: the engine kept its old weights");
            let worst = metrics["logprob/difference_max"];
            assert!(worst < 1e-5, "{dtype}: {worst}");
        }
    }
}

#[test]
fn the_run_directory_says_where_everything_came_from() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("manifest.json")).unwrap()).unwrap();
    let digest = manifest["plugins"][0]["digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    assert_eq!(manifest["dtype"], "fp32");
    assert_eq!(manifest["seed"], 3);
    // The resolved recipe is a recipe, and trains the same.
    let resolved = run.join("recipe.resolved.toml");
    whet::succeed(dir.path(), &["train", resolved.to_str().unwrap(), "--run-dir", "again", "--quiet"]);
    assert_eq!(weights(&run, 8), weights(&dir.path().join("again"), 8));

    let records = whet::trajectories(&run);
    assert_eq!(records.len(), 8 * 4 * 8);
    assert_eq!(records.iter().map(|r| &r.id).collect::<HashSet<_>>().len(), records.len());
    for record in &records {
        assert_eq!(record.outcome, OutcomeKind::Scored);
        assert_eq!(record.tokens.len(), record.prompt_tokens + record.logprobs.len());
        assert!(
            record.versions.iter().all(|v| v.0 == record.step - 1),
            "{}: {:?}",
            record.id,
            record.versions
        );
    }
    // 24 rows, 4 per step: 6 steps are one pass over all rows.
    let first_pass: HashSet<&str> = records.iter().filter(|r| r.step <= 6).map(|r| r.row.as_str()).collect();
    assert_eq!(first_pass.len(), 24);
    // The last two checkpoints stay.
    let mut checkpoints: Vec<String> = std::fs::read_dir(run.join("checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    checkpoints.sort();
    assert_eq!(checkpoints, ["step-000006", "step-000008"]);
    assert_eq!(std::fs::read_dir(run.join("tensorboard")).unwrap().count(), 1);
}

#[test]
fn advantages_of_the_plugin_train_like_the_native_ones() {
    let native = tiny_run(&[]);
    let plugin = tiny_run(&[("[rollout]", "[advantage]\nplugin = \"group-norm\"\n[rollout]")]);
    for dir in [&native, &plugin] {
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=3"]);
    }
    let by_id = |dir: &Path| -> BTreeMap<String, f64> {
        let records = whet::trajectories(&dir.join("run"));
        records.into_iter().map(|r| (r.id.0, r.advantage.unwrap())).collect()
    };
    let (native, plugin) = (by_id(native.path()), by_id(plugin.path()));
    assert!(native.values().any(|a| a.abs() > 0.5));
    for (id, advantage) in native {
        // The plugin gets f32 rewards, so the last digits differ, and with them the later steps a little.
        let limit = if id.starts_with("step1/") { 1e-5 } else { 1e-2 };
        assert!((advantage - plugin[&id]).abs() < limit, "{id}: {advantage} and {}", plugin[&id]);
    }
}

#[test]
fn a_filter_keeps_groups_without_variance_from_the_loss() {
    let dir = tiny_run(&[
        ("target = 20", "target = 8"),
        ("[rollout]", "[[filter]]\nplugin = \"zero-variance\"\n[rollout]"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=4"]);
    let steps = steps(&dir.path().join("run"));
    let dropped: f64 = steps.iter().map(|m| m["group/dropped"]).sum();
    assert!(dropped > 0.0, "nearly every response is longer than twice the target, so most groups are equal");
    for record in whet::trajectories(&dir.path().join("run")) {
        // Dropped samples are still on record, without an advantage.
        assert!(record.reward.is_some());
    }
    let trained = |m: &Metrics| m.get("train/tokens").copied().unwrap_or(0.0);
    assert!(steps.iter().any(|m| trained(m) < m["rollout/tokens"]));
}

#[test]
fn lora_trains_the_adapter_and_exports_both_ways() {
    let lora = format!(
        "[model]\nsource = \"{}\"\n[model.lora]\nrank = 4\nalpha = 16.0\n[data]",
        whet::tiny_model().display()
    );
    let plain = format!("model = \"{}\"\n[data]", whet::tiny_model().display());
    let dir = tiny_run(&[(&plain, &lora), ("steps = 8", "steps = 20")]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let steps = steps(&dir.path().join("run"));
    assert!(steps[19]["reward/mean"] > steps[0]["reward/mean"] + 0.1, "{:?}", steps[19]["reward/mean"]);
    assert!(steps.iter().all(|m| m["sync/gap"] < 1e-4 && m["sync/change"] > 0.0));

    whet::succeed(dir.path(), &["export", "run", "--output", "merged"]);
    whet::succeed(dir.path(), &["export", "run", "--output", "adapter", "--adapter"]);
    assert!(dir.path().join("adapter/adapter_model.safetensors").exists());
    assert!(dir.path().join("adapter/adapter_config.json").exists());
    // The merged model alone answers like the run's last checkpoint.
    let answer = |model: &str| {
        whet::succeed(
            dir.path(),
            &["generate", model, "Say 5:", "--raw", "--temperature", "0", "--max-tokens", "8"],
        )
    };
    assert_eq!(answer("merged"), answer("run"));
    assert_ne!(answer("merged"), answer(whet::tiny_model().to_str().unwrap()));
}

#[test]
fn several_updates_per_step_and_a_reference_keep_the_books() {
    let dir = tiny_run(&[(
        "[train]",
        "[algorithm]\nkl = { estimator = \"k3\", coefficient = 0.01 }\nepochs = 2\nminibatches = 2\n[train]",
    )]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=3"]);
    let steps = steps(&dir.path().join("run"));
    assert_eq!(steps[2]["train/version"], 12.0, "2 passes of 2 minibatches over 3 steps");
    assert!(steps[2]["loss/kl"] > 0.0);
    // The old log-probs are those before the first of the four updates, so sampler and trainer still agree.
    assert!(steps[2]["logprob/difference_max"] < 1e-4, "{}", steps[2]["logprob/difference_max"]);
}

#[test]
fn json_lines_are_json_and_quiet_is_quiet() {
    let dir = tiny_run(&[]);
    let json = whet::succeed(dir.path(), &["train", "recipe.toml", "--json", "--set", "train.steps=2"]);
    let events: Vec<String> = json
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    for event in ["message", "eval", "step", "sample", "comparison"] {
        assert!(events.iter().any(|e| e == event), "{events:?}");
    }
    let quiet = whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "quiet"]);
    assert_eq!(quiet, "");
}
