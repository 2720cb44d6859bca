//! A host inside another program, made from its settings: the packages of other languages pass them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fumehood_config::embedding::{CallSettings, HostIsolation, HostSettings, LoadSettings};
use fumehood_config::secret::{ValueSource, resolve};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Call;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallResult;
use fumehood_core::capability::Capability as _;
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::files::FileRole;
#[cfg(feature = "agent")]
use fumehood_core::record::Recorder;
use fumehood_core::text::sanitize::printable;
#[cfg(all(feature = "agent", feature = "mcp"))]
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{NameForm, Tool, ToolAliases, ToolProvider};
use fumehood_registry::reference::Reference;
use fumehood_runtime::{CodeCache, CompileBudget, Compiler, Component, Isolation, Workers};
use fumehood_storage::event_log::{EventLog, Report};
use fumehood_storage::key_value::DiskStore;
use serde::de::IgnoredAny;
use tokio::sync::watch;

use super::call_records::CallRecords;
use super::error::{SettingsError, error_chain};
use super::functions::FunctionCapability;
use super::host_events::HostEvents;
use super::quick_tools::QuickTools;
#[cfg(all(feature = "agent", feature = "mcp"))]
use super::servers::EmbeddedServers;
use super::{registry, values};
use crate::host::{Host, HostBuilder};
use crate::load::error::LoadError;
use crate::load::registry_source::RegistrySource;
use crate::load::{IsolationPolicy, Load};
use crate::lock::Lock;

/// The hidden commands of the program `fumehood` that compile a component and run calls.
const COMPILE_COMPONENT: &str = "compile-component";
const RUN_WORKER: &str = "run-worker";

/// A host inside another program, with what its loads need.
#[derive(Debug, Clone)]
pub struct EmbeddedHost {
    host: Host,
    registry: Option<Arc<RegistrySource>>,
    lock: Option<PathBuf>,
    records: Option<Arc<CallRecords>>,
    quick: Arc<QuickTools>,
    #[cfg(all(feature = "agent", feature = "mcp"))]
    servers: Arc<EmbeddedServers>,
    #[cfg(all(feature = "agent", feature = "mcp"))]
    program: PathBuf,
    capabilities: Arc<[FunctionCapability]>,
    /// Becomes true at the shutdown.
    ended: Arc<watch::Sender<bool>>,
}

/// A call that has begun, or is about to.
pub type Calling = BoxFuture<'static, CallResult>;

impl EmbeddedHost {
    /// Creates a host with these settings.
    ///
    /// # Errors
    /// If a file or a folder cannot be used, or the sandbox cannot be made.
    pub fn new(settings: &HostSettings) -> Result<Self, SettingsError> {
        Self::with_capabilities(settings, Vec::new())
    }

    /// Creates a host with these settings, and with capabilities of the program around it.
    ///
    /// # Errors
    /// See [`Self::new`]; and if two capabilities have one name or one interface.
    pub fn with_capabilities(
        settings: &HostSettings,
        capabilities: Vec<FunctionCapability>,
    ) -> Result<Self, SettingsError> {
        let args = vec![COMPILE_COMPONENT.into()];
        let compiler = Compiler::Child { program: settings.program.clone(), args, budget: CompileBudget::default() };
        let limits = settings.limits.over(Limits::default());
        let builder = Host::builder().limits(limits).compiler(compiler).protect(&settings.program, FileRole::Program);
        let mut builder = with_isolation(builder, settings);
        for capability in &capabilities {
            builder = builder.capability(capability.clone());
        }
        if let Some(folder) = &settings.cache {
            let cache = CodeCache::open(absolute("cache", folder)?).map_err(SettingsError::Cache)?;
            builder = builder.code_cache(cache);
        }
        if let Some(file) = &settings.key_value_store {
            let file = absolute("key_value_store", file)?;
            let store = DiskStore::open(&file).map_err(SettingsError::KeyValueStore)?;
            builder = builder.own_folder(file).key_value_store(Arc::new(store));
        }
        if let Some(calls) = settings.concurrency {
            builder = builder.concurrency(calls);
        }
        if let Some(calls) = settings.queue {
            builder = builder.queue(calls);
        }
        if let Some(requests) = settings.http_in_flight {
            builder = builder.http_in_flight(requests);
        }
        if let Some(bytes) = settings.memory_ceiling {
            builder = builder.memory_ceiling(bytes.0);
        }
        let registry = settings.registry.as_ref().map(registry::source).transpose()?.map(Arc::new);
        if let Some(source) = &registry {
            builder = builder.own_folder(source.store().folder());
        }
        let lock = settings.lock.as_deref().map(|file| absolute("lock", file)).transpose()?;
        if let Some(file) = &lock {
            builder = builder.protect(file, FileRole::Lock);
        }
        let mut records = None;
        if let Some(file) = &settings.log {
            let file = absolute("log", file)?;
            let key = match &settings.log_key {
                Some(key) => absolute("log_key", key)?,
                None => CallRecords::key_of(&file),
            };
            records = Some(Arc::new(CallRecords::open(&file, &key)?));
            // A tool that could change them could forge the records of its own calls.
            for file in EventLog::files(&file).into_iter().chain([key]) {
                builder = builder.own_folder(file);
            }
        }
        Ok(Self {
            host: builder.build()?,
            registry,
            lock,
            records,
            quick: Arc::default(),
            #[cfg(all(feature = "agent", feature = "mcp"))]
            servers: Arc::default(),
            #[cfg(all(feature = "agent", feature = "mcp"))]
            program: settings.program.clone(),
            capabilities: capabilities.into(),
            ended: Arc::default(),
        })
    }

    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Subscribes to the events of all calls from now on: see [`Host::subscribe`].
    #[must_use]
    pub fn subscribe(&self) -> HostEvents {
        HostEvents::new(self.host.subscribe(), self.ended.subscribe())
    }

    /// Returns the call as a future, which begins where it is first polled.
    #[must_use]
    pub fn calling(&self, call: Call) -> Calling {
        let host = self.host.clone();
        let quick = Arc::clone(&self.quick);
        let records = self.records.clone();
        let servers = self.servers().filter(|_| host.tool(&call.tool).is_none());
        let servers = servers.filter(|servers| servers.find(&call.tool).is_some());
        Box::pin(async move {
            let result = match (records, servers) {
                (Some(records), servers) => records.call(&host, servers, call).await,
                (None, Some(servers)) => servers.dispatch(call).await,
                (None, None) => host.call(call).await,
            };
            quick.record(&result);
            result
        })
    }

    /// Begins a call on the thread of an event loop. Its first slice runs there only if the last call of that tool was quick:
    /// otherwise calls that are started at once would hold the loop for a slice each.
    ///
    /// # Errors
    /// A call that has not ended, to be awaited on another thread.
    pub fn begin(&self, call: Call) -> Result<CallResult, Calling> {
        if self.quick.contains(&call.tool) { self.begin_here(call) } else { Err(self.calling(call)) }
    }

    /// Begins a call with its first slice on this thread, which would wait for the result anyway.
    ///
    /// # Errors
    /// A call that has not ended, to be awaited.
    pub fn begin_here(&self, call: Call) -> Result<CallResult, Calling> {
        let name = call.tool.clone();
        let mut calling = self.calling(call);
        match calling.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => {
                self.quick.remove(&name);
                Err(calling)
            }
        }
    }

    /// Creates a call of the tool with this full name or alias.
    ///
    /// # Errors
    /// If the state is not JSON.
    pub fn call(&self, name: String, arguments: String, settings: Option<CallSettings>) -> Result<Call, SettingsError> {
        let is_known = self.host.tool(&name).is_some();
        let alias_of = if is_known { None } else { self.aliases().resolve(&name).map(str::to_owned) };
        let mut call = Call::new(alias_of.unwrap_or(name), arguments).id(self.host.next_id());
        let Some(CallSettings { limits, id, actor, state }) = settings else { return Ok(call) };
        if let Some(limits) = limits {
            call = call.limits(limits.over(*self.host.limits()));
        }
        if let Some(id) = id {
            call = call.id(id);
        }
        if let Some(actor) = actor {
            call = call.actor(actor);
        }
        if let Some(state) = state {
            serde_json::from_str::<IgnoredAny>(&state).map_err(|error| SettingsError::setting("state", error))?;
            call = call.state(state);
        }
        Ok(call)
    }

    /// Loads a component. With `replace` it takes the place of the one that has its name, if there is one.
    ///
    /// # Errors
    /// See [`Host::ensure_loaded`] and [`Host::reload`].
    pub async fn load(&self, load: Load, replace: bool) -> Result<Component, LoadError> {
        #[cfg(all(feature = "agent", feature = "mcp"))]
        if let Some(name) = load.name().ok().filter(|name| self.servers.has_name(name)) {
            return Err(LoadError::NameTaken(name));
        }
        let loaded = if replace { self.host.reload(load).await } else { self.host.ensure_loaded(load).await };
        self.quick.clear();
        loaded
    }

    /// Returns the tool with this full name, or with this alias.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<Arc<Tool>> {
        self.find(name).or_else(|| self.find(self.aliases().resolve(name)?))
    }

    fn find(&self, full_name: &str) -> Option<Arc<Tool>> {
        self.host.tool(full_name).or_else(|| self.servers()?.find(full_name))
    }

    /// Returns the tools of all components and servers, sorted by their full names.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.host.tools();
        if let Some(servers) = self.servers() {
            tools.extend(servers.tools());
            tools.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        }
        tools
    }

    /// Returns the tools of MCP servers.
    #[cfg(all(feature = "agent", feature = "mcp"))]
    #[allow(clippy::unnecessary_wraps, reason = "without these features there are no servers")]
    pub(super) fn servers(&self) -> Option<Arc<dyn ToolProvider>> {
        Some(self.servers.provider())
    }

    /// Returns the tools of MCP servers, of which there are none without these features.
    #[cfg(not(all(feature = "agent", feature = "mcp")))]
    #[allow(clippy::unused_self, reason = "with these features there are servers")]
    pub(super) fn servers(&self) -> Option<Arc<dyn ToolProvider>> {
        None
    }

    /// Returns the names of the tools that every provider of models accepts. The MCP server gives its clients the same ones.
    #[must_use]
    pub fn aliases(&self) -> ToolAliases {
        ToolAliases::of_tools(self.tools().iter().map(Arc::as_ref), NameForm::Portable)
    }

    /// Verifies the event log of the calls: nothing was changed, removed or reordered. Blocks on the disk.
    ///
    /// # Errors
    /// If there is no log, or it cannot be read.
    pub fn verify_log(&self) -> Result<Report, SettingsError> {
        let missing = || SettingsError::setting("log", "this host records no calls; create it with the file of a log");
        self.records.as_ref().ok_or_else(missing)?.verify().map_err(SettingsError::Verification)
    }

    /// Shuts the host down: see [`Host::shutdown`].
    pub async fn shutdown(&self, grace: Duration) {
        self.host.shutdown(grace).await;
        #[cfg(all(feature = "agent", feature = "mcp"))]
        self.servers.close().await;
        if let Some(records) = &self.records {
            records.end().await;
        }
        self.ended.send_replace(true);
    }

    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(super) fn embedded_servers(&self) -> &EmbeddedServers {
        &self.servers
    }

    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(super) fn lock(&self) -> Option<&Path> {
        self.lock.as_deref()
    }

    /// Returns the program `fumehood`.
    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns whether a component has this name, or one that could be mistaken for it.
    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(super) fn has_component(&self, name: &Namespace) -> bool {
        self.host.has_name(name)
    }

    /// Returns the recorder of the event log, if there is one.
    #[cfg(feature = "agent")]
    pub(super) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.records.as_ref().map(|records| records.recorder())
    }

    /// Unloads a component, and returns whether it was loaded.
    #[must_use]
    pub fn unload(&self, name: &str) -> bool {
        self.quick.clear();
        self.host.unload(name)
    }

    /// Creates the load of a file or a reference, or of `bytes` in their place. [`Self::load`] of a reference needs a runtime of tokio.
    ///
    /// # Errors
    /// If there is no component, or no name for bytes, a grant is not possible, or the lock cannot be read.
    pub fn prepare(&self, settings: &LoadSettings, bytes: Option<Vec<u8>>) -> Result<Load, SettingsError> {
        let mut load = self.source(settings, bytes)?;
        if let Some(name) = &settings.name {
            load = load.named(name);
        }
        let mut grant = Grant::none();
        if let Some(powers) = &settings.grants {
            let here = absolute("grants", Path::new("."))?;
            for secret in &powers.secrets {
                if let ValueSource::File(file) = &secret.from {
                    self.host.sandbox().protect(&resolve(&here, file), FileRole::Secret);
                }
            }
            let granted = powers.grant(&here, &|source| values::read_value(source, &here)).map_err(|faults| {
                let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
                SettingsError::setting("grants", faults.join("; "))
            });
            grant = granted?;
        }
        load = load.grant(self.with_granted(grant, &settings.capabilities)?);
        if let Some(limits) = &settings.limits {
            load = load.limits(limits.over(*self.host.limits()));
        }
        if let Some(file) = &self.lock {
            let lock = Lock::open(file).map_err(SettingsError::Lock)?;
            let name = load.name().map_err(|error| SettingsError::setting("name", error_chain(&error)))?;
            let folder = file.parent().unwrap_or_else(|| Path::new("/"));
            load = load.approval_below(folder, lock.locked(&name));
        }
        if settings.strict_imports {
            load = load.strict_imports();
        }
        if settings.allow_slow_compile {
            load = load.allow_slow_compile();
        }
        Ok(if settings.isolated { load.isolation(Isolation::Process) } else { load })
    }

    /// Adds the grants of capabilities.
    fn with_granted(
        &self,
        mut grant: Grant,
        granted: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Grant, SettingsError> {
        let wrong = |error: &dyn Display| SettingsError::setting("capabilities", error);
        for (name, value) in granted {
            let Some(capability) = self.capabilities.iter().find(|capability| capability.name() == name) else {
                let names: Vec<&str> = self.capabilities.iter().map(|capability| capability.name()).collect();
                let expected = if names.is_empty() { "the host has none".to_owned() } else { names.join(", ") };
                return Err(wrong(&format!("unknown capability `{}`; expected {expected}", printable(name))));
            };
            let value = capability.grant(value).map_err(|error| wrong(&error))?;
            grant = grant.with_capability(value).map_err(|error| wrong(&error))?;
        }
        Ok(grant)
    }

    fn source(&self, settings: &LoadSettings, bytes: Option<Vec<u8>>) -> Result<Load, SettingsError> {
        if let Some(bytes) = bytes {
            let name = settings.name.as_ref();
            let missing = || SettingsError::setting("name", "a component in memory needs a `name`");
            return Ok(Load::bytes(name.ok_or_else(missing)?, bytes));
        }
        let missing = || SettingsError::setting("path", "no component is given; name its file");
        let path = settings.path.as_deref().ok_or_else(missing)?;
        let Some(text) = path.to_str().filter(|text| text.contains("://")) else {
            return Ok(Load::path(absolute("path", path)?));
        };
        let reference: Reference = text.parse().map_err(|error| SettingsError::setting("path", error))?;
        let missing = || {
            let message = format!("{text} is a reference; set `registry` with a store and trusted keys");
            SettingsError::setting("path", message)
        };
        Ok(Load::reference(reference, Arc::clone(self.registry.as_ref().ok_or_else(missing)?)))
    }
}

/// Returns whether any code of the tool ran. A tool itself may answer with the kind of a refusal, such as `invalid_arguments`.
#[must_use]
pub fn has_run(result: &CallResult) -> bool {
    result.is_ok() || result.metadata.fuel_used > 0 || !result.metadata.duration.is_zero()
}

fn with_isolation(builder: HostBuilder, settings: &HostSettings) -> HostBuilder {
    let workers = Workers::program(&settings.program, [RUN_WORKER]);
    match settings.isolation {
        HostIsolation::InProcess => builder.workers(workers).isolation(IsolationPolicy::Nothing),
        HostIsolation::Process => builder.workers(workers).isolation(IsolationPolicy::Everything),
        HostIsolation::ProcessRequired => {
            builder.workers(workers.require_jail()).isolation(IsolationPolicy::Everything)
        }
    }
}

pub(super) fn absolute(setting: &str, path: &Path) -> Result<PathBuf, SettingsError> {
    std::path::absolute(path).map_err(|error| SettingsError::setting(setting, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read_json;
    use serde_json::json;

    const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

    fn host(settings: serde_json::Value) -> EmbeddedHost {
        let mut settings = settings;
        settings["program"] = json!("/nothing");
        EmbeddedHost::new(&read_json("", &settings.to_string()).unwrap()).unwrap()
    }

    fn prepare(host: &EmbeddedHost, settings: &serde_json::Value, bytes: Option<Vec<u8>>) -> Result<String, String> {
        let settings: LoadSettings = read_json("", &settings.to_string()).map_err(|error| error.to_string())?;
        let load = host.prepare(&settings, bytes).map_err(|error| error_chain(&error))?;
        load.name().map(|name| name.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn sources_are_files_bytes_and_references() {
        let store = tempfile::tempdir().unwrap();
        let plain = host(json!({}));
        assert_eq!(prepare(&plain, &json!({"path": CALCULATOR}), None).unwrap(), "calculator");
        assert_eq!(prepare(&plain, &json!({"path": CALCULATOR, "name": "sums"}), None).unwrap(), "sums");
        assert_eq!(prepare(&plain, &json!({"name": "sums"}), Some(Vec::new())).unwrap(), "sums");
        let check = |settings: serde_json::Value, bytes: Option<Vec<u8>>, expected: &str| {
            let error = prepare(&plain, &settings, bytes).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        check(json!({}), None, "`path`: no component is given");
        check(json!({}), Some(Vec::new()), "`name`: a component in memory needs a `name`");
        check(
            json!({"path": "oci://ghcr.io/acme/greeter:1.0"}),
            None,
            "`path`: oci://ghcr.io/acme/greeter:1.0 is a reference",
        );
        check(json!({"path": CALCULATOR, "grants": {"read": ["x"]}}), None, "`grants`: read[0]: ");
        let with_registry = host(json!({"registry": {"store": store.path().join("store"), "offline": true}}));
        let reference = json!({"path": "oci://ghcr.io/acme/greeter:1.0"});
        assert_eq!(prepare(&with_registry, &reference, None).unwrap(), "greeter");
        assert!(prepare(&with_registry, &json!({"path": "oci://"}), None).unwrap_err().starts_with("`path`: "));
    }

    #[test]
    fn settings_of_registries_are_checked() {
        let store = tempfile::tempdir().unwrap();
        let check = |registry: serde_json::Value, expected: &str| {
            let mut settings = json!({"program": "/nothing", "registry": registry});
            settings["registry"]["store"] = json!(store.path().join("store"));
            let settings = read_json::<HostSettings>("", &settings.to_string()).map_err(SettingsError::from);
            let built = settings.and_then(|settings| EmbeddedHost::new(&settings));
            let error = built.map(drop).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(json!({"trusted_keys": ["no key"]}), "`registry.trusted_keys`: ");
        check(
            json!({"trusted_keys": [{"file": "/nothing/key.pem"}]}),
            "`registry.trusted_keys`: /nothing/key.pem: No such file",
        );
        check(json!({"revoked": ["sha256:1"]}), "`registry.revoked`: ");
        check(json!({"allow": ["oci://ghcr.io/acme/*"]}), "`registry.allow`: ");
        check(json!({"signatures": "maybe"}), "`registry.signatures`: unknown variant `maybe`");
    }

    #[tokio::test]
    async fn a_lock_decides_what_can_be_called() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fumehood.lock");
        let settings = json!({"program": "/nothing", "lock": file});
        let settings: HostSettings = read_json("", &settings.to_string()).unwrap();
        let embedded = EmbeddedHost::new(&settings).unwrap();
        // Without the program that compiles, in this process.
        let host = Host::builder().build().unwrap();
        let embedded = EmbeddedHost { host: host.clone(), ..embedded };
        let load =
            || embedded.prepare(&read_json("", &json!({"path": CALCULATOR}).to_string()).unwrap(), None).unwrap();
        let call = || Call::new("calculator__add", r#"{"a": 1, "b": 1}"#);
        host.load(load()).await.unwrap();
        let refused = host.call(call()).await;
        assert_eq!(refused.error().unwrap().kind, crate::ErrorKind::NeedsApproval);

        let parts = host.component("calculator").unwrap().approval().unwrap().parts().clone();
        let mut lock = Lock::open(&file).unwrap();
        lock.approve(load().name().unwrap(), parts);
        lock.save().unwrap();
        host.reload(load()).await.unwrap();
        assert!(host.call(call()).await.is_ok());
    }

    #[tokio::test]
    async fn calls_are_recorded_before_they_run() {
        let folder = tempfile::tempdir().unwrap();
        let settings = json!({"program": "/nothing", "log": folder.path().join("events.db")});
        let settings: HostSettings = read_json("", &settings.to_string()).unwrap();
        let embedded = EmbeddedHost { host: Host::builder().build().unwrap(), ..EmbeddedHost::new(&settings).unwrap() };
        embedded.host.load(Load::path(CALCULATOR)).await.unwrap();
        for arguments in [r#"{"a": 1, "b": 1}"#, "{}"] {
            embedded.calling(Call::new("calculator__add", arguments)).await;
        }
        embedded.shutdown(Duration::ZERO).await;
        let report = embedded.verify_log().unwrap();
        // The session, the start, end and result of a call, the refusal of another one, and the end of the session.
        assert_eq!((report.rows, report.seals_checked, report.finding), (6, true, None));
        assert!(folder.path().join("events.db.key").is_file());
        let without = host(json!({}));
        assert!(without.verify_log().unwrap_err().to_string().starts_with("`log`: this host records no calls"));
    }

    #[tokio::test]
    async fn calls_begin_here_once_a_call_of_that_tool_was_quick() {
        let host = Host::builder().build().unwrap();
        let settings: HostSettings = read_json("", r#"{"program": "/nothing"}"#).unwrap();
        let embedded = EmbeddedHost { host: host.clone(), ..EmbeddedHost::new(&settings).unwrap() };
        host.load(Load::path(CALCULATOR)).await.unwrap();
        let countdown = Path::new(CALCULATOR).with_file_name("countdown.wasm");
        host.load(Load::path(countdown)).await.unwrap();
        let add = || Call::new("calculator__add", r#"{"a": 1, "b": 1}"#);
        let first = embedded.begin(add()).unwrap_err();
        assert!(first.await.is_ok());
        // The machine may be so busy that a call of some microseconds is not quick.
        let mut ended = false;
        for _ in 0..100 {
            match embedded.begin(add()) {
                Ok(result) => ended |= result.is_ok(),
                Err(calling) => drop(calling.await),
            }
        }
        assert!(ended);
        for _ in 0..2 {
            let waiting = embedded.begin(Call::new("countdown__countdown", r#"{"from": 2, "step_ms": 10}"#));
            assert!(waiting.unwrap_err().await.is_ok());
        }
        assert!(embedded.unload("calculator"));
        assert!(embedded.begin(add()).is_err());
    }
}
