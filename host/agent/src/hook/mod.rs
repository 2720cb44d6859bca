//! Hooks before and after a call: they look, change what they declare, or stand in the way.

mod after;
mod before;
mod declared;
mod fields;

pub use after::{After, AfterHook, AfterHooks, AfterOutcome, ToolUsed, rejected};
pub use before::{BLOCKED, Before, BeforeHook, BeforeHooks, BeforeOutcome, ToolUse};
pub use declared::{Hook, HookFn, Hooks};
pub use fields::{Diagnosis, Field};
