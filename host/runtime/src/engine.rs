//! How wasmtime is set up: what guests may use, and how their memory is allocated.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// How a sandbox is set up.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// How instances are allocated.
    pub profile: EngineProfile,
    /// Calls that run at once; more wait in line. At least 1.
    pub concurrency: u32,
    /// Calls that wait in line; more are refused at once.
    pub queue: u32,
    /// The largest memory limit that a call may ask for, in bytes.
    pub memory_ceiling: usize,
    /// Threads for guests that run longer than a slice. They are never used for anything else.
    pub guest_threads: usize,
    /// Where compiled code is kept between processes; nowhere if `None`.
    pub cache: Option<crate::CodeCache>,
    /// Folders where the host keeps its own files: settings, state, secrets. No tool is ever granted one of them, what
    /// lies in it, or what holds it. The folder of `cache` is always among them.
    pub own_folders: Vec<PathBuf>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            profile: EngineProfile::Automatic,
            concurrency: 128,
            queue: 16_384,
            memory_ceiling: 256 << 20,
            guest_threads: std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2),
            cache: None,
            own_folders: Vec::new(),
        }
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
pub(crate) fn build(config: &SandboxConfig) -> Result<Engine, SandboxError> {
    let profile = config.profile.resolve();
    match Engine::new(&settings(config, profile)) {
        Err(_) if config.profile == EngineProfile::Automatic && profile == EngineProfile::Pooling => {
            Engine::new(&settings(config, EngineProfile::Plain))
        }
        engine => engine,
    }
    .map_err(SandboxError::Engine)
}

fn settings(config: &SandboxConfig, profile: EngineProfile) -> Config {
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

/// Turns off every proposal that ordinary toolchains do not emit: what is off cannot be attacked.
fn features(settings: &mut Config) {
    settings
        .wasm_component_model(true)
        .wasm_component_model_map(false)
        .wasm_component_model_fixed_length_lists(false)
        .wasm_component_model_implements(false)
        .wasm_component_model_error_context(false)
        .wasm_custom_page_sizes(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .wasm_shared_everything_threads(false)
        .wasm_tail_call(false)
        .wasm_wide_arithmetic(false);
}

fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = FUEL_PER_PAGE;
    cost
}

fn pool(config: &SandboxConfig) -> PoolingAllocationConfig {
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
