//! The tools of a host that are offered: all, or those that the configuration names.

use std::collections::BTreeSet;

use anyhow::Result;
use fumehood::boxed::BoxFuture;
use fumehood::mcp::{Listing, Request, Toolbox};
use fumehood::{CallResult, Host};
use tokio::sync::watch;

use crate::exit::UsageError;

/// Some tools of a host, by their full names.
pub(crate) struct Offered {
    host: Host,
    /// All if `None`.
    only: Option<BTreeSet<String>>,
}

impl Offered {
    /// # Errors
    /// If the host has no tool of one of the names.
    pub(crate) fn of(host: &Host, only: Option<&[String]>) -> Result<Self> {
        if let Some(name) = only.unwrap_or_default().iter().find(|name| host.tool(name).is_none()) {
            let all: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
            let message =
                format!("[serve] `tools` has `{name}`, and there is no such tool; there are: {}", all.join(", "));
            return Err(UsageError(message).into());
        }
        Ok(Self { host: host.clone(), only: only.map(|names| names.iter().cloned().collect()) })
    }

    fn offers(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|names| names.contains(name))
    }
}

impl Toolbox for Offered {
    fn list(&self) -> Vec<Listing> {
        let mut tools = Toolbox::list(&self.host);
        tools.retain(|tool| self.offers(&tool.name));
        tools
    }

    // Clients call what is listed: the server looks their names up there.
    fn call(&self, request: Request) -> BoxFuture<'_, CallResult> {
        Toolbox::call(&self.host, request)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.host.changes()
    }
}
