//! Types as conversions need them: with a lookup of names, and the cost of lifting their values.

use std::collections::{HashMap, HashSet};

use fumehood_core::schema::typed::Ty;
use wasmtime::component::Val;

/// Bytes that wasmtime counts for each value in a list, tuple, record or payload.
const SLOT_BYTES: usize = size_of::<Val>();
/// Cost of one allocation, in bytes: what the allocator adds, and what the time for it is worth.
const ALLOCATION_BYTES: usize = 64;
/// Maximum cost of each byte that wasmtime counts, for values of all types but flags.
const ORDINARY_COST: usize = 4;

/// A type with a lookup of its names, made once for a tool.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A type without names and parts.
    Scalar(Ty),
    Enum(HashSet<String>),
    /// The names in the order of their declaration.
    Flags(Vec<String>),
    List(Box<Self>),
    Tuple(Vec<Self>),
    Record(Vec<(String, Self)>),
    Variant(HashMap<String, Option<Self>>),
    Option(Box<Self>),
    Result {
        ok: Option<Box<Self>>,
        err: Option<Box<Self>>,
    },
}

impl From<&Ty> for Shape {
    /// Recurses only as deep as the type does.
    fn from(ty: &Ty) -> Self {
        match ty {
            Ty::Enum(names) => Self::Enum(names.iter().cloned().collect()),
            Ty::Flags(names) => Self::Flags(names.clone()),
            Ty::List(item) => Self::List(Box::new(Self::from(&**item))),
            Ty::Tuple(items) => Self::Tuple(items.iter().map(Self::from).collect()),
            Ty::Record(fields) => Self::Record(Self::of_fields(fields)),
            Ty::Variant(cases) => {
                Self::Variant(cases.iter().map(|(name, ty)| (name.clone(), ty.as_ref().map(Self::from))).collect())
            }
            Ty::Option(inner) => Self::Option(Box::new(Self::from(&**inner))),
            Ty::Result { ok, err } => Self::Result {
                ok: ok.as_deref().map(|ty| Box::new(Self::from(ty))),
                err: err.as_deref().map(|ty| Box::new(Self::from(ty))),
            },
            scalar => Self::Scalar(scalar.clone()),
        }
    }
}

impl Shape {
    /// Converts the fields of a record, or the parameters of a function.
    pub(in crate::load::dialect::typed) fn of_fields(fields: &[(String, Ty)]) -> Vec<(String, Self)> {
        fields.iter().map(|(name, ty)| (name.clone(), Self::from(ty))).collect()
    }

    /// Returns whether the type is an option, so that a field of this type may be left out.
    pub(super) fn is_option(&self) -> bool {
        matches!(self, Self::Option(_))
    }

    /// Returns the kind of the type, as in WIT.
    pub(super) fn kind(&self) -> String {
        let kind = match self {
            Self::Scalar(ty) => return ty.to_string(),
            Self::Enum(_) => "enum",
            Self::Flags(_) => "flags",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Record(_) => "record",
            Self::Variant(_) => "variant",
            Self::Option(_) => "option",
            Self::Result { .. } => "result",
        };
        kind.to_owned()
    }
}

/// Returns the factor by which values of a type may cost the host more than wasmtime counts for them.
///
/// wasmtime lifts a result in one piece, within an allowance of bytes. It counts the letters of each flag that is set, and
/// not the string that it allocates for them, so that a value of 32 flags costs thirty times as much as is counted.
pub(crate) fn lift_factor(ty: &Ty) -> usize {
    let of_parts = ty.parts().map(lift_factor).max().unwrap_or(1);
    match ty {
        Ty::Flags(names) => of_parts.max(flags_factor(names)),
        _ => of_parts,
    }
}

/// Returns the factor of the most expensive value: some of the flags with the shortest names.
fn flags_factor(names: &[String]) -> usize {
    let mut lengths: Vec<usize> = names.iter().map(String::len).collect();
    lengths.sort_unstable();
    let mut counted = SLOT_BYTES;
    let mut cost = SLOT_BYTES + ALLOCATION_BYTES;
    let mut factor = 1;
    for length in lengths {
        counted += length;
        cost += ALLOCATION_BYTES + length;
        factor = factor.max(cost.div_ceil(ORDINARY_COST * counted));
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(names: usize, length: usize) -> Ty {
        Ty::Flags(vec!["x".repeat(length); names])
    }

    #[test]
    fn flags_with_short_names_cost_more_than_is_counted() {
        assert_eq!(lift_factor(&Ty::List(Box::new(Ty::String))), 1);
        assert_eq!(lift_factor(&flags(3, 40)), 1);
        assert!(lift_factor(&flags(32, 1)) >= 8);
        let nested = Ty::Option(Box::new(Ty::Tuple(vec![Ty::U8, Ty::List(Box::new(flags(32, 1)))])));
        assert_eq!(lift_factor(&nested), lift_factor(&flags(32, 1)));
    }
}
