//! What plugins log, as a file of the run directory: `plugins.jsonl`, one object per line.
//!
//! ```text
//! {"plugin":"math","level":"warn","subject":"step3/row7","text":"two answers"}
//! ```
//!
//! The file is made by the first line. It is an aid, so a line that cannot be written is dropped, and a run's
//! disk is not given away to a plugin that talks too much.

use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use whet_plugin_host::{LogLevel, LogLine, LogSink};

/// Bytes that one process writes into the file.
const MOST_BYTES: usize = 64 << 20;

/// A sink that writes lines of level info and above into `dir`.
pub fn log_into(dir: &Path) -> LogSink {
    let path = dir.join("plugins.jsonl");
    let state = Mutex::new((None::<File>, MOST_BYTES));
    Arc::new(move |line: &LogLine<'_>| {
        if line.level < LogLevel::Info {
            return;
        }
        let text = format!(
            "{}\n",
            json!({"plugin": line.plugin, "level": line.level.as_str(), "subject": line.subject, "text": line.text})
        );
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, left) = &mut *state;
        let Some(rest) = left.checked_sub(text.len()) else { return };
        if file.is_none() {
            *file = File::options().create(true).append(true).open(&path).ok();
        }
        if file.as_mut().is_some_and(|file| file.write_all(text.as_bytes()).is_ok()) {
            *left = rest;
        }
    })
}
