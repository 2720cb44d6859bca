//! Hooks that run before a call, once it passed every check.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::definition::Annotations;
use serde_json::Value;

use super::declared::{Hook, HookFn, Hooks};
use super::fields::{Diagnosis, Field, hold};

/// A call that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The id of the call. Changing it has no effect.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The agent's state as JSON text.
    pub state: Option<Arc<str>>,
    /// On whose behalf. Changing it has no effect.
    pub actor: Option<Arc<str>>,
    /// What the tool promises. Changing it has no effect.
    pub annotations: Annotations,
}

/// What a hook wants to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The call goes on.
    Continue,
    /// It does not run.
    Block {
        /// What to tell the model; `None`: [`BLOCKED`].
        message: Option<String>,
    },
    /// The whole run ends.
    Stop {
        /// Why.
        reason: String,
    },
}

/// What the model is told of a call that a hook blocked without a word.
pub const BLOCKED: &str = "Tool execution blocked by beforeToolUse hook.";

/// A hook before calls.
pub trait BeforeHook: Hook {
    /// Looks at the call.
    fn before<'a>(&'a self, call: &'a mut ToolUse) -> BoxFuture<'a, Before>;
}

impl<F: Fn(&mut ToolUse) -> Before + Send + Sync> BeforeHook for HookFn<F> {
    fn before<'a>(&'a self, call: &'a mut ToolUse) -> BoxFuture<'a, Before> {
        Box::pin(std::future::ready((self.run)(call)))
    }
}

/// How a call came out of the hooks.
#[derive(Debug)]
pub struct BeforeOutcome {
    /// What the last hook that ran wanted.
    pub before: Before,
    /// Whether the tool or its arguments are others now.
    pub changed: bool,
    /// Whether the state is another now.
    pub state_changed: bool,
    /// What hooks changed without declaring it.
    pub diagnoses: Vec<Diagnosis>,
}

/// The hooks before calls, in order of priority.
pub type BeforeHooks = Hooks<dyn BeforeHook>;

impl Hooks<dyn BeforeHook> {
    /// Runs the hooks until one does not want the call to go on.
    pub async fn run(&self, call: &mut ToolUse) -> BeforeOutcome {
        let (mut changed, mut state_changed, mut diagnoses) = (false, false, Vec::new());
        for hook in &self.0 {
            let was = call.clone();
            let before = hook.before(call).await;
            let (name, declared) = (hook.name(), hook.changes());
            let ToolUse { tool, arguments, state, .. } = was;
            changed |= hold(name, declared, Field::Tool, &mut call.tool, tool, &mut diagnoses);
            changed |= hold(name, declared, Field::Arguments, &mut call.arguments, arguments, &mut diagnoses);
            state_changed |= hold(name, declared, Field::State, &mut call.state, state, &mut diagnoses);
            if before != Before::Continue {
                return BeforeOutcome { before, changed, state_changed, diagnoses };
            }
        }
        BeforeOutcome { before: Before::Continue, changed, state_changed, diagnoses }
    }
}
