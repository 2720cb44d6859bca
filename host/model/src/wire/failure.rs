//! Classification of the client library's errors, with messages that contain no keys.

use std::time::SystemTime;

use fumehood_core::chat::{ModelError, ModelFailure};
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_transport::TransportError;
use genai::webc::StreamTimeout;
use http::{HeaderMap, StatusCode};

use super::parameter::{Mention, Parameter};
use super::refusal::{RefusedTools, is_tools_unsupported};
use super::tools::SentTool;
use crate::config::Key;
use crate::retry::parse_retry_after;
use crate::spec::Service;

/// Maximum size of the quoted message of a provider, in bytes.
const MAX_PROVIDER_MESSAGE_BYTES: usize = 500;

/// Words of the types of errors, with the HTTP status of such an error.
const REPORTED_KINDS: &[(u16, &[&str])] = &[
    (429, &["rate_limit", "ratelimit", "resource_exhausted", "too_many_requests", "quota"]),
    (503, &["overloaded", "unavailable", "server_error", "internal"]),
    (404, &["not_found", "notfound"]),
    (401, &["authentication", "unauthenticated", "unauthorized", "api_key"]),
    (403, &["permission", "forbidden", "billing"]),
    (400, &["invalid", "bad_request", "badrequest", "context_length", "failed_precondition"]),
];

/// The field in which some compatible providers require unsigned thoughts to be sent back.
const THOUGHTS_FIELD: &str = "reasoning_content";

/// A change after which the same request may succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Leave a parameter out.
    LeaveOut(Parameter),
    /// Send unsigned thoughts back with the calls that followed from them.
    SendThoughts,
    /// Leave tools out.
    LeaveOutTools(RefusedTools),
}

/// A failed attempt, and the remedy for it, if there is one.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) error: ModelError,
    pub(crate) remedy: Option<Remedy>,
}

impl From<ModelError> for AttemptError {
    fn from(error: ModelError) -> Self {
        Self { error, remedy: None }
    }
}

/// Converts an error of the client library. `tools` are those of the request, and `sent` its parameters that could be
/// left out.
pub(crate) fn classify(
    service: Service,
    key: Option<&Key>,
    tools: &[SentTool],
    sent: &[Parameter],
    error: &genai::Error,
) -> AttemptError {
    let classifier = Classifier { service, key, tools };
    let error = match error {
        genai::Error::HttpError { status, body, headers, .. } => {
            return classifier.status_error(*status, body, headers, sent);
        }
        genai::Error::WebStream { error, .. } => {
            if let Some(inner) = error.downcast_ref::<genai::Error>() {
                return classify(service, key, tools, sent, inner);
            }
            if let Some(timeout) = error.downcast_ref::<StreamTimeout>() {
                return timeout_error(service, matches!(timeout, StreamTimeout::Headers)).into();
            }
            classifier.malformed_error("its answer has an unexpected format")
        }
        genai::Error::StreamParse { serde_error, .. } => {
            classifier.malformed_error(&format!("its answer is not JSON: {serde_error}"))
        }
        genai::Error::ChatResponse { body, .. } => classifier.stream_error(body),
        genai::Error::RequiresApiKey { .. }
        | genai::Error::NoAuthData { .. }
        | genai::Error::NoAuthResolver { .. }
        | genai::Error::Resolver { .. } => {
            classifier.error(ModelFailure::Setup, "needs an API key; set `key` in the settings")
        }
        genai::Error::NoChatResponse { .. }
        | genai::Error::InvalidJsonResponseElement { .. }
        | genai::Error::JsonValueExt(_)
        | genai::Error::SerdeJson(_) => classifier.malformed_error("its answer lacks a required part"),
        // The library's message is not repeated: some contain the whole request.
        _ => classifier.error(ModelFailure::Setup, "cannot handle this request"),
    };
    error.into()
}

/// Converts an error that the provider sent with a status of success. `has_started` says whether a part of an answer came
/// before it.
pub(crate) fn classify_reported(
    service: Service,
    key: Option<&Key>,
    with_tools: bool,
    has_started: bool,
    error: &serde_json::Value,
) -> ModelError {
    let body = error.to_string();
    let failure = match reported_status(error) {
        Some(429) => ModelFailure::RateLimited,
        Some(400 | 422) if with_tools && is_tools_unsupported(&body) => ModelFailure::ToolsUnsupported,
        Some(408) => ModelFailure::Unavailable,
        Some(400..=499) => ModelFailure::Refused,
        _ => ModelFailure::Unavailable,
    };
    let classifier = Classifier { service, key, tools: &[] };
    let what = if has_started { "interrupted its answer" } else { "answered with an error" };
    classifier.error(failure, &format!("{what}: {}", classifier.provider_message(&body)))
}

/// Returns the HTTP status that an error stands for: a number in it, or the status of its type.
fn reported_status(error: &serde_json::Value) -> Option<u16> {
    let fields = || ["code", "status", "status_code", "error_code", "type"].iter().filter_map(|field| error.get(field));
    let number = |value: &serde_json::Value| {
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    };
    fields().find_map(number).or_else(|| {
        let kinds: Vec<String> =
            fields().filter_map(serde_json::Value::as_str).map(|kind| kind.to_ascii_lowercase()).collect();
        let reported = REPORTED_KINDS
            .iter()
            .find(|(_, words)| words.iter().any(|word| kinds.iter().any(|kind| kind.contains(word))));
        reported.map(|(status, _)| *status)
    })
}

/// Converts an error of the transport.
pub(crate) fn classify_transport(service: Service, key: Option<&Key>, error: &TransportError) -> ModelError {
    let classifier = Classifier { service, key, tools: &[] };
    match error {
        error if error.is_timeout() => timeout_error(service, error.is_before_response()),
        TransportError::Setup(why) => classifier.error(ModelFailure::Setup, &format!("cannot be used: {why}")),
        TransportError::Unreachable(why) | TransportError::NoResponse(why) => {
            let why = classifier.redact_key(why);
            let what = format!("cannot be reached: {why}; check that it is running, and the base URL");
            classifier.error(ModelFailure::Unavailable, &what)
        }
        TransportError::Broken => classifier.malformed_error("the connection was lost during its answer"),
        error => classifier.malformed_error(&error.to_string()),
    }
}

/// Returns the error of an answer of which no piece came in time: none at all if `is_first`, no further one otherwise.
pub(crate) fn timeout_error(service: Service, is_first: bool) -> ModelError {
    let (what, setting) = if is_first {
        ("did not start to answer in time", "first_token_timeout")
    } else {
        ("stopped during its answer", "between_chunks_timeout")
    };
    let error = ModelError::new(ModelFailure::Timeout, format!("{service} {what}"));
    ModelError { setting: Some(setting.to_owned()), ..error }
}

/// The context in which an error is classified.
struct Classifier<'a> {
    service: Service,
    key: Option<&'a Key>,
    tools: &'a [SentTool],
}

impl Classifier<'_> {
    fn error(&self, failure: ModelFailure, what: &str) -> ModelError {
        ModelError::new(failure, format!("{} {what}", self.service))
    }

    fn malformed_error(&self, what: &str) -> ModelError {
        let what = self.redact_key(what);
        ModelError::new(ModelFailure::Malformed, format!("{} sent an invalid answer: {what}; try again", self.service))
    }

    /// Converts an HTTP error status. The error names the setting of the parameter that was rejected, if there is one.
    fn status_error(&self, status: StatusCode, body: &str, headers: &HeaderMap, sent: &[Parameter]) -> AttemptError {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_about_request = matches!(status.as_u16(), 400 | 422);
        let mention = Mention::find(body, sent).filter(|_| is_about_request);
        let lacks_tools = !self.tools.is_empty() && is_tools_unsupported(body);
        let failure = match status.as_u16() {
            _ if matches!(mention, Some(Mention::Field(_))) => ModelFailure::Refused,
            429 => ModelFailure::RateLimited,
            408 | 500.. => ModelFailure::Unavailable,
            // 401 and 403 are about the account, whatever else their text mentions.
            401 | 403 => ModelFailure::Refused,
            400..=499 if lacks_tools => ModelFailure::ToolsUnsupported,
            400..=499 => ModelFailure::Refused,
            // Following a redirect would send the key to another server.
            300..=399 => ModelFailure::Refused,
            _ => ModelFailure::Malformed,
        };
        let hint = match status.as_u16() {
            401 | 403 => "; check the API key",
            404 => "; check the name of the model and the base URL",
            300..=399 => "; redirects are not followed; set the base URL to the target",
            _ => "",
        };
        let what = format!("answered with status {}: {}{hint}", status.as_u16(), self.provider_message(body));
        let mut error = self.error(failure, &what);
        error.status = Some(status.as_u16());
        error.retry_after = parse_retry_after(header("retry-after"), header("retry-after-ms"), SystemTime::now());
        let is_field = matches!(mention, Some(Mention::Field(_)));
        let refused = (failure == ModelFailure::Refused && is_about_request && !is_field)
            .then(|| RefusedTools::find(body, self.tools))
            .flatten();
        let parameter = mention.filter(|_| failure == ModelFailure::Refused).map(Mention::into_parameter);
        error.setting = parameter.as_ref().and_then(Parameter::setting);
        let wants_thoughts = self.service == Service::Compatible && is_about_request && body.contains(THOUGHTS_FIELD);
        let remedy = match (refused, parameter) {
            _ if wants_thoughts => Some(Remedy::SendThoughts),
            (Some(refused @ RefusedTools::Named(_)), _) | (Some(refused), None) => Some(Remedy::LeaveOutTools(refused)),
            (_, parameter) => parameter.map(Remedy::LeaveOut),
        };
        AttemptError { error, remedy }
    }

    /// Converts an error that was sent instead of the next piece of an answer.
    fn stream_error(&self, body: &serde_json::Value) -> ModelError {
        let what = format!("interrupted its answer: {}", self.provider_message(&body.to_string()));
        let is_busy = what.contains("rate_limit");
        self.error(if is_busy { ModelFailure::RateLimited } else { ModelFailure::Unavailable }, &what)
    }

    /// Extracts the message of an error body, which may be JSON or plain text.
    fn provider_message(&self, body: &str) -> String {
        let json = serde_json::from_str::<serde_json::Value>(body).ok();
        let pointers = [
            "/error/message",
            "/message",
            "/error",
            "/0/error/message",
            "/detail",
            "/msg",
            "/error_msg",
            "/error_message",
            "/status_msg",
            "/title",
            "",
        ];
        let found = json.as_ref().and_then(|json| pointers.iter().find_map(|pointer| json.pointer(pointer)?.as_str()));
        // Redacted before it is truncated: half a key would not be found.
        let message = self.redact_key(found.unwrap_or(body).trim());
        let message = truncate_str(&message, MAX_PROVIDER_MESSAGE_BYTES);
        if message.is_empty() { "no reason given".to_owned() } else { printable(message).into_owned() }
    }

    /// Replaces the key, which some providers repeat when they reject it.
    fn redact_key(&self, text: &str) -> String {
        match self.key.map(Key::reveal).filter(|key| !key.is_empty()) {
            Some(key) => text.replace(key, "(key)"),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reported_error_has_the_failure_of_its_kind() {
        fn check(error: serde_json::Value, failure: ModelFailure, words: &str) {
            let found = classify_reported(Service::Compatible, None, true, false, &error);
            assert_eq!(found.failure, failure, "{error}");
            assert!(found.message.contains(words), "{}", found.message);
        }

        check(json!({"message": "model not found", "type": "not_found"}), ModelFailure::Refused, "model not found");
        check(json!({"message": "slow down", "code": "429"}), ModelFailure::RateLimited, "slow down");
        check(json!({"message": "busy", "status": "RESOURCE_EXHAUSTED"}), ModelFailure::RateLimited, "busy");
        check(json!({"message": "upstream", "code": 502}), ModelFailure::Unavailable, "upstream");
        check(json!({"message": "Overloaded", "type": "overloaded_error"}), ModelFailure::Unavailable, "Overloaded");
        check(json!({"detail": "m does not support tools", "code": 400}), ModelFailure::ToolsUnsupported, "support");
        check(json!("out of memory"), ModelFailure::Unavailable, "answered with an error: out of memory");
        check(json!({"code": 200}), ModelFailure::Unavailable, "{\"code\":200}");
    }

    #[test]
    fn redacts_a_key_that_truncation_would_split() {
        let key = Key::new("k".repeat(40));
        let classifier = Classifier { service: Service::OpenAi, key: Some(&key), tools: &[] };
        let body = format!("{}{}", "x".repeat(MAX_PROVIDER_MESSAGE_BYTES - 20), "k".repeat(40));
        let message = classifier.provider_message(&body);
        assert!(message.ends_with("x(key)") && message.len() <= MAX_PROVIDER_MESSAGE_BYTES, "{message}");
    }
}
