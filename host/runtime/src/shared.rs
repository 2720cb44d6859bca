//! What all components of a sandbox have in common.

use std::path::PathBuf;

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::admission::Admission;
use crate::cache::CodeCache;
use crate::capability::{self, CallState};
use crate::engine::{self, SandboxConfig, SandboxError};
use crate::file_pool::FilePool;
use crate::guest_runtime::GuestRuntime;
use crate::ticker::Ticker;

pub(crate) struct Shared {
    pub(crate) runtime: GuestRuntime,
    pub(crate) files: FilePool,
    /// Folders of the host itself, which are never granted.
    pub(crate) own_folders: Vec<PathBuf>,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) linker: Linker<CallState>,
    pub(crate) engine: Engine,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) memory_ceiling: usize,
}

impl Shared {
    pub(crate) fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        if config.concurrency == 0 {
            return Err(SandboxError::Zero("call at a time"));
        }
        if config.guest_threads == 0 {
            return Err(SandboxError::Zero("thread for guests"));
        }
        let mut own_folders = config.own_folders.clone();
        own_folders.extend(config.cache.as_ref().map(|cache| cache.folder().to_owned()));
        let engine = engine::build(&config)?;
        let mut linker = Linker::new(&engine);
        capability::link(&mut linker).map_err(SandboxError::Engine)?;
        Ok(Self {
            runtime: GuestRuntime::start(config.guest_threads).map_err(SandboxError::Threads)?,
            files: FilePool::start().map_err(SandboxError::Threads)?,
            own_folders,
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            admission: Admission::new(config.concurrency, config.queue),
            linker,
            engine,
            cache: config.cache,
            memory_ceiling: config.memory_ceiling,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.files.shut_down();
    }
}
