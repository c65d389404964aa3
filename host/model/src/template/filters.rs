//! Filters and tests that take other arguments in Jinja2 than in minijinja, or give other results.

use super::methods::pad;
use super::python::show;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

/// The most bytes that indentation adds.
const MOST: usize = 1 << 26;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("sequence", is_sequence);
    environment
        .add_test("iterable", |value: &Value| is_sequence(value) || value.kind() == ValueKind::Iterable);
    environment.add_filter("center", |text: String, width: Option<usize>| {
        pad(&text, width.unwrap_or(80), ' ', "center")
    });
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("e", escape);
    environment.add_filter("escape", escape);
    environment.add_filter("forceescape", |value: Value| escape(Value::from(value.to_string())));
    environment.add_filter("float", float);
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_filter("string", string);
    environment.add_filter("striptags", striptags);
    environment.add_filter("truncate", truncate);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("wordcount", wordcount);
}

/// What has a length and items: in Python texts and dictionaries too.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// `default(default_value='', boolean=False)`.
fn default(value: Value, other: Option<Value>, boolean: Option<bool>, named: Kwargs) -> Result<Value, Error> {
    let other = other.or(named.get("default_value")?).unwrap_or_else(|| Value::from(""));
    let boolean = boolean.or(named.get("boolean")?).unwrap_or(false);
    named.assert_all_used()?;
    Ok(if value.is_undefined() || (boolean && !value.is_true()) { other } else { value })
}

/// The five characters that markupsafe escapes, as it writes them.
fn escape(value: Value) -> Value {
    if value.is_safe() {
        return value;
    }
    let text = show(&value).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Value::from_safe_string(text.replace('\'', "&#39;").replace('"', "&#34;"))
}

fn string(value: Value) -> Value {
    if value.as_str().is_some() { value } else { Value::from(show(&value)) }
}

/// A number as Python reads it: white space around and single underscores between digits are allowed.
fn digits(text: &str) -> String {
    let text = text.trim();
    let inside = |at: usize| {
        let digit = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
        digit(at.checked_sub(1).and_then(|i| text.as_bytes().get(i))) && digit(text.as_bytes().get(at + 1))
    };
    text.char_indices().filter(|(at, c)| *c != '_' || !inside(*at)).map(|(_, c)| c).collect()
}

fn undefined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() { Err(Error::from(ErrorKind::UndefinedError)) } else { Ok(()) }
}

/// `int(default=0, base=10)`.
fn int(value: Value, default: Option<Value>, base: Option<u32>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    undefined(&value)?;
    if value.is_integer() {
        return Ok(value);
    }
    if value.kind() == ValueKind::Bool {
        return Ok(Value::from(i64::from(value.is_true())));
    }
    let number = match value.as_str() {
        Some(text) => {
            let text = digits(text);
            let (sign, number) = match text.strip_prefix('-') {
                Some(number) => ("-", number),
                None => ("", text.strip_prefix('+').unwrap_or(&text)),
            };
            let prefix = [(2, "0b"), (8, "0o"), (16, "0x")].into_iter().find(|(b, _)| *b == base);
            let bare =
                prefix.and_then(|(_, p)| number.to_ascii_lowercase().strip_prefix(p).map(str::to_owned));
            let number = format!("{sign}{}", bare.as_deref().unwrap_or(number));
            if let (2..=36, Ok(number)) = (base, i128::from_str_radix(&number, base.clamp(2, 36))) {
                return Ok(Value::from(number));
            }
            text.parse().ok()
        }
        None => f64::try_from(value).ok(),
    };
    Ok(match number {
        Some(number) if number.is_finite() && number.abs() < 1e38 => Value::from(number.trunc() as i128),
        _ => default,
    })
}

/// `float(default=0.0)`.
fn float(value: Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0.0));
    named.assert_all_used()?;
    undefined(&value)?;
    let number = match value.as_str() {
        Some(text) => digits(text).parse().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(value.is_true())),
        None => f64::try_from(value).ok(),
    };
    Ok(number.map_or(default, Value::from))
}

/// `indent(width=4, first=False, blank=False)`; the width may be the text to put before lines.
fn indent(
    text: String,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = width.or(named.get("width")?).unwrap_or_else(|| Value::from(4));
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let before = match width.as_str() {
        Some(before) => before.to_owned(),
        None => pad("", width.as_usize().unwrap_or(0), ' ', "ljust")?,
    };
    let text = text.replace("\r\n", "\n");
    if before.len().saturating_mul(text.split('\n').count()) > MOST {
        return Err(Error::new(ErrorKind::InvalidOperation, "the indented text is too long"));
    }
    let mut out = if first { before.clone() } else { String::new() };
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
            out.push_str(if blank || !line.is_empty() { &before } else { "" });
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Without tags and comments, runs of white space made one space.
fn striptags(text: String) -> String {
    let (mut plain, mut rest) = (String::new(), text.as_str());
    while let Some((before, after)) = rest.split_once('<') {
        let end = if after.starts_with("!--") {
            after.find("-->").map(|n| n + 3)
        } else {
            after.find('>').map(|n| n + 1)
        };
        let Some(end) = end else { break };
        plain.push_str(before);
        rest = &after[end..];
    }
    plain.push_str(rest);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `truncate(length=255, killwords=False, end='...', leeway=5)`, in characters.
fn truncate(text: String, given: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let argument = |at: usize, name: &str| match given.get(at) {
        Some(value) => Ok(Some(value.clone())),
        None => named.get::<Option<Value>>(name),
    };
    let length = argument(0, "length")?.map_or(Ok(255), usize::try_from)?;
    let killwords = argument(1, "killwords")?.is_some_and(|v| v.is_true());
    let end = argument(2, "end")?.map_or_else(|| "...".to_owned(), |v| v.to_string());
    let leeway = argument(3, "leeway")?.map_or(Ok(5), usize::try_from)?;
    named.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let whole =
        if killwords { &kept } else { kept.rsplit_once(' ').map_or(kept.as_str(), |(words, _)| words) };
    Ok(format!("{whole}{end}"))
}

/// Percent-encoding of everything but unreserved characters and slashes; of pairs as a query, of nothing else.
fn urlencode(value: Value) -> Result<String, Error> {
    let pairs: Vec<[Value; 2]> = match value.kind() {
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            keys.into_iter().map(|k| value.get_item(&k).map(|v| [k, v])).collect::<Result<_, Error>>()?
        }
        ValueKind::Seq => value
            .try_iter()?
            .map(|pair| Ok([pair.get_item_by_index(0)?, pair.get_item_by_index(1)?]))
            .collect::<Result<_, Error>>()?,
        _ => return Ok(percent_encoded(&show(&value), false)),
    };
    let encoded = |v: &Value| percent_encoded(&show(v), true);
    Ok(pairs.iter().map(|[k, v]| format!("{}={}", encoded(k), encoded(v))).collect::<Vec<_>>().join("&"))
}

fn percent_encoded(text: &str, query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn wordcount(text: String) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}
