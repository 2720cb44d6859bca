//! The tools that can be called: built-in functions, components, MCP servers; asked in this order, the first hit wins.

mod built_in;
mod contract;
mod families;
mod policy;
mod tool;

pub use built_in::{BuiltIn, Failure};
pub(crate) use contract::is_full_name;
pub use contract::{Contract, ContractError, Spec};
pub use families::{BuiltIns, Family, RegisterError, Registries, ToolFamily, ToolHandle};
pub use policy::Policy;
pub use tool::{Invocation, PartialSink, Partials, Purpose, Stop, Tool};
