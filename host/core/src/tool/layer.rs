//! Layers: providers around a provider, which change how its tools are called.

use std::sync::Arc;

use super::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};
use crate::boxed::BoxFuture;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult, Metadata};
use crate::call::{Arguments, Call, CallContext};

/// A provider around another one, with one method for all calls.
///
/// It has the tools of the inner provider, as far as it [offers](Self::offers) them, and is a [`ToolProvider`] itself.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use fumehood_core::call::result::CallResult;
/// use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider};
///
/// /// Tools whose calls are counted.
/// struct CountedTools {
///     inner: Arc<dyn ToolProvider>,
///     calls: AtomicU64,
/// }
///
/// impl ToolLayer for CountedTools {
///     fn inner(&self) -> &dyn ToolProvider {
///         &*self.inner
///     }
///
///     async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
///         self.calls.fetch_add(1, Ordering::Relaxed);
///         call.run(self.inner()).await
///     }
/// }
/// ```
pub trait ToolLayer: Send + Sync {
    /// Returns the provider behind the layer.
    fn inner(&self) -> &dyn ToolProvider;

    /// Runs a call, usually with [`PendingCall::run`]. Dropping the future stops the tool.
    ///
    /// # Errors
    /// As for [`ToolProvider::call`].
    fn handle(&self, call: PendingCall) -> impl Future<Output = Result<CallResult, Stop>> + Send;

    /// Returns whether a tool of the inner provider is one of the layer's, by its full name. [`Self::handle`] has to refuse
    /// calls of others.
    fn offers(&self, tool: &str) -> bool {
        let _ = tool;
        true
    }
}

impl<L: ToolLayer> ToolProvider for L {
    fn kind(&self) -> ProviderKind {
        self.inner().kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.inner().tools();
        tools.retain(|tool| self.offers(tool.full_name()));
        tools
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        if self.offers(name) { self.inner().find(name) } else { None }
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(self.handle(PendingCall::Validated(call, context)))
    }

    fn changes(&self) -> Changes {
        self.inner().changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        let id = call.context.id.clone();
        let tool = call.tool.clone();
        Box::pin(async move {
            let ended = self.handle(PendingCall::Unchecked(call)).await;
            ended.unwrap_or_else(|stop| CallResult {
                id,
                tool,
                outcome: Err(CallError::new(ErrorKind::ToolFailed, stop.reason)),
                metadata: Metadata::default(),
            })
        })
    }
}

/// A call on its way through layers.
#[derive(Debug)]
pub enum PendingCall {
    /// It passed the gate.
    Validated(ValidatedCall, CallContext),
    /// The innermost provider takes it through the gate.
    Unchecked(Call),
}

impl PendingCall {
    /// Returns the full name of the tool. It may be unknown, unless the call passed the gate.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        match self {
            Self::Validated(call, _) => call.tool().full_name(),
            Self::Unchecked(call) => &call.tool,
        }
    }

    /// Returns the context of the call.
    #[must_use]
    pub fn context(&self) -> &CallContext {
        match self {
            Self::Validated(_, context) => context,
            Self::Unchecked(call) => &call.context,
        }
    }

    /// Returns the context of the call, to change it.
    pub fn context_mut(&mut self) -> &mut CallContext {
        match self {
            Self::Validated(_, context) => context,
            Self::Unchecked(call) => &mut call.context,
        }
    }

    /// Returns the call as its sender would write it.
    #[must_use]
    pub fn into_unchecked(self) -> Call {
        match self {
            Self::Validated(call, context) => {
                let tool = call.tool().full_name().to_owned();
                let arguments = Arguments::Text(call.to_text().into());
                Call { tool, arguments, context }
            }
            Self::Unchecked(call) => call,
        }
    }

    /// Runs the call with the provider behind a layer.
    ///
    /// # Errors
    /// As for [`ToolProvider::call`].
    pub async fn run(self, inner: &dyn ToolProvider) -> Result<CallResult, Stop> {
        match self {
            Self::Validated(call, context) => inner.call(call, context).await,
            Self::Unchecked(call) => Ok(inner.dispatch(call).await),
        }
    }

    /// Returns the result of a call that is not run, for this reason.
    #[must_use]
    pub fn refuse(self, error: CallError) -> CallResult {
        let (tool, context) = match self {
            Self::Validated(call, context) => (call.tool().full_name().to_owned(), context),
            Self::Unchecked(Call { tool, context, .. }) => (tool, context),
        };
        CallResult { id: context.id, tool, outcome: Err(error), metadata: Metadata::default() }
    }
}
