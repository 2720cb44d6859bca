//! From bytes to compiled code, with whatever may be wrong with the bytes told apart.

use fumehood_core::digest::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::{CacheReport, CodeCache, Lookup};
use crate::load_error::{LoadError, SLOW_COMPILE_BYTES};

/// `\0asm`, and what tells a component from a core module.
const MAGIC: &[u8] = b"\0asm";
const COMPONENT_LAYER: [u8; 4] = [0x0d, 0x00, 0x01, 0x00];
const MODULE_VERSION: [u8; 4] = [0x01, 0x00, 0x00, 0x00];

/// Looks at the first bytes, so that the common mistakes get an answer of their own.
pub(crate) fn recognise(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let start = String::from_utf8_lossy(bytes.get(..64).unwrap_or(bytes)).into_owned();
        return Err(if start.trim_start().starts_with('(') { LoadError::Text } else { LoadError::NotWasm });
    };
    match rest.first_chunk::<4>() {
        Some(&COMPONENT_LAYER) => Ok(()),
        Some(&MODULE_VERSION) => Err(LoadError::CoreModule),
        Some(other) => Err(LoadError::Version(*other)),
        None => Err(LoadError::Malformed("it ends in the middle of its header".to_owned())),
    }
}

/// The compiled component: from the cache if it is there, otherwise compiled now and kept.
pub(crate) fn compile(
    engine: &Engine,
    cache: Option<&CodeCache>,
    digest: &Digest,
    bytes: &[u8],
    allow_slow: bool,
) -> Result<(Component, CacheReport), LoadError> {
    let slow = !allow_slow && bytes.len() > SLOW_COMPILE_BYTES;
    let from_binary = |bytes: &[u8]| {
        if slow { Err(LoadError::SlowCompile(bytes.len())) } else { from_binary(engine, bytes) }
    };
    let Some(cache) = cache else {
        return Ok((from_binary(bytes)?, CacheReport::Off));
    };
    let damage = match cache.load(engine, digest) {
        Lookup::Hit(component) => return Ok((component, CacheReport::Hit)),
        Lookup::Missing => None,
        Lookup::Damaged(reason) => Some(reason),
    };
    let component = from_binary(bytes)?;
    let stored = component
        .serialize()
        .map_err(|error| error.to_string())
        .and_then(|code| cache.store(engine, digest, &code).map_err(|error| error.to_string()));
    let report = match (damage, stored) {
        (Some(reason), _) => CacheReport::Damaged(reason),
        (None, Ok(())) => CacheReport::Stored,
        (None, Err(reason)) => CacheReport::NotStored(reason),
    };
    Ok((component, report))
}

fn from_binary(engine: &Engine, bytes: &[u8]) -> Result<Component, LoadError> {
    Component::from_binary(engine, bytes).map_err(|error| {
        let cause = error.chain().last().map_or_else(String::new, ToString::to_string);
        let cut_or_appended =
            ["unexpected end", "unexpected-end", "out of bounds"].iter().any(|sign| cause.contains(sign));
        let hint = if cut_or_appended { " (is the file complete, and nothing appended to it?)" } else { "" };
        LoadError::Malformed(format!("{}{hint}", crate::outcome::cut(&cause)))
    })
}
