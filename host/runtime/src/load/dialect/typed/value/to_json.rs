//! Conversion of a component's values to JSON, in steps.

use std::iter::Zip;
use std::slice::Iter;

use fumehood_core::schema::typed::Ty;
use fumehood_core::schema::typed::schema::{INFINITY, MAX_SAFE_INTEGER, NEGATIVE_INFINITY, NOT_A_NUMBER};
use serde::Serialize;
use wasmtime::component::Val;

use super::{Shape, ValueError};

/// Number of bytes of a string that count as one step.
const BYTES_PER_STEP: usize = 32;

/// A writer of one value as JSON text. Its caller decides how many steps it makes at a time.
pub(crate) struct JsonWriter<'v> {
    text: Vec<u8>,
    /// Maximum size of the text, in bytes.
    max_bytes: usize,
    steps: usize,
    /// The parts that are not yet written, the next one last.
    pending: Vec<PendingPart<'v>>,
}

/// The values of a record beside the shapes of its fields.
type Fields<'v> = Zip<Iter<'v, (String, Val)>, Iter<'v, (String, Shape)>>;

/// A part of a value that is not yet written.
enum PendingPart<'v> {
    Value(&'v Val, &'v Shape),
    List(Iter<'v, Val>, &'v Shape),
    Tuple(Zip<Iter<'v, Val>, Iter<'v, Shape>>),
    Record(Fields<'v>),
    /// The end of an object with one member of a fixed name.
    End,
}

impl<'v> JsonWriter<'v> {
    /// Creates a writer of a value, whose text has at most `max_bytes` bytes.
    pub(crate) fn new(value: &'v Val, shape: &'v Shape, max_bytes: usize) -> Self {
        Self { text: Vec::new(), max_bytes, steps: 0, pending: vec![PendingPart::Value(value, shape)] }
    }

    /// Makes about `steps` steps, and returns how many it has made in all if there are more to make. A step writes one
    /// value, name or piece of a string.
    ///
    /// # Errors
    /// If the text becomes too large, or a value is not of its type.
    pub(crate) fn advance(&mut self, steps: usize) -> Result<Option<usize>, ValueError> {
        let until = self.steps.saturating_add(steps);
        while self.steps < until {
            let Some(next) = self.pending.pop() else { return Ok(None) };
            self.steps = self.steps.saturating_add(1);
            self.write(next)?;
            if self.text.len() > self.max_bytes {
                return Err(ValueError::TooLarge);
            }
        }
        Ok((!self.pending.is_empty()).then_some(self.steps))
    }

    /// Returns the number of steps that it has made.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the text that is written so far.
    pub(crate) fn into_text(self) -> String {
        // Only whole strings and ASCII are written.
        String::from_utf8(self.text).unwrap_or_default()
    }

    fn write(&mut self, next: PendingPart<'v>) -> Result<(), ValueError> {
        match next {
            PendingPart::Value(value, shape) => return self.value(value, shape),
            PendingPart::List(mut values, shape) => match values.next() {
                Some(value) => {
                    self.separate();
                    self.pending.push(PendingPart::List(values, shape));
                    return self.value(value, shape);
                }
                None => self.text.push(b']'),
            },
            PendingPart::Tuple(mut values) => match values.next() {
                Some((value, shape)) => {
                    self.separate();
                    self.pending.push(PendingPart::Tuple(values));
                    return self.value(value, shape);
                }
                None => self.text.push(b']'),
            },
            PendingPart::Record(mut fields) => match fields.next() {
                Some(((found, value), (name, shape))) => {
                    self.pending.push(PendingPart::Record(fields));
                    return self.field(found, value, name, shape);
                }
                None => self.text.push(b'}'),
            },
            PendingPart::End => self.text.push(b'}'),
        }
        Ok(())
    }

    fn value(&mut self, value: &'v Val, shape: &'v Shape) -> Result<(), ValueError> {
        match (shape, value) {
            (Shape::Scalar(ty), value) => return self.scalar(value, ty),
            (Shape::Enum(_), Val::Enum(name)) => return self.string(name),
            (Shape::Flags(_), Val::Flags(names)) => return self.flags(names),
            (Shape::List(item), Val::List(values)) => {
                self.text.push(b'[');
                self.pending.push(PendingPart::List(values.iter(), item));
            }
            (Shape::Tuple(items), Val::Tuple(values)) if items.len() == values.len() => {
                self.text.push(b'[');
                self.pending.push(PendingPart::Tuple(values.iter().zip(items)));
            }
            (Shape::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
                self.text.push(b'{');
                self.pending.push(PendingPart::Record(values.iter().zip(fields)));
            }
            (Shape::Variant(cases), Val::Variant(tag, payload)) => {
                self.text.extend_from_slice(br#"{"tag":"#);
                self.string(tag)?;
                match (cases.get(tag), payload) {
                    (Some(None), None) => self.text.push(b'}'),
                    (Some(Some(shape)), Some(value)) => self.member(br#","val":"#, value, shape),
                    _ => return Err(ValueError::Answer(format!("a variant has no such case `{tag}`"))),
                }
            }
            (Shape::Option(_), Val::Option(None)) => self.text.extend_from_slice(b"null"),
            (Shape::Option(inner), Val::Option(Some(value))) if inner.is_option() => {
                self.member(br#"{"some":"#, value, inner);
            }
            (Shape::Option(inner), Val::Option(Some(value))) => self.pending.push(PendingPart::Value(value, inner)),
            (Shape::Result { ok, .. }, Val::Result(Ok(value))) => return self.side("ok", ok.as_deref(), value),
            (Shape::Result { err, .. }, Val::Result(Err(value))) => return self.side("err", err.as_deref(), value),
            (shape, _) => return Err(no_such_value(&shape.kind())),
        }
        Ok(())
    }

    /// Writes a comma between two values of an array or object. The text before a first one ends with its bracket.
    fn separate(&mut self) {
        if !matches!(self.text.last(), Some(b'[' | b'{')) {
            self.text.push(b',');
        }
    }

    /// Writes the last member of an object.
    fn member(&mut self, begin: &[u8], value: &'v Val, shape: &'v Shape) {
        self.text.extend_from_slice(begin);
        self.pending.push(PendingPart::End);
        self.pending.push(PendingPart::Value(value, shape));
    }

    fn field(&mut self, found: &str, value: &'v Val, name: &str, shape: &'v Shape) -> Result<(), ValueError> {
        if name != found {
            return Err(ValueError::Answer(format!("a record has the field `{found}` in place of `{name}`")));
        }
        if matches!((shape, value), (Shape::Option(_), Val::Option(None))) {
            return Ok(());
        }
        self.separate();
        self.string(name)?;
        self.text.push(b':');
        self.value(value, shape)
    }

    fn side(&mut self, name: &str, shape: Option<&'v Shape>, value: &'v Option<Box<Val>>) -> Result<(), ValueError> {
        match (shape, value) {
            (Some(shape), Some(value)) => self.member(format!(r#"{{"{name}":"#).as_bytes(), value, shape),
            (None, None) => self.text.extend_from_slice(format!(r#"{{"{name}":null}}"#).as_bytes()),
            _ => return Err(ValueError::Answer(format!("the `{name}` of a result has the wrong type"))),
        }
        Ok(())
    }

    fn flags(&mut self, names: &[String]) -> Result<(), ValueError> {
        self.steps = self.steps.saturating_add(names.len());
        self.text.push(b'[');
        for name in names {
            self.separate();
            self.string(name)?;
        }
        self.text.push(b']');
        Ok(())
    }

    fn scalar(&mut self, value: &Val, ty: &Ty) -> Result<(), ValueError> {
        match (ty, value) {
            (Ty::Bool, Val::Bool(value)) => self.plain(value),
            (Ty::S8, Val::S8(value)) => self.plain(value),
            (Ty::U8, Val::U8(value)) => self.plain(value),
            (Ty::S16, Val::S16(value)) => self.plain(value),
            (Ty::U16, Val::U16(value)) => self.plain(value),
            (Ty::S32, Val::S32(value)) => self.plain(value),
            (Ty::U32, Val::U32(value)) => self.plain(value),
            (Ty::S64, Val::S64(value)) if value.unsigned_abs() <= MAX_SAFE_INTEGER => self.plain(value),
            (Ty::S64, Val::S64(value)) => self.plain(&value.to_string()),
            (Ty::U64, Val::U64(value)) if *value <= MAX_SAFE_INTEGER => self.plain(value),
            (Ty::U64, Val::U64(value)) => self.plain(&value.to_string()),
            (Ty::F32, Val::Float32(value)) => self.float(f64::from(*value)),
            (Ty::F64, Val::Float64(value)) => self.float(*value),
            (Ty::Char, Val::Char(value)) => self.plain(value),
            (Ty::String, Val::String(value)) => self.string(value),
            (ty, _) => Err(no_such_value(&ty.to_string())),
        }
    }

    fn float(&mut self, number: f64) -> Result<(), ValueError> {
        if number.is_nan() {
            self.plain(NOT_A_NUMBER)
        } else if number.is_infinite() {
            self.plain(if number > 0.0 { INFINITY } else { NEGATIVE_INFINITY })
        } else {
            self.plain(&number)
        }
    }

    /// Writes a string. One that makes the text too large is not escaped first.
    fn string(&mut self, text: &str) -> Result<(), ValueError> {
        if self.text.len().saturating_add(text.len()) > self.max_bytes {
            return Err(ValueError::TooLarge);
        }
        self.steps = self.steps.saturating_add(text.len() / BYTES_PER_STEP);
        self.plain(text)
    }

    fn plain(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), ValueError> {
        serde_json::to_writer(&mut self.text, value).map_err(|error| ValueError::Answer(error.to_string()))
    }
}

fn no_such_value(ty: &str) -> ValueError {
    ValueError::Answer(format!("a value is not a `{ty}`"))
}
