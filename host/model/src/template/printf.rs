//! printf-style formatting as Python's `format % values`, on top of minijinja's.
//!
//! minijinja converts the numbers; this finds the value of every conversion, writes `%r` and `%a`,
//! cuts a float for `%d`, and notices values that are left over. The filter `format` is the same.

use super::python::{as_float, repr, show};
use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::iter::Peekable;
use std::str::Chars;

/// minijinja's own.
const PRINTF: &str = "__printf__";

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(PRINTF, minijinja::filters::format);
    environment.add_filter("format", filter);
}

/// `format | format(value, …)` or `format | format(key=value, …)`.
fn filter(state: &mut State, format: Value, values: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let pairs: Result<Vec<(&str, Value)>, Error> = named.args().map(|k| Ok((k, named.get(k)?))).collect();
    let pairs = pairs?;
    if pairs.is_empty() {
        return printf(state, &format, &Value::from(Tuple::new(values.0)));
    }
    if !values.is_empty() {
        return Err(unfit("format takes values in order or by name, not both"));
    }
    printf(state, &format, &Value::from_pairs(pairs))
}

/// `format % values`: a tuple holds several values, a mapping is looked up by `%(key)…`, anything else is the only value.
pub(super) fn printf(state: &mut State, format: &Value, values: &Value) -> Result<Value, Error> {
    let text = format.to_string();
    let mut values = Values {
        in_order: match values.downcast_object_ref::<Tuple>() {
            Some(tuple) => tuple.to_vec(),
            None => vec![values.clone()],
        },
        next: 0,
        all: values,
    };
    let (mut plain, mut arguments) = (String::with_capacity(text.len()), Vec::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        plain.push(c);
        if c == '%' {
            conversion(&mut chars, &mut values, &mut plain, &mut arguments)?;
        }
    }
    if values.is_left_over() {
        return Err(unfit("not all arguments converted during string formatting"));
    }
    arguments.insert(0, if format.is_safe() { Value::from_safe_string(plain) } else { Value::from(plain) });
    state.apply_filter(PRINTF, &arguments)
}

/// The right side of a format.
struct Values<'a> {
    all: &'a Value,
    in_order: Vec<Value>,
    next: usize,
}

impl Values<'_> {
    fn next(&mut self) -> Result<Value, Error> {
        self.next += 1;
        let value = self.in_order.get(self.next - 1).cloned();
        value.ok_or_else(|| unfit("not enough arguments for format string"))
    }

    fn by_key(&mut self, key: &str) -> Result<Value, Error> {
        self.next = self.in_order.len();
        if self.all.kind() != ValueKind::Map {
            return Err(unfit("format requires a mapping"));
        }
        let value = self.all.get_item(&Value::from(key))?;
        if value.is_undefined() {
            Err(unfit(&format!("the format asks for the key '{key}'")))
        } else {
            Ok(value)
        }
    }

    /// Python does not mind where the right side could be looked up by key.
    fn is_left_over(&self) -> bool {
        let by_key = matches!(self.all.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Undefined);
        let is_tuple = self.all.downcast_object_ref::<Tuple>().is_some();
        self.next < self.in_order.len() && (is_tuple || !by_key)
    }
}

/// One conversion, after its `%`: `[(key)][flags][width][.precision][length]type`. It is written without key, length and
/// stars, and its value is added to `arguments`.
fn conversion(
    chars: &mut Peekable<Chars<'_>>,
    values: &mut Values<'_>,
    plain: &mut String,
    arguments: &mut Vec<Value>,
) -> Result<(), Error> {
    let mut keyed = None;
    if chars.next_if_eq(&'(').is_some() {
        let mut key = String::new();
        let mut depth = 1;
        for c in chars.by_ref() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 {
                break;
            }
            key.push(c);
        }
        if depth > 0 {
            return Err(unfit("incomplete format key"));
        }
        keyed = Some(values.by_key(&key)?);
    }
    while let Some(c) = chars.next_if(|c| "#0- +.*123456789".contains(*c)) {
        if c == '*' {
            let number = values.next()?.as_i64().ok_or_else(|| unfit("* wants an integer"))?;
            plain.push_str(&number.to_string());
        } else {
            plain.push(c);
        }
    }
    while chars.next_if(|c| "hlL".contains(*c)).is_some() {}
    let kind = chars.next().ok_or_else(|| unfit("incomplete format"))?;
    if kind == '%' {
        plain.push('%');
        return Ok(());
    }
    let value = match keyed {
        Some(value) => value,
        None => values.next()?,
    };
    let (kind, value) = match kind {
        's' => ('s', Value::from(show(&value))),
        'r' => ('s', Value::from(repr(&value))),
        'a' => ('s', Value::from(ascii(&repr(&value)))),
        'd' | 'i' | 'u' => ('d', whole(value)),
        other => (other, value),
    };
    plain.push(kind);
    arguments.push(value);
    Ok(())
}

/// A float without its fraction; other values as they are.
fn whole(value: Value) -> Value {
    match as_float(&value) {
        Some(number) if number.abs() < 1e38 => Value::from(number.trunc() as i128),
        _ => value,
    }
}

/// Characters beyond ASCII as Python's `ascii` escapes them.
fn ascii(text: &str) -> String {
    let escape = |c: char| match u32::from(c) {
        0..=0x7f => c.to_string(),
        code @ 0x80..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    text.chars().map(escape).collect()
}

fn unfit(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.to_owned())
}
