//! One HTTP request between a worker and its host. It has a socket of its own, so that its bodies are sent only as fast
//! as they are read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use wasmtime_wasi::runtime::AbortOnDropJoinHandle;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::frame::{self, FrameError, HEAD_BYTES};
use super::message::{BodyMessage, Headers, RequestHead};
use crate::socket::{ReadHalf, Socket, WriteHalf};
use crate::wasi::http::{ResponseFuture, TransmissionFuture};

/// Maximum size of a message, in bytes: a chunk of a body, or all headers of a response.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum size of a chunk of a body in one message, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of frames of a body that are read ahead.
const FRAMES_AHEAD: usize = 2;

/// Returns the head of a request, for the host.
///
/// # Errors
/// If it is larger than a message may be.
pub(super) fn request_head(
    request: &Request<WasiBody>,
    options: Option<&RequestOptions>,
) -> Result<RequestHead, Error> {
    let method = request.method().as_str().to_owned();
    let uri = request.uri().to_string();
    let headers = to_pairs(request.headers()).ok_or(Error::HttpRequestHeaderSectionSize(None))?;
    let pairs = headers.iter().map(|(name, value)| name.len().saturating_add(value.len()));
    if pairs.fold(method.len().saturating_add(uri.len()), usize::saturating_add) > MAX_MESSAGE_BYTES {
        return Err(Error::HttpRequestHeaderSectionSize(None));
    }
    Ok(RequestHead {
        method,
        uri,
        headers,
        connect_timeout: options.and_then(|options| options.connect_timeout),
        first_byte_timeout: options.and_then(|options| options.first_byte_timeout),
        between_bytes_timeout: options.and_then(|options| options.between_bytes_timeout),
        body_bytes: request.body().size_hint().exact(),
    })
}

/// Sends the body of a request to the host, and returns its response. Runs in a worker.
///
/// # Errors
/// If the request fails, or the stream ends.
pub(super) async fn exchange(
    stream: Socket,
    body: WasiBody,
) -> Result<(Response<WasiBody>, TransmissionFuture), Error> {
    let (mut reader, writer) = stream.into_streams().map_err(|_| Error::ConnectionTerminated)?;
    let sending = wasmtime_wasi::runtime::spawn(send_body(writer, body));
    match read(&mut reader).await {
        Ok(BodyMessage::Head { status, headers, body_bytes }) => {
            let mut response = Response::new(read_body(reader, body_bytes).boxed_unsync());
            *response.status_mut() = status.try_into().map_err(|_| Error::HttpProtocolError)?;
            *response.headers_mut() = to_headers(headers).ok_or(Error::HttpProtocolError)?;
            let transmitted = async move {
                let _sent = sending.await;
                Ok(())
            };
            Ok((response, Box::new(transmitted)))
        }
        Ok(BodyMessage::Failed(code)) => Err(from_code(code)),
        Ok(_) | Err(_) => Err(Error::ConnectionTerminated),
    }
}

/// Makes the request of a worker, and sends back its response. Runs in the host.
///
/// # Errors
/// If the worker is gone, or violates the protocol.
pub(super) async fn serve(
    stream: Socket,
    head: RequestHead,
    send: impl FnOnce(Request<WasiBody>, RequestOptions) -> Option<ResponseFuture>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_streams()?;
    let mut request = Request::builder()
        .method(head.method.as_str())
        .uri(head.uri.as_str())
        .body(read_body(reader, head.body_bytes).boxed_unsync())
        .map_err(invalid_data)?;
    *request.headers_mut() = to_headers(head.headers).ok_or(io::ErrorKind::InvalidData)?;
    let options = RequestOptions {
        connect_timeout: head.connect_timeout,
        first_byte_timeout: head.first_byte_timeout,
        between_bytes_timeout: head.between_bytes_timeout,
    };
    let Some(sending) = send(request, options) else { return Ok(()) };
    match Box::into_pin(sending).await {
        Ok((response, transmitted)) => {
            // Keeps the connection open until this function returns.
            let _transmitted = wasmtime_wasi::runtime::spawn(Box::into_pin(transmitted));
            let (parts, body) = response.into_parts();
            let status = parts.status.as_u16();
            let body_bytes = body.size_hint().exact();
            let Some(headers) = to_pairs(&parts.headers) else {
                let too_large = Error::HttpResponseHeaderSectionSize(None);
                return write(&mut writer, &BodyMessage::Failed(to_code(&too_large))).await;
            };
            write(&mut writer, &BodyMessage::Head { status, headers, body_bytes }).await?;
            send_body(writer, body).await
        }
        Err(failed) => write(&mut writer, &BodyMessage::Failed(to_code(&failed))).await,
    }
}

async fn write(writer: &mut WriteHalf, message: &BodyMessage) -> io::Result<()> {
    writer.write_all(&frame::encode(message, 0)?).await
}

async fn read(reader: &mut ReadHalf) -> io::Result<BodyMessage> {
    let mut head = [0; HEAD_BYTES];
    reader.read_exact(&mut head).await?;
    let mut bytes = vec![0; frame::decode_head(head, MAX_MESSAGE_BYTES).map_err(invalid_data)?];
    reader.read_exact(&mut bytes).await?;
    postcard::from_bytes(&bytes).map_err(|error| invalid_data(FrameError::from(error)))
}

fn invalid_data(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

async fn send_body(mut writer: WriteHalf, mut body: WasiBody) -> io::Result<()> {
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => {
                for chunk in data.chunks(CHUNK_BYTES) {
                    write(&mut writer, &BodyMessage::Data(chunk.to_vec())).await?;
                }
            }
            Ok(Err(frame)) => {
                if let Some(trailers) = frame.into_trailers().ok().and_then(|trailers| to_pairs(&trailers)) {
                    write(&mut writer, &BodyMessage::Trailers(trailers)).await?;
                }
            }
            Err(failed) => return write(&mut writer, &BodyMessage::Failed(to_code(&failed))).await,
        }
    }
    write(&mut writer, &BodyMessage::End).await
}

/// A body that is received over the stream. Dropping it ends the reading of the stream.
struct IncomingBody {
    frames: mpsc::Receiver<Result<Frame<Bytes>, Error>>,
    bytes: Option<u64>,
    _reading: AbortOnDropJoinHandle<()>,
}

fn read_body(mut reader: ReadHalf, bytes: Option<u64>) -> IncomingBody {
    let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
    let reading = async move {
        loop {
            let frame = match read(&mut reader).await {
                Ok(BodyMessage::Data(data)) => Ok(Frame::data(Bytes::from(data))),
                Ok(BodyMessage::Trailers(trailers)) => match to_headers(trailers) {
                    Some(trailers) => Ok(Frame::trailers(trailers)),
                    None => Err(Error::HttpProtocolError),
                },
                Ok(BodyMessage::End) => return,
                Ok(BodyMessage::Failed(code)) => Err(from_code(code)),
                Ok(BodyMessage::Head { .. }) | Err(_) => Err(Error::ConnectionTerminated),
            };
            let is_last = frame.is_err();
            if sender.send(frame).await.is_err() || is_last {
                return;
            }
        }
    };
    IncomingBody { frames, bytes, _reading: wasmtime_wasi::runtime::spawn(reading) }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.frames.poll_recv(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Converts headers for a message; `None` if there are more than a message may have.
fn to_pairs(headers: &HeaderMap) -> Option<Headers> {
    let pairs = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Headers::try_from(pairs.collect::<Vec<_>>()).ok()
}

fn to_headers(pairs: Headers) -> Option<HeaderMap> {
    pairs
        .into_iter()
        .map(|(name, value)| Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?)))
        .collect()
}

/// Returns the errors that are sent as their index in this list. They include every error that the host returns to
/// guests, without its details.
fn coded_errors() -> [Error; 24] {
    [
        Error::ConnectionTerminated,
        Error::DnsError { rcode: None, info_code: None },
        Error::DnsTimeout,
        Error::DestinationNotFound,
        Error::DestinationIpProhibited,
        Error::ConnectionRefused,
        Error::ConnectionTimeout,
        Error::ConnectionReadTimeout,
        Error::ConnectionLimitReached,
        Error::ConfigurationError,
        Error::TlsCertificateError,
        Error::TlsProtocolError,
        Error::HttpRequestDenied,
        Error::HttpRequestUriInvalid,
        Error::HttpRequestBodySize(None),
        Error::HttpRequestMethodInvalid,
        Error::HttpResponseBodySize(None),
        Error::HttpResponseHeaderSectionSize(None),
        Error::HttpResponseIncomplete,
        Error::HttpResponseTimeout,
        Error::HttpProtocolError,
        Error::HttpRequestHeaderSectionSize(None),
        Error::HttpRequestTrailerSectionSize(None),
        Error::LoopDetected,
    ]
}

fn to_code(error: &Error) -> u8 {
    let found = coded_errors().iter().position(|known| std::mem::discriminant(known) == std::mem::discriminant(error));
    found.and_then(|position| u8::try_from(position).ok()).unwrap_or_default()
}

fn from_code(code: u8) -> Error {
    coded_errors().into_iter().nth(usize::from(code)).unwrap_or(Error::ConnectionTerminated)
}
