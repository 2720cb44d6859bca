//! Interfaces of capabilities, and the check of values against their types.

use std::fmt;

use super::Value;

/// An interface with its functions and resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The name with its version: `acme:database/query@0.1.0`.
    pub name: String,
    /// The functions, and the methods of the resources.
    pub functions: Vec<Function>,
    /// The resources that it defines: name, and index among all resources of the capability.
    pub resources: Vec<(String, u32)>,
}

/// A function of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name, as in the binary format: `query`, `[method]cursor.next`.
    pub name: String,
    /// The parameters, in order.
    pub params: Vec<(String, Type)>,
    /// The type of the result, if there is one.
    pub result: Option<Type>,
}

/// A type of an interface, as a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A boolean.
    Bool,
    /// A signed 8-bit integer.
    S8,
    /// An unsigned 8-bit integer.
    U8,
    /// A signed 16-bit integer.
    S16,
    /// An unsigned 16-bit integer.
    U16,
    /// A signed 32-bit integer.
    S32,
    /// An unsigned 32-bit integer.
    U32,
    /// A signed 64-bit integer.
    S64,
    /// An unsigned 64-bit integer.
    U64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// One Unicode scalar value.
    Char,
    /// A string.
    String,
    /// A list. One of [`Self::U8`] has values that are [`Value::Bytes`].
    List(Box<Self>),
    /// A record.
    Record(Vec<(String, Self)>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A variant.
    Variant(Vec<(String, Option<Self>)>),
    /// An enum.
    Enum(Vec<String>),
    /// Flags.
    Flags(Vec<String>),
    /// An optional value.
    Option(Box<Self>),
    /// A result.
    Result {
        /// The payload of success.
        ok: Option<Box<Self>>,
        /// The payload of failure.
        err: Option<Box<Self>>,
    },
    /// A handle that is passed on: the index of its resource among those of the capability.
    Own(u32),
    /// A handle that is lent: the index of its resource among those of the capability.
    Borrow(u32),
}

/// The error of a value that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a value does not fit the type that the interface declares")]
pub struct Mismatch;

impl Function {
    /// Checks arguments against the parameters.
    ///
    /// # Errors
    /// If the number or a type differs.
    pub fn check_arguments(&self, arguments: &[Value]) -> Result<(), Mismatch> {
        if arguments.len() != self.params.len() {
            return Err(Mismatch);
        }
        self.params.iter().zip(arguments).try_for_each(|((_, ty), value)| ty.check(value))
    }

    /// Checks a result against the type of the result.
    ///
    /// # Errors
    /// If it differs.
    pub fn check_result(&self, result: Option<&Value>) -> Result<(), Mismatch> {
        match (&self.result, result) {
            (Some(ty), Some(value)) => ty.check(value),
            (None, None) => Ok(()),
            _ => Err(Mismatch),
        }
    }
}

impl Type {
    /// Checks a value. Recurses as deep as the type.
    ///
    /// # Errors
    /// If the value does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let fits = match (self, value) {
            (Self::Bool, Value::Bool(_))
            | (Self::S8, Value::S8(_))
            | (Self::U8, Value::U8(_))
            | (Self::S16, Value::S16(_))
            | (Self::U16, Value::U16(_))
            | (Self::S32, Value::S32(_))
            | (Self::U32, Value::U32(_))
            | (Self::S64, Value::S64(_))
            | (Self::U64, Value::U64(_))
            | (Self::F32, Value::F32(_))
            | (Self::F64, Value::F64(_))
            | (Self::Char, Value::Char(_))
            | (Self::String, Value::String(_))
            | (Self::Own(_) | Self::Borrow(_), Value::Handle(_)) => true,
            (Self::Enum(names), Value::Enum(name)) => names.contains(name),
            (Self::Flags(names), Value::Flags(set)) => {
                set.len() <= names.len() && set.iter().all(|name| names.contains(name))
            }
            _ => return self.check_compound(value),
        };
        if fits { Ok(()) } else { Err(Mismatch) }
    }

    fn check_compound(&self, value: &Value) -> Result<(), Mismatch> {
        match (self, value) {
            (Self::List(item), Value::Bytes(_)) if **item == Self::U8 => Ok(()),
            (Self::List(item), Value::List(items)) if **item != Self::U8 => {
                items.iter().try_for_each(|value| item.check(value))
            }
            (Self::Tuple(types), Value::Tuple(items)) if types.len() == items.len() => {
                types.iter().zip(items).try_for_each(|(ty, value)| ty.check(value))
            }
            (Self::Record(types), Value::Record(fields)) if types.len() == fields.len() => {
                types.iter().try_for_each(|(name, ty)| ty.check(value.field(name).ok_or(Mismatch)?))
            }
            (Self::Variant(cases), Value::Variant(name, payload)) => {
                let case = cases.iter().find(|(case, _)| case == name).ok_or(Mismatch)?;
                check_optional(case.1.as_ref(), payload.as_deref())
            }
            (Self::Option(inner), Value::Option(payload)) => {
                payload.as_deref().map_or(Ok(()), |value| inner.check(value))
            }
            (Self::Result { ok, .. }, Value::Result(Ok(payload))) => check_optional(ok.as_deref(), payload.as_deref()),
            (Self::Result { err, .. }, Value::Result(Err(payload))) => {
                check_optional(err.as_deref(), payload.as_deref())
            }
            _ => Err(Mismatch),
        }
    }

    /// Returns the number of handles in a value that are passed on. Recurses as deep as the type.
    #[must_use]
    pub fn owned_handles(&self, value: &Value) -> usize {
        match (self, value) {
            (Self::Own(_), Value::Handle(_)) => 1,
            (Self::List(item), Value::List(items)) => items.iter().map(|value| item.owned_handles(value)).sum(),
            (Self::Tuple(types), Value::Tuple(items)) => {
                types.iter().zip(items).map(|(ty, value)| ty.owned_handles(value)).sum()
            }
            (Self::Record(types), Value::Record(_)) => {
                let of_field =
                    |(name, ty): &(String, Self)| value.field(name).map_or(0, |value| ty.owned_handles(value));
                types.iter().map(of_field).sum()
            }
            (Self::Variant(cases), Value::Variant(name, Some(payload))) => {
                let case = cases.iter().find(|(case, _)| case == name).and_then(|(_, ty)| ty.as_ref());
                case.map_or(0, |ty| ty.owned_handles(payload))
            }
            (Self::Option(ty), Value::Option(Some(payload)))
            | (Self::Result { ok: Some(ty), .. }, Value::Result(Ok(Some(payload))))
            | (Self::Result { err: Some(ty), .. }, Value::Result(Err(Some(payload)))) => ty.owned_handles(payload),
            _ => 0,
        }
    }
}

/// Formats the type as in WIT, except that a named type is only `record`, `variant`, `enum`, `flags` or `resource`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = match self {
            Self::Bool => "bool",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::S32 => "s32",
            Self::U32 => "u32",
            Self::S64 => "s64",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::String => "string",
            Self::Record(_) => "record",
            Self::Variant(_) => "variant",
            Self::Enum(_) => "enum",
            Self::Flags(_) => "flags",
            Self::Own(_) => "resource",
            Self::Borrow(_) => "borrow<resource>",
            Self::List(item) => return write!(f, "list<{item}>"),
            Self::Option(inner) => return write!(f, "option<{inner}>"),
            Self::Tuple(types) => {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                return write!(f, "tuple<{}>", types.join(", "));
            }
            Self::Result { ok: None, err: None } => "result",
            Self::Result { ok: Some(ok), err: None } => return write!(f, "result<{ok}>"),
            Self::Result { ok: None, err: Some(err) } => return write!(f, "result<_, {err}>"),
            Self::Result { ok: Some(ok), err: Some(err) } => return write!(f, "result<{ok}, {err}>"),
        };
        f.write_str(plain)
    }
}

fn check_optional(ty: Option<&Type>, value: Option<&Value>) -> Result<(), Mismatch> {
    match (ty, value) {
        (Some(ty), Some(value)) => ty.check(value),
        (None, None) => Ok(()),
        _ => Err(Mismatch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Type {
        let fields = [("id", Type::U32), ("title", Type::Option(Box::new(Type::String)))];
        Type::Record(fields.map(|(name, ty)| (name.to_owned(), ty)).to_vec())
    }

    #[test]
    fn accepts_fields_in_any_order_and_no_others() {
        let title = || Value::from(Some("milk"));
        let check = |value: Value| row().check(&value).is_ok();
        assert!(check(Value::record([("title", title()), ("id", 1_u32.into())])));
        assert!(!check(Value::record([("title", title()), ("id", 1_u64.into())])));
        assert!(!check(Value::record([("title", title()), ("title", title())])));
        assert!(!check(Value::record([("id", 1_u32.into())])));
    }

    #[test]
    fn lists_of_bytes_are_bytes() {
        let bytes = Type::List(Box::new(Type::U8));
        assert!(bytes.check(&Value::Bytes(vec![1])).is_ok());
        assert!(bytes.check(&Value::List(vec![Value::U8(1)])).is_err());
        assert!(Type::List(Box::new(row())).check(&Value::Bytes(vec![1])).is_err());
    }

    #[test]
    fn checks_cases_and_their_payloads() {
        let cases = vec![("none".to_owned(), None), ("text".to_owned(), Some(Type::String))];
        let variant = Type::Variant(cases);
        assert!(variant.check(&Value::case("text", "x")).is_ok());
        assert!(variant.check(&Value::Variant("none".to_owned(), None)).is_ok());
        assert!(variant.check(&Value::Variant("text".to_owned(), None)).is_err());
        assert!(variant.check(&Value::case("other", "x")).is_err());
        let flags = Type::Flags(vec!["a".to_owned()]);
        assert!(flags.check(&Value::Flags(vec!["a".to_owned(), "a".to_owned()])).is_err());
    }

    #[test]
    fn types_are_written_as_in_wit() {
        let list = || Some(Box::new(Type::List(Box::new(row()))));
        let result = Type::Result { ok: list(), err: Some(Box::new(Type::Tuple(vec![Type::U8, Type::String]))) };
        assert_eq!(result.to_string(), "result<list<record>, tuple<u8, string>>");
        assert_eq!(Type::Result { ok: None, err: list() }.to_string(), "result<_, list<record>>");
    }

    #[test]
    fn counts_handles_that_are_passed_on() {
        let list = Type::List(Box::new(Type::Own(0)));
        assert_eq!(list.owned_handles(&Value::List(vec![Value::Handle(1), Value::Handle(2)])), 2);
        assert_eq!(Type::Borrow(0).owned_handles(&Value::Handle(1)), 0);
        let result = Type::Result { ok: Some(Box::new(Type::Own(0))), err: None };
        assert_eq!(result.owned_handles(&Value::ok(Value::Handle(1))), 1);
    }
}
