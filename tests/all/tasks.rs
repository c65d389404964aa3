//! What shares the trainer with reinforcement learning: a critic, a teacher, imitation, preferences, reward models.

use crate::whet::{self, tiny_model, tiny_run};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use whet_controller::setup;
use whet_http::testing::{Received, Server, serve};
use whet_model::Tokenizer;
use whet_observe::read_metrics;

/// A metric over the steps of a run.
fn curve(run: &Path, name: &str) -> Vec<f64> {
    let lines = read_metrics(&run.join("metrics.jsonl")).unwrap();
    lines.iter().filter_map(|line| line.metrics.get(name).copied()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const PPO: [(&str, &str); 3] = [
    ("[rollout]", "[critic]\nlearning-rate = 0.01\nepochs = 2\n[algorithm]\npreset = \"ppo\"\n[rollout]"),
    ("prompts-per-step = 4", "prompts-per-step = 8"),
    ("steps = 8", "steps = 16"),
];

#[test]
fn ppo_raises_the_reward_and_its_critic_comes_to_expect_it() {
    let dir = tiny_run(&PPO);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let (explained, reward) = (curve(&run, "critic/explained_variance"), curve(&run, "reward/mean"));
    assert_eq!((explained.len(), reward.len()), (16, 16));
    // The head starts at zero, so the first values explain nothing.
    assert_eq!(explained[0], 0.0);
    let loss = curve(&run, "critic/loss");
    assert!(mean(&loss[4..8]) < loss[0] * 0.5, "{loss:?}");
    assert!(mean(&reward[12..]) > mean(&reward[..4]) + 0.1, "{reward:?}");
    for name in ["critic/loss", "critic/clip_fraction", "critic/value_mean", "critic/grad_norm"] {
        assert!(curve(&run, name).iter().all(|v| v.is_finite()), "{name}");
    }
    assert!(run.join("checkpoints/step-000016/critic/weights.safetensors").exists());
}

#[test]
fn while_the_critic_learns_alone_the_policy_stands_still() {
    let dir = tiny_run(&PPO);
    let set = ["--set", "critic.critic-only-steps=2", "--set", "train.steps=3"];
    whet::succeed(dir.path(), &[&["train", "recipe.toml", "--quiet"], &set[..]].concat());
    let run = dir.path().join("run");
    assert_eq!(curve(&run, "train/version"), [1.0], "only the third step updates the policy");
    assert_eq!(curve(&run, "critic/loss").len(), 3);
}

#[test]
fn an_advantage_plugin_sees_the_critics_values() {
    let change = ("[algorithm]\npreset = \"ppo\"\n", "[advantage]\nplugin = \"group-norm\"\n");
    let mut changes = PPO;
    let critic = changes[0].1.replace(change.0, change.1);
    changes[0].1 = &critic;
    let dir = tiny_run(&changes);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=6"]);
    let loss = curve(&dir.path().join("run"), "critic/loss");
    assert!(loss[5] < loss[0], "{loss:?}");
}

/// A folder with a recipe for a task that samples nothing.
fn task(task: &str, rows: &str, more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("train.jsonl"), rows).unwrap();
    let test: String = rows.lines().take(4).map(|line| format!("{line}\n")).collect();
    std::fs::write(dir.path().join("test.jsonl"), test).unwrap();
    let recipe = format!(
        r#"seed = 3
task = "{task}"
model = "{}"
[data]
train = "train.jsonl"
test = "test.jsonl"
{more}
[train]
steps = 12
batch-size = 6
learning-rate = 0.003
[run]
dir = "run"
checkpoint-every = 4
"#,
        tiny_model().display()
    );
    std::fs::write(dir.path().join("recipe.toml"), recipe).unwrap();
    dir
}

fn answers() -> String {
    (0..18)
        .map(|i| format!("{}\n", json!({"prompt": format!("Say {i}:"), "label": format!("{i} it is")})))
        .collect()
}

fn conversations() -> String {
    let row = |i: usize| {
        json!({"messages": [
            {"role": "user", "content": format!("What is {i}?")},
            {"role": "assistant", "content": format!("It is {i}.")},
            {"role": "user", "content": "Sure?"},
            {"role": "assistant", "content": "Yes."}
        ]})
    };
    (0..18).map(|i| format!("{}\n", row(i))).collect()
}

fn pairs() -> String {
    let row = |i: usize| json!({"prompt": format!("What is {i}?"), "chosen": format!("It is {i}."), "rejected": "No idea, sorry."});
    (0..18).map(|i| format!("{}\n", row(i))).collect()
}

#[test]
fn imitation_lowers_the_loss_and_the_model_that_is_exported_has_learnt() {
    for (rows, more) in
        [(answers(), "prompt-format = \"raw\""), (conversations(), "columns = { prompt = \"messages\" }")]
    {
        let dir = task("sft", &rows, more);
        let said = whet::succeed(dir.path(), &["train", "recipe.toml"]);
        assert!(said.contains("perplexity") && said.contains("step 12/12"), "{said}");
        let run = dir.path().join("run");
        let (loss, measured) = (curve(&run, "train/loss"), curve(&run, "eval/loss"));
        assert_eq!((loss.len(), measured.len()), (12, 2));
        assert!(loss[11] < loss[0] * 0.7 && measured[1] < measured[0] * 0.7, "{loss:?} {measured:?}");
        let perplexity = curve(&run, "eval/perplexity");
        assert!((perplexity[1] - measured[1].exp()).abs() < 1e-6);
        whet::succeed(dir.path(), &["export", "run", "--output", "model"]);
        let model = dir.path().join("model").display().to_string();
        let again = ["train", "recipe.toml", "--run-dir", "again", "--set", "train.steps=1", "--set"];
        let source = format!("model.source={}", json!(model));
        whet::succeed(dir.path(), &[&again[..], &[&source, "--quiet"]].concat());
        let again = curve(&dir.path().join("again"), "eval/loss");
        assert!((again[0] - measured[1]).abs() < 1e-4, "{again:?} after {measured:?}");
    }
}

#[test]
fn only_the_last_turn_is_learnt_where_the_recipe_says_so() {
    let more = "columns = { prompt = \"messages\" }\n[sft]\nturns = \"last\"";
    let tokens = |more: &str| {
        let dir = task("sft", &conversations(), more);
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=1"]);
        curve(&dir.path().join("run"), "train/tokens")[0]
    };
    let (last, all) = (tokens(more), tokens("columns = { prompt = \"messages\" }"));
    assert!(last > 0.0 && last < all * 0.7, "{last} of {all}");
}

#[test]
fn preferences_are_learnt_and_measured() {
    for loss in ["sigmoid", "hinge", "ipo"] {
        let dir = task("dpo", &pairs(), &format!("[dpo]\nloss = \"{loss}\"\nbeta = 0.2"));
        let said = whet::succeed(dir.path(), &["train", "recipe.toml"]);
        assert!(said.contains("accuracy") && said.contains("margin"), "{said}");
        let run = dir.path().join("run");
        let (accuracy, margin) = (curve(&run, "eval/accuracy"), curve(&run, "eval/margin"));
        assert_eq!(accuracy[0], 0.5, "a policy that is the reference prefers nothing");
        assert!(accuracy[1] > 0.9 && margin[1] > 0.05, "{loss}: {accuracy:?} {margin:?}");
        let loss = curve(&run, "train/loss");
        assert!(loss[11] < loss[0], "{loss:?}");
    }
}

#[test]
fn whole_conversations_are_pairs_too_and_equal_answers_are_left_out() {
    let row = |i: usize, rejected: &str| {
        let with = |answer: &str| json!([{"role": "user", "content": format!("What is {i}?")}, {"role": "assistant", "content": answer}]);
        format!("{}\n", json!({"chosen": with("It is so."), "rejected": with(rejected)}))
    };
    let rows: String =
        (0..12).map(|i| row(i, if i == 7 { "It is so." } else { "No idea, sorry." })).collect();
    let dir = task("dpo", &rows, "");
    let said = whet::succeed(dir.path(), &["train", "recipe.toml", "--set", "train.steps=2"]);
    assert!(said.contains("1 rows have twice the same answer") && said.contains("11 rows"), "{said}");
    // Two answers that do not say what was asked are no pair.
    let dir = task("dpo", &format!("{}\n", json!({"chosen": "Yes.", "rejected": "No."})), "");
    let output = whet::run(dir.path(), &["train", "recipe.toml"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("train.jsonl:1") && error.contains("the prompt is not known"), "{error}");
}

#[test]
fn a_reward_model_learns_is_exported_as_a_classifier_and_becomes_a_critic() {
    let dir = task("reward-model", &pairs(), "");
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let run = dir.path().join("run");
    let accuracy = curve(&run, "eval/accuracy");
    assert_eq!(accuracy, [0.5, 1.0]);
    whet::succeed(dir.path(), &["export", "run", "--output", "judge"]);
    let config: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("judge/config.json")).unwrap()).unwrap();
    assert_eq!(config["architectures"], json!(["LlamaForSequenceClassification"]));
    assert_eq!(config["id2label"], json!({"0": "LABEL_0"}));
    let bytes = std::fs::read(dir.path().join("judge/model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("score.weight").unwrap().shape(), [1, 72]);
    assert!(tensors.tensor("lm_head.weight").is_err());

    let judge = dir.path().join("judge").display().to_string();
    let critic = PPO[0].1.replace("[critic]", &format!("[critic]\nsource = {}", json!(judge)));
    let ppo = tiny_run(&[(PPO[0].0, &critic)]);
    whet::succeed(ppo.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=1"]);
    let values = curve(&ppo.path().join("run"), "critic/value_mean");
    assert!(values[0] != 0.0, "the head came along");
    // A classifier has no output layer to sample with.
    let other = format!("model.source={}", json!(judge));
    let output = whet::run(ppo.path(), &["train", "recipe.toml", "--run-dir", "x", "--set", &other]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("LlamaForSequenceClassification"));
}

/// The tiny model after it imitated something: a teacher that differs from it.
fn teacher() -> (tempfile::TempDir, String) {
    let dir = task("sft", &answers(), "prompt-format = \"raw\"");
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    whet::succeed(dir.path(), &["export", "run", "--output", "model"]);
    let path = json!(dir.path().join("model").display().to_string()).to_string();
    (dir, path)
}

#[test]
fn the_divergence_from_a_teacher_falls_alone_and_beside_rewards() {
    let (_kept, source) = teacher();
    for (loss, reward) in [
        ("{ divergence = \"reverse\" }", false),
        ("{ divergence = \"forward\", top-k = 16 }", false),
        ("{ divergence = \"jensen\", coefficient = 5.0 }", true),
    ] {
        let dir =
            tiny_run(&[("[rollout]", &format!("[teacher]\nsource = {source}\nloss = {loss}\n[rollout]"))]);
        if !reward {
            let text = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
            let (before, rest) = text.split_once("[reward]").unwrap();
            let (_, after) = rest.split_once("[teacher]").unwrap();
            std::fs::write(dir.path().join("recipe.toml"), format!("{before}[teacher]{after}")).unwrap();
        }
        whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
        let divergence = curve(&dir.path().join("run"), "loss/teacher");
        assert_eq!(divergence.len(), 8);
        // Beside rewards it need not fall at every step.
        let last = (divergence[6] + divergence[7]) / 2.0;
        assert!(last < divergence[0] * 0.8, "{loss}: {divergence:?}");
    }
}

#[test]
fn a_teacher_in_the_advantages_pulls_the_policy_to_itself() {
    let (_kept, source) = teacher();
    let sections = format!("[algorithm]\npreset = \"distillation\"\n[teacher]\nsource = {source}\n[rollout]");
    let dir = tiny_run(&[
        ("[rollout]", &sections),
        ("steps = 8", "steps = 16"),
        ("learning-rate = 0.01", "learning-rate = 0.003"),
        ("prompts-per-step = 4", "prompts-per-step = 8"),
    ]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet"]);
    let apart = curve(&dir.path().join("run"), "teacher/kl");
    assert!(mean(&apart[12..]) < mean(&apart[..4]) * 0.8, "{apart:?}");
}

#[test]
fn a_teacher_with_another_tokenizer_is_refused_with_the_first_token_that_differs() {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(tiny_model()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            std::fs::copy(&file, dir.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    let path = dir.path().join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap().replace("<|im_start|>", "<|other|>");
    std::fs::write(&path, text).unwrap();
    let source = json!(dir.path().display().to_string());
    let run = tiny_run(&[("[rollout]", &format!("[teacher]\nsource = {source}\nloss = {{}}\n[rollout]"))]);
    let output = whet::run(run.path(), &["train", "recipe.toml"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("another tokenizer") && error.contains("token 1 is \"<|other|>\" there"),
        "{error}"
    );
}

fn answer(connection: &mut TcpStream, status: &str, body: &str) {
    let _ = write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

fn prompt(request: &Received) -> (Value, Vec<u32>) {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let ids = body["prompt"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    (body, ids)
}

/// A server in vLLM's manner whose teacher expects token 40 with probability 0.7 everywhere.
fn server(tokenizer: Tokenizer, failures: usize) -> Server {
    serve(move |number, request, connection| {
        if (1..=failures).contains(&number) {
            return answer(connection, "503 Service Unavailable", "warming up");
        }
        let (body, ids) = prompt(request);
        let top = body["prompt_logprobs"].as_u64().unwrap_or(0);
        let entry = |t: usize| {
            let mut entry = serde_json::Map::new();
            for id in 40..40 + top as u32 {
                let logprob = if id == 40 { 0.7f64.ln() } else { -4.0 - f64::from(id - 40) };
                entry.insert(id.to_string(), json!({"logprob": logprob, "decoded_token": "?"}));
            }
            let word = tokenizer.decode(&ids[t..=t], false).unwrap();
            let own = if ids[t] == 40 { 0.7f64.ln() } else { -6.0 };
            entry.insert(ids[t].to_string(), json!({"logprob": own, "decoded_token": word}));
            Value::Object(entry)
        };
        let list: Vec<Value> = (0..ids.len()).map(|t| if t == 0 { Value::Null } else { entry(t) }).collect();
        answer(
            connection,
            "200 OK",
            &json!({"choices": [{"text": "x", "prompt_logprobs": list}]}).to_string(),
        );
    })
    .unwrap()
}

fn at_server(url: &str, loss: &str) -> tempfile::TempDir {
    let teacher =
        format!("[teacher]\nbase-url = \"{url}\"\nmodel = \"big\"\napi-key-env = \"TEACHER_KEY\"\n{loss}");
    tiny_run(&[("[rollout]", &format!("{teacher}\n[rollout]")), ("steps = 8", "steps = 6")])
}

#[test]
fn a_teacher_at_a_server_teaches_its_likeliest_tokens_after_a_failure_that_passes() {
    let tokenizer = Tokenizer::from_file(&tiny_model().join("tokenizer.json")).unwrap();
    let server = server(tokenizer, 2);
    let dir = at_server(&server.url("/v1"), "loss = { divergence = \"forward\", top-k = 4, alone = true }");
    let output =
        whet::whet(dir.path(), &["train", "recipe.toml"]).env("TEACHER_KEY", "sk-secret-1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = dir.path().join("run");
    let divergence = curve(&run, "loss/teacher");
    assert!(divergence[5] < divergence[0] * 0.8, "{divergence:?}");
    let received = server.received();
    assert!(received.iter().all(|r| r.header("authorization") == Some("Bearer sk-secret-1")));
    assert_eq!(received[0].line, "POST /v1/completions HTTP/1.1");
    // Nothing that the run wrote holds the key.
    for entry in ["recipe.resolved.toml", "manifest.json", "metrics.jsonl"] {
        assert!(!std::fs::read_to_string(run.join(entry)).unwrap().contains("sk-secret"), "{entry}");
    }
}

#[test]
fn a_server_that_echoes_serves_the_advantages_and_is_told_what_it_cannot() {
    let tokenizer = Tokenizer::from_file(&tiny_model().join("tokenizer.json")).unwrap();
    let server = serve(move |_, request, connection| {
        let (body, ids) = prompt(request);
        let mut choice = json!({"text": "x"});
        if body["echo"] == json!(true) {
            let words: Vec<String> = ids.iter().map(|id| tokenizer.decode(&[*id], false).unwrap()).collect();
            let logprobs: Vec<Value> =
                (0..=ids.len()).map(|t| if t == 0 { Value::Null } else { json!(-2.5) }).collect();
            choice["logprobs"] = json!({"tokens": words, "token_logprobs": logprobs});
        }
        answer(connection, "200 OK", &json!({"choices": [choice]}).to_string());
    })
    .unwrap();
    let run = |loss: &str| {
        let dir = at_server(&server.url("/v1"), loss);
        let arguments = ["train", "recipe.toml", "--set", "train.steps=1"];
        let output = whet::whet(dir.path(), &arguments).env("TEACHER_KEY", "sk-1").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, error) = run("[algorithm]\npreset = \"distillation\"");
    assert!(done, "{error}");
    let (done, error) = run("loss = { top-k = 4 }");
    assert!(!done && error.contains("as texts, not as ids"), "{error}");
}

#[test]
fn a_server_that_refuses_or_reads_other_tokens_is_told_clearly_and_without_the_key() {
    let refusing = serve(|_, _, connection| {
        answer(connection, "401 Unauthorized", "wrong key sk-secret-2");
    })
    .unwrap();
    let other = serve(|_, request, connection| {
        let (_, ids) = prompt(request);
        let entry = |t: usize| json!({ids[t].to_string(): {"logprob": -1.0, "decoded_token": "other"}});
        let list: Vec<Value> = (0..ids.len()).map(|t| if t == 0 { Value::Null } else { entry(t) }).collect();
        answer(connection, "200 OK", &json!({"choices": [{"prompt_logprobs": list}]}).to_string());
    })
    .unwrap();
    for (server, said) in [(&refusing, "status 401: wrong key [key]"), (&other, "has another tokenizer")] {
        let dir = at_server(&server.url("/v1"), "loss = { top-k = 4 }");
        let mut command = whet::whet(dir.path(), &["train", "recipe.toml"]);
        let output = command.env("TEACHER_KEY", "sk-secret-2").output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said) && error.contains("= help:"), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
    }
    let dir = at_server("http://127.0.0.1:1/v1", "loss = { top-k = 4 }");
    let output = whet::run(dir.path(), &["train", "recipe.toml"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`TEACHER_KEY` is not set"));
}

/// Which text of a conversation is learnt, under the template of a fixture.
fn learnt(template: &str, messages: &Value, turns: &dyn Fn(usize) -> bool) -> String {
    use whet_trajectory::Message;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let tokenizer = Tokenizer::from_file(&tiny_model().join("tokenizer.json")).unwrap();
    let file: Value = serde_json::from_slice(
        &std::fs::read(folder.join(format!("chat_templates/{template}.json"))).unwrap(),
    )
    .unwrap();
    let source = file["template"].as_str().or(file["chat_template"].as_str()).unwrap();
    let template = whet_model::ChatTemplate::new(source, None, serde_json::Map::new()).unwrap();
    let kwargs = serde_json::Map::new();
    let style = whet_controller::prompt::PromptStyle {
        format: whet_recipe::PromptFormat::Chat,
        kwargs: &kwargs,
        tokenizer: &tokenizer,
        template: Some(&template),
        model: "m",
    };
    let messages: Vec<Message> =
        messages.as_array().unwrap().iter().map(|m| Message::from_json(m).unwrap()).collect();
    let text = style.text(&messages, turns, &[2], "row").unwrap();
    let ids: Vec<u32> = text.ids.iter().zip(&text.learnt).filter(|(_, l)| **l).map(|(id, _)| *id).collect();
    tokenizer.decode(&ids, false).unwrap()
}

#[test]
fn what_the_assistant_says_is_learnt_with_its_end_of_turn_and_nothing_else() {
    let messages = json!([
        {"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three?"}, {"role": "assistant", "content": "Four."}
    ]);
    assert_eq!(learnt("chatml_smol", &messages, &|_| true), "Two.<|im_end|>Four.<|im_end|>");
    assert_eq!(learnt("chatml_smol", &messages, &|i| i == 3), "Four.<|im_end|>");
    assert_eq!(learnt("qwen25_tools", &messages, &|_| true), "Two.<|im_end|>Four.<|im_end|>");
    // A template that writes thoughts into the last turn only: earlier turns are found all the same.
    let thinking = learnt("qwen3_think", &messages, &|_| true);
    assert!(thinking.starts_with("Two.<|im_end|>") && thinking.ends_with("Four.<|im_end|>"), "{thinking}");
    assert!(!thinking.contains("Three"), "{thinking}");
}

#[test]
fn models_of_one_tokenizer_are_told_from_others() {
    let dir = task("sft", &answers(), "prompt-format = \"raw\"");
    let recipe = whet_recipe::Recipe::load(&dir.path().join("recipe.toml")).unwrap();
    let model = setup::load_model(&recipe).unwrap();
    setup::same_tokenizer("teacher", "m", &model.checkpoint, &model.checkpoint).unwrap();
}
