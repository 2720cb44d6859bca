//! A list of policies: the order in which they run, and the checks of what they decide.

use std::fmt;
use std::sync::Arc;

use super::approver::{CallQuestion, ProposedCall};
use super::decision::Decision;
use super::observer::without_partial_results;
use super::policy::Policy;
use crate::call::CallContext;
use crate::call::client_requests::refuse_requests;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult};
use crate::tool::{Tool, ValidatedCall};

/// The error of a server that asks the client of a call to which hooks apply.
const UNSEEN_ANSWERS: &str =
    "the tool has hooks, which cannot check questions to its client, so the client cannot be asked";

/// The hooks of an operator: policies, in the order in which they run. Cheap to clone.
///
/// - Every policy authorizes a call before any of them decides on it otherwise.
/// - Changed arguments go through the gate of the tool, and are authorized again. Later policies see them.
/// - A changed result has to match the output schema of the tool.
/// - A policy that fails, or decides something invalid, has refused the call or withheld the result.
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

/// A call that no policy refused.
#[derive(Debug, Clone)]
pub struct ClearedCall {
    /// The call, with the arguments as the policies left them.
    pub call: ValidatedCall,
    /// The names of the policies that changed the arguments.
    pub changed_by: Vec<String>,
    /// The questions that a person has to agree to before the call runs.
    pub questions: Vec<CallQuestion>,
}

impl Policies {
    /// Returns whether there are no policies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a policy decides on results of the tool.
    #[must_use]
    pub fn decide_on_results(&self, tool: &Tool) -> bool {
        self.for_tool(tool).any(|policy| policy.decides_on_results())
    }

    /// Removes from the context what no policy sees: parts of a result before policies have decided on it, metadata that the
    /// client sent beside the arguments, and what it answers while the call runs.
    pub fn hold_back(&self, tool: &Tool, context: &mut CallContext) {
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

    /// Runs the policies before a call.
    ///
    /// # Errors
    /// The error of the refused call, which names the policy.
    pub async fn before(&self, call: ValidatedCall, context: &CallContext) -> Result<ClearedCall, CallError> {
        let mut call = call;
        let mut changed_by = Vec::new();
        let mut asked = Vec::new();
        self.authorize(&call, context).await?;
        let tool = Arc::clone(call.tool());
        for policy in self.for_tool(&tool) {
            let name = policy.name();
            let ruling = policy.before(&call, context).await.map_err(|error| refused_by_failure(name, &error))?;
            match ruling.decision {
                Decision::Allow => {}
                Decision::Rewrite { to, .. } => {
                    call = tool.validate(to).map_err(|error| {
                        let problem = format!("changed the arguments to invalid ones: {error}");
                        refused(name, ErrorKind::Denied, &problem)
                    })?;
                    changed_by.push(name.to_owned());
                }
                Decision::Deny { error } => {
                    let message = format!("denied by the hook `{name}`: {}", error.message);
                    return Err(CallError { message: message.into(), ..error });
                }
                Decision::Ask { question } => asked.push((name, question)),
            }
        }
        if !changed_by.is_empty() {
            // The first authorization was for the arguments before the change.
            self.authorize(&call, context).await?;
        }
        let questions = asked.into_iter().map(|(name, question)| CallQuestion {
            from: format!("the hook `{name}`"),
            question,
            proposed: ProposedCall::new(&call, context),
        });
        let questions = questions.collect();
        Ok(ClearedCall { call, changed_by, questions })
    }

    async fn authorize(&self, call: &ValidatedCall, context: &CallContext) -> Result<(), CallError> {
        for policy in self.for_tool(call.tool()) {
            let name = policy.name();
            let reason =
                match policy.authorize(call, context).await.map_err(|error| refused_by_failure(name, &error))? {
                    Decision::Allow => continue,
                    Decision::Rewrite { to, .. } => match to {},
                    Decision::Deny { error } => error.message.to_string(),
                    Decision::Ask { question } => question,
                };
            let problem = format!("does not authorize this call: {reason}");
            return Err(refused(name, ErrorKind::Unauthorized, &problem));
        }
        Ok(())
    }

    /// Runs the policies after a call, and returns the result as they leave it, without members that they do not see.
    pub async fn after(&self, call: &ValidatedCall, context: &CallContext, mut result: CallResult) -> CallResult {
        if self.decide_on_results(call.tool()) {
            // Policies do not see these parts, so a rejected text could pass in them.
            result.metadata.members = None;
            if let Err(error) = &mut result.outcome {
                error.details = None;
            }
        }
        for policy in self.for_tool(call.tool()).filter(|policy| policy.decides_on_results()) {
            let name = policy.name();
            let decision = match policy.after(call, context, &result.outcome).await {
                Ok(decision) => decision,
                Err(error) => {
                    return result.withhold(&format!("the hook `{name}` failed: {}: {}", error.kind, error.message));
                }
            };
            match decision {
                Decision::Allow => {}
                Decision::Deny { error } => {
                    return result.withhold(&format!("rejected by the hook `{name}`: {}", error.message));
                }
                Decision::Ask { question } => {
                    return result.withhold(&format!("the hook `{name}` asks about the result: {question}"));
                }
                Decision::Rewrite { to: Ok(parts), .. } => match call.tool().check_result(&parts) {
                    Ok(()) => result = result.replace(Ok(parts)),
                    Err(error) => {
                        let problem =
                            format!("the hook `{name}` changed the result to an invalid one: {}", error.message);
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
