//! The tools that can be called: built-in functions, components and MCP servers, searched in this order.

mod actor_filter;
mod built_in;
mod built_ins;
mod call_session;
pub mod identity;
mod policy;
pub mod retry;
mod tool_registry;

pub use actor_filter::ActorFilter;
pub use built_in::{BuiltIn, BuiltInError, BuiltInTool, Purpose, ToolError, built_in_tool};
pub use built_ins::{BuiltIns, RegisterError, ToolHandle};
pub(crate) use call_session::CallAccount;
pub use call_session::CallSession;
pub use policy::ToolPolicy;
pub(crate) use tool_registry::{RegisteredTool, ToolRegistry};
