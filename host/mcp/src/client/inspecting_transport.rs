//! A transport of which every message is looked at before the protocol's library sees it.
//!
//! Here progress finds its call, in order and without a task for each report; here a server that says far more than it was
//! asked for is cut off; and here a server that does not know the newest revision is answered for, if it keeps silent.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use super::message_tracker::{MessageTracker, Verdict};

/// A transport whose messages are looked at.
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

    /// May be dropped at any point and called again, if that of the transport below may.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                message = self.inner.receive() => message?,
                refusal = self.tracker.refuse_late_discovery() => return Some(refusal),
            };
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
