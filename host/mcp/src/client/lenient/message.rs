//! Messages that are no JSON-RPC 2.0, or no JSON.

use std::cell::RefCell;
use std::fmt;

use fumehood_core::text::json::repair;
use rmcp::model::{ErrorCode, ErrorData};
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::handshake::mend_handshake;
use super::quote;

/// Member of an error's data that marks an answer which could not be read.
const UNREADABLE: &str = "fumehood/unreadable";
/// Errors that say nothing.
const EMPTY_ERRORS: [&str; 5] = ["false", "0", "\"\"", "[]", "{}"];

/// Returns a message in the form of JSON-RPC 2.0, if it can be understood as one.
///
/// Lone surrogates become U+FFFD, `NaN` and infinities `null`, and control characters within texts are read as such. An answer that cannot be read at all becomes an error
/// response to the request that it names, so that nobody waits for it.
pub(crate) fn normalize(line: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_start_matches('\u{feff}');
    let read = serde_json::from_str(text).or_else(|error| serde_json::from_str(&repair(text)).map_err(|_| error));
    match read {
        Ok(Value::Object(message)) => normalize_object(message),
        Ok(_) => None,
        Err(error) => {
            let Head { id: Some(id), has_method: false } = read_head(text) else { return None };
            Some(unreadable(&id, &format!("it is not JSON: {error}")))
        }
    }
}

/// Returns whether an error response stands for an answer that could not be read.
pub(crate) fn is_unreadable(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(UNREADABLE) == Some(&Value::Bool(true)))
}

/// Creates the error response in place of an answer that could not be read.
pub(super) fn unreadable_error(why: String) -> ErrorData {
    ErrorData::internal_error(why, Some(json!({UNREADABLE: true})))
}

fn unreadable(id: &Value, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": unreadable_error(why.to_owned())})
}

fn normalize_object(mut message: Map<String, Value>) -> Option<Value> {
    message.insert("jsonrpc".to_owned(), "2.0".into());
    if let Some(id) = message.get_mut("id")
        && let Some(number) = id.as_f64().filter(|number| id.is_f64() && number.fract() == 0.0)
    {
        *id = json!(number as i64);
    }
    // An answer may repeat the method.
    let is_answer = ["result", "error"].iter().any(|member| message.contains_key(*member));
    if message.get("method").is_some_and(Value::is_string) && !is_answer {
        return Some(Value::Object(message));
    }
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    let result = message.remove("result");
    // Some servers write an empty error beside each result.
    let error = message.remove("error").filter(|error| {
        let is_empty = result.is_some() && EMPTY_ERRORS.contains(&error.to_string().as_str());
        !error.is_null() && !is_empty
    });
    match (error, result) {
        (Some(error), _) => Some(json!({"jsonrpc": "2.0", "id": id, "error": normalize_error(error)})),
        (None, Some(mut result)) => {
            mend_handshake(&mut result);
            Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        (None, None) if id.is_null() => None,
        (None, None) => Some(unreadable(&id, "it has neither a result nor an error")),
    }
}

/// Returns an error with a number as its code and a text as its message.
fn normalize_error(error: Value) -> Value {
    let code = error.get("code").and_then(|code| {
        let whole = || code.as_f64().filter(|code| code.fract() == 0.0).map(|code| code as i64);
        code.as_i64().or_else(|| code.as_str()?.parse().ok()).or_else(whole)
    });
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
    let message = match error.get("message").filter(|message| !message.is_null()).or(Some(&error)) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => quote(other),
        None => String::new(),
    };
    match error.get("data") {
        Some(data) => json!({"code": code, "message": message, "data": data}),
        None => json!({"code": code, "message": message}),
    }
}

/// The members of a message that say what it is.
#[derive(Default)]
struct Head {
    id: Option<Value>,
    has_method: bool,
}

/// Reads the head of a message up to where it stops to be JSON.
fn read_head(text: &str) -> Head {
    struct Members<'h>(&'h RefCell<Head>);

    impl<'de> Visitor<'de> for Members<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
            while let Some(name) = members.next_key::<String>()? {
                match name.as_str() {
                    "id" => {
                        let id: Value = members.next_value()?;
                        self.0.borrow_mut().id = Some(id).filter(|id| id.is_string() || id.is_number());
                    }
                    _ => {
                        self.0.borrow_mut().has_method |= name == "method";
                        members.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(())
        }
    }

    let head = RefCell::new(Head::default());
    // Where it ends with an error, the members before that have been read.
    let _read = serde_json::Deserializer::from_str(text).deserialize_map(Members(&head));
    head.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_message(code: i32, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}})
    }

    #[test]
    fn reads_what_is_almost_json_rpc() {
        let result = json!({"content": []});
        let whole = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        for (line, expected) in [
            (r#"{"id":1,"result":{"content":[]}}"#, whole.clone()),
            (r#"{"jsonrpc":2.0,"id":1.0,"error":null,"result":{"content":[]}}"#, whole.clone()),
            ("{\"result\":{\"t\":\"a\tb\"},\"id\":1}", json!({"jsonrpc": "2.0", "id": 1, "result": {"t": "a\tb"}})),
            (r#"{"id":1,"method":"tools/call","error":{},"result":{"content":[]}}"#, whole.clone()),
            (r#"{"id":1,"error":false,"result":{"content":[]}}"#, whole.clone()),
            (r#"{"id":1,"error":{"code":-5.0,"message":"m"}}"#, error_message(-5, "m")),
            (r#"{"id":1,"error":{"code":-5,"message":null}}"#, error_message(-5, r#"{"code":-5,"message":null}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"error":"plain"}"#, error_message(-32603, "plain")),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#, error_message(-1, r#"{"code":-1}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"7","message":5}}"#, error_message(7, "5")),
            ("\u{feff}{\"id\":1,\"result\":{\"content\":[]}}", json!({"jsonrpc": "2.0", "id": 1, "result": result})),
            (
                r#"{"id":1,"result":{"n":NaN,"m":-Infinity,"t":"NaN \"NaN"}}"#,
                json!({"jsonrpc": "2.0", "id": 1, "result": {"n": null, "m": null, "t": "NaN \"NaN"}}),
            ),
            (
                r#"{"id":1,"result":{"t":"a\ud83d b\ude00 \ud83d\ude00 \\ud83d"}}"#,
                json!({"jsonrpc": "2.0", "id": 1, "result": {"t": "a\u{fffd} b\u{fffd} 😀 \\ud83d"}}),
            ),
        ] {
            assert_eq!(normalize(line.as_bytes()), Some(expected), "{line}");
        }
        let note = json!({"jsonrpc": "2.0", "method": "notifications/x"});
        assert_eq!(normalize(br#"{"method":"notifications/x"}"#), Some(note));
    }

    #[test]
    fn answers_that_cannot_be_read_fail_the_request_that_they_name() {
        for line in [r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text""#, r#"{"id":7,"resul":1}"#] {
            let answer = normalize(line.as_bytes()).unwrap();
            assert_eq!(answer["id"], 7, "{line}");
            assert!(is_unreadable(&serde_json::from_value(answer["error"].clone()).unwrap()), "{line}");
        }
        for line in ["listing tools ...", "[1]", "{}", r#"{"method":"x","id":7,"params":{"#, "\u{7}", "\"a"] {
            assert_eq!(normalize(line.as_bytes()), None, "{line}");
        }
        let honest: ErrorData = serde_json::from_value(json!({"code": 1, "message": "m", "data": {"a": 1}})).unwrap();
        assert!(!is_unreadable(&honest));
    }
}
