//! What a plugin may cost: a call's limits, and the caps on a component before it is compiled.

use std::time::Duration;

/// Which of the two engines runs a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// Stopped by the clock. NaN bits and relaxed SIMD are the CPU's.
    #[default]
    Fast,
    /// Stopped by fuel (with the clock behind it), canonical NaN bits, deterministic SIMD: the same
    /// input gives the same output, or the same error, on every machine with this host version.
    Deterministic,
}

impl Profile {
    /// The profile's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Fast => "fast",
            Profile::Deterministic => "deterministic",
        }
    }
}

/// Limits of one call. The call's instance is dropped afterwards, whatever happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The plugin's own time, from instantiation to the validated result. Waiting for a judge or a server
    /// is not counted here.
    pub time: Duration,
    /// Waiting for judges and servers, all requests of one call together. Requests that would go beyond
    /// it time out, and the plugin may say what that means; so a call ends within `time` and `wait`.
    pub wait: Duration,
    /// Fuel of one call (about one unit per WebAssembly instruction); counts in the deterministic
    /// profile only.
    pub fuel: u64,
    /// Bytes of all linear memories together, and of the media that the plugin makes.
    pub memory: usize,
    /// Entries of all tables together.
    pub table_entries: usize,
    /// Core instances, tables and memories, each. Enough for the 40 or so core instances of a component of
    /// `componentize-py`; a Rust plugin has at most 4.
    pub instances: usize,
    /// Bytes that a host call or a result may copy out of the plugin.
    pub boundary_bytes: usize,
    /// Live component-model handles.
    pub handles: usize,
    /// Media that a plugin may make, beyond those that it is given.
    pub media: usize,
    /// Log text of one call, in bytes; what is beyond is counted and dropped.
    pub log_bytes: usize,
    /// Log lines of one call; what is beyond is counted and dropped.
    pub log_lines: usize,
    /// Calls of `random` and of `store`, each, within one call.
    pub host_calls: u64,
    /// Calls of `judge` and of `http`, each, within one call.
    pub requests: u64,
    /// Bytes that `http` may carry within one call: bodies of requests and of answers together.
    pub http_bytes: usize,
    /// Bytes of the largest body that `http` may bring back.
    pub response_bytes: usize,
    /// Bytes of keys and values that a plugin may keep in `store` for the run.
    pub store_bytes: usize,
    /// Calls of one plugin that run at once; others wait for at most as long as a call may take.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Duration::from_secs(1),
            wait: Duration::from_secs(120),
            fuel: 2_000_000_000,
            memory: 64 << 20,
            table_entries: 100_000,
            instances: 64,
            boundary_bytes: 8 << 20,
            handles: 1_000,
            media: 256,
            log_bytes: 64 << 10,
            log_lines: 1_000,
            host_calls: 100_000,
            requests: 256,
            http_bytes: 64 << 20,
            response_bytes: 8 << 20,
            store_bytes: 1 << 20,
            concurrency: 64,
        }
    }
}

/// Caps on a component before it is compiled, so that a compile bomb is refused unread. The
/// defaults let CPython and SpiderMonkey pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionCaps {
    /// The file.
    pub bytes: usize,
    /// Functions of all core modules together.
    pub functions: u64,
    /// Code of the longest function, in bytes.
    pub function_bytes: u64,
    /// Targets of all `br_table` instructions of one function together.
    pub branch_targets: u64,
    /// The compiler's work beyond what grows with the code's length, over all functions: the square of
    /// a function's calls, and 20 times its blocks times its locals (both measured: a function of
    /// 40,000 calls and 120 KB takes 29 s, one of 12,000 blocks with 2,000 locals 9 s).
    pub work: u64,
    /// Types, core and component, of all levels together.
    pub types: u64,
    /// Instance, alias, import and export definitions of all levels together.
    pub definitions: u64,
    /// Components and modules within each other.
    pub depth: usize,
    /// Custom sections together (names, debug information), in bytes.
    pub custom_bytes: u64,
    /// Time that a load waits for the compiler.
    pub compile_time: Duration,
}

impl Default for AdmissionCaps {
    fn default() -> Self {
        AdmissionCaps {
            bytes: 32 << 20,
            functions: 100_000,
            function_bytes: 512 << 10,
            branch_targets: 100_000,
            work: 1_500_000_000,
            types: 50_000,
            definitions: 100_000,
            depth: 16,
            custom_bytes: 8 << 20,
            compile_time: Duration::from_secs(300),
        }
    }
}
