//! The recipe's JSON Schema: what editors complete from, the reference is printed from, and recipes are checked by.

use crate::Recipe;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, generate::SchemaSettings};
use serde_json::Value;

/// JSON Schema (2020-12) of a recipe.
///
/// Objects are closed unless they are free-form (a plugin's `config`, `template-kwargs`), and nothing is
/// nullable, since TOML has no null: an optional key is left out.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Recipe>();
    RecursiveTransform(close_objects).transform(&mut schema);
    RecursiveTransform(drop_null).transform(&mut schema);
    schema.to_value()
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
