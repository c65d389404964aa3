//! Where a final answer stands: after `####`, in `\boxed{…}`, or as the last number.

use crate::prose::{Last, last_number};
use crate::value::{Value, parse};

/// Where answers are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extraction {
    /// After a marker, else the last number.
    #[default]
    Lenient,
    /// After a marker only.
    Strict,
}

/// What was found in a response.
pub enum Found<'t> {
    /// One number.
    Number {
        /// As written.
        text: &'t str,
        /// Where it stood, for people.
        place: &'static str,
        /// What it is.
        value: Value<'t>,
    },
    /// Nothing that can be compared (why).
    Nothing(&'static str),
}

/// The last marker of a text and what it marks.
enum Marked<'t> {
    /// The text behind `####`, and whether the whole text ends with it.
    Line(&'t str, bool),
    Box(&'t str),
    /// `\boxed{` without its closing brace.
    OpenBox,
}

/// The final answer of a response; `cut_off` says that the token limit ended it.
pub fn of_response(response: &str, cut_off: bool, extraction: Extraction) -> Found<'_> {
    let (text, marked) = last_marked(response, extraction);
    match marked {
        Some(Marked::OpenBox) => Found::Nothing("the last \\boxed{ is never closed"),
        Some(Marked::Box(inside)) => match parse(inside) {
            Some(value) => Found::Number { text: inside, place: "boxed", value },
            None if inside.trim().is_empty() => Found::Nothing("the last \\boxed{} is empty"),
            None => Found::Nothing("the last \\boxed{} is not one number"),
        },
        Some(Marked::Line(line, is_end)) => {
            if cut_off && is_end && line.ends_with(|c: char| c.is_ascii_digit()) {
                return Found::Nothing("the response was cut off inside its answer");
            }
            match parse(line) {
                Some(value) => Found::Number { text: line, place: "####", value },
                None => Found::Nothing("what follows #### is not one number"),
            }
        }
        None if extraction == Extraction::Strict => Found::Nothing("neither #### nor \\boxed{}"),
        None => match last_number(text) {
            Last::None => Found::Nothing("no number"),
            Last::Entangled => Found::Nothing("the last number is part of an expression"),
            Last::Number { end, .. } if cut_off && end == text.len() => {
                Found::Nothing("the response was cut off inside its last number")
            }
            Last::Number { text, value, .. } => Found::Number { text, place: "last number", value },
        },
    }
}

/// The number that a label is: its whole text, or what follows the `####` of a worked solution.
pub fn of_label(label: &str) -> Option<Value<'_>> {
    match last_marked(label, Extraction::Strict).1 {
        Some(Marked::Line(text, _) | Marked::Box(text)) => parse(text),
        Some(Marked::OpenBox) => None,
        None => parse(label),
    }
}

/// Scans from the end for `####`, `\boxed` and `</think>`, where reasoning ends and the search too.
/// Returns the text behind the reasoning and the last marker in it.
fn last_marked(text: &str, extraction: Extraction) -> (&str, Option<Marked<'_>>) {
    let mut end = text.len();
    while let Some(at) = last_candidate(&text.as_bytes()[..end]) {
        let from = &text[at..];
        end = at;
        if let Some(behind) = from.strip_prefix("</think>") {
            return (behind, None);
        }
        if let Some(marked) = marked_line(text, at, extraction).or_else(|| boxed(from)) {
            return (text, Some(marked));
        }
    }
    (text, None)
}

/// The last byte that may begin a marker, eight bytes at a time: most responses have none.
fn last_candidate(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let is_candidate = |&b: &u8| matches!(b, b'#' | b'\\' | b'<');
    let has = |word: u64, byte: u8| {
        let zeroed = word ^ (ONES * u64::from(byte));
        zeroed.wrapping_sub(ONES) & !zeroed & (ONES << 7) != 0
    };
    let mut chunks = bytes.rchunks_exact(8);
    let mut end = bytes.len();
    for chunk in chunks.by_ref() {
        let word = chunk.try_into().map(u64::from_le_bytes).unwrap_or_default();
        if (has(word, b'#') || has(word, b'\\') || has(word, b'<'))
            && let Some(i) = chunk.iter().rposition(is_candidate)
        {
            return Some(end - 8 + i);
        }
        end -= 8;
    }
    chunks.remainder().iter().rposition(is_candidate)
}

/// `####` whose last `#` is at `at`, and the rest of its line. A heading of words is no answer
/// where leniency allows headings.
fn marked_line(text: &str, at: usize, extraction: Extraction) -> Option<Marked<'_>> {
    if !text[..=at].ends_with("####") {
        return None;
    }
    let behind = &text[at + 1..];
    let first_line = |text: &'_ str| text.find('\n').unwrap_or(text.len());
    let blank = behind[..first_line(behind)].trim().is_empty() && extraction == Extraction::Lenient;
    let behind = if blank { behind.trim_start() } else { behind };
    let line = &behind[..first_line(behind)];
    let heading = line.trim_start().trim_start_matches('*').starts_with(|c: char| c.is_alphabetic());
    let skipped = extraction == Extraction::Lenient && heading && parse(line).is_none();
    (!skipped).then_some(Marked::Line(line, line.len() == behind.len()))
}

/// `\boxed{…}` or `\boxed 7` at the start of `from`; a mere mention of `\boxed` is none.
fn boxed(from: &str) -> Option<Marked<'_>> {
    let behind = from.strip_prefix("\\boxed").or_else(|| from.strip_prefix("\\fbox"))?;
    let behind = behind.trim_start_matches([' ', '\t']);
    if !behind.starts_with('{') {
        let end = behind
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '.' | ',')))
            .unwrap_or(behind.len());
        let number = behind[..end].trim_end_matches(['.', ',']);
        return number.contains(|c: char| c.is_ascii_digit()).then_some(Marked::Box(number));
    }
    let mut depth = 0usize;
    for (i, b) in behind.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(Marked::Box(&behind[1..i]));
        }
    }
    Some(Marked::OpenBox)
}
