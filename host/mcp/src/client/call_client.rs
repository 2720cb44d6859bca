//! The client of a call that is under way at a server: its observer, its clock, and its answers to the server's requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fumehood_core::call::Observer;
use fumehood_core::call::client_requests::{ClientRequestKind, ClientRequests};
use serde_json::Value;

use super::call_clock::CallClock;

/// Maximum number of requests to the client in one call.
pub(super) const MAX_REQUESTS: u32 = 32;
/// The error where there is no client that could be asked.
const NO_CLIENT: &str = "the tool has a question for its user, but no user can be asked here";

/// The client of a call. Cheap to clone; clones share their state.
///
/// It is carried in the extensions of the call's requests through rmcp to the transport.
#[derive(Clone)]
pub(crate) struct CallClient {
    observer: Arc<dyn Observer>,
    /// Stands still while the client is asked.
    clock: Arc<CallClock>,
    requests: Option<Arc<dyn ClientRequests>>,
    sent: Arc<AtomicU32>,
}

impl CallClient {
    pub(super) fn new(
        clock: &Arc<CallClock>,
        observer: Option<Arc<dyn Observer>>,
        requests: Option<Arc<dyn ClientRequests>>,
    ) -> Self {
        Self { observer: clock.observe(observer), clock: Arc::clone(clock), requests, sent: Arc::default() }
    }

    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.observer)
    }

    /// Returns the number of the session of the call; `None` if nobody can be asked.
    pub(super) fn session(&self) -> Option<u64> {
        self.requests.as_ref().map(|requests| requests.session())
    }

    /// Sends a request to the client, and returns its result.
    ///
    /// # Errors
    /// A sentence, if there is no client, or it does not answer such requests.
    pub(super) async fn ask(&self, kind: ClientRequestKind, params: Value) -> Result<Value, String> {
        let requests = self.requests.as_ref().ok_or(NO_CLIENT)?;
        if self.sent.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            return Err(too_many_requests());
        }
        let _open = self.clock.ask();
        requests.send(kind, params).await
    }
}

/// Returns the error of a server that asks too often.
pub(super) fn too_many_requests() -> String {
    format!("the server sent more than {MAX_REQUESTS} questions in one call")
}
