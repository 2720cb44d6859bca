//! Answers of servers at a URL, which belong to the request that they came back for.

use fumehood_server::bounds::{self, BoundsError};
use http::StatusCode;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::message::unreadable_error;
use crate::transport::line_transport::split_batch;

pub(crate) fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Gives a result that names no request the id of the one that it came back for.
pub(crate) fn with_id(mut answer: Value, id: Option<&RequestId>) -> Value {
    let is_nameless = answer.get("id").is_none_or(Value::is_null) && answer.get("result").is_some();
    if is_nameless
        && let Some(id) = id
        && let Some(members) = answer.as_object_mut()
    {
        members.insert("id".to_owned(), json!(id));
    }
    answer
}

/// Returns the answer among the messages of a batch, which servers of revision 2025-03-26 may send.
pub(crate) fn answer_in_batch(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Message {
        method: Option<IgnoredAny>,
    }

    let is_batch = body.trim_ascii_start().starts_with(b"[") && bounds::measure(body) == Err(BoundsError::Batch);
    let mut messages = is_batch.then(|| split_batch(body)).into_iter().flatten();
    let answer = messages.find(|message| serde_json::from_slice::<Message>(message).is_ok_and(|m| m.method.is_none()));
    answer.map(|message| message.to_vec())
}

/// Returns whether a server says that it does not know the session of a request, so that the request did not run.
///
/// A success, an error of the server's and one about arguments may come from the tool. They only count if they name no request,
/// or another one.
pub(crate) fn has_lost_session(
    request: &ClientJsonRpcMessage,
    answer: Option<&ServerJsonRpcMessage>,
    status: StatusCode,
    body: &str,
) -> bool {
    let error = match answer {
        Some(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    if error.is_none() && !status.is_client_error() {
        return false;
    }
    let is_own = error.is_some_and(|error| error.id.is_some() && error.id == request_id(request));
    let is_invalid = error.is_some_and(|error| error.error.code == ErrorCode::INVALID_PARAMS);
    if is_own && (is_invalid || !status.is_client_error()) {
        return false;
    }
    let said = error.map(|error| error.error.message.to_lowercase()).unwrap_or_default();
    said.contains("not initialized") || said.contains("session") || body.to_lowercase().contains("session")
}

/// Returns an answer to a request with the id of that request.
///
/// An error is that of the request, whatever id it has. A result for another id may be meant for another client, and becomes an
/// error, as everything else does that is no answer.
pub(crate) fn answer_to(request: &ClientJsonRpcMessage, answer: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    let JsonRpcMessage::Request(request) = request else { return answer };
    let id = request.id.clone();
    match answer {
        JsonRpcMessage::Response(mut response) if response.id.to_string() == id.to_string() => {
            response.id = id;
            JsonRpcMessage::Response(response)
        }
        JsonRpcMessage::Error(mut error) => {
            error.id = Some(id);
            JsonRpcMessage::Error(error)
        }
        JsonRpcMessage::Response(response) => {
            let why = format!("it answers the request {} instead of {id}", response.id);
            JsonRpcMessage::error(unreadable_error(why), Some(id))
        }
        _ => JsonRpcMessage::error(unreadable_error("it is not an answer".to_owned()), Some(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::lenient::is_unreadable;

    fn answer(answer: Value) -> Value {
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        let answer = answer_to(&serde_json::from_value(ping).unwrap(), serde_json::from_value(answer).unwrap());
        serde_json::to_value(answer).unwrap()
    }

    fn check_lost_session(
        request: &ClientJsonRpcMessage,
        status: u16,
        id: Value,
        code: i32,
        message: &str,
        expected: bool,
    ) {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let body = error.to_string();
        let status = StatusCode::from_u16(status).unwrap();
        let error = serde_json::from_value(error).unwrap();
        assert_eq!(has_lost_session(request, Some(&error), status, &body), expected, "{status}: {body}");
    }

    #[test]
    fn a_lost_session_is_told_from_an_error_of_a_tool() {
        let request = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        let request = serde_json::from_value(request).unwrap();
        for status in [200, 400, 410, 500] {
            check_lost_session(&request, status, Value::Null, -32000, "No valid session ID", true);
            check_lost_session(&request, status, json!("server-error"), -32600, "Session terminated", true);
            check_lost_session(&request, status, Value::Null, -32000, "Server not initialized", true);
            check_lost_session(&request, status, Value::Null, -32000, "out of memory", false);
            check_lost_session(&request, status, json!(2), -32602, "the argument session is required", false);
        }
        check_lost_session(&request, 400, json!(2), -32001, "Session not found", true);
        check_lost_session(&request, 200, json!(2), -32001, "Session not found", false);
        check_lost_session(&request, 500, json!(2), -32603, "the session of the database broke off", false);
        let of_text = |status, text| has_lost_session(&request, None, status, text);
        assert!(of_text(StatusCode::BAD_REQUEST, "Invalid Session") && !of_text(StatusCode::BAD_REQUEST, "no"));
        assert!(!of_text(StatusCode::BAD_GATEWAY, "session"));
    }

    #[test]
    fn a_batch_or_a_nameless_result_is_the_answer() {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        let result = r#"{"id":2,"result":{}}"#;
        let batch = format!(" [{note},{result}]");
        assert_eq!(answer_in_batch(batch.as_bytes()).as_deref(), Some(result.as_bytes()));
        for other in [note, result, "[]", "[", &format!("[{note}]")] {
            assert_eq!(answer_in_batch(other.as_bytes()), None, "{other}");
        }
        let id = RequestId::Number(2);
        assert_eq!(with_id(json!({"result": {}}), Some(&id)), json!({"result": {}, "id": 2}));
        assert_eq!(with_id(json!({"id": null, "result": {}}), Some(&id))["id"], 2);
        for other in [json!({"id": 3, "result": {}}), json!({"id": null, "error": {}})] {
            assert_eq!(with_id(other.clone(), Some(&id)), other);
        }
    }

    fn empty_result(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "result": {}})
    }

    #[test]
    fn an_answer_is_that_of_its_request() {
        assert_eq!(answer(empty_result(json!(2)))["result"], json!({}));
        assert_eq!(answer(empty_result(json!("2"))), empty_result(json!(2)));
        for id in [json!(null), json!(7)] {
            let error = json!({"code": -32600, "message": "no"});
            let found = answer(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            assert_eq!(found, json!({"jsonrpc": "2.0", "id": 2, "error": error}));
        }
        for other in
            [empty_result(json!(3)), json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})]
        {
            let found = answer(other);
            assert_eq!(found["id"], 2);
            assert!(is_unreadable(&serde_json::from_value(found["error"].clone()).unwrap()), "{found}");
        }
    }
}
