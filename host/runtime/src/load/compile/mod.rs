//! Compilation of components: recognition, limits, the code cache and the compiler process.

mod compiler;
mod limits;
mod prescan;
mod process;
mod proposals;
mod serve;
mod types;
mod wire;

use std::panic::AssertUnwindSafe;

use fumehood_core::digest::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use prescan::{LimitExceeded, ScanError};
use proposals::DisabledProposal;

use crate::engine::guest_runtime::panic_message;
use crate::load::Isolation;
use crate::load::cache::{AuthenticCode, CacheReport, CodeCache, CodeLookup, ComponentLookup, FreshCode, map_fresh};
use crate::load::error::{LoadError, SLOW_COMPILE_BYTES};

pub use compiler::Compiler;
pub(crate) use compiler::{CompileJob, CompileService};
pub use limits::{CompileBudget, CompileLimits};
pub use serve::serve_compiler;
pub(crate) use wire::engine_id;

/// The factor by which limits and budget grow for a component that is allowed to compile slowly.
pub(crate) const SLOW_FACTOR: u32 = 8;

/// The first bytes of WebAssembly, followed by the version and layer that distinguish components from core modules.
const MAGIC: &[u8] = b"\0asm";
/// The first bytes of archives of object files, and of native programs and libraries for Linux.
const ARCHIVE: &[u8] = b"!<arch>\n";
const ELF: &[u8] = b"\x7fELF";
const COMPONENT_LAYER: [u8; 4] = [0x0d, 0x00, 0x01, 0x00];
const MODULE_VERSION: [u8; 4] = [0x01, 0x00, 0x00, 0x00];

/// Returns whether these bytes are a core module.
pub(crate) fn is_module(bytes: &[u8]) -> bool {
    bytes.strip_prefix(MAGIC).is_some_and(|rest| rest.starts_with(&MODULE_VERSION))
}

/// Checks the first bytes, so that common mistakes get specific errors.
pub(crate) fn recognise(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    if bytes.starts_with(ARCHIVE) {
        return Err(LoadError::Archive);
    }
    if bytes.starts_with(ELF) {
        return Err(LoadError::Native);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let start = String::from_utf8_lossy(bytes.get(..64).unwrap_or(bytes)).into_owned();
        return Err(if start.trim_start().starts_with('(') { LoadError::Text } else { LoadError::NotWasm });
    };
    match rest.first_chunk::<4>() {
        Some(&COMPONENT_LAYER) => Ok(()),
        Some(&MODULE_VERSION) => Err(LoadError::CoreModule),
        Some(other) => Err(LoadError::Version(*other)),
        None => Err(LoadError::Malformed("its header is incomplete".to_owned())),
    }
}

/// A compiled component, and the outcome of the cache.
pub(crate) type Compiled = (Component, CacheReport);

/// The result of [`start`]: code from the cache, or a component that has to be compiled.
pub(crate) enum Start {
    Cached(Component),
    /// Code for a worker process, which is not mapped here.
    CachedCode(AuthenticCode),
    Compile {
        /// The reason that cached code was not used, if there was any.
        damage: Option<String>,
    },
}

/// Looks for the code in the cache. If there is none, checks that compiling the component stays within `limits`.
pub(crate) fn start(
    engine: &Engine,
    cache: Option<&CodeCache>,
    digest: &Digest,
    bytes: &[u8],
    limits: &CompileLimits,
    allow_slow: bool,
    isolation: Isolation,
) -> Result<Start, LoadError> {
    let found = look_up(engine, cache, digest, isolation);
    if matches!(found, Start::Compile { .. }) {
        admit(bytes, limits, allow_slow)?;
    }
    Ok(found)
}

/// Looks for the code in the cache.
pub(crate) fn look_up(engine: &Engine, cache: Option<&CodeCache>, digest: &Digest, isolation: Isolation) -> Start {
    let damage = match (cache, isolation) {
        (None, _) => None,
        (Some(cache), Isolation::InProcess | Isolation::InProcessIfSynchronous) => match cache.load(engine, digest) {
            ComponentLookup::Hit(component) => return Start::Cached(component),
            ComponentLookup::Damaged(reason) => Some(reason),
            ComponentLookup::Missing => None,
        },
        (Some(cache), Isolation::Process | Isolation::ProcessPerActor) => match cache.find(engine, digest) {
            CodeLookup::Code(code) => return Start::CachedCode(code),
            CodeLookup::Damaged(reason) => Some(reason),
            CodeLookup::Missing => None,
        },
    };
    Start::Compile { damage }
}

/// Checks that compiling a component stays within `limits`.
///
/// # Errors
/// If it does not, or the component is malformed or uses a proposal that is off.
pub(crate) fn admit(bytes: &[u8], limits: &CompileLimits, allow_slow: bool) -> Result<(), LoadError> {
    if bytes.len() > SLOW_COMPILE_BYTES && !allow_slow {
        return Err(LoadError::SlowCompile(bytes.len()));
    }
    let limits = if allow_slow { limits.times(SLOW_FACTOR.into()) } else { *limits };
    match prescan::scan(bytes, &limits) {
        Ok(_counts) => Ok(()),
        Err(ScanError::Malformed(error)) => Err(malformed_error(error)),
        Err(ScanError::Disabled(DisabledProposal { proposal, offset })) => {
            Err(LoadError::Proposal { proposal, offset })
        }
        Err(ScanError::LimitExceeded(LimitExceeded { what, found, limit })) => {
            Err(LoadError::TooComplex { what, found, limit })
        }
    }
}

/// Returns the error for bytes that cannot be parsed.
pub(crate) fn malformed_error(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(wire::describe_parser_error(&error.to_string()))
}

/// Runs the engine's compiler. It holds no state of ours, so nothing is left half changed.
fn catch_panic<T>(compile: impl FnOnce() -> T) -> Result<T, LoadError> {
    std::panic::catch_unwind(AssertUnwindSafe(compile))
        .map_err(|panic| LoadError::CompilerPanicked(panic_message(panic.as_ref())))
}

/// Compiles a component in this process.
pub(crate) fn compile_in_process(
    engine: &Engine,
    cache: Option<&CodeCache>,
    digest: &Digest,
    bytes: &[u8],
    damage: Option<String>,
) -> Result<Compiled, LoadError> {
    let component = catch_panic(|| Component::from_binary(engine, bytes))?
        .map_err(|error| LoadError::Malformed(wire::describe_malformed(&error)))?;
    let Some(cache) = cache else { return Ok((component, CacheReport::Off)) };
    let stored = component
        .serialize()
        .map_err(|error| error.to_string())
        .and_then(|code| cache.store(engine, digest, code.as_slice()).map_err(|error| error.to_string()));
    Ok((component, report(damage, stored)))
}

/// Maps code that a separate process has compiled: from the cache if there is one, so that it takes no memory of its
/// own.
pub(crate) fn load_from_child(
    engine: &Engine,
    cache: Option<&CodeCache>,
    digest: &Digest,
    code: &FreshCode,
    damage: Option<String>,
) -> Result<Compiled, LoadError> {
    let stored = match cache {
        None => CacheReport::Off,
        Some(cache) => report(damage, cache.store_fresh(engine, digest, code).map_err(|error| error.to_string())),
    };
    if let Some(ComponentLookup::Hit(component)) = cache.map(|cache| cache.load(engine, digest)) {
        return Ok((component, stored));
    }
    let component = map_fresh(engine, code);
    let component =
        component.map_err(|error| LoadError::Compiler(format!("its code is not for this host: {error:#}")))?;
    Ok((component, stored))
}

/// Prepares code for a worker process, and compiles it in this process if `code` is `None`.
pub(crate) fn prepare_for_worker(
    engine: &Engine,
    cache: Option<&CodeCache>,
    digest: &Digest,
    bytes: &[u8],
    code: Option<FreshCode>,
    damage: Option<String>,
) -> Result<(AuthenticCode, CacheReport), LoadError> {
    let code = match code {
        Some(code) => code,
        None => {
            let code = catch_panic(|| engine.precompile_component(bytes))?;
            let code = code.map_err(|error| LoadError::Malformed(wire::describe_malformed(&error)))?;
            let received = FreshCode::receive(code.as_slice(), code.len() as u64);
            received.map_err(|error| LoadError::Host(error.to_string()))?
        }
    };
    let stored = match cache {
        None => CacheReport::Off,
        Some(cache) => report(damage, cache.store_fresh(engine, digest, &code).map_err(|error| error.to_string())),
    };
    Ok((code.into_authentic(), stored))
}

fn report(damage: Option<String>, stored: Result<(), String>) -> CacheReport {
    match (damage, stored) {
        (Some(reason), _) => CacheReport::Damaged(reason),
        (None, Ok(())) => CacheReport::Stored,
        (None, Err(reason)) => CacheReport::NotStored(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_compiler_is_an_error_that_says_whose_fault_it_is() {
        let error = catch_panic(|| -> () { panic!("boom") }).unwrap_err().to_string();
        assert!(error.starts_with("the compiler panicked (`boom`). That is a fault of this host"), "{error}");
    }
}
