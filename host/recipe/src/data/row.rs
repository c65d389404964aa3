//! From cells to rows: which column is the prompt, the label, the id, and what is said around the prompt.

use super::error::{DataProblem, Origin, Report};
use crate::section::{Columns, PromptFormat};
use crate::shape::nearest;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use whet_trajectory::{Message, Role};

/// One prompt and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Unique among the rows of a run.
    pub id: String,
    /// What the model is asked: system message, solved examples, question.
    pub prompt: Vec<Message>,
    /// The reference answer, exactly as the file has it.
    pub label: Option<String>,
    /// The row's other columns.
    pub metadata: Map<String, Value>,
    /// Where the row stands.
    pub origin: Origin,
}

/// Something odd that does not stop a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// Where.
    pub origin: Origin,
    /// What.
    pub kind: WarningKind,
}

/// Kinds of oddities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A key stands twice in one object; the last one counts.
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// The conversation ends with an answer, so the model would continue or repeat it.
    EndsWithAnswer,
    /// The prompt is text that looks like a list of messages, and is treated as text.
    MessagesAsText,
}

/// One value: as text, and as JSON.
pub(super) struct Cell {
    /// The value's own text; `None` for null.
    pub text: Option<String>,
    pub value: Value,
}

/// A row before columns get their meaning.
pub(super) struct RawRow {
    pub cells: IndexMap<String, Cell>,
    pub origin: Origin,
    /// What tells the row from others of its file when it has no id: `:line`, or `[index]` in a JSON array.
    pub mark: String,
}

/// What every conversation starts with.
#[derive(Default)]
pub(super) struct Prelude {
    pub system: Option<String>,
    pub examples: Vec<Message>,
}

/// Gives columns their meaning.
pub(super) struct Reader<'a> {
    pub columns: &'a Columns,
    pub format: PromptFormat,
    pub prelude: &'a Prelude,
    /// The file's name in ids.
    pub file: &'a str,
}

/// Columns that hold pictures, sounds or films in the data sets of other systems.
const MEDIA: [&str; 6] = ["images", "image", "videos", "video", "audios", "audio"];
const PLACEHOLDERS: [&str; 3] = ["<image>", "<video>", "<audio>"];
/// Tokens that only a chat template writes.
const MARKERS: [&str; 6] = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<|begin_of_text|>",
    "<start_of_turn>",
    "[INST]",
    "<|endoftext|>",
];

impl Reader<'_> {
    /// Whether the named columns exist in some row; reports those that do not.
    pub fn columns_exist(&self, exist: &BTreeSet<&str>, file: &Path, report: &mut Report) -> bool {
        let before = report.total();
        let named = [
            ("data.columns.prompt", Some(&self.columns.prompt)),
            ("data.columns.label", self.columns.label.as_ref()),
            ("data.columns.id", self.columns.id.as_ref()),
        ];
        let metadata =
            self.columns.metadata.iter().flatten().map(|name| ("data.columns.metadata", Some(name)));
        for (key, name) in named.into_iter().chain(metadata) {
            if let Some(name) = name.filter(|name| !exist.contains(name.as_str())) {
                let usual = ["prompt", "messages", "question", "problem", "input", "conversations"];
                let meant = nearest(name, exist.iter().copied()).or_else(|| {
                    let prompt = key == "data.columns.prompt";
                    usual.iter().find(|u| prompt && exist.contains(**u)).map(|u| (*u).to_owned())
                });
                let exist = exist.iter().map(|name| (*name).to_owned()).collect();
                let place = Origin { file: file.into(), line: 0, column: 0 };
                report.add(place, DataProblem::MissingColumn { column: name.clone(), key, exist, meant });
            }
        }
        report.total() == before
    }

    /// The row, or a report why it cannot be used.
    pub fn row(&self, mut raw: RawRow, warnings: &mut Vec<Warning>, report: &mut Report) -> Option<Row> {
        let origin = raw.origin.clone();
        let prompt = match self.prompt(&raw, warnings) {
            Ok(prompt) => prompt,
            Err(problem) => {
                report.add(origin, problem);
                return None;
            }
        };
        let label_column = self.columns.label.as_deref().unwrap_or("label");
        let id_column = self.columns.id.as_deref().unwrap_or("id");
        let label = raw.cells.get(label_column).and_then(|cell| cell.text.clone());
        let id = raw.cells.get(id_column).and_then(|cell| cell.text.clone());
        let id = id.unwrap_or_else(|| format!("{}{}", self.file, raw.mark));
        for used in [self.columns.prompt.as_str(), label_column, id_column] {
            raw.cells.shift_remove(used);
        }
        let mut metadata = Map::new();
        for (name, cell) in raw.cells {
            if self.columns.metadata.as_ref().is_some_and(|wanted| !wanted.contains(&name)) {
                continue;
            }
            if let Err(problem) = self.media(&name, &cell.value) {
                report.add(origin, problem);
                return None;
            }
            match (name.as_str(), cell.value) {
                ("metadata", Value::Object(object)) => metadata.extend(object),
                // Some data sets store the object as text.
                ("metadata", Value::String(text)) => match serde_json::from_str::<Value>(&text) {
                    Ok(Value::Object(_)) => metadata.extend(match super::json::value(text.trim()) {
                        Value::Object(object) => object,
                        _ => Map::new(),
                    }),
                    _ => drop(metadata.insert(name, Value::String(text))),
                },
                (_, value) => drop(metadata.insert(name, value)),
            }
        }
        Some(Row { id, prompt, label, metadata, origin })
    }

    /// A picture that the model would not see must not go unnoticed.
    fn media(&self, name: &str, value: &Value) -> Result<(), DataProblem> {
        let held = match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        let asked_for = self.columns.metadata.is_some();
        if MEDIA.contains(&name) && held && !asked_for {
            return Err(DataProblem::Media { column: name.to_owned() });
        }
        Ok(())
    }

    fn prompt(&self, raw: &RawRow, warnings: &mut Vec<Warning>) -> Result<Vec<Message>, DataProblem> {
        let turns = turns(raw, &self.columns.prompt, Role::User)?;
        let mut warn = |kind| warnings.push(Warning { origin: raw.origin.clone(), kind });
        let text = raw.cells.get(&self.columns.prompt).and_then(|cell| cell.text.as_deref());
        let is_list = |text: &str| matches!(serde_json::from_str(text), Ok(Value::Array(list)) if list.iter().any(|m| m.get("role").is_some()));
        let written_as_text = raw.cells.get(&self.columns.prompt).is_some_and(|cell| cell.value.is_string());
        if written_as_text && text.is_some_and(is_list) {
            warn(WarningKind::MessagesAsText);
        }
        let text: String = turns.iter().map(Message::joined_text).collect::<Vec<_>>().join("\n");
        if let Some(placeholder) = PLACEHOLDERS.iter().find(|p| text.contains(**p)) {
            // With files, the row is refused for these.
            if !MEDIA.iter().any(|name| raw.cells.contains_key(*name)) {
                return Err(DataProblem::Placeholder { placeholder });
            }
        }
        if self.format == PromptFormat::Raw {
            return Ok(turns);
        }
        if let Some(marker) = MARKERS.iter().find(|m| text.contains(**m)) {
            return Err(DataProblem::Rendered { marker });
        }
        if turns.last().is_some_and(|m| m.role == Role::Assistant) {
            warn(WarningKind::EndsWithAnswer);
        }
        Ok(self.prelude.before(turns))
    }
}

impl Prelude {
    /// System message, solved examples, then the row's own turns; its own system message goes first and stays alone.
    pub fn before(&self, turns: Vec<Message>) -> Vec<Message> {
        let own = turns.iter().take_while(|m| m.role == Role::System).count();
        let (system, turns) = turns.split_at(own);
        let mut conversation = system.to_vec();
        if system.is_empty() {
            conversation.extend(self.system.as_ref().map(|text| Message::text(Role::System, text)));
        }
        conversation.extend(self.examples.iter().cloned());
        conversation.extend_from_slice(turns);
        conversation
    }
}

/// What a column says: a list of messages as it is, a text as one message of `role`.
pub(super) fn turns(raw: &RawRow, column: &str, role: Role) -> Result<Vec<Message>, DataProblem> {
    let missing = |found| DataProblem::NoPrompt { column: column.to_owned(), found };
    let message = |message: String| DataProblem::Message { column: column.to_owned(), message };
    let cell = raw.cells.get(column).ok_or_else(|| missing("missing"))?;
    match &cell.value {
        Value::Null => Err(missing("null")),
        Value::Array(list) if list.is_empty() => Err(missing("an empty list")),
        Value::Array(list) => {
            let read = |value: &Value| Message::from_json(&openai_form(value));
            list.iter().map(read).collect::<Result<_, _>>().map_err(|e| message(e.to_string()))
        }
        Value::Object(_) => Err(message("found an object".to_owned())),
        _ => {
            let text = cell.text.clone().unwrap_or_default();
            if text.trim().is_empty() { Err(missing("empty")) } else { Ok(vec![Message::text(role, text)]) }
        }
    }
}

/// ShareGPT's `{"from": "human", "value": …}` as `{"role": "user", "content": …}`; anything else as it is.
fn openai_form(message: &Value) -> Value {
    let (Some(from), Some(value)) = (message.get("from").and_then(Value::as_str), message.get("value"))
    else {
        return message.clone();
    };
    let role = match from {
        "human" => "user",
        "gpt" | "chatgpt" | "model" | "bing" | "bard" => "assistant",
        "function_response" | "observation" => "tool",
        other => other,
    };
    json!({"role": role, "content": value})
}
