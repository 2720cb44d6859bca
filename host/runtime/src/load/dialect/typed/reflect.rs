//! Conversion of the engine's component types to ours.

use fumehood_core::schema::typed::{Budget, Ty, TypeComplexityError, TypedFunction};
use wasmtime::component::types::{ComponentFunc, Type};

/// Errors of a function that cannot be a tool. The message follows the name of the export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignatureError {
    /// Several results, which only early versions of the component model allowed.
    #[error("it returns {0} results; expected one, for example a tuple")]
    Results(usize),
    /// A type that has no JSON form.
    #[error("{place} holds {what}; {instead}")]
    Type {
        /// The part of the signature.
        place: String,
        /// The type.
        what: &'static str,
        /// The reason, or a replacement.
        instead: &'static str,
    },
    /// Types that are too large or too deep.
    #[error(transparent)]
    TooComplex(#[from] TypeComplexityError),
}

/// A stream or future in the place of a result, or of the `ok` of one. It arrives after the function has returned.
///
/// The engine reads only items of types that are known when this host is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeferredResult {
    /// A `stream<u8>`, which is a text.
    Bytes,
    /// A `stream<string>`, which is a list of texts.
    Texts,
    /// A `future<string>`, which is a text.
    Text,
}

impl DeferredResult {
    /// Returns the form in which a stream or future is a result; `None` for other types.
    fn find(found: &Type) -> Option<(Self, Ty)> {
        match found {
            Type::Stream(stream) => match stream.ty()? {
                Type::U8 => Some((Self::Bytes, Ty::String)),
                Type::String => Some((Self::Texts, Ty::List(Box::new(Ty::String)))),
                _ => None,
            },
            Type::Future(future) => matches!(future.ty()?, Type::String).then_some((Self::Text, Ty::String)),
            _ => None,
        }
    }
}

/// Converts a signature.
///
/// # Errors
/// If the function cannot be a tool.
pub(super) fn convert_function(
    found: &ComponentFunc,
) -> Result<(TypedFunction, Option<DeferredResult>), SignatureError> {
    let mut budget = Budget::default();
    let mut params = Vec::new();
    for (name, ty) in found.params() {
        let ty = convert(&ty, 0, &mut budget, &|| format!("its parameter `{name}`"))?;
        params.push((budget.charge_name(name)?, ty));
    }
    let mut results = found.results();
    let (result, deferred) = match (results.next(), results.len()) {
        (None, _) => (None, None),
        (Some(ty), 0) => {
            let (ty, deferred) = convert_result(&ty, &mut budget)?;
            (Some(ty), deferred)
        }
        (Some(_), more) => return Err(SignatureError::Results(more + 1)),
    };
    Ok((TypedFunction { params, result }, deferred))
}

/// Converts the type of a result, which may be a stream or a future.
fn convert_result(found: &Type, budget: &mut Budget) -> Result<(Ty, Option<DeferredResult>), SignatureError> {
    let place = || "its result".to_owned();
    if let Some((deferred, ty)) = DeferredResult::find(found) {
        return Ok((ty, Some(deferred)));
    }
    if let Type::Result(result) = found
        && let Some((deferred, ok)) = result.ok().as_ref().and_then(DeferredResult::find)
    {
        let err = result.err().map(|err| convert(&err, 1, budget, &place)).transpose()?;
        return Ok((Ty::Result { ok: Some(Box::new(ok)), err: err.map(Box::new) }, Some(deferred)));
    }
    Ok((convert(found, 0, budget, &place)?, None))
}

/// Converts a type on its own; `None` if it is not supported.
pub(super) fn convert_named_type(found: &Type) -> Option<Ty> {
    convert(found, 0, &mut Budget::default(), &String::new).ok()
}

/// Converts a type. Recurses no deeper than the budget allows, which is checked first.
fn convert(found: &Type, depth: usize, budget: &mut Budget, place: &dyn Fn() -> String) -> Result<Ty, SignatureError> {
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
        _ => return convert_compound(found, depth + 1, budget, place),
    })
}

fn convert_compound(
    found: &Type,
    depth: usize,
    budget: &mut Budget,
    place: &dyn Fn() -> String,
) -> Result<Ty, SignatureError> {
    let part = |ty: &Type, budget: &mut Budget| convert(ty, depth, budget, place);
    Ok(match found {
        Type::List(list) => Ty::List(Box::new(part(&list.ty(), budget)?)),
        Type::Option(option) => Ty::Option(Box::new(part(&option.ty(), budget)?)),
        Type::Tuple(tuple) => Ty::Tuple(tuple.types().map(|ty| part(&ty, budget)).collect::<Result<_, _>>()?),
        Type::Record(record) => {
            let mut fields = Vec::new();
            for field in record.fields() {
                fields.push((budget.charge_name(field.name)?, part(&field.ty, budget)?));
            }
            Ty::Record(fields)
        }
        Type::Variant(variant) => {
            let mut cases = Vec::new();
            for case in variant.cases() {
                cases.push((budget.charge_name(case.name)?, case.ty.map(|ty| part(&ty, budget)).transpose()?));
            }
            Ty::Variant(cases)
        }
        Type::Result(result) => {
            let mut side = |ty: Option<Type>| ty.map(|ty| part(&ty, budget).map(Box::new)).transpose();
            Ty::Result { ok: side(result.ok())?, err: side(result.err())? }
        }
        _ => return Err(unsupported_type(found, place())),
    })
}

fn unsupported_type(found: &Type, place: String) -> SignatureError {
    const PLAIN: &str = "use a `list` instead";
    const READABLE: &str = "this host reads only a `stream<u8>`, `stream<string>` or `future<string>` that is a whole result or its \
                            `ok`; use a `list` or a `string`";
    let (what, instead) = match found {
        Type::Own(_) | Type::Borrow(_) => {
            ("a resource", "a resource exists only during one call; pass an identifier instead")
        }
        Type::Stream(_) => ("a stream", READABLE),
        Type::Future(_) => ("a future", READABLE),
        Type::ErrorContext => ("an error-context", "return a `result` whose error is a `string`"),
        Type::Map(_) => ("a map", "use a `list` of tuples instead"),
        Type::FixedLengthList(_) => ("a fixed-length list", PLAIN),
        _ => ("an unknown type", PLAIN),
    };
    SignatureError::Type { place, what, instead }
}
