//! Problem details of errors (RFC 9457).

use std::time::Duration;

use axum::response::IntoResponse;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http_api::response::{self, Response};
use crate::http_api::result::ResultRecord;
use crate::{PROBLEM_TYPE, retry_after_header};

/// An error, as RFC 9457 describes it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem<'a> {
    /// The kind of problem, as a URI. `about:blank` if the status says everything.
    #[serde(rename = "type")]
    pub(crate) uri: String,
    /// The kind of problem, for people.
    pub(crate) title: String,
    /// The status of the response.
    pub(crate) status: u16,
    /// A description of this occurrence, and what to do about it.
    pub(crate) detail: String,
    /// The path of the failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<String>,
    /// The kind of a failed call, such as `deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) kind: Option<ErrorKind>,
    /// The time after which the same request may be tried again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// The record of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<ResultRecord<'a>>,
}

impl<'a> Problem<'a> {
    /// Creates a problem of which the status says everything but this detail.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            uri: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            instance: None,
            kind: None,
            retry_after_ms: None,
            call: None,
        }
    }

    /// Creates the problem of a call that failed, or of a tool that cannot be called.
    pub(crate) fn of_error(error: &CallError) -> Self {
        let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let status = StatusCode::from_u16(error.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            uri: format!("urn:fumehood:error:{}", error.kind),
            title: error.kind.as_str().replace('_', " "),
            kind: Some(error.kind),
            retry_after_ms: error.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            ..Self::new(status, format!("{}{hint}", error.message))
        }
    }

    /// Adds the record of the call.
    pub(crate) fn with_call(self, call: ResultRecord<'a>) -> Self {
        Self { instance: Some(format!("/v1/calls/{}", call.id)), call: Some(call), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the headers of the response: its type, and the time after which it may be tried again.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = response::content_type(PROBLEM_TYPE);
        if let Some(millis) = self.retry_after_ms {
            headers.insert(RETRY_AFTER, retry_after_header(Duration::from_millis(millis)));
        }
        headers
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Its parts are texts and values that were parsed once.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl IntoResponse for Problem<'_> {
    fn into_response(self) -> Response {
        response::with_headers(self.status(), self.headers(), self.to_json())
    }
}

/// Creates the response of a rejected request.
pub(crate) fn problem(status: StatusCode, detail: impl Into<String>) -> Response {
    Problem::new(status, detail).into_response()
}
