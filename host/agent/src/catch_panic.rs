//! Panics of tools, models, hooks, judges and callbacks, as values: none of them may take a batch or a run with it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;

/// What the future gives, or what it said when it panicked.
///
/// What it had borrowed may be left half changed: callers throw that away.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| said(panic.as_ref()))
}

/// The same for a function.
pub(crate) fn catch_panic_sync<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| said(panic.as_ref()))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
