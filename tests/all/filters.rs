//! The standard filters in a run: rows before it, groups within it.

use crate::whet::{self, tiny_run};
use std::collections::HashSet;

#[test]
fn rows_are_filtered_once_and_the_run_says_how_many_went_why() {
    let filters = r#"[[filter]]
plugin = "dedup"
grants = ["store"]
[[filter]]
plugin = "prompt-length"
config = { min = 8, unit = "characters" }
[[filter]]
plugin = "language"
config = { keep = ["en"] }
[rollout]"#;
    let dir = tiny_run(&[("[rollout]", filters)]);
    let english = "How many clips did Natalia sell to her friends in the spring, if there were";
    let german = "Wie viele Haarspangen verkaufte Natalia ihren Freundinnen im Frühling, wenn es insgesamt so viele waren:";
    // 300 rows come to the filters in more than one part, and the last repeats one of the first.
    let mut prompts: Vec<String> = (0..300).map(|i| format!("{english} {i}?")).collect();
    prompts.extend([format!("{german} 3?"), "5?".into(), format!("{english}  7?").to_uppercase()]);
    let rows: String =
        prompts.iter().map(|p| format!("{}\n", serde_json::json!({"prompt": p, "label": "1"}))).collect();
    std::fs::write(dir.path().join("train.jsonl"), rows).unwrap();

    let said = whet::succeed(dir.path(), &["train", "recipe.toml", "--set", "train.steps=1"]);
    for reason in ["duplicate", "prompt-too-short", "language-deu"] {
        assert!(said.contains(&format!("1 rows were filtered out: {reason}")), "{reason}: {said}");
    }
    let manifest = std::fs::read(dir.path().join("run/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["rows"], serde_json::json!([300, 303]));
    let doctor = whet::succeed(dir.path(), &["doctor", "recipe.toml"]);
    assert!(doctor.contains("filters leave 300 of 303 rows"), "{doctor}");
}

#[test]
fn near_duplicates_need_more_store_than_a_plugin_has_unless_the_recipe_gives_it() {
    let filter = |limits: &str| {
        format!(
            "[[filter]]\nplugin = \"dedup\"\ngrants = [\"store\"]\nconfig = {{ match = \"near\" }}\n{limits}\n[rollout]"
        )
    };
    let words = |i: u64| {
        let word = |k: u64| (i.wrapping_mul(31).wrapping_add(k)).wrapping_mul(2_654_435_761) % 100_000;
        (0..20).map(|k| word(k * 7919).to_string()).collect::<Vec<_>>().join(" ")
    };
    let rows: String =
        (0..600).map(|i| format!("{{\"prompt\": \"{}\", \"label\": \"1\"}}\n", words(i % 500))).collect();
    for (limits, fits) in [("limits = { store = \"64KiB\" }", false), ("", true)] {
        let dir = tiny_run(&[("[rollout]", &filter(limits))]);
        std::fs::write(dir.path().join("train.jsonl"), &rows).unwrap();
        let output = whet::run(dir.path(), &["train", "recipe.toml", "--set", "train.steps=1"]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.success(), fits, "{text}");
        let expected = if fits { "100 rows were filtered out: near-duplicate" } else { "store is full" };
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_filter_without_its_grant_is_refused() {
    let dir = tiny_run(&[("[rollout]", "[[filter]]\nplugin = \"dedup\"\n[rollout]")]);
    let output = whet::run(dir.path(), &["train", "recipe.toml"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("store") && error.contains("grants = [\"store\"]"), "{error}");
}

#[test]
fn groups_outside_of_the_window_are_not_trained_on() {
    let filter =
        "[[filter]]\nplugin = \"difficulty\"\nconfig = { min = 0.25, max = 0.75, pass = -0.5 }\n[rollout]";
    let dir = tiny_run(&[("[rollout]", filter)]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=3"]);
    let records = whet::trajectories(&dir.path().join("run"));
    let groups: HashSet<&str> = records.iter().map(|r| r.group.0.as_str()).collect();
    let (mut inside, mut outside) = (0, 0);
    for group in groups {
        let samples = || records.iter().filter(|r| r.group.0 == group);
        let passed = samples().filter(|r| r.reward.is_some_and(|reward| reward >= -0.5)).count();
        let rate = passed as f64 / samples().count() as f64;
        let trained = samples().any(|r| r.advantage.is_some());
        assert_eq!(trained, (0.25..=0.75).contains(&rate), "{group}: {rate}");
        if trained { inside += 1 } else { outside += 1 }
    }
    assert!(inside > 0 && outside > 0, "{inside} groups inside, {outside} outside");
}
