//! What a failure of the client library means, in words without keys.

use std::time::SystemTime;

use fumehood_core::chat::{ModelError, ModelFailure};
use fumehood_core::sanitize::{printable, truncate_str};
use genai::webc::StreamTimeout;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::parameter::{Mention, Parameter};
use crate::config::Key;
use crate::retry::asked_for;
use crate::spec::Service;

/// Most bytes of a provider's own words.
const MOST_WORDS: usize = 500;

/// How a refusal says that it is about tools at all.
const TOOLS: &[&str] = &["tool", "function call", "function_call", "functiondeclarations"];

/// How a refusal says that the thing is not there, and not that it is wrong.
const NOT_THERE: &[&str] = &[
    "support",
    "not enabled",
    "not available",
    "not allowed",
    "not permitted",
    "disabled",
    "unrecognized",
    "unexpected",
    "unknown name",
    "unknown parameter",
    "unknown field",
];

/// The field in which some compatible providers want unsigned thoughts back.
const THOUGHTS: &str = "reasoning_content";

/// A change after which the same request may succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Leave this parameter out.
    LeaveOut(Parameter),
    /// Send unsigned thoughts back with the calls that followed from them.
    SendThoughts,
}

/// A try that came to nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    pub(crate) remedy: Option<Remedy>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, remedy: None }
    }
}

/// Says what a failure of the client library means. `sent` are the parameters of the request that could be left out.
pub(crate) fn explain(
    service: Service,
    key: Option<&Key>,
    with_tools: bool,
    sent: &[Parameter],
    error: &genai::Error,
) -> Failure {
    let told = ErrorBody { service, key, with_tools };
    let error = match error {
        genai::Error::HttpError { status, body, headers, .. } => return told.status(*status, body, headers, sent),
        genai::Error::WebStream { error, .. } => {
            if let Some(inner) = error.downcast_ref::<genai::Error>() {
                return explain(service, key, with_tools, sent, inner);
            }
            if let Some(late) = error.downcast_ref::<StreamTimeout>() {
                return told.late(matches!(late, StreamTimeout::Headers)).into();
            }
            if let Some(error) = error.downcast_ref::<reqwest::Error>() {
                return told.transport(error).into();
            }
            told.malformed("its answer is not in its own format")
        }
        genai::Error::StreamParse { serde_error, .. } => {
            told.malformed(&format!("its answer is no JSON: {serde_error}"))
        }
        genai::Error::ChatResponse { body, .. } => told.in_the_middle(body),
        genai::Error::RequiresApiKey { .. }
        | genai::Error::NoAuthData { .. }
        | genai::Error::NoAuthResolver { .. }
        | genai::Error::Resolver { .. } => told.say(ModelFailure::Setup, "has no key; give one in the settings"),
        genai::Error::NoChatResponse { .. }
        | genai::Error::InvalidJsonResponseElement { .. }
        | genai::Error::JsonValueExt(_)
        | genai::Error::SerdeJson(_) => told.malformed("its answer lacks a part that every answer has"),
        // The library's own words are not repeated: some hold the whole request.
        _ => told.say(ModelFailure::Setup, "can not be sent this request"),
    };
    error.into()
}

/// No piece of the answer came in time, or no further one.
pub(crate) fn late(service: Service, at_first: bool) -> ModelError {
    let (what, setting) = match at_first {
        true => ("did not begin to answer in time", "first_token_timeout"),
        false => ("stopped in the middle of its answer", "between_chunks_timeout"),
    };
    let error = ModelError::new(ModelFailure::Timeout, format!("{service} {what}"));
    ModelError { setting: Some(setting.to_owned()), ..error }
}

struct ErrorBody<'a> {
    service: Service,
    key: Option<&'a Key>,
    with_tools: bool,
}

impl ErrorBody<'_> {
    fn say(&self, failure: ModelFailure, what: &str) -> ModelError {
        ModelError::new(failure, format!("{} {what}", self.service))
    }

    fn malformed(&self, what: &str) -> ModelError {
        let what = self.without_key(what);
        ModelError::new(ModelFailure::Malformed, format!("{} can not be understood: {what}; ask again", self.service))
    }

    fn late(&self, at_first: bool) -> ModelError {
        late(self.service, at_first)
    }

    fn transport(&self, error: &reqwest::Error) -> ModelError {
        if error.is_timeout() {
            return self.late(error.is_connect());
        }
        if error.is_connect() || error.is_request() {
            let mut cause: &dyn std::error::Error = error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            let cause = self.without_key(&cause.to_string());
            let what = format!("can not be reached: {cause}; look whether it runs and whether the base URL is right");
            return self.say(ModelFailure::Unavailable, &what);
        }
        // The connection broke while the answer was on its way.
        self.malformed("the connection broke off in the middle of its answer")
    }

    /// Explains a refusal with its status. One that finds fault with a parameter names its setting.
    fn status(&self, status: StatusCode, body: &str, headers: &HeaderMap, sent: &[Parameter]) -> Failure {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_about_request = matches!(status.as_u16(), 400 | 422);
        let mention = Mention::find(body, sent).filter(|_| is_about_request);
        let failure = match status.as_u16() {
            _ if matches!(mention, Some(Mention::Field(_))) => ModelFailure::Refused,
            429 => ModelFailure::RateLimited,
            408 | 500.. => ModelFailure::Unavailable,
            // 401, 403 and 404 are about the customer and the model, whatever else their text mentions.
            401 | 403 | 404 => ModelFailure::Refused,
            400..=499 if self.with_tools && says_no_tools(body) => ModelFailure::ToolsUnsupported,
            400..=499 => ModelFailure::Refused,
            // A redirect would carry the key to another place.
            300..=399 => ModelFailure::Refused,
            _ => ModelFailure::Malformed,
        };
        let hint = match status.as_u16() {
            401 | 403 => "; look at the key",
            404 => "; look at the name of the model and the base URL",
            300..=399 => "; redirects are not followed, set the base URL to where it leads",
            _ => "",
        };
        let what = format!("answered with status {}: {}{hint}", status.as_u16(), self.words(body));
        let mut error = self.say(failure, &what);
        error.status = Some(status.as_u16());
        error.retry_after = asked_for(header("retry-after"), header("retry-after-ms"), SystemTime::now());
        let parameter = mention.filter(|_| failure == ModelFailure::Refused).map(Mention::into_parameter);
        error.setting = parameter.as_ref().and_then(Parameter::setting);
        let wants_thoughts = self.service == Service::Compatible && is_about_request && body.contains(THOUGHTS);
        let remedy = if wants_thoughts { Some(Remedy::SendThoughts) } else { parameter.map(Remedy::LeaveOut) };
        Failure { error, remedy }
    }

    /// An error that came instead of the next piece of an answer.
    fn in_the_middle(&self, body: &serde_json::Value) -> ModelError {
        let what = format!("broke its answer off: {}", self.words(&body.to_string()));
        let busy = what.contains("rate_limit");
        self.say(if busy { ModelFailure::RateLimited } else { ModelFailure::Unavailable }, &what)
    }

    /// What a provider says, out of its JSON if it is in one.
    fn words(&self, body: &str) -> String {
        let json = serde_json::from_str::<serde_json::Value>(body).ok();
        let places = ["/error/message", "/message", "/error", "/0/error/message", "/detail"];
        let found = json.as_ref().and_then(|json| places.iter().find_map(|place| json.pointer(place)?.as_str()));
        // Before it is cut: half a key would not be found.
        let words = self.without_key(found.unwrap_or(body).trim());
        let words = truncate_str(&words, MOST_WORDS);
        if words.is_empty() { "no reason given".to_owned() } else { printable(words).into_owned() }
    }

    /// Some providers repeat the key that they refuse.
    fn without_key(&self, text: &str) -> String {
        match self.key.map(Key::reveal).filter(|key| !key.is_empty()) {
            Some(key) => text.replace(key, "(key)"),
            None => text.to_owned(),
        }
    }
}

/// Whether a refusal says that the model knows no tools. One that finds fault with a tool's schema does not: asked again
/// without tools, the model would answer, and nobody would know that it had none.
fn says_no_tools(body: &str) -> bool {
    let body = body.to_lowercase();
    let about_schema = body.contains("schema") || body.contains("tool_call_id");
    !about_schema && TOOLS.iter().any(|word| body.contains(word)) && NOT_THERE.iter().any(|word| body.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_would_be_cut_in_half_is_taken_out_whole() {
        let key = Key::new("k".repeat(40));
        let told = ErrorBody { service: Service::OpenAi, key: Some(&key), with_tools: true };
        let words = told.words(&format!("{}{}", "x".repeat(MOST_WORDS - 20), "k".repeat(40)));
        assert!(words.ends_with("x(key)") && words.len() <= MOST_WORDS, "{words}");
    }

    #[test]
    fn l14_a_refusal_of_tools_is_told_from_a_refusal_of_one_tool() {
        let check = |body: &str, expected: bool| assert_eq!(says_no_tools(body), expected, "{body}");
        check("registry/library/gemma:2b does not support tools", true);
        check("Unrecognized request argument supplied: tools", true);
        check("Function calling is not enabled for this model", true);
        check("Unknown name \"tools\": Cannot find field.", true);
        check("'tools' is not supported with this model", true);
        check("Invalid schema for function 'add': not supported", false);
        check("messages with role 'tool' must follow; unexpected tool_call_id", false);
        check("temperature is not supported", false);
        check("", false);
    }
}
