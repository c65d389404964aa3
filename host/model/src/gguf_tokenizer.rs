//! A GGUF file's tokenizer as a `tokenizer.json`, and what templates need of it.
//!
//! GGUF names the pre-tokenizer instead of describing it (`tokenizer.ggml.pre`); the ones of the
//! supported families are here, as `llama-vocab.cpp` has them.

use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Words, single digits, punctuation: Qwen2 and later.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As Qwen2, with up to three digits: Llama 3.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Types of tokens in `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The tokenizer of a GGUF file.
///
/// # Errors
/// When the metadata is incomplete or describes a tokenizer that is not supported.
pub fn tokenizer(gguf: &Gguf) -> Result<Tokenizer, ModelError> {
    let error = |reason: String| ModelError::Tokenizer { origin: gguf.origin(), reason };
    let vocabulary = Vocabulary::read(gguf).map_err(error)?;
    let model = gguf.get("tokenizer.ggml.model").and_then(Value::as_str).unwrap_or("none");
    let mut description = match model {
        "gpt2" => {
            let pre = gguf.get("tokenizer.ggml.pre").and_then(Value::as_str).unwrap_or("default");
            let merges = gguf.get("tokenizer.ggml.merges").and_then(Value::as_array);
            let merges = merges.ok_or_else(|| error("`tokenizer.ggml.merges` is missing".into()))?;
            byte_level(pre, &vocabulary, merges).map_err(error)?
        }
        "llama" => {
            let scores = gguf.get("tokenizer.ggml.scores").and_then(Value::as_array);
            let scores = scores.ok_or_else(|| error("`tokenizer.ggml.scores` is missing".into()))?;
            let space = gguf.get("tokenizer.ggml.add_space_prefix") != Some(&Value::Bool(false));
            sentence_piece(&vocabulary, scores, space)
        }
        other => return Err(error(format!("tokenizers of the kind `{other}` are not supported"))),
    };
    description.insert("version".into(), json!("1.0"));
    description.insert("added_tokens".into(), Value::Array(vocabulary.added()));
    // Llama's own tokenizers begin every text with a token unless the file says otherwise.
    let begins =
        gguf.get("tokenizer.ggml.add_bos_token").and_then(Value::as_bool).unwrap_or(model == "llama");
    if let Some((token, id)) = vocabulary.named(gguf, "bos").filter(|_| begins) {
        description.insert("post_processor".into(), begin_with(token, id));
    }
    Tokenizer::from_json(Value::Object(description).to_string().into_bytes(), &gguf.origin())
}

/// What a `tokenizer_config.json` would say: the named special tokens.
pub fn tokenizer_config(gguf: &Gguf) -> Map<String, Value> {
    let mut config = Map::new();
    if let Ok(vocabulary) = Vocabulary::read(gguf) {
        for (field, name) in
            [("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"), ("unk_token", "unknown")]
        {
            if let Some((token, _)) = vocabulary.named(gguf, name) {
                config.insert(field.into(), json!(token));
            }
        }
    }
    config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
    config
}

struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    types: Vec<i64>,
}

impl<'a> Vocabulary<'a> {
    fn read(gguf: &'a Gguf) -> Result<Self, String> {
        let list = |key: &str| {
            let list = gguf.get(key).and_then(Value::as_array);
            list.ok_or_else(|| format!("`{key}` is missing"))
        };
        let tokens: Vec<&str> =
            list("tokenizer.ggml.tokens")?.iter().map(|t| t.as_str().unwrap_or_default()).collect();
        let types = match gguf.get("tokenizer.ggml.token_type") {
            Some(_) => {
                list("tokenizer.ggml.token_type")?.iter().map(|t| t.as_i64().unwrap_or_default()).collect()
            }
            None => vec![1; tokens.len()],
        };
        if types.len() != tokens.len() {
            return Err(format!("{} tokens have {} types", tokens.len(), types.len()));
        }
        Ok(Vocabulary { tokens, types })
    }

    fn by_token(&self) -> Map<String, Value> {
        self.tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect()
    }

    fn added(&self) -> Vec<Value> {
        let added = |kind: i64| kind == CONTROL || kind == USER_DEFINED;
        let all = self.tokens.iter().zip(&self.types).enumerate().filter(|(_, (_, kind))| added(**kind));
        all.map(|(id, (token, kind))| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": *kind == CONTROL
            })
        })
        .collect()
    }

    fn named(&self, gguf: &Gguf, name: &str) -> Option<(&'a str, u64)> {
        let id = gguf.get(&format!("tokenizer.ggml.{name}_token_id"))?.as_u64()?;
        Some((*self.tokens.get(usize::try_from(id).ok()?)?, id))
    }
}

fn byte_level(pre: &str, vocabulary: &Vocabulary, merges: &[Value]) -> Result<Map<String, Value>, String> {
    let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
    let split = |pattern: &str| {
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            bytes(false)
        ]})
    };
    let (pre_tokenizer, normalizer) = match pre {
        "default" | "gpt-2" | "gpt2" => (bytes(true), Value::Null),
        "smollm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            (json!({"type": "Sequence", "pretokenizers": [digits, bytes(true)]}), Value::Null)
        }
        "qwen2" | "deepseek-r1-qwen" => (split(QWEN2), json!({"type": "NFC"})),
        "llama-bpe" | "llama3" | "llama-v3" => (split(LLAMA3), Value::Null),
        other => return Err(format!("the pre-tokenizer `{other}` is not supported")),
    };
    let ignore_merges = matches!(pre, "llama-bpe" | "llama3" | "llama-v3");
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "ignore_merges": ignore_merges, "vocab": vocabulary.by_token(), "merges": merges
    });
    Ok(Map::from_iter([
        ("normalizer".to_owned(), normalizer),
        ("pre_tokenizer".to_owned(), pre_tokenizer),
        ("post_processor".to_owned(), bytes(true)),
        ("decoder".to_owned(), bytes(true)),
        ("model".to_owned(), model),
    ]))
}

/// SentencePiece BPE: merges follow from the scores, unknown characters fall back to bytes.
fn sentence_piece(vocabulary: &Vocabulary, scores: &[Value], space: bool) -> Map<String, Value> {
    let ids: HashMap<&str, usize> = vocabulary.tokens.iter().enumerate().map(|(id, t)| (*t, id)).collect();
    let mut merges = Vec::new();
    for (id, token) in vocabulary.tokens.iter().enumerate() {
        if vocabulary.types[id] != 1 {
            continue;
        }
        let score = scores.get(id).and_then(Value::as_f64).unwrap_or(0.0);
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(l), Some(r)) = (ids.get(left), ids.get(right)) {
                merges.push((score, *l, *r, left, right));
            }
        }
    }
    // Highest score first; halves with lower ids first among splits of one token.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let merges: Vec<Value> = merges.iter().map(|(.., left, right)| json!([left, right])).collect();
    let mut normalizers = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let unknown = vocabulary.types.iter().position(|&kind| kind == 2).map(|id| vocabulary.tokens[id]);
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        "vocab": vocabulary.by_token(), "merges": merges
    });
    Map::from_iter([
        ("normalizer".to_owned(), json!({"type": "Sequence", "normalizers": normalizers})),
        ("decoder".to_owned(), json!({"type": "Sequence", "decoders": decoders})),
        ("model".to_owned(), model),
    ])
}

fn begin_with(token: &str, id: u64) -> Value {
    let begin = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |sequence: &str, type_id: u8| json!({"Sequence": {"id": sequence, "type_id": type_id}});
    json!({
        "type": "TemplateProcessing",
        "single": [begin, text("A", 0)],
        "pair": [begin, text("A", 0), text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}
    })
}
