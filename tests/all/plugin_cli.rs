//! `whet plugin …` as a user meets it: the built program, the built standard plugins.

use crate::whet::program;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the standard plugins, built from this checkout once per test run.
pub fn standard_plugins() -> &'static Path {
    static DIST: OnceLock<PathBuf> = OnceLock::new();
    DIST.get_or_init(|| {
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
        let dist = plugins.join("dist");
        let mut build = Command::new(program());
        build.args(["plugin", "build", "--quiet"]).arg(&plugins).arg("--output").arg(&dist);
        let output = built_output(&mut build);
        assert!(output.status.success(), "{}", text(&output.stderr));
        dist
    })
}

fn built_output(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub fn plugin(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("plugin").args(arguments).env("WHET_PLUGINS_DIR", standard_plugins());
    built_output(&mut command)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of lines that lives as long as the folder.
pub fn lines(folder: &tempfile::TempDir, lines: &[Value]) -> String {
    let path = folder.path().join("in.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

pub fn json_lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_judge_that_the_plugin_does_not_ask_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = lines(&folder, &[json!({"id": "a", "response": "4", "label": "4"})]);
    let server = ["--judge-url", "http://localhost:9/v1", "--judge-model", "m"];
    for flags in [["--canned-judge", &input].as_slice(), &server] {
        let output = plugin(&[&["run", "math", "--input", &input], flags].concat());
        let error = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{error}");
        assert!(
            error.contains(&format!("`math` asks no judge, so {} would not be read", flags[0])),
            "{error}"
        );
        assert!(error.contains("= help: leave "), "{error}");
    }
}

#[test]
fn inspect_lists_many_components_in_columns_with_their_count() {
    let output = plugin(&["inspect", "ifeval"]);
    let said = text(&output.stdout);
    let inspected: Value = serde_json::from_slice(&plugin(&["inspect", "ifeval", "--json"]).stdout).unwrap();
    let components = inspected["components"].as_array().unwrap();
    assert!(
        components.len() > 100 && said.contains(&format!("components   {}\n", components.len())),
        "{said}"
    );
    for name in components.iter().filter_map(Value::as_str) {
        let (first, number) = name.rsplit_once('.').unwrap_or((name, ""));
        let line = said.lines().find(|line| line.split_whitespace().any(|word| word == first));
        assert!(line.is_some_and(|line| line.contains(number)), "{name}: {said}");
    }
    assert!(said.contains("keywords:existence (.2 .3)"), "{said}");
    let widest = said.lines().take_while(|line| *line != "config").map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 120 && said.lines().count() < 150, "{said}");
    assert!(text(&plugin(&["inspect", "geo3k"]).stdout).contains("components   accuracy, format"));
}

#[test]
fn run_answers_every_line_in_order_and_in_the_promised_form() {
    let folder = tempfile::tempdir().unwrap();
    let input = lines(
        &folder,
        &[
            json!({"id": "a", "prompt": "2 + 2?", "response": "It is 4.", "label": "4", "group": "g"}),
            json!({"id": "b", "response": "#### 5", "group": "g"}),
            json!({"id": 3, "response": "no idea", "label": "seven"}),
            json!({"id": "d", "completion": [{"role": "assistant", "content": "\\boxed{1/2}"}], "label": "0.5"}),
        ],
    );
    let output = plugin(&["run", "math-answer", "--input", &input]);
    let expected = [
        json!({"id": "a", "outcome": "scored", "reward": 1.0, "components": {"reward": 1.0}, "note": "answer 4 (last number)"}),
        json!({"id": "b", "outcome": "scored", "reward": 0.0, "components": {"reward": 0.0}, "note": "answer 5 (####)"}),
        json!({"id": 3, "outcome": "unscorable", "reward": null, "components": {}, "reason": "the label \"seven\" is not a number"}),
        json!({"id": "d", "outcome": "scored", "reward": 1.0, "components": {"reward": 1.0}, "note": "answer 1/2 (boxed)"}),
    ];
    assert_eq!(json_lines(&output), expected);

    let file = folder.path().join("out.jsonl");
    let written = plugin(&["run", "math-answer", "--input", &input, "--output", file.to_str().unwrap()]);
    assert!(written.status.success() && written.stdout.is_empty());
    assert_eq!(std::fs::read(&file).unwrap(), output.stdout);
}

#[test]
fn many_groups_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<Value> = (0..500)
        .map(|i| json!({"id": i, "response": format!("{i}"), "label": "7", "group": i / 3}))
        .collect();
    let answers = json_lines(&plugin(&["run", "math-answer", "--input", &lines(&folder, &rows)]));
    assert_eq!(answers.len(), rows.len());
    for (i, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], i);
        assert_eq!(answer["note"], format!("answer {i} (last number)"));
        assert_eq!(answer["reward"], if i == 7 { 1.0 } else { 0.0 });
    }
}

#[test]
fn a_response_that_does_not_fit_costs_its_own_line_only() {
    let folder = tempfile::tempdir().unwrap();
    let input = lines(
        &folder,
        &[
            json!({"id": "a", "response": "4", "label": "4", "group": 1}),
            json!({"id": "b", "response": "x".repeat(8 << 20), "group": 1}),
            json!({"id": "c", "response": "5", "group": 1}),
        ],
    );
    let answers = json_lines(&plugin(&["run", "math-answer", "--memory", "4MiB", "--input", &input]));
    let outcomes: Vec<&Value> = answers.iter().map(|a| &a["outcome"]).collect();
    assert_eq!(outcomes, ["scored", "error", "scored"]);
    assert_eq!((&answers[0]["reward"], &answers[2]["reward"]), (&json!(1.0), &json!(0.0)));
    let reason = answers[1]["reason"].as_str().unwrap();
    assert!(reason.starts_with("memory-limit: "), "{reason}");
    assert_eq!(answers[1]["reward"], Value::Null);
}

#[test]
fn what_is_wrong_is_said_in_one_message_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = lines(&folder, &[json!({"id": "a", "response": "4", "label": "4"})]);
    let bad = folder.path().join("bad.jsonl").display().to_string();
    std::fs::write(&bad, "{\"id\": \"a\", \"response\": \"4\"}\n\n{\"id\": \"b\"}\n").unwrap();
    let garbage = folder.path().join("garbage.wasm").display().to_string();
    std::fs::write(&garbage, "not WebAssembly").unwrap();
    let missing = folder.path().join("none.jsonl").display().to_string();
    let cases: [(&[&str], &[&str]); 9] = [
        (&["run", "math-answer", "--input", &bad], &["bad.jsonl:3", "`response`"]),
        (&["run", "math-answer", "--input", &missing], &["none.jsonl"]),
        (&["run", "math-anwser", "--input", &good], &["`math-anwser`", "math-answer"]),
        (&["run", "./none.wasm", "--input", &good], &["./none.wasm"]),
        (&["run", &garbage, "--input", &good], &["garbage.wasm", "not WebAssembly"]),
        (&["run", "zero-variance", "--input", &good], &["filter plugin", "reward plugin"]),
        (&["run", "math-answer", "--input", &good, "--config", "{"], &["--config `{` is not JSON"]),
        (
            &["run", "math-answer", "--input", &good, "--config", "{\"extract\": 1}"],
            &["`extract`", "extraction"],
        ),
        (&["check", "math-answer", "--grant", "clock"], &["`clock`", "random"]),
    ];
    for (arguments, expected) in cases {
        let output = plugin(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(message.lines().filter(|l| l.starts_with("error")).count(), 1, "{arguments:?}: {message}");
        for part in expected {
            assert!(message.contains(part), "{arguments:?}: {message}");
        }
    }
}

#[test]
fn inspect_shows_what_a_plugin_is_and_may_ask_for() {
    let shown = text(&plugin(&["inspect", "math-answer"]).stdout);
    let changing = ["size ", "digest "];
    let stable: Vec<&str> = shown.lines().filter(|l| !changing.iter().any(|c| l.starts_with(c))).collect();
    insta::assert_snapshot!(stable.join("\n"), @r#"
    plugin       math-answer 0.1.0
    summary      1 when the response's final number equals the label, exactly.
    world        whet:plugin/reward-plugin
    imports      whet:plugin/types@0.1.0, whet:plugin/log@0.1.0
    needs grants none
    components   reward
    samples      one by one
    determinism  pure
    config
      {
        "type": "object",
        "properties": {
          "extraction": {
            "enum": [
              "lenient",
              "strict"
            ],
            "default": "lenient",
            "description": "strict: only #### and \\boxed{} count; lenient: else the last number"
          }
        },
        "additionalProperties": false
      }
    "#);
}

#[test]
fn standard_plugins_are_small_and_ask_for_nothing() {
    for (name, world) in [
        ("math-answer", "whet:plugin/reward-plugin"),
        ("format", "whet:plugin/reward-plugin"),
        ("length", "whet:plugin/reward-plugin"),
        ("zero-variance", "whet:plugin/filter-plugin"),
        ("group-norm", "whet:plugin/advantage-plugin"),
    ] {
        let output = plugin(&["inspect", name, "--json"]);
        let inspection: Value = serde_json::from_slice(&output.stdout).expect(name);
        assert_eq!(inspection["name"], name);
        assert_eq!(inspection["world"], world);
        assert_eq!(inspection["needs_grants"], json!([]), "{name}");
        let size = inspection["size"].as_u64().unwrap();
        assert!(size < 200 * 1024, "{name} has {size} bytes");
        let digest = inspection["digest"].as_str().unwrap();
        assert!(digest.starts_with("sha256:") && digest.len() == 7 + 64, "{digest}");
    }
}

#[test]
fn bench_reports_calls_of_every_kind_of_plugin() {
    for (name, config) in [("math-answer", "{}"), ("zero-variance", "{}"), ("group-norm", "{\"eps\": 1e-4}")]
    {
        let output = plugin(&["bench", name, "--config", config, "--seconds", "0.05", "--json"]);
        let result: Value = serde_json::from_slice(&output.stdout).expect(name);
        for key in ["calls", "calls_per_second", "p50_us", "p99_us", "instantiate_us", "load_ms"] {
            assert!(result[key].as_f64().is_some_and(|v| v > 0.0), "{name}: {key} in {result}");
        }
        assert!(result["p50_us"].as_f64() <= result["p99_us"].as_f64(), "{result}");
        assert_eq!(result["samples_per_call"], 8.0);
    }
}

#[test]
fn every_help_has_an_example() {
    for command in ["new", "build", "check", "inspect", "run", "bench"] {
        let help = text(&plugin(&[command, "--help"]).stdout);
        assert!(help.contains(&format!("whet plugin {command} ")) && help.contains("Example:"), "{help}");
    }
}

#[test]
fn a_new_plugin_of_every_kind_passes_its_tests_builds_and_is_admitted() {
    let folder = tempfile::tempdir().unwrap();
    // One target folder for all three, so that their dependencies are built once.
    let target = folder.path().join("target");
    for (kind, kind_in_words) in
        [("reward", "a reward"), ("filter", "a filter"), ("advantage", "an advantage")]
    {
        let dir = folder.path().join(format!("my-{kind}"));
        let made = plugin(&["new", dir.to_str().unwrap(), "--kind", kind]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let again = plugin(&["new", dir.to_str().unwrap(), "--kind", kind]);
        assert!(text(&again.stderr).contains("exists already"));

        let tests = Command::new(env!("CARGO"))
            .args(["test", "--quiet"])
            .current_dir(&dir)
            .env("CARGO_TARGET_DIR", &target)
            .env_remove("RUSTFLAGS")
            .output()
            .unwrap();
        assert!(tests.status.success(), "{}{}", text(&tests.stdout), text(&tests.stderr));

        let file = folder.path().join(format!("{kind}.wasm"));
        let mut build = Command::new(program());
        build.args(["plugin", "build", "--quiet"]).arg(&dir).arg("--output").arg(&file);
        let built = built_output(build.env("CARGO_TARGET_DIR", &target));
        assert!(built.status.success(), "{}", text(&built.stderr));
        let checked = plugin(&["check", file.to_str().unwrap()]);
        assert!(
            text(&checked.stdout).contains(&format!("ok, {kind_in_words} plugin")),
            "{}",
            text(&checked.stderr)
        );
    }
    let input = lines(&folder, &[json!({"id": "a", "response": "It is Rome.", "label": "rome"})]);
    let reward = folder.path().join("reward.wasm").display().to_string();
    let config = "{\"case_sensitive\": true}";
    let strict = json_lines(&plugin(&["run", &reward, "--input", &input, "--config", config]));
    let folded = json_lines(&plugin(&["run", &reward, "--input", &input]));
    assert_eq!((&strict[0]["reward"], &folded[0]["reward"]), (&json!(0.0), &json!(1.0)));
}

#[test]
fn a_name_that_cargo_would_refuse_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["My-Reward", "1st", "a_b", "core", "a-"] {
        let output = plugin(&["new", folder.path().join(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(text(&output.stderr).contains(name), "{name}: {}", text(&output.stderr));
        assert!(!folder.path().join(name).exists(), "{name}");
    }
}
