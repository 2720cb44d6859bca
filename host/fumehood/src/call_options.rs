//! Calls that are observed, cancelled or recorded.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fumehood_core::call::Call;
use fumehood_core::result::CallResult;
use fumehood_runtime::Observer;
use tokio_util::sync::CancellationToken;

use crate::call_log::CallEntry;
use crate::host::Host;

/// Options of one call, for [`Host::call_with`].
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::{Call, CallOptions, Host, Invocation, Level, Load, Observer, Progress};
///
/// /// Prints the progress of one call.
/// struct Printer;
///
/// impl Observer for Printer {
///     fn log(&self, call: &Invocation, _level: Level, message: &str) {
///         println!("{}: {message}", call.tool);
///     }
///
///     fn progress(&self, call: &Invocation, progress: Progress) {
///         println!("{}: {:?}", call.tool, progress.fraction);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/countdown.wasm");
/// # let host = Host::builder().build()?;
/// # host.load(Load::path(path)).await?;
/// let call = Call::new("countdown__countdown", r#"{"from": 3, "step_ms": 1}"#);
/// let result = host.call_with(call, CallOptions::new().observer(Arc::new(Printer))).await;
/// assert!(result.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct CallOptions {
    observer: Option<Arc<dyn Observer>>,
    cancelled: Option<CancellationToken>,
    entry: Option<CallEntry>,
}

impl CallOptions {
    /// Creates options without an observer, a cancellation token or a record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an observer of this call, in addition to subscribers of the host. Its methods run while the guest waits,
    /// and must not block.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Stops the guest within milliseconds once `cancelled` is cancelled. The result then has the kind `cancelled`, and
    /// the cost of the call until then.
    #[must_use]
    pub fn cancelled_by(mut self, cancelled: CancellationToken) -> Self {
        self.cancelled = Some(cancelled);
        self
    }

    /// Records the start and the end of the call in `entry`. A call that cannot be recorded does not run; it fails with
    /// the kind `host`.
    #[must_use]
    pub fn recorded_as(mut self, entry: CallEntry) -> Self {
        self.entry = Some(entry);
        self
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { observer, cancelled, entry } = self;
        let mut shown = f.debug_struct("CallOptions");
        shown.field("observer", &observer.is_some()).field("cancelled", &cancelled.is_some());
        shown.field("entry", entry).finish()
    }
}

impl Host {
    /// Like [`Self::call`], with options for this call.
    pub async fn call_with(&self, call: Call, options: CallOptions) -> CallResult {
        let CallOptions { observer, cancelled, entry } = options;
        self.call_observed(call, observer, cancelled, entry).await
    }

    /// Calls a tool until `cancelled` completes; then the guest is stopped within milliseconds, and the result has the
    /// kind `cancelled` and the cost of the call until then.
    pub async fn call_until(&self, call: Call, cancelled: impl Future) -> CallResult {
        self.call_recorded(call, None, cancelled).await
    }

    /// Like [`Self::call_until`], and records the start and the end of the call in `entry` if there is one.
    ///
    /// A call that cannot be recorded does not run; it fails with the kind `host`.
    pub async fn call_recorded(&self, call: Call, entry: Option<CallEntry>, cancelled: impl Future) -> CallResult {
        let token = CancellationToken::new();
        let mut call = pin!(self.call_observed(call, None, Some(token.clone()), entry));
        let mut cancelled = pin!(cancelled);
        let ended = std::future::poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => cancelled.as_mut().poll(cx).map(|_| None),
        })
        .await;
        match ended {
            Some(result) => result,
            None => {
                token.cancel();
                call.await
            }
        }
    }
}
