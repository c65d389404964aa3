//! Questions that were answered: an append-only file of lines, read once, and a map in memory.
//!
//! ```text
//! {"key":"5f0c…","route":"default","text":"Verdict: yes","input_tokens":210,"output_tokens":4}
//! ```
//!
//! A question that is being asked is not asked again: whoever comes second waits for the first answer.
//! A line that a crash cut short at the end of the file is dropped; its question is asked again.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use whet_capability::{HostCall, Reply};

/// How often a waiting call looks whether it is cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// Where answers come from and go to, beside the process's memory.
#[derive(Clone, Copy, Debug, Default)]
pub enum Memory<'a> {
    /// Nowhere.
    #[default]
    Fresh,
    /// A file of this process's own: read, and added to.
    Kept(&'a Path),
    /// A file that another process may be writing: read as it is now.
    Recalled(&'a Path),
}

/// Why the cache's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be read or written.
    #[error("cannot use the judge's cache `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A line in its midst is no answer.
    #[error("line {line} of the judge's cache `{}` is damaged; remove the line, and its question is asked again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    route: String,
    text: String,
    input_tokens: u32,
    output_tokens: u32,
}

enum Slot {
    /// Somebody is asking.
    Asked,
    Answered(Reply),
}

/// Answers by the digest of their questions.
pub struct Cache {
    slots: Mutex<HashMap<String, Slot>>,
    changed: Condvar,
    file: Option<Mutex<(PathBuf, File)>>,
}

/// What the cache has for a question.
pub enum Found<'c> {
    /// The answer.
    Answer(Reply),
    /// Nothing: whoever holds the ticket asks.
    Ticket(Ticket<'c>),
    /// Somebody else asks, and has no answer by the deadline.
    TimedOut,
}

/// The right to ask one question; without an answer it goes to the next who waits.
pub struct Ticket<'c> {
    cache: &'c Cache,
    key: String,
}

impl Cache {
    /// A cache with the answers of a file; and the tokens that each route has spent by it.
    pub fn open(memory: Memory<'_>) -> Result<(Self, HashMap<String, u64>), CacheError> {
        let (mut slots, mut spent) = (HashMap::new(), HashMap::new());
        let mut file = None;
        if let Memory::Kept(path) | Memory::Recalled(path) = memory {
            let io = |source| CacheError::Io { path: path.to_owned(), source };
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
                Err(e) => return Err(io(e)),
            };
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            for (i, line) in text[..whole].lines().enumerate() {
                let malformed = |_| CacheError::Malformed { path: path.to_owned(), line: i + 1 };
                let line: Line = serde_json::from_str(line).map_err(malformed)?;
                *spent.entry(line.route).or_default() +=
                    u64::from(line.input_tokens) + u64::from(line.output_tokens);
                let reply = Reply {
                    text: line.text,
                    input_tokens: line.input_tokens,
                    output_tokens: line.output_tokens,
                };
                slots.entry(line.key).or_insert(Slot::Answered(reply));
            }
            if let Memory::Kept(path) = memory {
                let opened = File::options().create(true).append(true).open(path).map_err(io)?;
                if whole < text.len() {
                    opened.set_len(whole as u64).map_err(io)?;
                }
                file = Some(Mutex::new((path.to_owned(), opened)));
            }
        }
        Ok((Cache { slots: Mutex::new(slots), changed: Condvar::new(), file }, spent))
    }

    /// The answer to a question, or the right to ask it.
    pub fn find(&self, key: &str, call: &HostCall<'_>) -> Found<'_> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match slots.get(key) {
                Some(Slot::Answered(reply)) => return Found::Answer(reply.clone()),
                None => {
                    slots.insert(key.to_owned(), Slot::Asked);
                    return Found::Ticket(Ticket { cache: self, key: key.to_owned() });
                }
                Some(Slot::Asked) => {}
            }
            let patience = call.patience();
            if patience.is_zero() {
                return Found::TimedOut;
            }
            slots = self
                .changed
                .wait_timeout(slots, patience.min(GLANCE))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn set(&self, key: &str, slot: Option<Slot>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        match slot {
            Some(slot) => drop(slots.insert(key.to_owned(), slot)),
            None if matches!(slots.get(key), Some(Slot::Asked)) => drop(slots.remove(key)),
            None => {}
        }
        self.changed.notify_all();
    }
}

impl Ticket<'_> {
    /// Keeps the answer. It counts only once it is on disk: what a resumed run could not repeat is no answer.
    pub fn keep(self, route: &str, reply: &Reply) -> Result<(), CacheError> {
        if let Some(file) = &self.cache.file {
            let line = Line {
                key: self.key.clone(),
                route: route.to_owned(),
                text: reply.text.clone(),
                input_tokens: reply.input_tokens,
                output_tokens: reply.output_tokens,
            };
            let (path, file) = &mut *file.lock().unwrap_or_else(PoisonError::into_inner);
            let io = |source| CacheError::Io { path: path.clone(), source };
            let text = serde_json::to_string(&line).map_err(|e| io(e.into()))? + "\n";
            file.write_all(text.as_bytes()).map_err(io)?;
        }
        self.cache.set(&self.key, Some(Slot::Answered(reply.clone())));
        Ok(())
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.cache.set(&self.key, None);
    }
}
