//! Translation of one schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::AdaptedSchema;
use super::alternatives::{Node, add_alternative, merge_enums, requirement_phrase};
use super::argument_shape::{ArgumentShape, RenamedProperties, WRAPPER};
use super::dialect::Dialect;
use super::flatten::{Budget, FlatSchema, References, flatten, merge, type_names};
use super::keywords::{alternatives_of, has_shape, is_of_type, keyword_types, required_names, types_of};
use super::phrases::{describe, phrase, show, show_all};
use super::property_names::PropertyAliases;

/// Maximum levels of an adapted schema.
const MAX_DEPTH: usize = 24;
/// Maximum number of alternatives of one value.
const MAX_ALTERNATIVES: usize = 32;
/// The largest number in a bound that is sent: larger ones are no integers to many readers of JSON.
const MAX_BOUND: f64 = 9_007_199_254_740_991.0;

/// Keywords that describe a schema as a whole, and not each of its alternatives.
const DESCRIPTIONS: &[&str] = &["description", "title", "default", "examples", "example", "deprecated"];

/// A translation of one schema to one dialect.
pub(super) struct Adapter<'a> {
    root: &'a Value,
    dialect: &'a Dialect,
    aliases: PropertyAliases,
    budget: Budget,
}

impl<'a> Adapter<'a> {
    pub(super) fn new(root: &'a Value, dialect: &'a Dialect) -> Self {
        let aliases = PropertyAliases::new(root, dialect.names);
        Self { root, dialect, aliases, budget: Budget::new() }
    }

    pub(super) fn adapt_root(&self) -> AdaptedSchema {
        let references = &mut References::new();
        let flat = self.flatten(self.root, references);
        if !self.describes_object(&flat, references, 0) {
            let node = self.node(self.root, &mut References::new(), 1);
            let schema = json!({"type": "object", "properties": {WRAPPER: node.schema}, "required": [WRAPPER]});
            let shape = ArgumentShape { is_wrapped: true, names: node.names };
            return AdaptedSchema { schema, description: None, phrases: Vec::new(), shape };
        }
        let mut flat = self.merge_alternatives(flat, references, 0);
        if let Some(Value::Array(values)) = flat.map.shift_remove("enum") {
            flat.phrases.push(format!("one of {}", show_all(&values)));
        }
        let node = self.typed_node("object", &mut flat, references, 0).unwrap_or_default();
        let description = flat.map.get("description").and_then(Value::as_str).map(str::to_owned);
        let shape = ArgumentShape { is_wrapped: false, names: node.names };
        AdaptedSchema { schema: Value::Object(node.schema), description, phrases: flat.phrases, shape }
    }

    fn flatten(&self, schema: &Value, references: &mut References) -> FlatSchema {
        flatten(self.root, schema, references, &self.budget)
    }

    /// Returns whether a root describes objects, or says nothing about its type: arguments always are an object.
    fn describes_object(&self, flat: &FlatSchema, references: &mut References, depth: usize) -> bool {
        let types = types_of(&flat.map);
        if !types.is_empty() || depth > MAX_DEPTH {
            return types.contains(&"object");
        }
        let alternatives = alternatives_of(&flat.map);
        alternatives.is_empty()
            || alternatives.iter().any(|alternative| {
                let mark = references.len();
                let alternative = self.flatten(alternative, references);
                let found = self.describes_object(&alternative, references, depth.saturating_add(1));
                references.truncate(mark);
                found
            })
    }

    /// Merges the alternatives of a root into one object: it has the properties of all, and requires what all require.
    fn merge_alternatives(&self, mut flat: FlatSchema, references: &mut References, depth: usize) -> FlatSchema {
        let Some(alternatives) = flat.map.shift_remove("anyOf") else { return flat };
        let alternatives = alternatives.as_array().cloned().unwrap_or_default();
        let mut merged: Vec<FlatSchema> = Vec::new();
        for alternative in alternatives.iter().take(MAX_ALTERNATIVES) {
            let mark = references.len();
            let alternative = self.flatten(alternative, references);
            if depth <= MAX_DEPTH && self.describes_object(&alternative, references, 0) {
                merged.push(self.merge_alternatives(alternative, references, depth.saturating_add(1)));
            }
            references.truncate(mark);
        }
        let mut required = required_names(&flat.map);
        let requirements: Vec<BTreeSet<String>> = merged.iter().map(|flat| required_names(&flat.map)).collect();
        let sets = requirements.iter().map(|names| names - &required);
        flat.phrases.extend(requirement_phrase(sets));
        let common = requirements.iter().cloned().reduce(|all, next| &all & &next);
        required.extend(common.unwrap_or_default());
        let own = flat.map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut properties = own.clone();
        for FlatSchema { map, phrases } in merged {
            flat.phrases.extend(phrases);
            for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
                // What an alternative says of a property of the base narrows it in that alternative only.
                if own.get(name).is_none_or(|own| own.as_object().is_none_or(Map::is_empty)) {
                    add_alternative(&mut properties, name, schema);
                }
            }
        }
        flat.map.insert("properties".to_owned(), properties.into());
        flat.map.insert("required".to_owned(), required.into_iter().collect());
        flat
    }

    /// Translates a subschema.
    fn node(&self, schema: &Value, references: &mut References, depth: usize) -> Node {
        let mark = references.len();
        let mut flat = self.flatten(schema, references);
        let mut nodes = Vec::new();
        if depth < MAX_DEPTH {
            self.collect_alternatives(&mut flat, references, depth, &mut nodes);
        }
        references.truncate(mark);
        let nodes = merge_enums(nodes);
        let description = describe(&flat.map, &flat.phrases);
        let mut node = match <[Node; 1]>::try_from(nodes) {
            Ok([node]) => node,
            Err(nodes) if nodes.is_empty() => self.untyped_node(),
            Err(nodes) => {
                let mut names = RenamedProperties::default();
                nodes.iter().for_each(|node| names.merge(node.names.clone()));
                let alternatives: Vec<Value> = nodes.into_iter().map(|node| Value::Object(node.schema)).collect();
                Node { schema: Map::from_iter([("anyOf".to_owned(), alternatives.into())]), names }
            }
        };
        let own = node.schema.shift_remove("description");
        let description = match (own, description) {
            (Some(Value::String(own)), Some(outer)) if !outer.contains(&own) => Some(format!("{outer} {own}")),
            (own, outer) => outer.or_else(|| own?.as_str().map(str::to_owned)),
        };
        if let Some(description) = description {
            node.schema.insert("description".to_owned(), description.into());
        }
        node
    }

    /// Translates the alternatives of a subschema, each with one type. What all share stays in `flat`.
    fn collect_alternatives(
        &self,
        flat: &mut FlatSchema,
        references: &mut References,
        depth: usize,
        nodes: &mut Vec<Node>,
    ) {
        let Some(alternatives) = flat.map.shift_remove("anyOf") else {
            return self.collect_types(flat, references, depth, nodes);
        };
        let alternatives = alternatives.as_array().cloned().unwrap_or_default();
        if !alternatives.iter().any(has_shape) {
            let sets = alternatives.iter().map(|a| a.as_object().map(required_names).unwrap_or_default());
            flat.phrases.extend(requirement_phrase(sets));
            return self.collect_types(flat, references, depth, nodes);
        }
        for alternative in &alternatives {
            if nodes.len() >= MAX_ALTERNATIVES || !self.budget.take(&flat.map) {
                flat.phrases.push("further alternatives were left out".to_owned());
                break;
            }
            let mark = references.len();
            let mut alternative = self.flatten(alternative, references);
            if !self.dialect.has_null && alternatives.len() > 1 && types_of(&alternative.map) == ["null"] {
                flat.phrases.push("may be null".to_owned());
                references.truncate(mark);
                continue;
            }
            let mut base = flat.map.clone();
            base.retain(|keyword, _| !DESCRIPTIONS.contains(&keyword.as_str()));
            merge(&mut alternative, FlatSchema { map: base, phrases: Vec::new() });
            let mut found = Vec::new();
            self.collect_alternatives(&mut alternative, references, depth.saturating_add(1), &mut found);
            references.truncate(mark);
            let description = describe(&alternative.map, &alternative.phrases);
            for mut node in found {
                match (&description, node.schema.get("type").and_then(Value::as_str)) {
                    (Some(_), Some("null")) | (None, _) => {}
                    (Some(description), _) => {
                        node.schema.insert("description".to_owned(), description.as_str().into());
                    }
                }
                nodes.push(node);
            }
        }
    }

    /// Translates a subschema without alternatives, once for each of its types.
    fn collect_types(&self, flat: &mut FlatSchema, references: &mut References, depth: usize, nodes: &mut Vec<Node>) {
        let types: Vec<&'static str> = types_of(&flat.map);
        if types.is_empty() {
            let unknown = flat.map.get("type").map(type_names).unwrap_or_default();
            let unknown: Vec<_> =
                unknown.into_iter().filter(|name| *name != "any").map(|name| format!("type {name}")).collect();
            flat.phrases.extend(unknown);
            self.add_phrases(None, flat);
            nodes.push(self.untyped_node());
        }
        let has_others = types.iter().any(|ty| *ty != "null");
        for ty in types {
            if ty == "null" && !self.dialect.has_null {
                flat.phrases.push(if has_others { "may be null" } else { "only null" }.to_owned());
                if !has_others {
                    nodes.push(self.untyped_node());
                }
                continue;
            }
            nodes.extend(self.typed_node(ty, flat, references, depth));
        }
    }

    /// Translates a subschema for one of its types; `None` if its `enum` has no value of that type. Phrases for what
    /// the dialect lacks are added to `flat`.
    fn typed_node(&self, ty: &str, flat: &mut FlatSchema, references: &mut References, depth: usize) -> Option<Node> {
        let mut node = Node { schema: Map::from_iter([("type".to_owned(), ty.into())]), ..Node::default() };
        if let Some(values) = flat.map.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            let values: Vec<Value> = values.iter().filter(|value| is_of_type(value, ty)).cloned().collect();
            if values.is_empty() {
                return None;
            }
            match ty {
                "null" => {}
                "string" => {
                    node.schema.insert("enum".to_owned(), values.into());
                }
                "integer" | "number" if !self.dialect.string_enums_only => {
                    node.schema.insert("enum".to_owned(), values.into());
                }
                "boolean" if values.len() > 1 => {}
                _ => flat.phrases.push(format!("one of {}", show_all(&values))),
            }
        }
        match ty {
            "object" => self.add_properties(&mut node, flat, references, depth),
            "array" => self.add_items(&mut node, flat, references, depth),
            _ => {}
        }
        for (keyword, value) in &flat.map {
            if keyword_types(keyword).contains(&ty) && self.is_sent(keyword, value) {
                node.schema.insert(keyword.clone(), value.clone());
            }
        }
        self.add_phrases(Some(ty), flat);
        Some(node)
    }

    /// Adds phrases for the keywords that apply to a type, and are not sent.
    fn add_phrases(&self, ty: Option<&str>, flat: &mut FlatSchema) {
        let dropped = flat.map.iter().filter(|(keyword, value)| match (ty, keyword_types(keyword)) {
            (Some(ty), types) if !types.is_empty() => types.contains(&ty) && !self.is_sent(keyword, value),
            _ => true,
        });
        let phrases: Vec<String> = dropped.filter_map(|(keyword, value)| phrase(keyword, value)).collect();
        flat.phrases.extend(phrases);
    }

    fn is_sent(&self, keyword: &str, value: &Value) -> bool {
        match keyword {
            "format" => value.as_str().is_some_and(|format| self.dialect.has_format(format)),
            "uniqueItems" => self.dialect.has_keyword(keyword) && value.is_boolean(),
            "multipleOf" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                self.dialect.has_keyword(keyword) && value.as_f64().is_some_and(|bound| bound.abs() <= MAX_BOUND)
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" => {
                self.dialect.has_keyword(keyword) && value.as_u64().is_some_and(|bound| bound <= u64::from(u32::MAX))
            }
            _ => false,
        }
    }

    fn add_properties(&self, node: &mut Node, flat: &mut FlatSchema, references: &mut References, depth: usize) {
        let mut declared = flat.map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let required = required_names(&flat.map);
        let is_closed = flat.map.get("additionalProperties") == Some(&Value::Bool(false));
        for name in required.iter().filter(|_| !is_closed) {
            declared.entry(name.as_str()).or_insert_with(|| json!({}));
        }
        let mut properties = Map::new();
        let mut sent_required: Vec<Value> = Vec::new();
        for (name, schema) in declared.iter().filter(|(_, schema)| **schema != Value::Bool(false)) {
            let mut child = self.node(schema, references, depth.saturating_add(1));
            let wire = self.aliases.to_wire(name);
            if wire != name {
                let renamed = [format!("the tool calls it {}", show(&name.as_str().into()))];
                if let Some(description) = describe(&child.schema, &renamed) {
                    child.schema.insert("description".to_owned(), description.into());
                }
            }
            if required.contains(name) {
                sent_required.push(wire.into());
            }
            node.names.add_property(wire, name, child.names);
            properties.insert(wire.to_owned(), Value::Object(child.schema));
        }
        node.schema.insert("properties".to_owned(), Value::Object(properties));
        if !sent_required.is_empty() {
            node.schema.insert("required".to_owned(), sent_required.into());
        }
        self.add_other_properties(node, flat, references, depth);
    }

    fn add_other_properties(&self, node: &mut Node, flat: &mut FlatSchema, references: &mut References, depth: usize) {
        let is_sent = self.dialect.has_keyword("additionalProperties") && !flat.map.contains_key("patternProperties");
        match flat.map.get("additionalProperties") {
            Some(Value::Bool(false)) if !is_sent => flat.phrases.push("no other properties".to_owned()),
            Some(value @ Value::Bool(_)) if is_sent => {
                node.schema.insert("additionalProperties".to_owned(), value.clone());
            }
            Some(schema @ Value::Object(_)) => {
                let child = self.node(schema, references, depth.saturating_add(1));
                let child_schema = Value::Object(child.schema);
                node.names.set_others(child.names);
                if is_sent {
                    node.schema.insert("additionalProperties".to_owned(), child_schema);
                } else {
                    flat.phrases.push(format!("other properties: {}", show(&child_schema)));
                }
            }
            _ => {}
        }
    }

    fn add_items(&self, node: &mut Node, flat: &mut FlatSchema, references: &mut References, depth: usize) {
        let tuple = ["prefixItems", "items"].iter().find_map(|key| flat.map.get(*key)?.as_array().cloned());
        let child = match (tuple, flat.map.get("items")) {
            (Some(tuple), _) if !tuple.is_empty() => {
                flat.phrases.push(format!("items in this order: {}", show_all(&tuple)));
                self.node(&json!({"anyOf": tuple}), references, depth.saturating_add(1))
            }
            (_, Some(items @ Value::Object(_))) => self.node(items, references, depth.saturating_add(1)),
            _ => self.untyped_node(),
        };
        node.names.set_items(child.names);
        node.schema.insert("items".to_owned(), Value::Object(child.schema));
    }

    /// Returns the schema of any value.
    fn untyped_node(&self) -> Node {
        let scalars = ["string", "number", "boolean"].map(|ty| json!({"type": ty}));
        let mut alternatives = scalars.to_vec();
        alternatives.push(json!({"type": "object", "properties": {}}));
        alternatives.push(json!({"type": "array", "items": {"anyOf": scalars}}));
        let schema = if self.dialect.has_untyped {
            Map::new()
        } else {
            Map::from_iter([("anyOf".to_owned(), alternatives.into())])
        };
        Node { schema, names: RenamedProperties::default() }
    }
}
