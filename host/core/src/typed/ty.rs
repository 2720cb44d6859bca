//! The types of the component model that a tool's arguments and results may have.

use std::fmt;

/// How deeply types may be nested.
pub const MAX_DEPTH: usize = 16;

/// How many types, fields, cases and flags one function may be made of, with what is used twice counted twice.
pub const MAX_NODES: usize = 1_000;

/// How many bytes the names of all fields, cases and flags of one function may have together.
pub const MAX_NAME_BYTES: usize = 16 << 10;

/// A type. It is a tree: a type that is named once and used twice appears twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ty {
    /// True or false.
    Bool,
    /// A whole number of 8 bits, with a sign.
    S8,
    /// A whole number of 8 bits.
    U8,
    /// A whole number of 16 bits, with a sign.
    S16,
    /// A whole number of 16 bits.
    U16,
    /// A whole number of 32 bits, with a sign.
    S32,
    /// A whole number of 32 bits.
    U32,
    /// A whole number of 64 bits, with a sign.
    S64,
    /// A whole number of 64 bits.
    U64,
    /// An IEEE 754 number of 32 bits.
    F32,
    /// An IEEE 754 number of 64 bits.
    F64,
    /// One Unicode scalar value.
    Char,
    /// Text.
    String,
    /// Any number of values of one type.
    List(Box<Self>),
    /// Named values.
    Record(Vec<(String, Self)>),
    /// Values in order.
    Tuple(Vec<Self>),
    /// One of several cases, each with its value or with none.
    Variant(Vec<(String, Option<Self>)>),
    /// One of several names.
    Enum(Vec<String>),
    /// Any of several names.
    Flags(Vec<String>),
    /// A value or nothing.
    Option(Box<Self>),
    /// Success or failure, each with its value or with none.
    Result {
        /// The value on success.
        ok: Option<Box<Self>>,
        /// The value on failure.
        err: Option<Box<Self>>,
    },
}

impl Ty {
    /// Whether a value that is not there at all can stand for one of this type.
    #[must_use]
    pub fn is_option(&self) -> bool {
        matches!(self, Self::Option(_))
    }

    /// The types that this one is directly made of.
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

/// As in WIT, except that a type with a name of its own is only said to be a record, a variant, an enum or flags.
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

/// What a function takes and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedFunction {
    /// Its parameters, in order.
    pub params: Vec<(String, Ty)>,
    /// What it returns, if anything.
    pub result: Option<Ty>,
}

impl TypedFunction {
    /// What a call that succeeds gives: the `ok` of a `result`, or else the result itself.
    #[must_use]
    pub fn success(&self) -> Option<&Ty> {
        match &self.result {
            Some(Ty::Result { ok, .. }) => ok.as_deref(),
            result => result.as_ref(),
        }
    }
}

/// The signature as in WIT, without the word `func`: `(name: string) -> string`.
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

/// Why a function's types are refused. A few bytes of a component can describe types that are huge once written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TypeComplexityError {
    /// Nested too deeply.
    #[error("its types are nested more than {MAX_DEPTH} deep; make them flatter")]
    Depth,
    /// Made of too many parts.
    #[error("its types have more than {MAX_NODES} parts once they are written out; take and return less at once")]
    Nodes,
    /// The names are too long.
    #[error("the names in its types have more than {MAX_NAME_BYTES} bytes together; shorten them")]
    Names,
}

/// What may still be spent on the types of one function.
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
    /// Pays for one type that has `depth` types around it.
    ///
    /// # Errors
    /// If it is nested too deeply, or nothing is left.
    pub fn charge_node(&mut self, depth: usize) -> Result<(), TypeComplexityError> {
        if depth >= MAX_DEPTH {
            return Err(TypeComplexityError::Depth);
        }
        self.nodes = self.nodes.checked_sub(1).ok_or(TypeComplexityError::Nodes)?;
        Ok(())
    }

    /// Pays for the name of a parameter, field, case or flag.
    ///
    /// # Errors
    /// If nothing is left.
    pub fn charge_name(&mut self, name: &str) -> Result<String, TypeComplexityError> {
        self.nodes = self.nodes.checked_sub(1).ok_or(TypeComplexityError::Nodes)?;
        self.name_bytes = self.name_bytes.checked_sub(name.len()).ok_or(TypeComplexityError::Names)?;
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_reads_like_wit() {
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
    fn a_budget_runs_out() {
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
