//! JSON as Python's `json.dumps` writes it.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// How values are written.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

/// The filter `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = kwargs.get("indent")?;
    let indent = indent.filter(|v| !v.is_none()).map(|v| match v.as_usize() {
        Some(n) => " ".repeat(n.min(64)),
        None => v.to_string(),
    });
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let item = if indent.is_some() { "," } else { ", " };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators must be two texts")),
        None => (item.to_owned(), ": ".to_owned()),
    };
    let ensure_ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    write(&mut out, value, &Style { ensure_ascii, indent, item, key, sort_keys }, 0)?;
    Ok(Value::from_safe_string(out))
}

fn write(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > 200 {
        return Err(Error::new(ErrorKind::InvalidOperation, "the value is nested too deeply for JSON"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&f64::try_from(value.clone()).map(float)?),
        ValueKind::String => string(out, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            nested(out, '[', ']', &items, style, depth, |out, item| write(out, item, style, depth + 1))?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            nested(out, '{', '}', &keys, style, depth, |out, key| {
                string(out, &key_text(key), style);
                out.push_str(&style.key);
                write(out, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        other => {
            let reason = format!("a value of type {other} is not JSON serializable");
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
    }
    Ok(())
}

fn nested(
    out: &mut String,
    open: char,
    close: char,
    items: &[Value],
    style: &Style,
    depth: usize,
    mut each: impl FnMut(&mut String, &Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    out.push(open);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(&style.item);
        }
        line(out, depth + 1);
        each(out, item)?;
    }
    if !items.is_empty() {
        line(out, depth);
    }
    out.push(close);
    Ok(())
}

/// Keys that are no text are written as JSON writes the value.
fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => key.is_true().to_string(),
        ValueKind::Number if !key.is_integer() => f64::try_from(key.clone()).map(float).unwrap_or_default(),
        _ => key.to_string(),
    }
}

fn string(out: &mut String, text: &str, style: &Style) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (style.ensure_ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A float as Python's `repr` writes it: the shortest digits, an exponent below 1e-4 and from 1e16.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_are_written_as_python_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (-3e-7, "-3e-07"),
            (1e20, "1e+20"),
            (1.25e300, "1.25e+300"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
