//! The host, as JavaScript sees it.

use std::fmt;
use std::time::Duration;

use fumehood::settings::{
    AgentSettings, CallSettings, Calling, EmbeddedHost, HostSettings, LoadSettings, McpServerSection, TimeUnit,
    read_options,
};
use fumehood::{Call, Host, Tool, ToolAliases};
use napi::Env;
use napi::bindgen_prelude::{Buffer, Either, Either3, Object};
use napi_derive::napi;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::agent::NativeAgent;
use crate::capability::{Description, FunctionCalls};
use crate::events::{Events, NotifyFunction};
use crate::fault::{Code, Fault, error_chain, host_fault, settings_fault};
use crate::outcome::{Outcome, Promise};
use crate::result::NativeResult;
use crate::stop::Stop;
use crate::subscription::Subscription;

/// Number of threads that carry outcomes to JavaScript. Guests run elsewhere.
const RUNTIME_THREADS: usize = 2;

/// The unit of times that are numbers.
const UNIT: TimeUnit = TimeUnit::Milliseconds;

/// A host and the runtime of its operations.
#[napi]
pub struct NativeHost {
    embedded: EmbeddedHost,
    /// Always there until the host is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for NativeHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeHost").finish_non_exhaustive()
    }
}

impl Drop for NativeHost {
    fn drop(&mut self) {
        // Dropping it would wait for the threads, on that of JavaScript.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl NativeHost {
    fn host(&self) -> &Host {
        self.embedded.host()
    }

    fn runtime(&self) -> Result<&Runtime, Fault> {
        self.runtime.as_ref().ok_or_else(|| host_fault("the host was closed"))
    }

    /// Runs an operation on the runtime, and returns the promise of its outcome.
    fn spawn<'env>(
        &self,
        env: &'env Env,
        stop: Option<&Stop>,
        operation: impl Future<Output = Outcome> + Send + 'static,
    ) -> Result<Object<'env>, Fault> {
        let (promise, object) = Promise::create(env).map_err(|error| host_fault(error.reason.clone()))?;
        let task = self.runtime()?.spawn(async move { promise.settle(operation.await) });
        if let Some(stop) = stop {
            stop.set(task.abort_handle());
        }
        Ok(object)
    }

    fn make_call(&self, name: String, arguments: String, options: Option<&str>) -> Result<Call, Fault> {
        let read = |json| read_options::<CallSettings>(json, UNIT).map_err(|error| settings_fault(&error.into()));
        let options = options.map(read).transpose()?;
        self.embedded.call(name, arguments, options).map_err(|error| settings_fault(&error))
    }
}

#[napi]
impl NativeHost {
    /// Creates a host; `settings` is JSON. The calls of functions of `capabilities` wait in `calls`, and `notify` is called when there
    /// are some.
    #[napi(constructor)]
    pub fn new(
        settings: String,
        capabilities: Vec<Description>,
        calls: &FunctionCalls,
        notify: NotifyFunction,
    ) -> Result<Self, Fault> {
        let settings: HostSettings = read_options(&settings, UNIT).map_err(|error| settings_fault(&error.into()))?;
        let embedded = calls
            .capabilities(capabilities, notify)
            .and_then(|capabilities| EmbeddedHost::with_capabilities(&settings, capabilities))
            .map_err(|error| settings_fault(&error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("fumehood-node")
            .enable_all()
            .build()
            .map_err(|error| host_fault(error_chain(&error)))?;
        Ok(Self { embedded, runtime: Some(runtime) })
    }

    /// Loads a component from the file in `settings`, or from `bytes`.
    #[napi]
    pub fn load<'env>(
        &self,
        env: &'env Env,
        settings: String,
        bytes: Option<Buffer>,
        stop: Option<&Stop>,
    ) -> Result<Object<'env>, Fault> {
        let settings: LoadSettings = read_options(&settings, UNIT).map_err(|error| settings_fault(&error.into()))?;
        let bytes = bytes.map(|bytes| bytes.to_vec());
        let load = self.embedded.prepare(&settings, bytes).map_err(|error| settings_fault(&error))?;
        let name = load.name().map_err(|error| Fault::new(Code::Load, error_chain(&error)))?.to_string();
        let embedded = self.embedded.clone();
        self.spawn(env, stop, async move {
            let loaded = embedded.load(load, settings.replace).await;
            Outcome::of_load(embedded.host(), &name, loaded)
        })
    }

    /// Starts a call. Returns its result, or JSON with a fault, if it ends within its first slice, and otherwise the promise of it.
    #[napi]
    pub fn start<'env>(
        &self,
        env: &'env Env,
        name: String,
        arguments: String,
        options: Option<String>,
        stop: Option<&Stop>,
    ) -> Result<Either3<NativeResult, String, Object<'env>>, Fault> {
        let call = self.make_call(name, arguments, options.as_deref())?;
        let begun = {
            let _entered = self.runtime()?.enter();
            self.embedded.begin(call)
        };
        match begun {
            Ok(result) => Ok(match Outcome::Called(Box::new(result)).settle() {
                Either::A(result) => Either3::A(result),
                Either::B(fault) => Either3::B(fault),
            }),
            Err(calling) => self.spawn(env, stop, outcome_of(calling)).map(Either3::C),
        }
    }

    /// Starts a call whose events are queued; `notify` is called when there are some.
    #[napi]
    pub fn start_observed<'env>(
        &self,
        env: &'env Env,
        call: (String, String, Option<String>),
        events: &Events,
        notify: NotifyFunction,
        stop: Option<&Stop>,
    ) -> Result<Object<'env>, Fault> {
        let (name, arguments, options) = call;
        let call = self.make_call(name, arguments, options.as_deref())?.observer(events.observer(notify));
        self.spawn(env, stop, outcome_of(self.embedded.calling(call)))
    }

    /// Subscribes to the events of all calls from now on; `notify` is called when there are some.
    #[napi]
    pub fn subscribe(&self, notify: NotifyFunction) -> Result<Subscription, Fault> {
        Ok(Subscription::new(self.runtime()?, self.embedded.subscribe(), notify))
    }

    /// Unloads a component, and returns whether it was loaded.
    #[napi]
    pub fn unload(&self, name: String) -> bool {
        self.embedded.unload(&name)
    }

    /// Returns all tools, each as JSON.
    #[napi]
    pub fn tools(&self) -> Vec<String> {
        let aliases = self.embedded.aliases();
        self.embedded.tools().iter().map(|tool| tool_json(tool, &aliases)).collect()
    }

    /// Returns the tool with this name or alias, as JSON.
    #[napi]
    pub fn tool(&self, name: String) -> Option<String> {
        self.embedded.tool(&name).map(|tool| tool_json(&tool, &self.embedded.aliases()))
    }

    /// Returns the number of calls that are running guest code right now.
    #[napi]
    pub fn running(&self) -> u32 {
        u32::try_from(self.host().running()).unwrap_or(u32::MAX)
    }

    /// Adds an MCP server.
    #[napi]
    pub fn add_server<'env>(
        &self,
        env: &'env Env,
        name: String,
        settings: String,
        stop: Option<&Stop>,
    ) -> Result<Object<'env>, Fault> {
        let section: McpServerSection = read_options(&settings, UNIT).map_err(|error| settings_fault(&error.into()))?;
        let embedded = self.embedded.clone();
        self.spawn(env, stop, async move { Outcome::of_server(embedded.add_server(&name, &section).await) })
    }

    /// Removes an MCP server, and tells whether it was there.
    #[napi]
    pub fn remove_server<'env>(&self, env: &'env Env, name: String) -> Result<Object<'env>, Fault> {
        let embedded = self.embedded.clone();
        self.spawn(env, None, async move { Outcome::Server(embedded.remove_server(&name).await.into()) })
    }

    /// Creates an agent; with `can_ask`, the program is asked about calls.
    #[napi]
    pub fn agent(&self, settings: String, can_ask: bool) -> Result<NativeAgent, Fault> {
        let settings: AgentSettings = read_options(&settings, UNIT).map_err(|error| settings_fault(&error.into()))?;
        let agent = self.embedded.agent(settings, can_ask).map_err(|error| settings_fault(&error))?;
        Ok(NativeAgent::new(agent, self.runtime()?.handle().clone()))
    }

    /// Verifies the event log.
    #[napi]
    pub fn verify_log<'env>(&self, env: &'env Env) -> Result<Object<'env>, Fault> {
        let embedded = self.embedded.clone();
        self.spawn(env, None, async move {
            let verified = tokio::task::spawn_blocking(move || embedded.verify_log()).await;
            verified.map_or(Outcome::ShutDown, Outcome::of_verification)
        })
    }

    /// Accepts no more calls, and stops those that run after `grace` milliseconds.
    #[napi]
    pub fn shutdown<'env>(&self, env: &'env Env, grace: f64) -> Result<Object<'env>, Fault> {
        let grace = Duration::try_from_secs_f64(grace / 1e3)
            .map_err(|error| Fault::new(Code::Setting, format!("`grace`: {error}; expected milliseconds")))?;
        let embedded = self.embedded.clone();
        self.spawn(env, None, async move {
            embedded.shutdown(grace).await;
            Outcome::ShutDown
        })
    }
}

async fn outcome_of(calling: Calling) -> Outcome {
    Outcome::Called(Box::new(calling.await))
}

/// Writes the definition of a tool. All texts are sanitized: they are shown to models.
fn tool_json(tool: &Tool, aliases: &ToolAliases) -> String {
    let definition = tool.definition();
    let tool = json!({
        "name": tool.full_name(),
        "alias": aliases.alias(tool.full_name()),
        "title": definition.title.as_ref().map(|title| title.to_sanitized()),
        "description": definition.description.to_sanitized(),
        "inputSchema": definition.input_schema.to_sanitized(),
        "outputSchema": definition.output_schema.as_ref().map(|schema| schema.to_sanitized()),
        "annotations": definition.annotations,
        "powers": tool.powers(),
    });
    tool.to_string()
}
