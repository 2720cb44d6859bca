//! Translation of older drafts of JSON Schema to draft 2020-12.
//!
//! The differences: a list of `items` with `additionalItems`, `dependencies`, boolean `exclusiveMinimum` and
//! `exclusiveMaximum`, `$id` for anchors, `$recursiveRef`, and, up to draft 7, keywords beside `$ref`, which are
//! ignored. <https://json-schema.org/specification-links> has all drafts.

use serde_json::{Map, Value};

use super::super::format::truncate;
use super::super::keywords::{Place, place_of};
use super::ForeignSchema;

/// A group of drafts of JSON Schema that are translated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draft {
    /// Draft 4.
    Four,
    /// Drafts 6 and 7.
    Seven,
    /// Draft 2019-09 or later, or an unknown one.
    Later,
}

/// Keywords that are kept beside a `$ref` of draft 7 or earlier.
const BESIDE_REF: [&str; 7] = ["$ref", "definitions", "$defs", "title", "description", "default", "examples"];

/// Translates a schema whose depth was checked before.
pub(super) fn to_2020_12(schema: &Value) -> ForeignSchema {
    let (draft, unknown_dialect) = detect_draft(schema);
    let keyword = if draft == Draft::Four { "id" } else { "$id" };
    let base = schema.get(keyword).and_then(Value::as_str).map(|id| id.trim_end_matches('#').to_owned());
    let translation = Translation { root: schema, draft, base };
    ForeignSchema { schema: translation.translate_schema(schema), unknown_dialect }
}

fn detect_draft(schema: &Value) -> (Draft, Option<String>) {
    let Some(named) = schema.get("$schema") else { return (Draft::Later, None) };
    let text = named.as_str().unwrap_or_default().trim_end_matches('#');
    let path = ["https://", "http://"].into_iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    match path {
        "json-schema.org/draft-04/schema" => (Draft::Four, None),
        "json-schema.org/draft-06/schema" | "json-schema.org/draft-07/schema" => (Draft::Seven, None),
        "json-schema.org/draft/2019-09/schema" | "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => {
            (Draft::Later, None)
        }
        _ => (Draft::Later, Some(truncate(text, 80))),
    }
}

struct Translation<'s> {
    root: &'s Value,
    draft: Draft,
    /// The base URI of the document, without a fragment.
    base: Option<String>,
}

impl Translation<'_> {
    /// Translates a schema and its subschemas. Recursion is bounded by the depth of the document.
    fn translate_schema(&self, schema: &Value) -> Value {
        let Some(map) = schema.as_object() else { return schema.clone() };
        let refers = self.draft != Draft::Later && map.contains_key("$ref");
        let mut translated = Map::new();
        for (keyword, value) in map.iter().filter(|(keyword, _)| !refers || BESIDE_REF.contains(&keyword.as_str())) {
            self.translate_keyword(map, keyword, value, &mut translated);
        }
        Value::Object(translated)
    }

    fn translate_keyword(&self, map: &Map<String, Value>, keyword: &str, value: &Value, into: &mut Map<String, Value>) {
        match (keyword, value) {
            ("$schema" | "$recursiveAnchor" | "$vocabulary", _) => {}
            ("$id" | "id", Value::String(name)) if keyword == "$id" || self.draft == Draft::Four => {
                if let Some(anchor) = name.strip_prefix('#').filter(|anchor| !anchor.is_empty()) {
                    into.insert("$anchor".to_owned(), anchor.into());
                }
            }
            ("$ref" | "$dynamicRef", Value::String(reference)) => {
                into.insert(keyword.to_owned(), self.translate_reference(reference).into());
            }
            ("$recursiveRef", _) => drop(into.insert("$ref".to_owned(), value.clone())),
            ("items", Value::Array(items)) => {
                // In draft 2020-12 the list must not be empty.
                if !items.is_empty() {
                    into.insert("prefixItems".to_owned(), self.translate_list(items));
                }
            }
            ("additionalItems", _) => {
                if map.get("items").is_some_and(Value::is_array) {
                    into.insert("items".to_owned(), self.translate_schema(value));
                }
            }
            ("dependencies", Value::Object(named)) => self.translate_dependencies(named, into),
            ("minimum" | "maximum", _) => {
                let (_, exclusive) = BOUNDS.into_iter().find(|(bound, _)| *bound == keyword).unwrap_or_default();
                let is_exclusive = map.get(exclusive) == Some(&Value::Bool(true));
                into.insert(if is_exclusive { exclusive } else { keyword }.to_owned(), value.clone());
            }
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => {}
            _ => drop(into.insert(keyword.to_owned(), self.translate_value(keyword, value))),
        }
    }

    /// Translates the value of a keyword that has the same name in draft 2020-12.
    fn translate_value(&self, keyword: &str, value: &Value) -> Value {
        match (place_of(keyword), value) {
            (Some(Place::Schema), schema) => self.translate_schema(schema),
            (Some(Place::List), Value::Array(list)) => self.translate_list(list),
            (Some(Place::Named), Value::Object(named)) => Value::Object(
                named.iter().map(|(name, schema)| (name.clone(), self.translate_schema(schema))).collect(),
            ),
            _ => value.clone(),
        }
    }

    fn translate_list(&self, list: &[Value]) -> Value {
        list.iter().map(|schema| self.translate_schema(schema)).collect()
    }

    fn translate_dependencies(&self, named: &Map<String, Value>, into: &mut Map<String, Value>) {
        for (name, dependency) in named {
            let (keyword, value) = match dependency {
                Value::Array(_) => ("dependentRequired", dependency.clone()),
                // Draft 3 wrote a single name, and generators still do.
                Value::String(_) => ("dependentRequired", Value::Array(vec![dependency.clone()])),
                _ => ("dependentSchemas", self.translate_schema(dependency)),
            };
            let entry = into.entry(keyword).or_insert_with(|| Value::Object(Map::new()));
            if let Some(entries) = entry.as_object_mut() {
                entries.insert(name.clone(), value);
            }
        }
    }

    /// Translates a reference to the location of its target after the translation.
    fn translate_reference(&self, reference: &str) -> String {
        let local = self.base.as_deref().filter(|base| !base.is_empty()).and_then(|base| reference.strip_prefix(base));
        let reference = match local {
            Some("") => "#",
            Some(rest) if rest.starts_with('#') => rest,
            _ => reference,
        };
        let Some(pointer) = reference.strip_prefix("#/") else { return reference.to_owned() };
        let mut translated = "#".to_owned();
        let mut at = Some(self.root);
        let mut is_schema = true;
        for step in pointer.split('/') {
            let below = at.and_then(|value| match value {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                value => value.get(step.replace("~1", "/").replace("~0", "~")),
            });
            let items_is_list = at.and_then(|value| value.get("items")).is_some_and(Value::is_array);
            let step = match step {
                "items" if is_schema && below.is_some_and(Value::is_array) => "prefixItems",
                "additionalItems" if is_schema && items_is_list => "items",
                "dependencies" if is_schema => "dependentSchemas",
                step => step,
            };
            translated.push('/');
            translated.push_str(step);
            is_schema = !is_schema || !has_several(step);
            at = below;
        }
        translated
    }
}

/// Returns whether the keyword holds a list of schemas, or schemas by name.
fn has_several(keyword: &str) -> bool {
    matches!(place_of(keyword), Some(Place::List | Place::Named))
}

/// The keywords of inclusive bounds, each with that of the exclusive bound.
const BOUNDS: [(&str, &str); 2] = [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(to_2020_12(&schema).schema, expected, "{schema}");
    }

    const SEVEN: &str = "http://json-schema.org/draft-07/schema#";

    #[test]
    fn translates_keywords_of_older_drafts() {
        let string = json!({"type": "string"});
        check(json!({"$schema": SEVEN, "type": "object"}), json!({"type": "object"}));
        check(json!({"items": [string], "additionalItems": false}), json!({"prefixItems": [string], "items": false}));
        check(json!({"items": [], "additionalItems": string}), json!({"items": string}));
        check(json!({"items": string, "additionalItems": false}), json!({"items": string}));
        check(
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        );
        check(json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1}));
        check(json!({"exclusiveMaximum": false, "maximum": 1}), json!({"maximum": 1}));
        check(json!({"minimum": 1, "exclusiveMinimum": 0}), json!({"minimum": 1, "exclusiveMinimum": 0}));
        check(json!({"$recursiveAnchor": true, "items": {"$recursiveRef": "#"}}), json!({"items": {"$ref": "#"}}));
        check(
            json!({"properties": {"items": {"items": [true]}}}),
            json!({"properties": {"items": {"prefixItems": [true]}}}),
        );
        check(
            json!({"const": {"items": [1]}, "enum": [{"$schema": 1}]}),
            json!({"const": {"items": [1]}, "enum": [{"$schema": 1}]}),
        );
    }

    #[test]
    fn ignores_keywords_beside_ref_up_to_draft_7() {
        fn translate_beside(schema: &str) -> Value {
            json!({"$schema": schema, "definitions": {"a": {}}, "$ref": "#/definitions/a", "minLength": 1})
        }

        check(translate_beside(SEVEN), json!({"definitions": {"a": {}}, "$ref": "#/definitions/a"}));
        check(
            translate_beside("https://json-schema.org/draft/2020-12/schema"),
            json!({"definitions": {"a": {}}, "$ref": "#/definitions/a", "minLength": 1}),
        );
    }

    #[test]
    fn translates_references() {
        fn translate(reference: &str) -> Value {
            let schema = json!({
                "$id": "https://example.com/s",
                "properties": {"t": {"items": [{"type": "string"}], "additionalItems": {"type": "null"}}, "u": {"$ref": reference}},
                "dependencies": {"t": {"required": ["u"]}},
            });
            to_2020_12(&schema).schema["properties"]["u"]["$ref"].clone()
        }

        assert_eq!(translate("#/properties/t/items/0"), "#/properties/t/prefixItems/0");
        assert_eq!(translate("#/properties/t/additionalItems"), "#/properties/t/items");
        assert_eq!(translate("#/dependencies/t"), "#/dependentSchemas/t");
        assert_eq!(translate("https://example.com/s#/properties/t"), "#/properties/t");
        assert_eq!(translate("https://example.com/s"), "#");
        assert_eq!(translate("https://example.com/other"), "https://example.com/other");
        check(json!({"$id": "x", "items": {"$id": "#a"}}), json!({"items": {"$anchor": "a"}}));
    }

    #[test]
    fn reports_unknown_dialects() {
        fn unknown_dialect(dialect: Value) -> Option<String> {
            to_2020_12(&json!({ "$schema": dialect })).unknown_dialect
        }

        for known in [SEVEN, "https://json-schema.org/draft-04/schema", "http://json-schema.org/draft/2019-09/schema#"]
        {
            assert_eq!(unknown_dialect(json!(known)), None, "{known}");
        }
        assert_eq!(unknown_dialect(json!("https://example.com/mine")).as_deref(), Some("https://example.com/mine"));
        assert_eq!(unknown_dialect(json!(7)).as_deref(), Some(""));
    }
}
