//! Work on threads that serve nothing else, so that a hostile response costs no other caller a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::TransportError;

/// Number of threads.
const THREADS: usize = 2;

/// A task on the threads of this crate. Dropping it ends the work.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

/// Starts work on the threads of this crate.
///
/// # Errors
/// If the threads cannot be started.
pub fn spawn<F>(work: F) -> Result<Task<F::Output>, TransportError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(Task(runtime()?.spawn(work)))
}

fn runtime() -> Result<&'static Runtime, TransportError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let build = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("fumehood-http").enable_all();
        builder.build().map_err(|error| error.to_string())
    };
    RUNTIME.get_or_init(build).as_ref().map_err(|error| TransportError::Setup(error.clone()))
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for Task<T> {
    /// `None` if the work panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}
