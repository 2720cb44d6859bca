//! A place among the running calls, which a call waits for before its guest runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fumehood_core::call::CancellationToken;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::admission::AdmissionError;
use super::outcome::Execution;
use super::shared::Shared;
use crate::wasi::Invocation;

/// Time after which a call to a full host may be retried: some calls of the usual kind are over by then.
const RETRY_AFTER_FULL: Duration = Duration::from_millis(100);

/// A place among the running calls of a sandbox, and of a worker process if it is for one. It is returned when the guest
/// is gone, not when its caller stops waiting.
pub(crate) struct Place {
    shared: Arc<Shared>,
    in_worker: Option<OwnedSemaphorePermit>,
    /// The time that the call waited.
    pub(crate) queued: Duration,
}

impl Place {
    /// Waits for a place, first in the worker process if `worker` has its permits.
    ///
    /// # Errors
    /// The end of the call, if the host is full or shuts down, or the call is cancelled.
    pub(crate) async fn enter(
        shared: &Arc<Shared>,
        worker: Option<&Arc<Semaphore>>,
        call: &Invocation,
    ) -> Result<Self, Execution> {
        let is_cancelled = call.cancelled.as_ref().is_some_and(CancellationToken::is_cancelled);
        if worker.is_none() && !is_cancelled && shared.admission.try_enter() {
            return Ok(Self { shared: Arc::clone(shared), in_worker: None, queued: Duration::ZERO });
        }
        let since = Instant::now();
        let entered = unless_cancelled(call.cancelled.as_ref(), acquire(shared, worker)).await;
        let failed = |error| Execution::failed(error, since.elapsed(), &call.limits);
        match entered {
            Some(Ok((in_worker, queued))) => Ok(Self { shared: Arc::clone(shared), in_worker, queued }),
            Some(Err(error)) => Err(failed(error)),
            None => Err(failed(CallError::cancelled())),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.in_worker.is_some() {
            self.shared.isolated.fetch_sub(1, Ordering::Relaxed);
        }
        self.shared.admission.leave();
    }
}

async fn acquire(
    shared: &Shared,
    worker: Option<&Arc<Semaphore>>,
) -> Result<(Option<OwnedSemaphorePermit>, Duration), CallError> {
    let Some(permits) = worker else {
        return Ok((None, shared.admission.enter().await.map_err(refusal)?));
    };
    let since = Instant::now();
    // The semaphore is never closed.
    let closed = |_| CallError::new(ErrorKind::Host, "the worker accepts no more calls");
    let permit = match Arc::clone(permits).try_acquire_owned() {
        Ok(permit) => permit,
        Err(_) => Arc::clone(permits).acquire_owned().await.map_err(closed)?,
    };
    shared.admission.enter().await.map_err(refusal)?;
    shared.isolated.fetch_add(1, Ordering::Relaxed);
    Ok((Some(permit), since.elapsed()))
}

fn refusal(error: AdmissionError) -> CallError {
    match error {
        AdmissionError::Full => CallError::new(ErrorKind::Unavailable, "too many calls are waiting")
            .with_hint("call again in a moment")
            .with_retry_after(RETRY_AFTER_FULL),
        AdmissionError::Closed => CallError::new(ErrorKind::Unavailable, "the host is shutting down"),
    }
}

/// Returns the output of `future`, or `None` if the call is cancelled before.
pub(crate) async fn unless_cancelled<F: Future>(cancelled: Option<&CancellationToken>, future: F) -> Option<F::Output> {
    match cancelled {
        Some(cancelled) => cancelled.run_until_cancelled(future).await,
        None => Some(future.await),
    }
}
