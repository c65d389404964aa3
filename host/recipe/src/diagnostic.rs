//! The words for what is wrong with recipes and data, in one form:
//!
//! ```text
//! error: recipe key `algorithm.clip-hi` is not known
//!   --> recipes/sums.toml:17:1
//!    = help: did you mean `clip-high`?
//! ```

use crate::data::{DataError, DataErrors, DataProblem};
use crate::error::{Place, Problem, RecipeError, RecipeErrors};
use std::fmt::{self, Display, Write};

/// One message: what is wrong, where, and what to do.
struct Diagnostic {
    message: String,
    place: Option<String>,
    help: Vec<String>,
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {place}")?;
        }
        for help in &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

impl Display for RecipeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            recipe_diagnostic(self, error).fmt(f)?;
        }
        Ok(())
    }
}

impl Display for DataErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            data_diagnostic(error).fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\n\n... and {} more like these", self.more)?;
        }
        Ok(())
    }
}

fn recipe_diagnostic(all: &RecipeErrors, error: &RecipeError) -> Diagnostic {
    let key = &error.key;
    let mut help = Vec::new();
    let message = match &error.problem {
        Problem::Unreadable { message, near } => {
            if let Some(near) = did_you_mean(near) {
                help.push(near);
            }
            help.push("`whet recipe new` writes a recipe to start from".into());
            format!("recipe {} cannot be read: {message}", all.file.display())
        }
        Problem::Syntax { message } => format!("the recipe is not valid TOML: {message}"),
        Problem::NotANumber { found } => {
            help.push("numbers are finite, and integers fit in 64 bits".into());
            format!("recipe key `{key}` cannot be {found}")
        }
        Problem::Override { text, reason } => {
            help.push("write a key of the recipe, `=` and a value, as in `train.steps=20` or `reward[1].weight=0.5`".into());
            let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            format!("override `{text}` cannot be applied{reason}")
        }
        Problem::UnknownKey { meant, elsewhere, known } => {
            match meant {
                Some(meant) => help.push(format!("did you mean `{meant}`?")),
                None if !elsewhere.is_empty() => {
                    help.push(format!("did you mean {}?", quoted(elsewhere, "or")))
                }
                None => help.push(format!("known here: {}", known.join(", "))),
            }
            format!("recipe key `{key}` is not known")
        }
        Problem::MissingKey { example } => {
            help.push(format!("add {example}"));
            format!("recipe key `{key}` is missing")
        }
        Problem::WrongType { expected, found, value, instead } => {
            if let Some(instead) = instead {
                help.push(format!("write {instead}"));
            }
            format!("recipe key `{key}` must be {expected}, not {found} ({value})")
        }
        Problem::NotAChoice { found, choices, meant } => {
            if let Some(meant) = meant {
                help.push(format!("did you mean \"{meant}\"?"));
            }
            let choices: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
            help.push(match choices.as_slice() {
                [only] => format!("the only choice is {only}"),
                _ => format!("the choices are {}", choices.join(", ")),
            });
            format!("recipe key `{key}` cannot be \"{found}\"")
        }
        Problem::OutOfRange { found, bounds } => {
            help.push(format!("write a value {bounds}"));
            format!("recipe key `{key}` is {found}, which is out of range")
        }
        Problem::Malformed { message } => {
            // "`x` is not a size; write 32MiB": the second half is the remedy.
            let (what, remedy) = message.split_once("; ").unwrap_or((message, ""));
            if !remedy.is_empty() {
                help.push(remedy.to_owned());
            }
            format!("recipe key `{key}`: {what}")
        }
        Problem::Unused { reason, remedy } => {
            help.push(remedy.clone());
            format!("recipe key `{key}` has no effect: {reason}")
        }
        Problem::Contradiction { reason, remedy } => {
            help.push(remedy.clone());
            format!("recipe key `{key}`: {reason}")
        }
        Problem::MissingFile { path, near, remedy } => {
            if let Some(near) = did_you_mean(near) {
                help.push(near);
            }
            help.extend(remedy.clone());
            if help.is_empty() {
                help.push(match error.place {
                    Some(Place::Override { .. }) => {
                        "paths on the command line are relative to the current folder".into()
                    }
                    _ => "paths are relative to the recipe's folder".into(),
                });
            }
            format!("recipe key `{key}` names {}, which does not exist", path.display())
        }
    };
    Diagnostic { message, place: recipe_place(all, error), help }
}

fn recipe_place(all: &RecipeErrors, error: &RecipeError) -> Option<String> {
    match &error.place {
        Some(Place::Override { text }) => Some(format!("--set {text}")),
        Some(Place::File { key, value }) => {
            // A key that should not be there is shown itself; a wrong value is shown where the value stands.
            let at_key = matches!(
                error.problem,
                Problem::UnknownKey { .. }
                    | Problem::Unused { .. }
                    | Problem::Contradiction { .. }
                    | Problem::MissingKey { .. }
            );
            let offset = if at_key { key.as_ref().unwrap_or(value).start } else { value.start };
            let (line, column) = line_and_column(&all.text, offset);
            Some(format!("{}:{line}:{column}", all.file.display()))
        }
        None if matches!(error.problem, Problem::Unreadable { .. } | Problem::Override { .. }) => None,
        None => Some(all.file.display().to_string()),
    }
}

fn data_diagnostic(error: &DataError) -> Diagnostic {
    let mut help = Vec::new();
    let message = match &error.problem {
        DataProblem::NotFound { near } => {
            help.push(did_you_mean(near).unwrap_or_else(|| {
                "check the path; in a recipe it is relative to the recipe's folder".into()
            }));
            "the data file does not exist".to_owned()
        }
        DataProblem::Unreadable { message } => format!("the data file cannot be read: {message}"),
        DataProblem::Format { found } => {
            help.push("data files are JSONL (one JSON object per line) or Parquet".into());
            format!("the data file is {found}")
        }
        DataProblem::Empty => {
            help.push(
                "write one JSON object per line, as in {\"prompt\": \"1 + 1 =\", \"label\": \"2\"}".into(),
            );
            "the data file has no rows".to_owned()
        }
        DataProblem::SliceOutOfRange { slice, rows } => {
            help.push(format!("the file has {rows} rows: write a range within [0..{rows}]"));
            format!("the slice {slice} reaches beyond the file")
        }
        DataProblem::NotUtf8 => {
            help.push("save the file as UTF-8".into());
            "the line is not valid UTF-8".to_owned()
        }
        DataProblem::Json { message, remedy } => {
            help.extend(remedy.clone());
            format!("the line is not valid JSON: {message}")
        }
        DataProblem::NotAnObject { found } => {
            help.push("every row is an object, as in {\"prompt\": \"1 + 1 =\", \"label\": \"2\"}".into());
            format!("the row is {found}, not an object")
        }
        DataProblem::MissingColumn { column, key, exist, meant } => {
            if let Some(meant) = meant {
                help.push(format!("did you mean `{meant}`? Then write `{key} = \"{meant}\"`"));
            }
            help.push(format!("the file has the columns {}; name one with `{key}`", quoted(exist, "and")));
            format!("no row has a column `{column}`")
        }
        DataProblem::NoPrompt { column, found } => {
            help.push("give the row a prompt, or take it out".into());
            format!("the prompt (column `{column}`) is {found}")
        }
        DataProblem::Message { column, message } => {
            help.push("messages are objects with `role` and `content`, as in {\"role\": \"user\", \"content\": \"1 + 1 =\"}".into());
            format!("column `{column}` is not a list of chat messages: {message}")
        }
        DataProblem::NoCommonPrompt { columns: [chosen, rejected], prompt } => {
            help.push(format!(
                "put the prompt into a column `{prompt}`, or let both be whole conversations with the same first messages"
            ));
            format!("the prompt is not known: columns `{chosen}` and `{rejected}` do not begin alike")
        }
        DataProblem::DuplicateId { id, first } => {
            help.push("ids must be unique; without `data.columns.id` and a column `id`, rows are named by file and line".into());
            format!("the id `{id}` was used before, at {first}")
        }
        DataProblem::Media { column } => {
            help.push("this version trains on text: take such rows out, or leave the column out with `data.columns.metadata`".into());
            format!("the row has pictures or sounds in column `{column}`, which the model would not see")
        }
        DataProblem::Placeholder { placeholder } => {
            help.push("take the row out: the model would see the placeholder as text".into());
            format!("the prompt has a placeholder {placeholder} and no file for it")
        }
        DataProblem::Rendered { marker } => {
            help.push(
                "write `data.prompt-format = \"raw\"` so that the chat template is not applied a second time"
                    .into(),
            );
            format!("the prompt already contains the template token `{marker}`")
        }
        DataProblem::ExampleWithoutAnswer => {
            help.push("a solved example needs a label: it is shown as the answer".into());
            "the example has no label".to_owned()
        }
    };
    Diagnostic { message, place: Some(error.place.to_string()), help }
}

fn did_you_mean(near: &[String]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", quoted(near, "or")))
}

/// "`a`, `b` or `c`".
fn quoted(names: &[String], word: &str) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let separator = match index {
            0 => "",
            _ if index + 1 == names.len() => &format!(" {word} "),
            _ => ", ",
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}`{name}`");
    }
    text
}

/// Line and column, counted from 1, the column in characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1;
    (line, column)
}
