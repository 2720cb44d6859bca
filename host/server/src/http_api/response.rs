//! Responses of the API.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::IntoResponse as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// A response of the API.
pub(crate) type Response = axum::response::Response;

/// Creates a response with these headers and this body.
pub(crate) fn with_headers(status: StatusCode, headers: HeaderMap, body: impl Into<Body>) -> Response {
    (status, headers, body.into()).into_response()
}

/// Creates a response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    status.into_response()
}

pub(crate) fn content_type(media_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
}

pub(crate) fn json_text(body: impl Into<Body>) -> Response {
    with_headers(StatusCode::OK, content_type("application/json"), body)
}

pub(crate) fn json(value: &impl Serialize) -> Response {
    json_with(StatusCode::OK, value)
}

pub(crate) fn json_with(status: StatusCode, value: &impl Serialize) -> Response {
    // Its parts are texts and values that were parsed once.
    with_headers(status, content_type("application/json"), serde_json::to_vec(value).unwrap_or_default())
}

/// Creates a response with the events of a body.
pub(crate) fn events<B>(body: B) -> Response
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    with_headers(StatusCode::OK, content_type("text/event-stream"), Body::new(body))
}
