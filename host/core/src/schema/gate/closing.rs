//! Closing of schemas: undeclared properties are rejected where a schema does not mention them.
//!
//! A schema at a *value location* (the root, a property, an item …) is closed as a whole. Subschemas that apply in
//! place there (`allOf`, `anyOf`, `$ref` …) are not closed one by one, because each would reject what another declares.
//! The exception is a schema where only one subschema can apply to any one object: closing that subschema is equivalent
//! and far cheaper.
//!
//! Below the root, an object that declares no name is left open: closed, it could only be empty, and
//! `{"type": "object"}` is written to mean any object. At the root it means a tool without arguments.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::source::Source;

/// The change that makes one schema reject undeclared properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// No change: the schema describes no object, or has a keyword about other properties.
    Leave,
    /// Add `additionalProperties: false`.
    Additional,
    /// Add `unevaluatedProperties: false`.
    Unevaluated,
    /// Close the subschemas of its only applicator, named here, instead.
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

/// Keywords that name properties, or list whole values.
const SPECIFYING_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "required", "dependentRequired", "const", "enum"];

/// Keywords that accept or reject undeclared properties.
const CLOSING_KEYWORDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// In-place applicators (Core 2020-12, sections 8.2.3 and 10.2) that declare properties for the schema that holds them.
/// `not` declares none.
const APPLICATORS: [&str; 9] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"];

/// Maximum number of references followed in a row to find a tag.
const MAX_TAG_HOPS: usize = 8;

/// Decides how to close the schemas of one document. Caches its answers for each schema.
pub(super) struct Closer<'a, 's> {
    source: &'a Source<'s>,
    can_be_object: HashMap<*const Value, bool>,
    is_about_objects: HashMap<*const Value, bool>,
    is_bare: HashMap<*const Value, bool>,
}

impl<'a, 's> Closer<'a, 's> {
    pub(super) fn new(source: &'a Source<'s>) -> Self {
        Self { source, can_be_object: HashMap::new(), is_about_objects: HashMap::new(), is_bare: HashMap::new() }
    }

    /// Decides how to close the schema at a value location. `is_root` is true for the document as a whole.
    pub(super) fn decide(&mut self, schema: &'s Value, is_root: bool) -> Closing {
        let Some(map) = schema.as_object() else {
            return Closing::Leave;
        };
        // `const` and `enum` list the properties of the values that they accept.
        let listed = map.contains_key("const") || map.contains_key("enum");
        if has_closing_keyword(map) || listed || !self.is_about_objects(schema) || (!is_root && self.is_bare(schema)) {
            return Closing::Leave;
        }
        let composing: Vec<_> = APPLICATORS.into_iter().filter(|keyword| map.contains_key(*keyword)).collect();
        let declares = map.contains_key("properties") || map.contains_key("patternProperties");
        match composing.as_slice() {
            [] => Closing::Additional,
            [keyword] if !declares && self.can_close_subschemas(map, keyword) => Closing::Within(keyword),
            _ => Closing::Unevaluated,
        }
    }

    /// Returns whether the schema accepts any object: it is about objects and declares no property, or one of its
    /// alternatives is like that.
    fn is_bare(&mut self, schema: &'s Value) -> bool {
        let Some(map) = schema.as_object() else { return false };
        if let Some(known) = self.is_bare.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        self.is_bare.insert(schema, false);
        let answer =
            !has_closing_keyword(map) && !SPECIFYING_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword)) && {
                let composing: Vec<_> = APPLICATORS.into_iter().filter(|keyword| map.contains_key(*keyword)).collect();
                let subschemas: Vec<_> = match composing.as_slice() {
                    [] => Vec::new(),
                    ["$ref" | "$dynamicRef"] => {
                        self.source.targets(schema).into_iter().map(|(_, target)| target).collect()
                    }
                    [keyword @ ("anyOf" | "oneOf")] => applied_subschemas(map, keyword).collect(),
                    _ => Vec::new(),
                };
                self.is_about_objects(schema)
                    && (composing.is_empty() || subschemas.into_iter().any(|subschema| self.is_bare(subschema)))
            };
        self.is_bare.insert(schema, answer);
        answer
    }

    /// Returns whether a single subschema of the applicator `keyword` decides about any one object, and is about
    /// objects, so that it can be closed itself.
    fn can_close_subschemas(&mut self, map: &'s Map<String, Value>, keyword: &str) -> bool {
        match (keyword, map.get(keyword)) {
            ("$ref" | "$dynamicRef", Some(reference)) => {
                let target = self.source.resolve("", reference);
                target.is_ok_and(|(_, target)| self.is_about_objects(target))
            }
            ("allOf", Some(Value::Array(subschemas))) => {
                matches!(subschemas.as_slice(), [only] if self.is_about_objects(only))
            }
            ("anyOf" | "oneOf", Some(Value::Array(subschemas))) => {
                let objects: Vec<_> = subschemas.iter().filter(|subschema| self.can_be_object(subschema)).collect();
                let single = objects.len() <= 1 || self.find_tag(&objects).is_some();
                single && objects.iter().all(|subschema| self.is_about_objects(subschema))
                    || objects.iter().all(|subschema| self.is_closed_or_open(subschema))
            }
            _ => false,
        }
    }

    /// Returns whether the subschema itself rejects or accepts other properties.
    fn is_closed_or_open(&self, subschema: &'s Value) -> bool {
        subschema.as_object().is_some_and(has_closing_keyword)
    }

    /// Returns whether an object can be valid, judged without its properties.
    fn can_be_object(&mut self, schema: &'s Value) -> bool {
        let Some(map) = schema.as_object() else {
            return schema != &Value::Bool(false);
        };
        if let Some(known) = self.can_be_object.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        // The answer for a recursive question about the same schema.
        self.can_be_object.insert(schema, true);
        let typed = match map.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => true,
        };
        let listed = map.get("const").is_none_or(Value::is_object)
            && map.get("enum").and_then(Value::as_array).is_none_or(|values| values.iter().any(Value::is_object));
        let referred = self.source.targets(schema).into_iter().all(|(_, target)| self.can_be_object(target));
        let all = applied_subschemas(map, "allOf").all(|subschema| self.can_be_object(subschema));
        let any = ["anyOf", "oneOf"].into_iter().all(|keyword| {
            !map.contains_key(keyword)
                || applied_subschemas(map, keyword).any(|subschema| self.can_be_object(subschema))
        });
        let answer = typed && listed && referred && all && any;
        self.can_be_object.insert(schema, answer);
        answer
    }

    /// Returns whether the schema is about objects: it accepts them, and it or one of its subschemas constrains them.
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
                    .any(|keyword| applied_subschemas(map, keyword).any(|subschema| self.is_about_objects(subschema)))
        };
        self.is_about_objects.insert(schema, answer);
        answer
    }

    /// Returns the property that distinguishes the subschemas: each requires it and fixes it to a string of its own.
    /// OpenAPI calls it a discriminator.
    pub(super) fn find_tag(&self, subschemas: &[&'s Value]) -> Option<String> {
        let mut common: Option<BTreeMap<&str, BTreeSet<&str>>> = None;
        for subschema in subschemas {
            let mut constants = self.constant_properties(subschema);
            match &mut common {
                None => {
                    common = Some(constants.into_iter().map(|(name, text)| (name, BTreeSet::from([text]))).collect())
                }
                // A property stays if this subschema fixes it too, to a string that no earlier one has.
                Some(common) => {
                    common.retain(|name, texts| constants.remove(name).is_some_and(|text| texts.insert(text)));
                }
            }
        }
        common?.into_keys().next().map(str::to_owned)
    }

    /// Returns the required properties of a subschema that accept a single string.
    fn constant_properties(&self, subschema: &'s Value) -> BTreeMap<&'s str, &'s str> {
        let mut subschema = subschema;
        let mut found = BTreeMap::new();
        for _ in 0..MAX_TAG_HOPS {
            let Some(map) = subschema.as_object() else { break };
            let properties = map.get("properties").and_then(Value::as_object);
            for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
                if let Some(text) = properties.and_then(|properties| properties.get(name)).and_then(constant_text) {
                    found.insert(name, text);
                }
            }
            match self.source.targets(subschema).as_slice() {
                [(_, target)] => subschema = target,
                _ => break,
            }
        }
        found
    }
}

fn has_closing_keyword(map: &Map<String, Value>) -> bool {
    CLOSING_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword))
}

/// Returns the only string that a schema accepts.
fn constant_text(schema: &Value) -> Option<&str> {
    match schema.get("const") {
        Some(constant) => constant.as_str(),
        None => match schema.get("enum")?.as_array()?.as_slice() {
            [only] => only.as_str(),
            _ => None,
        },
    }
}

/// Returns the subschemas below an in-place applicator, in any of its forms.
fn applied_subschemas<'s>(map: &'s Map<String, Value>, keyword: &str) -> Box<dyn Iterator<Item = &'s Value> + 's> {
    match (keyword, map.get(keyword)) {
        ("allOf" | "anyOf" | "oneOf", Some(Value::Array(list))) => Box::new(list.iter()),
        ("dependentSchemas", Some(Value::Object(named))) => Box::new(named.values()),
        ("if" | "then" | "else", Some(schema)) => Box::new(std::iter::once(schema)),
        _ => Box::new(std::iter::empty()),
    }
}
