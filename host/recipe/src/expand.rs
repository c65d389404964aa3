//! `[algorithm]` written out: shorthands become tables, and what the recipe leaves open comes from the preset.

use crate::algorithms::kind_schema;
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
        // A lone rule is a list of one.
        if part == "rejection" && value.is_object() {
            *value = Value::Array(vec![value.take()]);
            document.move_below("algorithm.rejection", "algorithm.rejection[0]");
        }
    }
    for (short, part, option) in SHORTHANDS {
        let Some(value) = given.shift_remove(short) else { continue };
        if let Some(problem) = without(given.get(part), &base[part], part, option) {
            errors.push(document.error(&format!("algorithm.{short}"), problem));
            continue;
        }
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

/// Whether the kind of `part`, as given or else as the preset has it, lacks an option, and which kinds have it.
fn without(given: Option<&Value>, usual: &Value, part: &str, option: &str) -> Option<Problem> {
    let kind = given.and_then(|given| given.get("kind")).or_else(|| usual.get("kind"))?;
    let kinds = section::kinds(part);
    // A kind that does not exist is reported as such.
    let chosen = kinds.iter().find(|all| all.get("kind") == Some(kind))?;
    let schema = crate::schema();
    let has = |kind: &Value| {
        let kind = kind["kind"].as_str().unwrap_or_default();
        let found = kind_schema(&schema, part, kind);
        found.is_some_and(|found| found["properties"].get(option).is_some())
    };
    if has(chosen) {
        return None;
    }
    let others: Vec<String> =
        kinds.iter().filter(|kind| has(kind)).map(|kind| format!("`{part} = {}`", kind["kind"])).collect();
    let kind = kind.as_str().unwrap_or_default();
    Some(Problem::Unused {
        reason: format!("{part} `{kind}` has no `{option}`"),
        remedy: format!("leave it out, or write one that has it: {}", others.join(", ")),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecipeErrors;

    fn expanded(algorithm: &str) -> Result<Value, String> {
        let text = format!("[algorithm]\n{algorithm}\n");
        let Ok(mut document) = Document::parse(&text) else { panic!("{text}") };
        let mut errors = expand(&mut document);
        let schema = crate::schema();
        let shape = crate::shape::check(&document, &schema);
        errors.extend(shape.into_iter().filter(|e| e.key.starts_with("algorithm")));
        match errors.is_empty() {
            true => Ok(document.value["algorithm"].take()),
            false => Err(RecipeErrors { file: "r.toml".into(), text, errors }.to_string()),
        }
    }

    #[test]
    fn a_shorthand_for_an_option_that_the_kind_does_not_have_says_so() {
        for (lines, words) in [
            (
                "loss = \"sapo\"\nclip-high = 0.3",
                "`algorithm.clip-high` has no effect: loss `sapo` has no `high`",
            ),
            ("preset = \"rloo\"\nclip-high = 0.3", "has no `high`"),
            ("clip-low = 0.1\nloss = \"dro\"", "`algorithm.clip-low` has no effect: loss `dro` has no `low`"),
            (
                "preset = \"opo\"\nscale = \"none\"",
                "`algorithm.scale` has no effect: estimator `opo` has no `scale`",
            ),
        ] {
            let told = expanded(lines).expect_err(lines);
            assert!(told.contains(words) && told.contains("write one that has it: `"), "{lines}: {told}");
            assert!(told.contains("--> r.toml:") && !told.contains("did you mean"), "{lines}: {told}");
            assert_eq!(told.matches("error:").count(), 1, "{lines}: {told}");
        }
        let told = expanded("estimator = { kind = \"opo\", scale = \"none\" }").expect_err("long form");
        assert!(!told.contains("algorithm.scale`?"), "{told}");
        for lines in [
            "clip-high = 0.3",
            "preset = \"gspo\"\nclip-low = 1e-4",
            "scale = \"none\"",
            "loss = \"cispo\"\nclip-high = 4.0",
        ] {
            assert!(expanded(lines).is_ok(), "{lines}");
        }
    }

    #[test]
    fn a_lone_rejection_is_a_list_of_one() {
        let list = expanded("rejection = [\"veto\"]").expect("a list");
        assert_eq!(list["rejection"].as_array().map(Vec::len), Some(1));
        for lone in ["rejection = \"veto\"", "rejection = { kind = \"veto\" }"] {
            assert_eq!(expanded(lone).expect(lone), list, "{lone}");
        }
        let told = expanded("[algorithm.rejection]\nkind = \"veto\"\nbelow = 0").expect_err("a table");
        assert!(told.contains("`algorithm.rejection[0].below` is 0") && told.contains("r.toml:4:"), "{told}");
    }
}
