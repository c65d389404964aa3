//! What templates take from Python: functions, and how values are printed.

use super::dumps::float;
use super::{clock, methods};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

/// The variable that holds the fixed time, if any.
pub(super) const CLOCK: &str = "__clock__";

/// Lists in lists that are printed as in Python.
const DEEPEST: usize = 100;

/// `raise_exception` was called with this message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Adds functions and methods, and prints as Python does.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_function("dict", dict);
    environment.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(print);
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

/// `dict(pairs or mapping, key=value, …)`.
fn dict(given: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(given) = given {
        let is_mapping = given.kind() == ValueKind::Map;
        for item in given.try_iter()? {
            pairs.push(match is_mapping {
                true => (item.clone(), given.get_item(&item)?),
                false => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            });
        }
    }
    for key in named.args() {
        pairs.push((Value::from(key), named.get(key)?));
    }
    Ok(Value::from_pairs(pairs))
}

/// Prints numbers, lists and dictionaries as Python does; everything else as minijinja.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            out.write_str(&show(value)).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// As Python's `str`.
pub(super) fn show(value: &Value) -> String {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map => repr(value),
        _ => value.to_string(),
    }
}

/// As Python's `repr`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

/// The number, where it is a float in Python.
pub(super) fn as_float(value: &Value) -> Option<f64> {
    let is_float = value.kind() == ValueKind::Number && !value.is_integer();
    f64::try_from(value.clone()).ok().filter(|_| is_float)
}

fn write(out: &mut String, value: &Value, depth: usize) {
    // An object of minijinja's may show itself in a way of its own.
    let shown_as = |open: [char; 2]| depth < DEEPEST && value.to_string().starts_with(open);
    match value.kind() {
        ValueKind::Number if as_float(value).is_some() => {
            let number = as_float(value).unwrap_or(f64::NAN);
            out.push_str(&match number {
                n if n.is_nan() => "nan".to_owned(),
                n if n.is_infinite() => if n > 0.0 { "inf" } else { "-inf" }.to_owned(),
                n => float(n),
            });
        }
        ValueKind::Seq if shown_as(['[', '(']) => {
            let is_tuple = value.to_string().starts_with('(');
            out.push(if is_tuple { '(' } else { '[' });
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write(out, &item, depth + 1);
            }
            let end = if value.len() == Some(1) { ",)" } else { ")" };
            out.push_str(if is_tuple { end } else { "]" });
        }
        ValueKind::Map if shown_as(['{', '{']) => {
            out.push('{');
            for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write(out, &key, depth + 1);
                out.push_str(": ");
                write(out, &value.get_item(&key).unwrap_or_default(), depth + 1);
            }
            out.push('}');
        }
        ValueKind::Undefined => out.push_str("Undefined"),
        _ => out.push_str(&format!("{value:?}")),
    }
}
