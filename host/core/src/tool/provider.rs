//! The port for sources of tools: sandboxed components, MCP servers and functions of the host.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

use super::name::MAX_FULL_NAME_BYTES;
use super::{Tool, ValidatedCall};
use crate::boxed::BoxFuture;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult, Metadata};
use crate::call::{Call, CallContext};
use crate::text::sanitize::printable;

/// Maximum number of known names in the error for an unknown one.
const MAX_SUGGESTIONS: usize = 20;

/// The place where a tool runs. A name that several providers have means the tool of the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderKind {
    /// The process of the host.
    BuiltIn,
    /// A sandbox.
    Component,
    /// The process of an MCP server.
    Mcp,
}

impl ProviderKind {
    /// Returns the name of the kind in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::Component => "component",
            Self::Mcp => "mcp",
        }
    }
}

/// The end of the whole run, requested by a tool or a hook. Never converted to the result of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run ended: {reason}")]
pub struct Stop {
    /// The reason.
    pub reason: String,
}

impl Stop {
    /// Creates a request to end the run for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The revision of a set of tools, which a provider advances with every change.
#[derive(Debug, Default)]
pub struct Revision(watch::Sender<u64>);

impl Revision {
    /// Advances the revision, and wakes all who wait for a change.
    pub fn advance(&self) {
        self.0.send_modify(|revision| *revision += 1);
    }

    /// Subscribes to the changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Changes {
        Changes(vec![self.0.subscribe()])
    }
}

/// A subscription to the changes of a set of tools. A clone has seen what the original has seen.
#[derive(Debug, Clone)]
pub struct Changes(Vec<watch::Receiver<u64>>);

impl Changes {
    /// Joins it with a subscription to another set: it has the changes of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the revision of the set: a number that grows with every change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.0.iter().fold(0, |sum, source| sum.wrapping_add(*source.borrow()))
    }

    /// Marks all changes until now as seen.
    pub fn mark_seen(&mut self) {
        self.0.iter_mut().for_each(watch::Receiver::mark_unchanged);
    }

    /// Waits for a change that was not seen yet, and returns the revision. Returns `None` once a provider is gone.
    /// Changes that arrived together are one.
    pub async fn next(&mut self) -> Option<u64> {
        let mut waiting: Vec<_> = self.0.iter_mut().map(|source| Box::pin(source.changed())).collect();
        let changed = std::future::poll_fn(|context| {
            let mut polled = waiting.iter_mut().map(|source| Pin::as_mut(source).poll(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        changed.await.ok()?;
        drop(waiting);
        self.mark_seen();
        Some(self.revision())
    }
}

/// A source of tools. Its set may change while calls run.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::boxed::BoxFuture;
/// use fumehood_core::call::CallContext;
/// use fumehood_core::call::content::Content;
/// use fumehood_core::call::result::{CallResult, Metadata};
/// use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
///
/// /// One tool, which returns its arguments.
/// struct Echo {
///     tool: Arc<Tool>,
///     revision: Revision,
/// }
///
/// impl ToolProvider for Echo {
///     fn kind(&self) -> ProviderKind {
///         ProviderKind::BuiltIn
///     }
///
///     fn tools(&self) -> Vec<Arc<Tool>> {
///         vec![Arc::clone(&self.tool)]
///     }
///
///     fn find(&self, name: &str) -> Option<Arc<Tool>> {
///         (self.tool.full_name() == name).then(|| Arc::clone(&self.tool))
///     }
///
///     fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
///         let tool = call.tool().full_name().to_owned();
///         let outcome = Ok(vec![Content::text(call.to_text())]);
///         let result = CallResult { id: context.id, tool, outcome, metadata: Metadata::default() };
///         Box::pin(std::future::ready(Ok(result)))
///     }
///
///     fn changes(&self) -> Changes {
///         self.revision.subscribe()
///     }
/// }
/// ```
pub trait ToolProvider: Send + Sync {
    /// Returns the place where its tools run.
    fn kind(&self) -> ProviderKind;

    /// Returns its tools, sorted by their full names, including those that need approval: see [`Tool::is_approved`].
    fn tools(&self) -> Vec<Arc<Tool>>;

    /// Finds a tool by its full name.
    fn find(&self, name: &str) -> Option<Arc<Tool>>;

    /// Runs a call that passed the gate. Dropping the future stops the tool.
    ///
    /// A call of a tool that is not one of the provider's any more, because it was replaced after the arguments were
    /// validated, fails with the kind `unavailable`: see [`CallError::replaced`].
    ///
    /// # Errors
    /// Only to end the whole run of an agent; a failure of the call is a result.
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>>;

    /// Subscribes to the changes of its set of tools.
    fn changes(&self) -> Changes;

    /// Finds the tool, validates the arguments and runs the call. Every outcome is returned as a result.
    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let Call { tool, arguments, context } = call;
            let Some(found) = self.find(&tool) else {
                let known = self.tools();
                let error = unknown_tool(&tool, known.iter().map(|known| known.full_name()));
                return failed_result(error, context.id, tool);
            };
            let id = context.id.clone();
            match found.validate_for(arguments, &context) {
                Ok(call) => match self.call(call, context).await {
                    Ok(result) => result,
                    Err(stop) => failed_result(CallError::new(ErrorKind::ToolFailed, stop.reason), id, tool),
                },
                Err(error) => failed_result(error.into(), id, tool),
            }
        })
    }
}

fn failed_result(error: CallError, id: String, tool: String) -> CallResult {
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

impl CallError {
    /// Creates the failure of a call whose tool was replaced or removed after its arguments were validated.
    #[must_use]
    pub fn replaced() -> Self {
        Self::new(ErrorKind::Unavailable, "the tool was replaced or removed before this call of it could run")
            .with_hint("list the tools again, and call it if it still exists")
    }
}

/// Returns the error for an unknown name, with some of the known names.
pub fn unknown_tool<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> CallError {
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    let hint = match known.get(..MAX_SUGGESTIONS) {
        _ if known.is_empty() => "no tools are loaded".to_owned(),
        None => format!("the tools are: {}", known.join(", ")),
        Some(first) => format!("some of the {} tools are: {}", known.len(), first.join(", ")),
    };
    let name: String = printable(name).chars().take(MAX_FULL_NAME_BYTES).collect();
    CallError::new(ErrorKind::UnknownTool, format!("unknown tool `{name}`")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn joined_subscriptions_have_the_changes_of_both() {
        let sets = [Revision::default(), Revision::default()];
        let mut changes = sets[0].subscribe().and(sets[1].subscribe());
        sets[1].advance();
        assert_eq!(changes.next().await, Some(1));
        sets[0].advance();
        sets[1].advance();
        assert_eq!(changes.next().await, Some(3));
        let quiet = tokio::time::timeout(std::time::Duration::from_millis(20), changes.next()).await;
        assert!(quiet.is_err(), "changes that arrived together are one");
    }
}
