//! From the bytes of a component to tools that can be called.

use std::time::{Duration, Instant};

use fumehood_core::definition::{DefinitionError, DefinitionLimits, ToolDefinition, check_set};
use fumehood_core::digest::Digest;
use fumehood_core::grant::Grant;
use fumehood_core::limits::{Limits, display_bytes};
use fumehood_core::result::CallError;

use crate::ACCEPTED_CONTRACT;
use crate::cache::CacheReport;
use crate::component::{Component, ComponentParts, Input, Output, Runnable};
use crate::dialect::{self, Callable, Dialect, Skipped, typed};
use crate::guest_runtime::Lost;
use crate::imports::Import;
use crate::sandbox::{Invocation, Sandbox};

/// The largest component that is looked at, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 256 << 20;
/// A component larger than this is compiled only if the caller allows it: it takes many seconds.
pub const SLOW_COMPILE_BYTES: usize = 16 << 20;

/// How a component is to be loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Limits of the call that asks the component for its tools.
    pub limits: Limits,
    /// Caps on what it may say about them.
    pub definitions: DefinitionLimits,
    /// What it may do, when its tools are called.
    pub grant: Grant,
    /// Whether a component that takes long to compile is compiled all the same.
    pub allow_slow_compile: bool,
}

/// Why a component is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There are no bytes.
    #[error("the component is empty (0 bytes)")]
    Empty,
    /// Too many bytes to look at.
    #[error("the component has {}; at most {} are accepted", display_bytes(*.0), display_bytes(MAX_COMPONENT_BYTES as u64))]
    TooLarge(u64),
    /// It would take long to compile.
    #[error(
        "the component has {}; compiling more than {} takes many seconds and is done only when it is allowed \
         (`--allow-slow-compile`)", display_bytes(*.0 as u64), display_bytes(SLOW_COMPILE_BYTES as u64)
    )]
    SlowCompile(usize),
    /// The text format.
    #[error("this is WebAssembly text, not a component; build a binary first, for example with `wasm-tools parse`")]
    Text,
    /// Something else entirely.
    #[error("this is not WebAssembly: a component begins with `\\0asm`")]
    NotWasm,
    /// A core module.
    #[error(
        "this is a core WebAssembly module, not a component; build for `wasm32-wasip2`, or turn it into a component \
         with `wasm-tools component new`"
    )]
    CoreModule,
    /// Machine code.
    #[error(
        "this is precompiled machine code, which is never accepted because it would run unchecked; give the component \
         that it was made from"
    )]
    Precompiled,
    /// Some other version of the binary format.
    #[error("this WebAssembly has an unknown version or layer ({0:02x?}); a component has [0d, 00, 01, 00]")]
    Version([u8; 4]),
    /// The engine refuses it.
    #[error("the component is malformed or uses what this host does not support: {0}")]
    Malformed(String),
    /// It was built for another version of the contract.
    #[error(
        "the component was built for version {found} of the contract `fumehood:tool`; this host accepts \
         {ACCEPTED_CONTRACT}. Rebuild it with a matching `fumehood-guest`"
    )]
    ContractVersion {
        /// The version that the component names.
        found: String,
    },
    /// It asks for something that this host does not have.
    #[error("the component imports what this host does not provide: {}", .0.join(", "))]
    UnknownImport(Vec<String>),
    /// It does not fit what the host links.
    #[error("the component does not fit this host's interfaces: {0}")]
    Link(String),
    /// It failed to say which tools it has.
    #[error("the component could not describe its tools: {0}")]
    Describe(CallError),
    /// What it says about its tools is not acceptable.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Its exports cannot be called as tools.
    #[error("{0}")]
    Typed(String),
    /// The host is shutting down, or broke.
    #[error("the host could not load the component: {0}")]
    Host(String),
}

impl From<Lost> for LoadError {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Panicked(text) => Self::Host(format!("it panicked with `{text}`")),
            Lost::ShutDown => Self::Host("it is shutting down".to_owned()),
        }
    }
}

/// What compiling found out, on the thread that compiled.
struct Compiled {
    callable: Callable,
    imports: Vec<Import>,
    skipped: Vec<Skipped>,
    dialect: Dialect,
    producers: Vec<(String, Vec<String>)>,
    report: CacheReport,
}

pub(crate) async fn load(sandbox: &Sandbox, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
    let started = Instant::now();
    let size = bytes.len();
    if size > MAX_COMPONENT_BYTES {
        return Err(LoadError::TooLarge(size as u64));
    }
    let on_thread = (sandbox.clone(), options.clone());
    let (digest, compiled) = sandbox
        .shared
        .runtime
        .block(move || {
            let digest = Digest::of(&bytes);
            compile(&on_thread.0, &digest, &bytes, &on_thread.1).map(|compiled| (digest, compiled))
        })
        .await??;
    let runnable = Runnable::new(sandbox, compiled.callable, &compiled.imports, options.grant);
    let definitions = describe(&runnable, &options).await?;
    check_set(
        definitions.iter().map(|definition| &definition.name),
        &options.definitions,
    )?;
    Ok(Component::new(ComponentParts {
        runnable,
        digest,
        size,
        dialect: compiled.dialect,
        definitions,
        imports: compiled.imports,
        skipped: compiled.skipped,
        producers: compiled.producers,
        report: LoadReport {
            cache: compiled.report,
            time: started.elapsed(),
        },
    }))
}

fn compile(sandbox: &Sandbox, digest: &Digest, bytes: &[u8], options: &LoadOptions) -> Result<Compiled, LoadError> {
    let shared = &sandbox.shared;
    crate::compile::recognise(bytes)?;
    let (component, report) = crate::compile::compile(
        &shared.engine,
        shared.cache.as_ref(),
        digest,
        bytes,
        options.allow_slow_compile,
    )?;
    let ty = component.component_type();
    let imports = crate::imports::list(&ty, &shared.engine);
    dialect::check_contract(&imports)?;
    let unknown: Vec<_> = imports
        .iter()
        .filter(|import| import.is_unknown())
        .map(|import| import.name.clone())
        .collect();
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImport(unknown));
    }
    let link_error = |error: wasmtime::Error| LoadError::Link(crate::outcome::cut(&format!("{error:#}")));
    let pre = shared.linker.instantiate_pre(&component).map_err(link_error)?;
    let (dialect, callable, skipped) = match dialect::of(&ty, &shared.engine)? {
        Dialect::Contract(version) => {
            let pre = crate::bindings::ToolPre::new(pre).map_err(link_error)?;
            (Dialect::Contract(version), Callable::Contract(pre), Vec::new())
        }
        Dialect::Typed => {
            let found = typed::discover(&component, bytes, &shared.engine, &options.definitions)
                .map_err(|error| LoadError::Typed(error.to_string()))?;
            (
                Dialect::Typed,
                Callable::Typed {
                    pre,
                    tools: found.tools,
                },
                found.skipped,
            )
        }
    };
    let producers = dialect::producers(bytes);
    Ok(Compiled {
        callable,
        imports,
        skipped,
        dialect,
        producers,
        report,
    })
}

/// Asks a component of the contract for its tools, within the limits of a call; reads the others' off their types.
async fn describe(runnable: &Runnable, options: &LoadOptions) -> Result<Vec<ToolDefinition>, LoadError> {
    if let Some(typed) = runnable.typed() {
        return Ok(typed.iter().map(|tool| tool.definition.clone()).collect());
    }
    let (output, _) = runnable
        .run(Input::Describe, Invocation::default(), options.limits, None)
        .await;
    let Output::Described(raw) = output.map_err(LoadError::Describe)? else {
        return Err(LoadError::Host("`describe` returned something else".to_owned()));
    };
    if raw.len() > options.definitions.tools {
        return Err(DefinitionError::TooManyTools {
            found: raw.len(),
            limit: options.definitions.tools,
        }
        .into());
    }
    raw.into_iter()
        .map(|raw| raw.parse(&options.definitions).map_err(LoadError::from))
        .collect()
}

/// How long loading took, and whether the code was there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// What became of the compiled code.
    pub cache: CacheReport,
    /// From the first byte to the last check.
    pub time: Duration,
}
