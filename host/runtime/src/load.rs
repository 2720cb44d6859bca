//! From the bytes of a component to tools that can be called.

use std::sync::Arc;
use std::time::Instant;

use fumehood_core::definition::{DefinitionError, DefinitionLimits, ToolDefinition, check_set};
use fumehood_core::digest::Digest;
use fumehood_core::limits::Limits;
use fumehood_core::permission::Grant;

use crate::cache::CacheReport;
use crate::capability::{FolderError, OpenFolders, open_all};
use crate::component::{Component, ComponentParts, LoadReport};
use crate::dialect::{self, Callable, Dialect, Skipped, typed};
use crate::file_pool::{Gone, PATIENCE};
use crate::guest_runtime::Late;
use crate::imports::Import;
use crate::invocation::{Invocation, Terms};
use crate::load_error::{LoadError, MAX_COMPONENT_BYTES};
use crate::run::{Input, Output, Runnable};
use crate::shared::Shared;

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

/// What compiling found out, on the thread that compiled.
struct Compiled {
    callable: Callable,
    imports: Vec<Import>,
    skipped: Vec<Skipped>,
    dialect: Dialect,
    producers: Vec<(String, Vec<String>)>,
    report: CacheReport,
}

pub(crate) async fn load(shared: &Arc<Shared>, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
    let started = Instant::now();
    let size = bytes.len();
    if size > MAX_COMPONENT_BYTES {
        return Err(LoadError::TooLarge(size as u64));
    }
    let on_thread = (Arc::clone(shared), options.clone());
    let (digest, compiled) = shared
        .runtime
        .block(move || {
            let digest = Digest::of(&bytes);
            compile(&on_thread.0, &digest, &bytes, &on_thread.1).map(|compiled| (digest, compiled))
        })
        .await??;
    let folders = open_folders(shared, &options.grant).await?;
    let runnable =
        Runnable::new(shared, compiled.callable, &compiled.imports, Arc::new(options.grant.clone()), folders);
    let definitions = describe(&runnable, &options).await?;
    check_set(definitions.iter().map(|definition| &definition.name), &options.definitions)?;
    Ok(Component::new(ComponentParts {
        runnable,
        digest,
        size,
        dialect: compiled.dialect,
        definitions,
        imports: compiled.imports,
        skipped: compiled.skipped,
        producers: compiled.producers,
        report: LoadReport { cache: compiled.report, time: started.elapsed() },
    }))
}

/// Opens what was granted, on the threads for that: the file system of a folder may not answer.
async fn open_folders(shared: &Arc<Shared>, grant: &Grant) -> Result<Option<Arc<OpenFolders>>, FolderError> {
    if grant.folders().is_empty() && grant.scratch().is_none() {
        return Ok(None);
    }
    let (on_thread, grant) = (Arc::clone(shared), grant.clone());
    let opening = shared.files.run(move || open_all(&grant, &on_thread.own_folders, &on_thread.files));
    let opened =
        shared.runtime.within(PATIENCE, opening).await.map_err(|Late| FolderError::Slow(PATIENCE.as_secs()))?;
    opened.map_err(|Gone| FolderError::Gone)?
}

fn compile(shared: &Shared, digest: &Digest, bytes: &[u8], options: &LoadOptions) -> Result<Compiled, LoadError> {
    crate::compile::recognise(bytes)?;
    let (component, report) =
        crate::compile::compile(&shared.engine, shared.cache.as_ref(), digest, bytes, options.allow_slow_compile)?;
    let ty = component.component_type();
    let imports = crate::imports::list(&ty, &shared.engine);
    dialect::check_contract(&imports)?;
    let unknown: Vec<_> =
        imports.iter().filter(|import| import.is_unknown()).map(|import| import.name.clone()).collect();
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
            (Dialect::Typed, Callable::Typed { pre, tools: found.tools }, found.skipped)
        }
    };
    let producers = dialect::producers(bytes);
    Ok(Compiled { callable, imports, skipped, dialect, producers, report })
}

/// Asks a component of the contract for its tools, within the limits of a call; reads the others' off their types.
async fn describe(runnable: &Runnable, options: &LoadOptions) -> Result<Vec<ToolDefinition>, LoadError> {
    if let Some(typed) = runnable.typed() {
        return Ok(typed.iter().map(|tool| tool.definition.clone()).collect());
    }
    let terms = Terms { limits: options.limits, ..Terms::default() };
    let (output, _) = runnable.run(Input::Describe, Invocation::default(), terms).await;
    let Output::Described(raw) = output.map_err(LoadError::Describe)? else {
        return Err(LoadError::Host("`describe` returned something else".to_owned()));
    };
    if raw.len() > options.definitions.tools {
        return Err(DefinitionError::TooManyTools { found: raw.len(), limit: options.definitions.tools }.into());
    }
    raw.into_iter().map(|raw| raw.parse(&options.definitions).map_err(LoadError::from)).collect()
}
