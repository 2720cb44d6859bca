//! The same through `wasi:http`, in a component.

use std::time::Duration;

use http::{Request, Response, Uri, response};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
    http_error_code,
};
use wasip2::io::streams::{InputStream, StreamError};

use crate::{Body, RequestError};

/// Bytes that are handed over at once. The host takes no more than 4 KiB in one step.
const CHUNK: usize = 4 << 10;

pub(crate) fn send(request: Request<Vec<u8>>, most: usize, patience: Duration) -> Result<Response<Body>, RequestError> {
    let (head, body) = request.into_parts();
    let headers =
        head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect::<Vec<_>>();
    let fields =
        Fields::from_list(&headers).map_err(|_| RequestError::Invalid("a header is not allowed".to_owned()))?;
    let outgoing = addressed(OutgoingRequest::new(fields), &head.method, &head.uri)?;
    let upload = outgoing.body().map_err(|()| RequestError::Connection)?;
    let answer = outgoing_handler::handle(outgoing, Some(within(patience))).map_err(|error| of_code(&error))?;
    // What breaks in the middle of it is told by the answer.
    let _uploaded = write(upload, &body);
    answer.subscribe().block();
    let response =
        answer.get().and_then(Result::ok).ok_or(RequestError::Connection)?.map_err(|error| of_code(&error))?;
    let head = head_of(&response)?;
    Ok(head.body(read(response, most)?).map_err(|_| RequestError::Response)?)
}

fn addressed(request: OutgoingRequest, method: &http::Method, uri: &Uri) -> Result<OutgoingRequest, RequestError> {
    let scheme = if uri.scheme_str() == Some("http") { Scheme::Http } else { Scheme::Https };
    request
        .set_method(&method_of(method))
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(uri.authority().map(|authority| authority.as_str())))
        .and_then(|()| request.set_path_with_query(uri.path_and_query().map(|path| path.as_str())))
        .map_err(|()| RequestError::Invalid(format!("`{uri}` is not an address that can be asked")))?;
    Ok(request)
}

fn method_of(method: &http::Method) -> Method {
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

fn within(patience: Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let nanoseconds = u64::try_from(patience.as_nanos()).ok();
    // A host that cannot keep time of its own has the deadline of the call.
    let _ = options.set_connect_timeout(nanoseconds);
    let _ = options.set_first_byte_timeout(nanoseconds);
    let _ = options.set_between_bytes_timeout(nanoseconds);
    options
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), RequestError> {
    if !bytes.is_empty() {
        let stream = body.write().map_err(|()| RequestError::Connection)?;
        for chunk in bytes.chunks(CHUNK) {
            stream.blocking_write_and_flush(chunk).map_err(|_| RequestError::Connection)?;
        }
    }
    OutgoingBody::finish(body, None).map_err(|error| of_code(&error))
}

fn head_of(response: &IncomingResponse) -> Result<response::Builder, RequestError> {
    let mut head = Response::builder().status(response.status());
    for (name, value) in response.headers().entries() {
        head = head.header(name, value);
    }
    Ok(head)
}

fn read(response: IncomingResponse, most: usize) -> Result<Body, RequestError> {
    let body = response.consume().map_err(|()| RequestError::Response)?;
    let stream = body.stream().map_err(|()| RequestError::Response)?;
    let read = read_stream(&stream, most);
    // The stream is part of the body, and the body of the response.
    drop(stream);
    IncomingBody::finish(body);
    read
}

/// Reads one byte more than is wanted, to know whether there are more.
fn read_stream(stream: &InputStream, most: usize) -> Result<Body, RequestError> {
    let mut bytes = Vec::new();
    while bytes.len() <= most {
        let wanted = (most - bytes.len()).saturating_add(1).min(64 << 10);
        match stream.blocking_read(wanted as u64) {
            Ok(some) => bytes.extend(some),
            Err(StreamError::Closed) => return Ok(Body { bytes, complete: true }),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(http_error_code(&error).map_or(RequestError::Connection, |code| of_code(&code)));
            }
        }
    }
    bytes.truncate(most);
    Ok(Body { bytes, complete: false })
}

fn of_code(code: &ErrorCode) -> RequestError {
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
