//! A provider that offers all tools of a host, or those that the configuration names.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use fumehood::boxed::BoxFuture;
use fumehood::{
    Call, CallContext, CallLog, CallResult, Changes, Host, ProviderKind, RecordedHost, Stop, Tool, ToolProvider,
    ValidatedCall,
};

use crate::exit::UsageError;

/// The tools of a host, filtered by their full names.
pub(crate) struct FilteredTools {
    tools: Arc<dyn ToolProvider>,
    /// Full names of the offered tools; `None` offers all.
    only: Option<BTreeSet<String>>,
}

impl FilteredTools {
    /// Creates a provider whose calls are recorded in `log`, if there is one.
    ///
    /// # Errors
    /// If the host has no tool with one of the names.
    pub(crate) fn new(host: &Host, only: Option<&[String]>, log: Option<CallLog>) -> Result<Self> {
        if let Some(name) = only.unwrap_or_default().iter().find(|name| host.tool(name).is_none()) {
            let all: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
            let message =
                format!("[serve] `tools` has `{name}`, and there is no such tool; there are: {}", all.join(", "));
            return Err(UsageError(message).into());
        }
        let tools: Arc<dyn ToolProvider> = match log {
            Some(log) => Arc::new(RecordedHost::new(host.clone(), log)),
            None => Arc::new(host.clone()),
        };
        Ok(Self { tools, only: only.map(|names| names.iter().cloned().collect()) })
    }

    fn is_offered(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|names| names.contains(name))
    }
}

impl ToolProvider for FilteredTools {
    fn kind(&self) -> ProviderKind {
        self.tools.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.tools.tools();
        tools.retain(|tool| self.is_offered(tool.full_name()));
        tools
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.find(name).filter(|_| self.is_offered(name))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        self.tools.call(call, context)
    }

    fn changes(&self) -> Changes {
        self.tools.changes()
    }

    // Not filtered: the server looks names up in the list first.
    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        self.tools.dispatch(call)
    }
}
