//! Requests that were sent, and are cancelled unless they are answered.

use rmcp::service::{RequestHandle, ServiceError, ServiceRole};
use tokio::runtime::Handle;

/// A request without an answer yet. Dropping it cancels the request.
pub(crate) struct InFlightRequest<R: ServiceRole> {
    sent: Option<RequestHandle<R>>,
    runtime: Handle,
}

impl<R: ServiceRole> InFlightRequest<R> {
    /// Wraps a request that was sent.
    pub(crate) fn new(sent: RequestHandle<R>) -> Self {
        Self { sent: Some(sent), runtime: Handle::current() }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Result<R::PeerResp, ServiceError> {
        let Some(sent) = &mut self.sent else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut sent.rx).await;
        self.sent = None;
        answer.map_err(|_gone| ServiceError::TransportClosed)?
    }
}

impl<R: ServiceRole> Drop for InFlightRequest<R> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.runtime.spawn(sent.cancel(Some("the caller no longer waits for it".to_owned())));
        }
    }
}
