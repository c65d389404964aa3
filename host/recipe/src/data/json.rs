//! JSON that keeps the text of its numbers.
//!
//! A parser that turns `9007199254740993` or `1.0` into a float has already lost what a label said.
//! Here a value is first checked by `serde_json`, then cut into the source text of its parts.

use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// The fields of a valid JSON object as source text, in order. `None` when it is not an object.
pub(super) fn fields(object: &str) -> Option<Vec<(String, &str)>> {
    let mut rest = object.trim().strip_prefix('{')?.trim_start();
    let mut fields = Vec::new();
    while !rest.starts_with('}') {
        let (key, after) = split_value(rest);
        let key = serde_json::from_str(key).ok()?;
        let (value, after) = split_value(after.trim_start().strip_prefix(':')?.trim_start());
        fields.push((key, value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(fields)
}

/// The items of a valid JSON array as source text. `None` when it is not an array.
pub(super) fn items(array: &str) -> Option<Vec<&str>> {
    let mut rest = array.trim().strip_prefix('[')?.trim_start();
    let mut items = Vec::new();
    while !rest.starts_with(']') {
        let (item, after) = split_value(rest);
        items.push(item);
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(items)
}

/// The most lists and objects that may stand within each other: what readers of JSON usually allow, so that a value
/// that is read here can be read again wherever it is sent.
pub(super) const DEEPEST: usize = 100;

/// Whether a valid value has lists and objects within each other beyond [`DEEPEST`].
pub(super) fn too_deep(source: &str) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in source.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

/// A valid value at the start of `text`, and what follows it.
fn split_value(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let nested = matches!(bytes.first(), Some(b'{' | b'[' | b'"'));
    for (at, byte) in bytes.iter().enumerate() {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => continue,
            }
            if !quoted && depth == 0 {
                return text.split_at(at + 1);
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return text.split_at(at + 1);
                }
            }
            b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 && !nested => {
                return text.split_at(at);
            }
            _ => {}
        }
    }
    (text, "")
}

/// The text of a valid value: a string's content, and the source of anything else.
pub(super) fn text(value: &str) -> Cow<'_, str> {
    if value.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(value)
    {
        return Cow::Owned(text);
    }
    Cow::Borrowed(value)
}

/// The value; a number that 64 bits cannot hold exactly becomes its text.
pub(super) fn value(source: &str) -> Value {
    match source.as_bytes().first() {
        Some(b'{') => {
            let fields = fields(source).unwrap_or_default();
            Value::Object(fields.into_iter().map(|(key, source)| (key, value(source))).collect::<Map<_, _>>())
        }
        Some(b'[') => Value::Array(items(source).unwrap_or_default().into_iter().map(value).collect()),
        Some(b'-' | b'0'..=b'9') => {
            number(source).map_or_else(|| Value::String(source.to_owned()), Value::Number)
        }
        _ => serde_json::from_str(source).unwrap_or(Value::Null),
    }
}

/// A number that 64 bits hold without loss: an integer, or a decimal of at most 17 significant digits.
fn number(source: &str) -> Option<Number> {
    if source.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return source
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| source.parse::<u64>().map(Number::from))
            .ok();
    }
    let mantissa = source.split(['e', 'E']).next().unwrap_or(source);
    let digits = mantissa.trim_start_matches(['-', '0', '.']).bytes().filter(u8::is_ascii_digit).count();
    let number: f64 = source.parse().ok()?;
    // An exponent beyond a float's gives infinity, and one below gives 0.
    let lost = digits > 17 || (number == 0.0 && digits > 0);
    if lost { None } else { Number::from_f64(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_keep_what_a_float_would_lose() {
        let source = r#"{"a": [1, 1.50, -0.0, 9007199254740993, 123456789012345678901234567890], "b\"": {"c": "}],\\"}, "d":null , "e" :1e400}"#;
        let expected = json!({
            "a": [1, 1.5, -0.0, 9_007_199_254_740_993_i64, "123456789012345678901234567890"],
            "b\"": {"c": "}],\\"},
            "d": null,
            "e": "1e400",
        });
        assert_eq!(value(source), expected);
    }

    #[test]
    fn depth_counts_what_is_within_each_other_and_not_what_is_quoted() {
        let nested = |n| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(!too_deep(&nested(DEEPEST)));
        assert!(too_deep(&nested(DEEPEST + 1)));
        assert!(!too_deep(&format!("[{}]", vec!["[{}]"; 500].join(","))));
        assert!(!too_deep(&format!(r#"["\"{}"]"#, "[".repeat(500))));
    }

    #[test]
    fn fields_are_cut_as_they_stand() {
        let fields = fields(r#" { "a" : 1.0 , "b":"x,}\"" ,"c":[ {} , "]" ],"d":true} "#).unwrap();
        let cut: Vec<(&str, &str)> = fields.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(cut, [("a", "1.0"), ("b", r#""x,}\"""#), ("c", r#"[ {} , "]" ]"#), ("d", "true")]);
        assert_eq!(super::fields("{}"), Some(vec![]));
        assert_eq!(super::fields("[]"), None);
    }
}
