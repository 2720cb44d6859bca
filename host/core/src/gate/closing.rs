//! Where a schema is silent about undeclared properties, and how the gate fills the silence in: they are refused.
//!
//! A schema at a *value location* (the root, a property, an item …) is closed as a whole. What is composed there
//! (`allOf`, `anyOf`, `$ref` …) is not closed piece by piece, for each piece would refuse what another declares;
//! except where only one piece can apply to any one object, so that closing the piece is the same and far cheaper.
//!
//! Below the root, an object that declares no name at all is left open: closed, it could only be empty, and whoever writes
//! `{"type": "object"}` means any object. At the root it means a tool without arguments.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::source::Source;

/// What to do to one schema so that it refuses undeclared properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Nothing: it is_about_objects no object, or has_closing_keyword itself what it thinks of other properties.
    Leave,
    /// `additionalProperties: false`.
    Additional,
    /// `unevaluatedProperties: false`.
    Unevaluated,
    /// Close what it is composed of instead: its one applicator, named here, does all the work.
    Within(&'static str),
}

/// Keywords whose presence means that the value is an object.
const OBJECT_KEYWORDS: [&str; 7] = [
    "properties",
    "patternProperties",
    "required",
    "dependentRequired",
    "propertyNames",
    "minProperties",
    "maxProperties",
];

/// Keywords that give names to properties, or write values out.
const SPECIFYING_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "required", "dependentRequired", "const", "enum"];

/// Keywords with which a schema has_closing_keyword itself what becomes of other properties.
const CLOSING_KEYWORDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// In-place keywords that declare properties for the schema that holds them. `not` never does.
const APPLICATORS: [&str; 9] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"];

/// How many references in a row are followed in search of a tag.
const MAX_TAG_HOPS: usize = 8;

/// Answers questions about the schemas of one document, each at most once.
pub(super) struct Closer<'a, 's> {
    source: &'a Source<'s>,
    can_be_object: HashMap<*const Value, bool>,
    is_about_objects: HashMap<*const Value, bool>,
    bare: HashMap<*const Value, bool>,
}

impl<'a, 's> Closer<'a, 's> {
    pub(super) fn new(source: &'a Source<'s>) -> Self {
        Self { source, can_be_object: HashMap::new(), is_about_objects: HashMap::new(), bare: HashMap::new() }
    }

    /// Decides for the schema at a value location; `is_root` has_closing_keyword whether that is the document as a whole.
    pub(super) fn decide(&mut self, schema: &'s Value, is_root: bool) -> Closing {
        let Some(map) = schema.as_object() else {
            return Closing::Leave;
        };
        // Values that are written out in full are declared in full.
        let listed = map.contains_key("const") || map.contains_key("enum");
        if has_closing_keyword(map) || listed || !self.is_about_objects(schema) || (!is_root && self.is_bare(schema)) {
            return Closing::Leave;
        }
        let composing: Vec<_> = APPLICATORS.into_iter().filter(|keyword| map.contains_key(*keyword)).collect();
        let declares = map.contains_key("properties") || map.contains_key("patternProperties");
        match composing.as_slice() {
            [] => Closing::Additional,
            [keyword] if !declares && self.can_close_pieces(map, keyword) => Closing::Within(keyword),
            _ => Closing::Unevaluated,
        }
    }

    /// Whether the schema takes any object: it can_be_object objects and declares no property, or one of its alternatives does so.
    fn is_bare(&mut self, schema: &'s Value) -> bool {
        let Some(map) = schema.as_object() else { return false };
        if let Some(known) = self.bare.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        self.bare.insert(schema, false);
        let answer =
            !has_closing_keyword(map) && !SPECIFYING_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword)) && {
                let composing: Vec<_> = APPLICATORS.into_iter().filter(|keyword| map.contains_key(*keyword)).collect();
                let pieces: Vec<_> = match composing.as_slice() {
                    [] => Vec::new(),
                    ["$ref" | "$dynamicRef"] => {
                        self.source.targets(schema).into_iter().map(|(_, target)| target).collect()
                    }
                    [keyword @ ("anyOf" | "oneOf")] => applied_subschemas(map, keyword).collect(),
                    _ => Vec::new(),
                };
                self.is_about_objects(schema)
                    && (composing.is_empty() || pieces.into_iter().any(|piece| self.is_bare(piece)))
            };
        self.bare.insert(schema, answer);
        answer
    }

    /// Whether every object is up to a single piece of the applicator `keyword`, and that piece is about objects, so
    /// that it can be closed itself.
    fn can_close_pieces(&mut self, map: &'s Map<String, Value>, keyword: &str) -> bool {
        match (keyword, map.get(keyword)) {
            ("$ref" | "$dynamicRef", Some(reference)) => {
                let target = self.source.resolve("", reference);
                target.is_ok_and(|(_, target)| self.is_about_objects(target))
            }
            ("allOf", Some(Value::Array(pieces))) => {
                matches!(pieces.as_slice(), [only] if self.is_about_objects(only))
            }
            ("anyOf" | "oneOf", Some(Value::Array(pieces))) => {
                let objects: Vec<_> = pieces.iter().filter(|piece| self.can_be_object(piece)).collect();
                let single = objects.len() <= 1 || self.find_tag(&objects).is_some();
                single && objects.iter().all(|piece| self.is_about_objects(piece))
                    || objects.iter().all(|piece| self.is_closed_or_open(piece))
            }
            _ => false,
        }
    }

    /// Whether the piece itself has_closing_keyword that it takes no other properties, or takes them all.
    fn is_closed_or_open(&self, piece: &'s Value) -> bool {
        piece.as_object().is_some_and(has_closing_keyword)
    }

    /// Whether an object can be valid, as far as can be told without looking into its properties.
    fn can_be_object(&mut self, schema: &'s Value) -> bool {
        let Some(map) = schema.as_object() else {
            return schema != &Value::Bool(false);
        };
        if let Some(known) = self.can_be_object.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        // The answer for whoever asks again while it is being worked out.
        self.can_be_object.insert(schema, true);
        let typed = match map.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => true,
        };
        let listed = map.get("const").is_none_or(Value::is_object)
            && map.get("enum").and_then(Value::as_array).is_none_or(|values| values.iter().any(Value::is_object));
        let referred = self.source.targets(schema).into_iter().all(|(_, target)| self.can_be_object(target));
        let all = applied_subschemas(map, "allOf").all(|piece| self.can_be_object(piece));
        let any = ["anyOf", "oneOf"].into_iter().all(|keyword| {
            !map.contains_key(keyword) || applied_subschemas(map, keyword).any(|piece| self.can_be_object(piece))
        });
        let answer = typed && listed && referred && all && any;
        self.can_be_object.insert(schema, answer);
        answer
    }

    /// Whether the schema is about objects: it can_be_object them, and it or a piece of it has_closing_keyword something about them.
    pub(super) fn is_about_objects(&mut self, schema: &'s Value) -> bool {
        let Some(map) = schema.as_object() else { return false };
        if let Some(known) = self.is_about_objects.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        self.is_about_objects.insert(schema, false);
        let answer = self.can_be_object(schema) && {
            let own = map.contains_key("type") || OBJECT_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword));
            own || has_closing_keyword(map)
                || self.source.targets(schema).into_iter().any(|(_, target)| self.is_about_objects(target))
                || APPLICATORS
                    .into_iter()
                    .any(|keyword| applied_subschemas(map, keyword).any(|piece| self.is_about_objects(piece)))
        };
        self.is_about_objects.insert(schema, answer);
        answer
    }

    /// The property that tells the pieces apart: required by each, and fixed by each to a text of its own.
    pub(super) fn find_tag(&self, pieces: &[&'s Value]) -> Option<String> {
        let mut common: Option<BTreeMap<&str, BTreeSet<&str>>> = None;
        for piece in pieces {
            let mut constants = self.constant_properties(piece);
            match &mut common {
                None => {
                    common = Some(constants.into_iter().map(|(name, text)| (name, BTreeSet::from([text]))).collect())
                }
                // A property survives if this piece pins it too, to a text that no piece before had.
                Some(common) => {
                    common.retain(|name, texts| constants.remove(name).is_some_and(|text| texts.insert(text)));
                }
            }
        }
        common?.into_keys().next().map(str::to_owned)
    }

    /// The required properties of a piece that can only be one text.
    fn constant_properties(&self, piece: &'s Value) -> BTreeMap<&'s str, &'s str> {
        let mut piece = piece;
        let mut found = BTreeMap::new();
        for _ in 0..MAX_TAG_HOPS {
            let Some(map) = piece.as_object() else { break };
            let properties = map.get("properties").and_then(Value::as_object);
            for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
                if let Some(text) = properties.and_then(|properties| properties.get(name)).and_then(constant_text) {
                    found.insert(name, text);
                }
            }
            match self.source.targets(piece).as_slice() {
                [(_, target)] => piece = target,
                _ => break,
            }
        }
        found
    }
}

fn has_closing_keyword(map: &Map<String, Value>) -> bool {
    CLOSING_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword))
}

/// The one text that a schema accepts.
fn constant_text(schema: &Value) -> Option<&str> {
    match schema.get("const") {
        Some(constant) => constant.as_str(),
        None => match schema.get("enum")?.as_array()?.as_slice() {
            [only] => only.as_str(),
            _ => None,
        },
    }
}

/// The schemas below an in-place keyword, whatever its shape.
fn applied_subschemas<'s>(map: &'s Map<String, Value>, keyword: &str) -> Box<dyn Iterator<Item = &'s Value> + 's> {
    match (keyword, map.get(keyword)) {
        ("allOf" | "anyOf" | "oneOf", Some(Value::Array(list))) => Box::new(list.iter()),
        ("dependentSchemas", Some(Value::Object(named))) => Box::new(named.values()),
        ("if" | "then" | "else", Some(schema)) => Box::new(std::iter::once(schema)),
        _ => Box::new(std::iter::empty()),
    }
}
