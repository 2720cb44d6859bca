//! The host: the tools that are loaded, and the path of a call to one of them.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use fumehood_core::call::Call;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::event::Event;
use fumehood_core::gate::GateLimits;
use fumehood_core::limits::Limits;
use fumehood_core::name::Namespace;
use fumehood_core::permission::files::FileRole;
use fumehood_core::result::{CallError, CallResult, Metadata};
use fumehood_runtime::{Component, Execution, Invocation, Isolation, Observer, Sandbox, Terms};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::approval_check::Pinning;
use crate::call_log::{self, CallEntry};
use crate::events::{Bus, EventStream, Tee};
use crate::load::{self, IsolationPolicy, Load, LoadError};
use crate::tool::{Tool, unknown_tool};

/// A set of loaded tools and the sandbox that runs them. Cheap to clone; clones share their state.
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
    /// Counts the changes of the set of tools.
    changes: watch::Sender<u64>,
    isolation: IsolationPolicy,
}

/// The loaded components and tools at one moment.
#[derive(Default, Clone)]
pub(crate) struct Tools {
    by_name: HashMap<String, Arc<Tool>>,
    components: HashMap<Namespace, Component>,
}

impl Tools {
    /// Returns all tools, sorted by their full names.
    pub(crate) fn in_order(&self) -> Vec<Arc<Tool>> {
        let mut tools: Vec<_> = self.by_name.values().cloned().collect();
        tools.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        tools
    }

    /// Removes a component and its tools, and returns whether it was there.
    fn remove(&mut self, name: &Namespace) -> bool {
        let prefix = format!("{name}__");
        self.by_name.retain(|full_name, _| !full_name.starts_with(&prefix));
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
            changes: watch::Sender::new(0),
            isolation,
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

    async fn prepare(&self, load: Load, place: Place) -> Result<Component, LoadError> {
        let name = load.name()?;
        self.check_free(&name, place)?;
        let limits = load.own_limits().unwrap_or(self.inner.limits);
        limits.check(self.inner.sandbox.memory_ceiling())?;
        let mut options = load.options(&name, limits);
        let (pinning, grant) = load.pinning();
        let (bytes, isolation) = self.read(load, &name, &pinning).await?;
        options.isolation = isolation;
        let component = self
            .inner
            .sandbox
            .load(bytes, options)
            .await
            .map_err(|source| LoadError::Component { name: name.clone(), source: Box::new(source) })?;
        let gating = (name.clone(), component.clone(), self.inner.gate.clone());
        let compile = move || {
            let (name, component, gate) = gating;
            let pinned = pinning.compare(&component, &grant).map(Arc::new);
            let powers: Arc<[String]> = grant.phrases().into();
            let tools = load::tools(&name, &component, limits, &gate, pinned.as_ref())?;
            Ok::<_, LoadError>(tools.into_iter().map(|tool| tool.with_powers(Arc::clone(&powers))).collect::<Vec<_>>())
        };
        let tools = self.inner.sandbox.off_thread(compile).await.ok_or(LoadError::Host)??;
        let names = tools.iter().map(|tool| tool.full_name().to_owned()).collect();
        self.put(&name, &component, tools, place)?;
        self.inner.bus.send(|| Event::Loaded { component: name.to_string(), digest: component.digest(), tools: names });
        Ok(component)
    }

    /// Reads a component and decides where it runs, on a thread for blocking work.
    async fn read(&self, load: Load, name: &Namespace, pinning: &Pinning) -> Result<(Vec<u8>, Isolation), LoadError> {
        let (sandbox, policy) = (self.inner.sandbox.clone(), self.inner.isolation);
        let (name, pinning) = (name.clone(), pinning.clone());
        let read = move || {
            if let Some(file) = load.file() {
                sandbox.protect(file, FileRole::Component);
            }
            let wanted = load.isolation_wanted();
            let bytes = load.read(&name)?;
            let isolation = policy.choose(wanted, &pinning, &bytes);
            Ok((bytes, isolation))
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
        removed
    }

    /// Returns all tools, sorted by their full names, including those that need approval: see [`Tool::is_approved`].
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.inner.tools.load().in_order()
    }

    /// Returns the current set, which is another one once anything was loaded or unloaded.
    #[cfg(feature = "agent")]
    pub(crate) fn set(&self) -> Arc<Tools> {
        self.inner.tools.load_full()
    }

    /// Returns the limits of schemas and of arguments.
    #[must_use]
    pub fn gate_limits(&self) -> &GateLimits {
        &self.inner.gate
    }

    /// Returns the tool with that full name.
    #[must_use]
    pub fn tool(&self, full_name: &str) -> Option<Arc<Tool>> {
        self.inner.tools.load().by_name.get(full_name).cloned()
    }

    /// Calls a tool. Every outcome is returned as a [`CallResult`]. Dropping the future stops the guest.
    ///
    /// Works on any executor. The first slice of a guest may run on the thread that polls this future: a few
    /// milliseconds, or one bulk instruction over at most 64 MiB. Everything after that runs on threads of the host's
    /// own.
    ///
    /// Arguments and results are checked on the polling thread if that takes a few milliseconds at most, and otherwise
    /// on a thread of the host's own; [`GateLimits::work`] bounds what a check takes. The check of the arguments does
    /// not count towards the deadline. A check of the result on another thread does.
    pub async fn call(&self, call: Call) -> CallResult {
        self.call_observed(call, None, None, None).await
    }

    /// Like [`Self::call`], with an observer, a cancellation token and a record.
    pub(crate) async fn call_observed(
        &self,
        call: Call,
        observer: Option<Arc<dyn Observer>>,
        cancelled: Option<CancellationToken>,
        mut entry: Option<CallEntry>,
    ) -> CallResult {
        let Call { id, tool, arguments, actor, state, limits } = call;
        let id = if id.is_empty() { self.next_id() } else { id };
        let pending = Pending { host: self, names: Some((id, tool)) };
        let (id, name) = pending.names();
        let (found, limits) = match self.resolve(name, limits) {
            Ok(found) => found,
            Err(error) => return call_log::ended(entry, pending.refused(error)).await,
        };
        let arguments = match found.admit(arguments, &self.inner.sandbox).await {
            Ok(arguments) => arguments,
            Err(error) => return call_log::ended(entry, pending.refused(error)).await,
        };
        let started = match &mut entry {
            Some(entry) => entry.started(&arguments, Some(found.component().digest())).await,
            None => Ok(()),
        };
        if let Err(error) = started {
            // A call that cannot be recorded must not run.
            let message = format!("the tool was not called, because that could not be recorded: {error}");
            return call_log::ended(entry, pending.refused(CallError::new(ErrorKind::Host, message))).await;
        }
        self.inner.bus.send(|| Event::Started { id: id.to_owned(), tool: name.to_owned(), actor: actor.clone() });
        let invocation = Invocation { id: id.to_owned(), tool: found.definition().name.to_string(), actor, state };
        let terms = Terms { limits, observer: self.observer(observer), cancelled };
        let execution = found.run(&self.inner.sandbox, &arguments, invocation, terms).await;
        call_log::ended(entry, pending.finished(execution)).await
    }

    /// Subscribes to the events of this host from now on. A slow subscriber loses events, and gets their number; it
    /// never slows a call.
    #[must_use]
    pub fn subscribe(&self) -> EventStream {
        self.inner.bus.subscribe()
    }

    /// Returns a receiver of a number that grows whenever a component is loaded or unloaded, once its tools can or
    /// cannot be called.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn changed(&self) {
        self.inner.changes.send_modify(|changes| *changes += 1);
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

    fn observer(&self, also: Option<Arc<dyn Observer>>) -> Option<Arc<dyn Observer>> {
        let bus = &self.inner.bus;
        match also {
            Some(also) if bus.is_watched() => Some(Arc::new(Tee { bus: Arc::clone(bus), also })),
            Some(also) => Some(also),
            None => bus.is_watched().then(|| Arc::clone(bus) as Arc<dyn Observer>),
        }
    }

    fn next_id(&self) -> String {
        let mut id = String::with_capacity(16);
        // Writing to a string does not fail.
        let _ = write!(id, "call-{}", self.inner.calls.fetch_add(1, Ordering::Relaxed) + 1);
        id
    }

    fn resolve(&self, name: &str, limits: Option<Limits>) -> Result<(Arc<Tool>, Limits), CallError> {
        let tools = self.inner.tools.load();
        let Some(tool) = tools.by_name.get(name) else {
            return Err(unknown_tool(name, tools.by_name.keys().map(String::as_str)));
        };
        if let Some(refusal) = tool.quarantine() {
            return Err(refusal);
        }
        let limits = match limits {
            Some(limits) => {
                let refused = |error: fumehood_core::limits::LimitError| {
                    CallError::new(ErrorKind::InvalidLimits, format!("the limits of the call are not valid: {error}"))
                };
                limits.check(self.inner.sandbox.memory_ceiling()).map_err(refused)?;
                limits
            }
            None => *tool.limits(),
        };
        Ok((Arc::clone(tool), limits))
    }

    /// Checks that no other component has this name. Names that differ only in `-` and `_` count as equal, so that no
    /// component can be mistaken for another.
    fn check_free(&self, name: &Namespace, place: Place) -> Result<(), LoadError> {
        let folded = |name: &Namespace| name.as_str().replace('-', "_");
        let is_other = |taken: &&Namespace| place == Place::Free || *taken != name;
        let tools = self.inner.tools.load();
        match tools.components.keys().filter(is_other).find(|taken| folded(taken) == folded(name)) {
            Some(taken) => Err(LoadError::NameTaken(taken.clone())),
            None => Ok(()),
        }
    }

    fn put(&self, name: &Namespace, component: &Component, added: Vec<Tool>, place: Place) -> Result<(), LoadError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_free(name, place)?;
        let mut tools = Tools::clone(&self.inner.tools.load());
        tools.remove(name);
        tools.components.insert(name.clone(), component.clone());
        tools.by_name.extend(added.into_iter().map(|tool| (tool.full_name().to_owned(), Arc::new(tool))));
        self.inner.tools.store(Arc::new(tools));
        self.changed();
        Ok(())
    }
}

/// The place for a component among those that are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beside the others: no component may have its name.
    Free,
    /// In place of the component that has its name.
    Taken,
}

/// A call that has not ended. If its caller drops it, it ends as cancelled, with an event.
struct Pending<'a> {
    host: &'a Host,
    names: Option<(String, String)>,
}

impl Pending<'_> {
    fn names(&self) -> (&str, &str) {
        self.names.as_ref().map_or(("", ""), |(id, tool)| (id, tool))
    }

    fn refused(self, error: CallError) -> CallResult {
        self.finished(Execution { outcome: Err(error), metadata: Metadata::default() })
    }

    fn finished(mut self, execution: Execution) -> CallResult {
        let (id, tool) = self.names.take().unwrap_or_default();
        let Execution { outcome, metadata } = execution;
        let result = CallResult { id, tool, outcome, metadata };
        self.host.inner.bus.send(|| Event::Finished { result: Arc::new(result.clone()) });
        result
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some((id, tool)) = self.names.take() {
            let (outcome, metadata) = (Err(CallError::cancelled()), Metadata::default());
            let send = || Event::Finished { result: Arc::new(CallResult { id, tool, outcome, metadata }) };
            self.host.inner.bus.send(send);
        }
    }
}
