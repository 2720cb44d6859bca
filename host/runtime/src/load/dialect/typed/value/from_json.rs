//! Conversion of JSON to a component's values.

use std::collections::HashMap;
use std::str::FromStr;

use fumehood_core::schema::json;
use fumehood_core::schema::typed::Ty;
use fumehood_core::schema::typed::schema::{INFINITY, NEGATIVE_INFINITY, NOT_A_NUMBER};
use serde_json::Value;
use wasmtime::component::Val;

use super::{Shape, ValueError};
use crate::engine::deadline::Deadline;

/// Number of steps between two looks at the clock.
const STEPS_PER_LOOK: usize = 1024;

/// A reader of JSON values, which counts its steps and ends at a deadline.
pub(crate) struct JsonReader {
    deadline: Option<Deadline>,
    steps: usize,
}

impl JsonReader {
    /// Creates a reader that ends at `deadline`, if there is one.
    pub(crate) fn new(deadline: Option<Deadline>) -> Self {
        Self { deadline, steps: 0 }
    }

    /// Returns the number of values that it has read.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// Converts a JSON value to the type of `shape`. Recurses only as deep as the type does.
    pub(super) fn read(&mut self, value: &Value, shape: &Shape) -> Result<Val, ValueError> {
        self.steps = self.steps.saturating_add(1);
        if self.steps.is_multiple_of(STEPS_PER_LOOK) && self.deadline.is_some_and(|deadline| deadline.passed()) {
            return Err(ValueError::Deadline);
        }
        match shape {
            Shape::List(item) => read_array(value)?
                .enumerate()
                .map(|(at, value)| self.item(at, value, item))
                .collect::<Result<_, _>>()
                .map(Val::List),
            Shape::Tuple(items) => self.tuple(value, items),
            Shape::Record(fields) => self.record(value, fields).map(Val::Record),
            Shape::Variant(cases) => self.variant(value, cases),
            Shape::Flags(names) => read_flags(value, names),
            Shape::Enum(names) => value
                .as_str()
                .filter(|name| names.contains(*name))
                .map(|name| Val::Enum(name.to_owned()))
                .ok_or_else(|| ValueError::expected("one of the enum's names")),
            Shape::Option(inner) => self.option(value, inner),
            Shape::Result { ok, err } => self.result(value, ok.as_deref(), err.as_deref()),
            Shape::Scalar(ty) => read_scalar(value, ty).ok_or_else(|| ValueError::expected(expected_form(ty))),
        }
    }

    /// Converts an object to the fields of a record. Fields of an option type may be absent.
    pub(in crate::load::dialect::typed) fn record(
        &mut self,
        value: &Value,
        fields: &[(String, Shape)],
    ) -> Result<Vec<(String, Val)>, ValueError> {
        let object = value.as_object().ok_or_else(|| ValueError::expected("an object"))?;
        let mut found = 0;
        let mut read = Vec::with_capacity(fields.len());
        for (name, shape) in fields {
            let value = match object.get(name) {
                Some(value) => {
                    found += 1;
                    self.read(value, shape).map_err(|error| error.within(name))?
                }
                None if shape.is_option() => Val::Option(None),
                None => return Err(ValueError::expected(format!("an object with `{name}`"))),
            };
            read.push((name.clone(), value));
        }
        if found < object.len() {
            return Err(ValueError::expected("an object without unknown fields"));
        }
        Ok(read)
    }

    fn item(&mut self, at: usize, value: &Value, shape: &Shape) -> Result<Val, ValueError> {
        self.read(value, shape).map_err(|error| error.within(at))
    }

    fn tuple(&mut self, value: &Value, items: &[Shape]) -> Result<Val, ValueError> {
        let values = read_array(value)?;
        if values.len() != items.len() {
            return Err(ValueError::expected(format!("an array of {} values", items.len())));
        }
        let each = values.zip(items).enumerate().map(|(at, (value, shape))| self.item(at, value, shape));
        each.collect::<Result<_, _>>().map(Val::Tuple)
    }

    fn variant(&mut self, value: &Value, cases: &HashMap<String, Option<Shape>>) -> Result<Val, ValueError> {
        let object = value.as_object().ok_or_else(variant_error)?;
        let tag = object.get("tag").and_then(Value::as_str).ok_or_else(variant_error)?;
        let shape = cases.get(tag).ok_or_else(variant_error)?;
        let payload = match (shape, object.get("val"), object.len()) {
            (None, None, 1) => None,
            (Some(shape), Some(value), 2) => {
                Some(Box::new(self.read(value, shape).map_err(|error| error.within("val"))?))
            }
            _ => return Err(variant_error()),
        };
        Ok(Val::Variant(tag.to_owned(), payload))
    }

    fn option(&mut self, value: &Value, inner: &Shape) -> Result<Val, ValueError> {
        if value.is_null() {
            return Ok(Val::Option(None));
        }
        let some = if inner.is_option() {
            self.read(only_field(value, "some")?, inner).map_err(|error| error.within("some"))?
        } else {
            self.read(value, inner)?
        };
        Ok(Val::Option(Some(Box::new(some))))
    }

    fn result(&mut self, value: &Value, ok: Option<&Shape>, err: Option<&Shape>) -> Result<Val, ValueError> {
        let is_ok = value.as_object().is_some_and(|object| object.contains_key("ok"));
        Ok(Val::Result(if is_ok { Ok(self.side(value, "ok", ok)?) } else { Err(self.side(value, "err", err)?) }))
    }

    fn side(&mut self, value: &Value, name: &str, shape: Option<&Shape>) -> Result<Option<Box<Val>>, ValueError> {
        let value = only_field(value, name)?;
        match shape {
            Some(shape) => self.read(value, shape).map(|value| Some(Box::new(value))),
            None if value.is_null() => Ok(None),
            None => Err(ValueError::expected("null")),
        }
        .map_err(|error| error.within(name))
    }
}

fn read_array(value: &Value) -> Result<std::slice::Iter<'_, Value>, ValueError> {
    value.as_array().map(|items| items.iter()).ok_or_else(|| ValueError::expected("an array"))
}

fn read_flags(value: &Value, names: &[String]) -> Result<Val, ValueError> {
    let given = read_array(value).map_err(|_| flags_error())?;
    if given.len() > names.len() {
        return Err(flags_error());
    }
    // In the order of their declaration, independent of the order in the array.
    let set: Vec<_> = names.iter().filter(|name| given.clone().any(|value| value == name.as_str())).cloned().collect();
    if set.len() == given.len() { Ok(Val::Flags(set)) } else { Err(flags_error()) }
}

fn variant_error() -> ValueError {
    ValueError::expected("an object with one of the variant's cases as `tag`, and its value as `val`")
}

fn flags_error() -> ValueError {
    ValueError::expected("an array of the flags' names, each at most once")
}

/// Returns the value of the object's only field, which must have this name.
fn only_field<'a>(value: &'a Value, name: &str) -> Result<&'a Value, ValueError> {
    let object = value.as_object().filter(|object| object.len() == 1);
    object
        .and_then(|object| object.get(name))
        .ok_or_else(|| ValueError::expected(format!("an object with `{name}` and nothing else")))
}

fn read_scalar(value: &Value, ty: &Ty) -> Option<Val> {
    match ty {
        Ty::Bool => value.as_bool().map(Val::Bool),
        Ty::S8 => read_integer(value).map(Val::S8),
        Ty::U8 => read_integer(value).map(Val::U8),
        Ty::S16 => read_integer(value).map(Val::S16),
        Ty::U16 => read_integer(value).map(Val::U16),
        Ty::S32 => read_integer(value).map(Val::S32),
        Ty::U32 => read_integer(value).map(Val::U32),
        Ty::S64 => read_wide_integer(value).map(Val::S64),
        Ty::U64 => read_wide_integer(value).map(Val::U64),
        Ty::F32 => read_single(value).map(Val::Float32),
        Ty::F64 => read_float(value, f64::MAX).map(Val::Float64),
        Ty::Char => value.as_str().and_then(only_char).map(Val::Char),
        Ty::String => value.as_str().map(|text| Val::String(text.to_owned())),
        _ => None,
    }
}

/// Converts a number without a fractional part, in any spelling.
fn read_integer<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    T::try_from(json::to_integer(value.as_number()?)?).ok()
}

/// Like [`read_integer`], but also accepts a string with the number in its canonical decimal spelling.
fn read_wide_integer<T: TryFrom<i128> + FromStr + ToString>(value: &Value) -> Option<T> {
    match value {
        Value::String(text) => text.parse().ok().filter(|number: &T| number.to_string() == *text),
        _ => read_integer(value),
    }
}

fn read_float(value: &Value, max: f64) -> Option<f64> {
    match value {
        Value::String(text) => match text.as_str() {
            NOT_A_NUMBER => Some(f64::NAN),
            INFINITY => Some(f64::INFINITY),
            NEGATIVE_INFINITY => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => value.as_number().and_then(json::to_float).filter(|number| number.abs() <= max),
    }
}

fn read_single(value: &Value) -> Option<f32> {
    // The bound is checked first, so that rounding never gives an infinite number.
    let wide = read_float(value, f32::MAX.into())?;
    let narrow = wide as f32;
    let is_plain = value.as_number().is_some_and(|number| !number.as_str().contains(['.', 'e', 'E']));
    (!is_plain || f64::from(narrow) == wide).then_some(narrow)
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn expected_form(ty: &Ty) -> String {
    let text = match ty {
        Ty::Bool => "true or false",
        Ty::S64 | Ty::U64 => return format!("a whole number that fits `{ty}`, or the same in decimal as a string"),
        Ty::F32 | Ty::F64 => {
            return format!(
                "a number that fits `{ty}`, for an integer with all of its digits, or \"NaN\", \"Infinity\", \"-Infinity\""
            );
        }
        Ty::Char => "a string of one character",
        Ty::String => "a string",
        _ => return format!("a whole number that fits `{ty}`"),
    };
    text.to_owned()
}
