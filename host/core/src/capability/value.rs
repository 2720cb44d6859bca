//! Values of the component model, as capabilities receive and return them.

/// A value of the component model.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// A signed 8-bit integer.
    S8(i8),
    /// An unsigned 8-bit integer.
    U8(u8),
    /// A signed 16-bit integer.
    S16(i16),
    /// An unsigned 16-bit integer.
    U16(u16),
    /// A signed 32-bit integer.
    S32(i32),
    /// An unsigned 32-bit integer.
    U32(u32),
    /// A signed 64-bit integer.
    S64(i64),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// One Unicode scalar value.
    Char(char),
    /// A string.
    String(String),
    /// A `list<u8>`.
    Bytes(Vec<u8>),
    /// A list of anything else than bytes.
    List(Vec<Self>),
    /// A record: names and values of its fields.
    Record(Vec<(String, Self)>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A case of a variant, with its payload.
    Variant(String, Option<Box<Self>>),
    /// A case of an enum.
    Enum(String),
    /// The flags that are set.
    Flags(Vec<String>),
    /// An optional value.
    Option(Option<Box<Self>>),
    /// A result: success or failure, each with an optional payload.
    Result(Result<Option<Box<Self>>, Option<Box<Self>>>),
    /// A handle of a resource, owned or borrowed: the number that the session gave it. See
    /// [`HandleTable`](super::HandleTable).
    Handle(u32),
}

impl Value {
    /// Bytes that one value counts, besides its text.
    pub const NODE_BYTES: usize = size_of::<Self>();

    /// Creates the success of a `result<T, …>`.
    #[must_use]
    pub fn ok(value: impl Into<Self>) -> Self {
        Self::Result(Ok(Some(Box::new(value.into()))))
    }

    /// Creates the success of a `result<_, …>`.
    #[must_use]
    pub const fn ok_unit() -> Self {
        Self::Result(Ok(None))
    }

    /// Creates the failure of a `result<…, E>`.
    #[must_use]
    pub fn err(value: impl Into<Self>) -> Self {
        Self::Result(Err(Some(Box::new(value.into()))))
    }

    /// Creates a record from the names and values of its fields, in any order.
    #[must_use]
    pub fn record<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Creates a case of a variant with a payload.
    #[must_use]
    pub fn case(name: &str, payload: impl Into<Self>) -> Self {
        Self::Variant(name.to_owned(), Some(Box::new(payload.into())))
    }

    /// Returns the field of a record; `None` if it has no such field or is no record.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Record(fields) = self else { return None };
        fields.iter().find_map(|(field, value)| (field == name).then_some(value))
    }

    /// Returns the text of a string; `None` if it is none.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the memory that the value takes in the host, in bytes, roughly.
    ///
    /// Recurses as deep as the value is nested: only for values that have been checked.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let boxed = |part: &Option<Box<Self>>| part.as_ref().map_or(0, |part| part.bytes());
        let parts = match self {
            Self::String(text) | Self::Enum(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) | Self::Tuple(items) => items.iter().map(Self::bytes).sum(),
            Self::Record(fields) => fields.iter().map(|(name, value)| name.len() + value.bytes()).sum(),
            Self::Variant(name, payload) => name.len() + boxed(payload),
            Self::Flags(names) => names.iter().map(|name| name.len() + Self::NODE_BYTES).sum(),
            Self::Option(part) => boxed(part),
            Self::Result(Ok(part) | Err(part)) => boxed(part),
            _ => 0,
        };
        Self::NODE_BYTES.saturating_add(parts)
    }
}

macro_rules! from_scalar {
    ($($ty:ty => $case:ident),*) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::$case(value)
            }
        })*
    };
}

from_scalar!(bool => Bool, i8 => S8, u8 => U8, i16 => S16, u16 => U16, i32 => S32, u32 => U32, i64 => S64, u64 => U64);
from_scalar!(f32 => F32, f64 => F64, char => Char, String => String);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        Self::Option(value.map(|value| Box::new(value.into())))
    }
}

impl FromIterator<Self> for Value {
    /// Collects a list of anything else than bytes.
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::List(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_values_and_reads_their_parts() {
        let row = Value::record([("id", 7_u32.into()), ("title", "milk".into())]);
        assert_eq!(row.field("title").and_then(Value::as_str), Some("milk"));
        assert_eq!((row.field("none"), Value::from(1_u8).field("id")), (None, None));
        assert_eq!(Value::ok(row.clone()), Value::Result(Ok(Some(Box::new(row)))));
        assert_eq!(Value::from(None::<u32>), Value::Option(None));
    }

    #[test]
    fn counts_every_node_and_text() {
        let list: Value = (0..100_u32).map(Value::from).collect();
        assert_eq!(list.bytes(), 101 * Value::NODE_BYTES);
        assert_eq!(Value::Bytes(vec![0; 1000]).bytes(), 1000 + Value::NODE_BYTES);
        assert!(Value::err(Value::case("failed", "x".repeat(50))).bytes() > 50 + 6);
    }
}
