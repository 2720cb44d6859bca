//! MCP over a pair of byte streams: one message a line, nothing else.
//!
//! Lines have a longest length, and memory for them is bounded by it. What is no message is answered, not ignored, so
//! that nobody waits for an answer that never comes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fumehood_core::boxed::BoxFuture;
use rmcp::model::{ErrorData, GetExtensions as _, JsonRpcMessage, JsonRpcRequest, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::splitter::{Line, Splitter};
use crate::written;

/// Lines in a row that are no messages, before a server is taken for one that speaks something else.
const JUNK: u32 = 10_000;

/// Messages over a reader and a writer.
pub(crate) struct Lines<R, W> {
    reader: R,
    lines: Splitter,
    writer: Arc<Mutex<Option<W>>>,
    /// An answer to a line that was no message, on its way.
    answering: Option<BoxFuture<'static, ()>>,
    /// Whether the other side has asked for anything. What comes before that is no reason to end.
    opened: bool,
    /// Cancelled as soon as either stream has ended, long before rmcp is done with what is left to do.
    closed: CancellationToken,
    /// Whether a line was too long.
    flooded: Arc<AtomicBool>,
    /// Lines in a row that were no messages.
    junk: u32,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Lines of at most `longest` bytes. `closed` is cancelled when a stream ends; cancelling it ends them.
    pub(crate) fn new(reader: R, writer: W, longest: usize, closed: CancellationToken) -> Self {
        let writer = Arc::new(Mutex::new(Some(writer)));
        Self {
            reader,
            lines: Splitter::new(longest),
            writer,
            answering: None,
            opened: false,
            closed,
            flooded: Arc::default(),
            junk: 0,
        }
    }

    /// Becomes true once a line was too long.
    pub(crate) fn flooded(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flooded)
    }

    /// Writes one message. It is turned into text at once and sent when it is its turn.
    fn write<Role: ServiceRole>(
        &self,
        message: &TxJsonRpcMessage<Role>,
    ) -> impl Future<Output = io::Result<()>> + Send + use<Role, R, W> {
        let line = serde_json::to_vec(message).map(|mut line| {
            line.push(b'\n');
            line
        });
        let (writer, closed) = (Arc::clone(&self.writer), self.closed.clone());
        async move {
            let line = line?;
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let sent = async {
                writer.write_all(&line).await?;
                writer.flush().await
            };
            sent.await.inspect_err(|_| closed.cancel())
        }
    }

    fn refuse<Role: ServiceRole>(&mut self, error: ErrorData, id: Option<RequestId>) {
        // A client's peer is a server that prints something: no reason to send it anything.
        if !Role::IS_CLIENT {
            let answer = self.write::<Role>(&JsonRpcMessage::error(error, id));
            self.answering = Some(Box::pin(async { drop(answer.await) }));
        }
    }

    /// A server that prints something else than messages is left alone for a while, not for ever.
    fn passed_over<Role: ServiceRole>(&mut self) {
        self.junk = self.junk.saturating_add(1);
        if Role::IS_CLIENT && self.junk > JUNK {
            self.flooded.store(true, Ordering::Relaxed);
            self.closed.cancel();
        }
    }

    /// The message in a line, unless it is to be passed over.
    fn message<Role: ServiceRole>(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<Role>> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        match serde_json::from_slice::<RxJsonRpcMessage<Role>>(line) {
            Ok(JsonRpcMessage::Request(request)) if !Role::IS_CLIENT => self.request::<Role>(request, line),
            Ok(message) => (self.opened || Role::IS_CLIENT).then_some(message),
            Err(error) if error.classify() == Category::Data => {
                let why = "this is JSON, and no JSON-RPC 2.0 message of MCP; send an object with `jsonrpc`, `method`, \
                           and `id` if it wants an answer";
                self.refuse::<Role>(ErrorData::invalid_request(why, None), id_of(line));
                None
            }
            Err(error) => {
                self.refuse::<Role>(ErrorData::parse_error(format!("this is not JSON: {error}"), None), None);
                None
            }
        }
    }

    /// A request of a client, with its arguments as they are in the line.
    fn request<Role: ServiceRole>(
        &mut self,
        mut request: JsonRpcRequest<Role::PeerReq>,
        line: &[u8],
    ) -> Option<RxJsonRpcMessage<Role>> {
        match written::arguments(line) {
            Ok(None) => {}
            Ok(Some(arguments)) => drop(request.request.extensions_mut().insert(arguments)),
            Err(written::Twice(what)) => {
                let why = format!("the message can be read in two ways: {what}; send each member once");
                self.refuse::<Role>(ErrorData::invalid_request(why, None), Some(request.id));
                return None;
            }
        }
        self.opened = true;
        Some(JsonRpcMessage::Request(request))
    }

    fn too_long<Role: ServiceRole>(&mut self) {
        self.flooded.store(true, Ordering::Relaxed);
        if Role::IS_CLIENT {
            // Whatever call it answers, its result is lost; nothing that comes after can be trusted to be in order.
            self.closed.cancel();
        }
        let why = format!("a message is longer than {} bytes; send less at once", self.lines.longest());
        self.refuse::<Role>(ErrorData::invalid_request(why, None), None);
    }
}

/// The id in a line that is JSON.
fn id_of(line: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct WithId {
        id: RequestId,
    }
    serde_json::from_slice(line).ok().map(|WithId { id }| id)
}

impl<Role, R, W> Transport<Role> for Lines<R, W>
where
    Role: ServiceRole,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<Role>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.write::<Role>(&message)
    }

    /// May be dropped at any point and called again: nothing is lost.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<Role>> {
        loop {
            if let Some(answer) = &mut self.answering {
                answer.await;
                self.answering = None;
            }
            if Role::IS_CLIENT && self.flooded.load(Ordering::Relaxed) {
                return None;
            }
            match self.lines.next_line() {
                Some(Line::Whole(line)) => {
                    if let Some(message) = self.message::<Role>(&line) {
                        self.junk = 0;
                        return Some(message);
                    }
                    self.passed_over::<Role>();
                }
                Some(Line::TooLong) => self.too_long::<Role>(),
                None => {
                    let read = tokio::select! {
                        biased;
                        () = self.closed.cancelled() => Ok(0),
                        read = self.reader.read_buf(self.lines.space()) => read,
                    };
                    if !read.is_ok_and(|bytes| bytes > 0) {
                        self.closed.cancel();
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        // Whoever still writes is stuck on a reader that does not read.
        if let Ok(mut writer) = self.writer.try_lock() {
            drop(writer.take());
        }
        Ok(())
    }
}
