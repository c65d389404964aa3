//! Runs of letters: functions, words, units, or variables side by side.

use super::{FUNCTIONS, Lexer};
use crate::token::Token;
use crate::units;

const SHORT_WORDS: &[&str] = &[
    "yes", "no", "odd", "all", "red", "one", "two", "six", "ten", "the", "and", "day", "cat", "dog", "man",
    "non", "any", "sun", "mon", "tue", "wed", "thu", "fri", "sat", "his", "her", "for", "not", "but", "if",
    "or", "is", "of", "to", "on", "it", "by", "am", "pm", "per",
];

impl Lexer<'_> {
    /// A run of letters: a function, a word, or variables side by side.
    pub(super) fn letters(&mut self) {
        let rest = self.rest();
        let run = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
        let lower = run.to_lowercase();
        let behind = rest[run.len()..].trim_start();
        let after_number = matches!(
            self.tokens.last().map(|t| &t.token),
            Some(Token::Number(..) | Token::Mark('}' | ')' | '/') | Token::Words(_))
        );
        let ends = behind.is_empty() || behind.starts_with(['/', '^', ',', ')', '.', '$', ';']);
        let unit = units::is_known(run)
            && after_number
            && (run.len() > 1 || self.spaced || self.after_words_slash());
        self.at += run.len();
        if lower == "and" {
            self.push(Token::Separator);
        } else if lower == "or" {
            self.push(Token::Or);
        } else if unit && (ends || run.len() > 2) || self.is_temperature(run) {
            self.push(Token::Words(run.to_owned()));
        } else if let Some(function) = FUNCTIONS.iter().find(|f| **f == run) {
            self.push(Token::Function(function));
        } else if run == "pi" {
            self.push(Token::Symbol("pi".into()));
        } else if run == "sqrt" {
            self.push(Token::Command("sqrt"));
        } else if matches!(run, "infinity" | "inf" | "oo") {
            self.push(Token::Symbol("infty".into()));
        } else if run == "pm" && behind.starts_with(|c: char| c.is_ascii_digit()) {
            self.push(Token::PlusMinus);
        } else if run.chars().count() >= 4 || SHORT_WORDS.contains(&lower.as_str()) {
            self.push(Token::Words(run.to_owned()));
        } else {
            for c in run.chars() {
                self.push(Token::Symbol(c.to_string()));
            }
        }
    }

    fn after_words_slash(&self) -> bool {
        let mut back = self.tokens.iter().rev().map(|t| &t.token);
        back.next() == Some(&Token::Mark('/')) && matches!(back.next(), Some(Token::Words(_)))
    }
}
