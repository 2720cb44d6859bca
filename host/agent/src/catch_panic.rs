//! Panics of tools, models, hooks, judges and callbacks as errors, so that none of them ends a batch or a run.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;

/// Runs a future and catches its panic.
///
/// Values that it had borrowed may be in an inconsistent state: callers discard them.
///
/// # Errors
/// The message of the panic.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| panic_message(panic.as_ref()))
}

/// Like [`catch_panic`], for a function.
pub(crate) fn catch_panic_sync<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| panic_message(panic.as_ref()))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
