//! References and `allOf`, as one schema.

use std::cell::Cell;

use serde_json::{Map, Value, json};

/// Maximum number of times that a reference is inlined within itself.
const MAX_REPEATS: usize = 1;
/// Maximum number of references within each other.
const MAX_NESTED_REFERENCES: usize = 64;
/// Maximum number of subschemas that one translation visits: references and alternatives may multiply a schema.
const MAX_SUBSCHEMAS: usize = 3000;
/// Maximum size of these subschemas, each with all that is in it, in bytes.
const MAX_VISITED_BYTES: usize = 1 << 20;
/// The size that a value counts apart from its text, in bytes.
const VALUE_BYTES: usize = 16;

/// The subschemas that a translation may still visit.
#[derive(Debug)]
pub(super) struct Budget {
    subschemas: Cell<usize>,
    bytes: Cell<usize>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { subschemas: Cell::new(MAX_SUBSCHEMAS), bytes: Cell::new(MAX_VISITED_BYTES) }
    }

    /// Takes a subschema. Returns false if too little is left; then nothing is left for others either.
    pub(super) fn take(&self, schema: &Map<String, Value>) -> bool {
        let Some(subschemas) = self.subschemas.get().checked_sub(1) else { return false };
        let bytes = self.bytes.get().checked_sub(size_of_members(schema));
        self.subschemas.set(if bytes.is_some() { subschemas } else { 0 });
        self.bytes.set(bytes.unwrap_or_default());
        bytes.is_some()
    }
}

fn size_of_members(map: &Map<String, Value>) -> usize {
    map.iter().fold(VALUE_BYTES, |size, (key, value)| size.saturating_add(key.len()).saturating_add(size_of(value)))
}

fn size_of(value: &Value) -> usize {
    match value {
        Value::Object(map) => size_of_members(map),
        Value::Array(items) => items.iter().fold(VALUE_BYTES, |size, item| size.saturating_add(size_of(item))),
        Value::String(text) => VALUE_BYTES.saturating_add(text.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE_BYTES,
    }
}

/// A schema without references and `allOf` at its own level.
#[derive(Debug, Clone, Default)]
pub(super) struct FlatSchema {
    pub(super) map: Map<String, Value>,
    /// Phrases for what was left out.
    pub(super) phrases: Vec<String>,
}

/// The references within which a schema is inlined, the outermost first.
pub(super) type References = Vec<String>;

/// Resolves the references and the `allOf` of a schema. References that were followed are added to `references`, and
/// hold for all of its subschemas.
pub(super) fn flatten(root: &Value, schema: &Value, references: &mut References, budget: &Budget) -> FlatSchema {
    let Value::Object(map) = schema else { return FlatSchema::default() };
    if !budget.take(map) {
        let phrases = vec!["further rules were left out".to_owned()];
        return FlatSchema { map: Map::new(), phrases };
    }
    let mut flat = FlatSchema { map: map.clone(), phrases: Vec::new() };
    let reference = flat.map.shift_remove("$ref").or_else(|| flat.map.shift_remove("$dynamicRef"));
    let parts = flat.map.shift_remove("allOf");
    normalize(&mut flat);
    if let Some(Value::String(reference)) = reference {
        match resolve(root, &reference) {
            None => flat.phrases.push(format!("as described in {reference}")),
            Some(target) if is_exhausted(&reference, references) => {
                let name = reference.rsplit('/').next().unwrap_or_default();
                flat.phrases.push(format!("nested like `{name}`"));
                if let Some(ty) = target.get("type") {
                    flat.map.entry("type").or_insert_with(|| ty.clone());
                }
            }
            Some(target) => {
                references.push(reference);
                let target = flatten(root, target, references, budget);
                merge(&mut flat, target);
            }
        }
    }
    if let Some(Value::Array(parts)) = parts {
        for part in &parts {
            let part = flatten(root, part, references, budget);
            merge(&mut flat, part);
        }
    }
    flat
}

fn is_exhausted(reference: &str, references: &References) -> bool {
    let repeats = references.iter().filter(|earlier| *earlier == reference).count();
    repeats > MAX_REPEATS || references.len() >= MAX_NESTED_REFERENCES
}

/// Writes `const` as `enum`, and `oneOf` as `anyOf`.
fn normalize(flat: &mut FlatSchema) {
    if let Some(value) = flat.map.shift_remove("const") {
        flat.map.insert("enum".to_owned(), json!([value]));
    }
    if let Some(alternatives) = flat.map.shift_remove("oneOf") {
        match flat.map.get("anyOf") {
            None => {
                flat.map.insert("anyOf".to_owned(), alternatives);
            }
            Some(_) => flat.phrases.push(format!("oneOf {}", super::phrases::show(&alternatives))),
        }
    }
}

/// Adds the rules of `other` to `flat`. Where both have a rule that cannot be combined, the one of `flat` remains.
pub(super) fn merge(flat: &mut FlatSchema, other: FlatSchema) {
    flat.phrases.extend(other.phrases);
    for (key, value) in other.map {
        let Some(own) = flat.map.get_mut(&key) else {
            flat.map.insert(key, value);
            continue;
        };
        match (key.as_str(), own, value) {
            ("properties", Value::Object(own), Value::Object(properties)) => merge_properties(own, properties),
            ("required", Value::Array(own), Value::Array(names)) => {
                for name in names {
                    if !own.contains(&name) {
                        own.push(name);
                    }
                }
            }
            ("enum", Value::Array(own), Value::Array(values)) => {
                let common: Vec<Value> = own.iter().filter(|value| values.contains(value)).cloned().collect();
                if !common.is_empty() {
                    *own = common;
                }
            }
            ("type", own, ty) => {
                let both = common_types(own, &ty);
                if !both.is_empty() {
                    *own = both.into();
                }
            }
            ("description", Value::String(own), Value::String(text)) if !own.contains(&text) => {
                *own = format!("{} {text}", own.trim_end());
            }
            ("anyOf", own, alternatives) if *own != alternatives => {
                flat.phrases.push(format!("and one of {}", super::phrases::show(&alternatives)));
            }
            // A wrong type of a keyword says nothing.
            ("properties" | "required" | "enum" | "description", own, value) if own.is_null() => *own = value,
            _ => {}
        }
    }
}

fn merge_properties(own: &mut Map<String, Value>, properties: Map<String, Value>) {
    for (name, schema) in properties {
        match own.get_mut(&name) {
            None => {
                own.insert(name, schema);
            }
            Some(existing) if *existing == schema => {}
            Some(existing) => *existing = json!({"allOf": [existing.take(), schema]}),
        }
    }
}

/// Returns the types that are in both values of `type`.
fn common_types(left: &Value, right: &Value) -> Vec<Value> {
    let left = type_names(left);
    let right = type_names(right);
    let from_left = left.iter().filter(|name| is_in(name, &right));
    let from_right = right.iter().filter(|name| is_in(name, &left) && !left.contains(name));
    from_left.chain(from_right).map(|name| Value::from(*name)).collect()
}

fn is_in(name: &str, names: &[&str]) -> bool {
    names.contains(&name) || (name == "integer" && names.contains(&"number"))
}

/// Returns the names in a value of `type`.
pub(super) fn type_names(ty: &Value) -> Vec<&str> {
    match ty {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the schema that a reference within the document means.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&percent_decode(fragment));
    }
    ["$defs", "definitions"].iter().find_map(|key| {
        let mut definitions = root.get(*key)?.as_object()?.values();
        definitions
            .find(|schema| ["$anchor", "$dynamicAnchor"].iter().any(|key| schema.get(*key) == Some(&fragment.into())))
    })
}

/// Decodes `%XX`. A reference is a URI, so that names in it may be escaped.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = others.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(schema: Value) -> (Value, Vec<String>) {
        let FlatSchema { map, phrases } = flatten(&schema, &schema, &mut References::new(), &Budget::new());
        (Value::Object(map), phrases)
    }

    #[test]
    fn inlines_references_of_every_local_form() {
        for reference in ["#/$defs/A~1b c", "#/$defs/A~1b%20c", "#anchor"] {
            let target = json!({"type": "string", "$anchor": "anchor"});
            let (found, phrases) = flat(json!({"$ref": reference, "$defs": {"A/b c": target}}));
            assert_eq!((&found["type"], phrases.len()), (&json!("string"), 0), "{reference}");
        }
        for reference in ["https://example.com/a.json", "#/$defs/Missing", "other.json#/a"] {
            let (_, phrases) = flat(json!({"$ref": reference}));
            assert_eq!(phrases, [format!("as described in {reference}")]);
        }
    }

    #[test]
    fn stops_at_references_that_never_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        ] {
            assert!(!flat(schema.clone()).1.is_empty(), "{schema}");
        }
    }

    #[test]
    fn merges_the_rules_of_all_parts() {
        let (found, _) = flat(json!({
            "type": ["object", "null"],
            "properties": {"a": {"type": "string"}, "c": {}},
            "required": ["a"],
            "description": "One.",
            "allOf": [
                {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {}, "c": {}}, "required": ["b", "a"]},
                {"description": "Two."},
                true,
            ],
        }));
        assert_eq!(
            found,
            json!({
                "type": ["object"],
                "properties": {"a": {"allOf": [{"type": "string"}, {"enum": ["x"]}]}, "c": {}, "b": {}},
                "required": ["a", "b"],
                "description": "One. Two.",
            })
        );
        let (found, _) = flat(json!({"type": "number", "enum": [1, 2], "allOf": [{"type": "integer", "const": 2}]}));
        assert_eq!(found, json!({"type": ["integer"], "enum": [2]}));
    }
}
