//! What all components of a sandbox have in common.

use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::admission::Admission;
use crate::cache::CodeCache;
use crate::capability::{self, CallState, Keeper, ScratchRoot};
use crate::compile::{CompileLimits, Workshop};
use crate::config::SandboxConfig;
use crate::engine::{self, SandboxError};
use crate::file_pool::FilePool;
use crate::guest_runtime::GuestRuntime;
use crate::network::Network;
use crate::ticker::Ticker;

pub(crate) struct Shared {
    pub(crate) runtime: GuestRuntime,
    pub(crate) files: FilePool,
    /// Folders of the host itself, which are never granted.
    pub(crate) own_folders: Vec<PathBuf>,
    pub(crate) scratch_root: ScratchRoot,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) linker: Linker<CallState>,
    pub(crate) engine: Engine,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) key_value: Arc<Keeper>,
    pub(crate) memory_ceiling: usize,
    pub(crate) network: Network,
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
        if config.network.most_requests() == 0 {
            return Err(SandboxError::Zero("HTTP request of all calls at a time"));
        }
        let mut own_folders = config.own_folders.clone();
        own_folders.extend(config.cache.as_ref().map(|cache| cache.folder().to_owned()));
        let engine = engine::build(&config.engine())?;
        let mut linker = Linker::new(&engine);
        capability::link(&mut linker).map_err(SandboxError::Engine)?;
        let runtime = GuestRuntime::start(config.guest_threads).map_err(SandboxError::Threads)?;
        let files = FilePool::start().map_err(SandboxError::Threads)?;
        let scratch_root = ScratchRoot::usual();
        let left_behind = scratch_root.clone();
        files.detach(move || left_behind.sweep());
        Ok(Self {
            key_value: Arc::new(Keeper::new(config.key_value, runtime.blocking())),
            runtime,
            files,
            own_folders,
            scratch_root,
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            admission: Admission::new(config.concurrency, config.queue),
            linker,
            engine,
            cache: config.cache,
            memory_ceiling: config.memory_ceiling,
            network: config.network,
            workshop: Workshop::new(config.compiler),
            compile_limits: config.compile_limits,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.files.shut_down();
    }
}
