//! Results of requests to the libraries of servers, on their way to a client.

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult};
use rmcp::model::{ErrorCode, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::sanitizer::{META_KEY, Sanitizer};
use crate::apps;

/// Returns the result of a call that stands for a request, sanitized.
pub(super) fn read_result<T: DeserializeOwned>(result: CallResult) -> Result<T, ErrorData> {
    let sanitized = result.metadata.sanitized;
    let parts = result.outcome.map_err(|error| to_error_data(&error))?;
    let value = parts.iter().find_map(|part| match part {
        Content::Json { value } => value.read::<Value>().ok(),
        _ => None,
    });
    let mut sanitizer = Sanitizer::default();
    let mut value = sanitizer.value(value.unwrap_or_default());
    sanitizer.at_least(sanitized);
    if let (count @ 1.., Value::Object(members)) = (sanitizer.count(), &mut value) {
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            meta.insert(META_KEY.to_owned(), count.into());
        }
    }
    typed(value)
}

/// Returns a result in the form of the protocol.
pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("the server's answer cannot be read: {error}"), None))
}

/// Removes what belongs to MCP Apps from the contents of a resource.
pub(super) fn remove_apps(read: &mut Value) {
    let parts = read.get_mut("contents").and_then(Value::as_array_mut);
    parts.into_iter().flatten().filter_map(Value::as_object_mut).for_each(apps::remove);
}

/// Returns the error of a call as one of the protocol: the sentence, and the whole of it for programs.
fn to_error_data(error: &CallError) -> ErrorData {
    let details = error.details.as_deref();
    // That of the server, if it refused.
    let code = details.and_then(|details| details.code).and_then(|code| i32::try_from(code).ok());
    let code = code.map(ErrorCode).unwrap_or(match error.kind {
        ErrorKind::InvalidArguments => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    });
    let data = details.and_then(|details| details.data.as_ref()).map(|data| data.to_sanitized().into_owned());
    let message = match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.to_string(),
    };
    let whole = || serde_json::to_value(error).ok().map(|error| json!({ "fumehood/error": error }));
    ErrorData::new(code, message, data.or_else(whole))
}
