//! The tools of a host that are offered: all, or those that the configuration names.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use fumehood::boxed::BoxFuture;
use fumehood::mcp::{Listing, Request, Toolbox};
use fumehood::{CallLog, CallResult, Host, RecordedHost};
use tokio::sync::watch;

use crate::exit::UsageError;

/// Some tools of a host, by their full names.
pub(crate) struct Offered {
    tools: Arc<dyn Toolbox>,
    /// All if `None`.
    only: Option<BTreeSet<String>>,
}

impl Offered {
    /// Every call is recorded in `log`, if there is one.
    ///
    /// # Errors
    /// If the host has no tool of one of the names.
    pub(crate) fn of(host: &Host, only: Option<&[String]>, log: Option<CallLog>) -> Result<Self> {
        if let Some(name) = only.unwrap_or_default().iter().find(|name| host.tool(name).is_none()) {
            let all: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
            let message =
                format!("[serve] `tools` has `{name}`, and there is no such tool; there are: {}", all.join(", "));
            return Err(UsageError(message).into());
        }
        let tools: Arc<dyn Toolbox> = match log {
            Some(log) => Arc::new(RecordedHost::new(host.clone(), log)),
            None => Arc::new(host.clone()),
        };
        Ok(Self { tools, only: only.map(|names| names.iter().cloned().collect()) })
    }

    fn offers(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|names| names.contains(name))
    }
}

impl Toolbox for Offered {
    fn list(&self) -> Vec<Listing> {
        let mut tools = self.tools.list();
        tools.retain(|tool| self.offers(&tool.name));
        tools
    }

    // Clients call what is listed: the server looks their names up there.
    fn call(&self, request: Request) -> BoxFuture<'_, CallResult> {
        self.tools.call(request)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.tools.changes()
    }
}
