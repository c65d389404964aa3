//! Killed at any moment and resumed, a run is the run that was never killed.

use crate::whet::{self, tiny_run};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use whet_observe::read_metrics;

/// What must be equal: every sample of every step, and all of the trainer's state.
#[derive(PartialEq)]
struct Outcome {
    samples: Vec<(String, String, Vec<u32>, Option<f64>)>,
    weights: Vec<u8>,
    moments: Vec<u8>,
    steps: Vec<u64>,
}

fn outcome(run: &Path, last: u64) -> Outcome {
    let trainer = run.join(format!("checkpoints/step-{last:06}/trainer"));
    let lines = read_metrics(&run.join("metrics.jsonl")).unwrap();
    Outcome {
        samples: whet::trajectories(run).into_iter().map(|r| (r.id.0, r.row, r.tokens, r.reward)).collect(),
        weights: std::fs::read(trainer.join("weights.safetensors")).unwrap(),
        moments: std::fs::read(trainer.join("moments.safetensors")).unwrap(),
        steps: lines.iter().filter(|l| l.metrics.contains_key("reward/mean")).map(|l| l.step).collect(),
    }
}

fn assert_same(run: &Path, expected: &Outcome, when: &str) {
    let found = outcome(run, 8);
    assert_eq!(found.steps, (1..=8).collect::<Vec<_>>(), "{when}: each step is logged once");
    assert!(found.samples == expected.samples, "{when}: other samples");
    assert!(found.weights == expected.weights, "{when}: other weights");
    assert!(found.moments == expected.moments, "{when}: other optimiser state");
}

fn start(dir: &Path, arguments: &[&str]) -> Child {
    whet::whet(dir, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the run as soon as `moment` has come; false when the run was faster.
fn kill_when(mut child: Child, moment: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if moment() {
            // `kill` sends SIGKILL: nothing in the process can react to it.
            child.kill().unwrap();
            return !child.wait().unwrap().success();
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the run does not end");
        std::hint::spin_loop();
    }
    false
}

fn lines(run: &Path) -> usize {
    std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |t| t.lines().count())
}

#[test]
fn killed_anywhere_and_resumed_it_ends_with_the_same_weights() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = outcome(&dir.path().join("whole"), 8);

    type Moment = fn(&Path) -> bool;
    let moments: [(&str, Moment); 7] = [
        ("before anything was recorded", |run| run.exists()),
        ("after the first evaluation", |run| lines(run) >= 1),
        ("before the first checkpoint", |run| lines(run) >= 2),
        ("while a checkpoint is written", |run| run.join("checkpoints/.writing-000004").exists()),
        ("as a checkpoint is finished", |run| run.join("checkpoints/step-000004").exists()),
        ("between two checkpoints", |run| lines(run) >= 6),
        ("while an old checkpoint is removed", |run| run.join("checkpoints/.leaving-step-000004").exists()),
    ];
    let mut landed = 0;
    for (index, (when, moment)) in moments.into_iter().enumerate() {
        let name = format!("run{index}");
        let run = dir.path().join(&name);
        let child = start(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", &name]);
        landed += u32::from(kill_when(child, || moment(&run)));
        // A run that was killed before it recorded its recipe has to be begun, not resumed.
        let begun = run.join("recipe.resolved.toml").exists();
        let mut arguments = vec!["train", "recipe.toml", "--quiet", "--run-dir", &name];
        arguments.extend(begun.then_some("--resume"));
        whet::succeed(dir.path(), &arguments);
        assert_same(&run, &expected, when);
    }
    assert!(landed >= 4, "only {landed} of the kills came in time");
}

#[test]
fn with_dynamic_sampling_a_killed_run_goes_on_at_the_same_place_in_the_data() {
    let dir = tiny_run(&[
        ("target = 20", "target = 8"),
        ("[rollout]", "[[filter]]\nplugin = \"zero-variance\"\n[rollout]\ndynamic = { max-attempts = 20 }"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = outcome(&dir.path().join("whole"), 8);
    let groups: std::collections::HashSet<&str> =
        expected.samples.iter().filter_map(|(id, ..)| id.rsplit_once('/').map(|(group, _)| group)).collect();
    assert!(groups.len() > 8 * 4, "more groups were asked than trained on, so the position is no multiple");
    let run = dir.path().join("run");
    let mut arguments = vec!["train", "recipe.toml", "--quiet"];
    let mut landed = 0;
    for until in [3, 6] {
        landed += u32::from(kill_when(start(dir.path(), &arguments), || lines(&run) >= until));
        if run.join("recipe.resolved.toml").exists() && !arguments.contains(&"--resume") {
            arguments.push("--resume");
        }
    }
    assert!(landed > 0, "no kill came in time");
    whet::succeed(dir.path(), &arguments);
    assert_same(&run, &expected, "after kills between the attempts");
}

#[test]
fn what_a_plugin_keeps_is_part_of_what_is_resumed() {
    let estimator = "[advantage]\nplugin = \"patient.wasm\"\ngrants = [\"store\"]\n[rollout]";
    let dir = tiny_run(&[("[rollout]", estimator)]);
    // Advantages grow with the number of batches seen, so a run that forgot it would learn something else.
    whet::guest(
        dir.path(),
        "patient",
        "use whet_plugin::{Advantage, Advantages, Batch, Error, advantage, host::store};\n\
         struct Patient;\n\
         impl Advantage for Patient {\n\
             fn estimate(&self, batch: &Batch) -> Result<Advantages, Error> {\n\
                 let seen = store::get(\"seen\").map_or(0, |bytes| bytes[0]) + 1;\n\
                 store::set(\"seen\", &[seen]).ok();\n\
                 let of = |r: &f32| if r.is_finite() { (r - 0.5) * f32::from(seen) } else { 0.0 };\n\
                 Ok(Advantages::PerSample(batch.rewards.iter().map(of).collect()))\n\
             }\n\
         }\n\
         advantage!(Patient);\n",
    );
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = outcome(&dir.path().join("whole"), 8);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=4"]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--resume"]);
    assert_same(&dir.path().join("run"), &expected, "after half of the steps");
}

#[test]
fn killed_again_and_again_it_still_arrives() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = outcome(&dir.path().join("whole"), 8);
    let run = dir.path().join("run");
    let mut arguments = vec!["train", "recipe.toml", "--quiet"];
    for kill in 0..3 {
        // The eval line and two or three more steps each time.
        let until = 1 + 3 * (kill + 1);
        kill_when(start(dir.path(), &arguments), || lines(&run) >= until);
        if run.join("recipe.resolved.toml").exists() && !arguments.contains(&"--resume") {
            arguments.push("--resume");
        }
    }
    whet::succeed(dir.path(), &arguments);
    assert_same(&run, &expected, "after three kills");
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let expected = outcome(&run, 8);
    let newest = run.join("checkpoints/step-000008/trainer/weights.safetensors");
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let resumed = whet::run(dir.path(), &["train", "recipe.toml", "--resume"]);
    let (said, warned) = (String::from_utf8_lossy(&resumed.stdout), String::from_utf8_lossy(&resumed.stderr));
    assert!(resumed.status.success(), "{warned}");
    assert!(warned.contains("checkpoint of step 8 is damaged"), "{warned}");
    assert!(said.contains("resumes after step 6"), "{said}");
    assert_same(&run, &expected, "after the newest checkpoint was damaged");
}

#[test]
fn an_interrupt_finishes_the_step_and_says_how_to_go_on() {
    let dir = tiny_run(&[("checkpoint-every = 2", "checkpoint-every = 0")]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = outcome(&dir.path().join("whole"), 8);
    let run = dir.path().join("run");
    let child = whet::whet(dir.path(), &["train", "recipe.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while lines(&run) < 3 && began.elapsed() < Duration::from_secs(120) {
        std::hint::spin_loop();
    }
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // On a very fast machine the run may be over before the signal; then there is nothing to interrupt.
    if sent.success() && !output.status.success() {
        assert_eq!(output.status.code(), Some(130), "{error}");
        assert!(error.contains("interrupted after step") && error.contains("--resume"), "{error}");
        assert_eq!(std::fs::read_dir(run.join("checkpoints")).unwrap().count(), 1);
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--resume"]);
    }
    assert_same(&run, &expected, "after an interrupt");
}

#[test]
fn a_second_interrupt_ends_the_run_at_once_and_in_order() {
    let dir = tiny_run(&[]);
    for (index, pause) in [5, 30, 80].into_iter().enumerate() {
        let name = format!("run{index}");
        let run = dir.path().join(&name);
        let arguments = ["train", "recipe.toml", "--run-dir", &name, "--set", "train.steps=5000"];
        let mut command = whet::whet(dir.path(), &arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while lines(&run) < 2 && began.elapsed() < Duration::from_secs(120) {
            std::hint::spin_loop();
        }
        let id = child.id().to_string();
        for _ in 0..2 {
            std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
            std::thread::sleep(Duration::from_millis(pause));
        }
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn a_changed_recipe_is_not_resumed() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let output = whet::run(
        dir.path(),
        &[
            "train",
            "recipe.toml",
            "--resume",
            "--set",
            "train.learning-rate=0.02",
            "--set",
            "rollout.top-k=5",
        ],
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("rollout.top-k, train.learning-rate"), "{error}");
    // More steps are the reason to resume a finished run.
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--resume", "--set", "train.steps=10"]);
    assert!(dir.path().join("run/checkpoints/step-000010").exists());
}

/// Files of the last checkpoint, by name.
fn state(run: &Path, last: u64) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    for folder in ["trainer", "critic"] {
        let path = run.join(format!("checkpoints/step-{last:06}/{folder}"));
        for name in ["weights.safetensors", "moments.safetensors"] {
            if let Ok(bytes) = std::fs::read(path.join(name)) {
                files.insert(format!("{folder}/{name}"), bytes);
            }
        }
    }
    files
}

/// Kills a run at several moments, resumes it, and compares with one that was never killed.
fn killed_and_resumed(dir: &Path, parts: usize) {
    whet::succeed(dir, &["train", "recipe.toml", "--quiet", "--run-dir", "whole"]);
    let expected = state(&dir.join("whole"), 8);
    assert_eq!(expected.len(), parts);
    let mut landed = 0;
    for (index, until) in [2, 5, 7].into_iter().enumerate() {
        let name = format!("run{index}");
        let run = dir.join(&name);
        let child = start(dir, &["train", "recipe.toml", "--quiet", "--run-dir", &name]);
        landed += u32::from(kill_when(child, || lines(&run) >= until));
        whet::succeed(dir, &["train", "recipe.toml", "--quiet", "--run-dir", &name, "--resume"]);
        assert!(state(&run, 8) == expected, "killed after {until} lines: other weights or moments");
        let logged = read_metrics(&run.join("metrics.jsonl")).unwrap();
        let steps: Vec<u64> =
            logged.iter().filter(|l| l.metrics.contains_key("time/step")).map(|l| l.step).collect();
        assert_eq!(steps, (1..=8).collect::<Vec<_>>());
    }
    assert!(landed >= 1, "none of the kills came in time");
}

#[test]
fn a_critic_goes_on_where_it_was_killed() {
    let sections = "[critic]\nlearning-rate = 0.01\nepochs = 2\nminibatches = 2\n[algorithm]\npreset = \"ppo\"\n[rollout]";
    killed_and_resumed(tiny_run(&[("[rollout]", sections)]).path(), 4);
}

#[test]
fn tasks_that_sample_nothing_go_on_where_they_were_killed() {
    for (task, row) in [
        ("sft", "{\"prompt\": \"Say {}:\", \"label\": \"{} it is\"}"),
        ("dpo", "{\"prompt\": \"What is {}?\", \"chosen\": \"It is {}.\", \"rejected\": \"No idea.\"}"),
        (
            "reward-model",
            "{\"prompt\": \"What is {}?\", \"chosen\": \"It is {}.\", \"rejected\": \"No idea.\"}",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let rows: String = (0..30).map(|i| row.replace("{}", &i.to_string()) + "\n").collect();
        std::fs::write(dir.path().join("train.jsonl"), &rows).unwrap();
        let test: String = rows.lines().take(3).map(|line| format!("{line}\n")).collect();
        std::fs::write(dir.path().join("test.jsonl"), test).unwrap();
        let recipe = format!(
            "seed = 3\ntask = \"{task}\"\nmodel = \"{}\"\n[data]\ntrain = \"train.jsonl\"\ntest = \"test.jsonl\"\n\
             [train]\nsteps = 8\nbatch-size = 7\nlearning-rate = 0.003\n[run]\ncheckpoint-every = 2\n",
            whet::tiny_model().display()
        );
        std::fs::write(dir.path().join("recipe.toml"), recipe).unwrap();
        killed_and_resumed(dir.path(), 2);
    }
}
