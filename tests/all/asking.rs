//! Rewards that ask others, as a user meets them: a judge in a run, its answers kept, its key nowhere; a
//! server's reward; several rewards made into one.

use crate::whet::{self, program, tiny_run};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use whet_http::testing::{Received, Server, respond, serve};
use whet_observe::OutcomeKind;

const SECRET: &str = "sk-a-key-that-nobody-may-see-8f3a";

/// A server that finds every response of an even number of characters correct.
fn judge() -> Server {
    serve(|_, request, c| {
        let even = asked(request).chars().count().is_multiple_of(2);
        chat_reply(c, if even { "<think>INCORRECT?</think>Verdict: CORRECT" } else { "Verdict: INCORRECT" });
    })
    .unwrap()
}

/// What stands between the prompt's marks.
fn asked(request: &Received) -> String {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let text = body["messages"][0]["content"].as_str().unwrap().to_owned();
    let response = text.split_once("START>").unwrap().1;
    response.rsplit_once("<STOP").unwrap().0.to_owned()
}

fn chat_reply(connection: &mut TcpStream, text: &str) {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5},
    });
    respond(connection, "200 OK", &[], &body.to_string());
}

/// A short run whose reward is the judge's.
fn judged_run(server: &Server) -> tempfile::TempDir {
    let reward = format!(
        "[judge]\nbase-url = \"{}\"\nmodel = \"judge-1\"\napi-key-env = \"TEST_JUDGE_KEY\"\n[reward]\nplugin = \"judge\"\n\
         grants = [\"judge\"]\nconfig = {{ prompt = \"Even? START>{{{{response}}}}<STOP\" }}",
        server.url("/v1")
    );
    tiny_run(&[
        (
            "[reward]\nplugin = \"length\"\nconfig = { target = 20, unit = \"characters\", mode = \"at-most\" }",
            &reward,
        ),
        ("steps = 8", "steps = 2"),
    ])
}

fn whet_with_key(dir: &Path, arguments: &[&str]) -> Output {
    whet::whet(dir, arguments).env("TEST_JUDGE_KEY", SECRET).output().unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Every file below a folder that holds the bytes.
fn files_with(dir: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_run_is_rewarded_by_its_judge_whose_answers_are_kept_and_whose_key_is_nowhere() {
    let server = judge();
    let dir = judged_run(&server);
    let output = whet_with_key(dir.path(), &["train", "recipe.toml"]);
    assert!(output.status.success(), "{}", shown(&output));
    let run = dir.path().join("run");
    let records = whet::trajectories(&run);
    assert_eq!(records.len(), 2 * 4 * 8);
    for record in &records {
        let even = record.response.trim().chars().count().is_multiple_of(2);
        assert_eq!(record.outcome, OutcomeKind::Scored, "{record:?}");
        assert_eq!(record.reward, Some(f64::from(u8::from(even))), "{record:?}");
        assert_eq!(record.note.as_deref(), Some(if even { "pass" } else { "fail" }));
    }
    let received = server.received();
    assert!(received.iter().all(|r| r.header("authorization") == Some(&format!("Bearer {SECRET}"))));

    let manifest: Value = serde_json::from_slice(&std::fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["plugins"][0]["grants"], json!(["judge"]));
    assert_eq!(manifest["judges"][0]["model"], "judge-1");
    assert!(std::fs::read_to_string(run.join("recipe.resolved.toml")).unwrap().contains("TEST_JUDGE_KEY"));
    assert_eq!(files_with(dir.path(), SECRET.as_bytes()), Vec::<String>::new());
    assert!(!shown(&output).contains(SECRET));

    // Scored again, every answer is the kept one.
    let again = whet_with_key(dir.path(), &["score", "run/trajectories"]);
    assert!(again.status.success(), "{}", shown(&again));
    assert_eq!(server.received().len(), received.len(), "the judge was asked again");
}

#[test]
fn a_run_begun_again_has_the_same_rewards_though_the_judge_is_gone() {
    let server = judge();
    let dir = judged_run(&server);
    let first =
        whet_with_key(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "run.checkpoint-every=1"]);
    assert!(first.status.success(), "{}", shown(&first));
    let run = dir.path().join("run");
    let before: Vec<_> = whet::trajectories(&run).into_iter().map(|r| (r.id, r.reward)).collect();
    // The last step is forgotten, and so is the judge.
    std::fs::remove_dir_all(run.join("checkpoints/step-000002")).unwrap();
    drop(server);
    let resumed = whet_with_key(
        dir.path(),
        &["train", "recipe.toml", "--quiet", "--resume", "--set", "run.checkpoint-every=1"],
    );
    assert!(resumed.status.success(), "{}", shown(&resumed));
    let after: Vec<_> = whet::trajectories(&run).into_iter().map(|r| (r.id, r.reward)).collect();
    assert_eq!(before, after);
}

#[test]
fn a_key_that_is_not_set_is_told_before_anything_starts() {
    let server = judge();
    let dir = judged_run(&server);
    let output =
        whet::whet(dir.path(), &["train", "recipe.toml"]).env_remove("TEST_JUDGE_KEY").output().unwrap();
    assert!(!output.status.success());
    assert!(shown(&output).contains("`TEST_JUDGE_KEY` is not set"), "{}", shown(&output));
    assert!(server.received().is_empty());
    // Nor does the doctor ask: it would cost what a run does.
    let doctor = whet_with_key(dir.path(), &["doctor", "recipe.toml"]);
    assert!(shown(&doctor).contains("labels are not graded"), "{}", shown(&doctor));
    assert!(server.received().is_empty());
}

#[test]
fn a_judge_that_fails_gives_no_sample_a_score() {
    let server =
        serve(|_, _, c| respond(c, "400 Bad", &[], r#"{"error": {"message": "no such model"}}"#)).unwrap();
    let dir = judged_run(&server);
    let output = whet_with_key(dir.path(), &["train", "recipe.toml"]);
    assert!(!output.status.success());
    assert!(shown(&output).contains("no such model"), "{}", shown(&output));
}

#[test]
fn what_a_recipe_says_of_judges_must_fit_together() {
    let cases = [
        ("grants = [\"judge\"]", "no judge to ask"),
        (
            "grants = [\"judge:big\"]\n[[judge]]\nroute = \"small\"\nbase-url = \"http://localhost:1/v1\"\nmodel = \"m\"",
            "no judge with the route `big`",
        ),
        (
            "[judge]\nbase-url = \"http://localhost:1/v1\"\nmodel = \"m\"",
            "no plugin may ask the judge `default`",
        ),
        (
            "grants = [\"judge\"]\n[judge]\nbase-url = \"localhost:1\"\nmodel = \"m\"",
            "no address of a server",
        ),
        (
            "grants = [\"judge\"]\n[judge]\nbase-url = \"https://me:pw@a.example/v1\"\nmodel = \"m\"",
            "holds a user or password",
        ),
        (
            "grants = [\"judge\"]\n[judge]\nbase-url = \"http://a/v1\"\nmodel = \"m\"\napi-key-env = \"sk-123\"",
            "not the name of an environment variable",
        ),
        (
            "grants = [\"judge\"]\n[judge]\nbase-url = \"http://a/v1\"\nmodel = \"m\"\nextra = { stream = true }",
            "decides this",
        ),
        ("limits = { wait = \"3s\" }", "waits for nobody"),
        ("gate = \"length => 1\"", "is not a condition"),
        ("gate = \"lenght >= 1\"", "`lenght`"),
        ("weights = { lenght = 2.0 }", "`lenght`"),
        ("name = \"too short\"", "cannot stand in a condition"),
        ("name = \"a\"\n[[reward]]\nname = \"a\"\nplugin = \"format\"", "two rewards have the name `a`"),
        ("combine = \"product\"\nweight = 0.0", "a factor of 0"),
    ];
    for (added, expected) in cases {
        let list = if added.contains("[[reward]]") { "[[reward]]\n" } else { "[reward]\n" };
        let dir = tiny_run(&[("[rollout]", &format!("{added}\n[rollout]")), ("[reward]\n", list)]);
        // What a recipe's text alone tells, and what its plugins must be asked about.
        let mut told = shown(&whet::run(dir.path(), &["recipe", "explain", "recipe.toml"]));
        if expected.contains("lenght") {
            told = shown(&whet::run(dir.path(), &["train", "recipe.toml"]));
        }
        assert!(told.contains(expected), "{added}: {told}");
    }
}

#[test]
fn a_gate_decides_whether_a_reward_counts() {
    let dir = tiny_run(&[
        ("[reward]\n", "[[reward]]\n"),
        ("[rollout]", "gate = \"reward < -0.2\"\n[rollout]"),
        ("steps = 8", "steps = 1"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let records = whet::trajectories(&dir.path().join("run"));
    let open = |value: f64| value < -0.2;
    let gated =
        records.iter().filter(|r| !open(r.components[0].value) && r.components[0].value < 0.0).count();
    assert!(gated > 0 && gated < records.len(), "{gated} of {}", records.len());
    for record in records {
        let value = record.components[0].value;
        assert_eq!(record.reward, Some(if open(value) { value } else { 0.0 }), "{}", record.id);
    }
}

/// Two lengths, the second counted where the first is far off: by its own name, and by one that was given.
#[test]
fn rewards_of_one_plugin_are_gated_by_their_names() {
    let of = |target: u32| {
        format!(
            "plugin = \"length\"\nconfig = {{ target = {target}, unit = \"characters\", mode = \"at-most\" }}"
        )
    };
    let one = format!("[reward]\n{}", of(20));
    for (given, first, second) in [("", "length", "length.2"), ("name = \"short\"\n", "short", "length")] {
        let gated = format!("weight = 10.0\ngate = \"{first}/reward < -0.2\"");
        let two = format!("[[reward]]\n{given}{}\n[[reward]]\n{}\n{gated}", of(20), of(4));
        let dir = tiny_run(&[(&one, &two), ("steps = 8", "steps = 1")]);
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
        let records = whet::trajectories(&dir.path().join("run"));
        let mut open = 0;
        for record in &records {
            let value = |reward: &str| {
                let name = format!("{reward}/reward");
                record.components.iter().find(|c| c.name == name).unwrap().value
            };
            let is_open = value(first) < -0.2;
            open += usize::from(is_open);
            let counted = if is_open { 10.0 * value(second) } else { 0.0 };
            assert_eq!(record.reward, Some(value(first) + counted), "{}", record.id);
        }
        assert!(open > 0 && open < records.len(), "{open} of {}", records.len());
    }
}

fn plugin(arguments: &[&str]) -> Output {
    Command::new(program()).arg("plugin").args(arguments).output().unwrap()
}

fn answers(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", shown(output));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn file(dir: &tempfile::TempDir, name: &str, lines: &[Value]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn canned_replies_stand_for_a_judge_and_every_case_is_read_right() {
    let cases =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases/judge.jsonl"))
            .unwrap();
    let cases: Vec<Value> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 8);
    for case in cases {
        let dir = tempfile::tempdir().unwrap();
        let id = case["id"].as_str().unwrap();
        let mut config = case["input"].as_object().unwrap().clone();
        let reply = config.remove("judge_reply").unwrap();
        let canned = file(&dir, "canned.jsonl", &[json!({"id": id, "reply": reply})]);
        let input =
            file(&dir, "in.jsonl", &[json!({"id": id, "prompt": "q", "response": "a", "label": "a"})]);
        let config = Value::Object(config).to_string();
        let output =
            plugin(&["run", "judge", "--config", &config, "--input", &input, "--canned-judge", &canned]);
        let answer = &answers(&output)[0];
        match &case["expected"] {
            Value::Null => assert_eq!(answer["outcome"], "unscorable", "{id}: {answer}"),
            expected => {
                let expected = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
                assert_eq!(answer["note"], expected.as_str(), "{id}: {answer}");
            }
        }
    }
}

#[test]
fn a_sample_without_a_canned_reply_is_an_error_and_its_neighbours_are_scored() {
    let dir = tempfile::tempdir().unwrap();
    let canned = file(
        &dir,
        "canned.jsonl",
        &[json!({"id": "a", "reply": "CORRECT"}), json!({"id": 3, "reply": "no idea"})],
    );
    let sample = |id: Value| json!({"id": id, "response": "x", "label": "x", "group": "g"});
    let input = file(&dir, "in.jsonl", &[sample(json!("a")), sample(json!("b")), sample(json!(3))]);
    let answers = answers(&plugin(&["run", "judge", "--input", &input, "--canned-judge", &canned]));
    assert_eq!((&answers[0]["outcome"], &answers[0]["reward"]), (&json!("scored"), &json!(1.0)));
    assert_eq!((&answers[1]["outcome"], &answers[1]["reward"]), (&json!("error"), &Value::Null));
    assert!(answers[1]["reason"].as_str().unwrap().contains("no canned reply for `b`"), "{}", answers[1]);
    assert_eq!(answers[2]["outcome"], "unscorable");
}

#[test]
fn a_judge_can_be_tried_without_a_recipe() {
    let server = judge();
    let dir = tempfile::tempdir().unwrap();
    let input = file(&dir, "in.jsonl", &[json!({"id": "a", "response": "even", "label": "x"})]);
    let config = r#"{"prompt": "Even? START>{{response}}<STOP"}"#;
    let url = server.url("/v1");
    let arguments =
        ["run", "judge", "--config", config, "--input", &input, "--judge-url", &url, "--judge-model", "m"];
    assert_eq!(answers(&plugin(&arguments))[0]["note"], "pass");
    // Without a judge there is none, and nobody is asked.
    let output = plugin(&["run", "judge", "--config", config, "--input", &input, "--grant", "judge"]);
    assert_eq!(answers(&output)[0]["outcome"], "error");
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_server_scores_for_the_remote_reward_where_its_host_is_granted() {
    let server = serve(|_, request, c| {
        let sent: Value = serde_json::from_str(&request.body).unwrap();
        match sent["response"].as_str().unwrap() {
            "broken" => respond(c, "500 Oops", &[], "{}"),
            "odd" => respond(c, "200 OK", &[], r#"{"unscorable": "odd"}"#),
            text => respond(c, "200 OK", &[], &json!({"reward": text.len()}).to_string()),
        }
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sample = |response: &str| json!({"id": response, "response": response, "label": "x", "group": "g"});
    let input = file(&dir, "in.jsonl", &["four", "odd", "broken"].map(sample));
    let config = json!({"url": server.url("/score")}).to_string();
    let grant = format!("http:{}", server.address);
    let output = plugin(&["run", "remote", "--config", &config, "--input", &input, "--grant", &grant]);
    let outcomes: Vec<Value> = answers(&output).iter().map(|a| json!([a["outcome"], a["reward"]])).collect();
    assert_eq!(outcomes, [json!(["scored", 4.0]), json!(["unscorable", null]), json!(["error", null])]);

    let denied =
        plugin(&["run", "remote", "--config", &config, "--input", &input, "--grant", "http:api.example.com"]);
    let answers = answers(&denied);
    assert!(answers.iter().all(|a| a["reason"].as_str().unwrap().contains("denied")), "{answers:?}");
    assert_eq!(server.received().len(), 3, "asked though it was not granted");
}
