//! The registry of a pipeline, which searches providers of tools in order.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};

use super::built_in::{BuiltInTool, Purpose};
use super::built_ins::BuiltIns;
use super::call_session::CallSession;
use super::policy::ToolPolicy;

/// All providers of tools, in the order in which they are searched.
#[derive(Clone, Default)]
pub(crate) struct ToolRegistry {
    built_ins: Vec<Arc<BuiltIns>>,
    providers: Vec<Arc<dyn ToolProvider>>,
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry").finish_non_exhaustive()
    }
}

/// A tool that was found, and the provider that runs it.
#[derive(Clone)]
pub(crate) struct RegisteredTool {
    pub(crate) tool: Arc<Tool>,
    pub(crate) kind: ProviderKind,
    runner: Runner,
}

#[derive(Clone)]
enum Runner {
    BuiltIn(Arc<dyn BuiltInTool>),
    Provider(Arc<dyn ToolProvider>),
    /// The pipeline runs it itself, with this policy.
    Pipeline(Box<ToolPolicy>),
}

impl ToolRegistry {
    /// Adds built-in functions, after those that were added before.
    pub(crate) fn add_built_ins(&mut self, built_ins: Arc<BuiltIns>) {
        self.built_ins.push(built_ins);
    }

    /// Adds a provider, after those of the same kind. Built-in functions that are added in this way have no policies and
    /// no purpose of their own.
    pub(crate) fn add(&mut self, provider: Arc<dyn ToolProvider>) {
        self.providers.push(provider);
        self.providers.sort_by_key(|provider| provider.kind());
    }

    /// Finds the first tool of this full name that models may see.
    pub(crate) fn find(&self, name: &str) -> Option<RegisteredTool> {
        let built_in = self.built_ins.iter().find_map(|built_ins| built_ins.function(name));
        if let Some(function) = built_in {
            return Some(RegisteredTool::from_function(function));
        }
        self.providers.iter().find_map(|provider| {
            let tool = provider.find(name).filter(|tool| tool.is_for_models())?;
            let kind = provider.kind();
            Some(RegisteredTool { tool, kind, runner: Runner::Provider(Arc::clone(provider)) })
        })
    }

    /// Returns whether any provider has a tool of this full name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Subscribes to the changes of each set of tools.
    pub(crate) fn changes(&self) -> Vec<Changes> {
        let built_ins = self.built_ins.iter().map(|built_ins| built_ins.changes());
        built_ins.chain(self.providers.iter().map(|provider| provider.changes())).collect()
    }

    /// Returns every tool that can be found, in order: the first of each name.
    pub(crate) fn tools(&self) -> Vec<Arc<Tool>> {
        let mut seen = HashSet::new();
        let built_ins = self.built_ins.iter().flat_map(|built_ins| built_ins.tools());
        let all = built_ins.chain(self.providers.iter().flat_map(|provider| provider.tools()));
        all.filter(|tool| tool.is_for_models() && seen.insert(tool.full_name().to_owned())).collect()
    }
}

impl RegisteredTool {
    /// Creates a tool that the pipeline runs itself.
    pub(crate) fn of_pipeline(tool: Arc<Tool>, policy: ToolPolicy) -> Self {
        Self { tool, kind: ProviderKind::BuiltIn, runner: Runner::Pipeline(Box::new(policy)) }
    }

    /// Returns whether the pipeline runs it itself.
    pub(crate) fn is_of_pipeline(&self) -> bool {
        matches!(self.runner, Runner::Pipeline(_))
    }

    /// Creates a function of the host that is in no registry.
    pub(crate) fn from_function(function: Arc<dyn BuiltInTool>) -> Self {
        let tool = Arc::clone(function.tool());
        let kind = ProviderKind::BuiltIn;
        Self { tool, kind, runner: Runner::BuiltIn(function) }
    }

    /// Returns whether the actor may make this call.
    pub(crate) fn authorize(&self, actor: Option<&str>, call: &ValidatedCall) -> bool {
        self.built_in().is_none_or(|function| function.authorize(actor, call))
    }

    /// Checks the arguments of a call, which fit the schema, against the tool's own type.
    ///
    /// # Errors
    /// A description of the problem, if the type does not accept them.
    pub(crate) fn accepts(&self, call: &ValidatedCall) -> Result<(), String> {
        // Other tools get the text that passed the gate, and nobody has to parse it.
        self.built_in().map_or(Ok(()), |function| function.accepts(call.arguments()))
    }

    /// Returns the purpose of the tool.
    pub(crate) fn purpose(&self) -> Purpose {
        self.built_in().map_or_else(Purpose::default, |function| function.purpose())
    }

    /// Returns the tool's own policy. No part of it comes from untrusted code.
    pub(crate) fn policy(&self) -> ToolPolicy {
        match &self.runner {
            Runner::BuiltIn(function) => function.policy(),
            Runner::Provider(_) => ToolPolicy::default(),
            Runner::Pipeline(policy) => ToolPolicy::clone(policy),
        }
    }

    /// Runs a call of the tool. `session` is for functions of the host.
    ///
    /// # Errors
    /// Only to end the whole run.
    pub(crate) fn call(
        &self,
        call: ValidatedCall,
        context: CallContext,
        session: impl FnOnce() -> CallSession,
    ) -> BoxFuture<'_, Result<CallResult, Stop>> {
        match &self.runner {
            Runner::BuiltIn(function) => function.call_in(call, context, session()),
            Runner::Provider(provider) => provider.call(call, context),
            Runner::Pipeline(_) => {
                let id = context.id;
                let tool = call.tool().full_name().to_owned();
                let outcome = Err(CallError::replaced());
                let metadata = Metadata::default();
                Box::pin(std::future::ready(Ok(CallResult { id, tool, outcome, metadata })))
            }
        }
    }

    fn built_in(&self) -> Option<&dyn BuiltInTool> {
        match &self.runner {
            Runner::BuiltIn(function) => Some(function.as_ref()),
            Runner::Provider(_) | Runner::Pipeline(_) => None,
        }
    }
}
