//! A list of policies: the order in which they run, and the checks of what they decide.

use std::fmt;
use std::sync::Arc;

use super::checks::{Check, CheckDelegate, CheckError, PolicyQuestion, Verdict, enact};
use super::decision::{DENY, Decision, Ruling};
use super::observer::without_partial_results;
use super::policy::Policy;
use crate::call::client_requests::refuse_requests;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult};
use crate::call::{Arguments, CallContext};
use crate::chat::Usage;
use crate::panic::catch_panic;
use crate::tool::{Tool, ValidatedCall};

/// The error of a server that asks the client of a call to which hooks apply.
const UNSEEN_ANSWERS: &str =
    "the tool has hooks, which cannot check questions to its client, so the client cannot be asked";

/// Policies, in the order in which they run: rules, or the hooks of an operator. Cheap to clone.
///
/// [`CallChecks`](super::CallChecks) runs them. A changed result has to match the output schema of the tool.
#[derive(Clone, Default)]
pub struct Policies(Arc<[Arc<dyn Policy>]>);

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|policy| policy.name())).finish()
    }
}

impl FromIterator<Arc<dyn Policy>> for Policies {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Policy>>>(policies: I) -> Self {
        Self(policies.into_iter().collect())
    }
}

/// A call that no policy of a list refused.
pub(super) struct DecidedCall {
    /// The call, with the arguments as the policies left them.
    pub(super) call: ValidatedCall,
    /// The questions that a person has to agree to before the call runs.
    pub(super) questions: Vec<PolicyQuestion>,
}

impl Policies {
    /// Returns whether there are no policies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a policy decides on results of the tool.
    pub(super) fn decide_on_results(&self, tool: &Tool) -> bool {
        self.for_tool(tool).any(|policy| policy.decides_on_results())
    }

    /// Removes from the context what no policy sees: parts of a result before policies have decided on it, metadata that the
    /// client sent beside the arguments, and what it answers while the call runs.
    pub(super) fn hold_back(&self, tool: &Tool, context: &mut CallContext) {
        if self.for_tool(tool).next().is_some() {
            context.client_meta = None;
            context.client_requests =
                context.client_requests.take().map(|client| refuse_requests(client.as_ref(), UNSEEN_ANSWERS));
        }
        if self.decide_on_results(tool) {
            context.observer = context.observer.take().map(without_partial_results);
        }
    }

    fn for_tool<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a Arc<dyn Policy>> {
        self.0.iter().filter(move |policy| policy.applies_to(tool))
    }

    /// Runs the policies before a call. `check` is what they are.
    ///
    /// # Errors
    /// The error of the refused call, which names the policy.
    pub(super) async fn before(
        &self,
        check: Check,
        call: ValidatedCall,
        context: &CallContext,
        delegate: &mut dyn CheckDelegate,
    ) -> Result<DecidedCall, CheckError> {
        let tool = Arc::clone(call.tool());
        let mut call = call;
        let mut is_changed = false;
        let mut questions = Vec::new();
        self.authorize(check, &call, context).await?;
        for policy in self.for_tool(&tool) {
            let name = policy.name();
            let attempted = attempt(async { policy.before(&call, context).await }).await;
            let Ruling { decision, usage } = match attempted {
                Ok(ruling) => ruling,
                Err(error) => {
                    let error = refused_by_failure(&check.label(name), &error);
                    return Err(fail(check, name, error, &call, Usage::default(), delegate).await);
                }
            };
            let changed = match &decision {
                Decision::Rewrite { to, .. } => match change(&tool, to, delegate) {
                    Ok(changed) => Some(changed),
                    Err(problem) => {
                        let problem = format!("{} changed the arguments to invalid ones: {problem}", check.label(name));
                        let error = CallError::new(ErrorKind::Denied, problem);
                        return Err(fail(check, name, error, &call, usage, delegate).await);
                    }
                },
                _ => None,
            };
            let arguments = changed.as_ref().unwrap_or(&call).arguments();
            if let Some(question) = enact(check, name, &decision, arguments, usage, delegate).await? {
                questions.push(PolicyQuestion { from: check.label(name), text: question });
            }
            is_changed |= changed.is_some();
            call = changed.unwrap_or(call);
        }
        if is_changed {
            // The first authorization was for the arguments before the change.
            delegate.authorize(&call).map_err(|error| CheckError::refused(Check::Authorization, error))?;
            self.authorize(check, &call, context).await?;
        }
        Ok(DecidedCall { call, questions })
    }

    async fn authorize(&self, check: Check, call: &ValidatedCall, context: &CallContext) -> Result<(), CheckError> {
        for policy in self.for_tool(call.tool()) {
            let label = check.label(policy.name());
            let attempted = attempt(async { policy.authorize(call, context).await }).await;
            let reason = match attempted {
                Ok(Decision::Allow) => continue,
                Ok(Decision::Rewrite { to, .. }) => match to {},
                Ok(Decision::Deny { error }) => error.message.to_string(),
                Ok(Decision::Ask { question }) => question,
                Err(error) => return Err(CheckError::refused(check, refused_by_failure(&label, &error))),
            };
            let message = format!("{label} does not authorize this call: {reason}");
            return Err(CheckError::refused(check, CallError::new(ErrorKind::Unauthorized, message)));
        }
        Ok(())
    }

    /// Runs the policies after a call, and returns the result as they leave it, without members that they do not see.
    pub(super) async fn after(
        &self,
        check: Check,
        call: &ValidatedCall,
        context: &CallContext,
        mut result: CallResult,
    ) -> CallResult {
        if self.decide_on_results(call.tool()) {
            // Policies do not see these parts, so a rejected text could pass in them.
            result.metadata.members = None;
            if let Err(error) = &mut result.outcome {
                error.details = None;
            }
        }
        for policy in self.for_tool(call.tool()).filter(|policy| policy.decides_on_results()) {
            let label = check.label(policy.name());
            let decision = match attempt(async { policy.after(call, context, &result.outcome).await }).await {
                Ok(decision) => decision,
                Err(error) => return result.withhold(&format!("{label} failed: {}: {}", error.kind, error.message)),
            };
            match decision {
                Decision::Allow => {}
                Decision::Deny { error } => {
                    return result.withhold(&format!("rejected by {label}: {}", error.message));
                }
                Decision::Ask { question } => {
                    return result.withhold(&format!("{label} asks about the result: {question}"));
                }
                Decision::Rewrite { to: Ok(parts), .. } => match call.tool().check_result(&parts) {
                    Ok(()) => result = result.replace(Ok(parts)),
                    Err(error) => {
                        let problem = format!("{label} changed the result to an invalid one: {}", error.message);
                        return result.withhold(&problem);
                    }
                },
                Decision::Rewrite { to: Err(message), .. } => {
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

/// Runs a method of a policy. A panic is a failure.
async fn attempt<T>(running: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    catch_panic(running).await.unwrap_or_else(|panic| Err(CallError::new(ErrorKind::Trap, panic)))
}

/// Records that a policy which failed has denied a call, and returns the refusal.
async fn fail(
    check: Check,
    by: &str,
    error: CallError,
    call: &ValidatedCall,
    usage: Usage,
    delegate: &mut dyn CheckDelegate,
) -> CheckError {
    let reason = Some(error.message.as_str());
    let verdict = Verdict { check, by, decision: DENY, reason, arguments: call.arguments(), usage };
    // The call is refused whether or not that can be recorded.
    let _recorded = delegate.record(verdict).await;
    CheckError::refused(check, error)
}

/// Validates the arguments to which a policy changed those of a call.
fn change(tool: &Arc<Tool>, to: &Arguments, delegate: &dyn CheckDelegate) -> Result<ValidatedCall, String> {
    let changed = tool.validate(to.clone()).map_err(|error| error.to_string())?;
    delegate.accepts(&changed)?;
    Ok(changed)
}

/// Returns the error of a call that is refused because a policy failed. Its kind is that of the failure only where the
/// call may succeed later, or the caller gave up.
fn refused_by_failure(label: &str, error: &CallError) -> CallError {
    match error.kind {
        ErrorKind::Cancelled => error.clone(),
        kind => {
            let is_kept = matches!(kind, ErrorKind::Unavailable | ErrorKind::NeedsApproval);
            let problem = format!("{label} failed, so the call was refused: {kind}: {}", error.message);
            let refused = CallError::new(if is_kept { kind } else { ErrorKind::Denied }, problem);
            let hint = error.hint.as_ref().filter(|_| is_kept).cloned();
            let hint = hint.unwrap_or_else(|| "the tool did not run; an operator must check the policy".into());
            CallError { retry_after: error.retry_after, ..refused }.with_hint(hint)
        }
    }
}
