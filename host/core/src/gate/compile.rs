//! From an untrusted schema to a gate, cheapest refusals first.

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
use super::{Gate, GateLimits, bounds, keywords, preparation};

/// Compiles `schema`; `arguments` makes the root an object and closes it.
pub(super) fn compile_gate(schema: &Value, limits: GateLimits, arguments: bool) -> Result<Gate, SchemaError> {
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
    let mut graph = SchemaGraph::build(&source, arguments, &limits)?;
    if arguments {
        graph.require_object();
    }
    let costs = Costs::compute(&graph, &patterns, &limits)?;
    preparation::check(&graph)?;
    // Only now, for a schema that merely refers to itself describes nothing, and a circle is the better thing to say.
    if arguments && !Closer::new(&source).is_about_objects(source.root) {
        return Err(SchemaError::RootNotObject { found: describe_root(schema) });
    }
    let validator = validator_options(&limits).build(&graph.to_schema()).map_err(|_| {
        // The meta-schema had nothing against it, and the place is lost: references were renamed by then.
        SchemaError::Malformed { pointer: String::new(), given: format_value(schema) }
    })?;
    Ok(Gate { validator, graph, patterns, costs, limits })
}

/// The meta-schema's opinion of the schema as it was written.
fn check_meta_schema(schema: &Value) -> Result<(), SchemaError> {
    jsonschema::draft202012::meta::validate(schema).map_err(|error| {
        let pointer = error.instance_path().as_str().to_owned();
        SchemaError::Malformed { pointer, given: format_value(error.instance()) }
    })
}

/// Whether the root has no keyword that asserts, composes or refers.
fn is_blank(schema: &Value) -> bool {
    schema.as_object().is_some_and(|map| {
        let acts = |keyword: &str| ASSERTIONS.contains(&keyword) || REFERENCES.contains(&keyword);
        !map.keys().any(|keyword| acts(keyword))
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

/// Nothing outside the document is ever fetched, even if a reference should slip through.
struct DenyAll;

impl Retrieve for DenyAll {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema refers to nothing outside itself".into())
    }
}

/// Each pattern by itself, so that a failure can name it.
fn compile_patterns(source: &Source<'_>, limits: &GateLimits) -> Result<Patterns, SchemaError> {
    let compile = |(pattern, pointer): (&&str, &String)| -> Result<_, SchemaError> {
        let (validator, steps) = compile_pattern(pattern, limits).ok_or_else(|| SchemaError::Pattern {
            pointer: pointer.clone(),
            pattern: quote(pattern),
            why: format!(
                "is not accepted: it is malformed, uses look-around or back-references, or compiles to more than {} \
                 bytes; write a simpler one",
                limits.pattern_bytes
            ),
        })?;
        Ok(((*pattern).to_owned(), (validator, steps)))
    };
    let compiled: Result<_, _> = source.patterns.iter().map(compile).collect();
    compiled.map(Patterns)
}

/// Whether a pattern is accepted.
pub(super) fn can_compile_pattern(pattern: &str, limits: &GateLimits) -> bool {
    pattern.chars().count() <= limits.pattern_chars && compile_pattern(pattern, limits).is_some()
}

/// Matching takes time linear in the text, but also, at worst, in the compiled pattern; how large that is can only be
/// told by asking for less and less. On a slow machine a step is some 50 ns, which is what 512 bytes of pattern take.
fn compile_pattern(pattern: &str, limits: &GateLimits) -> Option<(Validator, u64)> {
    let sizes = PATTERN_SIZES_BYTES.into_iter().filter(|size| *size < limits.pattern_bytes);
    sizes.chain([limits.pattern_bytes]).find_map(|pattern_bytes| {
        let limits = GateLimits { pattern_bytes, ..limits.clone() };
        let validator = validator_options(&limits).build(&json!({ "pattern": pattern })).ok()?;
        Some((validator, (pattern_bytes as u64).div_ceil(PATTERN_BYTES_PER_STEP)))
    })
}

/// Sizes of compiled patterns that are told apart, in bytes.
const PATTERN_SIZES_BYTES: [usize; 4] = [2 << 10, 8 << 10, 32 << 10, 128 << 10];

/// Bytes of a compiled pattern that match one byte of text in one step.
const PATTERN_BYTES_PER_STEP: u64 = 512;
