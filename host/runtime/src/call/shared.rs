//! State that all components of a sandbox share.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use fumehood_core::policy::permission::files::FileRole;
use wasmtime::Engine;
use wasmtime::component::Linker;

use super::admission::Admission;
use crate::config::{SandboxConfig, Workers};
use crate::engine::deadline::Ticker;
use crate::engine::file_pool::FilePool;
use crate::engine::guest_runtime::GuestRuntime;
use crate::engine::{self, EngineKind, EngineProfile, EngineSettings, SandboxError};
use crate::load::cache::{CodeCache, RecentCode};
use crate::load::compile::{CompileLimits, CompileService};
use crate::network::Network;
use crate::wasi::{self, CallState, Capabilities, KeyValueBackend, ProtectedSet, ScratchRoot};

/// The parts of a sandbox.
pub(crate) struct Shared {
    pub(crate) runtime: GuestRuntime,
    pub(crate) files: FilePool,
    /// Folders of the host, which are never granted.
    pub(crate) own_folders: Vec<PathBuf>,
    /// Files of the host that stay inaccessible in any granted folder.
    pub(crate) protected: ProtectedSet,
    pub(crate) scratch_root: ScratchRoot,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) program_admission: Admission,
    pub(crate) linker: Linker<CallState>,
    pub(crate) capabilities: Capabilities,
    pub(crate) engine: Engine,
    pub(crate) engine_kind: EngineKind,
    /// The engine whose code workers of asynchronous components run. It only compiles.
    asynchronous_engine: OnceLock<Engine>,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) recent_code: RecentCode,
    pub(crate) key_value: Arc<KeyValueBackend>,
    pub(crate) memory_ceiling: usize,
    pub(crate) network: Network,
    pub(crate) compile_service: CompileService,
    pub(crate) compile_limits: CompileLimits,
    pub(crate) workers: Option<Workers>,
    pub(crate) profile: EngineProfile,
    pub(crate) concurrency: u32,
    /// Calls that run in worker processes.
    pub(crate) isolated: AtomicUsize,
}

impl Shared {
    /// Sets up a sandbox with an engine and a scratch root of its own, and starts removing scratch spaces of processes
    /// that are gone.
    ///
    /// # Errors
    /// If a setting is zero, or the system refuses the address space or the threads.
    pub(crate) fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        let engine = engine::build(&config.engine())?;
        let scratch_root = ScratchRoot::in_temp_dir();
        let shared = Self::with_engine(config, engine, EngineKind::Synchronous, scratch_root.clone())?;
        shared.files.detach(move || scratch_root.sweep());
        Ok(shared)
    }

    /// Like [`Self::new`], with an existing engine and scratch root.
    pub(crate) fn with_engine(
        config: SandboxConfig,
        engine: Engine,
        kind: EngineKind,
        scratch_root: ScratchRoot,
    ) -> Result<Self, SandboxError> {
        if config.concurrency == 0 {
            return Err(SandboxError::Zero("call at a time"));
        }
        if config.guest_threads == 0 {
            return Err(SandboxError::Zero("thread for guests"));
        }
        if config.network.max_requests() == 0 {
            return Err(SandboxError::Zero("HTTP request of all calls at a time"));
        }
        let mut own_folders = config.own_folders.clone();
        own_folders.extend(config.cache.as_ref().map(|cache| cache.folder().to_owned()));
        let protected = ProtectedSet::default();
        own_folders.iter().for_each(|folder| protected.add(folder, FileRole::Host));
        config.protected_files.iter().for_each(|(file, role)| protected.add(file, *role));
        let mut linker = Linker::new(&engine);
        let capabilities = Capabilities::new(config.capabilities)?;
        wasi::link(&mut linker, kind, &capabilities).map_err(SandboxError::Engine)?;
        let runtime = GuestRuntime::start(config.guest_threads).map_err(SandboxError::Threads)?;
        let files = FilePool::start().map_err(SandboxError::Threads)?;
        Ok(Self {
            key_value: Arc::new(KeyValueBackend::new(config.key_value, runtime.blocking())),
            runtime,
            files,
            own_folders,
            protected,
            scratch_root,
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            admission: Admission::new(config.concurrency, config.queue),
            program_admission: Admission::new(config.programs, config.queue),
            linker,
            capabilities,
            engine,
            engine_kind: kind,
            asynchronous_engine: OnceLock::new(),
            cache: config.cache,
            recent_code: RecentCode::default(),
            memory_ceiling: config.memory_ceiling,
            network: config.network,
            compile_service: CompileService::new(config.compiler),
            compile_limits: config.compile_limits,
            workers: config.workers,
            profile: config.profile,
            concurrency: config.concurrency,
            isolated: AtomicUsize::new(0),
        })
    }
}

impl Shared {
    /// Returns the engine that compiles components of this kind.
    ///
    /// # Errors
    /// If wasmtime refuses its settings.
    pub(crate) fn compiling_engine(&self, kind: EngineKind) -> Result<&Engine, SandboxError> {
        if kind == self.engine_kind {
            return Ok(&self.engine);
        }
        if let Some(engine) = self.asynchronous_engine.get() {
            return Ok(engine);
        }
        let engine = engine::build(&EngineSettings::only_compiling(kind))?;
        Ok(self.asynchronous_engine.get_or_init(|| engine))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.files.shutdown();
    }
}
