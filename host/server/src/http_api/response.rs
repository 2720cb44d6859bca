//! Responses of the API.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde::Serialize;
use tokio_util::bytes::Bytes;

use crate::body::ResponseBody;

/// A response of the API.
pub(crate) type Response = http::Response<ResponseBody>;

/// Creates a response with these headers and this body.
pub(crate) fn with_headers(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

/// Creates a response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    with_headers(status, HeaderMap::new(), Bytes::new())
}

pub(crate) fn content_type(media_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
}

pub(crate) fn json_text(body: impl Into<Bytes>) -> Response {
    with_headers(StatusCode::OK, content_type("application/json"), body)
}

pub(crate) fn json(value: &impl Serialize) -> Response {
    json_with(StatusCode::OK, value)
}

pub(crate) fn json_with(status: StatusCode, value: &impl Serialize) -> Response {
    // Its parts are texts and values that were parsed once.
    with_headers(status, content_type("application/json"), serde_json::to_vec(value).unwrap_or_default())
}
