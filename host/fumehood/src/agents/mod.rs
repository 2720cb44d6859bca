//! Agents over the tools of a host: building one, its notes, and the tools of MCP servers.

mod builder;
mod error;
#[cfg(feature = "mcp")]
mod mcp_tools;
mod stored_notes;

pub use builder::AgentBuilder;
pub use error::AgentError;
#[cfg(feature = "mcp")]
pub use mcp_tools::McpTools;
pub use stored_notes::StoredNotes;
