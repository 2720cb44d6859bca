//! Hooks of an operator: code that decides on calls of tools before they run, and on their results.
//!
//! [`CallHook`] is the port, [`CallHooks`] runs a list of them in order and fails closed. The pipeline of an agent and
//! the layer around a [`ToolProvider`](crate::tool::ToolProvider) both use it.

mod call_hook;
mod call_hooks;
mod observer;
#[cfg(test)]
mod tests;

pub use call_hook::{AfterDecision, Authorization, BeforeDecision, CallHook};
pub use call_hooks::{CallHooks, ClearedCall, HookQuestion};
pub use observer::without_partial_results;
