//! `[algorithm]` written out: shorthands become tables, and what the recipe leaves open comes from the preset.

use crate::document::Document;
use crate::error::{Problem, RecipeError};
use crate::preset;
use crate::section::{self, Preset};
use serde_json::{Map, Value};

/// Keys of `[algorithm]` that stand for an option of a part, for the options that are changed most.
pub(crate) const SHORTHANDS: [(&str, &str, &str); 3] =
    [("scale", "estimator", "scale"), ("clip-low", "loss", "low"), ("clip-high", "loss", "high")];

/// Bounds as other projects write them, `1 ± eps`, and how they become absolute ones.
const CISPO: [(&str, &str, f64); 2] = [("eps-low", "low", -1.0), ("eps-high", "high", 1.0)];

/// Writes `[algorithm]` out. What has the wrong type is left for the check against the schema.
pub(crate) fn expand(document: &mut Document) -> Vec<RecipeError> {
    let mut errors = Vec::new();
    let Some(recipe) = document.value.as_object_mut() else { return errors };
    let section = recipe.entry("algorithm").or_insert_with(|| Value::Object(Map::new()));
    if let Value::String(name) = section {
        *section =
            Value::Object(Map::from_iter([("preset".to_owned(), Value::String(std::mem::take(name)))]));
    }
    let Value::Object(section) = section else { return errors };
    let mut given = std::mem::take(section);
    let preset = given.get("preset").cloned().and_then(|p| serde_json::from_value::<Preset>(p).ok());
    let base = serde_json::to_value(preset::algorithm(preset.unwrap_or_default())).unwrap_or_default();
    let Value::Object(base) = base else { return errors };

    for (part, value) in &mut given {
        name_as_table(part, value);
    }
    for (short, part, option) in SHORTHANDS {
        let Some(value) = given.shift_remove(short) else { continue };
        let table = given.entry(part).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(table) = table else { continue };
        let (from, to) = (format!("algorithm.{short}"), format!("algorithm.{part}.{option}"));
        if table.contains_key(option) {
            errors.push(document.error(
                &from,
                Problem::Contradiction {
                    reason: format!("`{part}` has `{option}` too, which is the same"),
                    remedy: "leave one of the two out".into(),
                },
            ));
            continue;
        }
        table.insert(option.to_owned(), value);
        document.move_place(&from, &to);
    }
    if let Some(Value::Object(loss)) = given.get_mut("loss")
        && loss.get("kind").or(base["loss"].get("kind")) == Some(&"cispo".into())
    {
        for (theirs, ours, sign) in CISPO {
            if let Some(eps) = loss.get(theirs).and_then(Value::as_f64).filter(|_| !loss.contains_key(ours)) {
                loss.shift_remove(theirs);
                loss.insert(ours.to_owned(), (1.0 + sign * eps).into());
                document.move_place(&format!("algorithm.loss.{theirs}"), &format!("algorithm.loss.{ours}"));
            }
        }
    }
    for (part, usual) in base {
        match given.get_mut(&part) {
            None => {
                given.insert(part, usual);
            }
            Some(value) => fill(&part, value, &usual),
        }
    }
    if let Some(Value::Object(section)) = document.value.get_mut("algorithm") {
        *section = given;
    }
    errors
}

/// `loss = "cispo"` is `loss = { kind = "cispo" }`, also in a list.
fn name_as_table(part: &str, value: &mut Value) {
    if section::kinds(part).is_empty() {
        return;
    }
    match value {
        Value::String(name) => {
            let kind = Value::String(std::mem::take(name));
            *value = Value::Object(Map::from_iter([("kind".to_owned(), kind)]));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_as_table(part, item)),
        _ => {}
    }
}

/// Options that are not given: the preset's where the kind is the preset's, else those of the kind.
fn fill(part: &str, value: &mut Value, usual: &Value) {
    let kinds = section::kinds(part);
    match value {
        Value::Object(table) if kinds.is_empty() => merge(table, usual),
        Value::Object(table) => {
            if !table.contains_key("kind")
                && let Some(kind) = usual.get("kind")
            {
                table.shift_insert(0, "kind".to_owned(), kind.clone());
            }
            let kind = table.get("kind").cloned();
            let same = |all: &&Value| all.get("kind") == kind.as_ref();
            if let Some(defaults) = Some(usual).filter(same).or_else(|| kinds.iter().find(same)) {
                merge(table, defaults);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(part, item, &Value::Null)),
        _ => {}
    }
}

fn merge(table: &mut Map<String, Value>, defaults: &Value) {
    for (key, value) in defaults.as_object().into_iter().flatten() {
        if !table.contains_key(key) {
            table.insert(key.clone(), value.clone());
        }
    }
}
