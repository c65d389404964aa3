//! Everything that can go wrong, by name: loading a plugin and calling one.
//!
//! Kinds are short and stable, since they become metrics; messages are for people and never carry
//! guest text that was not sanitised.

use crate::{Digest, Kind};
use std::time::Duration;
use whet_trajectory::{Attribution, Failure};

/// Why a component was not admitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Over the size cap.
    #[error("the component has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The cap.
        limit: usize,
    },
    /// The bytes do not start like WebAssembly.
    #[error("the file is not WebAssembly")]
    NotWasm,
    /// WebAssembly that ends too early.
    #[error("the file ends in the middle of the component: it was cut short")]
    Truncated,
    /// A core module.
    #[error("the file is a core module, not a component: build it with `whet plugin build`")]
    NotAComponent,
    /// Code compiled for some machine; it is never run.
    #[error("the file holds machine code, which is never accepted: give the .wasm component itself")]
    Precompiled,
    /// WebAssembly that does not validate.
    #[error("the component is invalid: {0}")]
    Invalid(String),
    /// Valid, but with a WebAssembly feature that plugins may not use.
    #[error("the component uses {0}, which plugins may not")]
    UnsupportedFeature(&'static str),
    /// Over a cap that keeps compilation cheap.
    #[error("the component has too many {what}: {found}, at most {limit} are allowed")]
    TooComplex {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// The cap.
        limit: u64,
    },
    /// Not the component that the recipe pinned.
    #[error("the component is {found}, but the recipe pins {pinned}")]
    DigestMismatch {
        /// What the recipe says.
        pinned: Digest,
        /// What the bytes say.
        found: Digest,
    },
    /// It does not target the world that the recipe uses it for.
    #[error("the component is {found}; needed is {needed}")]
    UnsupportedWorld {
        /// What it is, in words.
        found: String,
        /// What it would have to be.
        needed: String,
    },
    /// An import that no grant can open.
    #[error("the component imports `{0}`, which plugins cannot have")]
    ForbiddenImport(String),
    /// A capability that the recipe does not grant.
    #[error("the component asks for `whet:plugin/{0}`, which the recipe does not grant")]
    NotGranted(String),
    /// The compiler took too long.
    #[error("compiling took longer than {0:?}")]
    CompileTimeout(Duration),
    /// The compiler refused or failed.
    #[error("the component does not compile: {0}")]
    CompileFailed(String),
    /// The plugin's description of itself breaks the contract.
    #[error("the plugin describes itself wrongly: {0}")]
    Descriptor(String),
    /// The recipe's configuration does not fit the plugin's schema.
    #[error("the configuration does not fit: {0}")]
    Config(String),
    /// The plugin refused its configuration, in its own words.
    #[error("the plugin refuses its configuration: {0}")]
    Configure(String),
    /// A call at load (`describe`, `configure`) failed.
    #[error("while loading: {0}")]
    Call(#[from] CallError),
    /// The host could not start its engine.
    #[error("the WebAssembly engine does not start: {0}")]
    Engine(String),
}

impl LoadError {
    /// Short and stable, in kebab-case. A failed call at load has the call's kind.
    pub fn kind(&self) -> &'static str {
        match self {
            LoadError::Empty => "empty",
            LoadError::TooLarge { .. } => "too-large",
            LoadError::NotWasm => "not-wasm",
            LoadError::Truncated => "truncated",
            LoadError::NotAComponent => "not-a-component",
            LoadError::Precompiled => "precompiled",
            LoadError::Invalid(_) => "invalid",
            LoadError::UnsupportedFeature(_) => "unsupported-feature",
            LoadError::TooComplex { .. } => "too-complex",
            LoadError::DigestMismatch { .. } => "digest-mismatch",
            LoadError::UnsupportedWorld { .. } => "unsupported-world",
            LoadError::ForbiddenImport(_) => "forbidden-import",
            LoadError::NotGranted(_) => "not-granted",
            LoadError::CompileTimeout(_) => "compile-timeout",
            LoadError::CompileFailed(_) => "compile-failed",
            LoadError::Descriptor(_) => "descriptor",
            LoadError::Config(_) => "config",
            LoadError::Configure(_) => "configure",
            LoadError::Call(error) => error.kind(),
            LoadError::Engine(_) => "engine",
        }
    }

    pub(crate) fn wrong_world(found: &[Kind], needed: Kind) -> Self {
        let found = match found {
            [] => "no plugin of this host".to_owned(),
            kinds => {
                let names: Vec<_> = kinds.iter().map(|k| k.in_words()).collect();
                names.join(" and ")
            }
        };
        LoadError::UnsupportedWorld { found, needed: needed.in_words().to_owned() }
    }
}

/// Why a call has no result. The instance is gone, so the next call starts clean.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// Too many calls at once; the pool or the plugin's own share of it is used up.
    #[error("no free instance after waiting: too many calls at once")]
    PoolExhausted,
    /// The guest trapped; a panic does.
    #[error("the plugin trapped: {trap}{}", said(.log))]
    Trapped {
        /// What WebAssembly says.
        trap: String,
        /// The last line that the plugin logged at level error, often the text of a panic.
        log: Option<String>,
    },
    /// The guest ran past the deadline.
    #[error("the plugin was stopped after its {0:?}")]
    CpuTimeout(Duration),
    /// The guest used up its fuel (deterministic profile).
    #[error("the plugin used up its fuel of {0}")]
    FuelExhausted(u64),
    /// The guest wanted more memory than it may have.
    #[error("the plugin needs more than its {0} bytes of memory")]
    MemoryLimit(usize),
    /// The guest wanted more table entries than it may have.
    #[error("the plugin needs more than its {0} table entries")]
    TableLimit(usize),
    /// The component makes more instances, tables or memories than it may.
    #[error("the plugin makes more than {0} instances, tables or memories")]
    InstanceLimit(usize),
    /// The guest recursed too deeply.
    #[error("the plugin's call stack is exhausted{}", said(.log))]
    StackOverflow {
        /// The last line that the plugin logged at level error.
        log: Option<String>,
    },
    /// The guest holds more handles than it may.
    #[error("the plugin holds more than its {0} handles")]
    HandleLimit(usize),
    /// The result is larger than what may cross the boundary.
    #[error("the plugin's result is larger than {0} bytes")]
    OutputTooLarge(usize),
    /// The guest broke the canonical ABI: a bad pointer, text or discriminant.
    #[error("the plugin broke the ABI: {0}")]
    AbiViolation(String),
    /// The guest used up its share of a capability.
    #[error("the plugin used up its {capability}: {limit}")]
    HostQuota {
        /// The capability, or `boundary` for bytes copied to the host.
        capability: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The plugin says that its input breaks its contract.
    #[error("the plugin refuses its input: {0}")]
    InvalidInput(String),
    /// The plugin says that a capability failed it.
    #[error("the plugin lacks a service: {0}")]
    Unavailable(String),
    /// The plugin says that it failed.
    #[error("the plugin failed: {0}")]
    Internal(String),
    /// `configure`, which had succeeded at load, failed.
    #[error("the plugin refuses the configuration that it took at load: {0}")]
    Reconfigure(String),
    /// Another number of results than inputs.
    #[error("the plugin gave {found} results for {expected} inputs")]
    WrongLength {
        /// Results needed.
        expected: usize,
        /// Results given.
        found: usize,
    },
    /// NaN or infinity.
    #[error("the plugin gave {value} at {at}, not a finite number")]
    NonFinite {
        /// Where.
        at: String,
        /// The value.
        value: String,
    },
    /// A score without components, a component twice or one that the descriptor does not declare.
    #[error("the plugin gave a bad component: {0}")]
    BadComponent(String),
    /// A span that is not a range of whole characters of the response.
    #[error("the plugin gave a bad span: {0}")]
    BadSpan(String),
    /// A verdict whose reason cannot be a metric's name.
    #[error("the plugin gave a bad reason: {0}")]
    BadReason(String),
    /// The host gave a batch whose columns do not fit each other.
    #[error("the batch is inconsistent: {0}")]
    BadBatch(String),
    /// The run ended while the plugin was at work.
    #[error("the call was cancelled")]
    Cancelled,
    /// The host itself broke.
    #[error("the plugin host failed: {0}")]
    Host(String),
}

fn said(log: &Option<String>) -> String {
    log.as_ref().map_or_else(String::new, |line| format!("; it said: {line}"))
}

impl CallError {
    /// Short and stable, in kebab-case.
    pub fn kind(&self) -> &'static str {
        match self {
            CallError::PoolExhausted => "pool-exhausted",
            CallError::Trapped { .. } => "trapped",
            CallError::CpuTimeout(_) => "cpu-timeout",
            CallError::FuelExhausted(_) => "fuel-exhausted",
            CallError::MemoryLimit(_) => "memory-limit",
            CallError::TableLimit(_) => "table-limit",
            CallError::InstanceLimit(_) => "instance-limit",
            CallError::StackOverflow { .. } => "stack-overflow",
            CallError::HandleLimit(_) => "handle-limit",
            CallError::OutputTooLarge(_) => "output-too-large",
            CallError::AbiViolation(_) => "abi-violation",
            CallError::HostQuota { .. } => "host-quota",
            CallError::InvalidInput(_) => "invalid-input",
            CallError::Unavailable(_) => "unavailable",
            CallError::Internal(_) => "internal",
            CallError::Reconfigure(_) => "reconfigure",
            CallError::WrongLength { .. } => "wrong-length",
            CallError::NonFinite { .. } => "non-finite",
            CallError::BadComponent(_) => "bad-component",
            CallError::BadSpan(_) => "bad-span",
            CallError::BadReason(_) => "bad-reason",
            CallError::BadBatch(_) => "bad-batch",
            CallError::Cancelled => "cancelled",
            CallError::Host(_) => "host",
        }
    }

    /// Whose fault it is.
    pub fn attribution(&self) -> Attribution {
        match self {
            CallError::PoolExhausted | CallError::BadBatch(_) | CallError::Cancelled | CallError::Host(_) => {
                Attribution::Host
            }
            CallError::Unavailable(_) => Attribution::Upstream,
            _ => Attribution::Plugin,
        }
    }

    /// Whether the same call may succeed when repeated: not where the guest's own code decides.
    /// Deadlines are the clock's, so a busy machine can miss one.
    pub fn retryable(&self) -> bool {
        matches!(self, CallError::PoolExhausted | CallError::CpuTimeout(_) | CallError::Unavailable(_))
    }

    /// The failure of one sample.
    pub fn failure(&self) -> Failure {
        Failure {
            kind: self.kind().to_owned(),
            message: self.to_string(),
            attribution: self.attribution(),
            retryable: self.retryable(),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        error.failure()
    }
}
