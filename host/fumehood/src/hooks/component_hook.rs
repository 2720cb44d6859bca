//! A hook in the sandbox.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::{Limits, display_bytes};
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::policy::call::{Decision, Outcome, Policy, Ruling};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::{Tool, ValidatedCall};
use serde_json::{Value, json};

use super::protocol;
use super::tool_patterns::ToolPatterns;
use crate::host::Host;
use crate::load::loaded_component::LoadedComponent;

/// A function of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HookFunction {
    /// Decides whether the actor may make a call.
    Authorize,
    /// Decides on a call before it runs.
    Before,
    /// Decides on a result.
    After,
}

impl HookFunction {
    /// All functions, in the order in which they are called: that of [`HOOK_FUNCTIONS`](fumehood_runtime::HOOK_FUNCTIONS).
    pub const ALL: [Self; 3] = [Self::Authorize, Self::Before, Self::After];

    fn index(self) -> usize {
        match self {
            Self::Authorize => 0,
            Self::Before => 1,
            Self::After => 2,
        }
    }
}

/// Errors of [`Host::hook`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// No component of that name is loaded.
    #[error("unknown component `{0}`; load it before you use it as a hook")]
    NotLoaded(String),
    /// The component is no hook.
    #[error("the component `{0}` is not a hook: it does not export `fumehood:hooks/hook`")]
    NotAHook(String),
    /// The component is not what was approved.
    #[error("cannot use the hook: {0}")]
    NotApproved(CallError),
}

/// A component of the world `fumehood:hooks/hooks` that is loaded into a [`Host`], as a [`Policy`].
///
/// Each function is called in a fresh instance, within the limits that the component was loaded with, and in a worker
/// process where the component is isolated. It has the powers that its load granted. After a reload, the new component
/// decides; if it is unloaded, every call is refused.
#[derive(Debug, Clone)]
pub struct ComponentHook {
    host: Host,
    name: String,
    tools: ToolPatterns,
    functions: Vec<HookFunction>,
}

impl Host {
    /// Returns a loaded component as a hook that decides on the calls of all tools, with all of its functions.
    ///
    /// # Errors
    /// If there is no component of that name, or it is no hook, or it is not approved.
    pub fn hook(&self, name: &str) -> Result<ComponentHook, HookError> {
        let loaded = self.component(name).ok_or_else(|| HookError::NotLoaded(name.to_owned()))?;
        if !loaded.is_hook() {
            return Err(HookError::NotAHook(name.to_owned()));
        }
        if let Some(refusal) = loaded.tools().iter().find_map(|function| function.refusal()) {
            return Err(HookError::NotApproved(refusal.clone()));
        }
        let functions = HookFunction::ALL.to_vec();
        Ok(ComponentHook { host: self.clone(), name: name.to_owned(), tools: ToolPatterns::default(), functions })
    }
}

impl ComponentHook {
    /// Returns the usual limits of one invocation, for [`Load::limits`](crate::Load::limits): a deadline of 1 s, because
    /// every call waits for it, an output of 8 MiB, to have room for the results of tools, and otherwise those of a tool.
    #[must_use]
    pub fn default_limits() -> Limits {
        Limits::default().deadline(Duration::from_secs(1)).output(8 << 20).hostcall_bytes(16 << 20)
    }

    /// Sets the tools whose calls it decides on.
    #[must_use]
    pub fn tools(mut self, tools: ToolPatterns) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the functions that are called.
    #[must_use]
    pub fn functions(mut self, functions: impl IntoIterator<Item = HookFunction>) -> Self {
        self.functions = functions.into_iter().collect();
        self
    }

    /// Calls a function, and returns its decision as JSON text.
    async fn invoke(&self, function: HookFunction, input: Value, context: &CallContext) -> Result<String, CallError> {
        let loaded = self.host.component(&self.name).ok_or_else(|| unavailable("its component is no longer loaded"))?;
        let tool = loaded.tools().get(function.index()).filter(|_| loaded.is_hook());
        let tool = tool.ok_or_else(|| unavailable("its component was replaced by a component that is not a hook"))?;
        let input = tool.validate(Arguments::Value(input)).map_err(CallError::from)?;
        let context = CallContext {
            id: context.id.clone(),
            actor: context.actor.clone(),
            cancelled: context.cancelled.clone(),
            ..CallContext::default()
        };
        let execution = loaded.component().call(function.index(), input, *loaded.limits(), context).await;
        let parts = execution.outcome.map_err(|error| in_words_of_hooks(error, &loaded))?;
        match parts.as_slice() {
            [Content::Json { value }] => Ok(value.expose_raw().to_owned()),
            _ => Err(CallError::new(ErrorKind::BadResult, "it returned no decision")),
        }
    }
}

/// Rewords what the sandbox says about a tool.
fn in_words_of_hooks(error: CallError, loaded: &LoadedComponent) -> CallError {
    let limits = loaded.limits();
    let message = match error.kind {
        ErrorKind::Deadline => format!("it did not decide within {:?} and was stopped", limits.deadline),
        ErrorKind::Fuel => format!("it used up its {} units of fuel and was stopped", limits.fuel),
        ErrorKind::Memory => {
            format!("it needs more than its {} of memory", display_bytes(limits.memory as u64))
        }
        ErrorKind::OutputTooLarge => {
            format!("its decision is larger than {}, the maximum", display_bytes(limits.output as u64))
        }
        _ => return error,
    };
    CallError::new(error.kind, message)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Policy for ComponentHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        self.tools.matches(tool.full_name())
    }

    fn decides_on_results(&self) -> bool {
        self.functions.contains(&HookFunction::After)
    }

    fn authorize<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Decision<Infallible>, CallError>> {
        Box::pin(async move {
            if !self.functions.contains(&HookFunction::Authorize) {
                return Ok(Decision::Allow);
            }
            let input = json!({"call": protocol::to_call(call, context, now())});
            protocol::read_authorization(&self.invoke(HookFunction::Authorize, input, context).await?)
        })
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(async move {
            if !self.functions.contains(&HookFunction::Before) {
                return Ok(Decision::Allow.into());
            }
            let input = json!({"call": protocol::to_call(call, context, now())});
            protocol::read_before(&self.invoke(HookFunction::Before, input, context).await?).map(Ruling::from)
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        Box::pin(async move {
            let call = protocol::to_call(call, context, now());
            let input = json!({"call": call, "outcome": protocol::to_outcome(outcome)});
            protocol::read_after(&self.invoke(HookFunction::After, input, context).await?)
        })
    }
}

fn unavailable(message: &str) -> CallError {
    CallError::new(ErrorKind::Host, message)
}
