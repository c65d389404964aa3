//! A template in parts: text and tags, and the tokens of a tag. Nothing here knows what a tag means.

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Text, comments, the insides of `raw` blocks, and what is not closed.
    Text(&'a str),
    Tag(Tag<'a>),
}

/// `{{ … }}` or `{% … %}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// `{{` or `{%`, with the sign of its white space control.
    pub open: &'a str,
    pub inner: &'a str,
    /// `}}` or `%}`, with the sign before it.
    pub close: &'a str,
}

impl<'a> Tag<'a> {
    /// Whether it is `{% … %}`.
    pub fn is_statement(&self) -> bool {
        self.open.starts_with("{%")
    }

    /// The first word of a statement.
    pub fn word(&self) -> &'a str {
        if self.is_statement() { word(self.inner) } else { "" }
    }
}

/// The parts of a template; together they are `source`.
pub(super) fn parts(source: &str) -> Vec<Part<'_>> {
    let (mut parts, mut rest, mut text) = (Vec::new(), source, 0);
    while let Some(at) = rest[text..].find('{').map(|n| text + n) {
        let after = &rest[at + 1..];
        let (open, length) = match after.chars().next() {
            Some('#') => ("{#", after.find("#}").map(|n| n + 3)),
            Some('{') => ("{{", tag_length(&rest[at..], "}}")),
            Some('%') => ("{%", tag_length(&rest[at..], "%}")),
            _ => ("", Some(1)),
        };
        let Some(length) = length else { break };
        text = at + length;
        if open == "{{" || open == "{%" {
            parts.push(Part::Text(&rest[..at]));
            let tag = tag(&rest[at..text]);
            parts.push(Part::Tag(tag));
            rest = &rest[text..];
            // Nothing inside is a tag.
            text = if tag.word() == "raw" { raw_length(rest) } else { 0 };
        }
    }
    parts.push(Part::Text(rest));
    parts
}

fn tag(whole: &str) -> Tag<'_> {
    let sign = |s: Option<char>| usize::from(matches!(s, Some('-' | '+')));
    let open = 2 + sign(whole[2..].chars().next());
    let close = whole.len() - 2;
    let close = if close > open { close - sign(whole[..close].chars().next_back()) } else { open };
    Tag { open: &whole[..open], inner: &whole[open..close], close: &whole[close..] }
}

fn word(inner: &str) -> &str {
    let inner = inner.trim_start();
    &inner[..inner.find(|c: char| !in_word(c)).unwrap_or(inner.len())]
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the tag at the start; texts and brackets inside may contain the closing mark.
fn tag_length(rest: &str, close: &str) -> Option<usize> {
    let (mut at, mut depth) = (2, 0usize);
    while let Some(c) = rest[at..].chars().next() {
        match c {
            '\'' | '"' => {
                at += literal(&rest[at..])?;
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            _ if depth == 0 && rest[at..].starts_with(close) => return Some(at + 2),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

/// Length of what comes before the `endraw` tag.
fn raw_length(rest: &str) -> usize {
    let inner = |at: usize| rest[at + 2..].trim_start_matches(['-', '+']);
    let end = rest.match_indices("{%").map(|(at, _)| at).find(|at| word(inner(*at)) == "endraw");
    end.unwrap_or(rest.len())
}

/// Length of the text literal at the start, quotes included.
fn literal(rest: &str) -> Option<usize> {
    let quote = rest.chars().next()?;
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    /// A text or a number.
    Value,
    Open,
    Close,
    /// An operator or a separator.
    Mark,
}

/// A token of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Where it begins, in bytes.
    pub at: usize,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Marks of two characters.
const PAIRS: [&str; 6] = ["**", "//", "==", "!=", "<=", ">="];

pub(super) fn tokens(inner: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(c) = inner[at..].chars().next() {
        let rest = &inner[at..];
        let (kind, length) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '\'' | '"' => (Kind::Value, literal(rest).unwrap_or(rest.len())),
            c if c.is_ascii_digit() => (Kind::Value, number(rest)),
            c if in_word(c) => (Kind::Word, word(rest).len()),
            '(' | '[' | '{' => (Kind::Open, 1),
            ')' | ']' | '}' => (Kind::Close, 1),
            _ if PAIRS.iter().any(|pair| rest.starts_with(pair)) => (Kind::Mark, 2),
            c => (Kind::Mark, c.len_utf8()),
        };
        tokens.push(Token { kind, text: &rest[..length], at });
        at += length;
    }
    tokens
}

/// Length of the number at the start.
fn number(rest: &str) -> usize {
    let mut before = ' ';
    let mut chars = rest.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        let digit_follows = chars.peek().is_some_and(|(_, c)| c.is_ascii_digit());
        let fraction = c == '.' && digit_follows;
        let exponent = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && digit_follows;
        if !(in_word(c) || fraction || exponent) {
            return i;
        }
        before = c;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_falls_into_text_and_tags() {
        let cases: [(&str, &[&str]); 6] = [
            ("a{{ b }}c", &["a", "{{| b |}}", "c"]),
            ("{%- if x -%}", &["", "{%-| if x |-%}", ""]),
            ("{{ '}}' }}{ {# {{ #}", &["", "{{| '}}' |}}", "{ {# {{ #}"]),
            ("{{ {'a': {'b': 1}} }}x", &["", "{{| {'a': {'b': 1}} |}}", "x"]),
            ("{% raw %}{{ a }}{% endraw -%}", &["", "{%| raw |%}", "{{ a }}", "{%| endraw |-%}", ""]),
            ("a{{ b", &["a{{ b"]),
        ];
        for (source, expected) in cases {
            let shown: Vec<String> = parts(source)
                .iter()
                .map(|part| match part {
                    Part::Text(text) => (*text).to_owned(),
                    Part::Tag(tag) => format!("{}|{}|{}", tag.open, tag.inner, tag.close),
                })
                .collect();
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_tag_falls_into_tokens() {
        let texts = |inner| tokens(inner).iter().map(|t| t.text).collect::<Vec<_>>();
        assert_eq!(
            texts("a.b**1.5e-3 - x[1:] % 'it\\'s'"),
            ["a", ".", "b", "**", "1.5e-3", "-", "x", "[", "1", ":", "]", "%", "'it\\'s'"]
        );
    }
}
