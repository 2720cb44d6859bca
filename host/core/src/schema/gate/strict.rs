//! The strict JSON parser. This is the fast path; [`super::trace`] explains what it rejects.

use serde_json::{Map, Number, Value};

use super::number;
use crate::schema::json_reader::{Cursor, is_reserved_name};

/// Limits of any document, independent of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// Maximum size of the whole text, in bytes.
    pub(super) text: usize,
    /// Maximum size of a single string or name, in bytes.
    pub(super) string: usize,
    /// Maximum levels of arrays and objects.
    pub(super) depth: usize,
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
    /// Evaluations of a subschema that take as long as exact arithmetic with all long numbers.
    pub(super) arithmetic: u64,
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
    // As many members as there are commas: arguments are an object of plain values, and growing its table takes longer.
    let members = memchr::memchr_iter(b',', text.as_bytes()).take(MAX_EXPECTED_MEMBERS).count() + 1;
    let mut reader = Reader { cursor: Cursor::new(text), caps, extent: Extent::default(), members };
    let value = reader.value(0)?;
    reader.cursor.end()?;
    Some(Document { value, extent: reader.extent, is_compact: reader.cursor.is_compact() })
}

/// A recursive-descent parser. Every method returns `None` where a rule is violated.
struct Reader<'t> {
    cursor: Cursor<'t>,
    caps: Caps,
    extent: Extent,
    /// Initial capacity of the next object, in members.
    members: usize,
}

impl Reader<'_> {
    /// Reads a value that is inside `depth` arrays and objects.
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.extent.values += 1;
        match self.cursor.peek()? {
            b'"' => self.string().map(Value::String),
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b't' => self.cursor.literal("true").map(|()| Value::Bool(true)),
            b'f' => self.cursor.literal("false").map(|()| Value::Bool(false)),
            b'n' => self.cursor.literal("null").map(|()| Value::Null),
            _ => self.number().map(Value::Number),
        }
    }

    fn string(&mut self) -> Option<String> {
        let text = self.cursor.string()?;
        self.extent.text += text.len() as u64;
        (text.len() <= self.caps.string).then_some(text)
    }

    fn number(&mut self) -> Option<Number> {
        let (number, literal) = self.cursor.number()?;
        if number::needs_check(literal.as_bytes()) {
            number::check(literal).ok()?;
            self.extent.arithmetic += number::evaluations(literal);
        }
        Some(number)
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.enter(depth)?;
        self.cursor.punctuation(b'[')?;
        let mut items = Vec::new();
        let mut more = !self.cursor.is_empty(b']')?;
        while more {
            items.push(self.value(depth)?);
            more = self.cursor.separator(b']')?;
        }
        Some(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.enter(depth)?;
        self.cursor.punctuation(b'{')?;
        // Only the outermost object gets capacity in advance: a document of many small objects would take several times
        // its size in memory.
        let mut members = Map::with_capacity(std::mem::take(&mut self.members));
        let mut more = !self.cursor.is_empty(b'}')?;
        while more {
            self.cursor.peek()?;
            let name = self.string()?;
            self.cursor.punctuation(b':')?;
            let value = self.value(depth)?;
            if is_reserved_name(&name) || members.insert(name, value).is_some() {
                return None;
            }
            more = self.cursor.separator(b'}')?;
        }
        Some(Value::Object(members))
    }

    fn enter(&mut self, depth: usize) -> Option<()> {
        self.extent.depth = self.extent.depth.max(depth);
        (depth <= self.caps.depth).then_some(())
    }
}

/// Measures a value in memory. Returns `None` if it exceeds a cap. Does not descend below the maximum depth.
pub(super) fn measure(value: &Value, caps: Caps) -> Option<Extent> {
    let mut extent = Extent::default();
    measure_into(value, caps, 0, &mut extent).then_some(extent)
}

fn measure_into(value: &Value, caps: Caps, depth: usize, extent: &mut Extent) -> bool {
    extent.values += 1;
    let fits = match value {
        Value::String(string) => measure_text(string, caps, extent),
        Value::Array(items) => {
            extent.depth = extent.depth.max(depth + 1);
            depth < caps.depth && items.iter().all(|item| measure_into(item, caps, depth + 1, extent))
        }
        Value::Object(members) => {
            extent.depth = extent.depth.max(depth + 1);
            depth < caps.depth
                && members.iter().all(|(name, member)| {
                    !is_reserved_name(name)
                        && measure_text(name, caps, extent)
                        && measure_into(member, caps, depth + 1, extent)
                })
        }
        Value::Number(number) if number::needs_check(number.as_str().as_bytes()) => {
            extent.arithmetic += number::evaluations(number.as_str());
            number::check(number.as_str()).is_ok()
        }
        _ => true,
    };
    // Each value takes at least a byte and each string its own size: a lower bound of the document as text.
    fits && extent.text.saturating_add(extent.values) <= caps.text as u64
}

fn measure_text(text: &str, caps: Caps, extent: &mut Extent) -> bool {
    extent.text += text.len() as u64;
    text.len() <= caps.string
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::json::to_compact_text;

    const CAPS: Caps = Caps { text: 1 << 16, string: 1 << 12, depth: 32 };

    fn is_compact(text: &str) -> bool {
        read(text, CAPS).unwrap().is_compact
    }

    #[test]
    fn recognizes_compact_text() {
        for text in [
            "{}",
            "[]",
            r#"{"a":[1,-20,true,false,null,"é"],"b":{"":0}}"#,
            "18446744073709551615",
            r#""""#,
            "1.50",
            "-0",
            "1e+2",
        ] {
            assert!(is_compact(text), "{text}");
        }
        for text in [" {}", "[ ]", r#"{"a": 1}"#, r#"["\/"]"#, r#""\u0041""#, "1e2", "1E+2", "[1,2]\n"] {
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
