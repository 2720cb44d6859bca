//! The settings of a sandbox.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::key_value::KeyValueStore;
use fumehood_core::permission::files::FileRole;

use crate::cache::CodeCache;
use crate::compile::{CompileLimits, Compiler};
use crate::engine::{EngineProfile, EngineSettings};
use crate::network::Network;
use crate::workers::Workers;

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
    pub cache: Option<CodeCache>,
    /// Where tools keep what outlives their calls; in memory, until the sandbox is gone, if `None`.
    pub key_value: Option<Arc<dyn KeyValueStore>>,
    /// Folders where the host keeps its own files: settings, state, secrets. No tool is ever granted one of them, what
    /// lies in it, or what holds it. The folder of `cache` is always among them.
    pub own_folders: Vec<PathBuf>,
    /// Files of the host, there or not, that no tool may change, and some of them not read, even in a folder that it was
    /// granted.
    pub protected_files: Vec<(PathBuf, FileRole)>,
    /// How requests of guests leave this machine.
    pub network: Network,
    /// Who compiles components.
    pub compiler: Compiler,
    /// What a component may hold to be compiled.
    pub compile_limits: CompileLimits,
    /// The program of worker processes; without one no component can be isolated in a process.
    pub workers: Option<Workers>,
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
            key_value: None,
            own_folders: Vec::new(),
            protected_files: Vec::new(),
            network: Network::default(),
            compiler: Compiler::InProcess,
            compile_limits: CompileLimits::default(),
            workers: None,
        }
    }
}

impl SandboxConfig {
    pub(crate) fn engine(&self) -> EngineSettings {
        let Self { profile, concurrency, memory_ceiling, .. } = *self;
        EngineSettings { profile, concurrency, memory_ceiling }
    }
}
