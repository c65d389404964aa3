//! The bodies: what is posted, and what an answer may say.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use whet_plugin::{FinishReason, Group, Message, Outcome, Part, Role, Sample};

/// Whose bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compat {
    /// slime's `remote_rm`, which Relax has too.
    Slime,
}

/// What components are worth; 1 each when empty.
pub struct Weights(pub BTreeMap<String, f64>);

/// What is posted about a sample.
pub fn body(compat: Option<Compat>, group: &Group, sample: &Sample, metadata: &Map<String, Value>) -> Value {
    match compat {
        Some(Compat::Slime) => json!({
            "prompt": prompt_text(&group.prompt),
            "response": sample.response,
            "label": group.label,
            "metadata": metadata,
        }),
        None => json!({
            "id": sample.id,
            "prompt": group.prompt.iter().map(message).collect::<Vec<_>>(),
            "response": sample.response,
            "label": group.label,
            "metadata": metadata,
            "finish": finish(sample.finish),
            "response_tokens": sample.response_tokens,
        }),
    }
}

/// What an answer says, or why it says nothing.
pub fn outcome(compat: Option<Compat>, answer: &Value, weights: &Weights) -> Result<Outcome, String> {
    if compat.is_some() && answer.is_number() {
        return Ok(Outcome::scored(number(answer, "the answer")?));
    }
    let object = answer.as_object().ok_or("the answer is no object")?;
    if let Some(reason) = object.get("unscorable").filter(|r| !r.is_null()) {
        let reason = reason.as_str().ok_or("`unscorable` must be a text that says why")?;
        return Ok(Outcome::unscorable(reason));
    }
    let note = object.get("note").and_then(Value::as_str);
    let lone = object.get("reward").or_else(|| object.get("score").filter(|_| compat.is_some()));
    let (reward, note) = match (lone, object.get("components")) {
        (Some(_), Some(_)) => return Err("the answer has both `reward` and `components`".into()),
        (Some(reward), None) => (number(reward, "`reward`")?, note.map(str::to_owned)),
        (None, Some(components)) => {
            let (sum, parts) = weighted(components, weights)?;
            (sum, Some(note.map_or_else(|| parts.clone(), |note| format!("{parts}; {note}"))))
        }
        (None, None) => return Err("the answer has no `reward`, `components` or `unscorable`".into()),
    };
    let scored = Outcome::scored(reward);
    Ok(match note {
        Some(note) => scored.note(note),
        None => scored,
    })
}

/// The weighted sum, and the parts for people.
fn weighted(components: &Value, Weights(weights): &Weights) -> Result<(f64, String), String> {
    let components =
        components.as_object().filter(|c| !c.is_empty()).ok_or("`components` must name numbers")?;
    let mut sum = 0.0;
    let mut parts = Vec::new();
    for (name, value) in components {
        let value = number(value, &format!("component `{name}`"))?;
        let weight = match weights.get(name) {
            Some(weight) => *weight,
            None if weights.is_empty() => 1.0,
            None => return Err(format!("component `{name}` has no weight")),
        };
        sum += weight * value;
        parts.push(format!("{name} {value}"));
    }
    if !sum.is_finite() {
        return Err("the components together are not finite".into());
    }
    Ok((sum, parts.join(", ")))
}

fn number(value: &Value, what: &str) -> Result<f64, String> {
    value.as_f64().filter(|v| v.is_finite()).ok_or_else(|| format!("{what} is no finite number"))
}

fn text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn message(message: &Message) -> Value {
    json!({"role": role(message.role), "content": text(message)})
}

/// A lone message as it is, a conversation with who says what.
fn prompt_text(messages: &[Message]) -> String {
    match messages {
        [only] => text(only),
        several => {
            several.iter().map(|m| format!("{}: {}", role(m.role), text(m))).collect::<Vec<_>>().join("\n")
        }
    }
}

fn finish(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool-calls",
        FinishReason::MaxTurns => "max-turns",
        FinishReason::Aborted => "aborted",
        FinishReason::Environment => "environment",
    }
}
