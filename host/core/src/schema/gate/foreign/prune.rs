//! Removal of unsupported parts of a schema: first single keywords, then all but the top level, then everything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::compile::Use;
use super::super::keywords::{escape, subschemas};
use super::super::{Gate, GateLimits, SchemaError, bounds, compile};
use super::{ForeignGate, ForeignSchema, UncheckedPart, UncheckedReason};

/// Maximum number of keywords removed one by one, each because the gate rejected it. A schema with more is broken.
const MAX_REMOVED: usize = 16;

/// Keywords that declare properties. When one is removed, the names that it declares are unknown.
const DECLARING_KEYWORDS: [&str; 13] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "dependentSchemas",
];

/// Compiles as much of the schema as the gate supports.
pub(super) fn compile_arguments(foreign: &ForeignSchema, limits: &GateLimits) -> Result<ForeignGate, SchemaError> {
    let mut unchecked = Vec::new();
    if foreign.unknown_dialect.is_some() {
        unchecked.push(UncheckedPart { pointer: "/$schema".to_owned(), reason: UncheckedReason::Dialect });
    }
    if bounds::check(&foreign.schema, limits).is_ok() {
        let mut schema = foreign.schema.clone();
        let mut removed = remove_unreadable_patterns(&mut schema, limits);
        if let Some(gate) = compile_pruned(&mut schema, limits, &mut removed) {
            unchecked.append(&mut removed);
            return Ok(ForeignGate { gate, schema, unchecked });
        }
    }
    if let Some(schema) = reduce_to_top_level(&foreign.schema)
        && let Ok(gate) = compile::compile_gate(&schema, limits.clone(), Use::ForeignArguments)
    {
        unchecked.push(UncheckedPart { pointer: String::new(), reason: UncheckedReason::Complexity });
        return Ok(ForeignGate { gate, schema, unchecked });
    }
    unchecked.push(UncheckedPart { pointer: String::new(), reason: UncheckedReason::Everything });
    let schema = json!({"type": "object", "additionalProperties": true});
    Ok(ForeignGate { gate: compile::compile_gate(&schema, limits.clone(), Use::ForeignArguments)?, schema, unchecked })
}

/// Compiles the schema, and removes what the gate rejects. Returns `None` if that does not help within
/// [`MAX_REMOVED`] removals.
fn compile_pruned(schema: &mut Value, limits: &GateLimits, removed: &mut Vec<UncheckedPart>) -> Option<Gate> {
    for _ in 0..=MAX_REMOVED {
        let error = match compile::compile_gate(schema, limits.clone(), Use::ForeignArguments) {
            Ok(gate) => return Some(gate),
            Err(error) => error,
        };
        let (pointer, reason) = match &error {
            SchemaError::Malformed { pointer, .. } => (find_keyword(schema, pointer)?, UncheckedReason::Keyword),
            SchemaError::Keyword { pointer, keyword, .. } => {
                (format!("{pointer}/{}", escape(keyword)), UncheckedReason::Keyword)
            }
            SchemaError::Reference { pointer, .. } => (find_reference(schema, pointer)?, UncheckedReason::Reference),
            _ => return None,
        };
        remove(schema, &pointer)?;
        removed.push(UncheckedPart { pointer, reason });
    }
    None
}

/// Returns all schemas in the document by JSON pointer.
fn collect_schemas(document: &Value) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    let mut pending = vec![(String::new(), document)];
    while let Some((pointer, schema)) = pending.pop() {
        if let Some(map) = schema.as_object() {
            pending.extend(subschemas(map).into_iter().map(|it| (format!("{pointer}{}", it.suffix), it.schema)));
        }
        found.insert(pointer, schema);
    }
    found
}

/// Returns the pointer to the keyword, or the schema, that holds a location that violates the meta-schema.
fn find_keyword(document: &Value, pointer: &str) -> Option<String> {
    let schemas = collect_schemas(document);
    if schemas.contains_key(pointer) {
        return Some(pointer.to_owned()).filter(|pointer| !pointer.is_empty());
    }
    let holders =
        schemas.keys().filter(|schema| pointer.strip_prefix(schema.as_str()).is_some_and(|rest| rest.starts_with('/')));
    let holder = holders.max_by_key(|schema| schema.len())?;
    let keyword = pointer.get(holder.len() + 1..)?.split('/').next()?;
    Some(format!("{holder}/{keyword}"))
}

fn find_reference(document: &Value, pointer: &str) -> Option<String> {
    let schema = document.pointer(pointer)?;
    let keyword = ["$ref", "$dynamicRef"].into_iter().find(|keyword| schema.get(*keyword).is_some())?;
    Some(format!("{pointer}/{keyword}"))
}

/// Removes the keyword at the pointer, or replaces the schema there with `true`.
fn remove(document: &mut Value, pointer: &str) -> Option<()> {
    if collect_schemas(document).contains_key(pointer) {
        let place = document.pointer_mut(pointer)?;
        // A keyword that holds one schema could be left out, but an entry of a list or of named schemas has to stay.
        *place = Value::Bool(true);
        return Some(());
    }
    let (holder, keyword) = pointer.rsplit_once('/')?;
    let holder = document.pointer_mut(holder)?.as_object_mut()?;
    let keyword = keyword.replace("~1", "/").replace("~0", "~");
    holder.shift_remove(&keyword)?;
    open_schema(holder, &keyword);
    Some(())
}

/// Makes a schema accept the names that a removed keyword declared.
fn open_schema(schema: &mut Map<String, Value>, keyword: &str) {
    if !DECLARING_KEYWORDS.contains(&keyword) {
        return;
    }
    match keyword {
        // `additionalProperties` is about everything but what these two declare.
        "properties" | "patternProperties" => drop(schema.insert("additionalProperties".to_owned(), Value::Bool(true))),
        _ if schema.contains_key("unevaluatedProperties") => {
            schema.insert("unevaluatedProperties".to_owned(), Value::Bool(true));
        }
        _ => drop(schema.entry("additionalProperties").or_insert(Value::Bool(true))),
    }
}

/// Removes patterns that the gate does not support, and those beyond its maximum number.
fn remove_unreadable_patterns(document: &mut Value, limits: &GateLimits) -> Vec<UncheckedPart> {
    let mut reader = PatternReader { limits, known: BTreeMap::new(), readable: 0 };
    let mut values = Vec::new();
    let mut names = Vec::new();
    for (pointer, schema) in collect_schemas(document) {
        if schema.get("pattern").and_then(Value::as_str).is_some_and(|pattern| !reader.can_read(pattern)) {
            values.push(pointer.clone());
        }
        for pattern in schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if !reader.can_read(pattern) {
                names.push((pointer.clone(), pattern.clone()));
            }
        }
    }
    let mut removed = Vec::new();
    for pointer in values {
        if let Some(schema) = document.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            schema.shift_remove("pattern");
            removed.push(unread_pattern(format!("{pointer}/pattern")));
        }
    }
    for (pointer, pattern) in names {
        if let Some(schema) = document.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            if let Some(named) = schema.get_mut("patternProperties").and_then(Value::as_object_mut) {
                named.shift_remove(&pattern);
            }
            open_schema(schema, "patternProperties");
            removed.push(unread_pattern(format!("{pointer}/patternProperties/{}", escape(&pattern))));
        }
    }
    removed
}

/// Decides which patterns the gate can compile, up to the maximum number of patterns.
struct PatternReader<'a> {
    limits: &'a GateLimits,
    known: BTreeMap<String, bool>,
    readable: usize,
}

impl PatternReader<'_> {
    fn can_read(&mut self, pattern: &str) -> bool {
        if let Some(known) = self.known.get(pattern) {
            return *known;
        }
        let can_read = self.readable < self.limits.patterns && compile::can_compile_pattern(pattern, self.limits);
        self.readable += usize::from(can_read);
        self.known.insert(pattern.to_owned(), can_read);
        can_read
    }
}

fn unread_pattern(pointer: String) -> UncheckedPart {
    UncheckedPart { pointer, reason: UncheckedReason::Pattern }
}

/// Reduces a schema to its property names, with their types where those are plain. Returns `None` if other keywords
/// declare names too.
fn reduce_to_top_level(schema: &Value) -> Option<Value> {
    let map = schema.as_object()?;
    let properties = map.get("properties")?.as_object()?;
    let composed = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"];
    let others = map.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
    if composed.into_iter().any(|keyword| map.contains_key(keyword)) || !others.is_boolean() {
        return None;
    }
    let named: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), reduce_to_type(schema))).collect();
    let required: Vec<&str> =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let required: BTreeSet<&str> = required.into_iter().collect();
    Some(json!({"type": "object", "properties": named, "required": required, "additionalProperties": others}))
}

fn reduce_to_type(schema: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => json!({"type": "object", "additionalProperties": true}),
        Some(kind) => json!({ "type": kind }),
        None => Value::Bool(true),
    }
}
