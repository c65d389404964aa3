//! The wish that a run end early, but well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set from a signal handler, read by the run. Clones share the wish.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to finish its step, write a checkpoint and return. Returns whether somebody had asked
    /// before.
    pub fn ask(&self) -> bool {
        self.0.swap(true, Ordering::SeqCst)
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
