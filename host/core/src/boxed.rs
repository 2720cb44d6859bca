//! The boxed future that asynchronous ports return, so that a port can be a trait object.

use std::future::Future;
use std::pin::Pin;

/// A boxed future that can be sent between threads: the return type of asynchronous methods of ports.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
