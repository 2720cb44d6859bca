//! Hooks that run after a call, before any part of its result reaches the agent.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::tool::definition::Annotations;
use serde_json::Value;

use super::hooks::{Field, Hook, HookFn, Hooks, UndeclaredChange, undo_if_undeclared};

/// A call that has run.
#[derive(Debug, Clone)]
pub struct CompletedToolUse {
    /// The id of the call. Changing it has no effect.
    pub id: String,
    /// The full name of the tool. Changing it has no effect.
    pub tool: String,
    /// The arguments that it ran with. Changing them has no effect.
    pub arguments: Value,
    /// The content that the tool returned, or its error.
    pub outcome: Result<Vec<Content>, CallError>,
    /// The agent's state, as JSON text.
    pub state: Option<Arc<str>>,
    /// The actor on whose behalf the call is made. Changing it has no effect.
    pub actor: Option<Arc<str>>,
    /// The tool's annotations. Changing them has no effect.
    pub annotations: Annotations,
}

/// The decision of a hook after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterAction {
    /// Passes on the result as the hook left it.
    Continue,
    /// Withholds the result from the model.
    Reject {
        /// The reason, for the model, such as "contains secrets".
        reason: String,
    },
    /// Ends the whole run.
    Stop {
        /// The reason.
        reason: String,
    },
}

/// A hook that runs after calls.
pub trait AfterHook: Hook {
    /// Inspects the call and its result, and may change the fields that it declares.
    fn after<'a>(&'a self, call: &'a mut CompletedToolUse) -> BoxFuture<'a, AfterAction>;
}

impl<F: Fn(&mut CompletedToolUse) -> AfterAction + Send + Sync> AfterHook for HookFn<F> {
    fn after<'a>(&'a self, call: &'a mut CompletedToolUse) -> BoxFuture<'a, AfterAction> {
        Box::pin(std::future::ready((self.run)(call)))
    }
}

/// The outcome of the hooks after a call.
#[derive(Debug)]
pub struct AfterOutcome {
    /// The decision of the last hook that ran.
    pub action: AfterAction,
    /// True if the state was changed.
    pub state_changed: bool,
    /// Changes that hooks made without declaring them.
    pub undeclared_changes: Vec<UndeclaredChange>,
}

/// Hooks that run after calls, in order of priority.
pub type AfterHooks = Hooks<dyn AfterHook>;

impl Hooks<dyn AfterHook> {
    /// Runs the hooks until one does not return [`AfterAction::Continue`].
    pub async fn run(&self, call: &mut CompletedToolUse) -> AfterOutcome {
        let mut state_changed = false;
        let mut undeclared = Vec::new();
        for hook in &self.0 {
            let outcome = call.outcome.clone();
            let state = call.state.clone();
            let action = hook.after(call).await;
            let name = hook.name();
            let declared = hook.changes();
            if !declared.contains(&Field::Result) && !is_same(&call.outcome, &outcome) {
                call.outcome = outcome;
                undeclared.push(UndeclaredChange { hook: name.to_owned(), field: Field::Result });
            }
            state_changed |= undo_if_undeclared(name, declared, Field::State, &mut call.state, state, &mut undeclared);
            if action != AfterAction::Continue {
                return AfterOutcome { action, state_changed, undeclared_changes: undeclared };
            }
        }
        AfterOutcome { action: AfterAction::Continue, state_changed, undeclared_changes: undeclared }
    }
}

/// Returns whether two outcomes are the same. Contents are compared as JSON, which is how they are passed on.
fn is_same(one: &Result<Vec<Content>, CallError>, other: &Result<Vec<Content>, CallError>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => matches!(
            (serde_json::to_string(one), serde_json::to_string(other)), (Ok(one), Ok(other)) if one == other
        ),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// Returns the result that replaces a rejected one. It has none of its content.
#[must_use]
pub fn reject(result: &CallResult, reason: &str) -> CallResult {
    result.clone().withhold(reason)
}
