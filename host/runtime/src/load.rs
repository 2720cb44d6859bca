//! From the bytes of a component to tools that can be called.

use std::sync::Arc;
use std::time::Instant;

use fumehood_core::definition::{DefinitionError, DefinitionLimits, ToolDefinition, check_set};
use fumehood_core::digest::Digest;
use fumehood_core::limits::Limits;
use fumehood_core::name::Namespace;
use fumehood_core::permission::Grant;

use crate::cache::CacheReport;
use crate::capability::{FolderError, OpenFolders, open_all};
use crate::compile::{self, Order, Start};
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
    /// What it is called in its host: what it keeps belongs to that name. Without one it has no store.
    pub name: Option<Namespace>,
    /// What it may do, when its tools are called.
    pub grant: Grant,
    /// Whether a component that imports a power which is not granted is refused, whether it uses it or not.
    pub strict_imports: bool,
    /// Whether a component that takes long to compile is compiled all the same.
    pub allow_slow_compile: bool,
}

/// What compiling found out, on the thread that compiled.
struct Compiled {
    digest: Digest,
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
    let bytes = Arc::new(bytes);
    let compiled = compile(shared, &bytes, &options).await?;
    let folders = open_folders(shared, &options.grant).await?;
    let runnable = Runnable::new(
        shared,
        compiled.callable,
        &compiled.imports,
        Arc::new(options.grant.clone()),
        options.name.clone(),
        folders,
    )
    .map_err(|error| LoadError::Host(error.to_string()))?;
    let definitions = describe(&runnable, &options).await?;
    check_set(definitions.iter().map(|definition| &definition.name), &options.definitions)?;
    Ok(Component::new(ComponentParts {
        runnable,
        digest: compiled.digest,
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
    let opening =
        shared.files.run(move || open_all(&grant, &on_thread.own_folders, &on_thread.scratch_root, &on_thread.files));
    let opened =
        shared.runtime.within(PATIENCE, opening).await.map_err(|Late| FolderError::Slow(PATIENCE.as_secs()))?;
    opened.map_err(|Gone| FolderError::Gone)?
}

/// Whatever takes long happens on other threads, and compiling may happen in another process.
async fn compile(shared: &Arc<Shared>, bytes: &Arc<Vec<u8>>, options: &LoadOptions) -> Result<Compiled, LoadError> {
    let allow_slow = options.allow_slow_compile;
    let (digest, start) = on_thread(shared, bytes, move |shared, bytes| {
        compile::recognise(bytes)?;
        let digest = Digest::of(bytes);
        let (cache, limits) = (shared.cache.as_ref(), &shared.compile_limits);
        let start = compile::start(&shared.engine, cache, &digest, bytes, limits, allow_slow)?;
        Ok((digest, start))
    })
    .await?;
    let code = match &start {
        Start::Cached(_) => None,
        Start::Compile { .. } => {
            let factor = if allow_slow { compile::SLOW_FACTOR } else { 1 };
            let order = Order { engine: &shared.engine, bytes: Arc::clone(bytes), factor };
            shared.workshop.compile(&shared.runtime, order).await?
        }
    };
    let options = options.clone();
    on_thread(shared, bytes, move |shared, bytes| {
        let (engine, cache) = (&shared.engine, shared.cache.as_ref());
        let (component, report) = match (start, code) {
            (Start::Cached(component), _) => (component, CacheReport::Hit),
            (Start::Compile { damage }, Some(code)) => compile::from_child(engine, cache, &digest, &code, damage)?,
            (Start::Compile { damage }, None) => compile::here(engine, cache, &digest, bytes, damage)?,
        };
        examine(shared, digest, bytes, component, report, &options)
    })
    .await
}

async fn on_thread<R: Send + 'static>(
    shared: &Arc<Shared>,
    bytes: &Arc<Vec<u8>>,
    work: impl FnOnce(&Shared, &[u8]) -> Result<R, LoadError> + Send + 'static,
) -> Result<R, LoadError> {
    let (shared_there, bytes) = (Arc::clone(shared), Arc::clone(bytes));
    shared.runtime.block(move || work(&shared_there, &bytes)).await?
}

/// What the component imports and exports, and whether this host can serve it.
fn examine(
    shared: &Shared,
    digest: Digest,
    bytes: &[u8],
    component: wasmtime::component::Component,
    report: CacheReport,
    options: &LoadOptions,
) -> Result<Compiled, LoadError> {
    let ty = component.component_type();
    let imports = crate::imports::list(&ty, &shared.engine);
    dialect::check_contract(&imports)?;
    let unknown: Vec<_> =
        imports.iter().filter(|import| import.is_unknown()).map(|import| import.name.clone()).collect();
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImport(unknown));
    }
    if options.strict_imports {
        let ungranted = crate::imports::ungranted(&imports, &options.grant);
        if !ungranted.is_empty() {
            return Err(LoadError::Ungranted(ungranted));
        }
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
    Ok(Compiled { digest, callable, imports, skipped, dialect, producers, report })
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
