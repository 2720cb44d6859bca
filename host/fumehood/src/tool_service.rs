//! The calls of a provider of tools as a service of tower.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Call;
use fumehood_core::call::result::CallResult;
use fumehood_core::tool::ToolProvider;
use tower_service::Service;

/// Calls as a [`Service`], for the layers of tower and of frameworks that are built on it: concurrency limits, load shedding, metrics.
///
/// It is always ready, because a host has a queue of its own, and it has no errors, because every outcome of a call is a
/// [`CallResult`]. Dropping the future of a call stops the guest, so that a layer's timeout does too.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::{Call, Host, Load, ToolService};
/// use tower_service::Service as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let host = Host::builder().build()?;
/// host.load(Load::path(path)).await?;
///
/// let mut service = ToolService::new(Arc::new(host));
/// let sum = service.call(Call::new("calculator__add", r#"{"a": 3, "b": 5}"#)).await?;
/// assert_eq!(sum.text().as_deref(), Some(r#"{"result":8}"#));
/// # Ok(())
/// # }
/// ```
pub struct ToolService<P: ?Sized>(Arc<P>);

impl<P: ?Sized> ToolService<P> {
    /// Creates a service of the calls of `provider`, such as a [`Host`](crate::Host) or a layer around one.
    #[must_use]
    pub fn new(provider: Arc<P>) -> Self {
        Self(provider)
    }

    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> &Arc<P> {
        &self.0
    }
}

// By hand, because the provider need not be `Clone` or `Debug`.
impl<P: ?Sized> Clone for ToolService<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: ?Sized> fmt::Debug for ToolService<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolService").finish_non_exhaustive()
    }
}

impl<P: ToolProvider + ?Sized + 'static> Service<Call> for ToolService<P> {
    type Response = CallResult;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<CallResult, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let provider = Arc::clone(&self.0);
        Box::pin(async move { Ok(provider.dispatch(call).await) })
    }
}
