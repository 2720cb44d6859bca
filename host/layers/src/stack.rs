//! The order of the layers around the tools of a face.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{Approver, CallChecks, Policies};
use fumehood_core::tool::{
    Changes, PendingCall, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall, unknown_tool,
};

use crate::allowlist::AllowedTools;
use crate::checks::CheckedTools;
use crate::record::CallLog;

/// A source of tools below the layers.
pub enum Source {
    /// A provider whose calls the stack records.
    Provider(Arc<dyn ToolProvider>),
    /// A provider that records its calls itself.
    Recording(Arc<dyn RecordingProvider>),
}

impl<P: RecordingProvider + 'static> From<P> for Source {
    fn from(tools: P) -> Self {
        Self::Recording(Arc::new(tools))
    }
}

impl From<Arc<dyn ToolProvider>> for Source {
    fn from(tools: Arc<dyn ToolProvider>) -> Self {
        Self::Provider(tools)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider(_) => "Provider",
            Self::Recording(_) => "Recording",
        })
    }
}

impl Source {
    fn into_provider(self) -> Arc<dyn ToolProvider> {
        match self {
            Self::Provider(tools) => tools,
            Self::Recording(tools) => tools,
        }
    }
}

/// A provider that can record its calls itself, once they have a place: a call that gets none has not started.
pub trait RecordingProvider: ToolProvider {
    /// Returns the same tools, with every call recorded in `log`.
    fn recorded(&self, log: CallLog) -> Arc<dyn ToolProvider>;
}

/// The layers around the tools of a face: a command, a server, a gateway, an embedder.
///
/// The defaults are:
///
/// - every tool is offered
/// - no policies and no flows
/// - nobody can be asked
/// - nothing is recorded
#[derive(Clone, Default)]
pub struct Stack {
    only: Option<BTreeSet<String>>,
    checks: CallChecks,
    approver: Option<Arc<dyn Approver>>,
    log: Option<CallLog>,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { only, checks, log, .. } = self;
        let mut shown = f.debug_struct("Stack");
        shown.field("only", only).field("checks", checks).field("log", log).finish_non_exhaustive()
    }
}

impl Stack {
    /// Creates a stack without layers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers only these tools, by their full names.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = Some(names.into_iter().collect());
        self
    }

    /// Sets the policies that decide on calls and results.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.checks.hooks = policies;
        self
    }

    /// Sets who answers the questions of policies. Without an approver, a call about which a policy asks is refused.
    #[must_use]
    pub fn approver(mut self, approver: Option<Arc<dyn Approver>>) -> Self {
        self.approver = approver;
        self
    }

    /// Sets the policy for flows of data between tools.
    #[must_use]
    pub fn flows(mut self, policy: Option<FlowPolicy>) -> Self {
        self.checks.flows = policy;
        self
    }

    /// Records every call in `log` before it runs.
    #[must_use]
    pub fn log(mut self, log: Option<CallLog>) -> Self {
        self.log = log;
        self
    }

    /// Puts the layers around the tools of these sources. A name that several have means the tool of the first.
    ///
    /// A call passes the layers from the last to the first:
    ///
    /// ```text
    /// allowlist ─ gate ─ flows ─ policies before ─ questions ─ record of the start ─ run ─ policies after ─ record of the end
    /// ```
    ///
    /// Flows, policies and questions are the [`CallChecks`] that an agent has too. Without an approver, a call about which a
    /// policy asks is refused. The limits of tenants, [`TenantTools`](crate::TenantTools), are in front of it, and code mode
    /// between both, so that each call of a program passes the whole stack.
    #[must_use]
    pub fn around(&self, sources: impl IntoIterator<Item: Into<Source>>) -> Arc<dyn ToolProvider> {
        let sources = sources.into_iter().map(Into::into);
        let tools = if self.checks.is_empty() {
            join(sources.map(|source| self.record(source)).collect())
        } else {
            self.check(join(sources.map(Source::into_provider).collect()), self.log.clone())
        };
        match &self.only {
            Some(names) => Arc::new(AllowedTools::new(tools, names.clone())),
            None => tools,
        }
    }

    fn check(&self, tools: Arc<dyn ToolProvider>, log: Option<CallLog>) -> Arc<dyn ToolProvider> {
        Arc::new(CheckedTools::new(tools, self.checks.clone(), log, self.approver.clone()))
    }

    /// Records the calls of a source without checks.
    fn record(&self, source: Source) -> Arc<dyn ToolProvider> {
        match (source, &self.log) {
            (Source::Recording(tools), Some(log)) => tools.recorded(log.clone()),
            (Source::Provider(tools), Some(log)) => self.check(tools, Some(log.clone())),
            (source, None) => source.into_provider(),
        }
    }
}

fn join(mut sources: Vec<Arc<dyn ToolProvider>>) -> Arc<dyn ToolProvider> {
    match sources.pop() {
        Some(only) if sources.is_empty() => only,
        last => {
            sources.extend(last);
            Arc::new(JoinedTools(sources))
        }
    }
}

/// The tools of several providers. A name that several have means the tool of the first.
struct JoinedTools(Vec<Arc<dyn ToolProvider>>);

impl JoinedTools {
    /// Returns the provider of the tool of this name; the first one if there is no such tool.
    fn provider_of(&self, name: &str) -> Option<&Arc<dyn ToolProvider>> {
        self.0.iter().find(|tools| tools.find(name).is_some()).or_else(|| self.0.first())
    }
}

impl ToolProvider for JoinedTools {
    fn kind(&self) -> ProviderKind {
        self.0.first().map_or(ProviderKind::BuiltIn, |first| first.kind())
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let all = self.0.iter().rev().flat_map(|tools| tools.tools());
        let named: BTreeMap<String, Arc<Tool>> = all.map(|tool| (tool.full_name().to_owned(), tool)).collect();
        named.into_values().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.0.iter().find_map(|tools| tools.find(name))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        match self.provider_of(call.tool().full_name()) {
            Some(tools) => tools.call(call, context),
            None => {
                let refused = PendingCall::Validated(call, context);
                let error = CallError::replaced();
                Box::pin(std::future::ready(Ok(refused.refuse(error))))
            }
        }
    }

    fn changes(&self) -> Changes {
        let mut sources = self.0.iter();
        let Some(first) = sources.next() else { return Revision::default().subscribe() };
        let mut changes = first.changes();
        for tools in sources {
            changes = changes.and(tools.changes());
        }
        changes
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        match self.provider_of(&call.tool) {
            Some(tools) => tools.dispatch(call),
            None => {
                let error = unknown_tool(&call.tool, std::iter::empty());
                let refused = PendingCall::Unchecked(call);
                Box::pin(std::future::ready(refused.refuse(error)))
            }
        }
    }
}
