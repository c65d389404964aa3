//! A recipe's text as values that remember where they stand.
//!
//! TOML becomes plain JSON values beside a map from key path to byte range, so that everything
//! after this file works on values and can still point at a line. Overrides (`--set`) are applied here.

use crate::error::{Place, Problem, RecipeError};
use crate::section;
use serde_json::{Map, Value};
use std::collections::HashMap;
use toml::de::{DeTable, DeValue};

/// Values and where they stand.
pub(crate) struct Document {
    pub value: Value,
    /// By key path, as in `rollout.max-tokens` or `reward[1].plugin`.
    places: HashMap<String, Place>,
}

impl Document {
    /// Reads TOML; reports every syntax error.
    pub fn parse(text: &str) -> Result<Document, Vec<RecipeError>> {
        let (table, syntax) = DeTable::parse_recoverable(text);
        let mut errors: Vec<RecipeError> = syntax
            .iter()
            .map(|e| {
                let place = e.span().map(|range| Place::File { key: None, value: range });
                RecipeError {
                    key: String::new(),
                    place,
                    problem: Problem::Syntax { message: e.message().to_owned() },
                }
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut document = Document { value: Value::Null, places: HashMap::new() };
        let value = document.table(table.get_ref(), "", &mut errors);
        document.value = value;
        if errors.is_empty() { Ok(document) } else { Err(errors) }
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str, errors: &mut Vec<RecipeError>) -> Value {
        let mut object = Map::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let below = join(path, &name);
            self.places.insert(below.clone(), Place::File { key: Some(key.span()), value: value.span() });
            let value = self.convert(value.get_ref(), &below, errors);
            object.insert(name, value);
        }
        Value::Object(object)
    }

    fn convert(&mut self, value: &DeValue<'_>, path: &str, errors: &mut Vec<RecipeError>) -> Value {
        match value {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(when) => Value::String(when.to_string()),
            DeValue::Table(table) => self.table(table, path, errors),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => Value::from(number),
                Err(_) => self.refuse(path, integer.as_str(), errors),
            },
            DeValue::Float(float) => match float.as_str().parse().ok().and_then(serde_json::Number::from_f64)
            {
                Some(number) => Value::Number(number),
                None => self.refuse(path, float.as_str(), errors),
            },
            DeValue::Array(array) => Value::Array(
                array
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let below = format!("{path}[{index}]");
                        self.places.insert(below.clone(), Place::File { key: None, value: item.span() });
                        self.convert(item.get_ref(), &below, errors)
                    })
                    .collect(),
            ),
        }
    }

    fn refuse(&self, path: &str, found: &str, errors: &mut Vec<RecipeError>) -> Value {
        errors.push(self.error(path, Problem::NotANumber { found: found.to_owned() }));
        Value::Null
    }

    /// Applies one `a.b=value`; the value is TOML, or a text when it is not.
    pub fn set(&mut self, assignment: &str) -> Result<(), Problem> {
        let refused = |reason| Problem::Override { text: assignment.to_owned(), reason };
        let malformed = || refused(None);
        let (path, text) = assignment.split_once('=').ok_or_else(malformed)?;
        let (path, text) = (path.trim(), text.trim());
        let steps = steps(path).ok_or_else(malformed)?;
        // A name given as text becomes a table when one of its neighbours is set.
        if steps.len() > 1 {
            for (section, key) in [("model", "source"), ("algorithm", "preset")] {
                if let Some(text @ Value::String(_)) = self.value.get_mut(section) {
                    let name = text.take();
                    *text = Value::Object(Map::from_iter([(key.to_owned(), name)]));
                }
            }
        }
        // So does the kind of an algorithm's part when one of its options is set.
        if let [Step::Key(section), Step::Key(part), Step::Key(_), ..] = steps.as_slice()
            && section == "algorithm"
            && !section::kinds(part).is_empty()
            && let Some(Value::Object(algorithm)) = self.value.get_mut(section)
            && let Some(text @ Value::String(_)) = algorithm.get_mut(part)
        {
            let name = text.take();
            *text = Value::Object(Map::from_iter([("kind".to_owned(), name)]));
        }
        let mut at = &mut self.value;
        for (depth, step) in steps.iter().enumerate() {
            at = match step {
                Step::Key(key) => match at {
                    Value::Object(object) => object.entry(key.clone()).or_insert(Value::Null),
                    Value::Null => {
                        *at = Value::Object(Map::new());
                        at.as_object_mut().ok_or_else(malformed)?.entry(key.clone()).or_insert(Value::Null)
                    }
                    _ => return Err(refused(Some(format!("there is no table that `{key}` could be in")))),
                },
                Step::Index(index) => match at {
                    Value::Array(array) => array.get_mut(*index).ok_or_else(malformed)?,
                    // A lone table stands for a list of one.
                    Value::Object(_) if *index == 0 && depth > 0 => at,
                    _ => return Err(malformed()),
                },
            };
        }
        let mut inside = Document { value: Value::Null, places: HashMap::new() };
        *at = match DeValue::parse(text) {
            Ok(value) => {
                let mut errors = Vec::new();
                let value = inside.convert(value.get_ref(), path, &mut errors);
                if !errors.is_empty() {
                    let reason = "numbers are finite, and integers fit in 64 bits; a text of this name stands in quotes";
                    return Err(refused(Some(reason.to_owned())));
                }
                value
            }
            Err(_) => Value::String(text.to_owned()),
        };
        // What stood there, and below it, is gone.
        self.places.retain(|known, _| known != path && !is_below(known, path));
        let given = std::iter::once(path.to_owned()).chain(inside.places.into_keys());
        self.places.extend(given.map(|key| (key, Place::Override { text: assignment.to_owned() })));
        Ok(())
    }

    /// Whether the recipe or an override says `path` itself.
    pub fn given(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// Of `path` and what is below it, the first thing that the recipe or an override says itself.
    pub fn given_below(&self, path: &str) -> Option<&str> {
        let known = self.places.keys().map(String::as_str);
        known.filter(|known| *known == path || is_below(known, path)).min()
    }

    /// Takes what stands at `from` to stand at `to`.
    pub fn move_place(&mut self, from: &str, to: &str) {
        if let Some(place) = self.places.remove(from) {
            self.places.insert(to.to_owned(), place);
        }
    }

    /// Takes what stands below `from` to stand below `to`.
    pub fn move_below(&mut self, from: &str, to: &str) {
        let below: Vec<String> = self.places.keys().filter(|known| is_below(known, from)).cloned().collect();
        for path in below {
            self.move_place(&path, &format!("{to}{}", &path[from.len()..]));
        }
    }

    /// The place of `path`, or of the nearest thing above it that has one.
    pub fn place(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return Some(place.clone());
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// An error at `path`.
    pub fn error(&self, path: &str, problem: Problem) -> RecipeError {
        RecipeError { key: path.to_owned(), place: self.place(path), problem }
    }

    /// Fills what follows from other keys, where the recipe is silent.
    pub fn derive(&mut self, name: &str) {
        let Some(recipe) = self.value.as_object_mut() else { return };
        let max_tokens = recipe.get("rollout").and_then(|rollout| rollout.get("max-tokens")).cloned();
        if recipe.get("data").is_some_and(|data| data.get("test").is_some()) {
            recipe.entry("eval").or_insert_with(|| Value::Object(Map::new()));
        }
        if let Some(Value::Object(eval)) = recipe.get_mut("eval")
            && let Some(max_tokens) = max_tokens
        {
            eval.entry("max-tokens").or_insert(max_tokens);
        }
        for section in ["sft", "dpo"] {
            if recipe.get("task").and_then(Value::as_str) == Some(section) {
                recipe.entry(section).or_insert_with(|| Value::Object(Map::new()));
            }
        }
        if let Value::Object(run) = recipe.entry("run").or_insert_with(|| Value::Object(Map::new())) {
            run.entry("dir").or_insert_with(|| Value::String(format!("runs/{name}")));
        }
    }
}

enum Step {
    Key(String),
    Index(usize),
}

/// `a.b[0].c` as steps.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for segment in path.split('.') {
        let mut parts = segment.split('[');
        let key = parts.next().filter(|key| !key.is_empty())?;
        steps.push(Step::Key(key.to_owned()));
        for index in parts {
            steps.push(Step::Index(index.strip_suffix(']')?.parse().ok()?));
        }
    }
    Some(steps)
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// The path of `key` below `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
