//! Hooks that run after a call, before anything of its result reaches the agent.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::result::{CallError, CallResult};
use serde_json::Value;

use super::declared::{Hook, HookFn, Hooks};
use super::fields::{Diagnosis, Field, hold};

/// A call that has run.
#[derive(Debug, Clone)]
pub struct ToolUsed {
    /// The id of the call. Changing it has no effect.
    pub id: String,
    /// The full name of the tool. Changing it has no effect.
    pub tool: String,
    /// The arguments that it ran with. Changing them has no effect.
    pub arguments: Value,
    /// What it returned, or why it failed.
    pub outcome: Result<Vec<Content>, CallError>,
    /// The agent's state as JSON text.
    pub state: Option<Arc<str>>,
    /// On whose behalf. Changing it has no effect.
    pub actor: Option<Arc<str>>,
    /// What the tool promises. Changing it has no effect.
    pub annotations: Annotations,
}

/// What a hook wants to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The result goes on, as the hook left it.
    Continue,
    /// The result must not reach the model.
    Reject {
        /// Why, for the model: "contains secrets".
        reason: String,
    },
    /// The whole run ends.
    Stop {
        /// Why.
        reason: String,
    },
}

/// A hook after calls.
pub trait AfterHook: Hook {
    /// Looks at the call and its result.
    fn after<'a>(&'a self, call: &'a mut ToolUsed) -> BoxFuture<'a, After>;
}

impl<F: Fn(&mut ToolUsed) -> After + Send + Sync> AfterHook for HookFn<F> {
    fn after<'a>(&'a self, call: &'a mut ToolUsed) -> BoxFuture<'a, After> {
        Box::pin(std::future::ready((self.run)(call)))
    }
}

/// How a result came out of the hooks.
#[derive(Debug)]
pub struct AfterOutcome {
    /// What the last hook that ran wanted.
    pub after: After,
    /// Whether the state is another now.
    pub state_changed: bool,
    /// What hooks changed without declaring it.
    pub diagnoses: Vec<Diagnosis>,
}

/// The hooks after calls, in order of priority.
pub type AfterHooks = Hooks<dyn AfterHook>;

impl Hooks<dyn AfterHook> {
    /// Runs the hooks until one does not want the result to go on.
    pub async fn run(&self, call: &mut ToolUsed) -> AfterOutcome {
        let (mut state_changed, mut diagnoses) = (false, Vec::new());
        for hook in &self.0 {
            let (outcome, state) = (call.outcome.clone(), call.state.clone());
            let after = hook.after(call).await;
            let (name, declared) = (hook.name(), hook.changes());
            if !declared.contains(&Field::Result) && !same(&call.outcome, &outcome) {
                call.outcome = outcome;
                diagnoses.push(Diagnosis { hook: name.to_owned(), field: Field::Result });
            }
            state_changed |= hold(name, declared, Field::State, &mut call.state, state, &mut diagnoses);
            if after != After::Continue {
                return AfterOutcome { after, state_changed, diagnoses };
            }
        }
        AfterOutcome { after: After::Continue, state_changed, diagnoses }
    }
}

/// Contents are compared as what they are told as: JSON.
fn same(one: &Result<Vec<Content>, CallError>, other: &Result<Vec<Content>, CallError>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => matches!(
            (serde_json::to_string(one), serde_json::to_string(other)), (Ok(one), Ok(other)) if one == other
        ),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// The result that stands in the place of one that was rejected. Nothing of it is left.
#[must_use]
pub fn rejected(result: &CallResult, reason: &str) -> CallResult {
    let message = format!("the result was withheld: {reason}");
    let error = CallError::new(ErrorKind::Denied, message).with_hint("the tool has run; do not ask for the same again");
    let mut metadata = result.metadata.clone();
    // What the tool wrote aside may hold the same.
    (metadata.stdout, metadata.stderr) = Default::default();
    CallResult { id: result.id.clone(), tool: result.tool.clone(), outcome: Err(error), metadata }
}
