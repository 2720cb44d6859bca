//! The builder of a host.

use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::call::limits::{LimitError, Limits};
use fumehood_core::capability::{Capability, CapabilityDefinition};
use fumehood_core::key_value::KeyValueStore;
use fumehood_core::policy::permission::files::FileRole;
use fumehood_core::schema::gate::GateLimits;
use fumehood_runtime::{
    CodeCache, CompileLimits, Compiler, EngineProfile, Resolver, Sandbox, SandboxConfig, SandboxError, Workers,
};

use super::Host;
use crate::load::IsolationPolicy;

/// A builder of a [`Host`], made by [`Host::builder`]. All settings have defaults for a service on a small machine.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use fumehood::key_value::MemoryStore;
/// use fumehood::{CodeCache, Host, Limits};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let host = Host::builder()
///     .limits(Limits::default().deadline(Duration::from_secs(2)))
///     .concurrency(16)
///     .queue(1_000)
///     .memory_ceiling(64 << 20)
///     .code_cache(CodeCache::open(folder.path().join("code"))?)
///     .key_value_store(Arc::new(MemoryStore::default()))
///     .build()?;
/// assert_eq!(host.limits().deadline, Duration::from_secs(2));
///
/// // The memory limit of a call may not exceed the ceiling.
/// assert!(Host::builder().memory_ceiling(1 << 20).build().is_err());
/// # host.shutdown(Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
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
    /// The limits of calls are not valid.
    #[error("invalid limits for calls")]
    Limits(#[from] LimitError),
    /// The sandbox cannot be set up.
    #[error("cannot set up the sandbox")]
    Sandbox(#[from] SandboxError),
}

impl HostBuilder {
    /// Sets the limits of calls without limits of their own. See [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the limits of schemas and of arguments. See [`GateLimits::default`].
    pub fn gate_limits(mut self, limits: GateLimits) -> Self {
        self.gate = limits;
        self
    }

    /// Sets the maximum number of calls that run at once; more wait in a queue. The default is 128.
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.sandbox.concurrency = calls;
        self
    }

    /// Sets the maximum number of calls that wait in the queue; more are refused at once. The default is 16,384.
    pub fn queue(mut self, calls: u32) -> Self {
        self.sandbox.queue = calls;
        self
    }

    /// Sets the largest memory limit that a call may have, in bytes. The default is 256 MiB; a lower one takes less
    /// address space.
    pub fn memory_ceiling(mut self, bytes: usize) -> Self {
        self.sandbox.memory_ceiling = bytes;
        self
    }

    /// Sets the number of threads for guests that take longer than a few milliseconds. The default is one for each
    /// core, and at least 2.
    pub fn guest_threads(mut self, threads: usize) -> Self {
        self.sandbox.guest_threads = threads;
        self
    }

    /// Sets the allocation strategy for instances. The default is the fastest safe one that this machine supports.
    pub fn engine_profile(mut self, profile: EngineProfile) -> Self {
        self.sandbox.profile = profile;
        self
    }

    /// Sets a cache of compiled code on disk. Without one, code is cached in memory only.
    pub fn code_cache(mut self, cache: CodeCache) -> Self {
        self.sandbox.cache = Some(cache);
        self
    }

    /// Sets the store of the keys and values of tools, such as a [`DiskStore`](crate::key_value::DiskStore). Without
    /// one, they are stored in memory, and lost with the host.
    ///
    /// Values belong to the name that their component is loaded under: a new version that is loaded under the same name
    /// has the same values, and so does any other component that the operator loads under that name. Several hosts may
    /// share a store.
    pub fn key_value_store(mut self, store: Arc<dyn KeyValueStore>) -> Self {
        self.sandbox.key_value = Some(store);
        self
    }

    /// Adds a folder of this service's own files: settings, state, secrets. No tool can be granted it, anything in it,
    /// or a folder that contains it. The folder of the code cache is always among them.
    pub fn own_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sandbox.own_folders.push(folder.into());
        self
    }

    /// Protects a file of this service, whether or not it exists: no tool can change, replace or create it, even in a
    /// folder that it was granted, and [hidden](FileRole::is_hidden) files cannot be read either. The files of loaded
    /// components are always protected.
    pub fn protect(mut self, file: impl Into<PathBuf>, role: FileRole) -> Self {
        self.sandbox.protected_files.push((file.into(), role));
        self
    }

    /// Sets the resolver of the names of hosts that tools send requests or connect to. The default is that of the system.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.sandbox.network = self.sandbox.network.with_resolver(resolver);
        self
    }

    /// Lets a tool that is refused the lookup of a name go on to its connection, which is refused too and shows the port. For
    /// finding out what a tool needs: see [`Network::with_observed_lookups`](fumehood_runtime::Network::with_observed_lookups).
    pub fn observe_lookups(mut self) -> Self {
        self.sandbox.network = self.sandbox.network.with_observed_lookups();
        self
    }

    /// Sets the maximum number of concurrent HTTP requests and TCP connections of all calls together. The default is 256. A request that
    /// gets no slot within its connect timeout fails; the tool gets a general error, and observers get the reason. The
    /// limit for a single call is part of its grant.
    pub fn http_in_flight(mut self, requests: u32) -> Self {
        self.sandbox.network = self.sandbox.network.with_max_requests(requests);
        self
    }

    /// Sets the trusted root certificates (each in DER form) for requests of tools to `https` addresses, in place of
    /// those that the system trusts.
    ///
    /// # Errors
    /// If one is not a certificate, or there are none.
    #[cfg(feature = "tls")]
    pub fn trusted_roots(mut self, roots: &[Vec<u8>]) -> Result<Self, fumehood_runtime::TrustError> {
        self.sandbox.network = self.sandbox.network.with_roots(roots)?;
        Ok(self)
    }

    /// Sets the compiler. By default, this process compiles, and cannot stop a compilation: set a program, or
    /// [`Compiler::this_program`], before you load components that you do not trust.
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.sandbox.compiler = compiler;
        self
    }

    /// Runs the calls of components without an approval in worker processes of this program, and of others according to
    /// [`Self::isolation`] and [`crate::Load::isolation`]. Without workers everything runs in this process, and only
    /// the engine isolates a guest from the host.
    pub fn workers(mut self, workers: Workers) -> Self {
        self.sandbox.workers = Some(workers);
        self
    }

    /// Sets which components run in worker processes, unless [`crate::Load::isolation`] overrides it. The default is
    /// [`IsolationPolicy::Unapproved`] with [`Self::workers`], and [`IsolationPolicy::Nothing`] without.
    pub fn isolation(mut self, policy: IsolationPolicy) -> Self {
        self.isolation = Some(policy);
        self
    }

    /// Adds a capability: host interfaces of this service, which components import and need a grant for. See
    /// [`Capability`].
    pub fn capability(mut self, capability: impl Capability) -> Self {
        self.sandbox.capabilities.push(CapabilityDefinition::new(capability));
        self
    }

    /// Limits the size of components. See [`CompileLimits::default`].
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        self.sandbox.compile_limits = limits;
        self
    }

    /// Builds the host.
    ///
    /// # Errors
    /// If the limits are not valid, or the system does not provide the address space or the threads.
    pub fn build(self) -> Result<Host, BuildError> {
        self.limits.check(self.sandbox.memory_ceiling)?;
        let usual = match self.sandbox.workers {
            Some(_) => IsolationPolicy::default(),
            None => IsolationPolicy::Nothing,
        };
        let sandbox = Sandbox::new(self.sandbox)?;
        Ok(Host::new(sandbox, self.limits, self.gate, self.isolation.unwrap_or(usual)))
    }
}

impl Host {
    /// Creates a builder with the default settings.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }
}
