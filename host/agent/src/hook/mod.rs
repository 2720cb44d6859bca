//! Hooks before and after a call: they look, change what they declare, or stand in the way.

mod after;
mod before;
mod fields;

pub use after::{After, AfterFn, AfterHook, AfterHooks, AfterOutcome, ToolUsed, rejected};
pub use before::{BLOCKED, Before, BeforeFn, BeforeHook, BeforeHooks, BeforeOutcome, ToolUse};
pub use fields::{Diagnosis, Field};
