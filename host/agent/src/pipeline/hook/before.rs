//! Hooks that run before a call, after it passed every check.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::tool::definition::Annotations;
use serde_json::Value;

use super::hooks::{Field, Hook, HookFn, Hooks, UndeclaredChange, undo_if_undeclared};

/// A call that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The id of the call. Changing it has no effect.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The agent's state, as JSON text.
    pub state: Option<Arc<str>>,
    /// The actor on whose behalf the call is made. Changing it has no effect.
    pub actor: Option<Arc<str>>,
    /// The tool's annotations. Changing them has no effect.
    pub annotations: Annotations,
}

/// The decision of a hook before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeforeAction {
    /// Lets the call run.
    Continue,
    /// Blocks the call.
    Block {
        /// The message for the model; [`DEFAULT_BLOCK_MESSAGE`] if `None`.
        message: Option<String>,
    },
    /// Ends the whole run.
    Stop {
        /// The reason.
        reason: String,
    },
}

/// The message for the model if a hook blocks a call without one.
pub const DEFAULT_BLOCK_MESSAGE: &str = "Tool execution blocked by beforeToolUse hook.";

/// A hook that runs before calls.
pub trait BeforeHook: Hook {
    /// Inspects the call, and may change the fields that it declares.
    fn before<'a>(&'a self, call: &'a mut ToolUse) -> BoxFuture<'a, BeforeAction>;
}

impl<F: Fn(&mut ToolUse) -> BeforeAction + Send + Sync> BeforeHook for HookFn<F> {
    fn before<'a>(&'a self, call: &'a mut ToolUse) -> BoxFuture<'a, BeforeAction> {
        Box::pin(std::future::ready((self.run)(call)))
    }
}

/// The outcome of the hooks before a call.
#[derive(Debug)]
pub struct BeforeOutcome {
    /// The decision of the last hook that ran.
    pub action: BeforeAction,
    /// True if the tool or its arguments were changed.
    pub changed: bool,
    /// True if the state was changed.
    pub state_changed: bool,
    /// Changes that hooks made without declaring them.
    pub undeclared_changes: Vec<UndeclaredChange>,
}

/// Hooks that run before calls, in order of priority.
pub type BeforeHooks = Hooks<dyn BeforeHook>;

impl Hooks<dyn BeforeHook> {
    /// Runs the hooks until one does not return [`BeforeAction::Continue`].
    pub async fn run(&self, call: &mut ToolUse) -> BeforeOutcome {
        let mut changed = false;
        let mut state_changed = false;
        let mut undeclared = Vec::new();
        for hook in &self.0 {
            let previous = call.clone();
            let action = hook.before(call).await;
            let name = hook.name();
            let declared = hook.changes();
            let ToolUse { tool, arguments, state, .. } = previous;
            changed |= undo_if_undeclared(name, declared, Field::Tool, &mut call.tool, tool, &mut undeclared);
            changed |=
                undo_if_undeclared(name, declared, Field::Arguments, &mut call.arguments, arguments, &mut undeclared);
            state_changed |= undo_if_undeclared(name, declared, Field::State, &mut call.state, state, &mut undeclared);
            if action != BeforeAction::Continue {
                return BeforeOutcome { action, changed, state_changed, undeclared_changes: undeclared };
            }
        }
        BeforeOutcome { action: BeforeAction::Continue, changed, state_changed, undeclared_changes: undeclared }
    }
}
