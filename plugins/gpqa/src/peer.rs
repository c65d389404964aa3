//! The graders of slime and Relax as they are: scores that users' published numbers were made with.
//!
//! Source: slime `rm_hub/gpqa.py`, Relax `engine/rewards/gpqa.py` (2026). A letter after `answer`,
//! `option` or `choice` counts even inside a word; else the last capital that stands alone; else the
//! text of the right option anywhere.

use regex_lite::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Whose grader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Letters to J; texts of options as whole words.
    Slime,
    /// Letters to H; texts of options anywhere.
    Relax,
}

/// A question.
pub struct Row {
    dialect: Dialect,
    valid: Vec<String>,
    correct: Option<String>,
    label: Option<String>,
    targets: BTreeSet<String>,
    patterns: Vec<Regex>,
}

impl Row {
    /// Reads a row; none without a label and a right letter, which the projects score 0.
    pub fn read(label: Option<&str>, metadata: &Map<String, Value>, dialect: Dialect) -> Option<Row> {
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let choices: Vec<String> = match metadata.get("choices") {
            Some(Value::Array(items)) => items.iter().map(text).collect(),
            Some(Value::Object(items)) => items.values().map(text).collect(),
            _ => Vec::new(),
        };
        let letters = |n: usize| (0..n.min(26) as u8).map(|i| char::from(b'A' + i).to_string()).collect();
        let valid: Vec<String> = match metadata.get("valid_letters").and_then(Value::as_array) {
            Some(valid) if !valid.is_empty() => valid.iter().map(|v| text(v).to_uppercase()).collect(),
            _ if !choices.is_empty() => letters(choices.len()),
            _ => letters(if dialect == Dialect::Slime { 10 } else { 8 }),
        };
        let named = metadata.get("correct_letter").and_then(Value::as_str);
        let mut correct = named.map(|l| l.trim().to_uppercase());
        let label = label.map(str::to_owned).or_else(|| metadata.get("label").map(text));
        let label = label.map(|l| l.trim().to_owned());
        if correct.is_none() && label.is_none() {
            return None;
        }
        let is_letter = |l: &str| l.chars().count() == 1 && valid.contains(&l.to_uppercase());
        let matching = |l: &str| choices.iter().position(|c| normalised(c) == normalised(l));
        let mut targets: Vec<String> = Vec::new();
        if let Some(label) = &label {
            if is_letter(label) && correct.is_none() {
                correct = Some(label.to_uppercase());
            } else if let Some(index) = label.parse::<usize>().ok().filter(|_| matching(label).is_none()) {
                // An integer of the data, whose type a text no longer shows.
                correct = valid.get(index).cloned().or(correct);
            }
            if correct.is_none()
                && let Some(at) = matching(label)
            {
                correct = valid.get(at).cloned();
                targets.extend(choices.get(at).cloned());
            }
        }
        let place = correct.as_ref().and_then(|c| valid.iter().position(|v| v == c));
        targets.extend(place.and_then(|at| choices.get(at)).cloned());
        let extra = ["correct_answer", "answer_text"].iter().filter_map(|k| metadata.get(*k)?.as_str());
        targets.extend(extra.map(str::to_owned));
        if let Some(label) = &label
            && (dialect == Dialect::Relax || !is_letter(label))
        {
            targets.push(label.clone());
        }
        let targets = targets.iter().map(|t| normalised(t)).filter(|t| !t.is_empty()).collect();
        let patterns = [
            r"(?i)(?:answer|option|choice)\s*(?:is|:)?\s*([A-Z])",
            r"(?i)([A-Z])\s*(?:is\s*(?:the)?\s*correct)",
            r"(?i)final\s*(?:answer|option)\s*(?:is|:)?\s*([A-Z])",
        ];
        let patterns = patterns.iter().filter_map(|p| Regex::new(p).ok()).collect();
        Some(Row { dialect, valid, correct, label, targets, patterns })
    }

    /// Whether the project's grader gives 1.
    pub fn is_right(&self, response: &str) -> bool {
        let text = response.rsplit_once("</think>").map_or(response, |(_, behind)| behind);
        let letter = self.letter(text);
        if let (Some(letter), Some(correct)) = (&letter, &self.correct) {
            return letter == correct;
        }
        let said = normalised(text);
        let spaced = format!(" {said} ");
        let says = |target: &String| match self.dialect {
            Dialect::Slime => spaced.contains(&format!(" {target} ")),
            Dialect::Relax => said.contains(target.as_str()),
        };
        self.targets.iter().any(says)
            || self.correct.is_none()
                && letter.is_some()
                && letter == self.label.as_ref().map(|l| l.to_uppercase())
    }

    fn letter(&self, text: &str) -> Option<String> {
        let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        for pattern in &self.patterns {
            let letter = pattern.captures(&spaced).and_then(|c| Some(c.get(1)?.as_str().to_uppercase()));
            if let Some(letter) = letter.filter(|l| self.valid.contains(l)) {
                return Some(letter);
            }
        }
        let chars: Vec<char> = text.chars().collect();
        let word =
            |i: Option<usize>| i.and_then(|i| chars.get(i)).is_some_and(|c| c.is_alphanumeric() || *c == '_');
        (0..chars.len()).rev().find_map(|i| {
            let alone = chars[i].is_ascii_uppercase() && !word(i.checked_sub(1)) && !word(Some(i + 1));
            let letter = chars[i].to_string();
            (alone && self.valid.contains(&letter)).then_some(letter)
        })
    }
}

/// Lower-case ASCII letters and digits, with one blank for anything between them.
fn normalised(text: &str) -> String {
    let lower = text.to_lowercase();
    let words =
        lower.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit())).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
