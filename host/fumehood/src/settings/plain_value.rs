//! Values of capabilities in a form that every language has, and their conversion by the types of WIT. The forms are those of JSON
//! arguments of tools (`fumehood_core::schema::typed`), except that bytes and large integers have types of their own.

use fumehood_core::capability::{Type, Value};

/// Maximum integer that a number of JavaScript holds exactly, 2⁵³ − 1.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A value without its type.
///
/// | WIT | plain value |
/// |---|---|
/// | `u8`–`u32`, `s8`–`s32` | [`Self::Int`] |
/// | `u64`, `s64` | [`Self::BigInt`] |
/// | `char`, `string`, `enum` | [`Self::Text`] |
/// | `list<u8>` | [`Self::Bytes`] |
/// | `list`, `tuple`, `flags` | [`Self::List`] |
/// | `record` | [`Self::Dict`] with its fields; a field of type `option` may be left out |
/// | `variant` | [`Self::Dict`] with `tag`, and with `val` if the case has a value |
/// | `option` | [`Self::None`], or the value; a [`Self::Dict`] with `some` for an option within an option |
/// | `result` within another type | [`Self::Dict`] with `ok` or `err` |
#[derive(Debug, Clone, PartialEq)]
pub enum PlainValue {
    /// No value.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer of at most 32 bits.
    Int(i64),
    /// An integer of any size that WIT has.
    BigInt(i128),
    /// A number. One without a fraction may be an integer.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Self>),
    /// Names and values.
    Dict(Vec<(String, Self)>),
    /// A value of the program that has no plain form: the name of its type.
    Other(String),
}

/// The error of a plain value that does not fit a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}{}, got {found}", if path.is_empty() { String::new() } else { format!(" at `{path}`") })]
pub struct PlainValueError {
    /// The place in the value, such as `[3].title`; empty for the whole.
    path: String,
    expected: String,
    found: String,
}

impl PlainValueError {
    fn below(mut self, place: &str) -> Self {
        self.path.insert_str(0, place);
        self
    }
}

impl PlainValue {
    /// Converts a value of this type. Recurses as deep as the type.
    #[must_use]
    pub fn from_value(value: Value, ty: &Type) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(value),
            Value::S8(number) => Self::Int(number.into()),
            Value::U8(number) => Self::Int(number.into()),
            Value::S16(number) => Self::Int(number.into()),
            Value::U16(number) => Self::Int(number.into()),
            Value::S32(number) => Self::Int(number.into()),
            Value::U32(number) | Value::Handle(number) => Self::Int(number.into()),
            Value::S64(number) => Self::BigInt(number.into()),
            Value::U64(number) => Self::BigInt(number.into()),
            Value::F32(number) => Self::Float(number.into()),
            Value::F64(number) => Self::Float(number),
            Value::Char(character) => Self::Text(character.into()),
            Value::String(text) | Value::Enum(text) => Self::Text(text),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Flags(names) => Self::List(names.into_iter().map(Self::Text).collect()),
            Value::List(items) => {
                let Type::List(item) = ty else { return Self::None };
                Self::List(items.into_iter().map(|value| Self::from_value(value, item)).collect())
            }
            Value::Tuple(items) => {
                let Type::Tuple(types) = ty else { return Self::None };
                Self::List(items.into_iter().zip(types).map(|(value, ty)| Self::from_value(value, ty)).collect())
            }
            Value::Record(fields) => Self::Dict(from_fields(fields, ty)),
            Value::Variant(name, payload) => {
                let Type::Variant(cases) = ty else { return Self::None };
                let case = cases.iter().find(|(case, _)| *case == name).and_then(|(_, ty)| ty.as_ref());
                let val = case.zip(payload).map(|(ty, payload)| ("val".to_owned(), Self::from_value(*payload, ty)));
                Self::Dict([("tag".to_owned(), Self::Text(name))].into_iter().chain(val).collect())
            }
            Value::Option(payload) => match (payload, ty) {
                (Some(payload), Type::Option(inner)) if is_option(inner) => {
                    Self::Dict(vec![("some".to_owned(), Self::from_value(*payload, inner))])
                }
                (Some(payload), Type::Option(inner)) => Self::from_value(*payload, inner),
                _ => Self::None,
            },
            Value::Result(result) => {
                let Type::Result { ok, err } = ty else { return Self::None };
                let (name, payload, ty) = match result {
                    Ok(payload) => ("ok", payload, ok),
                    Err(payload) => ("err", payload, err),
                };
                let value = payload.zip(ty.as_ref()).map(|(value, ty)| Self::from_value(*value, ty));
                Self::Dict(vec![(name.to_owned(), value.unwrap_or(Self::None))])
            }
        }
    }

    /// Converts to a value of this type. Recurses as deep as the type.
    ///
    /// # Errors
    /// If it does not fit: where, and what was expected.
    pub fn into_value(self, ty: &Type) -> Result<Value, PlainValueError> {
        match ty {
            Type::List(item) if **item == Type::U8 => self.into_bytes(ty),
            Type::List(item) => {
                let items = self.into_list(ty)?;
                let convert =
                    |(at, value): (usize, Self)| value.into_value(item).map_err(|error| error.below(&index(at)));
                items.into_iter().enumerate().map(convert).collect()
            }
            Type::Tuple(types) => {
                let items = self.into_list(ty)?;
                if items.len() != types.len() {
                    let expected = format!("{ty} with {} items", types.len());
                    return Err(mismatch(expected, format!("{} items", items.len())));
                }
                let each = items.into_iter().zip(types).enumerate();
                let convert = |(at, (value, ty)): (usize, (Self, &Type))| {
                    value.into_value(ty).map_err(|error| error.below(&index(at)))
                };
                Ok(Value::Tuple(each.map(convert).collect::<Result<_, _>>()?))
            }
            Type::Record(fields) => self.into_record(fields),
            Type::Variant(cases) => self.into_variant(cases),
            Type::Enum(names) => self.into_name(names).map(Value::Enum),
            Type::Flags(names) => {
                let items = self.into_list(ty)?;
                let mut set: Vec<String> = Vec::new();
                for (at, item) in items.into_iter().enumerate() {
                    let name = item.into_name(names).map_err(|error| error.below(&index(at)))?;
                    if !set.contains(&name) {
                        set.push(name);
                    }
                }
                Ok(Value::Flags(set))
            }
            Type::Option(inner) => match self {
                Self::None => Ok(Value::Option(None)),
                value if is_option(inner) => {
                    let value = value.into_only("some", "None, or a table with `some`")?;
                    let inner = value.into_value(inner).map_err(|error| error.below(".some"))?;
                    Ok(Value::Option(Some(Box::new(inner))))
                }
                value => Ok(Value::Option(Some(Box::new(value.into_value(inner)?)))),
            },
            Type::Result { ok, err } => self.into_result(ok.as_deref(), err.as_deref()),
            _ => self.into_scalar(ty),
        }
    }

    fn into_scalar(self, ty: &Type) -> Result<Value, PlainValueError> {
        let integer = self.as_integer();
        let float = self.as_float();
        let value = match (ty, &self) {
            (Type::Bool, Self::Bool(value)) => Some(Value::Bool(*value)),
            (Type::String, Self::Text(text)) => Some(Value::String(text.clone())),
            (Type::Char, Self::Text(text)) => {
                let mut characters = text.chars();
                characters.next().filter(|_| characters.next().is_none()).map(Value::Char)
            }
            (Type::S8, _) => integer.and_then(|number| number.try_into().ok()).map(Value::S8),
            (Type::U8, _) => integer.and_then(|number| number.try_into().ok()).map(Value::U8),
            (Type::S16, _) => integer.and_then(|number| number.try_into().ok()).map(Value::S16),
            (Type::U16, _) => integer.and_then(|number| number.try_into().ok()).map(Value::U16),
            (Type::S32, _) => integer.and_then(|number| number.try_into().ok()).map(Value::S32),
            (Type::U32, _) => integer.and_then(|number| number.try_into().ok()).map(Value::U32),
            (Type::S64, _) => integer.and_then(|number| number.try_into().ok()).map(Value::S64),
            (Type::U64, _) => integer.and_then(|number| number.try_into().ok()).map(Value::U64),
            // WIT has the smaller type, so that the nearest number of it is the value.
            (Type::F32, _) => float.map(|number| Value::F32(number as f32)),
            (Type::F64, _) => float.map(Value::F64),
            _ => None,
        };
        value.ok_or_else(|| mismatch(ty.to_string(), self.describe()))
    }

    fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some((*number).into()),
            Self::BigInt(number) => Some(*number),
            Self::Float(number) if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER => Some(*number as i128),
            _ => None,
        }
    }

    fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::BigInt(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    fn into_bytes(self, ty: &Type) -> Result<Value, PlainValueError> {
        match self {
            Self::Bytes(bytes) => Ok(Value::Bytes(bytes)),
            Self::List(items) => {
                let mut bytes = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    let byte = item.as_integer().and_then(|number| number.try_into().ok());
                    bytes.push(byte.ok_or_else(|| mismatch("u8".to_owned(), item.describe()).below(&index(at)))?);
                }
                Ok(Value::Bytes(bytes))
            }
            other => Err(mismatch(format!("bytes for {ty}"), other.describe())),
        }
    }

    fn into_list(self, ty: &Type) -> Result<Vec<Self>, PlainValueError> {
        match self {
            Self::List(items) => Ok(items),
            other => Err(mismatch(ty.to_string(), other.describe())),
        }
    }

    fn into_name(self, names: &[String]) -> Result<String, PlainValueError> {
        match self {
            Self::Text(name) if names.contains(&name) => Ok(name),
            other => Err(mismatch(format!("one of {}", list_names(names)), other.describe())),
        }
    }

    fn into_record(self, types: &[(String, Type)]) -> Result<Value, PlainValueError> {
        let names = || list_names(types.iter().map(|(name, _)| name));
        let mut given = match self {
            Self::Dict(fields) => fields,
            other => return Err(mismatch(format!("a record with {}", names()), other.describe())),
        };
        let mut fields = Vec::with_capacity(types.len());
        for (name, ty) in types {
            let at = given.iter().position(|(field, _)| field == name);
            let value = match at.map(|at| given.swap_remove(at).1) {
                Some(value) => value,
                None if is_option(ty) => Self::None,
                None => return Err(mismatch(format!("a record with {}", names()), format!("none with `{name}`"))),
            };
            fields.push((name.clone(), value.into_value(ty).map_err(|error| error.below(&format!(".{name}")))?));
        }
        match given.first() {
            None => Ok(Value::Record(fields)),
            Some((name, _)) => Err(mismatch(format!("a record with {}", names()), format!("one with `{name}`"))),
        }
    }

    fn into_variant(self, cases: &[(String, Option<Type>)]) -> Result<Value, PlainValueError> {
        let found = self.describe();
        let Self::Dict(parts) = self else { return Err(mismatch(describe_variant(cases), found)) };
        let mut tag = None;
        let mut val = None;
        for (name, part) in parts {
            match (name.as_str(), part) {
                ("tag", Self::Text(name)) => tag = Some(name),
                ("val", part) => val = Some(part),
                (name, part) => {
                    return Err(mismatch(describe_variant(cases), format!("{} as `{name}`", part.describe())));
                }
            }
        }
        let case = tag.as_ref().and_then(|tag| cases.iter().find(|(name, _)| name == tag));
        let Some((name, ty)) = case else {
            let found = tag.map_or_else(|| "no `tag`".to_owned(), |tag| Self::Text(tag).describe());
            return Err(mismatch(describe_variant(cases), found));
        };
        let val = into_payload(val.unwrap_or(Self::None), ty.as_ref()).map_err(|error| error.below(".val"))?;
        Ok(Value::Variant(name.clone(), val))
    }

    fn into_result(self, ok: Option<&Type>, err: Option<&Type>) -> Result<Value, PlainValueError> {
        let expected = "a result, which is a table with `ok` or `err`";
        let found = self.describe();
        let Self::Dict(mut parts) = self else { return Err(mismatch(expected.to_owned(), found)) };
        let part = parts.pop().filter(|_| parts.is_empty());
        match part {
            Some((name, value)) if name == "ok" => {
                Ok(Value::Result(Ok(into_payload(value, ok).map_err(|error| error.below(".ok"))?)))
            }
            Some((name, value)) if name == "err" => {
                Ok(Value::Result(Err(into_payload(value, err).map_err(|error| error.below(".err"))?)))
            }
            _ => Err(mismatch(expected.to_owned(), found)),
        }
    }

    /// Returns the value of a table that has this name and no other.
    fn into_only(self, name: &str, expected: &str) -> Result<Self, PlainValueError> {
        let found = self.describe();
        if let Self::Dict(mut parts) = self
            && let Some((given, value)) = parts.pop()
            && given == name
            && parts.is_empty()
        {
            return Ok(value);
        }
        Err(mismatch(expected.to_owned(), found))
    }

    /// Returns what the value is, for messages. Its text is left out, because it may be private.
    fn describe(&self) -> String {
        match self {
            Self::None => "no value".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Int(number) => format!("the number {number}"),
            Self::BigInt(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Text(_) => "a text".to_owned(),
            Self::Bytes(_) => "bytes".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Dict(_) => "a table".to_owned(),
            Self::Other(name) => name.clone(),
        }
    }
}

/// Converts the payload of a case, or of one side of a result.
///
/// # Errors
/// If it does not fit.
pub(super) fn into_payload(value: PlainValue, ty: Option<&Type>) -> Result<Option<Box<Value>>, PlainValueError> {
    match (ty, value) {
        (Some(ty), value) => Ok(Some(Box::new(value.into_value(ty)?))),
        (None, PlainValue::None) => Ok(None),
        (None, other) => Err(mismatch("no value".to_owned(), other.describe())),
    }
}

fn from_fields(fields: Vec<(String, Value)>, ty: &Type) -> Vec<(String, PlainValue)> {
    let Type::Record(types) = ty else { return Vec::new() };
    let convert = |(name, value): (String, Value)| {
        let ty = types.iter().find_map(|(field, ty)| (*field == name).then_some(ty))?;
        Some((name, PlainValue::from_value(value, ty)))
    };
    fields.into_iter().filter_map(convert).collect()
}

fn describe_variant(cases: &[(String, Option<Type>)]) -> String {
    let names = list_names(cases.iter().map(|(name, _)| name));
    format!("a variant, which is a table with a `tag`, one of {names}, and the `val` of that case")
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Option(_))
}

fn index(at: usize) -> String {
    format!("[{at}]")
}

fn list_names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn mismatch(expected: String, found: String) -> PlainValueError {
    PlainValueError { path: String::new(), expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(ty: Type) -> Type {
        Type::Option(Box::new(ty))
    }

    fn text(text: &str) -> PlainValue {
        PlainValue::Text(text.to_owned())
    }

    fn dict<const N: usize>(parts: [(&str, PlainValue); N]) -> PlainValue {
        PlainValue::Dict(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn record() -> Type {
        let cells = vec![("null".to_owned(), None), ("integer".to_owned(), Some(Type::S64))];
        let fields = [
            ("id", Type::U64),
            ("note", option(Type::String)),
            ("twice", option(option(Type::U8))),
            ("data", Type::List(Box::new(Type::U8))),
            ("cells", Type::List(Box::new(Type::Variant(cells)))),
            ("done", Type::Result { ok: None, err: Some(Box::new(Type::Char)) }),
            ("kinds", Type::Flags(vec!["a".to_owned(), "b".to_owned()])),
        ];
        Type::Record(fields.map(|(name, ty)| (name.to_owned(), ty)).to_vec())
    }

    fn plain() -> PlainValue {
        dict([
            ("id", PlainValue::BigInt(u64::MAX.into())),
            ("note", PlainValue::None),
            ("twice", dict([("some", PlainValue::None)])),
            ("data", PlainValue::Bytes(vec![1, 255])),
            ("cells", PlainValue::List(vec![dict([("tag", text("integer")), ("val", PlainValue::BigInt(-1))])])),
            ("done", dict([("err", text("é"))])),
            ("kinds", PlainValue::List(vec![text("b")])),
        ])
    }

    #[test]
    fn values_return_as_they_were() {
        let value = plain().into_value(&record()).unwrap();
        assert_eq!(record().check(&value), Ok(()));
        assert_eq!(PlainValue::from_value(value, &record()), plain());
    }

    #[test]
    fn numbers_fit_or_are_refused() {
        let convert = |value: PlainValue, ty: Type| value.into_value(&ty).map_err(|error| error.to_string());
        assert_eq!(convert(PlainValue::Float(7.0), Type::U32), Ok(Value::U32(7)));
        assert_eq!(convert(PlainValue::Int(7), Type::F64), Ok(Value::F64(7.0)));
        assert_eq!(convert(PlainValue::BigInt(i64::MIN.into()), Type::S64), Ok(Value::S64(i64::MIN)));
        let refused = "expected u8, got the number 256";
        assert_eq!(convert(PlainValue::Int(256), Type::U8), Err(refused.to_owned()));
        assert!(convert(PlainValue::Float(1.5), Type::U32).is_err());
        assert!(convert(PlainValue::Float(1e300), Type::U64).is_err());
        assert!(convert(PlainValue::Float(f64::NAN), Type::S64).is_err());
        assert!(convert(PlainValue::Bool(true), Type::U8).is_err());
    }

    #[test]
    fn errors_name_the_place_and_the_type() {
        let check = |change: (&str, PlainValue), expected: &str| {
            let PlainValue::Dict(mut fields) = plain() else { panic!("a table") };
            fields.retain(|(name, _)| name != change.0);
            fields.push((change.0.to_owned(), change.1));
            let error = PlainValue::Dict(fields).into_value(&record()).unwrap_err().to_string();
            assert_eq!(error, expected);
        };
        check(("id", text("secret")), "expected u64 at `.id`, got a text");
        let cell = PlainValue::List(vec![dict([("tag", text("integer")), ("val", text("1"))])]);
        check(("cells", cell), "expected s64 at `.cells[0].val`, got a text");
        check(("kinds", PlainValue::List(vec![text("c")])), "expected one of `a`, `b` at `.kinds[0]`, got a text");
        check(("data", PlainValue::Other("Decimal".to_owned())), "expected bytes for list<u8> at `.data`, got Decimal");
        let fields = "expected a record with `id`, `note`, `twice`, `data`, `cells`, `done`, `kinds`";
        check(("idd", PlainValue::None), &format!("{fields}, got one with `idd`"));
        assert!(dict([]).into_value(&record()).unwrap_err().to_string().ends_with("got none with `id`"));
    }
}
