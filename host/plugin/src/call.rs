//! One call: a fresh store, limits, an instance, the plugin's configuration, the function, and the
//! error by its name.
//!
//! Calls run on the caller's thread. The clock interrupts the guest; host functions do a bounded
//! amount of work, or wait for others within the call's time for waiting, so a call ends soon after its
//! deadline without anyone waiting for it. Wasmtime
//! refuses to enter an instance again after a trap, and whatever the guest left in memory goes with
//! its store: nothing of a call is used for the next one.

use crate::bindings::base::whet::plugin::types::PluginError;
use crate::bindings::base::{Base, BaseIndices, exports::whet::plugin::meta};
use crate::log::sanitise;
use crate::state::{CallState, Refused, Shared, Subject};
use crate::stats::add;
use crate::{CallError, Limits, LoadError, Profile};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wasmtime::component::{Instance, InstancePre, ResourceTableError};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};

/// Bytes kept of a text that the guest wrote into an error.
const GUEST_TEXT: usize = 1 << 10;

/// A linked component with everything that its calls share.
pub(crate) struct Guest {
    engine: Engine,
    profile: Profile,
    pre: InstancePre<CallState>,
    meta: BaseIndices,
    pub shared: Arc<Shared>,
    gate: Gate,
    config: String,
}

/// What a world's function may fail with: the guest's end, or a result that breaks the contract.
pub(crate) enum Fault {
    Guest(wasmtime::Error),
    Output(CallError),
}

impl From<wasmtime::Error> for Fault {
    fn from(error: wasmtime::Error) -> Self {
        Fault::Guest(error)
    }
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        Fault::Output(error)
    }
}

impl From<PluginError> for Fault {
    fn from(error: PluginError) -> Self {
        Fault::Output(match error {
            PluginError::InvalidInput(text) => CallError::InvalidInput(sanitise(&text, GUEST_TEXT)),
            PluginError::Unavailable(text) => CallError::Unavailable(sanitise(&text, GUEST_TEXT)),
            PluginError::Internal(text) => CallError::Internal(sanitise(&text, GUEST_TEXT)),
        })
    }
}

impl Guest {
    pub fn new(
        engine: Engine,
        profile: Profile,
        pre: InstancePre<CallState>,
        shared: Shared,
        config: String,
    ) -> Result<Self, LoadError> {
        let meta = BaseIndices::new(&pre).map_err(|e| mistyped(&e))?;
        let gate = Gate::new(shared.limits.concurrency);
        Ok(Guest { engine, profile, pre, meta, shared: Arc::new(shared), gate, config })
    }

    /// The linked component, for finding a world's exports.
    pub fn pre(&self) -> &InstancePre<CallState> {
        &self.pre
    }

    /// Asks the plugin about itself; `also` looks at the same instance, for type checks at load.
    pub fn describe(
        &self,
        also: impl FnOnce(&mut Store<CallState>, &Instance) -> wasmtime::Result<()>,
    ) -> Result<meta::Descriptor, LoadError> {
        let mut mismatch = None;
        let described = self.run(Subject::of("describe"), |store, instance| {
            let base = match self.meta.load(&mut *store, instance).and_then(|base| {
                also(store, instance)?;
                Ok(base)
            }) {
                Ok(base) => base,
                Err(e) => {
                    mismatch = Some(mistyped(&e));
                    return Ok(None);
                }
            };
            Ok(Some(base.whet_plugin_meta().call_describe(&mut *store)?))
        })?;
        match (described, mismatch) {
            (Some(descriptor), _) => Ok(descriptor),
            (None, Some(mismatch)) => Err(mismatch),
            (None, None) => Err(LoadError::Descriptor("it does not describe itself".into())),
        }
    }

    /// Gives the plugin its configuration once, to hear at load what it has against it.
    pub fn try_configure(&self) -> Result<(), LoadError> {
        let outcome = self.run(Subject::of("configure"), |store, instance| {
            let base: Base = self.meta.load(&mut *store, instance)?;
            Ok(base.whet_plugin_meta().call_configure(&mut *store, &self.config)?)
        })?;
        outcome.map_err(|text| LoadError::Configure(sanitise(&text, GUEST_TEXT)))
    }

    /// A configured instance for `function`.
    pub fn call<T>(
        &self,
        subject: Subject,
        function: impl FnOnce(&mut Store<CallState>, &Instance) -> Result<T, Fault>,
    ) -> Result<T, CallError> {
        self.run(subject, |store, instance| {
            let base: Base = self.meta.load(&mut *store, instance)?;
            if let Err(text) = base.whet_plugin_meta().call_configure(&mut *store, &self.config)? {
                return Err(CallError::Reconfigure(sanitise(&text, GUEST_TEXT)).into());
            }
            function(store, instance)
        })
    }

    /// A fresh instance for `function`, under all limits. Never panics, whatever the guest does.
    fn run<T>(
        &self,
        subject: Subject,
        function: impl FnOnce(&mut Store<CallState>, &Instance) -> Result<T, Fault>,
    ) -> Result<T, CallError> {
        let Limits { time, wait, .. } = self.shared.limits;
        let patience = if self.shared.asks { time.saturating_add(wait) } else { time };
        let _place = self.gate.enter(patience).ok_or(CallError::PoolExhausted)?;
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| self.run_unguarded(subject, start, function)))
            .unwrap_or_else(|panic| Err(CallError::Host(panic_text(&*panic))));
        let counters = &self.shared.counters;
        add(&counters.calls, 1);
        add(&counters.failures, u64::from(result.is_err()));
        add(&counters.nanos, nanos(start.elapsed()));
        result
    }

    fn run_unguarded<T>(
        &self,
        subject: Subject,
        start: Instant,
        function: impl FnOnce(&mut Store<CallState>, &Instance) -> Result<T, Fault>,
    ) -> Result<T, CallError> {
        let mut store = self.store(subject)?;
        let instance = self.pre.instantiate(&mut store);
        add(&self.shared.counters.instantiate_nanos, nanos(start.elapsed()));
        let result = match instance {
            Ok(instance) => match function(&mut store, &instance) {
                Ok(value) => Ok(value),
                Err(Fault::Output(error)) => Err(error),
                Err(Fault::Guest(error)) => Err(self.name_error(&error, store.data(), true)),
            },
            Err(error) => Err(self.name_error(&error, store.data(), false)),
        };
        store.data().settle();
        if self.profile == Profile::Deterministic {
            let left = store.get_fuel().unwrap_or(0);
            add(&self.shared.counters.fuel, self.shared.limits.fuel.saturating_sub(left));
        }
        result
    }

    /// A store with every limit set before any guest code runs.
    fn store(&self, subject: Subject) -> Result<Store<CallState>, CallError> {
        let limits = &self.shared.limits;
        let mut store = Store::new(&self.engine, CallState::new(self.shared.clone(), subject));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.boundary_bytes);
        store.set_max_component_handles(limits.handles);
        if self.profile == Profile::Deterministic {
            store.set_fuel(limits.fuel).map_err(|e| CallError::Host(e.to_string()))?;
        }
        // Looks at the clock at every tick: ticks that come late or in a rush change nothing.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            let state = context.data();
            if state.shared.cancel.is_pulled() {
                return Err(wasmtime::Error::new(CallError::Cancelled));
            }
            if Instant::now() >= state.deadline {
                return Err(wasmtime::Error::new(CallError::CpuTimeout(state.shared.limits.time)));
            }
            Ok(UpdateDeadline::Continue(1))
        });
        Ok(store)
    }

    /// The name of what ended a call.
    fn name_error(&self, error: &wasmtime::Error, state: &CallState, entered: bool) -> CallError {
        let limits = &self.shared.limits;
        if let Some(error) = error.downcast_ref::<CallError>() {
            return error.clone();
        }
        if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
            return CallError::PoolExhausted;
        }
        let log = state.last_error.clone();
        let refused = |otherwise| match state.limiter.refused {
            Some(Refused::Memory) => CallError::MemoryLimit(limits.memory),
            Some(Refused::Table) => CallError::TableLimit(limits.table_entries),
            None => otherwise,
        };
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return match trap {
                Trap::Interrupt => CallError::CpuTimeout(limits.time),
                Trap::OutOfFuel => CallError::FuelExhausted(limits.fuel),
                Trap::StackOverflow => CallError::StackOverflow { log },
                trap => refused(CallError::Trapped { trap: trap.to_string(), log }),
            };
        }
        if error.downcast_ref::<ResourceTableError>().is_some() {
            return CallError::AbiViolation("a handle that is not alive".into());
        }
        // What wasmtime says in words only; a test holds each of them.
        let words = error.root_cause().to_string();
        if words.contains("too much data is being copied") {
            // The guest is on the stack when it calls the host, and gone when its result is read.
            let calling = error.downcast_ref::<WasmBacktrace>().is_some_and(|b| !b.frames().is_empty());
            let limit = limits.boundary_bytes;
            return if calling {
                CallError::HostQuota { capability: "boundary", limit: limit as u64 }
            } else {
                CallError::OutputTooLarge(limit)
            };
        }
        if words.contains("store handle limit exceeded") {
            return CallError::HandleLimit(limits.handles);
        }
        if words.contains("resource limit exceeded") {
            return CallError::InstanceLimit(limits.instances);
        }
        let words = sanitise(&words, 300);
        refused(if entered {
            CallError::AbiViolation(words)
        } else {
            CallError::Trapped { trap: words, log }
        })
    }
}

/// An import or export that has the contract's name and another type.
pub(crate) fn mistyped(error: &wasmtime::Error) -> LoadError {
    LoadError::UnsupportedWorld {
        found: format!("built against another contract ({})", sanitise(&format!("{error:#}"), 400)),
        needed: "a plugin of whet:plugin@0.1".to_owned(),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into());
    sanitise(&text, 300)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Lets a number of calls in at once, so that one plugin cannot take all instances of the pool.
struct Gate {
    free: Mutex<usize>,
    left: Condvar,
}

/// A place within; given back on drop.
struct Place<'g>(&'g Gate);

impl Gate {
    fn new(places: usize) -> Self {
        Gate { free: Mutex::new(places.max(1)), left: Condvar::new() }
    }

    fn enter(&self, patience: Duration) -> Option<Place<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.left.wait_timeout_while(free, patience, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *free == 0 {
            return None;
        }
        *free -= 1;
        Some(Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.left.notify_one();
    }
}
