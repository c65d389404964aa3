//! One answer as it is read: its type and parts, and its bare text.

use crate::compare::{equal, words};
use crate::lex::{MAX_LENGTH, lex};
use crate::parse::parse;
use crate::syntax::Value;

/// An answer that can be compared.
#[derive(Clone, Debug)]
pub struct Answer {
    value: Value,
    /// With commas as separators only: `100,200,300` may be three numbers.
    separated: Option<Value>,
    /// The text without spacing commands, blanks and dress.
    bare: String,
}

impl Answer {
    /// Reads an answer; none for an empty text and one whose brackets do not match.
    pub fn of(text: &str) -> Option<Answer> {
        // What surrounds an answer is short.
        if text.len() > 2 * MAX_LENGTH {
            return None;
        }
        let text = undressed(text);
        if text.is_empty() || text.len() > MAX_LENGTH || !is_balanced(&text) {
            return None;
        }
        let bare = bare(&text);
        if bare.is_empty() {
            return None;
        }
        let read = |thousands: bool| {
            let lexed = lex(&text, thousands)?;
            Some((parse(&lexed.tokens).unwrap_or(Value::Verbatim), lexed.thousands))
        };
        let (value, thousands) = read(true).unwrap_or((Value::Verbatim, false));
        let separated = if thousands || matches!(value, Value::Verbatim) && text.contains(',') {
            read(false).map(|r| r.0)
        } else {
            None
        };
        Some(Answer { value, separated, bare })
    }

    /// Whether the text was read as more than words.
    pub fn is_formula(&self) -> bool {
        match &self.value {
            Value::Verbatim | Value::Text(_) => false,
            Value::List(items) => !items.iter().any(|item| matches!(item, Value::Text(_))),
            _ => true,
        }
    }

    /// The letter of `(B) 42` and `B. 42`, with its text behind it.
    fn choice(&self) -> Option<&str> {
        let bare = self.bare.trim_start_matches('{');
        let bracketed = bare.strip_prefix('(');
        let rest = bracketed.unwrap_or(bare);
        let letter = rest.get(..1).filter(|l| l.starts_with(|c: char| ('A'..='J').contains(&c)))?;
        let behind = &rest[1..];
        let marked = if bracketed.is_some() {
            behind.starts_with(')')
        } else {
            behind.starts_with([')', ':']) || behind.starts_with('.')
        };
        (marked && behind.len() > 1).then_some(letter)
    }

    /// The bare text without braces, where they group nothing.
    fn unbraced(&self) -> String {
        if !self.bare.contains(['\\', '^', '_']) {
            return self.bare.replace(['{', '}'], "");
        }
        // `\pmod{7}` and `\pmod 7`
        let mut out = self.bare.clone();
        for digit in '0'..='9' {
            out = out.replace(&format!("mod{{{digit}}}"), &format!("mod{digit}"));
        }
        out
    }

    /// Whether two answers are the same.
    pub fn equals(&self, other: &Answer) -> bool {
        if self.bare == other.bare || self.unbraced() == other.unbraced() {
            return true;
        }
        if equal(&self.value, &other.value) {
            return true;
        }
        let list = |a: &Answer, b: &Answer| match (&a.separated, &b.value) {
            (Some(Value::List(xs)), Value::List(ys)) => {
                xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| equal(x, y))
            }
            _ => false,
        };
        if list(self, other) || list(other, self) {
            return true;
        }
        if self.choice().is_some_and(|c| other.bare == c) || other.choice().is_some_and(|c| self.bare == c) {
            return true;
        }
        let textual = |a: &Answer| matches!(a.value, Value::Text(_));
        let plain = |a: &Answer| !a.bare.contains(['\\', '^', '=', '+', '/']);
        let items = |a: &Answer| a.bare.matches([',', ';']).count();
        (textual(self) || textual(other)) && plain(self) && plain(other) && items(self) == items(other) && {
            let (a, b) = (words(&self.bare).replace(' ', ""), words(&other.bare).replace(' ', ""));
            // Letters alone: signs and points are no dress of a number.
            !a.is_empty() && a == b && a.chars().all(char::is_alphabetic)
        }
    }
}

/// Takes off what surrounds a whole text: blanks, emphasis, dollars, a final stop.
fn undressed(text: &str) -> String {
    let mut text = text.trim();
    loop {
        let before = text;
        text = text.trim();
        // `5\ ` has lost its blank.
        if text.len() - text.trim_end_matches('\\').len() == 1 {
            text = &text[..text.len() - 1];
        }
        if !text.ends_with("\\.") {
            text = text.trim_end_matches(['.', ',', ';', ':']).trim_end();
        }
        for (open, close) in [
            ("$$", "$$"),
            ("$", "$"),
            ("\\(", "\\)"),
            ("\\[", "\\]"),
            ("**", "**"),
            ("__", "__"),
            ("`", "`"),
            ("\"", "\""),
        ] {
            if let Some(inside) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close)) {
                let single = open != "$" || !inside.contains('$');
                if single && !inside.ends_with('\\') {
                    text = inside;
                }
            }
        }
        if text == before {
            break;
        }
    }
    // `$x$ and $y$`: dollars in pairs delimit formulas, a lone one is money.
    let mut dollars = 0;
    let mut previous = ' ';
    for c in text.chars() {
        dollars += usize::from(c == '$' && previous != '\\');
        previous = c;
    }
    let mut out = String::with_capacity(text.len());
    previous = ' ';
    for c in text.chars() {
        if !(c == '$' && previous != '\\' && dollars % 2 == 0) {
            out.push(c);
        }
        previous = c;
    }
    out
}

/// The text without blanks, but for one between digits that are no group of thousands: `4 2` is not 42.
fn without_blanks(text: &str) -> String {
    let is_blank = |c: char| c.is_whitespace() || c == '~';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_blank) {
        out.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(is_blank);
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if out.ends_with(|c: char| c.is_ascii_digit()) && digits > 0 && digits != 3 {
            out.push(' ');
        }
    }
    out.push_str(rest);
    out
}

/// Whether braces match, as TeX counts them.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0i32;
    let mut escaped = false;
    for b in text.bytes() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !escaped
}

/// The text without blanks, sizes and text commands.
fn bare(text: &str) -> String {
    // A row's end is no escaped blank.
    let mut out = text.replace("\\\\", "\u{1}");
    for dress in
        ["\\left", "\\right", "\\displaystyle", "\\text", "\\mathrm", "\\textbf", "\\mathbf", "\\mbox"]
    {
        // `\leftarrow` is no `\left`.
        let mut kept = String::with_capacity(out.len());
        let mut rest = out.as_str();
        while let Some(i) = rest.find(dress) {
            let (head, tail) = (&rest[..i], &rest[i + dress.len()..]);
            kept.push_str(head);
            if tail.starts_with(|c: char| c.is_ascii_alphabetic()) {
                kept.push_str(dress);
            }
            rest = tail;
        }
        kept.push_str(rest);
        out = kept;
    }
    let out = out.replace("\\,", "").replace("\\;", "").replace("\\!", "").replace("\\ ", "");
    let out = out.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace('−', "-");
    let word = |s: &str| !s.contains(['\\', '^', '_', '{']) || s.starts_with('{') && s.ends_with('}');
    let mut out = without_blanks(&out);
    while word(&out)
        && out.starts_with('{')
        && out.ends_with('}')
        && !out[1..out.len() - 1].contains(['{', '}'])
    {
        out = out[1..out.len() - 1].to_owned();
    }
    out
}
