//! The wasmtime engine: its configuration, its epoch, and the threads that run guests and their file operations.

pub(crate) mod deadline;
pub(crate) mod features;
pub(crate) mod file_pool;
pub(crate) mod fuel;
pub(crate) mod guest_runtime;
pub(crate) mod memory;

use std::num::NonZeroUsize;

use fumehood_core::capability::CapabilitySetupError;
use wasmparser::WasmFeatures;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

use features::{ASYNCHRONOUS, ENABLED, OF_ADAPTERS};

/// Address space reserved for one linear memory. With guard pages behind it, accesses need no bounds checks.
const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// Bytes of a memory that are zeroed with `memset` after a call instead of being returned to the kernel.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
/// Stack for guest frames, in bytes; the rest of the fiber's stack is for host functions.
const MAX_GUEST_STACK_BYTES: usize = 1 << 20;
/// Stack of one call's fiber, in bytes.
const FIBER_STACK_BYTES: usize = 2 << 20;
/// Stack for guest frames of one task of an asynchronous call, in bytes, and the stack of its fiber. Less than for other
/// calls, because each task that waits within a function keeps its own.
const MAX_TASK_STACK_BYTES: usize = 512 << 10;
const TASK_FIBER_STACK_BYTES: usize = 1 << 20;
/// Maximum number of entries of an asynchronous call for its tasks, sets of events, streams and futures. A task takes
/// three, a stream or a future three.
pub(crate) const MAX_TASK_ENTRIES: usize = 240;
/// Number of stacks of one asynchronous call: one for each task that its entries allow, and one to run on.
const TASK_STACKS: u32 = MAX_TASK_ENTRIES as u32 / 3 + 1;
/// Memory of the stacks of one asynchronous call, in bytes.
pub(crate) const TASK_STACKS_BYTES: u64 = TASK_STACKS as u64 * TASK_FIBER_STACK_BYTES as u64;
/// Maximum number of core modules that one component may instantiate. Language runtimes with dynamic linking need
/// dozens.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// Maximum number of linear memories of one component.
pub(crate) const MAX_MEMORIES: u32 = 8;
/// Maximum number of tables of one component.
pub(crate) const MAX_TABLES: u32 = 16;
/// Number of core modules that an interpreter instantiates: itself, and those that a component encoder adds.
const INTERPRETER_CORE_INSTANCES: u32 = 8;
/// Number of tables of an interpreter: its own, and that of the modules that a component encoder adds.
const INTERPRETER_TABLES: u32 = 4;
/// Maximum number of elements of one table in the pool.
const MAX_TABLE_ELEMENTS: usize = 100_000;
/// Fuel charged for each page that a memory grows by: zeroing a page costs the host about as much as this many
/// instructions.
const FUEL_PER_PAGE: u8 = 255;

/// Strategy for allocating instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum EngineProfile {
    /// Pooling where the kernel reports which pages a call touched (`PAGEMAP_SCAN`, Linux 6.7 and later), otherwise
    /// [`Self::Plain`].
    #[default]
    Automatic,
    /// Slots are allocated once and reused; the pages that a call touched are zeroed before the next one gets the slot.
    Pooling,
    /// Memory is mapped for each call and unmapped after it. Works everywhere.
    Plain,
    /// Like [`Self::Plain`], with stacks zeroed too. For operators who trust the kernel more than the allocator.
    Strict,
}

impl EngineProfile {
    /// Resolves [`Self::Automatic`] to the profile that is used on this machine.
    #[must_use]
    pub fn resolve(self) -> Self {
        match self {
            Self::Automatic if PoolingAllocationConfig::is_pagemap_scan_available() => Self::Pooling,
            Self::Automatic => Self::Plain,
            chosen => chosen,
        }
    }
}

/// The kind of an engine, which decides what its components may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) enum EngineKind {
    /// For components of WASI 0.2. The engine has no support for tasks, which costs each call time.
    #[default]
    Synchronous,
    /// For components with asynchronous functions, or with imports of WASI 0.3. Its implementation in wasmtime is young, so it
    /// runs only in worker processes.
    Asynchronous,
}

impl EngineKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Synchronous, Self::Asynchronous];
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineSettings {
    pub(crate) kind: EngineKind,
    pub(crate) profile: EngineProfile,
    /// Maximum number of calls that run at once.
    pub(crate) concurrency: u32,
    /// Maximum number of programs that run at once, beside the calls.
    pub(crate) programs: u32,
    /// Maximum size of a call's memory, in bytes.
    pub(crate) memory_ceiling: usize,
}

impl EngineSettings {
    /// Settings of an engine that compiles and never runs anything. Its code runs in engines of every profile.
    pub(crate) const fn only_compiling(kind: EngineKind) -> Self {
        Self { kind, profile: EngineProfile::Plain, concurrency: 1, programs: 0, memory_ceiling: 0 }
    }
}

/// Errors of setting up a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A setting that must be at least one is zero.
    #[error("the sandbox needs at least one {0}")]
    Zero(&'static str),
    /// wasmtime refuses the settings, for example because the address space is limited.
    #[error("cannot set up the WebAssembly engine on this machine")]
    Engine(#[source] wasmtime::Error),
    /// A capability of the embedder cannot be used.
    #[error(transparent)]
    Capability(#[from] CapabilitySetupError),
    /// The threads for guests cannot be started.
    #[error("cannot start the threads that run guests")]
    Threads(#[source] std::io::Error),
}

/// Builds an engine. [`EngineProfile::Automatic`] falls back to [`EngineProfile::Plain`] if the pool cannot be
/// allocated, for instance under a limit on address space.
///
/// # Errors
/// If wasmtime refuses the settings.
pub(crate) fn build(config: &EngineSettings) -> Result<Engine, SandboxError> {
    let profile = config.profile.resolve();
    match Engine::new(&engine_config(config, profile)) {
        Err(_) if config.profile == EngineProfile::Automatic && profile == EngineProfile::Pooling => {
            Engine::new(&engine_config(config, EngineProfile::Plain))
        }
        engine => engine,
    }
    .map_err(SandboxError::Engine)
}

fn engine_config(config: &EngineSettings, profile: EngineProfile) -> Config {
    let mut settings = Config::new();
    let is_asynchronous = config.kind == EngineKind::Asynchronous;
    settings
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .max_wasm_stack(if is_asynchronous { MAX_TASK_STACK_BYTES } else { MAX_GUEST_STACK_BYTES })
        .async_stack_size(if is_asynchronous { TASK_FIBER_STACK_BYTES } else { FIBER_STACK_BYTES })
        .async_stack_zeroing(profile == EngineProfile::Strict)
        .memory_reservation(MEMORY_RESERVATION_BYTES)
        .wasm_backtrace_max_frames(NonZeroUsize::new(32))
        .concurrency_support(is_asynchronous)
        .shared_memory(false);
    set_features(&mut settings, config.kind);
    if profile == EngineProfile::Pooling {
        settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling_config(config)));
    }
    settings
}

/// Turns everything off, and the features that guests and adapters may use on again: code that is off cannot be attacked.
///
/// Proposals whose implementation is not compiled in must be off, too: the engine's defaults leave some of them on, and
/// a component that validates would reach functions that do not exist.
fn set_features(settings: &mut Config, kind: EngineKind) {
    let of_kind = if kind == EngineKind::Asynchronous { ASYNCHRONOUS } else { WasmFeatures::empty() };
    settings.wasm_features(WasmFeatures::all(), false).wasm_features(ENABLED.union(OF_ADAPTERS).union(of_kind), true);
}

fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = FUEL_PER_PAGE;
    cost
}

fn pooling_config(config: &EngineSettings) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let stacks = if config.kind == EngineKind::Asynchronous { TASK_STACKS } else { 1 };
    // Every call may use the maximum of every resource, so that one component can never take another's slots. Unused
    // slots cost only address space.
    pool.total_component_instances(count_slots(config, 1, 1))
        .total_core_instances(count_slots(config, MAX_CORE_INSTANCES, INTERPRETER_CORE_INSTANCES))
        .total_memories(count_slots(config, MAX_MEMORIES, 1))
        .total_tables(count_slots(config, MAX_TABLES, INTERPRETER_TABLES))
        .total_stacks(count_slots(config, stacks, 1))
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_tables_per_module(MAX_TABLES)
        .max_memories_per_module(1)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_memory_size(config.memory_ceiling)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES / 16)
        .async_stack_keep_resident(KEEP_RESIDENT_BYTES / 8)
        .pagemap_scan(if PoolingAllocationConfig::is_pagemap_scan_available() { Enabled::Yes } else { Enabled::No });
    pool
}

/// Returns the number of slots that all calls and all programs need. An interpreter is trusted to be small, unlike a
/// tool.
fn count_slots(config: &EngineSettings, per_call: u32, per_program: u32) -> u32 {
    let for_calls = config.concurrency.saturating_mul(per_call);
    for_calls.saturating_add(config.programs.saturating_mul(per_program))
}
