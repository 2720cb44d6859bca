//! The schema as written: its subschemas, references and anchors, and checks for unsupported keywords.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::GateLimits;
use super::error::SchemaError;
use super::format::format_value;
use super::keywords::{REFERENCES, escape, subschemas};

const ACCEPTED_DIALECTS: [&str; 2] =
    ["https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#"];

/// A schema document with the locations of all subschemas. Every reference leads to one of them.
pub(super) struct Source<'s> {
    pub(super) root: &'s Value,
    /// All schemas of the document by JSON pointer. All else is data and never read as a schema.
    schemas: BTreeMap<String, &'s Value>,
    /// Names given by `$anchor` and `$dynamicAnchor`. A single document has one dynamic scope, so both mean the same.
    anchors: HashMap<&'s str, String>,
    /// All patterns, each with the first schema that uses it.
    pub(super) patterns: BTreeMap<&'s str, String>,
}

impl<'s> Source<'s> {
    /// Visits every schema of the document once.
    ///
    /// # Errors
    /// If a keyword would leave the document or change its dialect, a count exceeds its limit, or a reference has no
    /// target.
    pub(super) fn survey(root: &'s Value, limits: &GateLimits) -> Result<Self, SchemaError> {
        check_dialect(root)?;
        let mut source = Self { root, schemas: BTreeMap::new(), anchors: HashMap::new(), patterns: BTreeMap::new() };
        source.add_schema(root, String::new(), limits)?;
        for (pointer, schema) in &source.schemas {
            for (_, reference) in references(schema) {
                source.resolve(pointer, reference)?;
            }
        }
        Ok(source)
    }

    /// Adds a schema and its subschemas. Recursion is bounded by the depth of the document, which was checked before.
    fn add_schema(&mut self, schema: &'s Value, pointer: String, limits: &GateLimits) -> Result<(), SchemaError> {
        if self.schemas.len() >= limits.schema_nodes {
            let limit = limits.schema_nodes as u64;
            return Err(SchemaError::TooLarge { pointer, what: "subschemas", found: limit + 1, limit });
        }
        self.schemas.insert(pointer.clone(), schema);
        if let Some(map) = schema.as_object() {
            check_keywords(map, &pointer)?;
            self.add_anchors(map, &pointer)?;
            self.add_patterns(map, &pointer, limits)?;
            for subschema in subschemas(map) {
                self.add_schema(subschema.schema, format!("{pointer}{}", subschema.suffix), limits)?;
            }
        }
        Ok(())
    }

    fn add_anchors(&mut self, map: &'s Map<String, Value>, pointer: &str) -> Result<(), SchemaError> {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            let Some(name) = map.get(keyword).and_then(Value::as_str) else {
                continue;
            };
            match self.anchors.insert(name, pointer.to_owned()) {
                Some(other) if other != pointer => {
                    let instead = "another schema has the same name; give each anchor a different name";
                    let keyword = if keyword == "$anchor" { "$anchor" } else { "$dynamicAnchor" };
                    return Err(SchemaError::Keyword { pointer: pointer.to_owned(), keyword, instead });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_patterns(
        &mut self,
        map: &'s Map<String, Value>,
        pointer: &str,
        limits: &GateLimits,
    ) -> Result<(), SchemaError> {
        let own = map.get("pattern").and_then(Value::as_str);
        let named = map.get("patternProperties").and_then(Value::as_object);
        for pattern in own.into_iter().chain(named.into_iter().flat_map(|named| named.keys().map(String::as_str))) {
            let length = pattern.chars().count();
            if length > limits.pattern_chars {
                return Err(SchemaError::TooLarge {
                    pointer: pointer.to_owned(),
                    what: "characters in one pattern",
                    found: length as u64,
                    limit: limits.pattern_chars as u64,
                });
            }
            self.patterns.entry(pattern).or_insert_with(|| pointer.to_owned());
            if self.patterns.len() > limits.patterns {
                return Err(SchemaError::TooLarge {
                    pointer: pointer.to_owned(),
                    what: "different patterns",
                    found: self.patterns.len() as u64,
                    limit: limits.patterns as u64,
                });
            }
        }
        Ok(())
    }

    /// Returns the target of `reference`, which is in the schema at `pointer`.
    pub(super) fn resolve(&self, pointer: &str, reference: &Value) -> Result<(String, &'s Value), SchemaError> {
        let refused =
            |why| SchemaError::Reference { pointer: pointer.to_owned(), reference: format_value(reference), why };
        let Some(fragment) = reference.as_str().and_then(|text| text.strip_prefix('#')) else {
            return Err(refused("leads out of the document"));
        };
        let Some(fragment) = percent_decode(fragment) else {
            return Err(refused("is not a proper fragment"));
        };
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            // Normalized, so that two spellings of one location are equal.
            fragment.split('/').skip(1).fold(String::new(), |path, step| path + "/" + &escape(&unescape(step)))
        } else {
            let anchor = self.anchors.get(fragment.as_str());
            anchor.ok_or_else(|| refused("names an unknown anchor"))?.clone()
        };
        match self.schemas.get(&target) {
            Some(schema) => Ok((target, schema)),
            None => Err(refused("does not lead to a schema")),
        }
    }

    /// Returns the targets of a schema's own references. [`Source::survey`] has rejected references that lead nowhere.
    pub(super) fn targets(&self, schema: &Value) -> Vec<(String, &'s Value)> {
        references(schema).filter_map(|(_, reference)| self.resolve("", reference).ok()).collect()
    }
}

fn references(schema: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    REFERENCES.into_iter().filter_map(|keyword| Some((keyword, schema.as_object()?.get(keyword)?)))
}

fn check_dialect(root: &Value) -> Result<(), SchemaError> {
    match root.as_object().and_then(|map| map.get("$schema")) {
        None => Ok(()),
        Some(Value::String(uri)) if ACCEPTED_DIALECTS.contains(&uri.as_str()) => Ok(()),
        Some(Value::String(uri)) => Err(SchemaError::Dialect { given: super::format::truncate(uri, 80) }),
        Some(other) => Err(SchemaError::Dialect { given: format_value(other) }),
    }
}

/// Rejects keywords that would change the meaning of references, or that only older drafts have.
fn check_keywords(map: &Map<String, Value>, pointer: &str) -> Result<(), SchemaError> {
    let refused = |keyword, instead| Err(SchemaError::Keyword { pointer: pointer.to_owned(), keyword, instead });
    if map.contains_key("$id") && !pointer.is_empty() {
        return refused("$id", "only the root of a schema may have an `$id`: use $defs and $ref");
    }
    if map.contains_key("$schema") && !pointer.is_empty() {
        return refused("$schema", "only the root of a schema may name its dialect");
    }
    for (keyword, instead) in [
        ("$vocabulary", "it is for meta-schemas: leave it out"),
        ("$recursiveRef", "it is from draft 2019-09: use $ref"),
        ("dependencies", "it is from an older draft: use dependentRequired or dependentSchemas"),
        ("additionalItems", "it is from an older draft: use prefixItems and items"),
    ] {
        if map.contains_key(keyword) {
            return refused(keyword, instead);
        }
    }
    Ok(())
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Decodes percent-encoding (RFC 3986, section 2.1). Returns `None` for an incomplete escape or invalid UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
