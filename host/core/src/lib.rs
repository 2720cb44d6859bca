//! Values and decisions of the Fumehood tool host.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on wasmtime or on an executor: time and bytes are
//! passed as arguments. Names of tools, their definitions, limits, grants and results are the vocabulary that every other
//! crate shares.

pub mod call;
pub mod chat;
pub mod digest;
pub mod flow;
pub mod hook;
pub mod job;
pub mod key_value;
pub mod opaque_numbers;
pub mod persistence;
pub mod policy;
pub mod record;
pub mod saved_session;
pub mod schema;
pub mod telemetry;
pub mod text;
pub mod time;
pub mod tool;
pub mod trace_context;

/// The boxed future that asynchronous ports return, so that a port can be a trait object.
pub mod boxed {
    use std::pin::Pin;

    /// A boxed future that can be sent between threads: the return type of asynchronous methods of ports.
    pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
}
