//! The strict JSON parser. This is the fast path; [`super::trace`] explains what it rejects.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::number;

/// Limits of any document, independent of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// Maximum size of the whole text, in bytes.
    pub(super) text: usize,
    /// Maximum size of a single string or name, in bytes.
    pub(super) string: usize,
    /// Maximum levels of arrays and objects.
    pub(super) depth: usize,
    /// True if numbers must be represented exactly.
    pub(super) exact: bool,
}

/// The size of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Number of values, containers included.
    pub(super) values: u64,
    /// Levels of arrays and objects.
    pub(super) depth: usize,
    /// Bytes of strings and names.
    pub(super) text: u64,
}

/// Initial capacity of the outermost object, in members.
const DEFAULT_MEMBERS: usize = 7;

/// Parses a text. Returns `None` if it violates any rule.
pub(super) fn read(text: &str, caps: Caps) -> Option<(Value, Extent)> {
    if text.len() > caps.text {
        return None;
    }
    let values = Cell::new(0);
    let floats = Cell::new(false);
    let deepest = Cell::new(0);
    let bytes = Cell::new(0);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = StrictVisitor { caps, values: &values, floats: &floats, deepest: &deepest, text: &bytes, depth: 0 };
    let value = seed.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    // Integers are always exact; most documents have no other numbers and are not scanned a second time.
    if caps.exact && floats.get() && !has_exact_numbers(text.as_bytes()) {
        return None;
    }
    Some((value, Extent { values: values.get(), depth: deepest.get(), text: bytes.get() }))
}

/// Returns whether all number tokens of a text are exact. The parser rejects malformed numbers.
fn has_exact_numbers(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = match first {
            b'"' => skip_string(tail),
            b'-' | b'0'..=b'9' => {
                let end = rest.iter().position(|byte| !is_number_byte(*byte)).unwrap_or(rest.len());
                let (token, tail) = rest.split_at(end);
                if number::can_be_inexact(token) {
                    let literal = std::str::from_utf8(token).unwrap_or_default();
                    if number::check_exact(literal).is_err() {
                        return false;
                    }
                }
                tail
            }
            _ => tail,
        };
    }
    true
}

/// Returns whether the byte can be part of a number.
pub(super) fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Returns the text after the string whose opening quote was just read.
fn skip_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    loop {
        let Some(stop) = memchr::memchr2(b'"', b'\\', rest) else {
            return &[];
        };
        let (at, skip) = (rest.get(stop), if rest.get(stop) == Some(&b'\\') { 2 } else { 1 });
        let quote = at == Some(&b'"');
        rest = rest.get(stop + skip..).unwrap_or_default();
        if quote {
            return rest;
        }
    }
}

#[derive(Clone, Copy)]
struct StrictVisitor<'c> {
    caps: Caps,
    values: &'c Cell<u64>,
    /// True if a number was not a 64-bit integer, so that it may have been rounded.
    floats: &'c Cell<bool>,
    deepest: &'c Cell<usize>,
    text: &'c Cell<u64>,
    depth: usize,
}

impl StrictVisitor<'_> {
    fn descend<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > self.caps.depth {
            return Err(E::custom("too deep"));
        }
        self.deepest.set(self.deepest.get().max(depth));
        Ok(Self { depth, ..self })
    }

    fn check_string<E: Error>(self, text: String) -> Result<String, E> {
        self.text.set(self.text.get() + text.len() as u64);
        if text.len() > self.caps.string { Err(E::custom("string too long")) } else { Ok(text) }
    }
}

impl<'de> DeserializeSeed<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.values.set(self.values.get() + 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.floats.set(true);
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.check_string(text.to_owned()).map(Value::String)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.check_string(text).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inside = self.descend()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inside = self.descend()?;
        // Arguments are an object with a few members. Only the outermost object gets capacity in advance: a document of
        // many small objects would take several times its size in memory.
        let mut members = if self.depth == 0 { Map::with_capacity(DEFAULT_MEMBERS) } else { Map::new() };
        while let Some(name) = access.next_key::<String>()? {
            let name = self.check_string(name)?;
            let value = access.next_value_seed(inside)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("the same name twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// Measures a value in memory. Returns `None` if it exceeds a cap. Does not descend below the maximum depth.
pub(super) fn measure(value: &Value, caps: Caps) -> Option<Extent> {
    let mut extent = Extent::default();
    measure_into(value, caps, 0, &mut extent).then_some(extent)
}

fn measure_into(value: &Value, caps: Caps, depth: usize, extent: &mut Extent) -> bool {
    extent.values += 1;
    let text = |text: &str, extent: &mut Extent| {
        extent.text += text.len() as u64;
        text.len() <= caps.string
    };
    let fits = match value {
        Value::String(string) => text(string, extent),
        Value::Array(items) => {
            extent.depth = extent.depth.max(depth + 1);
            depth < caps.depth && items.iter().all(|item| measure_into(item, caps, depth + 1, extent))
        }
        Value::Object(members) => {
            extent.depth = extent.depth.max(depth + 1);
            let inside =
                |(name, member): (&String, &Value)| text(name, extent) && measure_into(member, caps, depth + 1, extent);
            depth < caps.depth && members.iter().all(inside)
        }
        _ => true,
    };
    // Each value takes at least a byte and each string its own size: a lower bound of the document as text.
    fits && extent.text.saturating_add(extent.values) <= caps.text as u64
}
