//! Notices for the operator about MCP servers whose tools change while they are used.

use std::sync::Arc;

use fumehood::mcp::ToolNotice;
use fumehood::{ListChange, ListObserver, LockedApproval, McpTools, Namespace};

use crate::config::Config;
use crate::{configured, render};

/// An operator who reads standard error, and approves tools in the lock beside the configuration.
struct ListNotices {
    config: Config,
}

impl ListObserver for ListNotices {
    fn approval(&self, server: &Namespace) -> Option<LockedApproval> {
        // A lock that cannot be read now leaves the approval from before in place.
        let lock = configured::open_lock(&self.config).ok()?;
        Some(lock.locked(server))
    }

    fn tools_changed(&self, server: &Namespace, change: &ListChange) {
        let notice = format!("the tools of the MCP server `{server}` changed: {change}");
        if change.waiting.is_empty() {
            render::note_of_event(&notice);
        } else {
            render::warning(&format!("{notice}; review the changes with `fumehood approve {server}`"));
        }
    }

    fn library_changed(&self, server: &Namespace, notices: &[ToolNotice]) {
        for line in ToolNotice::lines(notices) {
            render::warning(&format!("resources and prompts of the MCP server `{server}`: {line}"));
        }
    }
}

/// Follows changes of the servers' tools: see [`McpTools::follow`].
pub(crate) fn follow(remotes: &Arc<McpTools>, config: &Config) {
    remotes.follow(Arc::new(ListNotices { config: config.clone() }));
}
