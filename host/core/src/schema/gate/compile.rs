//! Compilation of an untrusted schema into a gate. The cheapest checks run first.

use jsonschema::{Draft, PatternOptions, Retrieve, Uri, ValidationOptions, Validator};
use serde_json::{Value, json};

use super::assertions::Patterns;
use super::closing::Closer;
use super::cost::Costs;
use super::error::SchemaError;
use super::format::{format_value, quote};
use super::graph::SchemaGraph;
use super::keywords::{ASSERTIONS, REFERENCES};
use super::source::Source;
use super::streaming::StreamingSchema;
use super::{Gate, GateLimits, bounds, keywords, preparation};

/// The documents that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Arguments of a tool: an object, and closed.
    Arguments,
    /// Arguments of a tool of an MCP server: an object, and closed only where the schema says so.
    ForeignArguments,
    /// Results: any value.
    Results,
}

pub(super) fn compile_gate(schema: &Value, limits: GateLimits, usage: Use) -> Result<Gate, SchemaError> {
    let arguments = usage != Use::Results;
    bounds::check(schema, &limits)?;
    let source = Source::survey(schema, &limits)?;
    check_meta_schema(schema)?;
    let any_object = json!({ "type": "object" });
    let empty;
    let source = if arguments && is_blank(schema) {
        empty = Source::survey(&any_object, &limits)?;
        empty
    } else {
        source
    };
    let patterns = compile_patterns(&source, &limits)?;
    let mut graph = SchemaGraph::build(&source, usage == Use::Arguments, &limits)?;
    if arguments {
        graph.require_object();
    }
    let costs = Costs::compute(&graph, &patterns, &limits)?;
    preparation::check(&graph)?;
    // After the search for cycles: for a schema that only refers to itself, the cycle is the better error.
    if arguments && !Closer::new(&source).is_about_objects(source.root) {
        return Err(SchemaError::RootNotObject { found: describe_root(schema) });
    }
    let validator = validator_options(&limits).build(&graph.to_schema()).map_err(|_| {
        // The meta-schema accepted it, and the location is lost because references have been renamed.
        SchemaError::Malformed { pointer: String::new(), given: format_value(schema) }
    })?;
    let streaming = StreamingSchema::of(&graph);
    Ok(Gate { validator, graph, patterns, costs, streaming, limits })
}

/// Checks the schema, as written, against the meta-schema.
fn check_meta_schema(schema: &Value) -> Result<(), SchemaError> {
    jsonschema::draft202012::meta::validate(schema).map_err(|error| {
        let pointer = error.instance_path().as_str().to_owned();
        SchemaError::Malformed { pointer, given: format_value(error.instance()) }
    })
}

/// Returns whether the root has no assertion, applicator or reference.
fn is_blank(schema: &Value) -> bool {
    schema.as_object().is_some_and(|map| {
        !map.keys().any(|keyword| ASSERTIONS.contains(&keyword.as_str()) || REFERENCES.contains(&keyword.as_str()))
            && keywords::subschemas(map).iter().all(|subschema| subschema.role.is_none())
    })
}

fn describe_root(schema: &Value) -> String {
    match schema.get("type") {
        Some(kind) => format!("its type is {}", format_value(kind)),
        None => format_value(schema),
    }
}

fn validator_options<'i>(limits: &GateLimits) -> ValidationOptions<'i> {
    let engine = PatternOptions::regex().size_limit(limits.pattern_bytes).dfa_size_limit(limits.pattern_cache_bytes);
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_retriever(DenyAll)
        .should_validate_formats(false)
        .with_pattern_options(engine)
}

/// A retriever that fetches nothing, so that a reference out of the document fails even if the survey misses it.
struct DenyAll;

impl Retrieve for DenyAll {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema refers to nothing outside itself".into())
    }
}

/// Compiles each pattern by itself, so that an error can name it.
fn compile_patterns(source: &Source<'_>, limits: &GateLimits) -> Result<Patterns, SchemaError> {
    let compiled: Result<_, _> = source
        .patterns
        .iter()
        .map(|(pattern, pointer)| {
            let compiled = compile_pattern(pattern, limits).ok_or_else(|| SchemaError::Pattern {
            pointer: pointer.clone(),
            pattern: quote(pattern),
            why: format!(
                "is not accepted: it is malformed, uses look-around or back-references, or compiles to more than {} \
                 bytes; write a simpler one",
                limits.pattern_bytes
            ),
        })?;
            Ok(((*pattern).to_owned(), compiled))
        })
        .collect();
    compiled.map(Patterns)
}

/// Returns whether a pattern is accepted.
pub(super) fn can_compile_pattern(pattern: &str, limits: &GateLimits) -> bool {
    pattern.chars().count() <= limits.pattern_chars && compile_pattern(pattern, limits).is_some()
}

/// Compiles a pattern and returns it with the maximum steps to match one byte of text.
///
/// Matching takes time linear in the text and, in the worst case, in the compiled pattern. The engine does not report
/// the size of a compiled pattern, so it is found by trying increasing limits. A step takes some 50 ns on a slow
/// machine, the time of 512 bytes of pattern.
fn compile_pattern(pattern: &str, limits: &GateLimits) -> Option<(Validator, u64)> {
    let sizes = PATTERN_SIZES_BYTES.into_iter().filter(|size| *size < limits.pattern_bytes);
    sizes.chain([limits.pattern_bytes]).find_map(|pattern_bytes| {
        let limits = GateLimits { pattern_bytes, ..limits.clone() };
        let validator = validator_options(&limits).build(&json!({ "pattern": pattern })).ok()?;
        Some((validator, (pattern_bytes as u64).div_ceil(PATTERN_BYTES_PER_STEP)))
    })
}

/// Sizes of compiled patterns that are tried, in bytes, below the limit.
const PATTERN_SIZES_BYTES: [usize; 4] = [2 << 10, 8 << 10, 32 << 10, 128 << 10];

/// Bytes of a compiled pattern that match one byte of text in one step.
const PATTERN_BYTES_PER_STEP: u64 = 512;
