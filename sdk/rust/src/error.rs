//! Why a whole call failed.

use std::fmt;

/// Why a whole call failed. The samples of a failed call get no score; it is never taken for 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input breaks the plugin's contract: say which field.
    InvalidInput(String),
    /// A capability that the plugin needs answered with an error.
    Unavailable(String),
    /// The plugin's own fault.
    Internal(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidInput(why) => write!(f, "invalid input: {why}"),
            Error::Unavailable(why) => write!(f, "unavailable: {why}"),
            Error::Internal(why) => write!(f, "internal: {why}"),
        }
    }
}

impl std::error::Error for Error {}
