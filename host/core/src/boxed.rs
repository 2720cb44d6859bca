//! The future that a port returns: boxed, so that a port can be a trait object, and free to move between threads.

use std::future::Future;
use std::pin::Pin;

/// What an asynchronous method of a port returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
