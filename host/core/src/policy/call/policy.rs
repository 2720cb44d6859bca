//! The port for policies.

use std::convert::Infallible;
use std::fmt;

use super::decision::{Decision, Outcome, Ruling};
use crate::boxed::BoxFuture;
use crate::call::content::Content;
use crate::call::result::CallError;
use crate::call::{Arguments, CallContext};
use crate::tool::{Tool, ValidatedCall};

/// A policy that decides on calls: a rule, a judge, a rate limit, a redaction, a hook. Each method returns an error if the
/// policy itself failed: the call is refused then, or its result withheld.
///
/// ```
/// use fumehood_core::boxed::BoxFuture;
/// use fumehood_core::call::CallContext;
/// use fumehood_core::call::result::CallError;
/// use fumehood_core::policy::call::{Decision, Policy, Ruling};
/// use fumehood_core::tool::ValidatedCall;
///
/// /// Asks about calls of guests.
/// struct AskGuests;
///
/// impl Policy for AskGuests {
///     fn name(&self) -> &str {
///         "ask_guests"
///     }
///
///     fn before<'a>(
///         &'a self,
///         _: &'a ValidatedCall,
///         context: &'a CallContext,
///     ) -> BoxFuture<'a, Result<Ruling, CallError>> {
///         let decision = match context.actor {
///             Some(_) => Decision::Allow,
///             None => Decision::ask("may a guest call it?"),
///         };
///         Box::pin(std::future::ready(Ok(decision.into())))
///     }
/// }
/// ```
pub trait Policy: Send + Sync {
    /// Returns the name of the policy in messages and records.
    fn name(&self) -> &str;

    /// Returns whether the policy decides on calls of the tool. Default: on those of every tool.
    fn applies_to(&self, tool: &Tool) -> bool {
        let _ = tool;
        true
    }

    /// Returns whether the policy decides on results. Default: it does not.
    fn decides_on_results(&self) -> bool {
        false
    }

    /// Decides whether the actor may make the call. Runs again after a policy changed the arguments. Default: it may. A
    /// question is a denial here.
    ///
    /// # Errors
    /// If the policy failed.
    fn authorize<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Decision<Infallible>, CallError>> {
        let _ = (call, context);
        Box::pin(std::future::ready(Ok(Decision::Allow)))
    }

    /// Decides on a call before it runs. Default: it runs.
    ///
    /// # Errors
    /// If the policy failed.
    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Ruling, CallError>> {
        let _ = (call, context);
        Box::pin(std::future::ready(Ok(Decision::Allow.into())))
    }

    /// Decides on the outcome of a call that ran, if [`Self::decides_on_results`]. Default: it is passed on.
    ///
    /// # Errors
    /// If the policy failed.
    fn after<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        let _ = (call, context, outcome);
        Box::pin(std::future::ready(Ok(Decision::Allow)))
    }
}

/// A policy made of a function, which decides on calls before they run. It must not block.
pub struct PolicyFn<F> {
    name: String,
    decide: F,
}

impl<F> fmt::Debug for PolicyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFn").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F: Fn(&ValidatedCall, &CallContext) -> Decision<Arguments> + Send + Sync> PolicyFn<F> {
    /// Creates a policy that returns the decision of `decide`.
    pub fn new(name: impl Into<String>, decide: F) -> Self {
        Self { name: name.into(), decide }
    }
}

impl<F: Fn(&ValidatedCall, &CallContext) -> Decision<Arguments> + Send + Sync> Policy for PolicyFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(async move { Ok((self.decide)(call, context).into()) })
    }
}
