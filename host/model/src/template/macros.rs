//! Macros as Jinja2 calls them.
//!
//! A macro that mentions `varargs` or `kwargs` takes any arguments; minijinja's take their parameters only.
//! Such a macro is rewritten with two parameters more, and its name then stands for an object that
//! sorts the arguments of a call. Defaults move into the body, where they see the parameters before
//! them and do not replace an undefined value that was passed. A call block's body is a macro too,
//! and where it needs the same, it becomes one that is passed as `caller`.

use super::lexis::{Kind, Part, Tag, Token, tokens};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Tuple, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use std::fmt;
use std::sync::Arc;

/// The function that makes a macro sort its arguments.
const MACRO: &str = "__macro__";
/// The test for an argument that was not passed.
const MISSING: &str = "__missing__";
/// The names that collect arguments, in the order of the added parameters.
const COLLECTORS: [&str; 2] = ["kwargs", "varargs"];

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function(MACRO, |body: Value, parameters: usize, defaults: usize| {
        Sorting::new(body, parameters, defaults).map(Value::from_object)
    });
    environment.add_test(MISSING, |value: &Value| value.downcast_object_ref::<Missing>().is_some());
}

/// Stands for an argument that was not passed.
#[derive(Debug)]
struct Missing;

impl Object for Missing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A rewritten macro.
#[derive(Debug)]
struct Sorting {
    /// minijinja's macro: the parameters, then one for each collector.
    body: Value,
    name: String,
    parameters: Vec<String>,
    /// How many of the last parameters have a default.
    defaults: usize,
    collects: [bool; 2],
    /// The body mentions `caller`.
    caller: bool,
}

impl Sorting {
    fn new(body: Value, parameters: usize, defaults: usize) -> Result<Sorting, Error> {
        let mut all = Vec::new();
        for name in body.get_attr("arguments")?.try_iter()? {
            all.push(name.to_string());
        }
        let added = all.split_off(parameters.min(all.len()));
        Ok(Sorting {
            name: body.get_attr("name")?.to_string(),
            caller: body.get_attr("caller")?.is_true(),
            parameters: all,
            defaults,
            collects: COLLECTORS.map(|c| added.iter().any(|name| name == c)),
            body,
        })
    }

    fn refuse(&self, reason: String) -> Error {
        Error::new(ErrorKind::TooManyArguments, format!("macro '{}' {reason}", self.name))
    }
}

impl Object for Sorting {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let [kwargs, varargs] = self.collects;
        Some(match key.as_str()? {
            "name" => Value::from(self.name.as_str()),
            "arguments" => Value::from(Tuple::new(self.parameters.iter().map(Value::from).collect())),
            "catch_kwargs" => Value::from(kwargs),
            "catch_varargs" => Value::from(varargs),
            "caller" => Value::from(self.caller),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn call(self: &Arc<Self>, state: &mut State, arguments: &[Value]) -> Result<Value, Error> {
        let named = arguments.last().filter(|v| !v.is_undefined()).map(|v| Kwargs::try_from(v.clone()));
        let named = named.and_then(Result::ok);
        let positional = &arguments[..arguments.len() - usize::from(named.is_some())];
        let mut rest: Vec<(String, Value)> = match &named {
            Some(named) => {
                named.args().map(|k| Ok((k.to_owned(), named.peek(k)?))).collect::<Result<_, Error>>()?
            }
            None => Vec::new(),
        };
        let mut take = |name: &str| rest.iter().position(|(key, _)| key == name).map(|at| rest.remove(at).1);

        let count = self.parameters.len();
        let mut values: Vec<Value> = positional.iter().take(count).cloned().collect();
        for (i, name) in self.parameters.iter().enumerate().skip(values.len()) {
            let absent =
                || if i + self.defaults < count { Value::UNDEFINED } else { Value::from_object(Missing) };
            values.push(take(name).unwrap_or_else(absent));
        }
        let caller = if self.caller { take("caller") } else { None };
        let more = positional.get(count..).unwrap_or_default();
        let [kwargs, varargs] = self.collects;
        if kwargs {
            values.push(Value::from_pairs(rest));
        } else if let Some((name, _)) = rest.first() {
            return Err(self.refuse(format!("takes no keyword argument '{name}'")));
        }
        if varargs {
            values.push(Value::from(Tuple::from(more)));
        } else if !more.is_empty() {
            return Err(self.refuse(format!("takes not more than {count} argument(s)")));
        }
        values.push(Kwargs::from_iter(caller.map(|c| ("caller", c))).into());
        self.body.call(state, &values)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Macro '{}'>", self.name)
    }
}

/// The rewritten tags of macros and call blocks, by their place among `parts`; white space control and lines stay.
pub(super) fn rewrite(parts: &[Part<'_>]) -> Vec<Option<String>> {
    let mut rewritten = vec![None; parts.len()];
    for (at, part) in parts.iter().enumerate() {
        let Part::Tag(tag) = part else { continue };
        let end = match tag.word() {
            "macro" => closing(parts, at, "macro", "endmacro"),
            "call" => closing(parts, at, "call", "endcall"),
            _ => None,
        };
        if let Some((end, last)) = end
            && let Some((first, last)) = pair(tag, &parts[at + 1..end], &last, at)
        {
            rewritten[at] = Some(first);
            rewritten[end] = Some(last);
        }
    }
    rewritten
}

/// The tag that closes the one at `at`.
fn closing<'a>(parts: &[Part<'a>], at: usize, open: &str, close: &str) -> Option<(usize, Tag<'a>)> {
    let mut depth = 0;
    for (i, part) in parts.iter().enumerate().skip(at) {
        let Part::Tag(tag) = part else { continue };
        if tag.word() == open {
            depth += 1;
        } else if tag.word() == close {
            depth -= 1;
            if depth == 0 {
                return Some((i, *tag));
            }
        }
    }
    None
}

/// A macro or call block that needs it, rewritten: what stands for its first and for its last tag.
fn pair(first: &Tag<'_>, body: &[Part<'_>], last: &Tag<'_>, at: usize) -> Option<(String, String)> {
    let tokens = tokens(first.inner);
    let is_call = first.word() == "call";
    let signature = match (is_call, tokens.get(1)?.kind) {
        // A call block without parameters.
        (true, Kind::Word | Kind::Value) => Signature { parameters: Vec::new(), end: 1 },
        (true, _) => signature(first.inner, &tokens, 1)?,
        (false, _) => signature(first.inner, &tokens, 2)?,
    };
    let named = |name: &str| signature.parameters.iter().any(|(p, _)| *p == name);
    let added: Vec<&str> = COLLECTORS.into_iter().filter(|c| !named(c) && mentions(body, c)).collect();
    let defaults: Vec<(&str, &str)> =
        signature.parameters.iter().filter_map(|(name, default)| default.map(|d| (*name, d))).collect();
    if added.is_empty() && defaults.is_empty() {
        return None;
    }
    let anonymous = format!("__caller_{at}__");
    let name = if is_call { &anonymous } else { tokens.get(1)?.text };

    let parameters: Vec<&str> = signature.parameters.iter().map(|(name, _)| *name).chain(added).collect();
    let mut begin = format!("{} macro {name}({})", first.open, parameters.join(", "));
    for (parameter, default) in &defaults {
        begin +=
            &format!("%}}{{% set {parameter} = ({default}) if {parameter} is {MISSING} else {parameter} ");
    }
    let lines = first.inner.matches('\n').count().saturating_sub(begin.matches('\n').count());
    begin += &"\n".repeat(lines);
    begin += first.close;

    let (count, defaults) = (signature.parameters.len(), defaults.len());
    let mut end = format!("{}{}%}}", last.open, last.inner.replace("endcall", "endmacro"));
    end += &format!("{{% set {name} = {MACRO}({name}, {count}, {defaults}) ");
    if is_call {
        let call = first.inner[tokens.get(signature.end)?.at..].trim_end();
        let open = call.strip_suffix(')')?.trim_end();
        let comma = if open.ends_with(['(', ',']) { "" } else { ", " };
        // A statement must come last, for the white space that its closing mark controls.
        end += &format!("%}}{{{{ {open}{comma}caller={name}) }}}}{{% set {name} = none ");
    }
    Some((begin, end + last.close))
}

/// Parameters with their defaults, and the first token after them.
struct Signature<'a> {
    parameters: Vec<(&'a str, Option<&'a str>)>,
    end: usize,
}

/// Reads `(a, b=1)` from the token `open` on; `None` where it is malformed, for minijinja to say so.
fn signature<'a>(inner: &'a str, tokens: &[Token<'a>], open: usize) -> Option<Signature<'a>> {
    let mut parameters: Vec<(&str, Option<&str>)> = Vec::new();
    let mut next = open + 1;
    if tokens.get(open)?.text != "(" {
        return None;
    }
    loop {
        let name = tokens.get(next)?;
        if name.text == ")" {
            return Some(Signature { parameters, end: next + 1 });
        }
        let mut end = next + 1;
        let has_default = tokens.get(end)?.text == "=";
        if has_default {
            let mut depth = 0;
            loop {
                end += 1;
                match tokens.get(end)? {
                    Token { text: "," | ")", .. } if depth == 0 => break,
                    Token { kind: Kind::Open, .. } => depth += 1,
                    Token { kind: Kind::Close, .. } => depth -= 1,
                    _ => {}
                }
            }
        }
        let default = has_default.then(|| inner[tokens[next + 1].end()..tokens[end].at].trim());
        let after_default = parameters.last().is_some_and(|(_, default)| default.is_some());
        if name.kind != Kind::Word || default == Some("") || (after_default && !has_default) {
            return None;
        }
        parameters.push((name.text, default));
        next = match tokens.get(end)?.text {
            "," => end + 1,
            ")" => end,
            _ => return None,
        };
    }
}

/// Whether the body of a macro reads a name that it has not set before.
fn mentions(body: &[Part<'_>], name: &str) -> bool {
    for part in body {
        let Part::Tag(tag) = part else { continue };
        let tokens = tokens(tag.inner);
        let text = |i: Option<usize>| i.and_then(|i| tokens.get(i)).map_or("", |t| t.text);
        for (i, token) in tokens.iter().enumerate() {
            if token.kind != Kind::Word || token.text != name {
                continue;
            }
            let (before, after) = (text(i.checked_sub(1)), text(Some(i + 1)));
            let parameter = tag.word() == "macro" && ["(", ","].contains(&before);
            if parameter || ["set", "for"].contains(&before) {
                return false;
            }
            // The name of an attribute, a filter or an argument is another matter.
            if ![".", "|"].contains(&before) && after != "=" {
                return true;
            }
        }
    }
    false
}
