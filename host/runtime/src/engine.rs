//! How wasmtime is set up: what guests may use, and how their memory is allocated.

use std::num::NonZeroUsize;

use wasmparser::WasmFeatures;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

use crate::features::ENABLED;

/// Address space for one linear memory. With guard pages behind it, bounds need no checks.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// Bytes of a memory that are zeroed by hand after a call instead of being given back to the kernel.
const KEEP_RESIDENT: usize = 1 << 20;
/// Bytes of stack for guest frames; the rest of the fiber's 2 MiB is for host functions.
const GUEST_STACK: usize = 512 << 10;
const FIBER_STACK: usize = 2 << 20;
/// Core modules, memories and tables that one component may instantiate. Language runtimes with dynamic linking need
/// dozens of the first.
pub(crate) const CORE_INSTANCES: u32 = 64;
pub(crate) const MEMORIES: u32 = 8;
pub(crate) const TABLES: u32 = 16;
const TABLE_ELEMENTS: usize = 100_000;
/// Fuel for each page that a memory grows by: zeroing it costs the host about as much as this many instructions.
const FUEL_PER_PAGE: u8 = 255;

/// How instances are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum EngineProfile {
    /// Pooling where the kernel can tell which pages a call touched (Linux 6.7 and later), otherwise [`Self::Plain`].
    #[default]
    Automatic,
    /// Slots are made once and reused; what a call touched is zeroed before the next one gets the slot.
    Pooling,
    /// Memory is mapped for each call and unmapped after it. Works everywhere.
    Plain,
    /// As [`Self::Plain`], and stacks are zeroed too. For operators who trust the kernel more than the allocator.
    Strict,
}

impl EngineProfile {
    /// The profile that is really used on this machine.
    #[must_use]
    pub fn resolve(self) -> Self {
        match self {
            Self::Automatic if PoolingAllocationConfig::is_pagemap_scan_available() => Self::Pooling,
            Self::Automatic => Self::Plain,
            chosen => chosen,
        }
    }
}

/// What an engine is set up by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineSettings {
    pub(crate) profile: EngineProfile,
    /// Calls that run at once.
    pub(crate) concurrency: u32,
    /// The largest memory of a call, in bytes.
    pub(crate) memory_ceiling: usize,
}

impl EngineSettings {
    /// For an engine that compiles and never runs anything. Its code runs in engines of every profile.
    pub(crate) const fn only_compiling() -> Self {
        Self { profile: EngineProfile::Plain, concurrency: 1, memory_ceiling: 0 }
    }
}

/// Why a sandbox cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A setting makes no sense.
    #[error("the sandbox needs at least one {0}")]
    Zero(&'static str),
    /// wasmtime refuses the settings, for example because the address space is limited.
    #[error("the WebAssembly engine cannot be set up on this machine")]
    Engine(#[source] wasmtime::Error),
    /// The threads for guests cannot be started.
    #[error("the threads that run guests cannot be started")]
    Threads(#[source] std::io::Error),
}

/// The engine for these settings. `Automatic` falls back to `Plain` if the pool cannot be had, for instance under a
/// limit on address space.
pub(crate) fn build(config: &EngineSettings) -> Result<Engine, SandboxError> {
    let profile = config.profile.resolve();
    match Engine::new(&settings(config, profile)) {
        Err(_) if config.profile == EngineProfile::Automatic && profile == EngineProfile::Pooling => {
            Engine::new(&settings(config, EngineProfile::Plain))
        }
        engine => engine,
    }
    .map_err(SandboxError::Engine)
}

fn settings(config: &EngineSettings, profile: EngineProfile) -> Config {
    let mut settings = Config::new();
    settings
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        .async_stack_zeroing(profile == EngineProfile::Strict)
        .memory_reservation(MEMORY_RESERVATION)
        .wasm_backtrace_max_frames(NonZeroUsize::new(32))
        .concurrency_support(false)
        .shared_memory(false);
    features(&mut settings);
    if profile == EngineProfile::Pooling {
        settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config)));
    }
    settings
}

/// Turns everything off, and on again what guests may use: what is off cannot be attacked.
///
/// Proposals whose implementation is not compiled in have to be off here, too: the engine's defaults leave some of them on,
/// and code that validates reaches functions that are not there.
fn features(settings: &mut Config) {
    settings.wasm_features(WasmFeatures::all(), false).wasm_features(ENABLED, true);
}

fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = FUEL_PER_PAGE;
    cost
}

fn pool(config: &EngineSettings) -> PoolingAllocationConfig {
    let calls = config.concurrency;
    let mut pool = PoolingAllocationConfig::new();
    // Every call may use all that a component may use, so that one component can never take another's slots. What is
    // not used is address space only.
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(CORE_INSTANCES))
        .total_memories(calls.saturating_mul(MEMORIES))
        .total_tables(calls.saturating_mul(TABLES))
        .total_stacks(calls)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .max_memories_per_module(1)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(config.memory_ceiling)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT / 16)
        .async_stack_keep_resident(KEEP_RESIDENT / 8)
        .pagemap_scan(if PoolingAllocationConfig::is_pagemap_scan_available() { Enabled::Yes } else { Enabled::No });
    pool
}
