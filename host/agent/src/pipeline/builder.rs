//! Puts a pipeline together, and refuses what cannot work before the first call.

use std::collections::HashMap;
use std::sync::Arc;

use fumehood_core::record::{NullRecorder, Recorder};

use super::executor::Pipeline;
use super::ids::Ids;
use super::parts::{Modes, Observers, Parts, StateSink, default_policy};
use crate::allowlist::{self, Allowlists};
use crate::approver::Approver;
use crate::clock::{Clock, SystemClock};
use crate::guardrail::{Judge, JudgePolicy, Rule, Rules};
use crate::hook::{AfterHook, AfterHooks, BeforeHook, BeforeHooks};
use crate::memory::{self, Episodes};
use crate::registry::{Policy, Registries, ToolFamily};

/// Why a pipeline cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A skill names a tool that is not there.
    #[error("the skill '{skill}' names the tool '{tool}', which is not registered; register it or correct the name")]
    UnknownTool {
        /// Which skill.
        skill: String,
        /// The name.
        tool: String,
    },
    /// A channel names a tool that is not there.
    #[error(
        "the channel '{channel}' names the tool '{tool}', which is not registered; register it or correct the name"
    )]
    UnknownInChannel {
        /// Which channel.
        channel: String,
        /// The name.
        tool: String,
    },
    /// The list of the agent's own tools has one that is not there.
    #[error("the agent's own tools name '{0}', which is not registered; register it or correct the name")]
    UnknownAutoTool(String),
    /// What may be called without a skill or a channel has a tool that is not there.
    #[error("the tool '{0}' is to be allowed, and is not registered; register it or correct the name")]
    UnknownAllowed(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers to name records with")]
    Random(#[from] getrandom::Error),
}

/// Starts with nothing: no tools, nothing allowed, no rules, no hooks, no records.
pub struct PipelineBuilder {
    registries: Registries,
    allowlists: Allowlists,
    rules: Rules,
    judge: Option<(Arc<dyn Judge>, JudgePolicy)>,
    approver: Option<Arc<dyn Approver>>,
    before: BeforeHooks,
    after: AfterHooks,
    policies: HashMap<String, Policy>,
    agent_policy: Policy,
    recorder: Arc<dyn Recorder>,
    clock: Arc<dyn Clock>,
    observers: Observers,
    episodes: Option<Arc<Episodes>>,
    state_sink: Option<Arc<dyn StateSink>>,
    memory: bool,
    modes: Modes,
}

impl Default for PipelineBuilder {
    fn default() -> Self {
        Self {
            registries: Registries::default(),
            allowlists: Allowlists::default(),
            rules: Rules::default(),
            judge: None,
            approver: None,
            before: BeforeHooks::default(),
            after: AfterHooks::default(),
            policies: HashMap::new(),
            agent_policy: Policy::default(),
            recorder: Arc::new(NullRecorder),
            clock: Arc::new(SystemClock),
            observers: Observers::default(),
            episodes: None,
            state_sink: None,
            memory: false,
            modes: Modes::default(),
        }
    }
}

impl PipelineBuilder {
    /// Adds a registry.
    #[must_use]
    pub fn family(mut self, family: Arc<dyn ToolFamily>) -> Self {
        self.registries.add(family);
        self
    }

    /// Says what may be called.
    #[must_use]
    pub fn allowlists(mut self, allowlists: Allowlists) -> Self {
        self.allowlists = allowlists;
        self
    }

    /// Adds a rule after the others.
    #[must_use]
    pub fn rule(mut self, rule: Arc<dyn Rule>) -> Self {
        self.rules.add(rule);
        self
    }

    /// Has calls judged that every rule let through.
    #[must_use]
    pub fn judge(mut self, judge: Arc<dyn Judge>, policy: JudgePolicy) -> Self {
        self.judge = Some((judge, policy));
        self
    }

    /// Says who is asked. Without anybody, a call that somebody would have to be asked about is refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Adds a hook before calls.
    #[must_use]
    pub fn before(mut self, hook: Arc<dyn BeforeHook>) -> Self {
        self.before.add(hook);
        self
    }

    /// Adds a hook after calls.
    #[must_use]
    pub fn after(mut self, hook: Arc<dyn AfterHook>) -> Self {
        self.after.add(hook);
        self
    }

    /// Says how the calls of one tool are treated, before what the tool itself says.
    #[must_use]
    pub fn tool_policy(mut self, tool: impl Into<String>, policy: Policy) -> Self {
        self.policies.insert(tool.into(), policy);
        self
    }

    /// Says how calls are treated where their tool does not say.
    #[must_use]
    pub fn agent_policy(mut self, policy: Policy) -> Self {
        self.agent_policy = policy;
        self
    }

    /// Says where records go.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = recorder;
        self
    }

    /// Says what time it is.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Says who looks on.
    #[must_use]
    pub fn observers(mut self, observers: Observers) -> Self {
        self.observers = observers;
        self
    }

    /// Says where the short account of calls goes.
    #[must_use]
    pub fn episodes(mut self, episodes: Arc<Episodes>) -> Self {
        self.episodes = Some(episodes);
        self
    }

    /// Says who is told of states that hooks changed.
    #[must_use]
    pub fn state_sink(mut self, sink: Arc<dyn StateSink>) -> Self {
        self.state_sink = Some(sink);
        self
    }

    /// Lets every skill use the memory's tools, which [`memory::register`] has registered.
    #[must_use]
    pub fn with_memory(mut self) -> Self {
        self.memory = true;
        self
    }

    /// Says how batches and failures are treated.
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// The pipeline.
    ///
    /// # Errors
    /// If a list of tools (a skill's, a channel's, the agent's own, that for scopes without either) names one that is not
    /// registered now.
    pub fn build(mut self) -> Result<Pipeline, PipelineError> {
        if self.memory {
            self.allowlists.auto_tools.extend(memory::NAMES.map(str::to_owned));
        }
        self.check_names()?;
        Ok(Pipeline::new(Parts {
            registries: self.registries,
            allowlists: self.allowlists,
            rules: self.rules,
            judge: self.judge,
            approver: self.approver,
            before: self.before,
            after: self.after,
            policies: self.policies,
            agent_policy: self.agent_policy.or(&default_policy()),
            recorder: self.recorder,
            clock: self.clock,
            ids: Arc::new(Ids::new()?),
            observers: self.observers,
            episodes: self.episodes,
            state_sink: self.state_sink,
            modes: self.modes,
        }))
    }

    /// A name that is misspelt would silently allow nothing.
    fn check_names(&self) -> Result<(), PipelineError> {
        let missing = |name: &str| self.registries.find(name).is_none();
        if let Some((skill, tool)) = self.allowlists.named().find(|(_, tool)| missing(tool)) {
            let tool = tool.to_owned();
            return Err(match skill {
                Some(skill) => PipelineError::UnknownTool { skill: skill.to_owned(), tool },
                None => PipelineError::UnknownAutoTool(tool),
            });
        }
        let of_channels =
            self.allowlists.channels.iter().flat_map(|(name, tools)| tools.iter().map(move |it| (name, it)));
        if let Some((channel, tool)) = of_channels.into_iter().find(|(_, tool)| missing(tool)) {
            return Err(PipelineError::UnknownInChannel { channel: channel.clone(), tool: tool.clone() });
        }
        match &self.allowlists.default {
            allowlist::Default::Only(names) => match names.iter().find(|name| missing(name)) {
                Some(name) => Err(PipelineError::UnknownAllowed(name.clone())),
                None => Ok(()),
            },
            allowlist::Default::Nothing | allowlist::Default::Everything => Ok(()),
        }
    }
}
