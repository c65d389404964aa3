//! `whet score`: stored samples, scored again.

use crate::whet::{self, tiny_run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn trained() -> tempfile::TempDir {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=2"]);
    dir
}

/// Runs `whet score … --json`; its exit code and what it says.
fn score(dir: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = whet::run(dir, &[&["score"], arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{error}")))
}

#[test]
fn a_runs_samples_get_the_scores_that_they_have() {
    let dir = trained();
    let (code, said) = score(dir.path(), &["run"]);
    assert_eq!((code, &said["samples"], &said["files"]), (Some(0), &json!(64), &json!(2)), "{said}");
    assert_eq!((&said["different"], &said["nondeterministic"]), (&json!(0), &json!(0)));
    let text = whet::succeed(dir.path(), &["score", "run"]);
    assert!(
        text.contains("64 samples in 2 files") && text.contains("as stored, the same both times"),
        "{text}"
    );
    // Evaluations were answered at another temperature and are scored by the same rewards.
    let (code, said) = score(dir.path(), &["run", "--evals"]);
    assert_eq!((code, &said["samples"]), (Some(0), &json!(12)), "6 answers before and 6 after");
    let (code, _) = score(dir.path(), &["run/trajectories/step-000001.jsonl"]);
    assert_eq!(code, Some(0), "a file knows its run");
}

#[test]
fn a_score_that_was_changed_is_found_with_its_place() {
    let dir = trained();
    let path = dir.path().join("run/trajectories/step-000002.jsonl");
    let mut lines: Vec<Value> =
        fs::read_to_string(&path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    lines[4]["reward"] = json!(7.5);
    lines[9]["outcome"] = json!("unscorable");
    lines[9]["reward"] = json!(null);
    lines[9]["components"] = json!([]);
    // A failure was no score, so nothing is compared with it.
    lines[11]["outcome"] = json!("error");
    lines[11]["reward"] = json!(null);
    fs::write(&path, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).unwrap();

    let (code, said) = score(dir.path(), &["run"]);
    assert_eq!((code, &said["different"], &said["failed_then"]), (Some(1), &json!(2), &json!(1)), "{said}");
    assert_eq!(said["examples"][0]["line"], 5);
    assert_eq!(said["examples"][0]["stored"]["reward"], 7.5);
    assert_eq!(said["examples"][1]["stored"]["outcome"], "unscorable");
    let output = whet::run(dir.path(), &["score", "run"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("step-000002.jsonl:5") && text.contains("2 differ from what is stored"), "{text}");
}

#[test]
fn another_reward_scores_the_same_samples_and_its_scores_can_be_kept() {
    let dir = trained();
    let config = r#"{"target": 1, "unit": "characters"}"#;
    let arguments = ["run", "--plugin", "length", "--config", config, "--output", "scores.jsonl"];
    let (code, said) = score(dir.path(), &arguments);
    assert_eq!(code, Some(1), "it is another reward");
    assert_eq!(said["rewards"], json!(["length"]));
    let text = fs::read_to_string(dir.path().join("scores.jsonl")).unwrap();
    let scores: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(scores.len(), 64);
    let ids: Vec<String> = whet::trajectories(&dir.path().join("run")).into_iter().map(|r| r.id.0).collect();
    assert_eq!(scores.iter().map(|s| s["id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    assert!(scores.iter().all(|s| s["outcome"] == "scored" && s["reward"].as_f64().unwrap() <= 0.0));
}

#[test]
fn a_reward_that_changes_its_mind_is_caught() {
    let dir = trained();
    // `store` outlives a call, so a reward that counts its calls never says the same twice.
    whet::guest(
        dir.path(),
        "moody",
        "use whet_plugin::{Group, Outcome, Reward, host::store, reward};\n\
         struct Moody;\n\
         impl Reward for Moody {\n\
             fn score(&self, group: &Group) -> Vec<Outcome> {\n\
                 let calls = store::get(\"calls\").map_or(0, |bytes| bytes[0]).wrapping_add(1);\n\
                 store::set(\"calls\", &[calls]).ok();\n\
                 group.all(Outcome::scored(f64::from(calls)))\n\
             }\n\
         }\n\
         reward!(Moody);\n",
    );
    let (code, said) = score(dir.path(), &["run", "--plugin", "moody.wasm", "--grant", "store"]);
    assert_eq!((code, &said["nondeterministic"]), (Some(1), &json!(64)), "{said}");
    assert!(said["examples"][0]["again"]["reward"] != said["examples"][0]["now"]["reward"]);
}

#[test]
fn what_cannot_be_scored_is_told_with_a_remedy() {
    let dir = trained();
    fs::write(dir.path().join("other.jsonl"), "{\"id\": \"a\", \"response\": \"x\"}\n").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::create_dir(dir.path().join("imitated")).unwrap();
    fs::write(dir.path().join("imitated/recipe.resolved.toml"), "task = \"sft\"\n").unwrap();
    let cases: [(&[&str], &[&str]); 6] = [
        (&["nope"], &["`nope` does not exist"]),
        (&["imitated"], &["sampled nothing", "task"]),
        (&["other.jsonl"], &["do not belong to one run", "--plugin"]),
        (
            &["other.jsonl", "--plugin", "length", "--config", "{\"target\": 3}"],
            &["other.jsonl:1", "missing field"],
        ),
        (&["empty", "--plugin", "length"], &["holds no samples", ".jsonl"]),
        (&["run", "--grant", "random"], &["--plugin", "leave them out"]),
    ];
    for (arguments, parts) in cases {
        let output = whet::run(dir.path(), &[&["score"], arguments].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
    }
}

#[test]
fn curves_of_runs_are_drawn() {
    let dir = trained();
    let arguments = ["plot", "mine=run", "run", "--metric", "reward/mean", "--metric", "rollout/length"];
    whet::succeed(dir.path(), &[&arguments[..], &["--output", "curves.svg"]].concat());
    let picture = fs::read_to_string(dir.path().join("curves.svg")).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");
    for part in ["reward/mean", "rollout/length", "mine", ">\nrun\n"] {
        assert!(picture.contains(part), "{part} is missing in {picture}");
    }
    fs::create_dir(dir.path().join("imitated")).unwrap();
    fs::write(
        dir.path().join("imitated/metrics.jsonl"),
        "{\"step\": 1, \"time\": 1.0, \"train/loss\": 2.5}\n",
    )
    .unwrap();
    let output = whet::run(dir.path(), &["plot", "run", "imitated", "--output", "some.svg"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("`imitated` has no `reward/mean`"), "{said}");
    let listed = whet::succeed(dir.path(), &["plot", "run", "--list"]);
    assert!(listed.lines().any(|line| line == "reward/mean"), "{listed}");
    for (arguments, part) in [
        (vec!["plot", "run", "--metric", "reward/maen", "--output", "a.svg"], "--list"),
        (vec!["plot", "imitated", "--output", "a.svg"], "--metric train/loss"),
        (vec!["plot", "run", "--output", "a.png"], ".svg"),
        (vec!["plot", "nowhere", "--output", "a.svg"], "cannot read"),
    ] {
        let output = whet::run(dir.path(), &arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(part), "{error}");
    }
}
