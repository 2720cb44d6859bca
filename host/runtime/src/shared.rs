//! What all components of a sandbox have in common.

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::admission::Admission;
use crate::cache::CodeCache;
use crate::capability::{self, CallState};
use crate::compile::{CompileLimits, Workshop};
use crate::config::SandboxConfig;
use crate::engine::{self, SandboxError};
use crate::guest_runtime::GuestRuntime;
use crate::ticker::Ticker;

pub(crate) struct Shared {
    pub(crate) runtime: GuestRuntime,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) linker: Linker<CallState>,
    pub(crate) engine: Engine,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) memory_ceiling: usize,
    pub(crate) workshop: Workshop,
    pub(crate) compile_limits: CompileLimits,
}

impl Shared {
    pub(crate) fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        if config.concurrency == 0 {
            return Err(SandboxError::Zero("call at a time"));
        }
        if config.guest_threads == 0 {
            return Err(SandboxError::Zero("thread for guests"));
        }
        let engine = engine::build(&config.engine())?;
        let mut linker = Linker::new(&engine);
        capability::link(&mut linker).map_err(SandboxError::Engine)?;
        Ok(Self {
            runtime: GuestRuntime::start(config.guest_threads).map_err(SandboxError::Threads)?,
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            admission: Admission::new(config.concurrency, config.queue),
            linker,
            engine,
            cache: config.cache,
            memory_ceiling: config.memory_ceiling,
            workshop: Workshop::new(config.compiler),
            compile_limits: config.compile_limits,
        })
    }
}
