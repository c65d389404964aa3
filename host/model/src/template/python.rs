//! What templates take from Python: functions, methods, and how values are printed.

use super::clock;
use super::dumps::float;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

/// The variable that holds the fixed time, if any.
pub(super) const CLOCK: &str = "__clock__";

/// `raise_exception` was called with this message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Adds the functions, methods and filters that differ from minijinja's.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(print);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("e", escape);
    environment.add_filter("escape", escape);
    environment.add_filter("truncate", truncate);
    environment.add_filter("wordcount", wordcount);
}

/// The five characters that markupsafe escapes, as it writes them.
fn escape(value: Value) -> Value {
    if value.is_safe() {
        return value;
    }
    let text = value.to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Value::from_safe_string(text.replace('\'', "&#39;").replace('"', "&#34;"))
}

/// Percent-encoding of everything but unreserved characters and slashes.
fn urlencode(text: String) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// `truncate(length=255, killwords=False, end='...', leeway=5)`, in characters.
fn truncate(
    text: String,
    length: Option<usize>,
    killwords: Option<bool>,
    end: Option<String>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let length = length.or(kwargs.get("length")?).unwrap_or(255);
    let killwords = killwords.or(kwargs.get("killwords")?).unwrap_or(false);
    let end = end.or(kwargs.get("end")?).unwrap_or_else(|| "...".into());
    let leeway = kwargs.get::<Option<usize>>("leeway")?.unwrap_or(5);
    kwargs.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let whole =
        if killwords { &kept } else { kept.rsplit_once(' ').map_or(kept.as_str(), |(words, _)| words) };
    Ok(format!("{whole}{end}"))
}

fn wordcount(text: String) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

fn strftime_now(state: &mut State, pattern: String) -> Result<String, Error> {
    let fixed = state.lookup(CLOCK).and_then(|v| v.as_i64());
    clock::format(fixed.unwrap_or_else(clock::now), &pattern).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown directive in {pattern:?}"))
    })
}

/// Prints floats as Python does; everything else as minijinja.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        let text = float(f64::try_from(value.clone())?);
        return out.write_str(&text).map_err(Error::from);
    }
    minijinja::escape_formatter(out, state, value)
}
