//! Results of requests to the libraries of servers and components, on their way to a client.

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult};
use rmcp::model::{ErrorCode, ErrorData, ReadResourceResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::component_library::ComponentResource;
use super::sanitizer::{META_KEY, Sanitizer};
use super::tools::call_tool_result::{self, ERROR_META_KEY};
use crate::apps;

/// Returns the result of a call that stands for a request, sanitized.
pub(super) fn read_result<T: DeserializeOwned>(result: CallResult) -> Result<T, ErrorData> {
    let sanitized = result.metadata.sanitized;
    let parts = result.outcome.map_err(to_error_data)?;
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

/// Returns the contents of a component's resource, sanitized.
pub(super) fn read_contents(result: CallResult, resource: &ComponentResource) -> Result<ReadResourceResult, ErrorData> {
    let parts = result.outcome.map_err(to_error_data)?;
    let mut sanitizer = Sanitizer::default();
    let definition = resource.definition();
    let mut contents = Map::new();
    for part in parts {
        match part {
            Content::Text { text } => contents.insert("text".to_owned(), sanitizer.untrusted(&text).into()),
            Content::Blob { data, .. } => {
                contents.insert("blob".to_owned(), call_tool_result::encode_base64(&data).into())
            }
            // The contract has no others here; a hook may put one in place of the contents.
            Content::Json { value } => contents.insert("text".to_owned(), value.to_sanitized().into()),
            Content::Link { .. } => None,
        };
    }
    if contents.is_empty() {
        contents.insert("text".to_owned(), "".into());
    }
    let copied = ["uri", "mimeType"].map(|member| definition.get_key_value(member));
    contents.extend(copied.into_iter().flatten().map(|(member, value)| (member.clone(), value.clone())));
    let page = definition.get("_meta").and_then(|meta| meta.get(apps::META_KEY));
    contents.extend(page.map(|page| ("_meta".to_owned(), json!({ apps::META_KEY: page }))));
    let mut meta = None;
    sanitizer.at_least(result.metadata.sanitized);
    sanitizer.report(&mut meta);
    let mut read: ReadResourceResult = typed(json!({ "contents": [contents] }))?;
    read.meta = meta;
    Ok(read)
}

/// Returns a result in the form of the protocol. The newest revision requires `resultType`; others are sent it nowhere.
pub(super) fn typed<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Value::Object(members) = &mut value {
        members.insert("resultType".to_owned(), "complete".into());
    }
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("malformed answer of the server: {error}"), None))
}

/// Removes what belongs to MCP Apps from the contents of a resource with this URI.
pub(super) fn remove_apps_from_contents(read: &mut Value, uri: &str) {
    let parts = read.get_mut("contents").and_then(Value::as_array_mut);
    let parts = parts.into_iter().flatten().filter_map(Value::as_object_mut);
    parts.for_each(|part| apps::remove_from_contents(part, uri));
}

/// Removes what belongs to MCP Apps from the messages of a prompt.
pub(super) fn remove_apps_from_messages(got: &mut Value) {
    let messages = got.get_mut("messages").and_then(Value::as_array_mut);
    let contents = messages.into_iter().flatten().filter_map(|message| message.get_mut("content"));
    contents.filter_map(Value::as_object_mut).for_each(apps::remove_from_content);
}

/// Codes of a server's own errors that clients get. Others may make a client act, such as open an address.
const PASSED_CODES: [ErrorCode; 2] = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND];

/// Returns the error of a call as one of the protocol: the sentence, and the whole of it for programs.
fn to_error_data(error: CallError) -> ErrorData {
    // That of the server, if it refused.
    let code = error.details.as_deref().and_then(|details| details.code).and_then(|code| i32::try_from(code).ok());
    let code = match error.kind {
        ErrorKind::InvalidArguments => ErrorCode::INVALID_PARAMS,
        _ => code.map(ErrorCode).filter(|code| PASSED_CODES.contains(code)).unwrap_or(ErrorCode::INTERNAL_ERROR),
    };
    let message = match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.to_string(),
    };
    let data = call_tool_result::describe_error(error).map(|error| json!({ ERROR_META_KEY: error }));
    ErrorData::new(code, message, data)
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::ErrorDetails;

    use super::*;

    #[test]
    fn a_server_chooses_no_code_that_makes_a_client_act() {
        let address = json!({"elicitations": [{"mode": "url", "url": "https://evil.example"}]});
        for (code, expected) in
            [(-32042, -32603), (-32602, -32602), (-32002, -32002), (-32601, -32603), (1 << 40, -32603)]
        {
            let details =
                ErrorDetails { code: Some(code), data: Some(address.clone().into()), ..ErrorDetails::default() };
            let error = CallError::new(ErrorKind::ToolFailed, "no").with_details(details);
            let data = to_error_data(error);
            let about = &data.data.as_ref().unwrap()["fumehood/error"];
            assert_eq!((data.code.0, &about["code"], &about["data"]), (expected, &json!(code), &address));
            assert_eq!(data.data.unwrap().as_object().unwrap().len(), 1);
        }
    }
}
