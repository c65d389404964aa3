//! A plugin's configuration against the JSON Schema that it declares.
//!
//! The schema is the plugin's, so it is a stranger's: this is a small checker with bounds, over the
//! keywords that configurations need. A keyword that it does not know is an error, never ignored,
//! so that a plugin's author does not count on what is not checked. Supported (JSON Schema 2020-12):
//! `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `minimum`,
//! `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, `minLength`, `maxLength`,
//! `minItems`, `maxItems`, `uniqueItems`, `anyOf`, `oneOf`, `allOf`, `$ref` to `#/$defs/NAME`,
//! and annotations.

use serde_json::{Map, Value};

/// Nesting of schemas and of `$ref`s within one check.
const DEPTH: usize = 32;
/// Subschemas visited within one check, so that a schema cannot make it long.
const STEPS: usize = 100_000;

/// Why a configuration or its schema was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// The schema is at fault.
    Schema(String),
    /// The configuration is at fault.
    Config(String),
}

/// Checks that `schema` (JSON text) is one that `check` understands, and returns it.
pub(crate) fn parse(schema: &str) -> Result<Value, SchemaError> {
    if schema.trim().is_empty() {
        return Ok(Value::Bool(true));
    }
    let value: Value = serde_json::from_str(schema)
        .map_err(|e| SchemaError::Schema(format!("config-schema is not JSON: {e}")))?;
    understand(&value, 0)?;
    Ok(value)
}

/// Checks `config` against a schema that [`parse`] returned.
pub(crate) fn check(schema: &Value, config: &Value) -> Result<(), SchemaError> {
    let mut checker = Checker { root: schema, steps: 0 };
    checker.check(schema, config, "", 0)
}

const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "format",
    "readOnly",
];
const WITH_VALUE: [&str; 13] = [
    "type",
    "required",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

/// Refuses keywords that are not checked, at every level.
fn understand(schema: &Value, depth: usize) -> Result<(), SchemaError> {
    if depth > DEPTH {
        return Err(SchemaError::Schema("config-schema is nested too deeply".into()));
    }
    let object = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(object) => object,
        _ => return Err(SchemaError::Schema("config-schema has a schema that is no object".into())),
    };
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("$defs" | "properties", Value::Object(schemas)) => {
                schemas.values().try_for_each(|s| understand(s, depth + 1))?;
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                schemas.iter().try_for_each(|s| understand(s, depth + 1))?;
            }
            ("additionalProperties" | "items", value) => understand(value, depth + 1)?,
            ("$ref", Value::String(_)) | ("uniqueItems", Value::Bool(_)) => {}
            (k, _) if ANNOTATIONS.contains(&k) || WITH_VALUE.contains(&k) => {}
            (k, _) => {
                let k = crate::log::sanitise(k, 60);
                return Err(SchemaError::Schema(format!("config-schema uses `{k}`, which is not supported")));
            }
        }
    }
    Ok(())
}

struct Checker<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> Checker<'s> {
    fn check(&mut self, schema: &'s Value, value: &Value, at: &str, depth: usize) -> Result<(), SchemaError> {
        self.steps += 1;
        if depth > DEPTH || self.steps > STEPS {
            return Err(SchemaError::Schema("config-schema takes too long to check".into()));
        }
        let object = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => return Err(no(at, "is not allowed")),
            Value::Object(object) => object,
            _ => return Err(SchemaError::Schema("config-schema has a schema that is no object".into())),
        };
        if let Some(Value::String(reference)) = object.get("$ref") {
            let target = self.resolve(reference)?;
            self.check(target, value, at, depth + 1)?;
        }
        plain(object, value, at)?;
        self.within(object, value, at, depth)?;
        self.combined(object, value, at, depth)
    }

    fn resolve(&self, reference: &str) -> Result<&'s Value, SchemaError> {
        if reference == "#" {
            return Ok(self.root);
        }
        let name = reference.strip_prefix("#/$defs/");
        name.and_then(|n| self.root.get("$defs")?.get(n)).ok_or_else(|| {
            let reference = crate::log::sanitise(reference, 100);
            SchemaError::Schema(format!("config-schema refers to `{reference}`, which is not there"))
        })
    }

    /// Properties and items.
    fn within(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        if let Value::Object(fields) = value {
            let properties = schema.get("properties").and_then(Value::as_object);
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if let Some(name) = name.as_str().filter(|n| !fields.contains_key(*n)) {
                    return Err(no(&join(at, &crate::log::sanitise(name, 60)), "is required"));
                }
            }
            for (name, field) in fields {
                let path = join(at, name);
                match (properties.and_then(|p| p.get(name)), schema.get("additionalProperties")) {
                    (Some(sub), _) => self.check(sub, field, &path, depth + 1)?,
                    (None, Some(Value::Bool(false))) => {
                        let known: Vec<_> =
                            properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                        let known = crate::log::sanitise(&known, 300);
                        return Err(no(&path, &format!("is not known; known are: {known}")));
                    }
                    (None, Some(sub)) => self.check(sub, field, &path, depth + 1)?,
                    (None, None) => {}
                }
            }
        }
        if let (Value::Array(items), Some(sub)) = (value, schema.get("items")) {
            for (i, item) in items.iter().enumerate() {
                self.check(sub, item, &format!("{at}[{i}]"), depth + 1)?;
            }
        }
        Ok(())
    }

    /// `allOf`, `anyOf`, `oneOf`.
    fn combined(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        for sub in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.check(sub, value, at, depth + 1)?;
        }
        for (keyword, exactly_one) in [("anyOf", false), ("oneOf", true)] {
            let Some(subs) = schema.get(keyword).and_then(Value::as_array) else { continue };
            let (mut fits, mut last) = (0, no(at, "fits none of the allowed forms"));
            for sub in subs {
                match self.check(sub, value, at, depth + 1) {
                    Ok(()) => fits += 1,
                    Err(error @ SchemaError::Schema(_)) => return Err(error),
                    Err(error) => last = error,
                }
            }
            match fits {
                0 if subs.len() == 1 => return Err(last),
                0 => return Err(no(at, "fits none of the allowed forms")),
                1 => {}
                _ if exactly_one => return Err(no(at, "fits more than one of the allowed forms")),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Keywords that look at the value alone.
fn plain(schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), SchemaError> {
    if let Some(types) = schema.get("type") {
        let allowed: Vec<&str> = match types {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Err(SchemaError::Schema("config-schema has a `type` that is no name".into())),
        };
        if !allowed.iter().any(|name| is_a(value, name)) {
            let allowed = crate::log::sanitise(&allowed.join(" or "), 100);
            return Err(no(at, &format!("must be of type {allowed}, not {}", type_name(value))));
        }
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        let allowed = crate::log::sanitise(&allowed.join(", "), 300);
        return Err(no(at, &format!("must be one of {allowed}")));
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        return Err(no(at, &format!("must be {}", crate::log::sanitise(&only.to_string(), 100))));
    }
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    if let Some(x) = value.as_f64() {
        numbers(x, at, &bound)?;
    }
    let size = match value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength", "characters")),
        Value::Array(items) => Some((items.len(), "minItems", "maxItems", "items")),
        _ => None,
    };
    if let Some((size, min, max, unit)) = size {
        if let Some(min) = bound(min).filter(|m| (size as f64) < *m) {
            return Err(no(at, &format!("must have at least {min} {unit}")));
        }
        if let Some(max) = bound(max).filter(|m| (size as f64) > *m) {
            return Err(no(at, &format!("must have at most {max} {unit}")));
        }
    }
    if let (Some(Value::Bool(true)), Value::Array(items)) = (schema.get("uniqueItems"), value) {
        for (i, item) in items.iter().enumerate() {
            if items[..i].contains(item) {
                return Err(no(at, "must not have an item twice"));
            }
        }
    }
    Ok(())
}

fn numbers(x: f64, at: &str, bound: &dyn Fn(&str) -> Option<f64>) -> Result<(), SchemaError> {
    if let Some(min) = bound("minimum").filter(|m| x < *m) {
        return Err(no(at, &format!("must be at least {min}")));
    }
    if let Some(max) = bound("maximum").filter(|m| x > *m) {
        return Err(no(at, &format!("must be at most {max}")));
    }
    if let Some(min) = bound("exclusiveMinimum").filter(|m| x <= *m) {
        return Err(no(at, &format!("must be greater than {min}")));
    }
    if let Some(max) = bound("exclusiveMaximum").filter(|m| x >= *m) {
        return Err(no(at, &format!("must be less than {max}")));
    }
    if let Some(step) = bound("multipleOf").filter(|s| *s > 0.0 && (x / s).fract() != 0.0) {
        return Err(no(at, &format!("must be a multiple of {step}")));
    }
    Ok(())
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|x| x.fract() == 0.0),
        "number" => value.is_number(),
        name => name == type_name(value),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn no(at: &str, what: &str) -> SchemaError {
    SchemaError::Config(if at.is_empty() { format!("it {what}") } else { format!("`{at}` {what}") })
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refuse(schema: &Value, config: Value) -> String {
        match check(&parse(&schema.to_string()).unwrap(), &config) {
            Err(SchemaError::Config(message)) => message,
            other => panic!("{config} gave {other:?}"),
        }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "mode": {"enum": ["strict", "lenient"]},
                "weight": {"type": "number", "minimum": 0, "exclusiveMaximum": 2},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
                "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}
            },
            "required": ["mode"],
            "additionalProperties": false,
            "$defs": {"tag": {"type": "string", "minLength": 1}}
        })
    }

    #[test]
    fn a_fitting_configuration_passes() {
        let schema = parse(&schema().to_string()).unwrap();
        for config in [
            json!({"mode": "strict"}),
            json!({"mode": "lenient", "weight": 1.5, "tags": ["a"], "limit": null}),
            json!({"mode": "lenient", "limit": 3.0}),
        ] {
            assert_eq!(check(&schema, &config), Ok(()), "{config}");
        }
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let table = [
            (json!([]), "it must be of type object, not array"),
            (json!({}), "`mode` is required"),
            (json!({"mode": "x"}), "`mode` must be one of \"strict\", \"lenient\""),
            (
                json!({"mode": "strict", "wait": 1}),
                "`wait` is not known; known are: mode, weight, tags, limit",
            ),
            (json!({"mode": "strict", "weight": 2}), "`weight` must be less than 2"),
            (json!({"mode": "strict", "weight": -0.5}), "`weight` must be at least 0"),
            (json!({"mode": "strict", "tags": ["a", ""]}), "`tags[1]` must have at least 1 characters"),
            (json!({"mode": "strict", "tags": ["a", "b", "c"]}), "`tags` must have at most 2 items"),
            (json!({"mode": "strict", "limit": 0}), "`limit` fits none of the allowed forms"),
        ];
        for (config, message) in table {
            assert_eq!(refuse(&schema(), config), message);
        }
    }

    #[test]
    fn an_unknown_keyword_is_refused_not_ignored() {
        let error = parse(r#"{"properties": {"a": {"pattern": "x"}}}"#).unwrap_err();
        assert_eq!(error, SchemaError::Schema("config-schema uses `pattern`, which is not supported".into()));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = parse(r##"{"$ref": "#"}"##).unwrap();
        assert!(matches!(check(&schema, &json!(1)), Err(SchemaError::Schema(_))));
        let wide = parse(r##"{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}"##).unwrap();
        assert!(matches!(check(&wide, &json!(1)), Err(SchemaError::Schema(_))));
    }
}
