//! Every mistake that a new user makes gets one clear message, an exit code, and loses nothing.

use crate::whet::{self, tiny_run};
use std::path::Path;

/// A mistake: how it is made, and what the message must contain.
struct Mistake {
    name: &'static str,
    /// Replacements in the recipe.
    recipe: &'static [(&'static str, &'static str)],
    /// A file to write beside it.
    file: Option<(&'static str, &'static [u8])>,
    /// Arguments; `train recipe.toml` unless given.
    arguments: &'static [&'static str],
    /// Parts of the message: what is wrong, and the remedy.
    says: &'static [&'static str],
}

const USUAL: Mistake =
    Mistake { name: "", recipe: &[], file: None, arguments: &["train", "recipe.toml"], says: &[] };

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "no such recipe",
        arguments: &["train", "recipes.toml"],
        says: &["recipes.toml", "does not exist", "recipe.toml"],
        ..USUAL
    },
    Mistake {
        name: "no such data file",
        recipe: &[("train = \"train.jsonl\"", "train = \"trian.jsonl\"")],
        says: &["trian.jsonl", "recipe.toml:4", "train.jsonl"],
        ..USUAL
    },
    Mistake {
        name: "no such model",
        recipe: &[("fixtures/llama", "fixtures/lama")],
        says: &["fixtures/lama", "llama"],
        ..USUAL
    },
    Mistake {
        name: "no such plugin",
        recipe: &[("plugin = \"length\"", "plugin = \"lenght\"")],
        says: &["lenght", "length"],
        ..USUAL
    },
    Mistake {
        name: "unknown key",
        recipe: &[("learning-rate", "learning-rte")],
        says: &["learning-rte", "recipe.toml:", "learning-rate"],
        ..USUAL
    },
    Mistake {
        name: "unknown key in --set",
        arguments: &["train", "recipe.toml", "--set", "train.stps=3"],
        says: &["train.stps", "steps"],
        ..USUAL
    },
    Mistake {
        name: "wrong column",
        recipe: &[("prompt-format", "columns = { prompt = \"question\" }\nprompt-format")],
        says: &["question", "train.jsonl", "prompt"],
        ..USUAL
    },
    Mistake {
        name: "broken row",
        file: Some(("train.jsonl", b"{\"prompt\": \"a\", \"label\": \"1\"}\n{\"prompt\": \"b\", \n")),
        says: &["train.jsonl:2", "JSON"],
        ..USUAL
    },
    Mistake {
        name: "garbage instead of wasm",
        recipe: &[("plugin = \"length\"", "plugin = \"garbage.wasm\""), ("config = ", "config = ")],
        file: Some(("garbage.wasm", b"this is no WebAssembly at all")),
        says: &["garbage.wasm", "not WebAssembly", "whet plugin"],
        ..USUAL
    },
    Mistake {
        name: "plugin of the wrong world",
        recipe: &[("plugin = \"length\"", "plugin = \"zero-variance\"")],
        says: &["zero-variance", "filter plugin", "reward plugin"],
        ..USUAL
    },
    Mistake {
        name: "option that the plugin does not know",
        recipe: &[("mode = \"at-most\"", "mod = \"at-most\"")],
        says: &["length", "mod", "whet plugin inspect"],
        ..USUAL
    },
    Mistake {
        name: "pinned digest of another plugin",
        recipe: &[(
            "plugin = \"length\"",
            "plugin = \"length\"\ndigest = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        )],
        says: &["length", "sha256:0000", "pins"],
        ..USUAL
    },
    Mistake {
        name: "absent GPU",
        arguments: &["train", "recipe.toml", "--set", "model.device=cuda:63"],
        says: &["cuda:63"],
        ..USUAL
    },
    Mistake {
        name: "every prompt too long",
        recipe: &[("prompt-format", "max-prompt-tokens = 2\nprompt-format")],
        says: &["24 are longer than data.max-prompt-tokens", "raise data.max-prompt-tokens"],
        ..USUAL
    },
    Mistake {
        name: "response beyond the model's positions",
        recipe: &[
            ("max-tokens = 12", "max-tokens = 9000"),
            ("steps = 8", "steps = 8\nmicro-batch-tokens = 20000"),
        ],
        says: &["9000", "8192", "rollout.max-tokens"],
        ..USUAL
    },
    Mistake {
        name: "nothing to resume",
        arguments: &["train", "recipe.toml", "--resume"],
        says: &["holds no run to resume", "leave --resume out"],
        ..USUAL
    },
    Mistake {
        name: "no run to export",
        arguments: &["export", "nowhere", "--output", "model"],
        says: &["nowhere", "neither a run directory nor a checkpoint"],
        ..USUAL
    },
    Mistake {
        name: "no model to ask",
        arguments: &["generate", "nowhere.gguf", "Hello"],
        says: &["nowhere.gguf", "does not exist"],
        ..USUAL
    },
    Mistake {
        name: "evaluation without test data",
        recipe: &[("test = \"test.jsonl\"\n", ""), ("[eval]\ntemperature = 1.0\n", "")],
        arguments: &["eval", "recipe.toml"],
        says: &["no test data", "data.test"],
        ..USUAL
    },
];

fn make(mistake: &Mistake) -> tempfile::TempDir {
    let dir = tiny_run(mistake.recipe);
    if let Some((name, bytes)) = mistake.file {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

#[test]
fn every_mistake_gets_one_clear_message() {
    let mut unclear = Vec::new();
    for mistake in MISTAKES {
        let dir = make(mistake);
        let output = whet::run(dir.path(), mistake.arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        let mut complain = |what: &str| unclear.push(format!("{}: {what}\n{error}", mistake.name));
        if output.status.code() != Some(1) {
            complain(&format!("ends with {}", output.status));
        }
        if error.matches("error: ").count() != 1 {
            complain("is not one message");
        }
        for part in mistake.says {
            if !error.contains(part) {
                complain(&format!("does not say {part:?}"));
            }
        }
        if error.contains("panicked") || error.contains("backtrace") {
            complain("shows its insides");
        }
    }
    assert!(unclear.is_empty(), "{}", unclear.join("\n---\n"));
}

#[test]
fn a_template_error_names_the_row() {
    let dir = tiny_run(&[("prompt-format = \"raw\"\n", "")]);
    let model = dir.path().join("model");
    copy_model(&model);
    let template =
        "{% for m in messages %}{{ raise_exception('only user and assistant roles') }}{% endfor %}";
    std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    let output =
        whet::run(dir.path(), &["train", "recipe.toml", "--set", &format!("model={}", model.display())]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("train.jsonl:1") && error.contains("only user and assistant roles"), "{error}");
}

#[test]
fn a_model_without_a_chat_template_is_told_with_the_way_around() {
    let dir = tiny_run(&[("prompt-format = \"raw\"\n", "")]);
    let model = dir.path().join("model");
    copy_model(&model);
    let path = model.join("tokenizer_config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("chat_template");
    std::fs::write(&path, config.to_string()).unwrap();
    let output =
        whet::run(dir.path(), &["train", "recipe.toml", "--set", &format!("model={}", model.display())]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no chat template") && error.contains("prompt-format = \"raw\""), "{error}");
}

#[test]
fn a_label_that_cannot_be_graded_is_found_by_the_doctor() {
    let length = "plugin = \"length\"\nconfig = { target = 20, unit = \"characters\", mode = \"at-most\" }";
    let dir = tiny_run(&[(length, "plugin = \"math-answer\"")]);
    let rows =
        "{\"prompt\": \"2 + 2?\", \"label\": \"4\"}\n{\"prompt\": \"Who?\", \"label\": \"Ada Lovelace\"}\n";
    std::fs::write(dir.path().join("train.jsonl"), rows).unwrap();
    let output = whet::run(dir.path(), &["doctor", "recipe.toml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot grade 1 of 2 rows") && said.contains("train.jsonl:2"), "{said}");

    std::fs::write(dir.path().join("train.jsonl"), rows.replace("Ada Lovelace", "7")).unwrap();
    let said = whet::succeed(dir.path(), &["doctor", "recipe.toml"]);
    assert!(said.contains("no problems") && said.contains("memory"), "{said}");
}

#[test]
fn a_full_disk_is_told_and_what_was_done_can_be_resumed() {
    // /dev/full refuses every byte, as a full disk does.
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = tiny_run(&[]);
    let run = dir.path().join("run");
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=4"]);
    std::fs::rename(run.join("metrics.jsonl"), run.join("metrics.kept")).unwrap();
    std::os::unix::fs::symlink("/dev/full", run.join("metrics.jsonl.tmp")).unwrap();
    std::fs::copy(run.join("metrics.kept"), run.join("metrics.jsonl")).unwrap();
    let output = whet::run(dir.path(), &["train", "recipe.toml", "--resume"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write") && error.contains("No space left"), "{error}");
    assert!(error.contains("= help: make room"), "{error}");

    std::fs::remove_file(run.join("metrics.jsonl.tmp")).unwrap();
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--resume"]);
    assert!(run.join("checkpoints/step-000008").exists());
}

#[test]
fn a_run_directory_is_not_written_over() {
    let dir = tiny_run(&[]);
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=2"]);
    let metrics = dir.path().join("run/metrics.jsonl");
    let before = std::fs::read(&metrics).unwrap();
    let output = whet::run(dir.path(), &["train", "recipe.toml"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("already holds a run") && error.contains("--resume"), "{error}");
    assert_eq!(std::fs::read(&metrics).unwrap(), before);
}

#[test]
fn a_run_that_ended_before_it_did_anything_keeps_no_folder_from_another() {
    let dir = tiny_run(&[]);
    let failed = whet::run(dir.path(), &["train", "recipe.toml", "--set", "rollout.kv-budget=2KiB"]);
    let error = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.code() == Some(1) && error.contains("budget"), "{error}");
    let doctor = whet::run(dir.path(), &["doctor", "recipe.toml", "--set", "rollout.kv-budget=2KiB"]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.code() == Some(1) && said.contains("raise rollout.kv-budget"), "{said}");
    assert!(dir.path().join("run").exists(), "the run had its folder when it failed");
    whet::succeed(dir.path(), &["train", "recipe.toml", "--quiet", "--set", "train.steps=1"]);
}

fn copy_model(to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(whet::tiny_model()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
