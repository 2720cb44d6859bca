//! The arguments of a call as its client wrote them.
//!
//! rmcp reads a message into values, which loses something: of two members with one name the first, of a long number
//! its last digits. So the text is attached to the request, and the gate reads that.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The text of the arguments: one JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawArguments(pub(crate) String);

/// A member that decides the meaning of a message and occurs twice (RFC 8259, section 4, leaves the meaning open).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DuplicateMember(pub(crate) String);

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "jsonrpc", default)]
    _jsonrpc: IgnoredAny,
    #[serde(rename = "id", default)]
    _id: IgnoredAny,
    #[serde(rename = "method", default)]
    _method: IgnoredAny,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "name", default)]
    _name: IgnoredAny,
    #[serde(rename = "uri", default)]
    _uri: IgnoredAny,
    #[serde(rename = "_meta", default)]
    _meta: IgnoredAny,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Returns the arguments in a message, or `None` if it has none or is not a JSON object.
///
/// # Errors
/// If the message has two meanings because a member occurs twice.
pub(crate) fn extract(message: &[u8]) -> Result<Option<RawArguments>, DuplicateMember> {
    let Some(Message { params: Some(params), .. }) = parse_object::<Message<'_>>(message)? else { return Ok(None) };
    let Some(Params { arguments: Some(arguments), .. }) = parse_object::<Params<'_>>(params.get().as_bytes())? else {
        return Ok(None);
    };
    Ok(Some(RawArguments(arguments.get().to_owned())))
}

/// Parses an object. Every member may have any value, so that the only error is a member that occurs twice.
fn parse_object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<Option<T>, DuplicateMember> {
    if !text.trim_ascii_start().starts_with(b"{") {
        return Ok(None);
    }
    match serde_json::from_slice(text) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_data() => {
            let message = error.to_string();
            Err(DuplicateMember(message.split(" at line ").next().unwrap_or_default().to_owned()))
        }
        Err(_not_json) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: Result<Option<&str>, &str>) {
        let found = extract(message.as_bytes());
        let expected = expected
            .map(|text| text.map(|text| RawArguments(text.to_owned())))
            .map_err(|name| DuplicateMember(format!("duplicate field `{name}`")));
        assert_eq!(found, expected, "{message}");
    }

    #[test]
    fn extracts_arguments_verbatim() {
        check(r#"{"method":"m","params":{"name":"n","arguments":{"a":1, "a":2}}}"#, Ok(Some(r#"{"a":1, "a":2}"#)));
        check(r#" {"params":{"arguments":[1e999]}} "#, Ok(Some("[1e999]")));
        check(r#"{"params":{"arguments":null}}"#, Ok(None));
        check(r#"{"params":{}}"#, Ok(None));
        check(r#"{"params":[1]}"#, Ok(None));
        check(r#"{"params":7}"#, Ok(None));
        check(r#"{"id":1}"#, Ok(None));
        check("[]", Ok(None));
        check("{", Ok(None));
        check("", Ok(None));
    }

    #[test]
    fn rejects_duplicate_members() {
        check(r#"{"method":"a","method":"b"}"#, Err("method"));
        check(r#"{"id":1,"id":1}"#, Err("id"));
        check(r#"{"params":{},"params":{}}"#, Err("params"));
        check(r#"{"params":{"name":"a","name":"b"}}"#, Err("name"));
        check(r#"{"params":{"arguments":{},"argum\u0065nts":{}}}"#, Err("arguments"));
        check(r#"{"other":1,"other":2}"#, Ok(None));
    }
}
