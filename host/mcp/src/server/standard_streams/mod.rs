//! Standard input and output, as streams that are polled where the system can.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

use tokio::io::{AsyncRead, AsyncWrite};

/// The stream that messages are read from.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// The stream that messages are written to.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens standard input and output. Pipes and sockets, which clients use, are polled; anything else is read and written
/// on blocking threads.
pub(crate) fn standard_streams() -> (Input, Output) {
    let input = system::open_input().unwrap_or_else(|| Box::new(tokio::io::stdin()));
    let output = system::open_output().unwrap_or_else(|| Box::new(tokio::io::stdout()));
    (input, output)
}
