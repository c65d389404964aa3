//! Chat messages: a role, parts (text or media) and tool calls.
//!
//! The JSON form is the one of chat data sets and chat templates: `content` is a string, or a list
//! of parts `{"type": "text", "text": …}`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that frame the conversation.
    System,
    /// The person, or the data set.
    User,
    /// The model.
    Assistant,
    /// The answer to a tool call.
    Tool,
}

impl Role {
    /// The role's name in data sets and templates.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// An encoded image, sound or video. Clones share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// MIME type, as in `image/png`.
    pub mime: String,
    /// The encoded file.
    pub data: Arc<[u8]>,
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A video.
    Video(Media),
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Links the call to the message that answers it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// Calls that an assistant's message makes.
    pub tool_calls: Vec<ToolCall>,
    /// For role `tool`: the call that this message answers.
    pub tool_call_id: Option<String>,
}

/// Why a JSON value is not a message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageError {
    /// The value is not an object.
    #[error("a message must be an object with `role` and `content`, not {0}")]
    NotAnObject(&'static str),
    /// `role` is absent or unknown.
    #[error("a message needs a `role` of system, user, assistant or tool; found {0}")]
    Role(String),
    /// `content` has another type, or a part has no text.
    #[error("`content` must be a text or a list of parts {{\"type\": \"text\", \"text\": …}}; {0}")]
    Content(String),
    /// A tool call lacks a name or has malformed arguments.
    #[error("`tool_calls` must list objects with a function `name` and `arguments`; {0}")]
    ToolCall(String),
}

impl Message {
    /// A message of one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Message { role, content: vec![Part::Text(text.into())], tool_calls: Vec::new(), tool_call_id: None }
    }

    /// The text parts, joined; media parts are left out.
    pub fn joined_text(&self) -> String {
        let mut text = String::new();
        for part in &self.content {
            if let Part::Text(t) = part {
                text.push_str(t);
            }
        }
        text
    }

    /// Reads the JSON form. A role `null` or `content: null` beside tool calls is accepted, as data sets have it.
    pub fn from_json(value: &Value) -> Result<Self, MessageError> {
        let object = value.as_object().ok_or(MessageError::NotAnObject(json_type(value)))?;
        let role = match object.get("role").and_then(Value::as_str) {
            Some("system") | Some("developer") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("tool") => Role::Tool,
            _ => return Err(MessageError::Role(object.get("role").unwrap_or(&Value::Null).to_string())),
        };
        let content = match object.get("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => vec![Part::Text(text.clone())],
            Some(Value::Array(parts)) => parts.iter().map(part_from_json).collect::<Result<_, _>>()?,
            Some(other) => return Err(MessageError::Content(format!("found {}", json_type(other)))),
        };
        let tool_calls = match object.get("tool_calls") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(calls)) => {
                calls.iter().enumerate().map(|(i, c)| tool_call_from_json(i, c)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(MessageError::ToolCall(format!("found {}", json_type(other)))),
        };
        let tool_call_id = object.get("tool_call_id").and_then(Value::as_str).map(str::to_owned);
        Ok(Message { role, content, tool_calls, tool_call_id })
    }

    /// The JSON form that chat templates and data files use; a message of text alone has a string as content.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.role.as_str()));
        let text_only = self.content.iter().all(|p| matches!(p, Part::Text(_)));
        let content = if text_only {
            json!(self.joined_text())
        } else {
            Value::Array(self.content.iter().map(part_to_json).collect())
        };
        object.insert("content".into(), content);
        if !self.tool_calls.is_empty() {
            let calls = self.tool_calls.iter().map(|c| {
                let arguments: Value =
                    serde_json::from_str(&c.arguments).unwrap_or_else(|_| Value::String(c.arguments.clone()));
                json!({"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments}})
            });
            object.insert("tool_calls".into(), Value::Array(calls.collect()));
        }
        if let Some(id) = &self.tool_call_id {
            object.insert("tool_call_id".into(), json!(id));
        }
        Value::Object(object)
    }
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Message::from_json(&value).map_err(serde::de::Error::custom)
    }
}

fn part_from_json(part: &Value) -> Result<Part, MessageError> {
    match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
        (Some("text") | None, Some(text)) => Ok(Part::Text(text.to_owned())),
        (Some(kind), _) => Err(MessageError::Content(format!("a part of type `{kind}` cannot be read yet"))),
        (None, None) => Err(MessageError::Content("a part has no `text`".into())),
    }
}

fn part_to_json(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(_) => json!({"type": "image"}),
        Part::Audio(_) => json!({"type": "audio"}),
        Part::Video(_) => json!({"type": "video"}),
    }
}

fn tool_call_from_json(index: usize, call: &Value) -> Result<ToolCall, MessageError> {
    let function = call.get("function").unwrap_or(call);
    let name = function
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| MessageError::ToolCall(format!("call {index} has no name")))?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let id = call.get("id").and_then(Value::as_str).map_or_else(|| format!("call_{index}"), str::to_owned);
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_what_it_wrote() {
        let message = Message {
            role: Role::Assistant,
            content: vec![Part::Text("7 + 15".into())],
            tool_calls: vec![ToolCall {
                id: "c1".into(),
                name: "add".into(),
                arguments: r#"{"a":7}"#.into(),
            }],
            tool_call_id: None,
        };
        assert_eq!(Message::from_json(&message.to_json()), Ok(message));
    }

    #[test]
    fn a_wrong_role_is_named() {
        let error = Message::from_json(&json!({"role": "bot", "content": "x"})).unwrap_err();
        assert!(error.to_string().contains("\"bot\""), "{error}");
    }

    #[test]
    fn content_may_be_a_list_of_text_parts() {
        let message = Message::from_json(
            &json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        );
        assert_eq!(message.unwrap().joined_text(), "ab");
    }
}
