//! The port for requests of an MCP server to the client of a call: questions to its user, and samples of its model.

use std::sync::Arc;

use serde_json::Value;

use crate::boxed::BoxFuture;

/// The kind of a request to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientRequestKind {
    /// A question to the user of the client.
    Elicitation,
    /// A request to the model of the client.
    Sampling,
}

impl ClientRequestKind {
    /// Returns the method of MCP.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
        }
    }

    /// Returns the kind with this method.
    #[must_use]
    pub fn from_method(method: &str) -> Option<Self> {
        [Self::Elicitation, Self::Sampling].into_iter().find(|kind| kind.method() == method)
    }
}

/// The client of a call. Requests reach it while the call is under way.
pub trait ClientRequests: Send + Sync {
    /// Returns the number of the session that the call belongs to. Calls of one session have the same number, and calls of
    /// different sessions different ones.
    fn session(&self) -> u64;

    /// Sends a request with parameters of MCP, and returns the result as the client wrote it. Dropping the future cancels
    /// the request.
    ///
    /// # Errors
    /// A sentence, if the client does not support such requests or refuses this one.
    fn send(&self, kind: ClientRequestKind, params: Value) -> BoxFuture<'_, Result<Value, String>>;
}

/// A client that is asked for nothing. Its session is that of another one.
struct SilentClient {
    session: u64,
    why: &'static str,
}

impl ClientRequests for SilentClient {
    fn session(&self) -> u64 {
        self.session
    }

    fn send(&self, _kind: ClientRequestKind, _params: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Err(self.why.to_owned())))
    }
}

/// Wraps a client so that each request to it fails with this sentence.
pub(crate) fn refuse_requests(client: &dyn ClientRequests, why: &'static str) -> Arc<dyn ClientRequests> {
    Arc::new(SilentClient { session: client.session(), why })
}
