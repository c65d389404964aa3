//! The one way in which writing things down goes wrong.

use std::path::{Path, PathBuf};

/// A file of the run directory could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", path.display())]
pub struct ObserveError {
    /// What was tried, as a verb: `write`, `read`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

impl ObserveError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| ObserveError { action: "write", path: path.to_owned(), source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| ObserveError { action: "read", path: path.to_owned(), source }
    }
}
