//! Values of capabilities in messages: a list of tokens, so that their number and their depth are bounded.

use fumehood_core::bounded_list::{BoundedList, ListTooLong};
use fumehood_core::capability::Value;
use serde::{Deserialize, Serialize};

/// Maximum number of tokens. Values of the maximum size have fewer.
const MAX_TOKENS: usize = 131_072;
/// Maximum depth of a value. Types are less deep.
const MAX_DEPTH: usize = 64;

/// The arguments of a function, or its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Values(BoundedList<Token, MAX_TOKENS>);

/// A value without its parts, which follow it. Numbers are those of the parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Token {
    Bool(bool),
    S8(i8),
    U8(u8),
    S16(i16),
    U16(u16),
    S32(i32),
    U32(u32),
    S64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    Char(char),
    String(String),
    Bytes(Vec<u8>),
    Enum(String),
    Handle(u32),
    /// The name of a field or flag.
    Name(String),
    List(u32),
    Tuple(u32),
    Record(u32),
    Flags(u32),
    Variant(String, bool),
    Option(bool),
    Ok(bool),
    Err(bool),
}

impl Values {
    /// Lists the tokens of values, which have passed the check of their size.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn new(values: impl IntoIterator<Item = Value>) -> Result<Self, ListTooLong> {
        let mut tokens = Vec::new();
        values.into_iter().for_each(|value| push(value, &mut tokens));
        tokens.try_into().map(Self)
    }

    /// Returns the values; `None` if the tokens are malformed or nested too deeply.
    pub(super) fn into_list(self) -> Option<Vec<Value>> {
        let mut tokens = self.0.into_iter();
        let mut values = Vec::new();
        while let Some(token) = tokens.next() {
            values.push(read(token, &mut tokens, 0)?);
        }
        Some(values)
    }
}

fn count(parts: usize) -> u32 {
    u32::try_from(parts).unwrap_or(u32::MAX)
}

fn push(value: Value, tokens: &mut Vec<Token>) {
    let (token, parts) = match value {
        Value::Bool(value) => (Token::Bool(value), Vec::new()),
        Value::S8(value) => (Token::S8(value), Vec::new()),
        Value::U8(value) => (Token::U8(value), Vec::new()),
        Value::S16(value) => (Token::S16(value), Vec::new()),
        Value::U16(value) => (Token::U16(value), Vec::new()),
        Value::S32(value) => (Token::S32(value), Vec::new()),
        Value::U32(value) => (Token::U32(value), Vec::new()),
        Value::S64(value) => (Token::S64(value), Vec::new()),
        Value::U64(value) => (Token::U64(value), Vec::new()),
        Value::F32(value) => (Token::F32(value), Vec::new()),
        Value::F64(value) => (Token::F64(value), Vec::new()),
        Value::Char(value) => (Token::Char(value), Vec::new()),
        Value::String(text) => (Token::String(text), Vec::new()),
        Value::Bytes(bytes) => (Token::Bytes(bytes), Vec::new()),
        Value::Enum(name) => (Token::Enum(name), Vec::new()),
        Value::Handle(handle) => (Token::Handle(handle), Vec::new()),
        Value::List(items) => (Token::List(count(items.len())), items),
        Value::Tuple(items) => (Token::Tuple(count(items.len())), items),
        Value::Variant(name, payload) => (Token::Variant(name, payload.is_some()), unbox(payload)),
        Value::Option(payload) => (Token::Option(payload.is_some()), unbox(payload)),
        Value::Result(Ok(payload)) => (Token::Ok(payload.is_some()), unbox(payload)),
        Value::Result(Err(payload)) => (Token::Err(payload.is_some()), unbox(payload)),
        Value::Record(fields) => {
            tokens.push(Token::Record(count(fields.len())));
            for (name, value) in fields {
                tokens.push(Token::Name(name));
                push(value, tokens);
            }
            return;
        }
        Value::Flags(names) => {
            tokens.push(Token::Flags(count(names.len())));
            tokens.extend(names.into_iter().map(Token::Name));
            return;
        }
    };
    tokens.push(token);
    parts.into_iter().for_each(|part| push(part, tokens));
}

fn unbox(payload: Option<Box<Value>>) -> Vec<Value> {
    payload.into_iter().map(|value| *value).collect()
}

fn read(token: Token, rest: &mut impl Iterator<Item = Token>, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let depth = depth + 1;
    Some(match token {
        Token::Bool(value) => Value::Bool(value),
        Token::S8(value) => Value::S8(value),
        Token::U8(value) => Value::U8(value),
        Token::S16(value) => Value::S16(value),
        Token::U16(value) => Value::U16(value),
        Token::S32(value) => Value::S32(value),
        Token::U32(value) => Value::U32(value),
        Token::S64(value) => Value::S64(value),
        Token::U64(value) => Value::U64(value),
        Token::F32(value) => Value::F32(value),
        Token::F64(value) => Value::F64(value),
        Token::Char(value) => Value::Char(value),
        Token::String(text) => Value::String(text),
        Token::Bytes(bytes) => Value::Bytes(bytes),
        Token::Enum(name) => Value::Enum(name),
        Token::Handle(handle) => Value::Handle(handle),
        Token::Name(_) => return None,
        Token::List(parts) => Value::List(read_parts(parts, rest, depth)?),
        Token::Tuple(parts) => Value::Tuple(read_parts(parts, rest, depth)?),
        Token::Record(fields) => {
            let mut record = Vec::new();
            for _ in 0..fields {
                let name = read_name(rest)?;
                record.push((name, read(rest.next()?, rest, depth)?));
            }
            Value::Record(record)
        }
        Token::Flags(names) => Value::Flags((0..names).map(|_| read_name(rest)).collect::<Option<_>>()?),
        Token::Variant(name, has_payload) => Value::Variant(name, read_payload(has_payload, rest, depth)?),
        Token::Option(has_payload) => Value::Option(read_payload(has_payload, rest, depth)?),
        Token::Ok(has_payload) => Value::Result(Ok(read_payload(has_payload, rest, depth)?)),
        Token::Err(has_payload) => Value::Result(Err(read_payload(has_payload, rest, depth)?)),
    })
}

/// Reads the parts of a list. A claimed number allocates nothing.
fn read_parts(parts: u32, rest: &mut impl Iterator<Item = Token>, depth: usize) -> Option<Vec<Value>> {
    let mut items = Vec::new();
    for _ in 0..parts {
        items.push(read(rest.next()?, rest, depth)?);
    }
    Some(items)
}

fn read_payload(has_payload: bool, rest: &mut impl Iterator<Item = Token>, depth: usize) -> Option<Option<Box<Value>>> {
    if !has_payload {
        return Some(None);
    }
    let value = read(rest.next()?, rest, depth)?;
    Some(Some(Box::new(value)))
}

fn read_name(rest: &mut impl Iterator<Item = Token>) -> Option<String> {
    match rest.next() {
        Some(Token::Name(name)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tokens: Vec<Token>) -> Option<Vec<Value>> {
        Values(tokens.try_into().unwrap()).into_list()
    }

    #[test]
    fn values_survive_a_message() {
        let row = Value::record([("id", 7_u32.into()), ("title", Value::from(Some("milk")))]);
        let flags = Value::Flags(vec!["a".to_owned(), "b".to_owned()]);
        let values = vec![
            Value::ok(vec![row, flags].into_iter().collect::<Value>()),
            Value::err(Value::case("failed", "x")),
            Value::Tuple(vec![Value::Bytes(vec![1, 2]), 1.5_f64.into(), Value::Handle(3), Value::ok_unit()]),
            Value::from(None::<bool>),
        ];
        let message = postcard::to_allocvec(&Values::new(values.clone()).unwrap()).unwrap();
        let received: Values = postcard::from_bytes(&message).unwrap();
        assert_eq!(received.into_list(), Some(values));
    }

    #[test]
    fn malformed_tokens_are_no_values() {
        assert_eq!(list(vec![Token::List(2), Token::Bool(true)]), None);
        assert_eq!(list(vec![Token::List(u32::MAX)]), None);
        assert_eq!(list(vec![Token::Flags(u32::MAX)]), None);
        assert_eq!(list(vec![Token::Record(1), Token::Bool(true), Token::Bool(true)]), None);
        assert_eq!(list(vec![Token::Name("x".to_owned())]), None);
        let deep = |depth: usize| list([vec![Token::Option(true); depth], vec![Token::Bool(true)]].concat());
        assert!(deep(MAX_DEPTH).is_some());
        assert_eq!((deep(MAX_DEPTH + 1), deep(MAX_TOKENS - 1)), (None, None));
    }
}
