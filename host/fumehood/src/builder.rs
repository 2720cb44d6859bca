//! Settings of a host.

use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::gate::GateLimits;
use fumehood_core::key_value::KeyValueStore;
use fumehood_core::limits::{LimitError, Limits};
use fumehood_core::permission::files::FileRole;
use fumehood_runtime::{
    CodeCache, CompileLimits, Compiler, EngineProfile, Resolver, Sandbox, SandboxConfig, SandboxError, TrustError,
    Workers,
};

use crate::host::Host;
use crate::load::IsolationPolicy;

/// Settings of a host. All of them have defaults that fit a service on a small machine.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing happens before `build`"]
pub struct HostBuilder {
    sandbox: SandboxConfig,
    limits: Limits,
    gate: GateLimits,
    isolation: Option<IsolationPolicy>,
}

/// Errors of [`HostBuilder::build`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The default limits make no sense.
    #[error("the limits for calls cannot be kept")]
    Limits(#[from] LimitError),
    /// The sandbox cannot be set up.
    #[error("the sandbox cannot be set up")]
    Sandbox(#[from] SandboxError),
}

impl HostBuilder {
    /// The limits of calls that bring none. See [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The limits of schemas and of arguments. See [`GateLimits::default`].
    pub fn gate_limits(mut self, limits: GateLimits) -> Self {
        self.gate = limits;
        self
    }

    /// Maximum number of calls that run at once; more wait in line. 128.
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.sandbox.concurrency = calls;
        self
    }

    /// Maximum number of calls that wait in line; more are refused at once. 16,384.
    pub fn queue(mut self, calls: u32) -> Self {
        self.sandbox.queue = calls;
        self
    }

    /// The largest memory limit that a call may have, in bytes. 256 MiB. A lower one takes less address space.
    pub fn memory_ceiling(mut self, bytes: usize) -> Self {
        self.sandbox.memory_ceiling = bytes;
        self
    }

    /// Number of threads for guests that take longer than a few milliseconds. One for each core, and at least 2.
    pub fn guest_threads(mut self, threads: usize) -> Self {
        self.sandbox.guest_threads = threads;
        self
    }

    /// Allocation strategy for instances. The fastest safe one that this machine has.
    pub fn engine_profile(mut self, profile: EngineProfile) -> Self {
        self.sandbox.profile = profile;
        self
    }

    /// Keeps compiled code on disk. Without this it is kept in memory only.
    pub fn code_cache(mut self, cache: CodeCache) -> Self {
        self.sandbox.cache = Some(cache);
        self
    }

    /// Keeps the keys and values of tools there, such as in a [`DiskStore`](crate::key_value::DiskStore). Without this they
    /// are kept in memory, and gone with the host.
    ///
    /// Values belong to the name that their component is loaded under: a new version that is loaded under the same
    /// name finds it again, and so does anything else that the operator loads under that name. Several hosts may share a
    /// store.
    pub fn key_value_store(mut self, store: Arc<dyn KeyValueStore>) -> Self {
        self.sandbox.key_value = Some(store);
        self
    }

    /// Names a folder where this service keeps its own files: settings, state, secrets. No tool is ever granted it, what
    /// lies in it, or what holds it. That of the code cache is always kept.
    pub fn own_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sandbox.own_folders.push(folder.into());
        self
    }

    /// Protects a file of this service, whether or not it is there: no tool changes, replaces or plants it, even in a folder
    /// that it was granted, and [hidden](FileRole::is_hidden) ones are not read either. The files of loaded components are
    /// always protected.
    pub fn protect(mut self, file: impl Into<PathBuf>, role: FileRole) -> Self {
        self.sandbox.protected_files.push((file.into(), role));
        self
    }

    /// Looks up the names of hosts that tools send requests to. Without this, this machine does.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.sandbox.network = self.sandbox.network.with_resolver(resolver);
        self
    }

    /// Maximum number of HTTP requests of all calls together; 256. A tool whose request finds no place within its time
    /// for connecting is told that it cannot be made, and whoever watches is told why. How many one call may have is a limit
    /// of its grant.
    pub fn http_in_flight(mut self, requests: u32) -> Self {
        self.sandbox.network = self.sandbox.network.with_max_requests(requests);
        self
    }

    /// Trusts the servers that these root certificates (each in DER form) vouch for, and no others, when tools send
    /// requests to `https` addresses. Without this, those that the system trusts.
    ///
    /// # Errors
    /// If one is no certificate, or there is none.
    pub fn trusted_roots(mut self, roots: &[Vec<u8>]) -> Result<Self, TrustError> {
        self.sandbox.network = self.sandbox.network.with_roots(roots)?;
        Ok(self)
    }

    /// Sets the compiler. Without one this process compiles, and cannot stop what it compiles: name a program, or
    /// [`Compiler::this_program`], before you load components that you do not trust.
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.sandbox.compiler = compiler;
        self
    }

    /// Runs the calls of components that nobody has approved in worker processes of this program, and of others where
    /// [`Self::isolation`] or [`crate::Load::isolation`] says so. Without it everything runs in this process, and only the engine
    /// stands between a guest and the host.
    pub fn workers(mut self, workers: Workers) -> Self {
        self.sandbox.workers = Some(workers);
        self
    }

    /// Sets which components run in worker processes, unless [`crate::Load::isolation`] says otherwise.
    /// [`IsolationPolicy::Unapproved`] where [`Self::workers`] are set.
    pub fn isolation(mut self, policy: IsolationPolicy) -> Self {
        self.isolation = Some(policy);
        self
    }

    /// Limits the size of components. See [`CompileLimits::default`].
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        self.sandbox.compile_limits = limits;
        self
    }

    /// Sets everything up.
    ///
    /// # Errors
    /// If the limits make no sense, or the machine does not give the address space or the threads.
    pub fn build(self) -> Result<Host, BuildError> {
        self.limits.check(self.sandbox.memory_ceiling)?;
        let usual = match self.sandbox.workers {
            Some(_) => IsolationPolicy::Unapproved,
            None => IsolationPolicy::Nothing,
        };
        let sandbox = Sandbox::new(self.sandbox)?;
        Ok(Host::new(sandbox, self.limits, self.gate, self.isolation.unwrap_or(usual)))
    }
}

impl Host {
    /// A host with the usual settings.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }
}
