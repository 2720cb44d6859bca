//! Configuration of a pipeline: tools, policies, hooks, and the ports that it uses.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::persistence::Persistence;
use fumehood_core::policy::call::{Approver, CallChecks};
use fumehood_core::record::{Durability, Recorder};
use fumehood_core::schema::gate::RepairPolicy;
use fumehood_core::tool::Tool;

use super::allowlist::Allowlists;
use crate::clock::Clock;
use crate::code::{CodeMode, CodeTools, Interpreter, RUN_CODE};
use crate::memory::{READ_RESULT, ResultStore};
use crate::registry::{RegisteredTool, ToolPolicy, ToolRegistry};
use crate::tool_search::ToolCatalogue;
use crate::truncate::DEFAULT_RESULT_BYTES;

/// Tools whose arguments and results contain those of other tools: programs, and results that are read on. If nothing is
/// recorded of the calls of one tool, nothing is recorded of theirs.
pub const RELAY_TOOLS: [&str; 2] = [RUN_CODE, READ_RESULT];

/// Options for batches and failures.
#[derive(Debug, Clone, Copy)]
pub struct Modes {
    /// Ends a batch at the first call that fails. The calls then run one after the other. Default: `false`.
    pub throw_on_tool_failure: bool,
    /// Ends a batch at the first call that a hook blocks. The calls then run one after the other. Default: `false`.
    pub stop_on_tool_block: bool,
    /// Maximum number of calls of a batch that run at a time. Default: 16.
    pub concurrency: NonZeroUsize,
    /// The durability that a call waits for before it runs, and before its result is seen. Default:
    /// [`Durability::Written`].
    pub durability: Durability,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            throw_on_tool_failure: false,
            stop_on_tool_block: false,
            concurrency: NonZeroUsize::MIN.saturating_add(15),
            durability: Durability::Written,
        }
    }
}

/// Returns the policy for tools without any other: results of at most [`DEFAULT_RESULT_BYTES`], and an expected
/// duration of 10 s.
pub(super) fn default_policy() -> ToolPolicy {
    ToolPolicy {
        result_bytes: Some(DEFAULT_RESULT_BYTES),
        expected_duration: Some(Duration::from_secs(10)),
        ..ToolPolicy::default()
    }
}

/// Code mode: its interpreter, its tools and its limits.
pub(super) struct CodeConfig {
    pub(super) interpreter: Arc<dyn Interpreter>,
    pub(super) tools: CodeTools,
    pub(super) mode: CodeMode,
    /// True if a model has it; otherwise only programs of skills run.
    pub(super) is_offered: bool,
}

/// The parts that a [`PipelineBuilder`](super::PipelineBuilder) puts together.
pub(super) struct PipelineConfig {
    pub(super) registry: ToolRegistry,
    pub(super) code: Option<CodeConfig>,
    /// `Some` if tools have to be found before they are called.
    pub(super) catalogue: Option<Arc<ToolCatalogue>>,
    pub(super) allowlists: Allowlists,
    pub(super) checks: CallChecks,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) policies: HashMap<String, ToolPolicy>,
    pub(super) agent_policy: ToolPolicy,
    /// The names of the tools whose calls are not recorded in full.
    pub(super) withheld: Vec<String>,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<IdGenerator>,
    /// Bytes of images in one result that a model is shown.
    pub(super) image_bytes: usize,
    /// Results that a model may read on.
    pub(super) results: Option<Arc<ResultStore>>,
    pub(super) modes: Modes,
    /// The repairs that the arguments of a model may get.
    pub(super) repairs: Option<Arc<RepairPolicy>>,
}

impl PipelineConfig {
    /// Returns the policy for calls of a tool: what the host sets for it, then its own, then that of the agent.
    pub(super) fn policy(&self, found: &RegisteredTool) -> ToolPolicy {
        let name = found.tool.full_name();
        let own = found.policy().or(&self.agent_policy);
        let policy = self.policies.get(name).map_or(own.clone(), |policy| policy.clone().or(&own));
        if self.withheld.is_empty() || !RELAY_TOOLS.contains(&name) {
            return policy;
        }
        // It passes on arguments and results of a tool whose calls are not recorded.
        ToolPolicy { persist: Some(Persistence::Nothing), ..policy }
    }

    /// Finds the tools whose calls are not recorded in full, and those that pass on what they got and gave.
    pub(super) fn find_withheld(mut self) -> Self {
        let is_private = |tool: &Arc<Tool>| {
            self.registry.find(tool.full_name()).is_some_and(|found| self.policy(&found).is_withheld())
        };
        let of_registry = self.registry.tools().into_iter().filter(is_private).map(|tool| tool.full_name().to_owned());
        let of_host = self.policies.iter().filter(|(_, policy)| policy.is_withheld()).map(|(name, _)| name.clone());
        let mut withheld: Vec<String> = of_registry.chain(of_host).collect();
        if !withheld.is_empty() {
            withheld.extend(RELAY_TOOLS.map(str::to_owned));
        }
        withheld.sort_unstable();
        withheld.dedup();
        self.withheld = withheld;
        self
    }
}

/// Generator of unique names for records, executions and calls: a random part for each pipeline, and a counter.
#[derive(Debug)]
pub(super) struct IdGenerator {
    origin: String,
    next: AtomicU64,
    executions: OpaqueNumbers,
}

impl IdGenerator {
    /// Creates a generator with a random part of its own.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let origin = format!("{:016x}", getrandom::u64()?);
        Ok(Self { origin, next: AtomicU64::new(0), executions: OpaqueNumbers::default() })
    }

    /// Returns the id of the next execution. The part that differs comes first, so that a short prefix identifies it.
    pub(super) fn next_execution(&self) -> String {
        let number = self.executions.encode(self.next.fetch_add(1, Ordering::Relaxed));
        format!("{number:016x}-{}", self.origin)
    }

    /// Returns the next name. It starts with `prefix`, such as `call` or `rec`.
    pub(super) fn next(&self, prefix: &str) -> String {
        // In one piece: two separators, and at most 16 digits.
        let mut name = String::with_capacity(prefix.len() + self.origin.len() + 18);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let _infallible = write!(name, "{prefix}_{}_{number:x}", self.origin);
        name
    }
}
