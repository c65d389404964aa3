//! The engines and the clock that interrupts their guests.
//!
//! Fuel, epochs and NaN handling are compiled into code, so each profile has its own engine, and so have guests
//! that bring an interpreter along. The clock of an engine is a thread that holds it weakly and ends with it.

use crate::admission::TABLE_ENTRIES;
use crate::{LoadError, Profile};
use std::num::NonZeroUsize;
use std::time::Duration;
use wasmtime::{
    Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy,
};

/// Native stack that a guest may use. Host functions run on what the thread has beyond it.
const GUEST_STACK: usize = 512 << 10;

/// Bytes of a component from which on it counts as [`Size::Large`]: interpreters have 5 to 40 MB, plugins of compiled
/// languages some 100 KB.
const LARGE: usize = 2 << 20;
/// Slots of the pool for large guests, and what each keeps of a memory between calls.
const LARGE_INSTANCES: u32 = 32;
const LARGE_RESIDENT: usize = 32 << 20;

/// How a guest's memory is brought into its first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Pages are shared until they are written: a call costs what it touches.
    Small,
    /// The whole of it is copied. An interpreter writes to a thousand scattered pages in every call (its reference
    /// counts), and a page fault for each costs several times the copy.
    Large,
}

impl Size {
    /// Of a component of so many bytes.
    pub fn of(bytes: usize) -> Size {
        if bytes < LARGE { Size::Small } else { Size::Large }
    }
}

/// Makes the engine of a profile and size: with a pool of `instances` slots where the machine lets a process
/// reserve that much address space, without a pool where it does not (containers, small machines).
pub(crate) fn start(
    profile: Profile,
    size: Size,
    instances: u32,
    tick: Duration,
) -> Result<Engine, LoadError> {
    let engine = Engine::new(&config(profile, size, Some(instances)))
        .or_else(|_| Engine::new(&config(profile, size, None)))
        .map_err(|e| LoadError::Engine(e.to_string()))?;
    start_clock(engine.weak(), tick)?;
    Ok(engine)
}

fn config(profile: Profile, size: Size, pool: Option<u32>) -> Config {
    let fast = profile == Profile::Fast;
    let mut c = Config::new();
    c.strategy(Strategy::Cranelift);
    c.wasm_component_model(true).concurrency_support(false);
    // Only what guests need; `admission` validates against the same set.
    c.wasm_memory64(false).wasm_multi_memory(false);
    c.wasm_wide_arithmetic(false).wasm_custom_page_sizes(false);
    c.wasm_relaxed_simd(true).relaxed_simd_deterministic(!fast);
    c.cranelift_nan_canonicalization(!fast);
    c.consume_fuel(!fast).epoch_interruption(true);
    c.max_wasm_stack(GUEST_STACK).async_stack_size(GUEST_STACK * 4);
    c.memory_init_cow(size == Size::Small).guard_before_linear_memory(true);
    c.wasm_backtrace_max_frames(NonZeroUsize::new(20));
    c.generate_address_map(false);
    if let Some(instances) = pool {
        c.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling(size, instances)));
    }
    c
}

fn pooling(size: Size, instances: u32) -> PoolingAllocationConfig {
    let instances = if size == Size::Large { instances.min(LARGE_INSTANCES) } else { instances };
    let mut p = PoolingAllocationConfig::new();
    // A component of `componentize-py` has some 40 core instances and 3 memories; one of Rust has 1 to 4.
    let (cores, memories, tables) = if size == Size::Large { (64, 4, 8) } else { (8, 1, 2) };
    p.total_component_instances(instances).total_core_instances(instances * cores);
    p.total_memories(instances * memories).total_tables(instances * tables).total_stacks(1);
    p.max_core_instances_per_component(200).max_memories_per_component(32).max_tables_per_component(64);
    p.max_memories_per_module(2).max_tables_per_module(4);
    p.max_component_instance_size(4 << 20).max_core_instance_size(4 << 20);
    p.table_elements(TABLE_ENTRIES as usize);
    // The true limit is the call's own, which sums all memories.
    p.max_memory_size(4 << 30);
    // Where the kernel can say which pages a call wrote, those are wiped in place instead of given
    // back, which halves the cost of a small call. Wasmtime has had bugs here that let a guest read
    // what another left behind; a host serves one tenant, and a test looks for leftovers.
    if size == Size::Large {
        p.linear_memory_keep_resident(LARGE_RESIDENT).table_keep_resident(64 << 10);
    } else if PoolingAllocationConfig::is_pagemap_scan_available() {
        p.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(2 << 20).table_keep_resident(64 << 10);
    } else {
        p.linear_memory_keep_resident(0).table_keep_resident(0);
    }
    p
}

/// Ticks until the engine is gone. A thread of its own, since a task on a busy executor can starve.
fn start_clock(engine: EngineWeak, tick: Duration) -> Result<(), LoadError> {
    std::thread::Builder::new()
        .name("whet-plugin-clock".into())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(tick);
            }
        })
        .map(drop)
        .map_err(|e| LoadError::Engine(format!("no thread for the clock: {e}")))
}
