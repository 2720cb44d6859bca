//! From an untrusted schema to a gate, cheapest refusals first.

use jsonschema::{Draft, PatternOptions, Retrieve, Uri, ValidationOptions, Validator};
use serde_json::{Value, json};

use super::assertions::Patterns;
use super::closing::Closer;
use super::cost::Costs;
use super::error::SchemaError;
use super::format::{quoted, shortened};
use super::keywords::{ASSERTIONS, REFERENCES};
use super::outline::Outline;
use super::source::Source;
use super::{Gate, GateLimits, bounds, keywords, preparation};

/// Compiles `schema`; `arguments` makes the root an object and closes it.
pub(super) fn gate(schema: &Value, limits: GateLimits, arguments: bool) -> Result<Gate, SchemaError> {
    bounds::check(schema, &limits)?;
    let source = Source::survey(schema, &limits)?;
    well_formed(schema)?;
    let silent = json!({ "type": "object" });
    let empty;
    let source = if arguments && says_nothing(schema) {
        empty = Source::survey(&silent, &limits)?;
        empty
    } else {
        source
    };
    let patterns = patterns(&source, &limits)?;
    let mut outline = Outline::build(&source, arguments, &limits)?;
    if arguments {
        outline.require_object();
    }
    let costs = Costs::of(&outline, &patterns, &limits)?;
    preparation::check(&outline)?;
    // Only now, for a schema that merely refers to itself describes nothing, and a circle is the better thing to say.
    if arguments && !Closer::new(&source).describes_object(source.root) {
        return Err(SchemaError::RootNotObject { found: found_at_root(schema) });
    }
    let validator = options(&limits).build(&outline.document()).map_err(|_| {
        // The meta-schema had nothing against it, and the place is lost: references were renamed by then.
        SchemaError::Malformed { pointer: String::new(), given: shortened(schema) }
    })?;
    Ok(Gate { validator, outline, patterns, costs, limits })
}

/// The meta-schema's opinion of the schema as it was written.
fn well_formed(schema: &Value) -> Result<(), SchemaError> {
    jsonschema::draft202012::meta::validate(schema).map_err(|error| {
        let pointer = error.instance_path().as_str().to_owned();
        SchemaError::Malformed { pointer, given: shortened(error.instance()) }
    })
}

/// Whether the root has no keyword that asserts, composes or refers.
fn says_nothing(schema: &Value) -> bool {
    schema.as_object().is_some_and(|map| {
        let speaks = |keyword: &str| ASSERTIONS.contains(&keyword) || REFERENCES.contains(&keyword);
        !map.keys().any(|keyword| speaks(keyword)) && keywords::held(map).iter().all(|held| held.role.is_none())
    })
}

fn found_at_root(schema: &Value) -> String {
    match schema.get("type") {
        Some(kind) => format!("its type is {}", shortened(kind)),
        None => shortened(schema),
    }
}

fn options<'i>(limits: &GateLimits) -> ValidationOptions<'i> {
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
fn patterns(source: &Source<'_>, limits: &GateLimits) -> Result<Patterns, SchemaError> {
    let compile = |(pattern, pointer): (&&str, &String)| -> Result<_, SchemaError> {
        let (validator, steps) = sized(pattern, limits).ok_or_else(|| SchemaError::Pattern {
            pointer: pointer.clone(),
            pattern: quoted(pattern),
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
    pattern.chars().count() <= limits.pattern_chars && sized(pattern, limits).is_some()
}

/// Matching takes time linear in the text, but also, at worst, in the compiled pattern; how large that is can only be
/// told by asking for less and less. On a slow machine a step is some 50 ns, which is what 512 bytes of pattern take.
fn sized(pattern: &str, limits: &GateLimits) -> Option<(Validator, u64)> {
    let sizes = PATTERN_SIZES.into_iter().filter(|size| *size < limits.pattern_bytes);
    sizes.chain([limits.pattern_bytes]).find_map(|pattern_bytes| {
        let limits = GateLimits { pattern_bytes, ..limits.clone() };
        let validator = options(&limits).build(&json!({ "pattern": pattern })).ok()?;
        Some((validator, (pattern_bytes as u64).div_ceil(PATTERN_STEP)))
    })
}

/// Sizes of compiled patterns that are told apart, in bytes.
const PATTERN_SIZES: [usize; 4] = [2 << 10, 8 << 10, 32 << 10, 128 << 10];

/// Bytes of a compiled pattern that match one byte of text in one step.
const PATTERN_STEP: u64 = 512;
