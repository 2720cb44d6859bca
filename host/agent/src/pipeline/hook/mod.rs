//! Hooks before and after a call: they observe it, change the fields that they declare, or block it.

mod after;
mod before;
mod hooks;

pub use after::{AfterAction, AfterHook, AfterHooks, AfterOutcome, CompletedToolUse, reject};
pub use before::{BeforeAction, BeforeHook, BeforeHooks, BeforeOutcome, DEFAULT_BLOCK_MESSAGE, ToolUse};
pub use hooks::{Field, Hook, HookFn, Hooks, UndeclaredChange};
