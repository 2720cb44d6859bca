//! The process's own input and output, read and written without a thread in between wherever that is possible.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as BlockingStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Where messages come from.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where messages go.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output. Pipes and sockets, which clients use, are waited for; anything else is left to threads.
pub(crate) fn standard() -> (Input, Output) {
    let input = input().unwrap_or_else(|| Box::new(tokio::io::stdin()));
    let output = output().unwrap_or_else(|| Box::new(tokio::io::stdout()));
    (input, output)
}

fn input() -> Option<Input> {
    // Opened anew, a pipe is set to not block for this process only, not for others that have it.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(socket(std::io::stdin())?))
}

fn output() -> Option<Output> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(socket(std::io::stdout())?))
}

/// A socket has two ends, and this one is nobody else's.
fn socket(stream: impl AsFd) -> Option<UnixStream> {
    let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
    let file = File::from(descriptor.try_clone().ok()?);
    if !file.metadata().ok()?.file_type().is_socket() {
        return None;
    }
    let socket = BlockingStream::from(descriptor);
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}
