//! Checks of a document while it is read, without a value of it in memory.
//!
//! Most schemas are objects of plain values, and most arguments are compact JSON. For those one pass over the text decides.
//! Everything unusual, such as a pattern, an escape, white space or a fraction, is left to the parser and the validator. So
//! this module accepts, or is unsure; it never rejects.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::graph::{Node, NodeId, ROOT, SchemaGraph};
use super::keywords::Role;
use super::strict::{Caps, Extent};
use crate::schema::json_reader::{Cursor, is_reserved_name};

/// Maximum number of declared properties of an object: as many as a mask has bits.
const MAX_PROPERTIES: usize = 128;
/// Maximum number of undeclared properties of an object: each is compared with all others.
const MAX_UNDECLARED: usize = 64;

/// A schema that is simple enough for one pass.
#[derive(Debug)]
pub(super) struct StreamingSchema {
    /// Indexed by the nodes of the graph.
    nodes: Vec<StreamingNode>,
}

/// One subschema: what a value of each type has to fulfil.
#[derive(Debug)]
struct StreamingNode {
    types: TypeSet,
    /// Range of the length of a string, in characters; `None` for any.
    length: Option<(u64, u64)>,
    /// The strings that are accepted, if they are listed.
    listed: Option<Box<[String]>>,
    /// Least and greatest integer.
    range: (i64, i64),
    /// Least and greatest number of items.
    item_count: (u64, u64),
    items: Option<NodeId>,
    properties: Box<[(String, NodeId)]>,
    /// The places of the properties above, by name.
    places: HashMap<String, usize>,
    /// A bit for each property that is required.
    required: u128,
    additional: Option<NodeId>,
}

/// A set of types, one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TypeSet(u8);

impl TypeSet {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const INTEGER: Self = Self(4);
    const STRING: Self = Self(8);
    const ARRAY: Self = Self(16);
    const OBJECT: Self = Self(32);
    const NONE: Self = Self(0);
    const ALL: Self = Self(63);

    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            // Other numbers are left to the validator.
            "integer" | "number" => Self::INTEGER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    /// Reads the keyword `type`.
    fn of_keyword(value: &Value) -> Option<Self> {
        match value {
            Value::String(name) => Self::of_name(name),
            Value::Array(names) => names.iter().try_fold(Self::NONE, |types, name| {
                let name = Self::of_name(name.as_str()?)?;
                Some(Self(types.0 | name.0))
            }),
            _ => None,
        }
    }

    /// Succeeds if `one` is in the set.
    fn has(self, one: Self) -> Option<()> {
        (self.0 & one.0 != 0).then_some(())
    }
}

impl StreamingSchema {
    /// Returns the schema of this graph; `None` if its root has a keyword that one pass cannot decide on.
    pub(super) fn of(graph: &SchemaGraph) -> Option<Self> {
        let node = |id| graph.node(id).and_then(StreamingNode::of).unwrap_or_else(StreamingNode::unsure);
        let nodes: Vec<_> = (0..graph.len()).map(node).collect();
        nodes.get(ROOT).is_some_and(|root| root.types != TypeSet::NONE).then_some(Self { nodes })
    }

    /// Returns the size of a text that is compact JSON, within these caps, and matches the schema. `None` if it is not, or
    /// nobody has decided yet.
    pub(super) fn check(&self, text: &str, caps: Caps) -> Option<Extent> {
        if text.len() > caps.text {
            return None;
        }
        let mut reader = Reader { schema: self, cursor: Cursor::new(text), caps, extent: Extent::default() };
        reader.value(ROOT, 0)?;
        reader.cursor.end()?;
        reader.cursor.is_compact().then_some(reader.extent)
    }
}

impl StreamingNode {
    /// Returns `None` if the node has a keyword that one pass cannot decide on.
    fn of(node: &Node) -> Option<Self> {
        if node.never {
            return None;
        }
        let mut found = Self { types: TypeSet::ALL, ..Self::unsure() };
        found.add_edges(node)?;
        found.add_assertions(&node.assertions)?;
        Some(found)
    }

    /// Returns a node that accepts nothing.
    fn unsure() -> Self {
        Self {
            types: TypeSet::NONE,
            length: None,
            listed: None,
            range: (i64::MIN, i64::MAX),
            item_count: (0, u64::MAX),
            items: None,
            properties: Box::default(),
            places: HashMap::new(),
            required: 0,
            additional: None,
        }
    }

    fn add_edges(&mut self, node: &Node) -> Option<()> {
        let mut properties = Vec::new();
        for (role, target) in &node.edges {
            match role {
                Role::Property(name) => properties.push((name.clone(), *target)),
                Role::AdditionalProperties => self.additional = Some(*target),
                Role::Items => self.items = Some(*target),
                _ => return None,
            }
        }
        self.places = properties.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        self.properties = properties.into();
        (self.properties.len() <= MAX_PROPERTIES).then_some(())
    }

    fn add_assertions(&mut self, assertions: &Map<String, Value>) -> Option<()> {
        for (keyword, value) in assertions {
            match keyword.as_str() {
                "type" => self.types = TypeSet(self.types.0 & TypeSet::of_keyword(value)?.0),
                "enum" => self.list(value.as_array()?)?,
                "const" => self.list(std::slice::from_ref(value))?,
                "minLength" => self.length.get_or_insert((0, u64::MAX)).0 = value.as_u64()?,
                "maxLength" => self.length.get_or_insert((0, u64::MAX)).1 = value.as_u64()?,
                "minimum" => self.range.0 = self.range.0.max(value.as_i64()?),
                "maximum" => self.range.1 = self.range.1.min(value.as_i64()?),
                "exclusiveMinimum" => self.range.0 = self.range.0.max(value.as_i64()?.checked_add(1)?),
                "exclusiveMaximum" => self.range.1 = self.range.1.min(value.as_i64()?.checked_sub(1)?),
                "minItems" => self.item_count.0 = value.as_u64()?,
                "maxItems" => self.item_count.1 = value.as_u64()?,
                "required" => {
                    for name in value.as_array()? {
                        self.required |= 1 << *self.places.get(name.as_str()?)?;
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Accepts the listed strings only.
    fn list(&mut self, values: &[Value]) -> Option<()> {
        let texts: Option<Box<[String]>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
        self.types = TypeSet(self.types.0 & TypeSet::STRING.0);
        self.listed.is_none().then_some(())?;
        self.listed = Some(texts?);
        Some(())
    }

    /// Returns the place and the node of a declared property. Most callers write properties in the order of the schema,
    /// so the one after the last is tried first.
    fn property(&self, name: &str, expected: usize) -> Option<(usize, NodeId)> {
        if let Some((next, id)) = self.properties.get(expected)
            && next == name
        {
            return Some((expected, *id));
        }
        let place = *self.places.get(name)?;
        self.properties.get(place).map(|(_, id)| (place, *id))
    }
}

/// A recursive-descent parser. Every method returns `None` where the answer is not certain to be yes.
struct Reader<'s, 't> {
    schema: &'s StreamingSchema,
    cursor: Cursor<'t>,
    caps: Caps,
    extent: Extent,
}

impl<'t> Reader<'_, 't> {
    /// Reads a value that is inside `depth` arrays and objects.
    fn value(&mut self, id: NodeId, depth: usize) -> Option<()> {
        let node = self.schema.nodes.get(id)?;
        self.cursor.is_compact().then_some(())?;
        self.extent.values += 1;
        match self.cursor.peek()? {
            b'"' => {
                node.types.has(TypeSet::STRING)?;
                let text = self.string()?;
                if let Some((least, most)) = node.length {
                    let length = text.chars().count() as u64;
                    (least <= length && length <= most).then_some(())?;
                }
                node.listed.as_ref().is_none_or(|listed| listed.iter().any(|entry| entry == text)).then_some(())
            }
            b'{' => node.types.has(TypeSet::OBJECT).and_then(|()| self.object(node, depth + 1)),
            b'[' => node.types.has(TypeSet::ARRAY).and_then(|()| self.array(node, depth + 1)),
            b't' => node.types.has(TypeSet::BOOLEAN).and_then(|()| self.cursor.literal("true")),
            b'f' => node.types.has(TypeSet::BOOLEAN).and_then(|()| self.cursor.literal("false")),
            b'n' => node.types.has(TypeSet::NULL).and_then(|()| self.cursor.literal("null")),
            _ => {
                node.types.has(TypeSet::INTEGER)?;
                let number = self.cursor.short_integer()?;
                (node.range.0 <= number && number <= node.range.1).then_some(())
            }
        }
    }

    fn string(&mut self) -> Option<&'t str> {
        let text = self.cursor.plain_string()?;
        self.extent.text += text.len() as u64;
        (text.len() <= self.caps.string).then_some(text)
    }

    fn array(&mut self, node: &StreamingNode, depth: usize) -> Option<()> {
        self.enter(depth)?;
        self.cursor.punctuation(b'[')?;
        let mut count = 0_u64;
        let mut more = !self.cursor.is_empty(b']')?;
        while more {
            match node.items {
                Some(items) => self.value(items, depth)?,
                None => self.any(depth)?,
            }
            count += 1;
            more = self.cursor.separator(b']')?;
        }
        (node.item_count.0 <= count && count <= node.item_count.1).then_some(())
    }

    fn object(&mut self, node: &StreamingNode, depth: usize) -> Option<()> {
        self.enter(depth)?;
        self.cursor.punctuation(b'{')?;
        let mut seen = 0_u128;
        let mut expected = 0;
        let mut undeclared = UndeclaredNames::default();
        let mut more = !self.cursor.is_empty(b'}')?;
        while more {
            let name = self.name()?;
            if let Some((place, id)) = node.property(name, expected) {
                let bit = 1 << place;
                (seen & bit == 0).then_some(())?;
                seen |= bit;
                expected = place + 1;
                self.value(id, depth)?;
            } else {
                undeclared.add(name)?;
                match node.additional {
                    Some(additional) => self.value(additional, depth)?,
                    None => self.any(depth)?,
                }
            }
            more = self.cursor.separator(b'}')?;
        }
        (seen & node.required == node.required).then_some(())
    }

    /// Reads a value that may be anything.
    fn any(&mut self, depth: usize) -> Option<()> {
        self.extent.values += 1;
        match self.cursor.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => {
                self.enter(depth + 1)?;
                self.cursor.punctuation(b'{')?;
                let mut names = UndeclaredNames::default();
                let mut more = !self.cursor.is_empty(b'}')?;
                while more {
                    let name = self.name()?;
                    names.add(name)?;
                    self.any(depth + 1)?;
                    more = self.cursor.separator(b'}')?;
                }
                Some(())
            }
            b'[' => {
                self.enter(depth + 1)?;
                self.cursor.punctuation(b'[')?;
                let mut more = !self.cursor.is_empty(b']')?;
                while more {
                    self.any(depth + 1)?;
                    more = self.cursor.separator(b']')?;
                }
                Some(())
            }
            b't' => self.cursor.literal("true"),
            b'f' => self.cursor.literal("false"),
            b'n' => self.cursor.literal("null"),
            _ => self.cursor.short_integer().map(|_| ()),
        }
    }

    /// Reads the name of a member and the colon after it.
    fn name(&mut self) -> Option<&'t str> {
        self.cursor.peek()?;
        let name = self.string().filter(|name| !is_reserved_name(name))?;
        self.cursor.punctuation(b':')?;
        Some(name)
    }

    fn enter(&mut self, depth: usize) -> Option<()> {
        self.extent.depth = self.extent.depth.max(depth);
        (depth <= self.caps.depth).then_some(())
    }
}

/// The names of an object that its schema does not declare.
#[derive(Default)]
struct UndeclaredNames<'t> {
    /// A digest of each name, to compare many at once.
    digests: Vec<u64>,
    names: Vec<&'t str>,
}

impl<'t> UndeclaredNames<'t> {
    /// Adds a name. Fails if it is there already, or there are too many.
    fn add(&mut self, name: &'t str) -> Option<()> {
        let digest = digest(name);
        if self.names.len() >= MAX_UNDECLARED {
            return None;
        }
        // `|` does not end early, so the compiler can compare many digests at once.
        let may_be_there = self.digests.iter().fold(false, |found, known| found | (*known == digest));
        if may_be_there && self.digests.iter().zip(&self.names).any(|(known, at)| *known == digest && *at == name) {
            return None;
        }
        self.digests.push(digest);
        self.names.push(name);
        Some(())
    }
}

/// Returns the first and the last bytes of a name, and its length: equal for equal names.
fn digest(name: &str) -> u64 {
    let bytes = name.as_bytes();
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let first = u64::from(u32::from_le_bytes(*first));
            let last = u64::from(u32::from_le_bytes(*last));
            first << 32 ^ last ^ (bytes.len() as u64) << 24
        }
        _ => bytes.iter().fold(0, |digest, byte| digest << 8 | u64::from(*byte)) | (bytes.len() as u64) << 56,
    }
}
