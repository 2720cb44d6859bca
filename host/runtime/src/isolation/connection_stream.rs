//! One lookup or connection between a worker and its host. It has a socket of its own, so that its bytes are sent only as fast as
//! they are read.
//!
//! The host answers with one message. On a connection, the worker then sends its bytes as they are, and the host sends pieces, each
//! with its length in front: an empty piece is the end, and a socket that ends without one is a connection that was lost.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::frame::{self, FrameError, HEAD_BYTES};
use super::message::{SocketAnswer, SocketStep};
use crate::socket::{ReadHalf, Socket, WriteHalf};
use crate::wasi::sockets::{Connection, SocketError, Sockets};

/// Maximum size of the host's answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 10;
/// Maximum size of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Waits for the addresses of a name. Runs in a worker.
///
/// # Errors
/// If the host refuses the lookup, or finds nothing.
pub(super) async fn look_up(stream: Socket) -> Result<Vec<IpAddr>, SocketError> {
    let (mut reader, _writer) = stream.into_streams().map_err(|_| SocketError::Broken)?;
    match read_answer(&mut reader).await {
        Ok(SocketAnswer::Found(addresses)) => Ok(addresses.into_iter().collect()),
        Ok(SocketAnswer::Failed(error)) => Err(error),
        Ok(SocketAnswer::Connected) | Err(_) => Err(SocketError::Broken),
    }
}

/// Waits for a connection. Runs in a worker.
///
/// # Errors
/// If the host refuses the connection, or it fails.
pub(super) async fn connect(stream: Socket) -> Result<Connection, SocketError> {
    let (mut reader, writer) = stream.into_streams().map_err(|_| SocketError::Broken)?;
    match read_answer(&mut reader).await {
        Ok(SocketAnswer::Connected) => {
            let incoming = Pieces { reader, left: 0, head: [0; 4], head_bytes: 0, has_ended: false };
            Ok(Connection { incoming: Box::new(incoming), outgoing: Box::new(writer) })
        }
        Ok(SocketAnswer::Failed(error)) => Err(error),
        Ok(SocketAnswer::Found(_)) | Err(_) => Err(SocketError::Broken),
    }
}

/// Serves a lookup or a connection of a worker. Runs in the host.
///
/// # Errors
/// If the worker is gone, or the connection fails.
pub(super) async fn serve(stream: Socket, wanted: SocketStep, sockets: Arc<dyn Sockets>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_streams()?;
    let connection = match wanted {
        SocketStep::LookUp(name) => {
            let answer = match sockets.look_up(name).await {
                Ok(addresses) => {
                    addresses.try_into().map_or(SocketAnswer::Failed(SocketError::Broken), SocketAnswer::Found)
                }
                Err(error) => SocketAnswer::Failed(error),
            };
            return write_answer(&mut writer, &answer).await;
        }
        SocketStep::Connect(remote) => sockets.connect(remote).await,
    };
    match connection {
        Ok(Connection { incoming, outgoing }) => {
            write_answer(&mut writer, &SocketAnswer::Connected).await?;
            // The first failure ends both directions, which the worker sees as a lost connection.
            tokio::try_join!(send_pieces(incoming, writer), send_bytes(reader, outgoing)).map(|_| ())
        }
        Err(error) => write_answer(&mut writer, &SocketAnswer::Failed(error)).await,
    }
}

async fn send_pieces(mut incoming: Box<dyn AsyncRead + Send + Unpin>, mut writer: WriteHalf) -> io::Result<()> {
    let mut room = vec![0; PIECE_BYTES];
    loop {
        let bytes = incoming.read(&mut room).await?;
        let length = u32::try_from(bytes).map_err(io::Error::other)?;
        writer.write_all(&length.to_le_bytes()).await?;
        if bytes == 0 {
            return Ok(());
        }
        writer.write_all(room.get(..bytes).unwrap_or_default()).await?;
    }
}

async fn send_bytes(mut reader: ReadHalf, mut outgoing: Box<dyn AsyncWrite + Send + Unpin>) -> io::Result<()> {
    let mut room = vec![0; PIECE_BYTES];
    loop {
        let bytes = reader.read(&mut room).await?;
        if bytes == 0 {
            return outgoing.shutdown().await;
        }
        outgoing.write_all(room.get(..bytes).unwrap_or_default()).await?;
    }
}

async fn write_answer(writer: &mut WriteHalf, answer: &SocketAnswer) -> io::Result<()> {
    writer.write_all(&frame::encode(answer, 0)?).await
}

async fn read_answer(reader: &mut ReadHalf) -> io::Result<SocketAnswer> {
    let invalid = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut head = [0; HEAD_BYTES];
    reader.read_exact(&mut head).await?;
    let mut bytes = vec![0; frame::decode_head(head, MAX_ANSWER_BYTES).map_err(invalid)?];
    reader.read_exact(&mut bytes).await?;
    postcard::from_bytes(&bytes).map_err(|error| invalid(error.into()))
}

/// The bytes of the pieces that the host sends.
struct Pieces {
    reader: ReadHalf,
    /// Bytes of the current piece that were not read yet.
    left: usize,
    head: [u8; 4],
    head_bytes: usize,
    has_ended: bool,
}

impl Pieces {
    /// Reads the length of the next piece.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(missing) = self.head.get_mut(self.head_bytes..).filter(|missing| !missing.is_empty()) {
            let mut room = ReadBuf::new(missing);
            ready!(Pin::new(&mut self.reader).poll_read(cx, &mut room))?;
            match room.filled().len() {
                0 => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                bytes => self.head_bytes += bytes,
            }
        }
        self.head_bytes = 0;
        self.left = u32::from_le_bytes(self.head) as usize;
        self.has_ended = self.left == 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 && !self.has_ended {
            ready!(self.poll_head(cx))?;
        }
        if self.has_ended {
            return Poll::Ready(Ok(()));
        }
        let wanted = self.left.min(room.remaining());
        let mut part = ReadBuf::new(room.initialize_unfilled_to(wanted));
        ready!(Pin::new(&mut self.reader).poll_read(cx, &mut part))?;
        let bytes = part.filled().len();
        if bytes == 0 && wanted > 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.left -= bytes;
        room.advance(bytes);
        Poll::Ready(Ok(()))
    }
}
