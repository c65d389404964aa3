//! What goes wrong with a model is said in one message that names the file, what is there, and what helps.

use super::fixtures;
use serde_json::{Value, json};
use std::path::Path;
use tch::{Device, Kind, Tensor};
use whet_model::load;

/// A copy of the `llama` folder, to be broken.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = fixtures().join("llama");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        std::fs::copy(model.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn message(source: &Path) -> String {
    load(source.to_str().unwrap(), Kind::Float, Device::Cpu).unwrap_err().to_string()
}

/// One line that has all the words.
#[track_caller]
pub fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    assert!(!message.contains('\n'), "{message}");
}

fn edit(folder: &Path, key: &str, value: Value) {
    let path = folder.join("config.json");
    let mut config = super::json(&path);
    config[key] = value;
    std::fs::write(path, config.to_string()).unwrap();
}

/// Rewrites the weights with a change.
fn rewrite(folder: &Path, change: impl Fn(&mut whet_model::Weights)) {
    let mut weights = load(folder.to_str().unwrap(), Kind::Float, Device::Cpu).unwrap().weights;
    change(&mut weights);
    whet_model::write_tensors(&folder.join("model.safetensors"), &weights).unwrap();
}

#[test]
fn a_missing_folder_is_named_and_a_hub_name_is_recognised() {
    says(&message(Path::new("/nowhere/model")), &["/nowhere/model", "does not exist"]);
    says(&message(Path::new("acme/tiny")), &["acme/tiny", "hf://acme/tiny"]);
    says(&message(Path::new("/nowhere/model.gguf")), &["/nowhere/model.gguf", "does not exist"]);
}

#[test]
fn every_missing_file_is_named() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = copy();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        says(&message(folder.path()), &[name, "does not exist"]);
    }
}

#[test]
fn a_file_that_is_no_model_is_told_what_a_model_is() {
    let folder = copy();
    says(
        &message(&folder.path().join("tokenizer.json")),
        &["tokenizer.json", "config.json", ".gguf", "hf://"],
    );
}

#[test]
fn an_unsupported_architecture_names_the_supported_ones() {
    let folder = copy();
    edit(folder.path(), "architectures", json!(["MambaForCausalLM"]));
    says(
        &message(folder.path()),
        &["config.json", "MambaForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM"],
    );
}

#[test]
fn malformed_files_are_named() {
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        let folder = copy();
        std::fs::write(folder.path().join(name), "{ nonsense").unwrap();
        says(&message(folder.path()), &[name]);
    }
    let folder = copy();
    let template = json!({"chat_template": "{% for %}"});
    std::fs::write(folder.path().join("tokenizer_config.json"), template.to_string()).unwrap();
    says(&message(folder.path()), &["chat template", "malformed", "line 1"]);
}

#[test]
fn truncated_weights_are_recognised_wherever_they_end() {
    let whole = std::fs::read(fixtures().join("llama/model.safetensors")).unwrap();
    for length in [0, 4, 100, 2000, whole.len() / 2, whole.len() - 1] {
        let folder = copy();
        std::fs::write(folder.path().join("model.safetensors"), &whole[..length]).unwrap();
        says(&message(folder.path()), &["model.safetensors", "damaged"]);
    }
}

#[test]
fn a_missing_tensor_and_a_wrong_shape_name_the_tensor() {
    let name = "model.layers.1.mlp.up_proj.weight";
    let folder = copy();
    rewrite(folder.path(), |weights| {
        weights.remove(name);
    });
    says(&message(folder.path()), &[name, "no tensor"]);

    let folder = copy();
    rewrite(folder.path(), |weights| {
        weights.insert(name.to_owned(), Tensor::zeros([3, 5], (Kind::Float, Device::Cpu)));
    });
    says(&message(folder.path()), &[name, "[3, 5]", "[192, 72]"]);
}

#[test]
fn a_missing_shard_is_named_and_a_shard_outside_the_folder_is_refused() {
    let shards = |file: &str| {
        let folder = copy();
        let config = super::json(&folder.path().join("config.json"));
        let config = whet_model::Config::from_json(&config, None, "config.json").unwrap();
        let map: serde_json::Map<String, Value> =
            config.tensors().into_iter().map(|(name, _)| (name, json!(file))).collect();
        let index = json!({"weight_map": map}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        message(folder.path())
    };
    says(
        &shards("model-00001-of-00002.safetensors"),
        &["model-00001-of-00002.safetensors", "does not exist"],
    );
    says(&shards("../model.safetensors"), &["model.safetensors.index.json", "file name"]);
}

#[test]
fn a_malformed_hub_name_is_told_how_to_write_it() {
    says(&message(Path::new("hf://tiny")), &["hf://tiny", "hf://org/name"]);
}

/// The hub's address comes from the environment, so this runs in a process of its own.
#[test]
fn an_unreachable_hub_is_named_with_a_remedy() {
    if std::env::var_os("WHET_TEST_UNREACHABLE_HUB").is_some() {
        println!("said: {}", message(Path::new("hf://acme/tiny@main")));
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let this = std::thread::current().name().unwrap().to_owned();
    for (name, value, words) in [
        ("HF_ENDPOINT", "http://127.0.0.1:9", ["http://127.0.0.1:9", ".gguf", "HF_ENDPOINT"]),
        ("HF_HUB_OFFLINE", "1", ["hf://acme/tiny@main", ".gguf", "HF_HUB_OFFLINE"]),
    ] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &this, "--nocapture"])
            .env("WHET_TEST_UNREACHABLE_HUB", "1")
            .env("HF_HOME", cache.path())
            .env(name, value)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = output.split("said: ").nth(1).unwrap_or_else(|| panic!("{output}"));
        says(said.lines().next().unwrap(), &words);
    }
}
