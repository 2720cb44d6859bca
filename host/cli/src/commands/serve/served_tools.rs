//! The tools that are served: those of components and servers, or those of them that the configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood::boxed::BoxFuture;
use fumehood::hooks::HookedTools;
use fumehood::policy::Policies;
use fumehood::{
    Call, CallContext, CallError, CallLog, CallResult, Changes, Host, McpTools, Metadata, ProviderKind, RecordedHost,
    Stop, Tool, ToolProvider, ValidatedCall,
};

/// The sources of tools.
#[derive(Clone)]
pub(crate) struct Sources<'a> {
    pub(crate) host: &'a Host,
    /// The tools of the host, with their calls at workers.
    pub(crate) cell: Option<Arc<dyn ToolProvider>>,
    pub(crate) remotes: Option<Arc<McpTools>>,
}

/// The tools of a host and of MCP servers, filtered by their full names.
pub(crate) struct ServedTools {
    components: Arc<dyn ToolProvider>,
    servers: Option<Arc<dyn ToolProvider>>,
    /// Full names of the offered tools; `None` offers all.
    only: Option<BTreeSet<String>>,
}

impl ServedTools {
    /// Creates a provider whose calls run in `host`, or in `cell` if there is one, pass the hooks, and are recorded in
    /// `log`, if there is one.
    pub(crate) fn new(
        Sources { host, cell, remotes }: Sources<'_>,
        only: Option<&[String]>,
        hooks: &Policies,
        log: Option<&CallLog>,
    ) -> Self {
        let components: Arc<dyn ToolProvider> = match (log, cell) {
            (None, Some(cell)) if hooks.is_empty() => cell,
            (_, Some(cell)) => with_hooks(cell, hooks, log),
            _ if !hooks.is_empty() => with_hooks(Arc::new(host.clone()), hooks, log),
            (Some(log), None) => Arc::new(RecordedHost::new(host.clone(), log.clone())),
            (None, None) => Arc::new(host.clone()),
        };
        let servers = remotes.map(|servers| -> Arc<dyn ToolProvider> {
            match log {
                None if hooks.is_empty() => servers,
                _ => with_hooks(servers, hooks, log),
            }
        });
        Self { components, servers, only: only.map(|names| names.iter().cloned().collect()) }
    }

    fn is_offered(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Returns the provider of the tool of this name; that of components if there is no such tool.
    fn provider_of(&self, name: &str) -> &Arc<dyn ToolProvider> {
        match &self.servers {
            Some(servers) if self.components.find(name).is_none() && servers.find(name).is_some() => servers,
            _ => &self.components,
        }
    }
}

/// Puts the hooks, which also record calls, in front of the tools.
fn with_hooks(tools: Arc<dyn ToolProvider>, hooks: &Policies, log: Option<&CallLog>) -> Arc<dyn ToolProvider> {
    Arc::new(HookedTools::new(tools, hooks.clone()).log(log.cloned()))
}

impl ToolProvider for ServedTools {
    fn kind(&self) -> ProviderKind {
        self.components.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        // A name that both have means the tool of the component.
        let all = self.servers.iter().flat_map(|servers| servers.tools()).chain(self.components.tools());
        let named: BTreeMap<String, Arc<Tool>> = all.map(|tool| (tool.full_name().to_owned(), tool)).collect();
        named.into_values().filter(|tool| self.is_offered(tool.full_name())).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.provider_of(name).find(name).filter(|_| self.is_offered(name))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        if !self.is_offered(call.tool().full_name()) {
            let tool = call.tool().full_name().to_owned();
            let outcome = Err(CallError::replaced());
            let result = CallResult { id: context.id, tool, outcome, metadata: Metadata::default() };
            return Box::pin(std::future::ready(Ok(result)));
        }
        self.provider_of(call.tool().full_name()).call(call, context)
    }

    fn changes(&self) -> Changes {
        match &self.servers {
            Some(servers) => self.components.changes().and(servers.changes()),
            None => self.components.changes(),
        }
    }

    // Not filtered: the server looks names up in the list first.
    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        self.provider_of(&call.tool).dispatch(call)
    }
}
