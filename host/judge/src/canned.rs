//! Replies from a file, for testing judge plugins without a model.

use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use whet_capability::{HostCall, Judge, JudgeError, Question, Reply};

/// Replies by the id of the sample that is being judged.
#[derive(Clone, Debug, Default)]
pub struct Canned(HashMap<String, String>);

/// Why a file holds no replies.
#[derive(Debug, thiserror::Error)]
pub enum CannedError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A line is no reply.
    #[error("{}:{line}: a line is `{{\"id\": \"1\", \"reply\": \"text\"}}`, each id once; {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// What it is instead.
        why: String,
    },
}

impl Canned {
    /// Reads lines of `{"id", "reply"}`.
    pub fn read(path: &Path) -> Result<Self, CannedError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| CannedError::Read { path: path.to_owned(), source })?;
        let mut replies = HashMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| CannedError::Line { path: path.to_owned(), line: i + 1, why };
            let value: Value =
                serde_json::from_str(line).map_err(|e| wrong(format!("this is not JSON: {e}")))?;
            let id = match value.get("id") {
                Some(Value::String(id)) => id.clone(),
                Some(id @ Value::Number(_)) => id.to_string(),
                _ => return Err(wrong("`id` is no text or number".into())),
            };
            let Some(reply) = value.get("reply").and_then(Value::as_str) else {
                return Err(wrong("`reply` is no text".into()));
            };
            if replies.insert(id.clone(), reply.to_owned()).is_some() {
                return Err(wrong(format!("`{id}` stands twice")));
            }
        }
        Ok(Canned(replies))
    }
}

impl Judge for Canned {
    fn chat(&self, _: Option<&str>, _: &Question, call: &HostCall<'_>) -> Result<Reply, JudgeError> {
        let Some(sample) = call.sample else {
            let why = "canned replies belong to samples, and this plugin is asked about whole groups";
            return Err(JudgeError::Denied(why.into()));
        };
        let text = self.0.get(sample).cloned();
        let text = text.ok_or_else(|| JudgeError::Upstream(format!("no canned reply for `{sample}`")))?;
        Ok(Reply { text, input_tokens: 0, output_tokens: 0 })
    }
}
