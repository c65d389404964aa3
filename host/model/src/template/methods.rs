//! Methods of Python's texts, lists, dictionaries and floats that minijinja-contrib lacks or knows without all their arguments.

use minijinja::value::{FunctionArgs, Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// The widest text that padding makes.
const WIDEST: usize = 1 << 20;

/// Calls a method that minijinja itself does not know.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let found = match value.kind() {
        ValueKind::String => value.as_str().map(|text| of_text(text, method, arguments)),
        ValueKind::Seq => Some(of_list(value, method, arguments)),
        ValueKind::Map if method == "copy" => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            let pairs: Result<Vec<_>, Error> =
                keys.into_iter().map(|k| value.get_item(&k).map(|v| (k, v))).collect();
            Some(pairs.map(|pairs| Some(Value::from_pairs(pairs))))
        }
        ValueKind::Number if method == "is_integer" => {
            Some(Ok(f64::try_from(value.clone()).ok().map(|x| Value::from(x.fract() == 0.0))))
        }
        _ => None,
    };
    match found.transpose()?.flatten() {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, arguments),
    }
}

/// `None` for a method that is minijinja-contrib's.
fn of_text(text: &str, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let changes_case = |c: char| c.is_lowercase() || c.is_uppercase();
    Ok(Some(match method {
        "split" | "rsplit" => {
            let (separator, most, named): (Option<Value>, Option<i64>, Kwargs) = from_args(arguments)?;
            let separator = separator.or(named.get("sep")?).filter(|s| !s.is_none());
            let most = most.or(named.get("maxsplit")?).and_then(|n| usize::try_from(n).ok());
            named.assert_all_used()?;
            let separator =
                separator.as_ref().map(|s| s.as_str().ok_or_else(|| unfit("the separator is no text")));
            Value::from(split(
                text,
                separator.transpose()?,
                most.unwrap_or(usize::MAX - 1),
                method == "rsplit",
            )?)
        }
        "partition" | "rpartition" => {
            let separator: &str = one(arguments)?;
            let parts = match (method, separator) {
                (_, "") => return Err(unfit("empty separator")),
                ("partition", s) => text.split_once(s).map_or([text, "", ""], |(a, b)| [a, s, b]),
                (_, s) => text.rsplit_once(s).map_or(["", "", text], |(a, b)| [a, s, b]),
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (part, from, to): (&str, Option<i64>, Option<i64>) = from_args(arguments)?;
            let (start, within) = slice(text, from, to);
            let at = if method.starts_with('r') { within.rfind(part) } else { within.find(part) };
            match at.map(|at| start + within[..at].chars().count()) {
                Some(at) => Value::from(at),
                None if method.ends_with("find") => Value::from(-1),
                None => return Err(unfit("substring not found")),
            }
        }
        "startswith" | "endswith" if arguments.len() > 1 => {
            let (parts, from, to): (Value, Option<i64>, Option<i64>) = from_args(arguments)?;
            let (_, within) = slice(text, from, to);
            let parts: Vec<Value> =
                if parts.as_str().is_some() { vec![parts] } else { parts.try_iter()?.collect() };
            let fits = |part: &str| {
                if method == "startswith" { within.starts_with(part) } else { within.ends_with(part) }
            };
            Value::from(parts.iter().any(|part| part.as_str().is_some_and(fits)))
        }
        "center" | "ljust" | "rjust" => {
            let (width, fill): (usize, Option<char>) = from_args(arguments)?;
            Value::from(pad(text, width, fill.unwrap_or(' '), method)?)
        }
        "zfill" => {
            let digits = text.trim_start_matches(['+', '-']);
            let sign = if text.len() - digits.len() == 1 { &text[..1] } else { "" };
            let width: usize = one(arguments)?;
            let digits = pad(&text[sign.len()..], width.saturating_sub(sign.len()), '0', "rjust")?;
            Value::from(format!("{sign}{digits}"))
        }
        "removeprefix" => Value::from(text.strip_prefix(one::<&str>(arguments)?).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(one::<&str>(arguments)?).unwrap_or(text)),
        "swapcase" => {
            let swap = |c: char| {
                if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }
            };
            Value::from(text.chars().map(swap).collect::<String>())
        }
        "casefold" => Value::from(text.to_lowercase().replace('ß', "ss")),
        "isdecimal" => Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        "istitle" => {
            let mut before = ' ';
            let fits = |c: char| {
                let fits = !changes_case(c) || c.is_uppercase() != changes_case(before);
                before = c;
                fits
            };
            Value::from(text.chars().any(changes_case) && text.chars().all(fits))
        }
        _ => return Ok(None),
    }))
}

fn of_list(list: &Value, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "index" => {
            let wanted: Value = one(arguments)?;
            let at = list.try_iter()?.position(|item| item == wanted);
            Value::from(at.ok_or_else(|| unfit(&format!("{wanted} is not in the list")))?)
        }
        "copy" => list.clone(),
        _ => return Ok(None),
    }))
}

/// The only argument.
fn one<'a, T: 'a>(arguments: &'a [Value]) -> Result<T, Error>
where
    (T,): FunctionArgs<'a, Output = (T,)>,
{
    from_args::<(T,)>(arguments).map(|(argument,)| argument)
}

/// At most `most` cuts, from the left or the right; without a separator at runs of white space.
fn split(text: &str, separator: Option<&str>, most: usize, from_right: bool) -> Result<Vec<String>, Error> {
    let mut parts: Vec<&str> = match (separator, from_right) {
        (Some(""), _) => return Err(unfit("empty separator")),
        (Some(s), false) => text.splitn(most + 1, s).collect(),
        (Some(s), true) => text.rsplitn(most + 1, s).collect(),
        (None, _) => {
            let (mut parts, mut rest) = (Vec::new(), text.trim());
            while parts.len() < most
                && let Some((a, b)) = if from_right {
                    rest.rsplit_once(char::is_whitespace)
                } else {
                    rest.split_once(char::is_whitespace)
                }
            {
                let (part, other) = if from_right { (b, a) } else { (a, b) };
                parts.push(part);
                rest = other.trim();
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    if from_right {
        parts.reverse();
    }
    Ok(parts.into_iter().map(str::to_owned).collect())
}

/// `text[from:to]` and the character that it begins with.
fn slice(text: &str, from: Option<i64>, to: Option<i64>) -> (usize, &str) {
    let length = text.chars().count();
    let place = |at: i64| {
        let at = if at < 0 { at.saturating_add(length as i64).max(0) } else { at };
        usize::try_from(at).unwrap_or(0).min(length)
    };
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(i, _)| i);
    let start = from.map_or(0, place);
    let end = to.map_or(length, place).max(start);
    (start, &text[byte(start)..byte(end)])
}

/// Fills up to a width in characters: behind (`ljust`), before (`rjust`) or around (`center`).
pub(super) fn pad(text: &str, width: usize, fill: char, method: &str) -> Result<String, Error> {
    let length = text.chars().count();
    let missing = width.saturating_sub(length);
    if missing > WIDEST {
        return Err(unfit("a text cannot be that wide"));
    }
    let before = match method {
        "ljust" => 0,
        "rjust" => missing,
        // The odd one goes where CPython puts it.
        _ => missing / 2 + (missing & width & 1),
    };
    let filling = |n: usize| std::iter::repeat_n(fill, n);
    Ok(filling(before).chain(text.chars()).chain(filling(missing - before)).collect())
}

fn unfit(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.to_owned())
}
