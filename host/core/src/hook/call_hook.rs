//! The port for hooks, and their decisions.

use crate::boxed::BoxFuture;
use crate::call::CallContext;
use crate::call::content::Content;
use crate::call::result::CallError;
use crate::tool::ValidatedCall;

/// A decision on whether the actor of a call may make it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// The actor may make the call.
    Allow,
    /// The actor may not make the call.
    Deny {
        /// The reason, for the caller.
        reason: String,
    },
}

/// The decision of a hook before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeforeDecision {
    /// Lets the call run.
    Allow,
    /// Lets the call run with other arguments, which go through the gate of the tool.
    Modify {
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// Refuses the call.
    Deny {
        /// The error, for the caller.
        error: CallError,
    },
    /// Asks a person about the call.
    Ask {
        /// The question.
        question: String,
    },
}

/// The decision of a hook after a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AfterDecision {
    /// Passes on the result as it is.
    Keep,
    /// Passes on other content, which has to match the output schema of the tool, or the message of another failure.
    Replace(Result<Vec<Content>, String>),
    /// Withholds the result.
    Reject {
        /// The reason, for the caller.
        reason: String,
    },
}

/// A hook of an operator. Each method returns an error if the hook itself failed: the call is refused then, or its
/// result withheld.
pub trait CallHook: Send + Sync {
    /// Returns the name of the hook in messages and records.
    fn name(&self) -> &str;

    /// Returns whether the hook decides on calls of the tool of this full name. Default: on those of every tool.
    fn applies_to(&self, tool: &str) -> bool {
        let _ = tool;
        true
    }

    /// Returns whether the hook decides on results. Default: it does.
    fn decides_on_results(&self) -> bool {
        true
    }

    /// Decides whether the actor may make the call. Runs again after a hook changed the arguments. Default: it may.
    ///
    /// # Errors
    /// If the hook failed.
    fn authorize<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Authorization, CallError>> {
        let _ = (call, context);
        Box::pin(std::future::ready(Ok(Authorization::Allow)))
    }

    /// Decides on a call before it runs. Default: it runs.
    ///
    /// # Errors
    /// If the hook failed.
    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<BeforeDecision, CallError>> {
        let _ = (call, context);
        Box::pin(std::future::ready(Ok(BeforeDecision::Allow)))
    }

    /// Decides on the outcome of a call that ran. Default: it is passed on.
    ///
    /// # Errors
    /// If the hook failed.
    fn after<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<AfterDecision, CallError>> {
        let _ = (call, context, outcome);
        Box::pin(std::future::ready(Ok(AfterDecision::Keep)))
    }
}
