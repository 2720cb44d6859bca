//! Agents over the tools of a host: building one, its notes, code mode, and the tools of MCP servers.

mod allowed_tools;
mod builder;
mod code_mode;
mod error;
#[cfg(feature = "mcp")]
mod list_change;
#[cfg(feature = "mcp")]
mod mcp_tools;
mod saved;
#[cfg(all(feature = "http", feature = "storage"))]
mod saved_agents;
#[cfg(feature = "http")]
mod served_agents;
#[cfg(feature = "mcp")]
mod server_source;
mod session;
mod stored_notes;

pub use builder::AgentBuilder;
pub use code_mode::JavaScript;
pub use error::AgentError;
#[cfg(feature = "mcp")]
pub use list_change::{ListChange, ListObserver};
#[cfg(feature = "mcp")]
pub use mcp_tools::McpTools;
#[cfg(all(feature = "http", feature = "storage"))]
pub use saved_agents::SavedAgents;
#[cfg(feature = "http")]
pub use served_agents::{AgentParts, ServedAgents};
pub use stored_notes::StoredNotes;
