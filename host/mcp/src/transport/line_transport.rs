//! A transport of newline-delimited messages over a pair of byte streams (MCP specification, "stdio").
//!
//! Lines have a maximum length, and memory for them is bounded by it and by what parsing one may take. Lines that are
//! not messages are answered with an error, not ignored, so that no peer waits for an answer that never comes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::text::sanitize::{printable, printable_json};
use fumehood_server::bounds::{self, BoundsError};
use rmcp::model::{ErrorData, GetExtensions as _, JsonRpcMessage, JsonRpcRequest, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::bytes::BytesMut;
use tokio_util::sync::CancellationToken;

use super::line_splitter::{Line, LineSplitter};
use super::raw_arguments;

/// Maximum number of consecutive lines that are not messages, before the server is treated as one that speaks another
/// protocol.
const MAX_JUNK_LINES: u32 = 10_000;

/// Maximum length of a request's id that is repeated in an error, in bytes.
const MAX_ID_BYTES: usize = 256;

/// A transport over a reader and a writer.
pub(crate) struct LineTransport<Role: ServiceRole, R, W> {
    reader: R,
    lines: LineSplitter,
    writer: Arc<Mutex<Option<W>>>,
    /// The pending error response to a line that was not a message.
    answering: Option<BoxFuture<'static, ()>>,
    /// The task that parses a line on another thread.
    parsing: Option<JoinHandle<ParsedLine<Role>>>,
    /// True once the peer has sent a request. Malformed input before that does not end the connection.
    opened: bool,
    /// Cancelled as soon as either stream has ended, long before rmcp has finished its remaining work.
    closed: CancellationToken,
    /// True once a line was too long.
    overflowed: Arc<AtomicBool>,
    /// Number of consecutive lines that were not messages.
    junk: u32,
    /// The messages of a batch that are still to be read.
    batch: VecDeque<BytesMut>,
    /// Reads what is not quite a message.
    normalize: Option<Normalize>,
}

/// The reading of lines that are not quite messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normalize {
    /// Returns a line in the form of JSON-RPC 2.0, if it can be understood as that.
    pub(crate) read: fn(&[u8]) -> Option<Value>,
    /// Returns whether a line is read by it although it is a message.
    pub(crate) is_preferred: fn(&[u8]) -> bool,
}

/// The result of parsing a line.
enum ParsedLine<Role: ServiceRole> {
    Message(RxJsonRpcMessage<Role>),
    /// Not a message, with the id of the request that it may be meant as.
    Rejected(ErrorData, Option<RequestId>),
    Empty,
}

impl<Role, R, W> LineTransport<Role, R, W>
where
    Role: ServiceRole,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates a transport with lines of at most `max_line_bytes`. `closed` is cancelled when a stream ends; cancelling
    /// it ends the streams.
    pub(crate) fn new(reader: R, writer: W, max_line_bytes: usize, closed: CancellationToken) -> Self {
        let writer = Arc::new(Mutex::new(Some(writer)));
        Self {
            reader,
            lines: LineSplitter::new(max_line_bytes),
            writer,
            answering: None,
            parsing: None,
            opened: false,
            closed,
            overflowed: Arc::default(),
            junk: 0,
            batch: VecDeque::new(),
            normalize: None,
        }
    }

    /// Sets how lines are read that are not quite messages. By default they are rejected.
    pub(crate) fn normalizing(self, normalize: Normalize) -> Self {
        Self { normalize: Some(normalize), ..self }
    }

    /// Returns a flag that becomes true once a line was too long.
    pub(crate) fn overflow_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.overflowed)
    }

    /// Writes one message. It is serialised at once, and sent after the messages before it.
    fn write(&self, message: &TxJsonRpcMessage<Role>) -> impl Future<Output = io::Result<()>> + Send + use<Role, R, W> {
        // A second line of defence, for texts that rmcp makes itself: no hidden character is sent as such.
        let line = serde_json::to_string(message).map(|text| {
            let mut line = printable_json(&text).into_owned();
            line.push('\n');
            line
        });
        let writer = Arc::clone(&self.writer);
        let closed = self.closed.clone();
        async move {
            let line = line?;
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let sent = async {
                writer.write_all(line.as_bytes()).await?;
                writer.flush().await
            };
            sent.await.inspect_err(|_| closed.cancel())
        }
    }

    fn reject(&mut self, error: ErrorData, id: Option<RequestId>) {
        // The peer of a client is a server that prints something: there is no reason to send it anything.
        if !Role::IS_CLIENT {
            let answer = self.write(&JsonRpcMessage::error(error, id));
            self.answering = Some(Box::pin(async { drop(answer.await) }));
        }
    }

    /// Counts a line that was not a message. A server that prints other text is tolerated up to [`MAX_JUNK_LINES`].
    fn record_junk(&mut self) {
        self.junk = self.junk.saturating_add(1);
        if Role::IS_CLIENT && self.junk > MAX_JUNK_LINES {
            self.overflowed.store(true, Ordering::Relaxed);
            self.closed.cancel();
        }
    }

    /// Parses a line, on another thread if that takes long. The cost is measured beforehand.
    fn parse_or_offload(&mut self, line: BytesMut) -> Option<ParsedLine<Role>> {
        match bounds::measure(&line) {
            Ok(size) if size.is_cheap() => Some(parse_line(&line, self.normalize)),
            Ok(_) => {
                let normalize = self.normalize;
                self.parsing = Some(tokio::task::spawn_blocking(move || parse_line(&line, normalize)));
                None
            }
            Err(error) => {
                if Role::IS_CLIENT && matches!(error, BoundsError::Values | BoundsError::ReservedName) {
                    // Like a line that is too long.
                    self.overflowed.store(true, Ordering::Relaxed);
                    self.closed.cancel();
                }
                if Role::IS_CLIENT && matches!(error, BoundsError::Batch) {
                    self.batch.extend(split_batch(&line));
                    return Some(ParsedLine::Empty);
                }
                Some(match error {
                    BoundsError::Depth => ParsedLine::Rejected(ErrorData::parse_error(error.to_string(), None), None),
                    BoundsError::Batch => {
                        ParsedLine::Rejected(ErrorData::invalid_request(error.to_string(), None), None)
                    }
                    BoundsError::Values | BoundsError::ReservedName => {
                        ParsedLine::Rejected(ErrorData::invalid_request(error.to_string(), None), parse_id(&line))
                    }
                })
            }
        }
    }

    /// Returns the message that was parsed, unless it is to be skipped.
    fn accept(&mut self, parsed: ParsedLine<Role>) -> Option<RxJsonRpcMessage<Role>> {
        match parsed {
            ParsedLine::Message(message) => {
                self.opened |= Role::IS_CLIENT || matches!(message, JsonRpcMessage::Request(_));
                self.opened.then_some(message)
            }
            ParsedLine::Rejected(error, id) => {
                self.reject(error, id);
                None
            }
            ParsedLine::Empty => None,
        }
    }

    /// Reads more input. Returns false at its end.
    async fn read_more(&mut self) -> bool {
        let read = tokio::select! {
            biased;
            () = self.closed.cancelled() => Ok(0),
            read = self.reader.read_buf(self.lines.read_buffer()) => read,
        };
        let has_data = read.is_ok_and(|bytes| bytes > 0);
        if !has_data {
            self.closed.cancel();
        }
        has_data
    }

    fn reject_long_line(&mut self) {
        self.overflowed.store(true, Ordering::Relaxed);
        if Role::IS_CLIENT {
            // The result of the call that it answers is lost, and what comes after cannot be trusted to be in order.
            self.closed.cancel();
        }
        let why = format!("a message is longer than {} bytes; send less", self.lines.max_line_bytes());
        self.reject(ErrorData::invalid_request(why, None), None);
    }
}

/// Parses a line, and attaches the arguments of a request as text.
fn parse_line<Role: ServiceRole>(line: &[u8], normalize: Option<Normalize>) -> ParsedLine<Role> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return ParsedLine::Empty;
    }
    let normal = || normalize.and_then(|normalize| serde_json::from_value((normalize.read)(line)?).ok());
    match parse_strictly(line) {
        ParsedLine::Rejected(error, id) => normal().map_or(ParsedLine::Rejected(error, id), ParsedLine::Message),
        ParsedLine::Message(message) if normalize.is_some_and(|normalize| (normalize.is_preferred)(line)) => {
            ParsedLine::Message(normal().unwrap_or(message))
        }
        parsed => parsed,
    }
}

fn parse_strictly<Role: ServiceRole>(line: &[u8]) -> ParsedLine<Role> {
    match serde_json::from_slice::<RxJsonRpcMessage<Role>>(line) {
        Ok(JsonRpcMessage::Request(request)) if !Role::IS_CLIENT => with_arguments(request, line),
        Ok(message) => ParsedLine::Message(message),
        Err(error) if error.classify() == Category::Data => {
            let why = "this is JSON, but not a JSON-RPC 2.0 message of MCP; send an object with `jsonrpc`, `method`, \
                       and an `id` for requests";
            ParsedLine::Rejected(ErrorData::invalid_request(why, None), parse_id(line))
        }
        Err(error) => ParsedLine::Rejected(ErrorData::parse_error(format!("this is not JSON: {error}"), None), None),
    }
}

fn with_arguments<Role: ServiceRole>(mut request: JsonRpcRequest<Role::PeerReq>, line: &[u8]) -> ParsedLine<Role> {
    match raw_arguments::extract(line) {
        Ok(None) => {}
        Ok(Some(arguments)) => drop(request.request.extensions_mut().insert(arguments)),
        Err(raw_arguments::DuplicateMember(member)) => {
            let why = format!("the message is ambiguous: {}; send each member once", printable(&member));
            return ParsedLine::Rejected(ErrorData::invalid_request(why, None), Some(request.id));
        }
    }
    ParsedLine::Message(JsonRpcMessage::Request(request))
}

/// Returns the messages of a batch, which servers of revision 2025-03-26 may send; none if the line is no JSON.
pub(crate) fn split_batch(line: &[u8]) -> impl Iterator<Item = BytesMut> {
    let messages = serde_json::from_slice::<Vec<&RawValue>>(line).unwrap_or_default();
    messages.into_iter().map(|message| message.get().as_bytes().into())
}

/// Returns the id in a line that is JSON.
pub(crate) fn parse_id(line: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct WithId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let WithId { id } = serde_json::from_slice(line).ok()?;
    let is_short = id.get().len() <= MAX_ID_BYTES;
    is_short.then(|| serde_json::from_str(id.get()).ok()).flatten()
}

impl<Role, R, W> Transport<Role> for LineTransport<Role, R, W>
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
        self.write(&message)
    }

    /// Cancel safe: nothing is lost if the future is dropped.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<Role>> {
        loop {
            if let Some(answer) = &mut self.answering {
                answer.await;
                self.answering = None;
            }
            if Role::IS_CLIENT && self.overflowed.load(Ordering::Relaxed) {
                return None;
            }
            let parsed = match &mut self.parsing {
                Some(parsing) => {
                    let parsed = parsing.await;
                    self.parsing = None;
                    let why = "the message could not be parsed; send a simpler one";
                    parsed.unwrap_or_else(|_| ParsedLine::Rejected(ErrorData::internal_error(why, None), None))
                }
                None => match self.batch.pop_front().map(Line::Whole).or_else(|| self.lines.next_line()) {
                    Some(Line::Whole(line)) => match self.parse_or_offload(line) {
                        Some(parsed) => parsed,
                        None => continue,
                    },
                    Some(Line::TooLong) => {
                        self.reject_long_line();
                        continue;
                    }
                    None if self.read_more().await => continue,
                    None => return None,
                },
            };
            if let Some(message) = self.accept(parsed) {
                self.junk = 0;
                return Some(message);
            }
            self.record_junk();
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        // A writer that is still locked waits for a peer that does not read.
        if let Ok(mut writer) = self.writer.try_lock() {
            drop(writer.take());
        }
        Ok(())
    }
}
