//! What a pipeline is made of.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::record::{Durability, Recorder};
use fumehood_core::result::CallResult;
use serde_json::Value;

use super::ids::Ids;
use crate::allowlist::Allowlists;
use crate::approver::Approver;
use crate::clock::Clock;
use crate::executor::Scope;
use crate::guardrail::{Judge, JudgePolicy, Rules};
use crate::hook::{AfterHooks, BeforeHooks};
use crate::memory::Episodes;
use crate::registry::{Policy, Registries, Tool};
use crate::truncate::RESULT_BYTES;

/// How a pipeline treats batches and failures.
#[derive(Debug, Clone, Copy)]
pub struct Modes {
    /// The first call that fails ends its batch. The calls then run one after the other.
    pub throw_on_tool_failure: bool,
    /// The first call that a hook blocks ends its batch. The calls then run one after the other.
    pub stop_on_tool_block: bool,
    /// A hook that changes what it does not declare fails the call, instead of having its change undone.
    pub strict_hooks: bool,
    /// Most calls of a batch that run at a time. 16.
    pub concurrency: NonZeroUsize,
    /// How long a call waits for its records.
    pub durability: Durability,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            throw_on_tool_failure: false,
            stop_on_tool_block: false,
            strict_hooks: false,
            concurrency: NonZeroUsize::MIN.saturating_add(15),
            durability: Durability::Queued,
        }
    }
}

/// What every tool is treated by where nobody says more.
pub(super) fn default_policy() -> Policy {
    Policy { result_bytes: Some(RESULT_BYTES), expected_duration: Some(Duration::from_secs(10)), ..Policy::default() }
}

/// Takes the agent's state once hooks of a batch have changed it. Must not block.
pub trait StateSink: Send + Sync {
    /// The state of this scope's agent after the batch, as JSON text.
    fn state(&self, scope: &Scope, state: Arc<str>);
}

type OnToolUse = dyn Fn(&str, &Value, &CallResult) + Send + Sync;
type OnKnowledgeUsed = dyn Fn(&str, &str) + Send + Sync;

/// Callbacks that only look. They must not block.
#[derive(Clone, Default)]
pub struct Observers {
    /// Sees name, arguments and result of every successful call of a tool that does something; also if it took
    /// another attempt. Not called for knowledge, nor for a call that ended the run.
    pub on_tool_use: Option<Arc<OnToolUse>>,
    /// Sees name and text of every entry of knowledge that was read.
    pub on_knowledge_used: Option<Arc<OnKnowledgeUsed>>,
}

/// All of it.
pub(super) struct Parts {
    pub(super) registries: Registries,
    pub(super) allowlists: Allowlists,
    pub(super) rules: Rules,
    pub(super) judge: Option<(Arc<dyn Judge>, JudgePolicy)>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) before: BeforeHooks,
    pub(super) after: AfterHooks,
    pub(super) policies: HashMap<String, Policy>,
    pub(super) agent_policy: Policy,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<Ids>,
    pub(super) observers: Observers,
    pub(super) episodes: Option<Arc<Episodes>>,
    pub(super) state_sink: Option<Arc<dyn StateSink>>,
    pub(super) modes: Modes,
}

impl Parts {
    /// How calls of this tool are treated: the host's word about it, then its own, then that about all.
    pub(super) fn policy(&self, tool: &dyn Tool) -> Policy {
        let own = tool.policy().or(&self.agent_policy);
        match self.policies.get(tool.contract().name()) {
            Some(policy) => policy.clone().or(&own),
            None => own,
        }
    }
}
