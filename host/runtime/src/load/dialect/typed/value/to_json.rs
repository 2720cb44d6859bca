//! Conversion of a component's values to JSON.

use fumehood_core::schema::typed::Ty;
use fumehood_core::schema::typed::schema::{INFINITY, MAX_SAFE_INTEGER, NEGATIVE_INFINITY, NOT_A_NUMBER};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use wasmtime::component::Val;

use super::ValueError;

/// Writes a value of type `ty` as JSON text.
pub(in crate::load::dialect::typed) fn to_json(val: &Val, ty: &Ty) -> Result<String, ValueError> {
    serde_json::to_string(&Typed(val, ty)).map_err(|error| ValueError::Answer(error.to_string()))
}

/// A value and its type, serialized without a JSON tree in between.
struct Typed<'a>(&'a Val, &'a Ty);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self.1, self.0) {
            (Ty::Bool, Val::Bool(value)) => to.serialize_bool(*value),
            (Ty::S8, Val::S8(value)) => to.serialize_i8(*value),
            (Ty::U8, Val::U8(value)) => to.serialize_u8(*value),
            (Ty::S16, Val::S16(value)) => to.serialize_i16(*value),
            (Ty::U16, Val::U16(value)) => to.serialize_u16(*value),
            (Ty::S32, Val::S32(value)) => to.serialize_i32(*value),
            (Ty::U32, Val::U32(value)) => to.serialize_u32(*value),
            (Ty::S64, Val::S64(value)) if value.unsigned_abs() <= MAX_SAFE_INTEGER => to.serialize_i64(*value),
            (Ty::S64, Val::S64(value)) => to.collect_str(value),
            (Ty::U64, Val::U64(value)) if *value <= MAX_SAFE_INTEGER => to.serialize_u64(*value),
            (Ty::U64, Val::U64(value)) => to.collect_str(value),
            (Ty::F32, Val::Float32(value)) => write_float(f64::from(*value), to),
            (Ty::F64, Val::Float64(value)) => write_float(*value, to),
            (Ty::Char, Val::Char(value)) => to.serialize_char(*value),
            (Ty::String, Val::String(value)) => to.serialize_str(value),
            (Ty::Enum(_), Val::Enum(name)) => to.serialize_str(name),
            (Ty::Flags(_), Val::Flags(names)) => to.collect_seq(names),
            (Ty::List(item), Val::List(values)) => to.collect_seq(values.iter().map(|value| Typed(value, item))),
            (Ty::Tuple(items), Val::Tuple(values)) if items.len() == values.len() => {
                to.collect_seq(values.iter().zip(items).map(|(value, item)| Typed(value, item)))
            }
            (Ty::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
                write_record(fields, values, to)
            }
            (Ty::Variant(cases), Val::Variant(tag, payload)) => write_variant(cases, tag, payload.as_deref(), to),
            (Ty::Option(_), Val::Option(None)) => to.serialize_none(),
            (Ty::Option(inner), Val::Option(Some(value))) if inner.is_option() => {
                to.collect_map([("some", Typed(value, inner))])
            }
            (Ty::Option(inner), Val::Option(Some(value))) => Typed(value, inner).serialize(to),
            (Ty::Result { ok, .. }, Val::Result(Ok(value))) => write_side("ok", ok.as_deref(), value.as_deref(), to),
            (Ty::Result { err, .. }, Val::Result(Err(value))) => {
                write_side("err", err.as_deref(), value.as_deref(), to)
            }
            (ty, _) => Err(S::Error::custom(format_args!("a value is no `{ty}`"))),
        }
    }
}

fn write_float<S: Serializer>(number: f64, to: S) -> Result<S::Ok, S::Error> {
    if number.is_nan() {
        to.serialize_str(NOT_A_NUMBER)
    } else if number.is_infinite() {
        to.serialize_str(if number > 0.0 { INFINITY } else { NEGATIVE_INFINITY })
    } else {
        to.serialize_f64(number)
    }
}

fn write_record<S: Serializer>(fields: &[(String, Ty)], values: &[(String, Val)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for ((name, ty), (found, value)) in fields.iter().zip(values) {
        if name != found {
            return Err(S::Error::custom(format_args!("a record has the field `{found}` in place of `{name}`")));
        }
        if !matches!((ty, value), (Ty::Option(_), Val::Option(None))) {
            map.serialize_entry(name, &Typed(value, ty))?;
        }
    }
    map.end()
}

fn write_variant<S: Serializer>(
    cases: &[(String, Option<Ty>)],
    tag: &str,
    payload: Option<&Val>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let case = cases.iter().find(|(name, _)| name == tag).map(|(_, ty)| ty.as_ref());
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("tag", tag)?;
    match (case, payload) {
        (Some(None), None) => {}
        (Some(Some(ty)), Some(value)) => map.serialize_entry("val", &Typed(value, ty))?,
        _ => {
            return Err(S::Error::custom(format_args!("a variant has no case `{tag}` of that form")));
        }
    }
    map.end()
}

fn write_side<S: Serializer>(name: &str, ty: Option<&Ty>, value: Option<&Val>, to: S) -> Result<S::Ok, S::Error> {
    match (ty, value) {
        (Some(ty), Some(value)) => to.collect_map([(name, Typed(value, ty))]),
        (None, None) => to.collect_map([(name, ())]),
        _ => Err(S::Error::custom(format_args!("the `{name}` of a result has the wrong form"))),
    }
}
