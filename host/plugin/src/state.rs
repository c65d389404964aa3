//! What the host keeps for one call: limits, budgets and the identity of the call.
//!
//! A state lives as long as its store, which serves one call and is dropped whatever happened.

use crate::log::LogSink;
use crate::stats::{Counters, add};
use crate::store::Values;
use crate::{CallError, Digest, Grants, Limits};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use whet_capability::{AllowedHost, Cancel, HostCall, Services};

/// What all calls of one loaded plugin share.
pub(crate) struct Shared {
    pub limits: Limits,
    pub digest: Digest,
    pub seed: u64,
    /// The plugin's name, known once it has described itself.
    pub name: OnceLock<String>,
    pub sink: Option<LogSink>,
    pub counters: Counters,
    pub values: Arc<Mutex<Values>>,
    /// The plugin imports `judge` or `http`: its calls may wait for others.
    pub asks: bool,
    pub grants: Grants,
    /// The hosts among the grants.
    pub hosts: Vec<AllowedHost>,
    pub services: Services,
    pub cancel: Cancel,
}

impl Shared {
    /// The name by which people know the plugin.
    pub fn plugin(&self) -> String {
        self.name.get().cloned().unwrap_or_else(|| self.digest.to_string())
    }
}

/// What a call is about: the seed of its random numbers, and the subject of its log lines.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// A group's id, or what the host does.
    pub group: String,
    /// The sample, where a group is scored one by one.
    pub sample: Option<String>,
}

impl Subject {
    pub fn of(group: &str) -> Self {
        Subject { group: group.to_owned(), sample: None }
    }

    /// For people.
    pub fn name(&self) -> &str {
        self.sample.as_deref().unwrap_or(&self.group)
    }
}

/// How often each capability was called.
#[derive(Default)]
pub(crate) struct HostCalls {
    pub random: u64,
    pub store: u64,
    pub judge: u64,
    pub http: u64,
}

/// The store's data.
pub(crate) struct CallState {
    pub shared: Arc<Shared>,
    pub subject: Subject,
    /// When the plugin's own time is up; waiting for others puts it off.
    pub deadline: Instant,
    /// What is left of the time to wait for others.
    pub wait_left: Duration,
    /// What is left of the bytes that `http` may carry.
    pub http_bytes_left: usize,
    pub table: ResourceTable,
    pub limiter: Limiter,
    pub media_made: usize,
    pub calls: HostCalls,
    pub random: Option<u64>,
    pub log_bytes: usize,
    pub log_lines: usize,
    pub log_dropped: u64,
    /// The last line of level error, for the message of a trap.
    pub last_error: Option<String>,
}

impl CallState {
    pub fn new(shared: Arc<Shared>, subject: Subject) -> Self {
        let limits = &shared.limits;
        let limiter = Limiter::new(limits);
        // An unrepresentable deadline is as good as a very distant one.
        let now = Instant::now();
        let deadline = now.checked_add(limits.time).unwrap_or(now + std::time::Duration::from_secs(1 << 30));
        CallState {
            subject,
            deadline,
            wait_left: limits.wait,
            http_bytes_left: limits.http_bytes,
            table: ResourceTable::new(),
            limiter,
            media_made: 0,
            calls: HostCalls::default(),
            random: None,
            log_bytes: 0,
            log_lines: 0,
            log_dropped: 0,
            last_error: None,
            shared,
        }
    }

    /// The seed of the call's random numbers: the run's seed, the plugin and what the call is about.
    pub fn random_seed(&self) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.shared.seed.to_le_bytes());
        hash.update(self.shared.digest.0);
        hash.update((self.subject.group.len() as u64).to_le_bytes());
        hash.update(&self.subject.group);
        hash.update(self.subject.sample.as_deref().unwrap_or_default());
        let digest = hash.finalize();
        digest.iter().take(8).fold(0, |seed, &byte| (seed << 8) | u64::from(byte))
    }

    /// Lets `ask` wait for others: as long as the call may still wait, at the cost of that time alone.
    pub fn wait_for<T>(&mut self, ask: impl FnOnce(&Shared, &HostCall<'_>) -> T) -> T {
        let start = Instant::now();
        let plugin = self.shared.plugin();
        let call = HostCall {
            plugin: &plugin,
            sample: self.subject.sample.as_deref(),
            deadline: start.checked_add(self.wait_left).unwrap_or(self.deadline),
            cancel: &self.shared.cancel,
        };
        let answer = ask(&self.shared, &call);
        let waited = start.elapsed();
        self.wait_left = self.wait_left.saturating_sub(waited);
        self.deadline = self.deadline.checked_add(waited).unwrap_or(self.deadline);
        answer
    }

    /// Adds the call's counts to the plugin's.
    pub fn settle(&self) {
        let counters = &self.shared.counters;
        let peak = self.limiter.peak as u64;
        counters.peak_memory.fetch_max(peak, std::sync::atomic::Ordering::Relaxed);
        add(&counters.log_lines, self.log_lines as u64);
        add(&counters.log_dropped, self.log_dropped);
        add(&counters.random_calls, self.calls.random);
        add(&counters.store_calls, self.calls.store);
        add(&counters.judge_calls, self.calls.judge);
        add(&counters.http_calls, self.calls.http);
    }
}

/// What a guest was refused; a trap that follows is put down to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory,
    Table,
}

/// Sums memories and tables over the whole store, where wasmtime's own limiter counts each alone.
pub(crate) struct Limiter {
    memory_limit: usize,
    table_limit: usize,
    instances: usize,
    memory: usize,
    table: usize,
    /// The most bytes at any time.
    pub peak: usize,
    pub refused: Option<Refused>,
}

impl Limiter {
    fn new(limits: &Limits) -> Self {
        Limiter {
            memory_limit: limits.memory,
            table_limit: limits.table_entries,
            instances: limits.instances,
            memory: 0,
            table: 0,
            peak: 0,
            refused: None,
        }
    }

    /// Bytes that the host keeps for the guest count like the guest's own.
    pub fn take_host_bytes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if self.grow_memory(0, bytes, None) {
            return Ok(());
        }
        Err(wasmtime::Error::new(CallError::MemoryLimit(self.memory_limit)))
    }

    fn grow_memory(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.memory_limit {
            self.refused = Some(Refused::Memory);
            return false;
        }
        if beyond(desired, maximum) {
            return false;
        }
        self.memory = total;
        self.peak = self.peak.max(total);
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow_memory(current, desired, maximum))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.table.saturating_sub(current).saturating_add(desired);
        if total > self.table_limit {
            self.refused = Some(Refused::Table);
            return Ok(false);
        }
        if beyond(desired, maximum) {
            return Ok(false);
        }
        self.table = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}

/// Wasmtime asks before it looks at the guest's own maximum; what that will refuse is not counted.
fn beyond(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_summed_not_counted_alone() {
        let mut limiter = Limiter::new(&Limits { memory: 100, ..Limits::default() });
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert_eq!(limiter.refused, Some(Refused::Memory));
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!(limiter.peak, 100);
    }

    #[test]
    fn what_the_guests_own_maximum_refuses_is_not_counted() {
        let mut limiter = Limiter::new(&Limits { memory: 100, table_entries: 10, ..Limits::default() });
        assert!(!limiter.memory_growing(0, 60, Some(50)).unwrap());
        assert!(!limiter.table_growing(0, 6, Some(5)).unwrap());
        assert_eq!(limiter.refused, None);
        assert!(limiter.memory_growing(0, 100, Some(100)).unwrap());
        assert!(limiter.table_growing(0, 10, None).unwrap());
    }

    #[test]
    fn tables_are_summed_not_counted_alone() {
        let mut limiter = Limiter::new(&Limits { table_entries: 10, ..Limits::default() });
        assert!(limiter.table_growing(0, 6, None).unwrap());
        assert!(!limiter.table_growing(0, usize::MAX, None).unwrap());
        assert!(limiter.table_growing(6, 10, None).unwrap());
    }
}
