//! Lines of JSON in, groups of samples out.
//!
//! A line is `{"id", "prompt"?, "response" or "completion", "label"?, "metadata"?, "group"?}`. The
//! first bad line is the one error: nothing is scored before all lines are read.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use whet_trajectory::{FinishReason, Group, GroupId, Message, Role, Sample, SampleId};

/// Keys that a line may have.
const KEYS: [&str; 9] =
    ["id", "prompt", "response", "completion", "label", "metadata", "group", "response_tokens", "finish"];

/// The lines of a file, grouped.
pub struct Rows {
    /// Neighbouring lines of equal `group`; a line without one is a group of its own.
    pub groups: Vec<Group>,
    /// The `id` of every sample as the line has it, in order.
    pub ids: Vec<Value>,
    /// Keys that no line needs: a misspelling is easily among them.
    pub unused: BTreeSet<String>,
}

/// One line, before it is grouped.
struct Row {
    id: Value,
    group: Option<Value>,
    prompt: Option<Vec<Message>>,
    label: Option<String>,
    metadata: Option<Map<String, Value>>,
    sample: Sample,
}

/// Reads a file of lines, or standard input.
pub fn open(path: &Path) -> Result<Rows> {
    if path == Path::new("-") {
        return read(std::io::stdin().lock(), "standard input");
    }
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    read(BufReader::new(file), &path.display().to_string())
}

/// Reads all lines of `input`; `name` is the file's, for errors.
pub fn read(input: impl BufRead, name: &str) -> Result<Rows> {
    let mut rows = Rows { groups: Vec::new(), ids: Vec::new(), unused: BTreeSet::new() };
    let mut current: Option<Value> = None;
    for (i, line) in input.lines().enumerate() {
        let at = || format!("{name}:{}", i + 1);
        let line = match line {
            Err(e) if e.kind() == ErrorKind::InvalidData => bail!("{}: the line is not UTF-8 text", at()),
            line => line.with_context(|| format!("cannot read {name}"))?,
        };
        if line.trim().is_empty() {
            continue;
        }
        let row = row(&line, &mut rows.unused).with_context(at)?;
        let joins = row.group.is_some() && row.group == current;
        current = row.group.clone();
        rows.ids.push(row.id);
        match rows.groups.last_mut() {
            Some(group) if joins => {
                same(&group.prompt, row.prompt, "prompt").with_context(at)?;
                same(&group.label, row.label.map(Some), "label").with_context(at)?;
                same(&group.metadata, row.metadata, "metadata").with_context(at)?;
                group.samples.push(row.sample);
            }
            _ => rows.groups.push(Group {
                id: GroupId(row.group.as_ref().map_or_else(|| row.sample.id.0.clone(), plain)),
                prompt: row.prompt.unwrap_or_default(),
                label: row.label,
                metadata: row.metadata.unwrap_or_default(),
                samples: vec![row.sample],
            }),
        }
    }
    ensure!(!rows.ids.is_empty(), "{name} has no lines: each is a JSON object with `id` and `response`");
    Ok(rows)
}

/// A line may leave out what its group has said already, but not contradict it.
fn same<T: PartialEq>(group: &T, row: Option<T>, key: &str) -> Result<()> {
    ensure!(
        row.is_none_or(|row| row == *group),
        "`{key}` differs from the line before, which has the same `group`: a group is all responses to one prompt"
    );
    Ok(())
}

fn row(line: &str, unused: &mut BTreeSet<String>) -> Result<Row> {
    let value: Value = serde_json::from_str(line).context("not a line of JSON")?;
    let Value::Object(mut object) = value else { bail!("each line must be a JSON object") };
    unused.extend(object.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned());
    let mut take = |key: &str| object.remove(key).filter(|value| !value.is_null());
    let id = match take("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        Some(_) => bail!("`id` must be a text or a number"),
        None => bail!("`id` is missing"),
    };
    let prompt = match take("prompt") {
        None => None,
        Some(Value::String(text)) => Some(vec![Message::text(Role::User, text)]),
        Some(value @ Value::Array(_)) => Some(messages(value).context("in `prompt`")?),
        Some(_) => bail!("`prompt` must be a text or a list of messages"),
    };
    let label = match take("label") {
        None => None,
        Some(Value::String(text)) => Some(text),
        Some(Value::Number(n)) if n.is_i64() || n.is_u64() => Some(n.to_string()),
        // Several right answers, or an answer with its parts: their text, as the data loader takes such a cell.
        Some(value @ (Value::Array(_) | Value::Object(_))) => Some(value.to_string()),
        Some(other) => {
            bail!("`label` must be a text, not {other}: write it in quotes, as it is to be compared")
        }
    };
    let metadata = match take("metadata") {
        None => None,
        Some(Value::Object(metadata)) => Some(metadata),
        Some(_) => bail!("`metadata` must be an object"),
    };
    let group = match take("group") {
        None => None,
        Some(group @ (Value::String(_) | Value::Number(_))) => Some(group),
        Some(_) => bail!("`group` must be a text or a number"),
    };
    let (completion, response) = match (take("response"), take("completion")) {
        (Some(_), Some(_)) => bail!("give `response` or `completion`, not both"),
        (Some(Value::String(text)), None) => (vec![Message::text(Role::Assistant, text.clone())], text),
        (Some(_), None) => bail!("`response` must be a text; messages go into `completion`"),
        (None, Some(value)) => {
            let completion = messages(value).context("in `completion`")?;
            let last = completion.iter().rev().find(|m| m.role == Role::Assistant);
            let text = last.context("`completion` has no message of role `assistant`")?.joined_text();
            (completion, text)
        }
        (None, None) => bail!("`response` (a text) or `completion` (messages) is missing"),
    };
    let tokens = match take("response_tokens") {
        // No tokenizer here: words stand for tokens.
        None => response.split_whitespace().count() as u64,
        Some(value) => value.as_u64().context("`response_tokens` must be a whole number")?,
    };
    let finish = match take("finish") {
        None => FinishReason::Stop,
        Some(value) => serde_json::from_value(value)
            .context("`finish` must be stop, length, tool-calls, max-turns, aborted or environment")?,
    };
    let sample = Sample {
        id: SampleId(plain(&id)),
        turns: completion.iter().filter(|m| m.role == Role::Assistant).count() as u32,
        completion,
        response,
        finish,
        prompt_tokens: 0,
        response_tokens: u32::try_from(tokens).context("`response_tokens` is too large")?,
        environment_rewards: Vec::new(),
    };
    Ok(Row { id, group, prompt, label, metadata, sample })
}

fn messages(value: Value) -> Result<Vec<Message>> {
    let Value::Array(values) = value else { bail!("a list of messages was expected") };
    values.iter().map(|v| Message::from_json(v).map_err(anyhow::Error::from)).collect()
}

/// A text as it is, a number as JSON writes it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Rows> {
        read(text.as_bytes(), "in.jsonl")
    }

    #[test]
    fn neighbouring_lines_of_equal_group_are_one_group_and_others_stand_alone() {
        let rows = read_text(
            r#"{"id": "a", "response": "1", "group": "g", "label": "1"}
               {"id": "b", "response": "2", "group": "g"}

               {"id": 3, "response": "3"}
               {"id": "d", "response": "4"}
               {"id": "e", "response": "5", "group": "g"}"#,
        )
        .unwrap();
        let shape: Vec<(&str, usize)> =
            rows.groups.iter().map(|g| (g.id.0.as_str(), g.samples.len())).collect();
        assert_eq!(shape, [("g", 2), ("3", 1), ("d", 1), ("g", 1)]);
        assert_eq!(rows.ids[2], 3);
        assert_eq!(rows.groups[3].label, None);
    }

    #[test]
    fn a_label_of_several_answers_becomes_their_text() {
        let rows = read_text(r#"{"id": "a", "response": "1", "label": ["1", "one"]}"#).unwrap();
        assert_eq!(rows.groups[0].label.as_deref(), Some(r#"["1","one"]"#));
    }

    #[test]
    fn a_completion_gives_the_text_of_its_last_assistant_message() {
        let line = r#"{"id": "a", "completion": [
            {"role": "assistant", "content": "first"}, {"role": "tool", "content": "r"},
            {"role": "assistant", "content": "last"}]}"#
            .replace('\n', " ");
        let sample = &read_text(&line).unwrap().groups[0].samples[0];
        assert_eq!((sample.response.as_str(), sample.turns), ("last", 2));
    }

    #[test]
    fn every_bad_line_is_named_with_its_reason() {
        let cases = [
            ("", "has no lines"),
            ("{", "not a line of JSON"),
            ("[]", "must be a JSON object"),
            (r#"{"response": "x"}"#, "`id` is missing"),
            (r#"{"id": "a"}"#, "`response` (a text)"),
            (r#"{"id": "a", "response": 3}"#, "`response` must be a text"),
            (r#"{"id": "a", "response": "x", "completion": []}"#, "not both"),
            (r#"{"id": "a", "completion": []}"#, "no message of role"),
            (r#"{"id": "a", "response": "x", "label": 1.0}"#, "write it in quotes"),
            (r#"{"id": "a", "response": "x", "metadata": []}"#, "`metadata`"),
            (r#"{"id": "a", "response": "x", "prompt": [{"role": "bot", "content": ""}]}"#, "in `prompt`"),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", read_text(text).err().unwrap());
            assert!(error.contains(expected) && error.contains("in.jsonl"), "{text}: {error}");
        }
        let two = "{\"id\": \"a\", \"response\": \"x\", \"group\": 1, \"label\": \"1\"}\n{\"id\": \"b\", \"response\": \"x\", \"group\": 1, \"label\": \"2\"}";
        let error = format!("{:#}", read_text(two).err().unwrap());
        assert!(error.contains("in.jsonl:2") && error.contains("`label` differs"), "{error}");
    }

    #[test]
    fn keys_that_no_line_needs_are_reported() {
        let rows = read_text(r#"{"id": "a", "response": "x", "lable": "1"}"#).unwrap();
        assert_eq!(rows.unused.into_iter().collect::<Vec<_>>(), ["lable"]);
    }
}
