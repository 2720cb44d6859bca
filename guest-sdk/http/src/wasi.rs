//! Requests through `wasi:http`, in a component.

use std::time::Duration;

use http::{Request, Response, Uri, response};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
    http_error_code,
};
use wasip2::io::streams::{InputStream, StreamError};

use crate::{Body, RequestError};

/// Size of a chunk that is written at once, in bytes. `blocking-write-and-flush` accepts at most 4096.
const CHUNK_BYTES: usize = 4 << 10;
/// Maximum size of a chunk that is read at once, in bytes.
const MAX_READ_BYTES: usize = 64 << 10;

pub(crate) fn send(
    request: Request<Vec<u8>>,
    max_bytes: usize,
    timeout: Duration,
) -> Result<Response<Body>, RequestError> {
    let (head, body) = request.into_parts();
    let headers =
        head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect::<Vec<_>>();
    let fields =
        Fields::from_list(&headers).map_err(|_| RequestError::Invalid("a header is not allowed".to_owned()))?;
    let outgoing = set_target(OutgoingRequest::new(fields), &head.method, &head.uri)?;
    let upload = outgoing.body().map_err(|()| RequestError::Connection)?;
    let pending =
        outgoing_handler::handle(outgoing, Some(request_options(timeout))).map_err(|error| convert_error(&error))?;
    // An error in the middle of the upload is reported with the response.
    let _uploaded = write(upload, &body);
    pending.subscribe().block();
    let response =
        pending.get().and_then(Result::ok).ok_or(RequestError::Connection)?.map_err(|error| convert_error(&error))?;
    let head = convert_head(&response)?;
    Ok(head.body(read(response, max_bytes)?).map_err(|_| RequestError::Response)?)
}

fn set_target(request: OutgoingRequest, method: &http::Method, uri: &Uri) -> Result<OutgoingRequest, RequestError> {
    let scheme = if uri.scheme_str() == Some("http") { Scheme::Http } else { Scheme::Https };
    request
        .set_method(&convert_method(method))
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(uri.authority().map(|authority| authority.as_str())))
        .and_then(|()| request.set_path_with_query(uri.path_and_query().map(|path| path.as_str())))
        .map_err(|()| RequestError::Invalid(format!("`{uri}` is not an address that can be asked")))?;
    Ok(request)
}

fn convert_method(method: &http::Method) -> Method {
    match method.as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn request_options(timeout: Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let nanoseconds = u64::try_from(timeout.as_nanos()).ok();
    // Errors are ignored: a host without support for timeouts still enforces the deadline of the call.
    let _ = options.set_connect_timeout(nanoseconds);
    let _ = options.set_first_byte_timeout(nanoseconds);
    let _ = options.set_between_bytes_timeout(nanoseconds);
    options
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), RequestError> {
    if !bytes.is_empty() {
        let stream = body.write().map_err(|()| RequestError::Connection)?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            stream.blocking_write_and_flush(chunk).map_err(|_| RequestError::Connection)?;
        }
    }
    OutgoingBody::finish(body, None).map_err(|error| convert_error(&error))
}

fn convert_head(response: &IncomingResponse) -> Result<response::Builder, RequestError> {
    let mut head = Response::builder().status(response.status());
    for (name, value) in response.headers().entries() {
        head = head.header(name, value);
    }
    Ok(head)
}

fn read(response: IncomingResponse, max_bytes: usize) -> Result<Body, RequestError> {
    let body = response.consume().map_err(|()| RequestError::Response)?;
    let stream = body.stream().map_err(|()| RequestError::Response)?;
    let read = read_stream(&stream, max_bytes);
    // The stream is a child resource of the body, and must be dropped first.
    drop(stream);
    IncomingBody::finish(body);
    read
}

/// Reads up to `max_bytes` bytes, and one more to detect if the body is longer.
fn read_stream(stream: &InputStream, max_bytes: usize) -> Result<Body, RequestError> {
    let mut bytes = Vec::new();
    while bytes.len() <= max_bytes {
        let wanted = (max_bytes - bytes.len()).saturating_add(1).min(MAX_READ_BYTES);
        match stream.blocking_read(wanted as u64) {
            Ok(chunk) => bytes.extend(chunk),
            Err(StreamError::Closed) => return Ok(Body { bytes, complete: true }),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(http_error_code(&error).map_or(RequestError::Connection, |code| convert_error(&code)));
            }
        }
    }
    bytes.truncate(max_bytes);
    Ok(Body { bytes, complete: false })
}

fn convert_error(code: &ErrorCode) -> RequestError {
    match code {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => RequestError::Denied,
        ErrorCode::ConnectionLimitReached | ErrorCode::HttpRequestBodySize(_) | ErrorCode::HttpResponseBodySize(_) => {
            RequestError::UsedUp
        }
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestUriTooLong | ErrorCode::HttpRequestMethodInvalid => {
            RequestError::Invalid("its address or method makes no sense".to_owned())
        }
        ErrorCode::HttpRequestHeaderSectionSize(_) | ErrorCode::HttpRequestHeaderSize(_) => {
            RequestError::Invalid("its headers are too large".to_owned())
        }
        ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => RequestError::NoSuchHost,
        ErrorCode::DnsTimeout
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => RequestError::Timeout,
        ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_)
        | ErrorCode::ConfigurationError => RequestError::Tls,
        ErrorCode::HttpProtocolError
        | ErrorCode::HttpResponseIncomplete
        | ErrorCode::HttpResponseHeaderSectionSize(_)
        | ErrorCode::HttpResponseHeaderSize(_) => RequestError::Response,
        _ => RequestError::Connection,
    }
}
