//! What a plugin's calls cost so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts since the plugin was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls of the guest, repeats for single samples included.
    pub calls: u64,
    /// Calls for a single sample after its group's call failed.
    pub retries: u64,
    /// Calls that ended in an error.
    pub failures: u64,
    /// Time of all calls, from instantiation to the validated result.
    pub time: Duration,
    /// The part of `time` before the call proper: store, instance, limits.
    pub instantiate_time: Duration,
    /// Fuel of all calls; 0 in the fast profile.
    pub fuel: u64,
    /// The most linear memory that one call had, in bytes.
    pub peak_memory: u64,
    /// Log lines that reached the sink.
    pub log_lines: u64,
    /// Log lines that were over the volume.
    pub log_dropped: u64,
    /// Calls of `random`.
    pub random_calls: u64,
    /// Calls of `store`.
    pub store_calls: u64,
    /// Calls of `judge`.
    pub judge_calls: u64,
    /// Calls of `http`.
    pub http_calls: u64,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub calls: AtomicU64,
    pub retries: AtomicU64,
    pub failures: AtomicU64,
    pub nanos: AtomicU64,
    pub instantiate_nanos: AtomicU64,
    pub fuel: AtomicU64,
    pub peak_memory: AtomicU64,
    pub log_lines: AtomicU64,
    pub log_dropped: AtomicU64,
    pub random_calls: AtomicU64,
    pub store_calls: AtomicU64,
    pub judge_calls: AtomicU64,
    pub http_calls: AtomicU64,
}

impl Counters {
    pub fn read(&self) -> Stats {
        Stats {
            calls: self.calls.load(Relaxed),
            retries: self.retries.load(Relaxed),
            failures: self.failures.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
            instantiate_time: Duration::from_nanos(self.instantiate_nanos.load(Relaxed)),
            fuel: self.fuel.load(Relaxed),
            peak_memory: self.peak_memory.load(Relaxed),
            log_lines: self.log_lines.load(Relaxed),
            log_dropped: self.log_dropped.load(Relaxed),
            random_calls: self.random_calls.load(Relaxed),
            store_calls: self.store_calls.load(Relaxed),
            judge_calls: self.judge_calls.load(Relaxed),
            http_calls: self.http_calls.load(Relaxed),
        }
    }
}

/// Adds without waiting; the counters are read for people, not for decisions.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    if amount != 0 {
        counter.fetch_add(amount, Relaxed);
    }
}
