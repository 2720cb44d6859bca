//! Pipes and Unix sockets.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as BlockingStream;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::{Input, Output};

pub(super) fn open_input() -> Option<Input> {
    // Opened anew, a pipe is set to not block for this process only, not for others that have it.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(open_socket(std::io::stdin())?))
}

pub(super) fn open_output() -> Option<Output> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(open_socket(std::io::stdout())?))
}

/// Returns the stream as a non-blocking socket, if it is one. No other process shares this end of a socket.
fn open_socket(stream: impl AsFd) -> Option<UnixStream> {
    let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
    let file = File::from(descriptor.try_clone().ok()?);
    if !file.metadata().ok()?.file_type().is_socket() {
        return None;
    }
    let socket = BlockingStream::from(descriptor);
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}
