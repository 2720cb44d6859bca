//! From the types that the engine found in a component to ours.

use fumehood_core::typed::{Budget, Ty, TypeComplexityError, TypedFunction};
use wasmtime::component::types::{ComponentFunc, Type};

/// Why a function cannot be a tool. The message follows the name of the export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsupported {
    /// It may give way to other calls while it runs.
    #[error("it is async; export a synchronous function")]
    Async,
    /// Several results, which only components of long ago had.
    #[error("it returns {0} results; return one, for example a tuple")]
    Results(usize),
    /// A type that has no JSON form.
    #[error("{place} holds {what}; {instead}")]
    Type {
        /// Which part of the signature.
        place: String,
        /// The type.
        what: &'static str,
        /// Why it is not accepted, or what to use.
        instead: &'static str,
    },
    /// Too much of everything.
    #[error(transparent)]
    TooComplex(#[from] TypeComplexityError),
}

/// Reads a signature.
pub(super) fn function(found: &ComponentFunc) -> Result<TypedFunction, Unsupported> {
    if found.async_() {
        return Err(Unsupported::Async);
    }
    let mut budget = Budget::default();
    let mut params = Vec::new();
    for (name, ty) in found.params() {
        let place = || format!("its parameter `{name}`");
        params.push((budget.charge_name(name)?, convert(&ty, 0, &mut budget, &place)?));
    }
    let mut results = found.results();
    let result = match (results.next(), results.len()) {
        (None, _) => None,
        (Some(ty), 0) => Some(convert(&ty, 0, &mut budget, &|| "its result".to_owned())?),
        (Some(_), more) => return Err(Unsupported::Results(more + 1)),
    };
    Ok(TypedFunction { params, result })
}

/// Reads a type on its own; `None` if it is none of ours.
pub(super) fn named(found: &Type) -> Option<Ty> {
    convert(found, 0, &mut Budget::default(), &String::new).ok()
}

/// No deeper than the budget allows, which is asked before anything else.
fn convert(found: &Type, depth: usize, budget: &mut Budget, place: &dyn Fn() -> String) -> Result<Ty, Unsupported> {
    budget.charge_node(depth)?;
    Ok(match found {
        Type::Bool => Ty::Bool,
        Type::S8 => Ty::S8,
        Type::U8 => Ty::U8,
        Type::S16 => Ty::S16,
        Type::U16 => Ty::U16,
        Type::S32 => Ty::S32,
        Type::U32 => Ty::U32,
        Type::S64 => Ty::S64,
        Type::U64 => Ty::U64,
        Type::Float32 => Ty::F32,
        Type::Float64 => Ty::F64,
        Type::Char => Ty::Char,
        Type::String => Ty::String,
        Type::Enum(names) => Ty::Enum(names.names().map(|name| budget.charge_name(name)).collect::<Result<_, _>>()?),
        Type::Flags(names) => Ty::Flags(names.names().map(|name| budget.charge_name(name)).collect::<Result<_, _>>()?),
        _ => return compound(found, depth + 1, budget, place),
    })
}

fn compound(found: &Type, depth: usize, budget: &mut Budget, place: &dyn Fn() -> String) -> Result<Ty, Unsupported> {
    let part = |ty: &Type, budget: &mut Budget| convert(ty, depth, budget, place);
    Ok(match found {
        Type::List(list) => Ty::List(Box::new(part(&list.ty(), budget)?)),
        Type::Option(option) => Ty::Option(Box::new(part(&option.ty(), budget)?)),
        Type::Tuple(tuple) => Ty::Tuple(tuple.types().map(|ty| part(&ty, budget)).collect::<Result<_, _>>()?),
        Type::Record(record) => {
            let field = |(name, ty): (&str, Type)| Ok((budget.charge_name(name)?, part(&ty, budget)?));
            Ty::Record(
                record.fields().map(|field| (field.name, field.ty)).map(field).collect::<Result<_, Unsupported>>()?,
            )
        }
        Type::Variant(variant) => {
            let case = |(name, ty): (&str, Option<Type>)| {
                Ok((budget.charge_name(name)?, ty.map(|ty| part(&ty, budget)).transpose()?))
            };
            Ty::Variant(variant.cases().map(|case| (case.name, case.ty)).map(case).collect::<Result<_, Unsupported>>()?)
        }
        Type::Result(result) => {
            let mut side = |ty: Option<Type>| ty.map(|ty| part(&ty, budget).map(Box::new)).transpose();
            Ty::Result { ok: side(result.ok())?, err: side(result.err())? }
        }
        _ => return Err(refuse(found, place())),
    })
}

fn refuse(found: &Type, place: String) -> Unsupported {
    const PLAIN: &str = "use a `list` instead";
    const WHOLE: &str = "a tool takes and returns whole values, so use a `list` or a `string`";
    let (what, instead) = match found {
        Type::Own(_) | Type::Borrow(_) => {
            ("a resource", "a resource lives no longer than one call, so pass what identifies it")
        }
        Type::Stream(_) => ("a stream", WHOLE),
        Type::Future(_) => ("a future", WHOLE),
        Type::ErrorContext => ("an error-context", "return a `result` whose error is a `string`"),
        Type::Map(_) => ("a map", "use a `list` of tuples instead"),
        Type::FixedLengthList(_) => ("a list of fixed length", PLAIN),
        _ => ("a type that this host does not know", PLAIN),
    };
    Unsupported::Type { place, what, instead }
}
