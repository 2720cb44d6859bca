//! Answers of servers at a URL, which belong to the request that they came back for.

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};

use super::message::unreadable_error;

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
        _ => JsonRpcMessage::error(unreadable_error("it is no answer".to_owned()), Some(id)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::client::lenient::is_unreadable;

    fn answer(answer: Value) -> Value {
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        let answer = answer_to(&serde_json::from_value(ping).unwrap(), serde_json::from_value(answer).unwrap());
        serde_json::to_value(answer).unwrap()
    }

    #[test]
    fn an_answer_is_that_of_its_request() {
        let result = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(answer(result(json!(2)))["result"], json!({}));
        assert_eq!(answer(result(json!("2"))), result(json!(2)));
        for id in [json!(null), json!(7)] {
            let error = json!({"code": -32600, "message": "no"});
            let found = answer(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            assert_eq!(found, json!({"jsonrpc": "2.0", "id": 2, "error": error}));
        }
        for other in [result(json!(3)), json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})] {
            let found = answer(other);
            assert_eq!(found["id"], 2);
            assert!(is_unreadable(&serde_json::from_value(found["error"].clone()).unwrap()), "{found}");
        }
    }
}
