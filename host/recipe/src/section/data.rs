//! `[data]`: files, columns, and what is said around each prompt.

use crate::quantity::as_text;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Prompts and reference answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Data {
    /// Rows to train on: a JSONL or Parquet file, or several; `file[a..b]` takes the rows a to b - 1.
    #[serde(deserialize_with = "super::one_or_many")]
    #[schemars(schema_with = "super::one_or_many_schema::<DataPath>")]
    pub train: Vec<DataPath>,
    /// Rows to measure the model on, never trained on.
    #[serde(default, deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::one_or_many_schema::<DataPath>")]
    pub test: Vec<DataPath>,
    /// Which columns mean what.
    #[serde(default)]
    pub columns: Columns,
    /// A system message put before every prompt that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Solved examples shown as earlier turns: a data file whose labels are the answers, or a list of
    /// `{ prompt, answer }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Examples>,
    /// Whether prompts go through the model's chat template.
    #[serde(default)]
    pub prompt_format: PromptFormat,
    /// Variables for the chat template, as in `{ enable_thinking = false }`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub template_kwargs: Map<String, Value>,
    /// Take rows in a new random order every epoch; otherwise in file order.
    #[serde(default = "yes")]
    pub shuffle: bool,
    /// Rows whose prompt is longer are left out (and counted).
    #[serde(default = "Data::default_max_prompt_tokens")]
    #[schemars(range(min = 1))]
    pub max_prompt_tokens: usize,
    /// Rows that are longer, prompt and answer together, are left out (and counted); for tasks that sample nothing.
    #[serde(default = "Data::default_max_tokens")]
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
}

/// Column names of the data files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Columns {
    /// The prompt: a text, or a list of chat messages.
    #[schemars(length(min = 1))]
    pub prompt: String,
    /// The reference answer. Unless named, the column `label` is used if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The preferred answer, for tasks that compare: a text, or a list of chat messages, which may be the whole
    /// conversation.
    #[schemars(length(min = 1))]
    pub chosen: String,
    /// The other answer, likewise.
    #[schemars(length(min = 1))]
    pub rejected: String,
    /// A unique name per row. Unless named, the column `id` is used if there is one, else `file:line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Columns that plugins see as metadata; all others unless named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Vec<String>>,
}

/// Whether prompts go through the model's chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromptFormat {
    /// The prompt is a conversation, rendered by the chat template.
    #[default]
    Chat,
    /// The prompt is text that the model gets as it is.
    Raw,
}

/// Solved examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Examples {
    /// A data file whose labels are the answers.
    File(DataPath),
    /// Examples in the recipe itself.
    Inline(Vec<Example>),
}

/// One solved example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Example {
    /// What the user asks.
    pub prompt: String,
    /// What the model should have answered.
    pub answer: String,
}

/// A data file and the rows to take from it, written `file`, `file[a..b]`, `file[a..]` or `file[..b]`.
///
/// `file@[a:b]` means the same as `file[a..b]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPath {
    /// The file.
    pub path: PathBuf,
    /// The rows, all of them unless given.
    pub slice: Option<Slice>,
}

/// Rows from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First row, counted from 0.
    pub start: usize,
    /// One past the last row; the end of the file unless given.
    pub end: Option<usize>,
}

/// Why a text is not a data path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataPathError {
    /// No file name.
    #[error("a data path names a file, as in \"train.jsonl\" or \"train.jsonl[0..100]\"")]
    Empty,
    /// The bracket holds something else than a range.
    #[error(
        "`[{0}]` is not a range of rows; write [a..b], [a..] or [..b] with a < b, as in \"train.jsonl[0..100]\""
    )]
    Range(String),
}

impl Data {
    fn default_max_prompt_tokens() -> usize {
        1024
    }

    fn default_max_tokens() -> usize {
        2048
    }
}

fn yes() -> bool {
    true
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            prompt: "prompt".into(),
            label: None,
            chosen: "chosen".into(),
            rejected: "rejected".into(),
            id: None,
            metadata: None,
        }
    }
}

impl FromStr for DataPath {
    type Err = DataPathError;
    fn from_str(text: &str) -> Result<Self, DataPathError> {
        let (file, slice) = match text.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            None => (text, None),
            Some((file, range)) => {
                let (file, separator) = match file.strip_suffix('@') {
                    Some(file) => (file, ":"),
                    None => (file, ".."),
                };
                (
                    file,
                    Some(
                        parse_slice(range, separator)
                            .ok_or_else(|| DataPathError::Range(range.to_owned()))?,
                    ),
                )
            }
        };
        if file.trim().is_empty() {
            return Err(DataPathError::Empty);
        }
        Ok(DataPath { path: file.into(), slice })
    }
}

fn parse_slice(range: &str, separator: &str) -> Option<Slice> {
    let (start, end) = range.split_once(separator)?;
    let start = if start.trim().is_empty() { 0 } else { start.trim().parse().ok()? };
    let end = if end.trim().is_empty() { None } else { Some(end.trim().parse().ok()?) };
    end.is_none_or(|end| start < end).then_some(Slice { start, end })
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.slice {
            None => Ok(()),
            Some(Slice { start, end: None }) => write!(f, "[{start}..]"),
            Some(Slice { start, end: Some(end) }) => write!(f, "[{start}..{end}]"),
        }
    }
}

as_text!(
    DataPath,
    "DataPath",
    "data-path",
    "train.jsonl[0..1000]",
    "A JSONL or Parquet file, relative to the recipe; `file[a..b]` takes the rows a to b - 1."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_read_in_both_notations() {
        for (text, start, end) in [
            ("a.jsonl[2..5]", 2, Some(5)),
            ("a.jsonl@[2:5]", 2, Some(5)),
            ("a.jsonl[..5]", 0, Some(5)),
            ("a.jsonl[7..]", 7, None),
        ] {
            let path: DataPath = text.parse().unwrap();
            assert_eq!(
                (path.path.to_str(), path.slice),
                (Some("a.jsonl"), Some(Slice { start, end })),
                "{text}"
            );
        }
        assert_eq!("a[1].jsonl".parse::<DataPath>().unwrap().slice, None);
    }

    #[test]
    fn a_malformed_slice_is_refused() {
        for text in
            ["a.jsonl[5..2]", "a.jsonl[x..2]", "a.jsonl[3]", "a.jsonl[2..2]", "[0..1]", " ", "a.jsonl[-1..2]"]
        {
            assert!(text.parse::<DataPath>().is_err(), "{text}");
        }
    }
}
