//! Changes of the tools of MCP servers while they are used, and the port to an operator who is told of them.

use std::fmt;

use fumehood_core::tool::name::Namespace;
use fumehood_mcp::ToolNotice;

use crate::lock::approval_check::LockedApproval;

/// Maximum number of tools that are named for one reason; the rest are counted.
const MAX_NAMES: usize = 8;

/// The tools of one server that became others, by their full names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListChange {
    /// Tools that can be called, and could not before.
    pub callable: Vec<String>,
    /// Tools that wait for an approval, and did not before.
    pub waiting: Vec<String>,
    /// Tools that the server no longer has.
    pub removed: Vec<String>,
    /// Tools whose definition changed, and that can be called as before.
    pub changed: Vec<String>,
}

impl ListChange {
    /// Returns whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ListChange {
    /// Writes clauses such as `new: a, b; waiting for approval: c; removed: d`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { callable, waiting, removed, changed } = self;
        let parts = [("new", callable), ("waiting for approval", waiting), ("removed", removed), ("changed", changed)];
        let mut separator = "";
        for (what, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
            let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            write!(f, "{separator}{what}: {shown}")?;
            if let Some(more @ 1..) = names.len().checked_sub(MAX_NAMES) {
                write!(f, " and {more} more")?;
            }
            separator = "; ";
        }
        Ok(())
    }
}

/// An operator's view of servers whose tools change while they are used: see
/// [`McpTools::follow`](crate::McpTools::follow).
pub trait ListObserver: Send + Sync {
    /// Returns the current approval of a server; `None` if it is the one from the start. It may read a file.
    fn approval(&self, server: &Namespace) -> Option<LockedApproval> {
        let _ = server;
        None
    }

    /// Receives a change of a server's tools, after it took effect.
    fn tools_changed(&self, server: &Namespace, change: &ListChange);

    /// Receives new notices about a server's resources and prompts, such as those that wait for an approval.
    fn library_changed(&self, server: &Namespace, notices: &[ToolNotice]) {
        let _ = (server, notices);
    }
}
