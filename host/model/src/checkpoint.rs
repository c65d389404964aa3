//! A model as it is kept: configuration, weights, tokenizer and chat template, from a folder in the
//! hub's layout, a GGUF file, or the hub; and back into a folder.

use crate::config::Config;
use crate::decoder::Weights;
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use crate::{gguf_tokenizer, hub, scorer, weights};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use tch::{Device, Kind};

/// A loaded model.
#[derive(Debug)]
pub struct Checkpoint {
    /// The decoder's shape.
    pub config: Config,
    /// The weights, by Hugging Face name.
    pub weights: Weights,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The chat template, where the model has one.
    pub template: Option<ChatTemplate>,
    /// What the user named: folder, file or `hf://` id.
    pub origin: String,
    /// What a saved copy needs besides weights.
    pub files: Files,
}

/// The small files of a checkpoint by name: configuration, tokenizer, template. All that
/// [`save`] needs besides weights, so that a trainer can hold it alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, Vec<u8>>);

/// The small files that travel with a model.
const CARRIED: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
];

/// Loads a model from a folder, a `.gguf` file, or `hf://org/name[@revision]`.
///
/// Weights are converted to `kind` and put on `device`.
///
/// # Errors
/// When something is missing, damaged or not supported; the message names file and remedy.
pub fn load(source: &str, kind: Kind, device: Device) -> Result<Checkpoint, ModelError> {
    load_as(source, Purpose::Causal, kind, device)
}

/// As [`load`], for a scalar head: a model that transformers' sequence classification saved, with one label, is
/// taken too, and its head is among the weights as `score.weight`.
///
/// # Errors
/// As [`load`].
pub fn load_scored(source: &str, kind: Kind, device: Device) -> Result<Checkpoint, ModelError> {
    load_as(source, Purpose::Scored, kind, device)
}

/// What a model is loaded for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To say which token comes next.
    Causal,
    /// To score.
    Scored,
}

fn load_as(source: &str, purpose: Purpose, kind: Kind, device: Device) -> Result<Checkpoint, ModelError> {
    if let Some(name) = source.strip_prefix("hf://") {
        let folder = hub::fetch(name)?;
        return load_folder(&folder, source, purpose, kind, device);
    }
    let path = Path::new(source);
    if path.is_dir() {
        return load_folder(path, source, purpose, kind, device);
    }
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) {
        return load_gguf(path, source, kind, device);
    }
    let help = if path.exists() {
        return Err(ModelError::config(
            source,
            "a model is a folder with `config.json`, a `.gguf` file, or `hf://org/name`",
        ));
    } else if let Some(id) = source.strip_prefix("https://huggingface.co/") {
        format!("; a model of the hub is written `hf://{id}`")
    } else if source.split('/').count() == 2 && !source.starts_with(['.', '/']) {
        format!("; a model of the hub is written `hf://{source}`")
    } else {
        String::new()
    };
    Err(ModelError::Missing { path: path.to_owned(), help })
}

fn load_folder(
    folder: &Path,
    source: &str,
    purpose: Purpose,
    kind: Kind,
    device: Device,
) -> Result<Checkpoint, ModelError> {
    let mut files = Files::default();
    for name in CARRIED {
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => drop(files.0.insert(name.to_owned(), bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(ModelError::io("read", &path, e)),
        }
    }
    let origin = |name: &str| folder.join(name).display().to_string();
    let raw = files.json("config.json", &origin("config.json"))?;
    let raw = raw.ok_or_else(|| {
        let adapter = folder.join("adapter_config.json").exists();
        let help = if adapter { "; the folder holds a LoRA adapter, not a model" } else { "" };
        ModelError::Missing { path: folder.join("config.json"), help: help.to_owned() }
    })?;
    let generation = files.json("generation_config.json", &origin("generation_config.json"))?;
    let scored = if purpose == Purpose::Scored { scorer::causal_form(&raw) } else { None };
    let config =
        Config::from_json(scored.as_ref().unwrap_or(&raw), generation.as_ref(), &origin("config.json"))?;
    let head = scored.map(|_| scorer::head(&config));
    let tokenizer = Tokenizer::from_file(&folder.join("tokenizer.json"))?;
    let template = files.template(&origin("tokenizer_config.json"))?;
    let weights = weights::read_with(folder, &config, head.into_iter().collect(), kind, device)?;
    Ok(Checkpoint { config, weights, tokenizer, template, origin: source.to_owned(), files })
}

fn load_gguf(path: &Path, source: &str, kind: Kind, device: Device) -> Result<Checkpoint, ModelError> {
    let gguf = Gguf::open(path)?;
    let config = gguf.config()?;
    let tokenizer = gguf_tokenizer::tokenizer(&gguf)?;
    let mut about = gguf_tokenizer::tokenizer_config(&gguf);
    if let Some(template) = gguf.get("tokenizer.chat_template") {
        about.insert("chat_template".into(), template.clone());
    }
    let mut files = Files::default();
    let ends = match config.eos.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    for (name, content) in [
        ("config.json", config.raw.clone()),
        ("generation_config.json", json!({"bos_token_id": config.bos, "eos_token_id": ends})),
        ("tokenizer_config.json", Value::Object(about)),
    ] {
        files.0.insert(name.to_owned(), pretty(&content));
    }
    files.0.insert("tokenizer.json".into(), tokenizer.json().to_vec());
    let template = files.template(source)?;
    let weights = gguf.weights(&config, kind, device)?;
    Ok(Checkpoint { config, weights, tokenizer, template, origin: source.to_owned(), files })
}

impl Files {
    fn json(&self, name: &str, origin: &str) -> Result<Option<Value>, ModelError> {
        let parse = |bytes: &Vec<u8>| {
            serde_json::from_slice(bytes)
                .map_err(|e| ModelError::config(origin, format!("malformed JSON: {e}")))
        };
        self.0.get(name).map(parse).transpose()
    }

    /// The template of `chat_template.jinja`, or of `tokenizer_config.json`.
    fn template(&self, origin: &str) -> Result<Option<ChatTemplate>, ModelError> {
        let about = self.json("tokenizer_config.json", origin)?.unwrap_or_default();
        let special = special_tokens(&about);
        if let Some(source) = self.0.get("chat_template.jinja") {
            let source = std::str::from_utf8(source)
                .map_err(|_| ModelError::config("chat_template.jinja", "it is not UTF-8 text"))?;
            return Ok(Some(ChatTemplate::new(source, None, special)?));
        }
        // One template, or a list of named ones.
        let (default, tools) = match about.get("chat_template") {
            Some(Value::String(source)) => (Some(source.as_str()), None),
            Some(Value::Array(list)) => {
                let named = |name: &str| {
                    let entry = list.iter().find(|t| t.get("name").and_then(Value::as_str) == Some(name));
                    entry.and_then(|t| t.get("template")).and_then(Value::as_str)
                };
                (named("default"), named("tool_use"))
            }
            _ => (None, None),
        };
        Ok(default.map(|source| ChatTemplate::new(source, tools, special)).transpose()?)
    }
}

/// The named special tokens of a `tokenizer_config.json`, which templates use as variables.
fn special_tokens(about: &Value) -> Map<String, Value> {
    let mut tokens = Map::new();
    for (name, value) in about.as_object().into_iter().flatten() {
        let text = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
        if let (true, Some(text)) = (name.ends_with("_token"), text) {
            tokens.insert(name.clone(), json!(text));
        }
    }
    tokens
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

impl Checkpoint {
    /// The token that fills batches up, which a text does not end with: of `config.json`, else of
    /// `tokenizer_config.json`.
    pub fn padding(&self) -> Option<u32> {
        let stated = self.config.raw.get("pad_token_id").and_then(Value::as_u64);
        if let Some(id) = stated.and_then(|id| u32::try_from(id).ok()) {
            return Some(id);
        }
        let about = self.files.json("tokenizer_config.json", "tokenizer_config.json").ok()??;
        let token = about.get("pad_token")?;
        self.tokenizer.id(token.as_str().or_else(|| token.get("content")?.as_str())?)
    }
}

/// Writes a model with a scalar head as transformers' sequence classification reads it; else as [`save`].
///
/// * `padding`: [`Checkpoint::padding`], by which transformers finds the last token of a text
///
/// # Errors
/// When something cannot be written.
pub fn save_scored(
    folder: &Path,
    files: &Files,
    weights: &Weights,
    padding: Option<u32>,
) -> Result<(), ModelError> {
    let mut files = files.clone();
    if let Some(config) = files.json("config.json", "config.json")? {
        files.0.insert("config.json".into(), pretty(&scorer::classifier_form(&config, padding)));
    }
    save(folder, &files, weights)
}

/// Writes a model into a folder in the hub's layout: weights in safetensors, in their own kind, and
/// the small files. The folder is made; files of the same names are replaced.
///
/// # Errors
/// When something cannot be written.
pub fn save(folder: &Path, files: &Files, weights: &Weights) -> Result<(), ModelError> {
    std::fs::create_dir_all(folder).map_err(|e| ModelError::io("create", folder, e))?;
    for (name, bytes) in &files.0 {
        let path = folder.join(name);
        let bytes = if name == "config.json" { &with_kind(bytes, weights) } else { bytes };
        std::fs::write(&path, bytes).map_err(|e| ModelError::io("write", &path, e))?;
    }
    weights::write(folder, weights)
}

/// `config.json` with the kind that the weights now have.
fn with_kind(bytes: &[u8], weights: &Weights) -> Vec<u8> {
    let kind = match weights.values().next().map(tch::Tensor::kind) {
        Some(Kind::BFloat16) => "bfloat16",
        Some(Kind::Half) => "float16",
        Some(Kind::Double) => "float64",
        _ => "float32",
    };
    let Ok(mut config) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return bytes.to_vec() };
    let field = if config.contains_key("dtype") { "dtype" } else { "torch_dtype" };
    config.insert(field.into(), json!(kind));
    pretty(&Value::Object(config))
}
