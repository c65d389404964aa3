//! Which options a response chooses. Explicit statements come before hints, and of two statements
//! the last one counts; a malformed final answer ends the search.

use crate::Letters;
use crate::reader::Reader;
use crate::token::{Kind, tokens};
use crate::words::{self, Text};
use answer_text::{behind_reasoning, boxes, tags};

/// The options of the question.
#[derive(Clone, Copy)]
pub struct Context<'q> {
    /// How many letters count.
    pub count: usize,
    /// Texts of the options; none where the row does not list them.
    pub texts: &'q [Text],
}

/// Why no option is chosen.
type Nothing = &'static str;

/// The text of the answer: the last answer tag, the last box, else all that is said.
pub fn text(response: &str) -> Result<&str, Nothing> {
    let text = behind_reasoning(response)?;
    let found = match (tags::last(text, "answer"), boxes(text).last()) {
        (Some(inside), _) => inside?,
        (None, Some(boxed)) => boxed.inside.ok_or("the last \\boxed{ is never closed")?,
        (None, None) => without_heading(text),
    };
    if found.trim().is_empty() { Err("the answer is empty") } else { Ok(found) }
}

/// What follows `Answer:` or `Final answer:`, where a text begins with it.
fn without_heading(text: &str) -> &str {
    let bare = text.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
    let rest = ["final answer", "answer"].iter().find_map(|heading| {
        let rest = bare.get(heading.len()..)?;
        bare[..heading.len()].eq_ignore_ascii_case(heading).then_some(rest)
    });
    let behind = rest.and_then(|rest| rest.trim_start_matches(['*', ' ']).strip_prefix(':'));
    behind.map_or(text, |behind| behind.trim_start_matches('*'))
}

/// Finds the chosen options; `cut_off` says that the token limit ended the response.
pub fn find(response: &str, context: Context<'_>, cut_off: bool) -> Result<Letters, Nothing> {
    let text = behind_reasoning(response)?;
    if let Some(inside) = tags::last(text, "answer") {
        let inside = inside?;
        if inside.trim().is_empty() {
            return Err("the answer is empty");
        }
        return whole(inside, context).map_or_else(|| in_text(inside, context, false), Ok);
    }
    in_text(text, context, cut_off)
}

/// What a text chooses that is nothing but an answer: `B`, `(b)`, `B. 2.4 eV`, `2.4 eV`.
pub fn whole(text: &str, context: Context<'_>) -> Option<Letters> {
    let tokens = tokens(text);
    let reader = Reader { tokens: &tokens, context };
    let (from, to) = reader.trimmed(0, tokens.len());
    if let Some(only) = words::same(context.texts, text) {
        return Some(only);
    }
    reader.designation(from, to)
}

fn in_text(text: &str, context: Context<'_>, cut_off: bool) -> Result<Letters, Nothing> {
    let all = boxes(text);
    if all.last().is_some_and(|b| b.inside.is_none()) {
        return Err("the last \\boxed{ is never closed");
    }
    let tokens = tokens(text);
    let reader = Reader { tokens: &tokens, context };
    if !tokens.iter().any(|t| matches!(t.kind, Kind::Word | Kind::Letter)) {
        return Err("the answer is empty");
    }
    if cut_off && tokens.last().is_some_and(|t| t.kind == Kind::Letter) {
        return Err("the response was cut off inside its answer");
    }
    if let Some(letters) = reader.stated(&all) {
        return Ok(letters);
    }
    if let Some(letters) = reader.opening() {
        return Ok(letters);
    }
    if let Some(letters) = reader.hinted() {
        return single(letters);
    }
    reader.named().ok_or("nothing says which option is chosen")
}

fn single(letters: Letters) -> Result<Letters, Nothing> {
    if letters.is_power_of_two() { Ok(letters) } else { Err("several options are named") }
}
