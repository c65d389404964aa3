//! Does a document have the shape that the schema describes? Every key that does not is reported with its place.
//!
//! This is the part of JSON Schema that [`crate::schema()`] uses, with the words of recipes: types,
//! choices, bounds, closed objects, and the formats of our own quantities.

use crate::document::{Document, join};
use crate::error::{Problem, RecipeError};
use crate::expand::SHORTHANDS;
use crate::section::{DataPath, Device, Gate, Grant};
use crate::{ByteSize, Time};
use serde_json::{Map, Value};

/// Names that other systems give to keys of ours.
const PEERS: [(&str, &str); 22] = [
    ("adam-epsilon", "eps"),
    ("batch-size", "prompts-per-step"),
    ("beta", "kl"),
    ("clip-eps", "clip-high"),
    ("cliprange", "clip-high"),
    ("epsilon", "clip-low"),
    ("epsilon-high", "clip-high"),
    ("eps-clip", "clip-low"),
    ("eps-clip-high", "clip-high"),
    ("input-key", "columns"),
    ("label-key", "columns"),
    ("loss-agg-mode", "reduction"),
    ("lr", "learning-rate"),
    ("max-completion-length", "max-tokens"),
    ("max-grad-norm", "grad-clip"),
    ("max-new-tokens", "max-tokens"),
    ("n", "samples-per-prompt"),
    ("n-samples-per-prompt", "samples-per-prompt"),
    ("num-generations", "samples-per-prompt"),
    ("num-steps", "steps"),
    ("scale-rewards", "scale"),
    ("system-prompt", "system"),
];

/// How the keys that every recipe has are written.
const KEYS: [(&str, &str); 4] = [
    ("model", "`model = \"hf://organisation/name\"`, a folder or a .gguf file"),
    ("data", "a section `[data]` with `train = \"train.jsonl\"`"),
    ("data.train", "`train = \"train.jsonl\"` to [data]"),
    ("reward", "a section `[reward]` with `plugin = \"math-answer\"` or a path to a .wasm file"),
];

/// Reports every way in which `document` departs from `schema`.
pub(crate) fn check(document: &Document, schema: &Value) -> Vec<RecipeError> {
    let mut checker = Checker { document, root: schema, errors: Vec::new() };
    checker.value(schema, &document.value, "");
    checker.errors
}

struct Checker<'a> {
    document: &'a Document,
    root: &'a Value,
    errors: Vec<RecipeError>,
}

impl<'a> Checker<'a> {
    fn report(&mut self, path: &str, problem: Problem) {
        self.errors.push(self.document.error(path, problem));
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) {
            Some(pointer) => self.root.pointer(pointer).map_or(schema, |target| self.resolve(target)),
            None => schema,
        }
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let schema = self.resolve(schema);
        if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
            return self.choice(choices, value, path);
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            if value.is_object() && branches.iter().all(|b| kind(b).is_some()) {
                return self.kinds(branches, value, path);
            }
            let fitting = branches.iter().find(|b| self.type_fits(b, value));
            return match fitting {
                Some(branch) => self.value(branch, value, path),
                None => {
                    let expected: Vec<String> = branches.iter().map(|b| self.expected(b)).collect();
                    let usual = KEYS.iter().find(|(key, _)| *key == path).map(|(_, text)| (*text).to_owned());
                    let named = branches.iter().find_map(|b| b.get("enum")?.get(0)?.as_str());
                    let instead =
                        usual.or_else(|| named.map(|name| format!("a name, as in \"{name}\", or a table")));
                    self.wrong_type(expected.join(" or "), value, path, instead);
                }
            };
        }
        if !self.type_fits(schema, value) {
            return self.wrong_type(self.expected(schema), value, path, instead(schema, value));
        }
        match value {
            Value::Object(object) => self.object(schema, object, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::String(text) => self.text(schema, text, path),
            Value::Number(number) => {
                if let Some(bounds) = out_of_bounds(schema, number.as_f64().unwrap_or(f64::NAN)) {
                    self.report(path, Problem::OutOfRange { found: number.to_string(), bounds });
                }
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// One of several tables that `kind` tells apart.
    fn kinds(&mut self, branches: &'a [Value], value: &Value, path: &str) {
        let below = join(path, "kind");
        let names = branches.iter().filter_map(kind).map(str::to_owned);
        let Some(given) = value.get("kind") else {
            return self.report(&below, Problem::MissingKey { example: example(&below) });
        };
        match branches.iter().find(|b| kind(b) == given.as_str()) {
            Some(branch) => self.value(branch, value, path),
            None => {
                let choices: Vec<Value> = names.map(|name| serde_json::json!({ "const": name })).collect();
                self.choice(&choices, given, &below);
            }
        }
    }

    fn choice(&mut self, choices: &[Value], value: &Value, path: &str) {
        let names: Vec<String> = choices
            .iter()
            .filter_map(|c| c.get("const").and_then(Value::as_str))
            .map(str::to_owned)
            .collect();
        match value.as_str() {
            None => {
                let expected = format!("one of {}", names.join(", "));
                self.wrong_type(expected, value, path, None);
            }
            Some(text) if names.iter().any(|name| name == text) => {}
            Some(text) => {
                let meant = nearest(text, names.iter().map(String::as_str));
                self.report(path, Problem::NotAChoice { found: text.to_owned(), choices: names, meant });
            }
        }
    }

    fn object(&mut self, schema: &'a Value, object: &Map<String, Value>, path: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, value) in object {
            let below = join(path, key);
            match (properties.and_then(|p| p.get(key)), schema.get("additionalProperties")) {
                (Some(property), _) => self.value(property, value, &below),
                (None, Some(Value::Bool(false))) => {
                    let problem = self.unknown(properties, key, path);
                    self.report(&below, problem);
                }
                (None, Some(additional @ Value::Object(_))) => self.value(additional, value, &below),
                (None, _) => {}
            }
        }
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = required.as_str()
                && !object.contains_key(name)
            {
                let below = join(path, name);
                self.report(&below, Problem::MissingKey { example: example(&below) });
            }
        }
    }

    fn unknown(&self, properties: Option<&'a Map<String, Value>>, key: &str, path: &str) -> Problem {
        let known: Vec<String> = properties.into_iter().flat_map(|p| p.keys().cloned()).collect();
        let dashed = key.replace('_', "-").to_lowercase();
        let peer = PEERS.iter().find(|(theirs, _)| *theirs == dashed).map(|(_, ours)| *ours);
        let meant = known
            .iter()
            .find(|name| **name == dashed || Some(name.as_str()) == peer)
            .cloned()
            .or_else(|| nearest(&dashed, known.iter().map(String::as_str)));
        let wanted = peer.unwrap_or(&dashed);
        let elsewhere = self.paths().into_iter().filter(|p| {
            let (above, name) = p.rsplit_once('.').unwrap_or(("", p));
            name == wanted && above != path && !is_shorthand(p, path)
        });
        Problem::UnknownKey { meant, elsewhere: elsewhere.collect(), known }
    }

    /// Every key path of the schema, without indices.
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut open = vec![(String::new(), self.root)];
        while let Some((path, schema)) = open.pop() {
            let schema = self.resolve(schema);
            for branch in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
                open.push((path.clone(), branch));
            }
            for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let below = join(&path, key);
                paths.push(below.clone());
                open.push((below, property));
            }
        }
        paths.sort();
        paths.dedup();
        paths
    }

    fn array(&mut self, schema: &'a Value, items: &[Value], path: &str) {
        let bound = |key| schema.get(key).and_then(Value::as_u64).map(|n| n as usize);
        let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
        if items.len() < least || items.len() > most {
            let bounds = match (least, most) {
                (least, usize::MAX) => format!("with at least {least} items"),
                (least, most) if least == most => format!("with {least} items"),
                (least, most) => format!("with {least} to {most} items"),
            };
            self.report(
                path,
                Problem::OutOfRange { found: format!("a list of {} items", items.len()), bounds },
            );
        }
        if let Some(schema) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.value(schema, item, &format!("{path}[{index}]"));
            }
        }
    }

    fn text(&mut self, schema: &Value, text: &str, path: &str) {
        if schema.get("minLength").is_some() && text.is_empty() {
            let message = "the text is empty; write what it should be, or leave the key out".to_owned();
            return self.report(path, Problem::Malformed { message });
        }
        let malformed = match schema.get("format").and_then(Value::as_str) {
            Some("byte-size") => text.parse::<ByteSize>().err().map(|e| e.to_string()),
            Some("duration-text") => text.parse::<Time>().err().map(|e| e.to_string()),
            Some("data-path") => text.parse::<DataPath>().err().map(|e| e.to_string()),
            Some("gate") => text.parse::<Gate>().err(),
            Some("grant") => text.parse::<Grant>().err(),
            Some("device") => text.parse::<Device>().err(),
            Some("digest") => (!is_digest(text)).then(|| {
                format!("`{text}` is not a digest; write \"sha256:\" and 64 hexadecimal digits, as `whet plugin inspect` prints them")
            }),
            _ => None,
        };
        if let Some(message) = malformed {
            self.report(path, Problem::Malformed { message });
        }
    }

    fn wrong_type(&mut self, expected: String, value: &Value, path: &str, instead: Option<String>) {
        let mut shown: String = value.to_string().chars().take(40).collect();
        if shown.len() < value.to_string().len() {
            shown.push('…');
        }
        self.report(path, Problem::WrongType { expected, found: found(value), value: shown, instead });
    }

    fn type_fits(&self, schema: &'a Value, value: &Value) -> bool {
        let schema = self.resolve(schema);
        if schema.get("oneOf").is_some() {
            return value.is_string();
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return branches.iter().any(|b| self.type_fits(b, value));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            _ => true,
        }
    }

    fn expected(&self, schema: &'a Value) -> String {
        let schema = self.resolve(schema);
        if schema.get("oneOf").is_some() {
            return "one of its choices".to_owned();
        }
        if let Some(first) = schema.get("anyOf").and_then(|branches| branches.get(0)) {
            return self.expected(first);
        }
        match (schema.get("type").and_then(Value::as_str), schema.get("format").and_then(Value::as_str)) {
            (Some("string"), Some("byte-size")) => "a size such as \"32MiB\"",
            (Some("string"), Some("duration-text")) => "a length of time such as \"200ms\"",
            (Some("string"), Some("data-path")) => "a data file such as \"train.jsonl\"",
            (Some("string"), _) => "a text",
            (Some("object"), _) => "a table",
            (Some("array"), _) => "a list",
            (Some("boolean"), _) => "true or false",
            (Some("integer"), _) => "a whole number",
            (Some("number"), _) => "a number",
            _ => "another value",
        }
        .to_owned()
    }
}

/// The name by which a table's kind is told from others.
fn kind(schema: &Value) -> Option<&str> {
    schema.pointer("/properties/kind/const").and_then(Value::as_str)
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// What to write when the type alone is wrong and the value makes sense.
fn instead(schema: &Value, value: &Value) -> Option<String> {
    match (schema.get("type").and_then(Value::as_str)?, value) {
        ("integer", Value::Number(n)) => {
            n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 1e15).map(|f| format!("{f:.0}"))
        }
        ("integer" | "number", Value::String(text)) => {
            text.trim().parse::<f64>().ok().map(|_| format!("{} without quotes", text.trim()))
        }
        ("boolean", Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            Some(format!("{text} without quotes"))
        }
        ("string", Value::Number(n)) => match schema.get("format").and_then(Value::as_str) {
            Some("byte-size") => Some(format!("the unit too, as in \"{n}MiB\"")),
            Some("duration-text") => Some(format!("the unit too, as in \"{n}ms\" or \"{n}s\"")),
            _ => Some(format!("\"{n}\" with quotes")),
        },
        ("array", Value::String(_) | Value::Number(_)) => Some(format!("[{value}]")),
        _ => None,
    }
}

/// Whether `path` stands for an option of the table `part`, and so leads back to it.
fn is_shorthand(path: &str, part: &str) -> bool {
    SHORTHANDS
        .iter()
        .any(|(short, of, _)| path == format!("algorithm.{short}") && part == format!("algorithm.{of}"))
}

fn out_of_bounds(schema: &Value, number: f64) -> Option<String> {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum");
    let above = bound("exclusiveMinimum");
    let below = bound("exclusiveMaximum");
    let most = bound("maximum").or(match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    });
    let inside = least.is_none_or(|b| number >= b)
        && above.is_none_or(|b| number > b)
        && most.is_none_or(|b| number <= b)
        && below.is_none_or(|b| number < b);
    if inside {
        return None;
    }
    let low = above.map(|b| format!("above {b}")).or_else(|| least.map(|b| format!("of at least {b}")));
    let high = most.map(|b| format!("at most {b}")).or_else(|| below.map(|b| format!("below {b}")));
    Some([low, high].into_iter().flatten().collect::<Vec<_>>().join(" and "))
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// What to write for a key that is missing.
pub(crate) fn example(path: &str) -> String {
    let key = path.rsplit('.').next().unwrap_or(path);
    match KEYS.iter().find(|(known, _)| *known == path) {
        Some((_, example)) => (*example).to_owned(),
        None if key == "plugin" => {
            "`plugin = \"NAME\"`, a standard plugin or a path to a .wasm file".to_owned()
        }
        None => format!("`{key} = …`"),
    }
}

/// The candidate that `text` was probably meant to be.
pub(crate) fn nearest<'n>(text: &str, candidates: impl IntoIterator<Item = &'n str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| {
            let score = strsim::jaro_winkler(text, candidate);
            // Half a name is a common slip: `clip` for `clip-high`, `steps` for `train-steps`.
            let part = candidate.split('-').any(|word| word == text)
                || text.split('-').any(|word| word == candidate);
            (if part { score.max(0.85) } else { score }, candidate)
        })
        .filter(|(score, _)| *score > 0.82)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
