//! Texts of options: which one a piece of text says.

use crate::Letters;
use crate::token::{Kind, Token, tokens};
use crate::vocabulary::DENIAL;
use math_core::Answer;

/// The text of one option.
#[derive(Clone, Debug)]
pub struct Text {
    words: Vec<String>,
    formula: Option<Answer>,
}

impl Text {
    /// Reads the text of an option.
    pub fn of(text: &str) -> Text {
        let tokens = tokens(text);
        // Beside words, numbers would be quantities, which may be equal without their unit.
        let letters = |t: &Token| t.text.chars().filter(|c| c.is_alphabetic()).count();
        let worded =
            |t: &Token| t.kind == Kind::Word && letters(t) > 1 && t.text.chars().all(char::is_alphabetic);
        let lone = matches!(&tokens[..], [one] if one.kind == Kind::Letter);
        let formula = match lone || tokens.iter().any(worded) {
            true => None,
            false => Answer::of(text).filter(Answer::is_formula),
        };
        Text { words: key(&tokens), formula }
    }

    /// Whether a whole text says the same.
    pub fn is_said_by(&self, other: &Text) -> bool {
        !self.words.is_empty() && self.words == other.words
            || matches!((&self.formula, &other.formula), (Some(a), Some(b)) if a.equals(b))
    }

    /// Whether some tokens begin with this text, of several words.
    pub fn begins(&self, tokens: &[Token]) -> bool {
        self.words.len() > 1 && self.is_begun_by(tokens)
    }

    /// Whether some tokens begin with this text.
    pub fn is_begun_by(&self, tokens: &[Token]) -> bool {
        // Marks between the words are few.
        let near = &tokens[..tokens.len().min(4 * self.words.len() + 8)];
        !self.words.is_empty() && key(near).starts_with(&self.words)
    }
}

/// What is compared of tokens: words without marks, but with signs that change a meaning.
fn key(tokens: &[Token]) -> Vec<String> {
    let mut words = Vec::new();
    for token in tokens {
        match token.kind {
            Kind::Word => words.push(token.text.replace(',', "")),
            Kind::Letter => words.push(token.text.to_lowercase()),
            Kind::Mark(c @ ('+' | '=' | '<' | '>' | '/' | '%' | '×' | '^' | '|' | '~' | '≈' | '≤' | '≥')) =>
            {
                words.push(c.to_string());
            }
            _ => {}
        }
    }
    words
}

/// The one option that a whole text is.
pub fn same(options: &[Text], text: &str) -> Option<Letters> {
    let said = Text::of(text);
    one((0..options.len()).filter(|&i| options[i].is_said_by(&said)))
}

/// The one option that tokens name as a whole or within other words, where nothing is denied.
pub fn within(options: &[Text], tokens: &[Token]) -> Option<Letters> {
    if tokens.iter().any(|t| t.is_in(DENIAL) && !options.iter().any(|o| o.words.contains(&t.text))) {
        return None;
    }
    let said = key(tokens);
    let spans: Vec<(usize, usize, usize)> = (0..options.len())
        .filter(|&i| !options[i].words.is_empty())
        .flat_map(|i| {
            let words = &options[i].words;
            let starts = said.windows(words.len()).enumerate().filter(move |(_, w)| w == words);
            starts.map(move |(at, _)| (i, at, at + words.len())).take(64)
        })
        .collect();
    // `5 K` inside `1.5 to 5 K` belongs to the longer one.
    let outermost = |&&(i, from, to): &&(usize, usize, usize)| {
        !spans.iter().any(|&(j, f, t)| j != i && f <= from && to <= t && (f, t) != (from, to))
    };
    let mut named: Vec<usize> = spans.iter().filter(outermost).map(|span| span.0).collect();
    named.sort_unstable();
    named.dedup();
    one(named.into_iter())
}

fn one(mut found: impl Iterator<Item = usize>) -> Option<Letters> {
    let first = found.next()?;
    found.next().is_none().then_some(1 << first)
}
