//! The types of the component model that a tool's arguments and results may have.

use std::collections::BTreeMap;
use std::fmt;

/// Maximum depth of nested types.
pub const MAX_DEPTH: usize = 16;

/// Maximum number of types, fields, cases and flags of one function. A type that is used twice counts twice.
pub const MAX_NODES: usize = 1_000;

/// Maximum total size of the names of parameters, fields, cases and flags of one function, in bytes.
pub const MAX_NAME_BYTES: usize = 16 << 10;

/// A type of the component model, as a tree: a type that is named once and used twice appears twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ty {
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
    /// A 32-bit float (IEEE 754 binary32).
    F32,
    /// A 64-bit float (IEEE 754 binary64).
    F64,
    /// One Unicode scalar value.
    Char,
    /// A Unicode string.
    String,
    /// A list of values of one type.
    List(Box<Self>),
    /// A record with named fields.
    Record(Vec<(String, Self)>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A variant: one of several cases, each with an optional payload.
    Variant(Vec<(String, Option<Self>)>),
    /// An enum: one of several names.
    Enum(Vec<String>),
    /// Flags: any of several names.
    Flags(Vec<String>),
    /// An optional value.
    Option(Box<Self>),
    /// A result: success or failure, each with an optional payload.
    Result {
        /// The payload of success.
        ok: Option<Box<Self>>,
        /// The payload of failure.
        err: Option<Box<Self>>,
    },
}

impl Ty {
    /// Returns whether the type is an option, so that a field of this type may be left out.
    #[must_use]
    pub fn is_option(&self) -> bool {
        matches!(self, Self::Option(_))
    }

    /// Returns the types that this one directly contains.
    pub fn parts(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        match self {
            Self::List(part) | Self::Option(part) => Box::new(std::iter::once(&**part)),
            Self::Record(fields) => Box::new(fields.iter().map(|(_, part)| part)),
            Self::Tuple(parts) => Box::new(parts.iter()),
            Self::Variant(cases) => Box::new(cases.iter().filter_map(|(_, part)| part.as_ref())),
            Self::Result { ok, err } => Box::new(ok.iter().chain(err).map(|part| &**part)),
            _ => Box::new(std::iter::empty()),
        }
    }
}

/// Formats the type as in WIT, except that a named type is only `record`, `variant`, `enum` or `flags`.
impl fmt::Display for Ty {
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
            Self::List(part) => return write!(f, "list<{part}>"),
            Self::Option(part) => return write!(f, "option<{part}>"),
            Self::Tuple(parts) => {
                f.write_str("tuple<")?;
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if at == 0 { "" } else { ", " })?;
                }
                return f.write_str(">");
            }
            Self::Result { ok: None, err: None } => "result",
            Self::Result { ok: Some(ok), err: None } => return write!(f, "result<{ok}>"),
            Self::Result { ok: None, err: Some(err) } => return write!(f, "result<_, {err}>"),
            Self::Result { ok: Some(ok), err: Some(err) } => return write!(f, "result<{ok}, {err}>"),
        };
        f.write_str(plain)
    }
}

/// The signature of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedFunction {
    /// The parameters, in order.
    pub params: Vec<(String, Ty)>,
    /// The type of the result, if there is one.
    pub result: Option<Ty>,
}

impl TypedFunction {
    /// Returns the type of the result of a successful call: the `ok` of a `result`, or else the result itself.
    #[must_use]
    pub fn success(&self) -> Option<&Ty> {
        match &self.result {
            Some(Ty::Result { ok, .. }) => ok.as_deref(),
            result => result.as_ref(),
        }
    }
}

/// Formats the signature as in WIT, without the word `func`: `(name: string) -> string`.
impl fmt::Display for TypedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (at, (name, ty)) in self.params.iter().enumerate() {
            write!(f, "{}{name}: {ty}", if at == 0 { "" } else { ", " })?;
        }
        match &self.result {
            Some(result) => write!(f, ") -> {result}"),
            None => f.write_str(")"),
        }
    }
}

/// An exceeded limit of a function's types. A few bytes of a component can describe types that are huge as a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeComplexityError {
    /// More than [`MAX_DEPTH`] levels.
    #[error("its types are nested more than {MAX_DEPTH} deep; make them flatter")]
    Depth,
    /// More than [`MAX_NODES`] parts.
    #[error("its types have more than {MAX_NODES} parts once they are written out; take and return less at once")]
    Nodes,
    /// More than [`MAX_NAME_BYTES`] bytes of names.
    #[error("the names in its types have more than {MAX_NAME_BYTES} bytes together; shorten them")]
    Names,
}

/// The remaining budget for the types of one function.
#[derive(Debug, Clone)]
pub struct Budget {
    nodes: usize,
    name_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: MAX_NODES, name_bytes: MAX_NAME_BYTES }
    }
}

impl Budget {
    /// Charges one type at `depth`, where the outermost type has depth 0.
    ///
    /// # Errors
    /// If it is nested too deeply, or the budget is used up.
    pub fn charge_node(&mut self, depth: usize) -> Result<(), TypeComplexityError> {
        if depth >= MAX_DEPTH {
            return Err(TypeComplexityError::Depth);
        }
        self.nodes = self.nodes.checked_sub(1).ok_or(TypeComplexityError::Nodes)?;
        Ok(())
    }

    /// Charges the name of a parameter, field, case or flag, and returns it as a `String`.
    ///
    /// # Errors
    /// If the budget is used up.
    pub fn charge_name(&mut self, name: &str) -> Result<String, TypeComplexityError> {
        self.nodes = self.nodes.checked_sub(1).ok_or(TypeComplexityError::Nodes)?;
        self.name_bytes = self.name_bytes.checked_sub(name.len()).ok_or(TypeComplexityError::Names)?;
        Ok(name.to_owned())
    }
}

/// The documentation of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeDoc {
    /// The documentation of the type itself.
    pub text: Option<String>,
    /// The documentation of its fields, cases or flags, by name.
    pub items: BTreeMap<String, String>,
}

/// The documentation of the named types that a function may use.
///
/// Types are found by their structure, because the name of a type is lost where it is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeDocs {
    types: Vec<(Ty, TypeDoc)>,
}

impl TypeDocs {
    /// Creates an empty set of documentation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the documentation of `ty`. Of two entries for one type, the first counts.
    ///
    /// A type without fields, cases or flags of its own, such as an alias of `string`, is left out, because every other
    /// type of the same structure would get its documentation.
    pub fn add(&mut self, ty: Ty, doc: TypeDoc) {
        if matches!(ty, Ty::Record(_) | Ty::Variant(_) | Ty::Enum(_) | Ty::Flags(_)) {
            self.types.push((ty, doc));
        }
    }

    /// Returns the documentation of `ty`.
    #[must_use]
    pub fn get(&self, ty: &Ty) -> Option<&TypeDoc> {
        self.types.iter().find(|(known, _)| known == ty).map(|(_, doc)| doc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_signature_as_wit() {
        let person = Ty::Record(vec![("name".to_owned(), Ty::String)]);
        let function = TypedFunction {
            params: vec![
                ("who".to_owned(), person),
                ("at".to_owned(), Ty::Option(Box::new(Ty::Tuple(vec![Ty::F32, Ty::List(Box::new(Ty::U8))])))),
            ],
            result: Some(Ty::Result { ok: None, err: Some(Box::new(Ty::String)) }),
        };
        assert_eq!(function.to_string(), "(who: record, at: option<tuple<f32, list<u8>>>) -> result<_, string>");
        assert_eq!(function.success(), None);
        assert_eq!(TypedFunction { params: vec![], result: None }.to_string(), "()");
    }

    #[test]
    fn rejects_types_over_budget() {
        let mut budget = Budget::default();
        assert_eq!(budget.charge_node(MAX_DEPTH - 1), Ok(()));
        assert_eq!(budget.charge_node(MAX_DEPTH), Err(TypeComplexityError::Depth));
        assert_eq!(budget.charge_name(&"n".repeat(MAX_NAME_BYTES)).map(|name| name.len()), Ok(MAX_NAME_BYTES));
        assert_eq!(budget.charge_name("n"), Err(TypeComplexityError::Names));
        let spent = (0..).take_while(|_| budget.charge_node(0).is_ok()).count();
        assert_eq!(spent, MAX_NODES - 3);
        assert_eq!(budget.charge_node(0), Err(TypeComplexityError::Nodes));
    }
}
