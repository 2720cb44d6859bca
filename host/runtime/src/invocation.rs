//! One call on its way into a guest: its identity, its limits, its observer, and its arguments.

use std::borrow::Cow;
use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::call::{CallContext, CancellationToken, Observer};
use fumehood_core::tool::ValidatedCall;

/// A call of a guest. The guest can read the first four; all of it comes from the host.
#[derive(Clone, Default)]
pub(crate) struct Invocation {
    /// The id of the call.
    pub(crate) id: String,
    /// The tool's name within its component.
    pub(crate) tool: String,
    /// The person or program on whose behalf the call is made.
    pub(crate) actor: Option<Arc<str>>,
    /// A snapshot of the agent's state, as JSON text. Only a tool that was granted it can read it.
    pub(crate) state: Option<Arc<str>>,
    /// The limits. They have passed [`Limits::check`].
    pub(crate) limits: Limits,
    /// The observer of the call's log lines, progress and requests.
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// A token that ends the call with the kind `cancelled`, and with the metadata of its cost until then.
    pub(crate) cancelled: Option<CancellationToken>,
}

impl Invocation {
    /// Creates the call of a tool with these limits, in place of those of the context.
    pub(crate) fn new(tool: &str, limits: Limits, context: CallContext) -> Self {
        let CallContext { id, actor, state, observer, cancelled, .. } = context;
        Self { id, tool: tool.to_owned(), actor, state, limits, observer, cancelled }
    }
}

/// Arguments that have passed the tool's schema.
#[derive(Debug)]
pub(crate) enum Arguments {
    Validated(ValidatedCall),
    /// In a worker, whose host has checked them.
    Text(String),
}

impl Arguments {
    /// Returns them as compact JSON text.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Validated(call) => call.to_text(),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}
