//! A list of hooks: the order in which they run, and the checks of what they decide.

use std::fmt;
use std::sync::Arc;

use super::call_hook::{AfterDecision, Authorization, BeforeDecision, CallHook};
use super::observer::without_partial_results;
use crate::call::client_requests::refuse_requests;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult};
use crate::call::{Arguments, CallContext};
use crate::tool::ValidatedCall;

/// The error of a server that asks the client of a call to which hooks apply.
const UNSEEN_ANSWERS: &str =
    "the tool has hooks, which cannot check questions to its client, so the client cannot be asked";

/// The hooks of an operator, in the order in which they run. Cheap to clone.
///
/// - Every hook authorizes a call before any hook decides on it otherwise.
/// - Changed arguments go through the gate of the tool, and are authorized again. Later hooks see them.
/// - A changed result has to match the output schema of the tool.
/// - A hook that fails, or decides something invalid, has refused the call or withheld the result.
#[derive(Clone, Default)]
pub struct CallHooks(Arc<[Arc<dyn CallHook>]>);

impl fmt::Debug for CallHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|hook| hook.name())).finish()
    }
}

impl FromIterator<Arc<dyn CallHook>> for CallHooks {
    fn from_iter<I: IntoIterator<Item = Arc<dyn CallHook>>>(hooks: I) -> Self {
        Self(hooks.into_iter().collect())
    }
}

/// A call that no hook refused.
#[derive(Debug, Clone)]
pub struct ClearedCall {
    /// The call, with the arguments as the hooks left them.
    pub call: ValidatedCall,
    /// The names of the hooks that changed the arguments.
    pub changed_by: Vec<String>,
    /// The questions that a person has to agree to before the call runs.
    pub questions: Vec<HookQuestion>,
}

/// A question of a hook for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookQuestion {
    /// The name of the hook.
    pub hook: String,
    /// The question.
    pub question: String,
}

impl HookQuestion {
    /// Returns the error of a call about which nobody can be asked.
    #[must_use]
    pub fn unanswered(&self) -> CallError {
        let message = format!("the hook `{}` requires a person's approval of this call: {}", self.hook, self.question);
        CallError::new(ErrorKind::NeedsApproval, message)
            .with_hint("no person can be asked here; continue without this call")
    }
}

impl CallHooks {
    /// Returns whether there are no hooks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a hook decides on results of the tool of this full name.
    #[must_use]
    pub fn decide_on_results(&self, tool: &str) -> bool {
        self.for_tool(tool).any(|hook| hook.decides_on_results())
    }

    /// Removes from the context what no hook sees: parts of a result before hooks have decided on it, metadata that the
    /// client sent beside the arguments, and what it answers while the call runs.
    pub fn hold_back(&self, tool: &str, context: &mut CallContext) {
        if self.for_tool(tool).next().is_some() {
            context.client_meta = None;
            context.client_requests =
                context.client_requests.take().map(|client| refuse_requests(client.as_ref(), UNSEEN_ANSWERS));
        }
        if self.decide_on_results(tool) {
            context.observer = context.observer.take().map(without_partial_results);
        }
    }

    fn for_tool<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Arc<dyn CallHook>> {
        self.0.iter().filter(move |hook| hook.applies_to(tool))
    }

    /// Runs the hooks before a call.
    ///
    /// # Errors
    /// The error of the refused call, which names the hook.
    pub async fn before(&self, call: ValidatedCall, context: &CallContext) -> Result<ClearedCall, CallError> {
        let mut cleared = ClearedCall { call, changed_by: Vec::new(), questions: Vec::new() };
        self.authorize(&cleared.call, context).await?;
        let tool = Arc::clone(cleared.call.tool());
        for hook in self.for_tool(tool.full_name()) {
            let name = hook.name();
            match hook.before(&cleared.call, context).await.map_err(|error| refused_by_failure(name, &error))? {
                BeforeDecision::Allow => {}
                BeforeDecision::Modify { arguments } => {
                    let changed = tool.validate(Arguments::Text(arguments));
                    cleared.call = changed.map_err(|error| {
                        let problem = format!("changed the arguments to invalid ones: {error}");
                        refused(name, ErrorKind::Denied, &problem)
                    })?;
                    cleared.changed_by.push(name.to_owned());
                }
                BeforeDecision::Deny { error } => {
                    let message = format!("denied by the hook `{name}`: {}", error.message);
                    return Err(CallError { message: message.into(), ..error });
                }
                BeforeDecision::Ask { question } => {
                    cleared.questions.push(HookQuestion { hook: name.to_owned(), question });
                }
            }
        }
        if !cleared.changed_by.is_empty() {
            // The first authorization was for the arguments before the change.
            self.authorize(&cleared.call, context).await?;
        }
        Ok(cleared)
    }

    async fn authorize(&self, call: &ValidatedCall, context: &CallContext) -> Result<(), CallError> {
        for hook in self.for_tool(call.tool().full_name()) {
            let name = hook.name();
            match hook.authorize(call, context).await.map_err(|error| refused_by_failure(name, &error))? {
                Authorization::Allow => {}
                Authorization::Deny { reason } => {
                    let problem = format!("does not authorize this call: {reason}");
                    return Err(refused(name, ErrorKind::Unauthorized, &problem));
                }
            }
        }
        Ok(())
    }

    /// Runs the hooks after a call, and returns the result as they leave it, without members that they do not see.
    pub async fn after(&self, call: &ValidatedCall, context: &CallContext, mut result: CallResult) -> CallResult {
        if self.decide_on_results(call.tool().full_name()) {
            // Hooks do not see these parts, so a rejected text could pass in them.
            result.metadata.members = None;
            if let Err(error) = &mut result.outcome {
                error.details = None;
            }
        }
        for hook in self.for_tool(call.tool().full_name()) {
            if !hook.decides_on_results() {
                continue;
            }
            let name = hook.name();
            let decision = match hook.after(call, context, &result.outcome).await {
                Ok(decision) => decision,
                Err(error) => {
                    return result.withhold(&format!("the hook `{name}` failed: {}: {}", error.kind, error.message));
                }
            };
            match decision {
                AfterDecision::Keep => {}
                AfterDecision::Reject { reason } => {
                    return result.withhold(&format!("rejected by the hook `{name}`: {reason}"));
                }
                AfterDecision::Replace(Ok(parts)) => match call.tool().check_result(&parts) {
                    Ok(()) => result = result.replace(Ok(parts)),
                    Err(error) => {
                        let problem =
                            format!("the hook `{name}` changed the result to an invalid one: {}", error.message);
                        return result.withhold(&problem);
                    }
                },
                AfterDecision::Replace(Err(message)) => {
                    let error = replaced_failure(result.error(), message);
                    result = result.replace(Err(error));
                }
            }
        }
        result
    }
}

/// Returns the failure with this message in place of another one, whose kind it keeps. Hint and backtrace are left out,
/// because they may have what the message had.
fn replaced_failure(replaced: Option<&CallError>, message: String) -> CallError {
    let error = CallError::new(replaced.map_or(ErrorKind::ToolFailed, |error| error.kind), message);
    match replaced.and_then(|error| error.retry_after) {
        Some(after) => error.with_retry_after(after),
        None => error,
    }
}

fn refused(hook: &str, kind: ErrorKind, problem: &str) -> CallError {
    CallError::new(kind, format!("the hook `{hook}` {problem}"))
}

/// Returns the error of a call that is refused because a hook failed. Its kind is that of the hook's failure only where
/// the call may succeed later, or the caller gave up.
fn refused_by_failure(hook: &str, error: &CallError) -> CallError {
    match error.kind {
        ErrorKind::Cancelled => error.clone(),
        kind => {
            let is_kept = matches!(kind, ErrorKind::Unavailable | ErrorKind::NeedsApproval);
            let problem = format!("failed, so the call was refused: {kind}: {}", error.message);
            let refused = refused(hook, if is_kept { kind } else { ErrorKind::Denied }, &problem);
            let hint = error.hint.as_ref().filter(|_| is_kept).cloned();
            let hint = hint.unwrap_or_else(|| "the tool did not run; an operator must check the hook".into());
            CallError { retry_after: error.retry_after, ..refused }.with_hint(hint)
        }
    }
}
