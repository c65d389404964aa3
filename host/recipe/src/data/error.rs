//! What can be wrong with data files, as data; the words are made in [`crate::diagnostic`].

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Mistakes kept in full; beyond that they are counted.
const KEPT: usize = 20;

/// Everything that is wrong with data files.
#[derive(Clone, Debug, PartialEq)]
pub struct DataErrors {
    /// The first mistakes, in order.
    pub errors: Vec<DataError>,
    /// How many more there are.
    pub more: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct DataError {
    /// Where.
    pub place: Origin,
    /// What.
    pub problem: DataProblem,
}

/// A place in a data file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// Line of a JSONL file or row of a Parquet file, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// Column in characters, counted from 1; 0 for the line as a whole.
    pub column: usize,
}

/// Kinds of mistakes.
#[derive(Clone, Debug, PartialEq)]
pub enum DataProblem {
    /// There is no such file.
    NotFound {
        /// Files of the same folder with similar names.
        near: Vec<String>,
    },
    /// The file cannot be read.
    Unreadable {
        /// The system's words.
        message: String,
    },
    /// The file is neither JSONL nor Parquet.
    Format {
        /// What it is.
        found: &'static str,
    },
    /// No rows.
    Empty,
    /// The slice reaches beyond the last row.
    SliceOutOfRange {
        /// The slice, as in `[0..100]`.
        slice: String,
        /// Rows of the file.
        rows: usize,
    },
    /// Not UTF-8.
    NotUtf8,
    /// Not JSON.
    Json {
        /// The parser's words.
        message: String,
        /// What to do, where that can be told.
        remedy: Option<String>,
    },
    /// A row that is not an object.
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// A named column that no row has.
    MissingColumn {
        /// The column.
        column: String,
        /// The recipe key that names it.
        key: &'static str,
        /// The columns that exist.
        exist: Vec<String>,
        /// The one that was probably meant.
        meant: Option<String>,
    },
    /// A row without a prompt.
    NoPrompt {
        /// The prompt's column.
        column: String,
        /// What stands there, as in "null".
        found: &'static str,
    },
    /// A list that does not hold chat messages.
    Message {
        /// The prompt's column.
        column: String,
        /// What is wrong.
        message: String,
    },
    /// Two answers without a prompt column that do not begin alike.
    NoCommonPrompt {
        /// The answers' columns.
        columns: [String; 2],
        /// The column that a prompt could stand in.
        prompt: String,
    },
    /// Two rows of one id.
    DuplicateId {
        /// The id.
        id: String,
        /// Its first row.
        first: Origin,
    },
    /// Pictures or sounds, which cannot be trained on yet.
    Media {
        /// Their column.
        column: String,
    },
    /// A placeholder for a picture or sound that is not there.
    Placeholder {
        /// As in `<image>`.
        placeholder: &'static str,
    },
    /// A chat prompt that contains a chat template's own tokens.
    Rendered {
        /// As in `<|im_start|>`.
        marker: &'static str,
    },
    /// A solved example without an answer.
    ExampleWithoutAnswer,
}

impl std::error::Error for DataErrors {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// Collects mistakes up to a bound.
#[derive(Default)]
pub(super) struct Report {
    errors: Vec<DataError>,
    more: usize,
}

impl Report {
    pub fn add(&mut self, place: Origin, problem: DataProblem) {
        if self.errors.len() < KEPT {
            self.errors.push(DataError { place, problem });
        } else {
            self.more += 1;
        }
    }

    pub fn total(&self) -> usize {
        self.errors.len() + self.more
    }

    pub fn finish<T>(self, value: T) -> Result<T, DataErrors> {
        if self.errors.is_empty() {
            Ok(value)
        } else {
            Err(DataErrors { errors: self.errors, more: self.more })
        }
    }
}
