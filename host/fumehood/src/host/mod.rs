//! The host: the components and tools that are loaded.

mod builder;
mod call;
mod recorded_host;

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use fumehood_core::call::event::Event;
use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::log;
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::policy::permission::files::FileRole;
use fumehood_core::schema::gate::GateLimits;
use fumehood_core::telemetry;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, Revision, Tool};
use fumehood_runtime::{CacheReport, Component, Sandbox};
#[cfg(feature = "agent")]
use fumehood_runtime::{Interpreter, JAVASCRIPT};
#[cfg(feature = "agent")]
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use crate::events::{Bus, EventStream};
use crate::load::error::LoadError;
use crate::load::load_tools::load_tools;
use crate::load::loaded_component::LoadedComponent;
use crate::load::{IsolationPolicy, Load, LoadTerms};
use crate::lock::approval_check::Pinning;

pub use builder::{BuildError, HostBuilder};

/// A set of loaded tools and the sandbox that runs them. Cheap to clone; clones share their state.
///
/// ```
/// use fumehood::{Call, Host, Load};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// #[derive(serde::Deserialize)]
/// struct Sum {
///     result: f64,
/// }
///
/// let host = Host::builder().build()?;
/// host.load(Load::path(path)).await?;
/// let names: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
/// assert!(names.contains(&"calculator__add".to_owned()));
///
/// let result = host.call(Call::new("calculator__add", r#"{"a": 3, "b": 5}"#)).await;
/// assert_eq!(result.json::<Sum>()?.result, 8.0);
///
/// assert!(host.unload("calculator"));
/// host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

struct Inner {
    sandbox: Sandbox,
    /// Read by every call without a lock, replaced as a whole when something is loaded.
    tools: ArcSwap<Tools>,
    /// Held while the set changes, so that two loads cannot lose each other's.
    changing: Mutex<()>,
    bus: Arc<Bus>,
    limits: Limits,
    gate: GateLimits,
    calls: AtomicU64,
    /// Numbers as the ids of calls have them: tools and clients do not learn how many calls others make.
    numbers: OpaqueNumbers,
    /// Counts the changes of the set of tools.
    revision: Revision,
    isolation: IsolationPolicy,
    /// The interpreter of code mode, once a program has run.
    #[cfg(feature = "agent")]
    interpreter: OnceCell<Interpreter>,
}

/// The loaded components and tools at one moment.
#[derive(Default, Clone)]
struct Tools {
    by_name: HashMap<String, HostedTool>,
    components: HashMap<Namespace, Arc<LoadedComponent>>,
}

/// A tool and the component that runs it.
#[derive(Clone)]
pub(crate) struct HostedTool {
    pub(crate) tool: Arc<Tool>,
    pub(crate) component: Arc<LoadedComponent>,
    /// The position among the component's tools.
    pub(crate) index: usize,
}

impl Tools {
    /// Returns all tools, sorted by their full names.
    fn in_order(&self) -> Vec<Arc<Tool>> {
        let listed = self.by_name.values().filter(|hosted| hosted.tool.resources().is_none());
        let mut tools: Vec<_> = listed.map(|hosted| Arc::clone(&hosted.tool)).collect();
        tools.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        tools
    }

    fn add(&mut self, name: &Namespace, component: LoadedComponent) {
        let component = Arc::new(component);
        // The functions of a hook are for the host to call.
        let tools = if component.is_hook() { &[] } else { component.tools.as_slice() };
        for (index, tool) in tools.iter().chain(&component.reader).enumerate() {
            let hosted = HostedTool { tool: Arc::clone(tool), component: Arc::clone(&component), index };
            self.by_name.insert(tool.full_name().to_owned(), hosted);
        }
        self.components.insert(name.clone(), component);
    }

    /// Removes a component and its tools, and returns whether it was there.
    fn remove(&mut self, name: &Namespace) -> bool {
        self.by_name.retain(|_, hosted| hosted.tool.namespace() != Some(name));
        self.components.remove(name).is_some()
    }
}

impl Host {
    pub(crate) fn new(sandbox: Sandbox, limits: Limits, gate: GateLimits, isolation: IsolationPolicy) -> Self {
        let inner = Inner {
            sandbox,
            tools: ArcSwap::default(),
            changing: Mutex::new(()),
            bus: Arc::new(Bus::new()),
            limits,
            gate,
            calls: AtomicU64::new(0),
            numbers: OpaqueNumbers::default(),
            revision: Revision::default(),
            isolation,
            #[cfg(feature = "agent")]
            interpreter: OnceCell::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Loads a component. Its tools can be called as soon as this returns, as `name__tool`.
    ///
    /// Files are read, and components compiled, on threads of the host's own. Guest code runs at most once, to describe
    /// the tools, within the limits of an ordinary call.
    ///
    /// # Errors
    /// See [`LoadError`]. What was loaded before stays as it was.
    pub async fn load(&self, load: impl Into<Load>) -> Result<Component, LoadError> {
        self.prepare(load.into(), Place::Free).await
    }

    /// Loads a component in place of the one that has its name now, or beside the others if there is none.
    ///
    /// The tools change in one step, so the name is never without a component. Running calls continue with the
    /// component that they started with.
    ///
    /// # Errors
    /// See [`LoadError`]. What was loaded before stays as it was, and can be called.
    pub async fn reload(&self, load: impl Into<Load>) -> Result<Component, LoadError> {
        self.prepare(load.into(), Place::Taken).await
    }

    /// Loads a component, unless the one that has its name now has the same bytes, grant, limits and options. That one stays, and is
    /// returned. If its approval has changed, it is loaded again as by [`Self::reload`].
    ///
    /// # Errors
    /// [`LoadError::Different`] if another component has its name; see [`LoadError`]. What was loaded before stays as it was.
    pub async fn ensure_loaded(&self, load: impl Into<Load>) -> Result<Component, LoadError> {
        self.prepare(load.into(), Place::Unchanged).await
    }

    async fn prepare(&self, load: Load, place: Place) -> Result<Component, LoadError> {
        let name = load.name()?;
        let span = telemetry::load_span(name.as_str());
        let loaded = self.prepare_named(name, load, place).instrument(span.clone()).await;
        match &loaded {
            Ok(component) => telemetry::record_digest(&span, &component.digest()),
            Err(error) => telemetry::record_error(&span, &error.to_string()),
        }
        loaded
    }

    async fn prepare_named(&self, name: Namespace, load: Load, place: Place) -> Result<Component, LoadError> {
        self.check_free(&name, place)?;
        #[cfg(feature = "registry")]
        let load = load.fetched().await?;
        let limits = load.own_limits().unwrap_or(self.inner.limits);
        limits.check(self.inner.sandbox.memory_ceiling())?;
        let mut options = load.options(&name, limits);
        let pinning = load.pinning();
        let terms = load.terms(limits);
        let isolation = load.isolation_wanted();
        let component = match load.loaded().cloned() {
            Some(component) => {
                load.check_digest(component.digest())?;
                if let Some(unchanged) = self.unchanged(&name, place, &component.digest(), &terms, &pinning)? {
                    return Ok(unchanged);
                }
                options.isolation = self.inner.isolation.choose(isolation, &pinning, &component.digest());
                self.inner.sandbox.load_again(&component, &options).await
            }
            None => {
                let (bytes, digest) = self.read(load, &name).await?;
                if let Some(unchanged) = self.unchanged(&name, place, &digest, &terms, &pinning)? {
                    return Ok(unchanged);
                }
                options.isolation = self.inner.isolation.choose(isolation, &pinning, &digest);
                self.inner.sandbox.load(bytes, options).await
            }
        };
        let component =
            component.map_err(|source| LoadError::Component { name: name.clone(), source: Box::new(source) })?;
        let gating = (name.clone(), component.clone(), self.inner.gate.clone());
        let compile = move || {
            let (name, component, gate) = gating;
            let approval = pinning.compare(&component, &terms.grant);
            load_tools(&name, &component, terms, &gate, approval)
        };
        let loaded = self.inner.sandbox.off_thread(compile).await.ok_or(LoadError::Host)??;
        if let Some(approval) = &loaded.approval {
            telemetry::emit_approval(name.as_str(), approval.standing());
            if !approval.standing().is_approved() {
                log::emit_approval_needed(name.as_str(), approval.standing());
            }
        }
        let offered = loaded.tools.iter().filter(|_| !loaded.is_hook());
        let names: Vec<String> = offered.map(|tool| tool.full_name().to_owned()).collect();
        let is_reload = self.put(&name, loaded, place)?;
        log::LoadedComponent {
            component: name.as_str(),
            digest: &component.digest(),
            tools: names.len(),
            isolation: if component.is_isolated() { "process" } else { "in-process" },
            code: if component.report().cache == CacheReport::Hit { "cached" } else { "compiled" },
            duration: component.report().time,
            is_reload,
        }
        .emit();
        self.inner.bus.send(|| Event::Loaded { component: name.to_string(), digest: component.digest(), tools: names });
        Ok(component)
    }

    /// Reads a component on a thread for blocking work, and returns its bytes with their digest.
    async fn read(&self, load: Load, name: &Namespace) -> Result<(Vec<u8>, Digest), LoadError> {
        let sandbox = self.inner.sandbox.clone();
        let name = name.clone();
        let read = move || {
            if let Some(file) = load.file() {
                sandbox.protect(file, FileRole::Component);
            }
            load.read(&name)
        };
        self.inner.sandbox.off_thread(read).await.ok_or(LoadError::Host)?
    }

    /// Unloads a component, and returns whether it was loaded. Running calls continue to their end.
    pub fn unload(&self, name: &str) -> bool {
        let Ok(name) = Namespace::parse(name) else { return false };
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tools = Tools::clone(&self.inner.tools.load());
        let removed = tools.remove(&name);
        self.inner.tools.store(Arc::new(tools));
        self.changed();
        if removed {
            log::emit_unloaded(name.as_str());
        }
        removed
    }

    /// Returns all tools, sorted by their full names, including those that need approval: see [`Tool::is_approved`].
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.inner.tools.load().in_order()
    }

    /// Returns the limits of schemas and of arguments.
    #[must_use]
    pub fn gate_limits(&self) -> &GateLimits {
        &self.inner.gate
    }

    /// Returns the tool with that full name. That of `NAME__resources/read`, which no list has, stands for reading the resources
    /// of a component.
    #[must_use]
    pub fn tool(&self, full_name: &str) -> Option<Arc<Tool>> {
        self.hosted(full_name).map(|hosted| hosted.tool)
    }

    /// Returns the component with that name.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<Arc<LoadedComponent>> {
        self.inner.tools.load().components.get(&Namespace::parse(name).ok()?).cloned()
    }

    pub(crate) fn hosted(&self, full_name: &str) -> Option<HostedTool> {
        self.inner.tools.load().by_name.get(full_name).cloned()
    }

    /// Returns the size that the memory of one call can have at most, in bytes: see [`HostBuilder::memory_ceiling`].
    #[must_use]
    pub fn memory_ceiling(&self) -> usize {
        self.inner.sandbox.memory_ceiling()
    }

    /// Keeps a file of the host from all tools, as [`HostBuilder::protect`] does before. Reads the file system.
    pub fn protect(&self, file: &std::path::Path, role: FileRole) {
        self.inner.sandbox.protect(file, role);
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.inner.sandbox
    }

    /// Returns the interpreter of code mode, which is loaded when it is first asked for.
    #[cfg(feature = "agent")]
    pub(crate) async fn interpreter(&self) -> Result<&Interpreter, fumehood_runtime::LoadError> {
        let inner = &self.inner;
        inner.interpreter.get_or_try_init(|| inner.sandbox.load_interpreter(JAVASCRIPT.to_vec())).await
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.inner.bus
    }

    /// Subscribes to the events of this host from now on. A slow subscriber loses events, and gets their number; it
    /// never slows a call.
    #[must_use]
    pub fn subscribe(&self) -> EventStream {
        self.inner.bus.subscribe()
    }

    /// Subscribes to the loading and unloading of components: a change is seen once its tools can or cannot be called.
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.inner.revision.subscribe()
    }

    fn changed(&self) {
        self.inner.revision.advance();
    }

    /// Returns the number of calls that are running guest code right now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.sandbox.running()
    }

    /// Returns the limits of a call without limits of its own, to a component without limits of its own.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Accepts no more calls, waits at most `grace` for those that run, and then stops the rest, which end with the
    /// kind `cancelled`.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.sandbox.shutdown(grace).await;
    }

    pub(crate) fn next_id(&self) -> String {
        let number = self.inner.numbers.encode(self.inner.calls.fetch_add(1, Ordering::Relaxed));
        let mut id = String::with_capacity(21);
        // Writing to a string does not fail.
        let _ = write!(id, "call-{number:016x}");
        id
    }

    /// Returns whether a component has this name, or one that could be mistaken for it.
    #[cfg(all(feature = "agent", feature = "mcp", feature = "settings"))]
    pub(crate) fn has_name(&self, name: &Namespace) -> bool {
        self.check_free(name, Place::Free).is_err()
    }

    /// Checks that no other component has this name. Names that differ only in `-` and `_` count as equal, so that no
    /// component can be mistaken for another.
    fn check_free(&self, name: &Namespace, place: Place) -> Result<(), LoadError> {
        let folded = name.as_str().replace('-', "_");
        let is_other = |taken: &&Namespace| place == Place::Free || *taken != name;
        let tools = self.inner.tools.load();
        let mut others = tools.components.keys().filter(is_other);
        match others.find(|taken| taken.as_str().replace('-', "_") == folded) {
            Some(taken) => Err(LoadError::NameTaken(taken.clone())),
            None => Ok(()),
        }
    }

    /// Returns the component that has this name and stays in [`Place::Unchanged`].
    ///
    /// # Errors
    /// If it is another one.
    fn unchanged(
        &self,
        name: &Namespace,
        place: Place,
        digest: &Digest,
        terms: &LoadTerms,
        pinning: &Pinning,
    ) -> Result<Option<Component>, LoadError> {
        let loaded = self.inner.tools.load().components.get(name).cloned();
        let Some(loaded) = loaded.filter(|_| place == Place::Unchanged) else { return Ok(None) };
        loaded.check_unchanged(name, digest, terms)?;
        let is_approved_as_before = pinning.compare(&loaded.component, &terms.grant) == loaded.approval;
        Ok(is_approved_as_before.then(|| loaded.component.clone()))
    }

    /// Adds a component, and returns whether another one of its name was there.
    fn put(&self, name: &Namespace, component: LoadedComponent, place: Place) -> Result<bool, LoadError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_free(name, place)?;
        let mut tools = Tools::clone(&self.inner.tools.load());
        if let Some(loaded) = tools.components.get(name).filter(|_| place == Place::Unchanged) {
            loaded.check_unchanged(name, &component.component.digest(), &component.terms)?;
        }
        let is_reload = tools.remove(name);
        tools.add(name, component);
        self.inner.tools.store(Arc::new(tools));
        self.changed();
        Ok(is_reload)
    }
}

/// The place for a component among those that are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beside the others: no component may have its name.
    Free,
    /// In place of the component that has its name.
    Taken,
    /// Beside the others, or where the same component is already.
    Unchanged,
}
