//! Rows of data files: prompts, reference answers and metadata, each value exactly as the file has it.
//!
//! A label keeps its text ("1.0", "007", big integers), whatever type the file gives it. A row knows
//! its file and line. Nothing here knows what a reward does with a label.

mod error;
mod json;
mod jsonl;
mod lint;
mod order;
mod parquet;
mod preference;
mod row;

pub use error::{DataError, DataErrors, DataProblem, Origin};
pub use lint::{Finding, Statistics, lint, overlap};
pub use order::Order;
pub use preference::{PreferenceRow, Preferences, preferences, test_preferences};
pub use row::{Row, Warning, WarningKind};

use crate::load::near;
use crate::section::{Columns, Data, DataPath, Examples, PromptFormat, Slice};
use error::Report;
use row::{Prelude, RawRow, Reader};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// Rows in file order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// Names of the columns that the files have.
    pub columns: Vec<String>,
    /// Oddities that do not stop a run.
    pub warnings: Vec<Warning>,
}

/// A file's content before columns get their meaning.
struct Table {
    rows: Vec<RawRow>,
    warnings: Vec<Warning>,
}

/// The rows that a recipe trains on, each prompt complete with system message and solved examples.
///
/// # Errors
/// Up to twenty mistakes of the files, with the count of those beyond.
pub fn train(data: &Data) -> Result<Rows, DataErrors> {
    load(data, &data.train)
}

/// The rows that a recipe measures on; empty when it names none.
///
/// # Errors
/// Up to twenty mistakes of the files, with the count of those beyond.
pub fn test(data: &Data) -> Result<Rows, DataErrors> {
    load(data, &data.test)
}

/// The rows of one file, without system message and examples.
///
/// # Errors
/// Up to twenty mistakes of the file, with the count of those beyond.
pub fn open(path: &DataPath, columns: &Columns) -> Result<Rows, DataErrors> {
    read(std::slice::from_ref(path), columns, PromptFormat::Chat, &Prelude::default())
}

fn load(data: &Data, paths: &[DataPath]) -> Result<Rows, DataErrors> {
    let prelude = Prelude { system: data.system.clone(), examples: examples(data)? };
    read(paths, &data.columns, data.prompt_format, &prelude)
}

/// Solved examples as turns.
fn examples(data: &Data) -> Result<Vec<whet_trajectory::Message>, DataErrors> {
    use whet_trajectory::{Message, Role};
    match &data.examples {
        None => Ok(Vec::new()),
        Some(Examples::Inline(list)) => Ok(list
            .iter()
            .flat_map(|e| [Message::text(Role::User, &e.prompt), Message::text(Role::Assistant, &e.answer)])
            .collect()),
        Some(Examples::File(path)) => {
            let mut turns = Vec::new();
            let mut report = Report::default();
            for row in open(path, &data.columns)?.rows {
                turns.extend(row.prompt);
                match row.label {
                    Some(answer) => turns.push(Message::text(Role::Assistant, answer)),
                    None => report.add(row.origin, DataProblem::ExampleWithoutAnswer),
                }
            }
            report.finish(turns)
        }
    }
}

fn read(
    paths: &[DataPath],
    columns: &Columns,
    format: PromptFormat,
    prelude: &Prelude,
) -> Result<Rows, DataErrors> {
    let mut report = Report::default();
    let mut rows = Vec::new();
    let mut warnings = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let shown = shown_names(paths);
    for (path, shown) in paths.iter().zip(shown) {
        let Some(table) = open_table(path, &mut report) else { continue };
        warnings.extend(table.warnings);
        let exist: BTreeSet<&str> =
            table.rows.iter().flat_map(|r| r.cells.keys().map(String::as_str)).collect();
        for row in &table.rows {
            for name in row.cells.keys() {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        let reader = Reader { columns, format, prelude, file: &shown };
        if !reader.columns_exist(&exist, &path.path, &mut report) {
            continue;
        }
        for raw in table.rows {
            rows.extend(reader.row(raw, &mut warnings, &mut report));
        }
    }
    duplicates(rows.iter().map(|row| (row.id.as_str(), &row.origin)), &mut report);
    report.finish(Rows { rows, columns: names, warnings })
}

fn open_table(path: &DataPath, report: &mut Report) -> Option<Table> {
    let file: Arc<Path> = path.path.as_path().into();
    let whole = || Origin { file: file.clone(), line: 0, column: 0 };
    let before = report.total();
    let unreadable = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => DataProblem::NotFound { near: near(&file) },
        _ if file.is_dir() => DataProblem::Unreadable { message: "it is a folder".to_owned() },
        _ => DataProblem::Unreadable { message: e.to_string() },
    };
    let table = match content(&file) {
        Err(e) => return reject(report, whole(), unreadable(e)),
        Ok(Content::Parquet(content)) => parquet::read(content, &file, report),
        Ok(Content::Lines(bytes)) if bytes.starts_with(&[0x1f, 0x8b]) => {
            let found = "compressed; unpack it with gunzip first";
            return reject(report, whole(), DataProblem::Format { found });
        }
        Ok(Content::Lines(_)) if file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) => {
            let found = "CSV, whose values have no types and whose quoting varies";
            return reject(report, whole(), DataProblem::Format { found });
        }
        Ok(Content::Lines(bytes)) => jsonl::read(&bytes, &file, report),
    };
    let mut table = table?;
    let count = table.rows.len();
    if count == 0 {
        if report.total() == before {
            report.add(whole(), DataProblem::Empty);
        }
        return None;
    }
    if let Some(Slice { start, end }) = path.slice {
        let stop = end.unwrap_or(count);
        // With broken lines the count is not the file's; the errors come first.
        if start >= count || stop > count {
            if report.total() == before {
                let slice = path.to_string()[path.path.display().to_string().len()..].to_owned();
                report.add(whole(), DataProblem::SliceOutOfRange { slice, rows: count });
            }
            return None;
        }
        table.rows.truncate(stop);
        table.rows.drain(..start);
    }
    Some(table)
}

enum Content {
    Parquet(File),
    Lines(Vec<u8>),
}

/// A file by its first bytes, whatever its name.
fn content(path: &Path) -> std::io::Result<Content> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(4).read_to_end(&mut bytes)?;
    if bytes == b"PAR1" {
        return Ok(Content::Parquet(file));
    }
    file.read_to_end(&mut bytes)?;
    Ok(Content::Lines(bytes))
}

fn reject(report: &mut Report, place: Origin, problem: DataProblem) -> Option<Table> {
    report.add(place, problem);
    None
}

/// The name of each file in ids: its file name, preceded by its number where two files share one.
fn shown_names(paths: &[DataPath]) -> Vec<String> {
    let name = |path: &DataPath| {
        path.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    };
    let distinct: BTreeSet<&Path> = paths.iter().map(|p| p.path.as_path()).collect();
    let clash =
        |path: &DataPath| distinct.iter().filter(|p| p.file_name() == path.path.file_name()).count() > 1;
    let number = |path: &DataPath| paths.iter().position(|p| p.path == path.path).unwrap_or(0);
    paths.iter().map(|p| if clash(p) { format!("{}/{}", number(p), name(p)) } else { name(p) }).collect()
}

fn duplicates<'a>(rows: impl Iterator<Item = (&'a str, &'a Origin)>, report: &mut Report) {
    let mut seen: HashMap<&str, &Origin> = HashMap::new();
    for (id, origin) in rows {
        if let Some(first) = seen.insert(id, origin) {
            let problem = DataProblem::DuplicateId { id: id.to_owned(), first: first.clone() };
            report.add(origin.clone(), problem);
            seen.insert(id, first);
        }
    }
}
