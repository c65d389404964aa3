//! JSONL, and the same rows as one JSON array.
//!
//! Lines end at `\n` (or `\r\n`) only: U+2028 and its like belong to the text. A byte order mark and
//! blank lines are skipped.

use super::error::{DataProblem, Origin, Report};
use super::row::{Cell, RawRow, Warning, WarningKind};
use super::{Table, json};
use indexmap::IndexMap;
use serde::de::IgnoredAny;
use std::path::Path;
use std::sync::Arc;

/// Reads every row; a broken line is reported and the rest still read. `None` when nothing could be.
pub(super) fn read(bytes: &[u8], file: &Arc<Path>, report: &mut Report) -> Option<Table> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut table = Table { rows: Vec::new(), warnings: Vec::new() };
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
        array(bytes, file, &mut table, report)?;
        return Some(table);
    }
    let last = bytes.iter().rposition(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let mut start = 0;
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let is_last = start + line.len() > last;
        start += line.len() + 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let place = |column| Origin { file: file.clone(), line: index + 1, column };
        let line = match std::str::from_utf8(line) {
            Ok(line) => line.trim_end_matches('\r'),
            Err(e) => {
                let column = String::from_utf8_lossy(&line[..e.valid_up_to()]).chars().count() + 1;
                report.add(place(column), DataProblem::NotUtf8);
                continue;
            }
        };
        if let Err(e) = serde_json::from_str::<IgnoredAny>(line) {
            let (column, problem) = json_problem(&e, line, is_last);
            report.add(place(column), problem);
            continue;
        }
        row(line.trim(), place(0), format!(":{}", index + 1), &mut table, report);
    }
    Some(table)
}

fn array(bytes: &[u8], file: &Arc<Path>, table: &mut Table, report: &mut Report) -> Option<()> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            report.add(Origin { file: file.clone(), line, column: 0 }, DataProblem::NotUtf8);
            return None;
        }
    };
    if let Err(e) = serde_json::from_str::<IgnoredAny>(text) {
        let line = text.lines().nth(e.line().saturating_sub(1)).unwrap_or("");
        let (column, problem) = json_problem(&e, line, true);
        report.add(Origin { file: file.clone(), line: e.line(), column }, problem);
        return None;
    }
    let (mut line, mut counted) = (1, 0);
    for (index, item) in json::items(text)?.into_iter().enumerate() {
        // Items are slices of `text`, in order.
        let offset = item.as_ptr() as usize - text.as_ptr() as usize;
        line += text[counted..offset].bytes().filter(|b| *b == b'\n').count();
        counted = offset;
        row(item, Origin { file: file.clone(), line, column: 0 }, format!("[{index}]"), table, report);
    }
    Some(())
}

/// A valid JSON value as a row.
fn row(source: &str, origin: Origin, mark: String, table: &mut Table, report: &mut Report) {
    if json::too_deep(source) {
        let message = format!("more than {} lists and objects stand within each other", json::DEEPEST);
        return report.add(origin, DataProblem::Json { message, remedy: None });
    }
    let Some(fields) = json::fields(source) else {
        let found = match source.as_bytes().first() {
            Some(b'[') => "a list",
            Some(b'"') => "a text",
            Some(b'n') => "null",
            Some(b't' | b'f') => "true or false",
            _ => "a number",
        };
        report.add(origin, DataProblem::NotAnObject { found });
        return;
    };
    let mut cells = IndexMap::with_capacity(fields.len());
    for (key, source) in fields {
        let text = (source != "null").then(|| json::text(source).into_owned());
        let cell = Cell { text, value: json::value(source) };
        if cells.insert(key.clone(), cell).is_some() {
            table.warnings.push(Warning { origin: origin.clone(), kind: WarningKind::RepeatedKey { key } });
        }
    }
    table.rows.push(RawRow { cells, origin, mark });
}

fn json_problem(error: &serde_json::Error, line: &str, is_last: bool) -> (usize, DataProblem) {
    // serde_json counts bytes; people count characters.
    let bytes = error.column().min(line.len());
    let before = &line[..line.floor_char_boundary(bytes.saturating_sub(1))];
    let column = before.chars().count() + 1;
    let message = error.to_string();
    let message =
        message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
    let rest = line[before.len()..].trim_start();
    let around = &line[line.floor_char_boundary(before.len().saturating_sub(2))..];
    let remedy = if error.is_eof() && is_last {
        Some(
            "the file ends in the middle of the row, as after a broken download or copy: fetch it again"
                .to_owned(),
        )
    } else if ["NaN", "Infinity", "-Infinity"].iter().any(|word| around.contains(word)) {
        Some("JSON has no NaN and no infinities: write null".to_owned())
    } else if rest.starts_with('\'') {
        Some("JSON texts stand in double quotes".to_owned())
    } else if ["None", "True", "False"].iter().any(|word| rest.starts_with(word)) {
        Some("JSON writes null, true and false".to_owned())
    } else if error.is_eof() {
        Some("a row is one line; a line break inside a text is written \\n".to_owned())
    } else {
        None
    };
    (column, DataProblem::Json { message, remedy })
}
