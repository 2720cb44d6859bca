//! Unix sockets, with files as `SCM_RIGHTS` (`unix(7)`).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{ChildStderr, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::{MAX_FILES, Wait};

use tokio::io::Interest;
pub(crate) use tokio::net::unix::{OwnedReadHalf as ReadHalf, OwnedWriteHalf as WriteHalf};
use tokio::net::{UnixListener, UnixStream as WatchedSocket};

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Creates both ends of a connection.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        Ok(pair.map(|(one, other)| (Self(one), Self(other)))?)
    }

    /// Returns the end that was passed as standard input; `None` if that is something else.
    pub(crate) fn of_stdin() -> io::Result<Option<Self>> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        let is_unix = rustix::net::sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX);
        Ok(is_unix.then_some(Self(socket)))
    }

    /// Connects to a [`SocketListener`].
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self(StdUnixStream::connect(path)?.into()))
    }

    /// Turns it into the standard input of a process.
    pub(crate) fn into_stdin(self) -> Stdio {
        self.0.into()
    }

    /// Turns it into a file that can be sent over another socket.
    pub(crate) fn into_file(self) -> File {
        self.0.into()
    }

    /// Sends as much as the socket accepts at once, the files with the first byte. Returns the number of bytes sent.
    pub(crate) fn send(&self, bytes: &[u8], files: &[&File], wait: Wait) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let mut ancillary =
            if descriptors.is_empty() { SendAncillaryBuffer::default() } else { SendAncillaryBuffer::new(&mut space) };
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(Errno::TOOMANYREFS.into());
        }
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, wait == Wait::Never);
        let sent = retry_on_intr(|| rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags));
        Ok(sent?)
    }

    /// Reads once, and returns the number of bytes; none if the other end is closed. Files that came along are added to
    /// `files`.
    pub(crate) fn receive(&self, room: &mut [u8], files: &mut impl Extend<File>, wait: Wait) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        flags.set(RecvFlags::DONTWAIT, wait == Wait::Never);
        let received =
            retry_on_intr(|| rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(room)], &mut ancillary, flags));
        let received = match received {
            Err(Errno::CONNRESET) => return Ok(0),
            received => received?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                files.extend(descriptors.map(File::from));
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a descriptor is missing"));
        }
        Ok(received.bytes)
    }

    /// Waits until there is room to send.
    pub(crate) fn wait_writable(&self) -> io::Result<()> {
        retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None))?;
        Ok(())
    }

    /// Waits until there is something to receive, for little more than `patience` at most. After an interruption or an
    /// error, the next read reports the state of the socket.
    pub(crate) fn wait_readable(&self, patience: Duration) {
        let timeout = Timespec::try_from(patience).unwrap_or_default();
        let _ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout));
    }

    /// Returns the socket, registered for a task that waits for it. From then on no operation waits.
    pub(crate) fn watch(&self) -> io::Result<WatchedSocket> {
        let socket = StdUnixStream::from(self.0.try_clone()?);
        socket.set_nonblocking(true)?;
        WatchedSocket::from_std(socket)
    }

    /// Turns it into two streams for tasks.
    pub(crate) fn into_streams(self) -> io::Result<(ReadHalf, WriteHalf)> {
        // The standard library uses `ioctl` (`FIONBIO`) for this, which the jail of a worker forbids.
        rustix::fs::fcntl_setfl(&self.0, OFlags::RDWR | OFlags::NONBLOCK)?;
        Ok(WatchedSocket::from_std(StdUnixStream::from(self.0))?.into_split())
    }
}

impl From<File> for Socket {
    fn from(file: File) -> Self {
        Self(file.into())
    }
}

/// A socket with a path, which processes of the same user connect to.
#[derive(Debug)]
pub(crate) struct SocketListener(UnixListener);

impl SocketListener {
    /// Creates it at a path where nothing is. Must be called within a tokio runtime.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self(UnixListener::bind(path)?))
    }

    /// Waits for a connection, and for its first bytes. Returns their number, and the files that came along.
    pub(crate) async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, Vec<File>)> {
        let (stream, _) = self.0.accept().await?;
        let socket = Socket(stream.into_std()?.into());
        let watched = socket.watch()?;
        let mut files = Vec::new();
        loop {
            watched.readable().await?;
            match watched.try_io(Interest::READABLE, || socket.receive(room, &mut files, Wait::Never)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Ok((received?, files)),
            }
        }
    }
}

/// Turns a listener into a file that can be sent over a socket.
pub(crate) fn file_of_listener(listener: TcpListener) -> File {
    OwnedFd::from(listener).into()
}

/// Turns a file that was received into the listener that it is.
pub(crate) fn listener_of_file(file: File) -> TcpListener {
    OwnedFd::from(file).into()
}

/// Returns whether a process has written something that was not read.
pub(crate) fn has_output(stderr: &ChildStderr) -> bool {
    let mut polled = [PollFd::new(stderr, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
