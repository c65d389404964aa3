//! Models against what transformers computes: mathematics, tokenizers, chat templates, file formats.
//!
//! The reference numbers lie in a directory of model folders, `tokenizers/*` and `chat_templates/*`:
//! the copy in `tests/fixtures`, or any directory of the same format that `WHET_FIXTURES_DIR` names.

mod decoders;
mod errors;
mod gguf;
mod hub;
mod templates;
mod tokenizers;
mod trees;

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The directory of reference numbers.
fn fixtures() -> PathBuf {
    match std::env::var_os("WHET_FIXTURES_DIR") {
        Some(directory) => directory.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"),
    }
}

fn json(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Entries of a directory, in order.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut entries: Vec<PathBuf> = read.map(|e| e.unwrap().path()).collect();
    entries.sort();
    entries
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}"))
}
