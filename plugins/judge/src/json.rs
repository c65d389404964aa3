//! Verdicts in JSON: the field, not whatever number or word comes first.

use crate::scale::{Read, Scale, Verdict};
use crate::word::words;
use serde_json::Value;

/// Names of fields that hold a verdict, the more decisive first.
const FIELDS: [&str; 34] = [
    "final_verdict",
    "verdict",
    "final_judgement",
    "final_judgment",
    "judgement",
    "judgment",
    "decision",
    "final_score",
    "overall_score",
    "total_score",
    "score",
    "final_rating",
    "overall_rating",
    "rating",
    "final_grade",
    "grade",
    "label",
    "is_correct",
    "correct",
    "correctness",
    "passed",
    "pass",
    "is_equivalent",
    "equivalent",
    "success",
    "winner",
    "choice",
    "result",
    "criteria_met",
    "is_valid",
    "is_match",
    "match",
    "answer_correct",
    "satisfied",
];
/// Objects that are tried, so that a reply of braces costs little.
const TRIES: usize = 200;

/// The verdict of the last object that has a field for one; `None` where no object has.
pub fn find(text: &str, scale: &Scale) -> Option<Result<Verdict, &'static str>> {
    let objects = objects(text);
    let fields = objects.iter().rev().find_map(|object| {
        let mut fields = Vec::new();
        collect(object, &mut fields, 0);
        FIELDS.iter().find_map(|name| {
            fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| (*value).clone())
        })
    });
    let begins = text
        .trim_start()
        .trim_start_matches("```json")
        .trim_start_matches("```")
        .trim_start()
        .starts_with('{');
    match fields {
        Some(value) => Some(read(&value, scale).ok_or("the verdict's field is none of the scale")),
        None => broken(text, scale).or_else(|| {
            // Whatever stands in an object that is cut off is not the judge's last word.
            (begins && objects.is_empty()).then_some(Err("the judge's JSON is cut off"))
        }),
    }
}

/// Every object of the text that is not within another.
fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut from = 0;
    for _ in 0..TRIES {
        let Some(at) = text[from..].find('{').map(|i| from + i) else { break };
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                from = at + stream.byte_offset().max(1);
                found.push(value);
            }
            _ => from = at + 1,
        }
    }
    found
}

/// Every scalar field, its name in lower case with underscores.
fn collect<'v>(value: &'v Value, fields: &mut Vec<(String, &'v Value)>, depth: usize) {
    let Value::Object(object) = value else { return };
    for (name, value) in object {
        match value {
            Value::Object(_) if depth < 3 => collect(value, fields, depth + 1),
            Value::Object(_) | Value::Array(_) => {}
            scalar => fields.push((name.trim().to_lowercase().replace([' ', '-'], "_"), scalar)),
        }
    }
}

fn read(value: &Value, scale: &Scale) -> Option<Verdict> {
    let text = match value {
        Value::String(text) => crate::word::without_marks(text),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let all = words(text.trim());
    match scale.read(&all, true) {
        Read::Verdict(verdict, _) => Some(verdict),
        _ => None,
    }
}

/// An object that does not parse (cut off, a line break in a text): the last field that is written as one.
fn broken(text: &str, scale: &Scale) -> Option<Result<Verdict, &'static str>> {
    let mut last: Option<(usize, Result<Verdict, &'static str>)> = None;
    for name in FIELDS {
        let quoted = format!("\"{name}\"");
        for (at, _) in text.match_indices(&quoted).chain(text.match_indices(&format!("'{name}'"))) {
            let Some(rest) = text[at + quoted.len()..].trim_start().strip_prefix(':') else { continue };
            // Without what ends it, the value may be half of one.
            let rest = rest.trim_start();
            let value = match rest.strip_prefix('"') {
                Some(inside) => inside.split_once('"').map(|(value, _)| value),
                None => rest.find([',', '}', '\n']).map(|end| rest[..end].trim()),
            };
            let read = value.and_then(|value| self::read(&Value::String(value.to_owned()), scale));
            if last.as_ref().is_none_or(|(before, _)| *before < at) {
                last = Some((at, read.ok_or("the verdict's field is cut off or none of the scale")));
            }
        }
    }
    last.map(|(_, read)| read)
}
