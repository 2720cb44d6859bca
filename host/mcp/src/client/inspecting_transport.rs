//! A transport that inspects every message before rmcp receives it.
//!
//! Inspection passes progress to its call, in order and without a task for each report; it ends the connection of a
//! server that sends far more than it was asked for; and it answers `server/discover` for a server that leaves it
//! unanswered.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use super::message_tracker::{MessageTracker, Verdict};

/// A transport that inspects the messages of another one.
pub(crate) struct InspectingTransport<T> {
    inner: T,
    tracker: Arc<MessageTracker>,
    /// Cancelled when the server is cut off.
    closed: CancellationToken,
}

impl<T> InspectingTransport<T> {
    pub(crate) fn new(inner: T, tracker: Arc<MessageTracker>, closed: CancellationToken) -> Self {
        Self { inner, tracker, closed }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InspectingTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        "the connection".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.tracker.record_sent(&message);
        self.inner.send(message)
    }

    /// Cancel safe, if that of the inner transport is.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let mut message = tokio::select! {
                biased;
                message = self.inner.receive() => message?,
                refusal = self.tracker.refuse_late_discovery() => return Some(refusal),
            };
            self.tracker.address_error(&mut message);
            match self.tracker.inspect_received(&message) {
                Verdict::Pass => return Some(message),
                Verdict::Drop => {}
                Verdict::Flood => {
                    self.closed.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
