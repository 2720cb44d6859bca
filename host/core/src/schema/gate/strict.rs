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

/// A parsed document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) extent: Extent,
    /// True if the text is what [`to_compact_text`](crate::schema::json::to_compact_text) writes for the value.
    pub(super) is_compact: bool,
}

/// Maximum number of members that the outermost object gets room for in advance.
const MAX_EXPECTED_MEMBERS: usize = 64;

/// Parses a text. Returns `None` if it violates any rule.
pub(super) fn read(text: &str, caps: Caps) -> Option<Document> {
    if text.len() > caps.text {
        return None;
    }
    let tally = Tally::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // As many members as there are commas: arguments are an object of plain values, and growing its table takes longer.
    let members = memchr::memchr_iter(b',', text.as_bytes()).take(MAX_EXPECTED_MEMBERS).count() + 1;
    let value = StrictVisitor { caps, tally: &tally, depth: 0, members }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    // Integers are always exact; most documents have no other numbers and are not scanned a second time.
    if caps.exact && tally.floats.get() && !has_exact_numbers(text.as_bytes()) {
        return None;
    }
    let extent = Extent { values: tally.values.get(), depth: tally.deepest.get(), text: tally.text.get() };
    // Without escapes, white space and decimals there is one way to write a value.
    let bytes = tally.text.get() + tally.punctuation.get();
    let is_compact =
        !tally.floats.get() && bytes == text.len() as u64 && memchr::memchr(b'\\', text.as_bytes()).is_none();
    Some(Document { value, extent, is_compact })
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

/// The size of what was parsed so far.
#[derive(Debug, Default)]
struct Tally {
    values: Cell<u64>,
    /// True if a number was not a 64-bit integer, so that it may have been rounded.
    floats: Cell<bool>,
    deepest: Cell<usize>,
    /// Bytes of strings and names, unescaped.
    text: Cell<u64>,
    /// Bytes of everything else in compact text, apart from decimals.
    punctuation: Cell<u64>,
}

impl Tally {
    fn add_punctuation(&self, bytes: u64) {
        self.punctuation.set(self.punctuation.get() + bytes);
    }
}

/// Returns the length of an integer as text, in bytes.
fn digits(integer: u64) -> u64 {
    integer.checked_ilog10().map_or(1, |log| u64::from(log) + 1)
}

#[derive(Clone, Copy)]
struct StrictVisitor<'c> {
    caps: Caps,
    tally: &'c Tally,
    depth: usize,
    /// Initial capacity of the next object, in members.
    members: usize,
}

impl StrictVisitor<'_> {
    fn descend<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > self.caps.depth {
            return Err(E::custom("too deep"));
        }
        self.tally.deepest.set(self.tally.deepest.get().max(depth));
        // Only the outermost object gets capacity in advance: a document of many small objects would take several times
        // its size in memory.
        Ok(Self { depth, members: 0, ..self })
    }

    fn check_string<E: Error>(self, text: String) -> Result<String, E> {
        self.tally.text.set(self.tally.text.get() + text.len() as u64);
        self.tally.add_punctuation(2);
        if text.len() > self.caps.string { Err(E::custom("string too long")) } else { Ok(text) }
    }
}

impl<'de> DeserializeSeed<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.tally.values.set(self.tally.values.get() + 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.tally.add_punctuation(4);
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.tally.add_punctuation(if value { 4 } else { 5 });
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.tally.add_punctuation(digits(value.unsigned_abs()) + u64::from(value < 0));
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.tally.add_punctuation(digits(value));
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.tally.floats.set(true);
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
        // Two brackets, and a comma before each item but the first.
        self.tally.add_punctuation(2 + (items.len() as u64).saturating_sub(1));
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inside = self.descend()?;
        let mut members = Map::with_capacity(self.members);
        while let Some(name) = access.next_key::<String>()? {
            let name = self.check_string(name)?;
            let value = access.next_value_seed(inside)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("the same name twice"));
            }
        }
        // Two braces, a colon in each member, and a comma before each but the first.
        let count = members.len() as u64;
        self.tally.add_punctuation(2 + count + count.saturating_sub(1));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::json::to_compact_text;

    const CAPS: Caps = Caps { text: 1 << 16, string: 1 << 12, depth: 32, exact: true };

    fn is_compact(text: &str) -> bool {
        read(text, CAPS).unwrap().is_compact
    }

    #[test]
    fn recognizes_compact_text() {
        for text in ["{}", "[]", r#"{"a":[1,-20,true,false,null,"é"],"b":{"":0}}"#, "18446744073709551615", r#""""#] {
            assert!(is_compact(text), "{text}");
        }
        for text in [" {}", "[ ]", r#"{"a": 1}"#, r#"["\/"]"#, r#""\u0041""#, "1.5", "1e2", "-0", "[1,2]\n"] {
            assert!(!is_compact(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn compact_text_is_what_the_host_would_write(
            text in r#"[\[{]?("[a\\\\/n]{0,3}"|-?[0-9]{1,3}|true|null|[ ,:]|\[\]|\{"a": ?1\}){0,6}[\]}]?"#
        ) {
            if let Some(document) = read(&text, CAPS) && document.is_compact {
                prop_assert_eq!(to_compact_text(&document.value), text);
            }
        }
    }
}
