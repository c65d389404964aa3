//! What a look at all rows tells before a run: figures, and signs of trouble that no single row shows.

use super::{Row, Rows};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Figures of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Rows.
    pub rows: usize,
    /// Rows with a label.
    pub labelled: usize,
    /// Different labels.
    pub distinct_labels: usize,
    /// The most frequent labels with their counts, at most five.
    pub frequent_labels: Vec<(String, usize)>,
    /// Shortest, median and longest prompt in characters.
    pub prompt_chars: [usize; 3],
}

/// A sign of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Some rows have a label and some have none.
    MissingLabels {
        /// Rows without.
        missing: usize,
        /// The first of them, as `file:line`.
        first: String,
    },
    /// No row has a label.
    NoLabels,
    /// Every row has the same label: a constant answer earns the full reward.
    OneLabel {
        /// The label.
        label: String,
    },
    /// One label is on most rows: a constant answer earns most of the reward.
    DominantLabel {
        /// The label.
        label: String,
        /// Its part of the labelled rows, in percent.
        percent: usize,
    },
    /// Prompts that differ in nothing but white space.
    DuplicatePrompts {
        /// Rows that repeat an earlier one.
        repeated: usize,
        /// The first pair, as `file:line`.
        first: (String, String),
    },
    /// Prompts that end with what the model should say itself.
    AnswerInPrompt {
        /// Such rows.
        rows: usize,
        /// The first of them, as `file:line`.
        first: String,
    },
    /// Equal prompts with different labels.
    ConflictingLabels {
        /// Such rows.
        rows: usize,
        /// The first pair, as `file:line`.
        first: (String, String),
    },
}

/// Figures and findings of one data set.
pub fn lint(rows: &Rows) -> (Statistics, Vec<Finding>) {
    let rows = &rows.rows;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for label in rows.iter().filter_map(|row| row.label.as_deref()) {
        *counts.entry(label).or_default() += 1;
    }
    let labelled: usize = counts.values().sum();
    let mut frequent: Vec<(&str, usize)> = counts.iter().map(|(label, count)| (*label, *count)).collect();
    frequent.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let mut lengths: Vec<usize> = rows.iter().map(|row| question(row).chars().count()).collect();
    lengths.sort_unstable();
    let at = |index: usize| lengths.get(index).copied().unwrap_or(0);
    let statistics = Statistics {
        rows: rows.len(),
        labelled,
        distinct_labels: counts.len(),
        frequent_labels: frequent
            .iter()
            .take(5)
            .map(|(label, count)| ((*label).to_owned(), *count))
            .collect(),
        prompt_chars: [at(0), at(lengths.len() / 2), at(lengths.len().saturating_sub(1))],
    };

    let mut findings = Vec::new();
    if let Some(first) = rows.iter().find(|row| row.label.is_none()) {
        findings.push(match labelled {
            0 => Finding::NoLabels,
            _ => Finding::MissingLabels { missing: rows.len() - labelled, first: first.origin.to_string() },
        });
    }
    if let Some((label, count)) = frequent.first().filter(|_| labelled > 1) {
        let percent = count * 100 / labelled;
        let label = (*label).to_owned();
        if frequent.len() == 1 {
            findings.push(Finding::OneLabel { label });
        } else if percent >= 80 {
            findings.push(Finding::DominantLabel { label, percent });
        }
    }
    let answered = |row: &&Row| row.prompt.last().is_some_and(|m| m.role == whet_trajectory::Role::Assistant);
    if let Some(first) = rows.iter().find(answered) {
        let rows = rows.iter().filter(answered).count();
        findings.push(Finding::AnswerInPrompt { rows, first: first.origin.to_string() });
    }
    findings.extend(repeated(rows));
    (statistics, findings)
}

/// Rows of `test` whose prompt is also in `train`, as pairs of `file:line` (test, train).
pub fn overlap(train: &Rows, test: &Rows) -> Vec<(String, String)> {
    let seen: HashMap<String, &Row> = train.rows.iter().map(|row| (normalised(row), row)).collect();
    let shared = test.rows.iter().filter_map(|row| Some((row, seen.get(&normalised(row))?)));
    shared.map(|(row, train)| (row.origin.to_string(), train.origin.to_string())).collect()
}

fn repeated(rows: &[Row]) -> Vec<Finding> {
    let mut seen: HashMap<String, &Row> = HashMap::with_capacity(rows.len());
    let (mut copies, mut conflicts) = (Vec::new(), Vec::new());
    for row in rows {
        match seen.entry(normalised(row)) {
            Entry::Vacant(entry) => drop(entry.insert(row)),
            Entry::Occupied(entry) => {
                let pair = (entry.get().origin.to_string(), row.origin.to_string());
                if entry.get().label == row.label { copies.push(pair) } else { conflicts.push(pair) }
            }
        }
    }
    let copy = copies
        .first()
        .map(|first| Finding::DuplicatePrompts { repeated: copies.len(), first: first.clone() });
    let conflict = conflicts
        .first()
        .map(|first| Finding::ConflictingLabels { rows: conflicts.len(), first: first.clone() });
    copy.into_iter().chain(conflict).collect()
}

/// The last thing said before the model's turn.
fn question(row: &Row) -> String {
    row.prompt.last().map(whet_trajectory::Message::joined_text).unwrap_or_default()
}

/// Roles and texts of a prompt, whatever the white space.
fn normalised(row: &Row) -> String {
    let mut text = String::new();
    for message in &row.prompt {
        text.push_str(message.role.as_str());
        for word in message.joined_text().split_whitespace() {
            text.push(' ');
            text.push_str(word);
        }
        text.push('\n');
    }
    text
}
