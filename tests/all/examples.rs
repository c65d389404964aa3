//! Every recipe in `recipes/` runs: two steps of a tiny model in place of its own, on its own data with its own
//! rewards, filters and algorithm.

use crate::whet;
use std::path::{Path, PathBuf};
use whet_observe::{MetricsLine, read_metrics};

fn recipes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").canonicalize().unwrap();
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut recipes: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    recipes.sort();
    recipes
}

/// What makes a recipe small, and independent of the machine's speed: overrides for the sections that it has.
fn small(text: &str) -> Vec<String> {
    let model = whet::tiny_model().display().to_string();
    let has = |section: &str| text.lines().any(|line| line.trim() == format!("[{section}]"));
    let mut changes = vec![format!("model.source={model}"), "train.steps=2".into()];
    let mut change = |when: bool, keys: &[&str]| {
        changes.extend(keys.iter().filter(|_| when).map(|key| (*key).to_owned()));
    };
    change(has("rollout"), &["rollout.prompts-per-step=4", "rollout.samples-per-prompt=4"]);
    change(has("rollout"), &["rollout.max-tokens=8", "rollout.kv-budget=256MiB"]);
    change(has("reward"), &["reward.limits.time=100s"]);
    change(has("eval"), &["eval.prompts=2", "eval.max-tokens=8"]);
    change(text.contains("\nbatch-size"), &["train.batch-size=4"]);
    change(text.contains("\nwarmup"), &["train.warmup=1"]);
    for section in ["critic", "teacher"] {
        let inside = text.lines().skip_while(|line| line.trim() != format!("[{section}]")).skip(1);
        let mut inside = inside.take_while(|line| !line.starts_with('['));
        if inside.any(|line| line.starts_with("source")) {
            changes.push(format!("{section}.source={model}"));
        }
    }
    changes
}

#[test]
fn every_recipe_trains_a_tiny_model() {
    let recipes = recipes();
    assert!(recipes.len() >= 4, "{recipes:?}");
    let dir = tempfile::tempdir().unwrap();
    for recipe in &recipes {
        let name = recipe.file_stem().unwrap().to_str().unwrap();
        let changes = small(&std::fs::read_to_string(recipe).unwrap());
        let mut arguments = vec!["train", recipe.to_str().unwrap(), "--quiet", "--run-dir", name];
        for change in &changes {
            arguments.extend(["--set", change]);
        }
        whet::succeed(dir.path(), &arguments);
        let lines = read_metrics(&dir.path().join(name).join("metrics.jsonl")).unwrap();
        let learns = |line: &&MetricsLine| !line.metrics.keys().all(|name| name.starts_with("eval/"));
        let steps: Vec<u64> = lines.iter().filter(learns).map(|line| line.step).collect();
        assert_eq!(steps, [1, 2], "{name}");
    }
}

#[test]
fn the_doctor_finds_no_problem_in_any_recipe() {
    let dir = tempfile::tempdir().unwrap();
    for recipe in recipes() {
        let changes = small(&std::fs::read_to_string(&recipe).unwrap());
        let mut arguments = vec!["doctor", recipe.to_str().unwrap()];
        for change in &changes {
            arguments.extend(["--set", change]);
        }
        let output = whet::run(dir.path(), &arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}{error}", recipe.display());
    }
}
