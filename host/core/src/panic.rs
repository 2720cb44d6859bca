//! Panics of policies, tools, models and callbacks as errors, so that none of them ends a batch or a run.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs a future and catches its panic.
///
/// Values that it had borrowed may be in an inconsistent state: callers discard them.
///
/// # Errors
/// The message of the panic.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_panic_sync(|| future.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}

/// Like [`catch_panic`], for a function.
///
/// # Errors
/// The message of the panic.
pub fn catch_panic_sync<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| panic_message(panic.as_ref()))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
