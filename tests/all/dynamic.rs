//! Dynamic sampling: a step asks on until enough groups pass the filters, and says what starved.

use crate::whet::{self, tiny_run};
use std::collections::BTreeMap;
use std::path::Path;
use whet_observe::{Metrics, SampleRecord, read_metrics};

fn steps(run: &Path) -> Vec<Metrics> {
    let lines = read_metrics(&run.join("metrics.jsonl")).unwrap();
    lines.into_iter().map(|l| l.metrics).filter(|m| m.contains_key("reward/mean")).collect()
}

/// Groups in the order in which they were asked, each with its samples.
fn groups(run: &Path) -> Vec<Vec<SampleRecord>> {
    let mut groups: Vec<Vec<SampleRecord>> = Vec::new();
    for record in whet::trajectories(run) {
        match groups.last_mut() {
            Some(group) if group[0].group == record.group => group.push(record),
            _ => groups.push(vec![record]),
        }
    }
    groups
}

fn rewards_differ(group: &[SampleRecord]) -> bool {
    group.iter().any(|sample| sample.reward != group[0].reward)
}

/// A reward that is mostly the same within a group, so that the filter has much to drop.
const MOSTLY_EQUAL: (&str, &str) = ("target = 20", "target = 8");
const DYNAMIC: (&str, &str) = (
    "[rollout]",
    "[[filter]]\nplugin = \"zero-variance\"\n[rollout]\ndynamic = { oversample = 1.5, max-attempts = 20 }",
);

#[test]
fn every_step_trains_on_as_many_groups_as_the_recipe_says() {
    let dir = tiny_run(&[MOSTLY_EQUAL, DYNAMIC]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=4"]);
    let run = dir.path().join("run");
    let steps = steps(&run);
    for metrics in &steps {
        assert_eq!(metrics["group/trained"], 4.0);
        assert_eq!(metrics["group/spared"], 0.0);
        assert_eq!(metrics["group/sampled"], 4.0 + metrics["group/dropped"]);
    }
    assert!(steps.iter().any(|m| m["group/dropped/zero-variance"] > 0.0), "the filter dropped something");
    assert!(steps.iter().any(|m| m["rollout/attempts"] > 1.0), "once was not enough");

    // Every group on record counted: those with different rewards were trained on, the others were not, and the
    // last one of a step is the one that made it complete.
    let mut by_step: BTreeMap<u64, Vec<Vec<SampleRecord>>> = BTreeMap::new();
    for group in groups(&run) {
        by_step.entry(group[0].step).or_default().push(group);
    }
    for groups in by_step.values() {
        for group in groups {
            assert!(group.iter().all(|sample| sample.advantage.is_some() == rewards_differ(group)));
        }
        assert!(rewards_differ(groups.last().unwrap()));
    }
}

#[test]
fn the_data_is_used_in_its_order_and_nothing_of_it_is_lost_to_over_sampling() {
    let in_order = ("prompt-format = \"raw\"", "prompt-format = \"raw\"\nshuffle = false");
    let dir = tiny_run(&[MOSTLY_EQUAL, DYNAMIC, in_order]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=4"]);
    let run = dir.path().join("run");
    let asked = groups(&run);
    for (position, group) in asked.iter().enumerate() {
        assert_eq!(group[0].prompt[0].joined_text(), format!("Say {}:", position % 24));
    }
    let steps = steps(&run);
    let discarded: f64 = steps.iter().map(|m| m["rollout/discarded"]).sum();
    assert!(discarded > 0.0, "an attempt asks for more than it needs");
    assert_eq!(steps.last().unwrap()["data/epoch"], asked.len() as f64 / 24.0);
}

#[test]
fn groups_that_a_filter_would_spare_fill_a_step_after_the_last_attempt() {
    // No response is longer: every reward is 0.
    let dir = tiny_run(&[
        ("target = 20", "target = 1000"),
        ("[rollout]", "[[filter]]\nplugin = \"zero-variance\"\n[rollout]\ndynamic = { max-attempts = 2 }"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=1"]);
    let steps = steps(&dir.path().join("run"));
    assert_eq!((steps[0]["group/trained"], steps[0]["group/spared"]), (4.0, 4.0));
    assert_eq!((steps[0]["group/sampled"], steps[0]["rollout/attempts"]), (12.0, 2.0));
    assert_eq!(steps[0]["group/dropped/zero-variance"], 8.0);
}

#[test]
fn a_run_that_finds_too_few_groups_says_which_filter_starved_it_and_loses_nothing() {
    let dir = tiny_run(&[(
        "[rollout]",
        "[[filter]]\nplugin = \"difficulty\"\nconfig = { min = 0.5, pass = 5 }\n[rollout]\ndynamic = { max-attempts = 3 }",
    )]);
    let output = whet::run(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in [
        "step 1 starved: 0 of 4 groups",
        "3 attempts with 18 prompts",
        "difficulty dropped 18 for too-hard",
        "= help: loosen the filter",
    ] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    // What was measured before is kept, and a looser filter may begin anew.
    assert!(dir.path().join("run/evals/step-000000.jsonl").exists());
}

#[test]
fn dynamic_sampling_without_a_filter_is_a_contradiction() {
    let dir = tiny_run(&[("[rollout]", "[rollout]\ndynamic = {}")]);
    let output = whet::run(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("rollout.dynamic") && error.contains("zero-variance"), "{error}");
}
