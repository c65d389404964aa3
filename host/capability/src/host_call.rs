//! Who asks, and how long the answer may take.

use crate::Cancel;
use std::time::{Duration, Instant};

/// The circumstances of one host call.
#[derive(Clone, Debug)]
pub struct HostCall<'a> {
    /// The plugin's name, for people.
    pub plugin: &'a str,
    /// The sample that is being scored, where the host scores samples one by one.
    pub sample: Option<&'a str>,
    /// When the answer must be there; a later one is worth nothing.
    pub deadline: Instant,
    /// Ends the call early.
    pub cancel: &'a Cancel,
}

impl HostCall<'_> {
    /// What is left until the deadline; nothing when the call was cancelled.
    pub fn patience(&self) -> Duration {
        if self.cancel.is_pulled() {
            return Duration::ZERO;
        }
        self.deadline.saturating_duration_since(Instant::now())
    }
}
