//! A request that is under way, and is taken back if nobody waits for its answer any more.

use rmcp::RoleClient;
use rmcp::model::ServerResult;
use rmcp::service::{RequestHandle, ServiceError};
use tokio::runtime::Handle;

/// A request without an answer yet.
pub(crate) struct Pending {
    sent: Option<RequestHandle<RoleClient>>,
    runtime: Handle,
}

impl Pending {
    /// It was sent.
    pub(crate) fn new(sent: RequestHandle<RoleClient>) -> Self {
        Self { sent: Some(sent), runtime: Handle::current() }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(sent) = &mut self.sent else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut sent.rx).await;
        self.sent = None;
        answer.map_err(|_gone| ServiceError::TransportClosed)?
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.runtime.spawn(sent.cancel(Some("nobody waits for it any more".to_owned())));
        }
    }
}
