//! The schema gate: schemas and documents from the keywords of JSON Schema, and texts that are nearly JSON.

use std::time::{Duration, Instant};

use fumehood::{ForeignSchema, Gate, GateLimits};
use serde_json::{Map, Value, json};

use super::cases::{Random, run};

/// Maximum time of a check on a busy machine: a schema that could take longer is refused.
const PATIENCE: Duration = Duration::from_secs(10);
const DEPTH: usize = 5;

const KEYWORDS: [&str; 40] = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "$id",
    "unevaluatedProperties",
    "unevaluatedItems",
];

const TEXTS: [&str; 16] = [
    "",
    "a",
    "b",
    "object",
    "array",
    "integer",
    "string",
    "null",
    "#",
    "#/$defs/a",
    "#/properties/b",
    "^a+$",
    "(a|b)*",
    "(a{1,99}){1,99}",
    "https://example.com/x",
    "\u{202e}\u{1f600}",
];

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.below(5)),
        3 => json!(random.number() as i64),
        4 => json!(f64::from(random.number() as u32) / 8.0 - 1000.0),
        5 => json!(random.pick(&TEXTS)),
        6 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let count = random.below(4);
            Value::Object((0..count).map(|_| (random.pick(&TEXTS).to_string(), value(random, depth - 1))).collect())
        }
    }
}

fn schema(random: &mut Random, depth: usize) -> Value {
    let mut members = Map::new();
    for _ in 0..=random.below(5) {
        let keyword = *random.pick(&KEYWORDS);
        let meant = depth > 0 && random.below(4) > 0;
        let inner = if meant { meant_for(keyword, random, depth - 1) } else { value(random, depth.min(2)) };
        members.insert(keyword.to_owned(), inner);
    }
    Value::Object(members)
}

/// Returns a plausible value for a keyword, so that not every schema is refused for its shape.
fn meant_for(keyword: &str, random: &mut Random, depth: usize) -> Value {
    match keyword {
        "type" => json!(random.pick(&["object", "array", "integer", "number", "string", "boolean", "null"])),
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" => {
            let count = random.below(3);
            Value::Object((0..count).map(|_| (random.pick(&TEXTS).to_string(), schema(random, depth))).collect())
        }
        "prefixItems" | "allOf" | "anyOf" | "oneOf" => (0..=random.below(3)).map(|_| schema(random, depth)).collect(),
        "required" => json!([random.pick(&TEXTS)]),
        "enum" => json!([value(random, 1), value(random, 1)]),
        "const" => value(random, 2),
        "pattern" | "format" | "$ref" | "$id" => json!(random.pick(&TEXTS)),
        "uniqueItems" => json!(true),
        "dependentRequired" => json!({*random.pick(&TEXTS): [random.pick(&TEXTS)]}),
        "items"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedProperties"
        | "unevaluatedItems" => schema(random, depth),
        _ => json!(random.below(9)),
    }
}

#[test]
fn schemas_and_documents() {
    let mut accepted = 0_u64;
    let mut passed = 0_u64;
    run("schemas and documents", |random| {
        let schema = schema(random, DEPTH);
        let started = Instant::now();
        let limits = GateLimits::default;
        // A foreign schema is always accepted, and checked as far as it can be read.
        let foreign = Gate::for_foreign_arguments(&ForeignSchema::translate(&schema, &limits()), limits());
        let foreign = foreign.unwrap_or_else(|error| panic!("{error}: {schema}")).gate;
        for gate in [Gate::for_arguments(&schema, limits()), Gate::for_results(&schema, limits()), Ok(foreign)] {
            let Ok(gate) = gate else { continue };
            accepted += 1;
            for _ in 0..4 {
                let document = value(random, 3);
                let verdict = gate.check(&document);
                passed += u64::from(verdict.is_ok());
                // Parsed from its text, the document has the same verdict.
                let text = document.to_string();
                assert_eq!(gate.parse(&text).is_ok(), verdict.is_ok(), "{schema} {text}");
                let _any = gate.parse(&broken(&text, random));
                if let Err(violations) = verdict {
                    assert!(!violations.to_string().is_empty(), "{schema} {text}");
                }
            }
        }
        assert!(started.elapsed() < PATIENCE, "{schema}");
    });
    println!("{accepted} schemas accepted, {passed} documents passed");
}

/// Returns the text with a piece removed or inserted.
fn broken(text: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = random.below(characters.len().max(1));
    let pieces = ["\"", "{", "[", "\\ud800", "1e999", ",", "\u{0}", "9007199254740993.0", "[[[[[[[[", "//"];
    if random.below(2) == 0 && at < characters.len() {
        characters.remove(at);
    } else {
        characters.splice(at..at, random.pick(&pieces).chars());
    }
    characters.into_iter().collect()
}
