//! What templates take from Python: functions, methods, and how values are printed.

use super::clock;
use super::dumps::float;
use minijinja::value::{Value, ValueKind};
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
    environment.set_unknown_method_callback(method);
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

/// Methods of Python's strings that minijinja-contrib does not have.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

/// Prints floats as Python does; everything else as minijinja.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        let text = float(f64::try_from(value.clone())?);
        return out.write_str(&text).map_err(Error::from);
    }
    minijinja::escape_formatter(out, state, value)
}
