//! The builder of an agent over the tools of a host.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::agent::{Agent, Clock, LoopBuilder, SystemClock, Tap};
use fumehood_agent::allowlist::{Allowlists, Implementation, Skill};
use fumehood_agent::code::ProgramLimits;
use fumehood_agent::driver::Driver;
use fumehood_agent::executor::{Scope, ToolExecutor};
use fumehood_agent::guardrail::ArgumentBytes;
use fumehood_agent::identity::ActorArguments;
use fumehood_agent::memory::{self, Memory, ResultStore};
use fumehood_agent::native::NativeDriver;
use fumehood_agent::pipeline::{Modes, PipelineBuilder};
use fumehood_agent::registry::{ActorFilter, BuiltIns};
use fumehood_agent::session::{OldestResultsFirst, SessionConfig};
use fumehood_core::chat::Model;
use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{Approver, Policies};
use fumehood_core::record::{Durability, NullRecorder, Recorder};
use fumehood_core::tool::ToolProvider;
#[cfg(feature = "storage")]
use fumehood_storage::event_log::{EventLog, Options};

use super::allowed_tools::{always, seal};
use super::error::AgentError;
use crate::host::Host;

/// Maximum size of the arguments of a call, in bytes, unless a host sets another.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

type Change = Box<dyn FnOnce(PipelineBuilder) -> PipelineBuilder + Send>;

/// A builder of an agent over the tools of a host, made by [`Host::agent`].
///
/// The defaults are:
///
/// - the native driver
/// - the pipeline over the host's tools, of which **none may be called** until they are allowed
/// - one rule: arguments have at most 1 MiB
/// - the budget of [`Budget::default`](fumehood_agent::budget::Budget::default)
/// - no records
/// - no approver
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::agent::budget::Budget;
/// use fumehood::model::{ScriptedModel, ScriptedReply};
/// use fumehood::{Host, Load};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// # let host = Host::builder().build()?;
/// # host.load(Load::path(path)).await?;
/// # let model = ScriptedModel::new(vec![
/// #     ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#),
/// #     ScriptedReply::text("It is 8."),
/// # ]);
/// let mut agent = host
///     .agent(Arc::new(model))
///     .prompt("You answer questions about sums, and use the calculator for them.")
///     .allow(["calculator__add", "calculator__multiply"])
///     .budget(Budget { calls: 5, ..Budget::default() })
///     .actor("ann")
///     .build()?;
/// let outcome = agent.run("What is 3 + 5?").await?;
/// assert_eq!(outcome.text(), "It is 8.");
/// assert_eq!(outcome.run.executions().count(), 1);
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `build`"]
pub struct AgentBuilder {
    pub(super) host: Host,
    tools: Option<Arc<dyn ToolProvider>>,
    pub(super) agent: LoopBuilder,
    driven: bool,
    executor: Option<Arc<dyn ToolExecutor>>,
    built_ins: Arc<BuiltIns>,
    pub(super) allowlists: Allowlists,
    memory: Option<Arc<dyn Memory>>,
    pub(super) context_bytes: Option<usize>,
    changes: Vec<Change>,
    pub(super) config: SessionConfig,
    pub(super) scope: Scope,
    pub(super) channel: Option<String>,
    argument_bytes: usize,
    actor_arguments: ActorArguments,
    #[cfg(feature = "storage")]
    log: Option<std::path::PathBuf>,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    durability: Durability,
    clock: Arc<dyn Clock>,
    human: Option<Arc<dyn Approver>>,
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}

impl Host {
    /// Creates a builder of an agent for this model and the tools of this host, as far as they are allowed. Tools that
    /// are loaded later are included.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::model::{ScriptedModel, ScriptedReply};
    /// use fumehood::{Host, Load};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
    /// let host = Host::builder().build()?;
    /// host.load(Load::path(path)).await?;
    ///
    /// // In place of a model of a provider, this one follows a script.
    /// let model = ScriptedModel::new(vec![
    ///     ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#),
    ///     ScriptedReply::text("It is 8.").expect_text("8"),
    /// ]);
    /// let mut agent = host.agent(Arc::new(model)).allow_everything().build()?;
    /// assert_eq!(agent.run("What is 3 + 5?").await?.text(), "It is 8.");
    /// # host.shutdown(std::time::Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn agent(&self, model: Arc<dyn Model>) -> AgentBuilder {
        AgentBuilder {
            host: self.clone(),
            tools: None,
            agent: Agent::builder(model),
            driven: false,
            executor: None,
            built_ins: Arc::default(),
            allowlists: Allowlists::default(),
            memory: None,
            context_bytes: None,
            changes: Vec::new(),
            config: SessionConfig::default(),
            scope: Scope::default(),
            channel: None,
            argument_bytes: MAX_ARGUMENT_BYTES,
            actor_arguments: ActorArguments::none(),
            #[cfg(feature = "storage")]
            log: None,
            recorder: None,
            durability: Durability::default(),
            clock: Arc::new(SystemClock),
            human: None,
        }
    }
}

/// Setters of parts that replace the defaults.
impl AgentBuilder {
    /// Sets the driver, which reads decisions from replies. The default is the native driver.
    pub fn driver(mut self, driver: impl Driver + 'static) -> Self {
        self.agent = self.agent.driver(driver);
        self.driven = true;
        self
    }

    /// Replaces the pipeline as the executor of calls. Settings of tools, allowlists, memory and the pipeline have
    /// no effect then.
    pub fn executor(mut self, executor: Arc<dyn ToolExecutor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Sets the built-in tools: functions of this program, in addition to the tools of components.
    pub fn built_ins(mut self, tools: Arc<BuiltIns>) -> Self {
        self.built_ins = tools;
        self
    }

    /// Replaces the tools of the host, such as by those of one tenant.
    pub fn tools(mut self, tools: Arc<dyn ToolProvider>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Adds a provider of tools, such as [`McpTools`](crate::McpTools). It is searched after those of the same kind.
    pub fn provider(self, provider: Arc<dyn ToolProvider>) -> Self {
        self.pipeline(move |pipeline| pipeline.provider(provider))
    }

    /// Gives the model notes of its own, and three tools to read, write and search them, which are always allowed.
    pub fn memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the maximum size of the arguments of a call, in bytes. The default is 1 MiB.
    pub fn argument_bytes(mut self, bytes: usize) -> Self {
        self.argument_bytes = bytes;
        self
    }

    /// Refuses tools of components with arguments of these names: they would let the model choose on whose behalf they
    /// run. Without this, such names are data like any other. For tools of servers, see
    /// [`McpTools::without_arguments`](crate::McpTools::without_arguments).
    pub fn actor_arguments(mut self, names: ActorArguments) -> Self {
        self.actor_arguments = names;
        self
    }

    /// Sets the hooks of the operator. They decide on every call, those of programs included.
    pub fn hooks(self, hooks: Policies) -> Self {
        self.pipeline(move |pipeline| pipeline.call_hooks(hooks))
    }

    /// Configures the pipeline before it is built: rules, judges, hooks, policies, further providers.
    pub fn pipeline(mut self, change: impl FnOnce(PipelineBuilder) -> PipelineBuilder + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Sets the policy for flows of data between tools. Without one, flows are not checked.
    pub fn flows(self, policy: FlowPolicy) -> Self {
        self.pipeline(move |pipeline| pipeline.flows(policy))
    }

    /// Records in an event log in this file: [`EventLog::open`] with default options. The log is closed with the agent.
    #[cfg(feature = "storage")]
    pub fn event_log(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Sets the recorder. It takes precedence over `event_log`.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets how long the loop and each call wait for their records.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the clock. The default is that of the system.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the approver, who is asked about calls that a guardrail does not decide on, and for more turns when they
    /// have run out.
    pub fn approver(mut self, human: Arc<dyn Approver>) -> Self {
        self.human = Some(human);
        self
    }
}

impl AgentBuilder {
    /// Builds the agent.
    ///
    /// # Errors
    /// If a name is unknown, a tool cannot be presented to a model, or the event log cannot be opened.
    pub fn build(mut self) -> Result<Agent, AgentError> {
        #[cfg(feature = "storage")]
        if let (None, Some(path)) = (&self.recorder, self.log.take()) {
            self.recorder = Some(Arc::new(EventLog::open(path, &Options::default())?));
        }
        let tap = Arc::new(Tap::new(self.recorder.take().unwrap_or_else(|| Arc::new(NullRecorder))));
        let executor = match self.executor.take() {
            Some(executor) => executor,
            None => self.build_executor(&tap)?,
        };
        let mut agent = if self.driven { self.agent } else { self.agent.driver(NativeDriver::default()) };
        if let Some(max_bytes) = self.context_bytes {
            agent = agent.compaction(Arc::new(OldestResultsFirst { max_bytes, can_be_read: true }));
        }
        let mut agent = agent
            .executor(executor)
            .config(self.config)
            .scope(self.scope)
            .tap(tap)
            .durability(self.durability)
            .clock(self.clock);
        if let Some(human) = self.human {
            agent = agent.approver(human);
        }
        Ok(agent.build()?)
    }

    fn build_executor(&mut self, tap: &Arc<Tap>) -> Result<Arc<dyn ToolExecutor>, AgentError> {
        let mut allowlists = std::mem::take(&mut self.allowlists);
        if let Some(skill) = self.scope.skill.as_deref().filter(|name| !allowlists.skills.contains_key(*name)) {
            return Err(AgentError::UnknownSkill(skill.to_owned()));
        }
        let skill = self.scope.skill.as_deref().and_then(|name| allowlists.skills.get(name));
        if self.config.output.is_some() && skill.is_some_and(|skill| skill.output().is_some()) {
            return Err(AgentError::TwoSchemas);
        }
        if let Some(channel) = self.channel.take() {
            self.scope.envelope = Some(seal(&mut allowlists, &channel, &self.scope)?);
        }
        let is_program = |skill: &Skill| matches!(skill.implementation(), Some(Implementation::Program { .. }));
        let has_programs = allowlists.skills.values().any(is_program);
        let tools = self.tools.take().unwrap_or_else(|| Arc::new(self.host.clone()));
        let components = ActorFilter::wrap(tools, self.actor_arguments.clone())?;
        let mut pipeline = PipelineBuilder::default();
        if let Some(memory) = &self.memory {
            memory::register(&self.built_ins, memory)?;
            pipeline = pipeline.memory_tools();
            always(&mut allowlists.default, memory::TOOL_NAMES);
        }
        if self.context_bytes.is_some() {
            let results = Arc::new(ResultStore::default());
            memory::register_read_result(&self.built_ins, &results)?;
            pipeline = pipeline.results(results);
            always(&mut allowlists.default, [memory::READ_RESULT]);
        }
        pipeline = pipeline
            .built_ins(Arc::clone(&self.built_ins))
            .provider(components)
            .allowlists(allowlists)
            .rule(Arc::new(ArgumentBytes(self.argument_bytes)))
            .recorder(Arc::clone(tap) as _)
            .modes(Modes { durability: self.durability, ..Modes::default() })
            .clock(Arc::clone(&self.clock));
        if let Some(human) = &self.human {
            pipeline = pipeline.approver(Arc::clone(human));
        }
        if has_programs {
            pipeline = pipeline.skill_interpreter(Arc::new(self.host.javascript()), ProgramLimits::default());
        }
        for change in self.changes.drain(..) {
            pipeline = change(pipeline);
        }
        Ok(Arc::new(pipeline.build()?))
    }
}
