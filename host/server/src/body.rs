//! Bodies of responses.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio_util::bytes::Bytes;

/// `Retry-After` of a response of an overloaded server, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The body of a response. An error ends its connection.
pub type ResponseBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body that holds a value until it has been sent or dropped.
#[derive(Debug)]
pub struct GuardedBody<B, T> {
    body: B,
    _held: T,
}

impl<B, T> GuardedBody<B, T> {
    /// Wraps a body.
    pub fn new(body: B, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<B, T> Body for GuardedBody<B, T>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    T: Unpin,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Creates a response with this status, content type and body.
#[must_use]
pub fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body.into()).map_err(Into::into).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Adds the headers that a status requires: `WWW-Authenticate` (RFC 9110, section 15.5.2), `Retry-After`, and
/// `Connection: close` of a server that is full or ends.
pub(crate) fn add_required_headers(response: &mut Response<ResponseBody>) {
    let status = response.status();
    let headers = response.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.entry(WWW_AUTHENTICATE).or_insert(HeaderValue::from_static("Bearer"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.entry(RETRY_AFTER).or_insert(RETRY_AFTER_SECONDS);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
}
