//! The capabilities that one call in a worker uses. They run in the host, which checks every value again.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Instant;

use fumehood_core::call::limits::Limits;
use fumehood_core::capability::{CapabilityError, Value};
use fumehood_core::tool::name::Namespace;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tracing::{Instrument as _, Span};

use super::link::Link;
use super::message::ToWorker;
use super::values::Values;
use crate::call::outcome::Execution;
use crate::wasi::capability::FunctionIndex;
use crate::wasi::{CallSessions, GrantedCapabilities, Invocation, Refusals};

/// The sessions of one call in a worker.
pub(super) struct CapabilityCalls {
    sessions: Arc<Mutex<CallSessions>>,
    /// The function that runs, if there is one.
    running: SyncMutex<Option<AbortHandle>>,
    refusals: Refusals,
    deadline: Instant,
    /// The span of the call, around those of its functions.
    span: Span,
}

impl CapabilityCalls {
    /// Creates the sessions of a call, in the current span.
    pub(super) fn new(
        granted: GrantedCapabilities,
        invocation: &Invocation,
        owner: Option<Namespace>,
        limits: &Limits,
        deadline: Instant,
    ) -> Self {
        let refusals = Refusals::default();
        let context = invocation.capability_context(owner, deadline, refusals.clone());
        let sessions = Arc::new(Mutex::new(CallSessions::new(granted, context, limits)));
        Self { sessions, running: SyncMutex::default(), refusals, deadline, span: Span::current() }
    }

    /// Starts a function. Its answer is sent over the link.
    ///
    /// # Errors
    /// If another one of the call has not ended: a guest waits for each.
    pub(super) fn call(&self, link: &Link, step: u64, at: FunctionIndex, arguments: Vec<Value>) -> Result<(), String> {
        let mut sessions = Arc::clone(&self.sessions).try_lock_owned().map_err(|_| still_running())?;
        let until = self.deadline.into();
        let runtime = link.runtime();
        let calling = async move { tokio::time::timeout_at(until, sessions.call(at, arguments)).await };
        let running = runtime.spawn(calling.instrument(self.span.clone()));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.abort_handle());
        let link = link.weak();
        runtime.spawn(async move {
            let answer = match running.await {
                Ok(Ok(result)) => result.and_then(to_message),
                Err(lost) if lost.is_panic() => Err(CapabilityError::Failed("the capability panicked".to_owned())),
                // The worker ends the call by itself.
                Ok(Err(_)) | Err(_) => return,
            };
            if let Some(link) = link.upgrade() {
                link.notify(&ToWorker::Used { step, answer });
            }
        });
        Ok(())
    }

    /// Drops a handle.
    ///
    /// # Errors
    /// If a function of the call has not ended.
    pub(super) fn drop_resource(&self, capability: usize, resource: &str, handle: u32) -> Result<(), String> {
        let mut sessions = self.sessions.try_lock().map_err(|_| still_running())?;
        sessions.drop_resource(capability, resource, handle);
        Ok(())
    }

    /// Stops the function that runs.
    pub(super) fn end(&self) {
        if let Some(running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            running.abort();
        }
    }

    /// Stops the function that runs, and adds the refusals to the result of the call.
    pub(super) fn finish(&self, execution: &mut Execution) {
        self.end();
        let (refused, exhausted) = self.refusals.to_lists();
        execution.metadata.refused.extend(refused);
        execution.metadata.exhausted.extend(exhausted);
    }
}

fn to_message(result: Option<Value>) -> Result<Values, CapabilityError> {
    Values::new(result).map_err(|error| CapabilityError::Quota(error.to_string()))
}

fn still_running() -> String {
    "it uses a capability for a call that waits for another use".to_owned()
}
