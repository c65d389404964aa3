//! What can be wrong with a recipe, as data; the words are made in [`crate::diagnostic`].

use std::ops::Range;
use std::path::PathBuf;

/// Everything that is wrong with a recipe.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeErrors {
    /// The recipe.
    pub file: PathBuf,
    /// Its text, empty when it could not be read.
    pub text: String,
    /// In the order of the file.
    pub errors: Vec<RecipeError>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeError {
    /// The key that it is about, as in `rollout.max-tokens`; empty when about none.
    pub key: String,
    /// Where it stands; none when the recipe does not say it.
    pub place: Option<Place>,
    /// What is wrong.
    pub problem: Problem,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Byte ranges of the recipe's text.
    File {
        /// The key, if the value has one.
        key: Option<Range<usize>>,
        /// The value.
        value: Range<usize>,
    },
    /// An override, as it was given.
    Override {
        /// `a.b=value`.
        text: String,
    },
}

/// Kinds of mistakes.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The recipe cannot be read.
    Unreadable {
        /// The system's words.
        message: String,
        /// Recipes of the same folder with similar names.
        near: Vec<String>,
    },
    /// The text is not TOML.
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// An integer beyond 64 bits, or a float that is not a finite number.
    NotANumber {
        /// What was found.
        found: String,
    },
    /// An override that is not `key=value`, or whose key leads nowhere, or whose value no recipe can hold.
    Override {
        /// The override.
        text: String,
        /// What is wrong with it, where that can be told.
        reason: Option<String>,
    },
    /// A key that nothing reads.
    UnknownKey {
        /// A known key that was probably meant, as it would be written in the same table.
        meant: Option<String>,
        /// Full paths of keys with this name in other sections.
        elsewhere: Vec<String>,
        /// The keys that the table has.
        known: Vec<String>,
    },
    /// A key that must be given.
    MissingKey {
        /// What to write.
        example: String,
    },
    /// A value of another type.
    WrongType {
        /// What was expected, as in "a number".
        expected: String,
        /// What was found, as in "a text".
        found: &'static str,
        /// The found value, shortened.
        value: String,
        /// What to write instead, where that can be told.
        instead: Option<String>,
    },
    /// A text that is none of the choices.
    NotAChoice {
        /// What was found.
        found: String,
        /// The choices.
        choices: Vec<String>,
        /// The choice that was probably meant.
        meant: Option<String>,
    },
    /// A number, or a number of items, outside its bounds.
    OutOfRange {
        /// What was found.
        found: String,
        /// The bounds, as in "at least 1".
        bounds: String,
    },
    /// A text that does not have the form that the key asks for.
    Malformed {
        /// What is wrong and what to write.
        message: String,
    },
    /// A key that has no effect beside the others.
    Unused {
        /// Why it has none.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Keys that cannot all be meant.
    Contradiction {
        /// What does not fit.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A file that the recipe names and that is not there.
    MissingFile {
        /// The file, as resolved.
        path: PathBuf,
        /// Files of the same folder with similar names.
        near: Vec<String>,
        /// What else to try.
        remedy: Option<String>,
    },
}

impl std::error::Error for RecipeErrors {}
