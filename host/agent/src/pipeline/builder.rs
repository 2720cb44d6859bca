//! Builder of a pipeline. Configuration that cannot work is refused before the first call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{Approver, CallChecks, Policies, Policy};
use fumehood_core::record::{NullRecorder, Recorder};
use fumehood_core::schema::gate::RepairPolicy;
use fumehood_core::tool::ToolProvider;

use super::allowlist::{Allowlists, DefaultAllowlist, Implementation};
use super::config::{CodeConfig, IdGenerator, Modes, PipelineConfig, default_policy};
use super::error::PipelineError;
use super::executor::Pipeline;
use crate::clock::{Clock, SystemClock};
use crate::code::{CodeMode, CodeTools, Interpreter, ProgramLimits, RUN_CODE};
use crate::memory::{self, READ_RESULT, ResultStore};
use crate::registry::{BuiltIns, ToolPolicy, ToolRegistry};
use crate::tool_search::{SEARCH_TOOLS, ToolCatalogue, ToolSearch};

/// Builder of a [`Pipeline`].
///
/// The default has no tools, allows nothing, and has no rules, hooks or records.
///
/// ```
/// use std::collections::BTreeSet;
/// use std::sync::Arc;
///
/// use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist};
/// use fumehood_agent::pipeline::PipelineBuilder;
/// use fumehood_agent::registry::BuiltIns;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Nothing may be called before it is allowed.
/// let default = DefaultAllowlist::Only(BTreeSet::from(["count".to_owned()]));
/// let allowlists = Allowlists { default, ..Allowlists::default() };
/// let pipeline = PipelineBuilder::default().built_ins(Arc::new(BuiltIns::default())).allowlists(allowlists);
/// // The name of a tool that does not exist is a mistake.
/// assert!(pipeline.build().is_err());
/// # Ok(())
/// # }
/// ```
pub struct PipelineBuilder {
    registry: ToolRegistry,
    code: Option<(Arc<dyn Interpreter>, CodeMode)>,
    skill_interpreter: Option<(Arc<dyn Interpreter>, ProgramLimits)>,
    allowlists: Allowlists,
    rules: Vec<Arc<dyn Policy>>,
    judge: Option<Arc<dyn Policy>>,
    approver: Option<Arc<dyn Approver>>,
    flows: Option<FlowPolicy>,
    call_hooks: Policies,
    policies: HashMap<String, ToolPolicy>,
    agent_policy: ToolPolicy,
    recorder: Arc<dyn Recorder>,
    clock: Arc<dyn Clock>,
    search: Option<ToolSearch>,
    memory: bool,
    results: Option<Arc<ResultStore>>,
    image_bytes: usize,
    modes: Modes,
    repairs: Option<RepairPolicy>,
}

impl fmt::Debug for PipelineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineBuilder").finish_non_exhaustive()
    }
}

impl Default for PipelineBuilder {
    fn default() -> Self {
        Self {
            registry: ToolRegistry::default(),
            code: None,
            skill_interpreter: None,
            allowlists: Allowlists::default(),
            rules: Vec::new(),
            judge: None,
            approver: None,
            flows: None,
            call_hooks: Policies::default(),
            policies: HashMap::new(),
            agent_policy: ToolPolicy::default(),
            recorder: Arc::new(NullRecorder),
            clock: Arc::new(SystemClock),
            search: None,
            memory: false,
            results: None,
            image_bytes: 0,
            modes: Modes::default(),
            repairs: Some(RepairPolicy::default()),
        }
    }
}

impl PipelineBuilder {
    /// Adds functions of the host. They come before all other tools.
    #[must_use]
    pub fn built_ins(mut self, built_ins: Arc<BuiltIns>) -> Self {
        self.registry.add_built_ins(built_ins);
        self
    }

    /// Adds a provider of tools.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.registry.add(provider);
        self
    }

    /// Sets the allowlists.
    #[must_use]
    pub fn allowlists(mut self, allowlists: Allowlists) -> Self {
        self.allowlists = allowlists;
        self
    }

    /// Adds a policy that decides on calls, after the others.
    #[must_use]
    pub fn rule(mut self, rule: Arc<dyn Policy>) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the policy that judges calls that every rule allowed.
    #[must_use]
    pub fn judge(mut self, judge: Arc<dyn Policy>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Sets the approver. Without one, a call that needs approval is refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets the policy for flows of data between tools. Without one, flows are not checked.
    #[must_use]
    pub fn flows(mut self, policy: FlowPolicy) -> Self {
        self.flows = Some(policy);
        self
    }

    /// Sets the hooks of an operator. They run next to the tool, after every other check.
    #[must_use]
    pub fn call_hooks(mut self, hooks: Policies) -> Self {
        self.call_hooks = hooks;
        self
    }

    /// Sets the policy for calls of one tool. It takes precedence over the tool's own policy.
    #[must_use]
    pub fn tool_policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.policies.insert(tool.into(), policy);
        self
    }

    /// Sets the policy for calls of tools that do not set their own.
    #[must_use]
    pub fn agent_policy(mut self, policy: ToolPolicy) -> Self {
        self.agent_policy = policy;
        self
    }

    /// Sets the recorder.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = recorder;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Lists only built-in functions and pinned tools to the model, and lets it find the others with
    /// [`SEARCH_TOOLS`], which is allowed in every scope. By default all tools are listed.
    #[must_use]
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.search = Some(search);
        self
    }

    /// Allows the memory tools, registered by [`memory::register`], in every skill.
    #[must_use]
    pub fn memory_tools(mut self) -> Self {
        self.memory = true;
        self
    }

    /// Sets the maximum size of the images in one result that the model is shown, in bytes, besides the limit on its text.
    /// The default is 0: an image is described.
    #[must_use]
    pub fn image_bytes(mut self, bytes: usize) -> Self {
        self.image_bytes = bytes;
        self
    }

    /// Keeps results in this store, and allows the tool that reads them, registered by
    /// [`memory::register_read_result`], in every skill. A result that is cut says how to read on.
    #[must_use]
    pub fn results(mut self, store: Arc<ResultStore>) -> Self {
        self.results = Some(store);
        self
    }

    /// Gives the model two tools, [`RUN_CODE`] and [`SEARCH_TOOLS`], for programs that call tools. They are allowed in
    /// every scope; each call of a program is checked as if the model had made it directly.
    #[must_use]
    pub fn code(mut self, interpreter: Arc<dyn Interpreter>, mode: CodeMode) -> Self {
        self.code = Some((interpreter, mode));
        self
    }

    /// Sets the interpreter and the limits of programs that do the tasks of skills, where [`Self::code`] gives the model
    /// none.
    #[must_use]
    pub fn skill_interpreter(mut self, interpreter: Arc<dyn Interpreter>, limits: ProgramLimits) -> Self {
        self.skill_interpreter = Some((interpreter, limits));
        self
    }

    /// Sets the options for batches and failures.
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// Sets the repairs that the arguments of a model may get before they are refused; `None` refuses them as they are. The
    /// default is [`RepairPolicy::default`].
    #[must_use]
    pub fn repairs(mut self, repairs: Option<RepairPolicy>) -> Self {
        self.repairs = repairs;
        self
    }

    /// Builds the pipeline.
    ///
    /// # Errors
    /// If a list of tools (a skill's, a channel's, the agent's own, that for scopes without either, the pinned ones)
    /// or a label names one that is not registered now, a tool has a name that code mode or tool search needs, both are on,
    /// or the implementation of a skill cannot work.
    pub fn build(mut self) -> Result<Pipeline, PipelineError> {
        if self.results.is_some() {
            self.allowlists.auto_tools.extend([READ_RESULT.to_owned()]);
        }
        if self.memory {
            self.allowlists.auto_tools.extend(memory::TOOL_NAMES.map(str::to_owned));
        }
        self.check_names()?;
        if self.code.is_some() && self.search.is_some() {
            return Err(PipelineError::CodeAndSearch);
        }
        let code = self.code_config()?;
        self.check_implementations(code.as_ref())?;
        let catalogue = self.search.take().map(|search| ToolCatalogue::new(search, self.registry.clone()));
        let config = PipelineConfig {
            registry: self.registry,
            code,
            catalogue: catalogue.transpose()?.map(Arc::new),
            allowlists: self.allowlists,
            checks: CallChecks {
                rules: self.rules.into_iter().chain(self.judge).collect(),
                flows: self.flows,
                hooks: self.call_hooks,
            },
            approver: self.approver,
            policies: self.policies,
            agent_policy: self.agent_policy.or(&default_policy()),
            withheld: Vec::new(),
            recorder: self.recorder,
            clock: self.clock,
            ids: Arc::new(IdGenerator::new()?),
            results: self.results,
            image_bytes: self.image_bytes,
            modes: self.modes,
            repairs: self.repairs.map(Arc::new),
        };
        Ok(Pipeline::new(config.find_withheld()))
    }

    /// Returns code mode for the model, or else that for skills alone.
    fn code_config(&self) -> Result<Option<CodeConfig>, PipelineError> {
        let offered = self.code.clone();
        let is_offered = offered.is_some();
        let for_skills = || Some((Arc::clone(&self.skill_interpreter.as_ref()?.0), self.skill_interpreter.as_ref()?.1));
        let for_skills = || for_skills().map(|(interpreter, limits)| (interpreter, CodeMode::default().limits(limits)));
        let Some((interpreter, mode)) = offered.or_else(for_skills) else { return Ok(None) };
        Ok(Some(CodeConfig { interpreter, tools: CodeTools::new()?, mode, is_offered }))
    }

    /// Checks that the implementation of each skill can work. Its tools are checked with those of all lists.
    fn check_implementations(&self, code: Option<&CodeConfig>) -> Result<(), PipelineError> {
        for (name, skill) in &self.allowlists.skills {
            if skill.is_ambiguous() {
                return Err(PipelineError::AmbiguousSkill(name.clone()));
            }
            let Some(Implementation::Program { code: source, .. }) = skill.implementation() else { continue };
            let Some(code) = code else { return Err(PipelineError::NoInterpreter(name.clone())) };
            let bytes = source.len();
            let limit = code.mode.limits.code;
            if bytes > limit {
                return Err(PipelineError::LargeProgram { skill: name.clone(), bytes, limit });
            }
        }
        Ok(())
    }

    /// Checks that every listed name is registered. A misspelt name would silently allow nothing.
    fn check_names(&self) -> Result<(), PipelineError> {
        if (self.code.is_some() || self.skill_interpreter.is_some())
            && let Some(name) = [RUN_CODE, SEARCH_TOOLS].into_iter().find(|name| self.registry.contains(name))
        {
            return Err(PipelineError::CodeToolName(name));
        }
        let missing = |name: &str| !self.registry.contains(name);
        if let Some(name) = self.flows.iter().flat_map(FlowPolicy::labelled_tools).find(|name| missing(name)) {
            return Err(PipelineError::UnknownLabelled(name.to_owned()));
        }
        if let Some((skill, tool)) = self.allowlists.tool_names().find(|(_, tool)| missing(tool)) {
            let tool = tool.to_owned();
            return Err(match skill {
                Some(skill) => PipelineError::UnknownTool { skill: skill.to_owned(), tool },
                None => PipelineError::UnknownAutoTool(tool),
            });
        }
        if let Some(search) = &self.search {
            if !missing(SEARCH_TOOLS) {
                return Err(PipelineError::SearchNameTaken);
            }
            if let Some(name) = search.pinned.iter().find(|name| missing(name)) {
                return Err(PipelineError::UnknownPinned(name.clone()));
            }
        }
        let channel_tools =
            self.allowlists.channels.iter().flat_map(|(name, channel)| channel.tools.iter().map(move |it| (name, it)));
        if let Some((channel, tool)) = channel_tools.into_iter().find(|(_, tool)| missing(tool)) {
            return Err(PipelineError::UnknownInChannel { channel: channel.clone(), tool: tool.clone() });
        }
        match &self.allowlists.default {
            DefaultAllowlist::Only(names) => match names.iter().find(|name| missing(name)) {
                Some(name) => Err(PipelineError::UnknownAllowed(name.clone())),
                None => Ok(()),
            },
            DefaultAllowlist::Nothing | DefaultAllowlist::Everything => Ok(()),
        }
    }
}
