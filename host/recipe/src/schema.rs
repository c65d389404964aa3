//! The recipe's JSON Schema: what editors complete from, the reference is printed from, and recipes are checked by.

use crate::expand::SHORTHANDS;
use crate::{Recipe, section};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// JSON Schema (2020-12) of a recipe.
///
/// Objects are closed unless they are free-form (a plugin's `config`, `template-kwargs`), and nothing is
/// nullable, since TOML has no null: an optional key is left out.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Recipe>();
    RecursiveTransform(close_objects).transform(&mut schema);
    RecursiveTransform(drop_null).transform(&mut schema);
    let mut schema = schema.to_value();
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        describe_kinds(definitions);
    }
    if let Some(algorithm) = schema.pointer_mut("/properties/algorithm") {
        or_a_name(algorithm, json!({"$ref": "#/$defs/Preset"}));
    }
    schema
}

/// Parts of an algorithm that have kinds: their options have defaults, and a kind may be named alone. Without a
/// name the kind is the preset's, so that no key of theirs is required.
fn describe_kinds(definitions: &mut Map<String, Value>) {
    for (name, part) in [
        ("Estimator", "estimator"),
        ("Loss", "loss"),
        ("Reduction", "reduction"),
        ("Correction", "correction"),
        ("Rejection", "rejection"),
    ] {
        let Some(Value::Object(definition)) = definitions.get_mut(name) else { continue };
        let kinds = section::kinds(part);
        // Not `oneOf`: without `kind` a table fits several.
        let Some(Value::Array(mut branches)) = definition.shift_remove("oneOf") else { continue };
        for branch in &mut branches {
            let kind = branch.pointer("/properties/kind/const").cloned();
            let defaults = kinds.iter().find(|k| k.get("kind") == kind.as_ref());
            if let Value::Object(branch) = branch {
                branch.shift_remove("required");
            }
            let properties = branch.get_mut("properties").and_then(Value::as_object_mut);
            for (key, property) in properties.into_iter().flatten().filter(|(key, _)| *key != "kind") {
                if let (Value::Object(property), Some(default)) =
                    (property, defaults.and_then(|d| d.get(key)))
                {
                    property.insert("default".into(), default.clone());
                }
            }
        }
        definition.insert("anyOf".into(), Value::Array(branches));
        let names: Vec<Value> = kinds.iter().filter_map(|k| k.get("kind").cloned()).collect();
        let name = json!({"type": "string", "enum": names});
        let property =
            definitions.get_mut("Algorithm").and_then(|a| a.pointer_mut(&format!("/properties/{part}")));
        match property {
            Some(Value::Object(list)) if list.contains_key("items") => {
                if let Some(items) = list.get_mut("items") {
                    or_a_name(items, name);
                }
                or_a_lone_item(list);
            }
            Some(property) => or_a_name(property, name),
            None => {}
        }
    }
    let shorthands = SHORTHANDS.map(|(short, part, option)| {
        let branches = definitions.get(match part {
            "loss" => "Loss",
            _ => "Estimator",
        });
        let branches = branches.and_then(|d| d.get("anyOf")).and_then(Value::as_array);
        let found = branches.into_iter().flatten().find_map(|b| b.pointer(&format!("/properties/{option}")));
        let mut property = found.cloned().unwrap_or_default();
        if let Value::Object(property) = &mut property {
            property.shift_remove("default");
            property.insert("description".into(), format!("Short for `{part}.{option}`.").into());
        }
        (short, property)
    });
    if let Some(Value::Object(properties)) =
        definitions.get_mut("Algorithm").and_then(|a| a.get_mut("properties"))
    {
        properties.extend(shorthands.map(|(short, property)| (short.to_owned(), property)));
    }
}

/// Lets a reference to a table be a name as well.
fn or_a_name(property: &mut Value, name: Value) {
    if let Value::Object(property) = property
        && let Some(reference) = property.shift_remove("$ref")
    {
        property.insert("anyOf".into(), json!([{"$ref": reference}, name]));
    }
}

/// Lets a list be one item alone.
fn or_a_lone_item(property: &mut Map<String, Value>) {
    if let Some(items) = property.shift_remove("items") {
        property.shift_remove("type");
        let mut branches = vec![json!({"type": "array", "items": items})];
        branches.extend(items["anyOf"].as_array().cloned().unwrap_or_default());
        property.insert("anyOf".into(), branches.into());
    }
}

fn close_objects(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".into(), Value::Bool(false));
    }
}

fn drop_null(schema: &mut Schema) {
    let null = Value::String("null".into());
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|t| *t != null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&null));
        if let [only] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            if let Value::Object(only) = only {
                for (key, value) in only {
                    schema.insert(key, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_schema_is_described() {
        let schema = schema();
        let mut undescribed = Vec::new();
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, definition) in
            definitions.iter().map(|(n, d)| (n.as_str(), d)).chain([("Recipe", &schema)])
        {
            for (key, property) in definition["properties"].as_object().into_iter().flatten() {
                if property.get("description").is_none() && property.get("$ref").is_none() {
                    undescribed.push(format!("{name}.{key}"));
                }
            }
        }
        assert!(undescribed.is_empty(), "{undescribed:?}");
        assert!(definitions.len() > 20);
    }

    #[test]
    fn nothing_in_the_schema_is_nullable() {
        assert!(!schema().to_string().contains("\"null\""));
    }
}
