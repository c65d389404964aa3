//! Rows with two answers, of which one is preferred.
//!
//! The prompt stands in a column of its own, or is what both answers begin with: the messages that two
//! conversations share, or, of raw text, the words.

use super::Origin;
use super::error::{DataErrors, DataProblem, Report};
use super::row::{Prelude, RawRow, Warning, turns};
use super::{duplicates, examples, open_table, shown_names};
use crate::section::{Data, DataPath, PromptFormat};
use crate::shape::nearest;
use std::collections::BTreeSet;
use whet_trajectory::{Message, Role};

/// One prompt and two answers to it.
#[derive(Clone, Debug, PartialEq)]
pub struct PreferenceRow {
    /// Unique among the rows of a run.
    pub id: String,
    /// What was asked: system message, solved examples, question. Of raw text one message; empty where texts
    /// have nothing in common.
    pub prompt: Vec<Message>,
    /// The preferred answer: what follows the prompt.
    pub chosen: Vec<Message>,
    /// The other answer.
    pub rejected: Vec<Message>,
    /// Where the row stands.
    pub origin: Origin,
}

/// Rows in file order.
#[derive(Clone, Debug, PartialEq)]
pub struct Preferences {
    /// The rows.
    pub rows: Vec<PreferenceRow>,
    /// Rows left out because both answers are the same.
    pub equal: usize,
    /// Oddities that do not stop a run.
    pub warnings: Vec<Warning>,
}

/// The pairs that a recipe trains on.
///
/// # Errors
/// Up to twenty mistakes of the files, with the count of those beyond.
pub fn preferences(data: &Data) -> Result<Preferences, DataErrors> {
    load(data, &data.train)
}

/// The pairs that a recipe measures on; empty when it names none.
///
/// # Errors
/// Up to twenty mistakes of the files, with the count of those beyond.
pub fn test_preferences(data: &Data) -> Result<Preferences, DataErrors> {
    load(data, &data.test)
}

fn load(data: &Data, paths: &[DataPath]) -> Result<Preferences, DataErrors> {
    let prelude = Prelude { system: data.system.clone(), examples: examples(data)? };
    let mut report = Report::default();
    let mut found = Preferences { rows: Vec::new(), equal: 0, warnings: Vec::new() };
    for (path, shown) in paths.iter().zip(shown_names(paths)) {
        let Some(table) = open_table(path, &mut report) else { continue };
        found.warnings.extend(table.warnings);
        let exist: BTreeSet<&str> =
            table.rows.iter().flat_map(|r| r.cells.keys().map(String::as_str)).collect();
        if !columns_exist(data, &exist, path, &mut report) {
            continue;
        }
        // The usual name may be absent: then the answers hold the prompt.
        let with_prompt = exist.contains(data.columns.prompt.as_str());
        for raw in &table.rows {
            match row(data, &prelude, raw, with_prompt, &shown) {
                Ok(row) if row.chosen == row.rejected => found.equal += 1,
                Ok(row) => found.rows.push(row),
                Err(problem) => report.add(raw.origin.clone(), problem),
            }
        }
    }
    duplicates(found.rows.iter().map(|r| (r.id.as_str(), &r.origin)), &mut report);
    report.finish(found)
}

fn columns_exist(data: &Data, exist: &BTreeSet<&str>, path: &DataPath, report: &mut Report) -> bool {
    let columns = &data.columns;
    let usual = columns.prompt == crate::Columns::default().prompt;
    let named = [
        ("data.columns.chosen", Some(&columns.chosen)),
        ("data.columns.rejected", Some(&columns.rejected)),
        ("data.columns.prompt", (!usual).then_some(&columns.prompt)),
        ("data.columns.id", columns.id.as_ref()),
    ];
    let before = report.total();
    for (key, name) in named {
        if let Some(name) = name.filter(|name| !exist.contains(name.as_str())) {
            let meant = nearest(name, exist.iter().copied());
            let exist = exist.iter().map(|name| (*name).to_owned()).collect();
            let place = Origin { file: path.path.as_path().into(), line: 0, column: 0 };
            report.add(place, DataProblem::MissingColumn { column: name.clone(), key, exist, meant });
        }
    }
    report.total() == before
}

fn row(
    data: &Data,
    prelude: &Prelude,
    raw: &RawRow,
    with_prompt: bool,
    file: &str,
) -> Result<PreferenceRow, DataProblem> {
    let columns = &data.columns;
    let id = raw.cells.get(columns.id.as_deref().unwrap_or("id")).and_then(|cell| cell.text.clone());
    let id = id.unwrap_or_else(|| format!("{file}{}", raw.mark));
    let prompt = if with_prompt { Some(turns(raw, &columns.prompt, Role::User)?) } else { None };
    let [chosen, rejected] = [&columns.chosen, &columns.rejected];
    let mut answers = [turns(raw, chosen, Role::Assistant)?, turns(raw, rejected, Role::Assistant)?];
    let raw_text = data.prompt_format == PromptFormat::Raw;
    let conversations = answers.iter().all(|a| a.first().is_some_and(|m| m.role != Role::Assistant));
    let common = if conversations {
        let shared = answers[0].iter().zip(&answers[1]).take_while(|(a, b)| a == b).count();
        let shortest = answers.iter().map(Vec::len).min().unwrap_or(0);
        // Equal conversations still end with an answer each.
        let shared = shared.min(shortest.saturating_sub(1));
        let common = answers[0][..shared].to_vec();
        answers.iter_mut().for_each(|answer| drop(answer.drain(..shared)));
        Some(common)
    } else if prompt.is_none() && raw_text {
        Some(common_text(&mut answers))
    } else {
        None
    };
    // Conversations know their prompt better than a column that only repeats its question.
    let prompt = match (common, prompt) {
        (Some(common), _) if !common.is_empty() || raw_text => common,
        (_, Some(prompt)) => prompt,
        (_, None) => {
            return Err(DataProblem::NoCommonPrompt {
                columns: [chosen.clone(), rejected.clone()],
                prompt: columns.prompt.clone(),
            });
        }
    };
    for (answer, column) in answers.iter().zip([chosen, rejected]) {
        if !answer.iter().any(|m| m.role == Role::Assistant) {
            let message = "no message of the assistant follows the prompt".to_owned();
            return Err(DataProblem::Message { column: column.clone(), message });
        }
    }
    let prompt = if raw_text { prompt } else { prelude.before(prompt) };
    let [chosen, rejected] = answers;
    Ok(PreferenceRow { id, prompt, chosen, rejected, origin: raw.origin.clone() })
}

/// Takes what two texts begin with, up to a white space, off both.
fn common_text(answers: &mut [Vec<Message>; 2]) -> Vec<Message> {
    let [a, b] = [0, 1].map(|i| answers[i].iter().map(Message::joined_text).collect::<String>());
    let shared: usize = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    // The space belongs to the answer, as tokenizers have it.
    let cut = a[..shared].rfind(char::is_whitespace).unwrap_or(0);
    for (answer, text) in answers.iter_mut().zip([&a, &b]) {
        *answer = vec![Message::text(Role::Assistant, &text[cut..])];
    }
    if cut == 0 { Vec::new() } else { vec![Message::text(Role::User, &a[..cut])] }
}
