//! Extractors of handlers. Their rejections are problem details, unlike axum's.

use axum::extract::rejection::QueryRejection;
use axum::extract::{self, FromRequestParts};
use fumehood_core::text::sanitize::printable;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tokio_util::bytes::Bytes;

use crate::http_api::negotiation::{Form, negotiate};
use crate::http_api::problem::problem;
use crate::http_api::response::Response;
use crate::http_api::routes::unknown_path;
use crate::http_api::state::Caller;

/// The name or id in a path, decoded. It is not empty.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match extract::Path::<String>::from_request_parts(parts, state).await {
            Ok(extract::Path(name)) if !name.is_empty() => Ok(Self(name)),
            _ => Err(unknown_path().await),
        }
    }
}

/// The query of a URL.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let read = extract::Query::from_request_parts(parts, state).await;
        let invalid = |error: QueryRejection| problem(StatusCode::BAD_REQUEST, printable(&error.body_text()));
        read.map(|extract::Query(query)| Self(query)).map_err(invalid)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let missing = || problem(StatusCode::INTERNAL_SERVER_ERROR, "the request was not admitted");
        parts.extensions.get().cloned().ok_or_else(missing)
    }
}

/// The form in which the client prefers a result that has events.
impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let detail = "the response is application/json or text/event-stream; accept one of them";
        let form = negotiate(&parts.headers, &[Self::Json, Self::Events]);
        form.ok_or_else(|| problem(StatusCode::NOT_ACCEPTABLE, detail))
    }
}

/// Parses a body.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes) -> axum::response::Result<T> {
    let mismatch = |error| {
        let detail = format!("the body does not match /openapi.json: {error}");
        problem(StatusCode::UNPROCESSABLE_ENTITY, printable(&detail))
    };
    Ok(serde_json::from_slice(body).map_err(mismatch)?)
}
