//! The tools that can be called: built-in functions, components and MCP servers, searched in this order.

mod built_in;
mod contract;
mod policy;
mod provider;
mod tool;

pub use built_in::{BuiltIn, BuiltInError, BuiltIns, RegisterError, ToolHandle};
pub(crate) use contract::is_full_name;
pub use contract::{Contract, ContractError, Spec};
pub use policy::Policy;
pub use provider::{ProviderKind, ToolProvider, ToolRegistry};
pub use tool::{Invocation, PartialSink, Partials, Purpose, Stop, Tool};
