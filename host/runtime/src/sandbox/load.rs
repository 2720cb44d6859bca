//! Loading a component: from its bytes to callable tools.

use std::sync::Arc;
use std::time::Instant;

use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::log;
use fumehood_core::policy::permission::http::HttpGrant;
use fumehood_core::policy::permission::{Grant, Power};
use fumehood_core::policy::redact::Redactor;
use fumehood_core::tool::command_template::CommandTemplate;
use fumehood_core::tool::definition::{
    DefinitionError, DefinitionLimits, ToolDefinition, check_descriptions, check_set,
};
use fumehood_core::tool::resource::parse_resources;
use wasmtime::Engine;

use super::component::{Backend, Component, ComponentParts};
use crate::call::run::Runnable;
use crate::call::shared::Shared;
use crate::engine::EngineKind;
use crate::engine::file_pool::{Gone, OPEN_TIMEOUT};
use crate::engine::guest_runtime::Elapsed;
use crate::isolation::{self, CompiledComponent, Described};
use crate::load::cache::{AuthenticCode, CacheReport};
use crate::load::compile::{self, CompileJob, Start};
use crate::load::dialect::{self, Callable, Dialect, Skipped};
use crate::load::error::{LoadError, MAX_COMPONENT_BYTES};
use crate::load::imports::{Import, find_foreign_version, find_ungranted};
use crate::load::preview1;
use crate::load::statements::Statements;
use crate::load::surface::Surface;
use crate::load::{Isolation, LoadOptions, LoadReport, engine_kind};
use crate::wasi::{ComponentStore, FolderError, GrantedCapabilities, OpenFolders, OutboundConfig, Powers, open_all};

/// The facts about a component that are known before it is compiled.
struct Inspection {
    digest: Digest,
    surface: Surface,
    imports: Vec<Import>,
    dialect: Dialect,
    engine: EngineKind,
    /// Where it runs: never [`Isolation::InProcessIfSynchronous`].
    isolation: Isolation,
}

/// The component of a file.
struct Source {
    bytes: Arc<Vec<u8>>,
    /// Set if the file is a program for WASI preview 1, and the component was made of it.
    module: Option<ModuleFacts>,
}

/// The facts of a file that is a core module.
struct ModuleFacts {
    /// The digest of the file, which identifies it whatever this host makes of it.
    digest: Digest,
    statements: Statements,
}

impl Source {
    async fn read(shared: &Arc<Shared>, bytes: Vec<u8>) -> Result<Self, LoadError> {
        let file = Arc::new(bytes);
        if !compile::is_module(&file) {
            return Ok(Self { bytes: file, module: None });
        }
        let adapting = run_blocking(shared, &file, |_, module| {
            let facts = ModuleFacts { digest: Digest::of(module), statements: Statements::read(module) };
            Ok((preview1::adapt(module)?, facts))
        });
        let (component, facts) = adapting.await?;
        Ok(Self { bytes: Arc::new(component), module: Some(facts) })
    }
}

/// Compiled code.
enum Code {
    /// Mapped into this process.
    Component(wasmtime::component::Component),
    /// A file for a worker process.
    File(AuthenticCode),
}

/// Checks what is known about a component before it is read.
fn check_loadable(shared: &Shared, size: usize, grant: &Grant) -> Result<(), LoadError> {
    if size > MAX_COMPONENT_BYTES {
        return Err(LoadError::TooLarge(size as u64));
    }
    if cfg!(not(feature = "tls")) && grant.http().is_some_and(HttpGrant::allows_https) {
        return Err(LoadError::NoTls);
    }
    Ok(shared.capabilities.check_names(grant)?)
}

/// Loads a component and makes its tools callable. See [`crate::Sandbox::load`].
pub(crate) async fn load(shared: &Arc<Shared>, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
    let started = Instant::now();
    let size = bytes.len();
    check_loadable(shared, size, &options.grant)?;
    let Source { bytes, module } = Source::read(shared, bytes).await?;
    let looking = options.clone();
    let (inspection, start) =
        run_blocking(shared, &bytes, move |shared, bytes| inspect(shared, bytes, &looking)).await?;
    let options = LoadOptions { isolation: inspection.isolation, ..options };
    let store = Arc::new(ComponentStore::new(&shared.key_value, options.name.clone()));
    // In a worker process, the capabilities of the runtime are there.
    let own_store = Some(&store).filter(|_| !options.isolation.is_process());
    let capabilities = shared.capabilities.bind(&options.grant, own_store)?;
    let (code, report) = compile(shared, &bytes, &options, &inspection, start).await?;
    let redactor = Redactor::new(options.grant.secrets()).map_err(|error| LoadError::Host(error.to_string()))?;
    let redactor = redactor.map(Arc::new);
    let Inspection { digest, surface, imports, dialect, engine, .. } = inspection;
    let (backend, described) = match code {
        Code::Component(component) => {
            let (callable, skipped) = link(shared, &bytes, component, &dialect, &options).await?;
            let folders = open_folders(shared, &options.grant).await?;
            let powers = build_powers(shared, &options, redactor.clone(), store, capabilities);
            let runnable = Runnable::new(shared, callable, &surface, powers, folders);
            let definitions = describe(&runnable, options.limits, &options.definitions).await?;
            let resources = runnable
                .list_resources(options.limits)
                .await
                .map_err(|error| LoadError::ListResources(Box::new(error)))?;
            (Backend::InProcess(runnable), Described { definitions, resources, skipped })
        }
        Code::File(code) => {
            let workers = shared.workers.as_ref().ok_or(LoadError::NoWorkers)?;
            let compiled = CompiledComponent {
                bytes: Arc::clone(&bytes),
                engine,
                code,
                dialect: dialect.clone(),
                redactor: redactor.clone(),
                capabilities,
            };
            let (worker, described) = isolation::load(shared, workers, compiled, &options).await?;
            (Backend::Process(worker), described)
        }
    };
    let Described { definitions, resources, skipped } = described;
    let definitions = with_command(definitions, options.command.as_deref());
    check_set(definitions.iter().map(|definition| &definition.name), &options.definitions)?;
    check_descriptions(&definitions, &options.definitions)?;
    let resources = parse_resources(resources, &definitions)?;
    Ok(Component::new(ComponentParts {
        shared: Arc::clone(shared),
        backend,
        redactor,
        digest: module.as_ref().map_or(digest, |module| module.digest),
        size,
        dialect,
        definitions,
        command: options.command,
        resources,
        ungranted: find_ungranted(&imports, &options.grant),
        imports,
        skipped,
        statements: module.map_or_else(|| Statements::read(&bytes), |module| module.statements),
        report: LoadReport { cache: report, time: started.elapsed() },
    }))
}

/// Links a component that runs in this process, on a thread for blocking work.
async fn link(
    shared: &Arc<Shared>,
    bytes: &Arc<Vec<u8>>,
    component: wasmtime::component::Component,
    dialect: &Dialect,
    options: &LoadOptions,
) -> Result<(Callable, Vec<Skipped>), LoadError> {
    let dialect = dialect.clone();
    let limits = options.definitions;
    let docs = options.docs.clone();
    let linking = move |shared: &Shared, bytes: &[u8]| {
        let docs = docs.as_deref();
        dialect::link(&shared.linker, &shared.capabilities, &component, bytes, docs, &dialect, &limits)
    };
    run_blocking(shared, bytes, linking).await
}

/// Makes a loaded component callable with other powers. See [`crate::Sandbox::load_again`].
pub(crate) async fn load_again(
    shared: &Arc<Shared>,
    component: &Component,
    options: &LoadOptions,
) -> Result<Component, LoadError> {
    let started = Instant::now();
    let parts = component.parts();
    if !Arc::ptr_eq(shared, &parts.shared) {
        return Err(LoadError::OtherSandbox);
    }
    let Backend::InProcess(runnable) = &parts.backend else { return Err(LoadError::InWorker) };
    if options.isolation.is_process() {
        return Err(LoadError::InWorker);
    }
    check_grant(&parts.imports, options)?;
    check_command(&parts.dialect, options)?;
    let redactor = Redactor::new(options.grant.secrets()).map_err(|error| LoadError::Host(error.to_string()))?;
    let redactor = redactor.map(Arc::new);
    let store = Arc::new(ComponentStore::new(&shared.key_value, options.name.clone()));
    let capabilities = shared.capabilities.bind(&options.grant, Some(&store))?;
    let folders = open_folders(shared, &options.grant).await?;
    let powers = build_powers(shared, options, redactor.clone(), store, capabilities);
    let runnable = runnable.with_powers(powers, folders);
    // A program starts from its own definition, because the other load may have replaced it.
    let own = if matches!(parts.dialect, Dialect::Command(_)) { runnable.callable().definitions() } else { None };
    let definitions = own.unwrap_or_else(|| parts.definitions.clone());
    Ok(Component::new(ComponentParts {
        shared: Arc::clone(shared),
        backend: Backend::InProcess(runnable),
        redactor,
        digest: parts.digest,
        size: parts.size,
        dialect: parts.dialect.clone(),
        definitions: with_command(definitions, options.command.as_deref()),
        command: options.command.clone(),
        resources: parts.resources.clone(),
        imports: parts.imports.clone(),
        ungranted: find_ungranted(&parts.imports, &options.grant),
        skipped: parts.skipped.clone(),
        statements: parts.statements.clone(),
        report: LoadReport { cache: CacheReport::Hit, time: started.elapsed() },
    }))
}

/// Checks that a grant can work, and that it has every power that is imported, where that is asked for.
fn check_grant(imports: &[Import], options: &LoadOptions) -> Result<(), LoadError> {
    if cfg!(not(feature = "tls")) && options.grant.http().is_some_and(HttpGrant::allows_https) {
        return Err(LoadError::NoTls);
    }
    for import in imports {
        // Language runtimes import all of WASI. An interface of a capability is imported by a component that uses it.
        if let Some(capability) = import.capability.as_ref().filter(|name| options.grant.capability(name).is_none()) {
            let import = import.name.clone();
            return Err(LoadError::UngrantedCapability { import, capability: capability.clone() });
        }
    }
    let ungranted = if options.strict_imports { find_ungranted(imports, &options.grant) } else { Vec::new() };
    if ungranted.is_empty() { Ok(()) } else { Err(LoadError::Ungranted(ungranted)) }
}

/// Checks that this host has the versions of WASI that are imported, and that they offer what is granted.
fn check_generation(imports: &[Import], bytes: &[u8], grant: &Grant) -> Result<(), LoadError> {
    if let Some((import, offered)) = find_foreign_version(imports) {
        let producers = Statements::read(bytes).producers;
        return Err(LoadError::ForeignVersion { import: import.name.clone(), offered, producers });
    }
    let is_socket_import = |import: &&Import| {
        matches!(import.power, Some(Power::Tcp | Power::Sockets)) && engine_kind::is_wasi_p3(&import.name)
    };
    match imports.iter().find(is_socket_import) {
        Some(import) if grant.has(Power::Tcp) => Err(LoadError::SocketsOfP3(import.name.clone())),
        _ => Ok(()),
    }
}

/// Checks that only a program has a command line.
fn check_command(dialect: &Dialect, options: &LoadOptions) -> Result<(), LoadError> {
    let is_program = matches!(dialect, Dialect::Command(_));
    if options.command.is_some() && !is_program { Err(LoadError::NoProgram) } else { Ok(()) }
}

/// Replaces the definition of a program if it has named arguments.
fn with_command(definitions: Vec<ToolDefinition>, command: Option<&CommandTemplate>) -> Vec<ToolDefinition> {
    match command {
        Some(command) => definitions.into_iter().map(|definition| command.define(definition)).collect(),
        None => definitions,
    }
}

/// Returns the powers of a component that runs in this process.
fn build_powers(
    shared: &Shared,
    options: &LoadOptions,
    redactor: Option<Arc<Redactor>>,
    store: Arc<ComponentStore>,
    capabilities: GrantedCapabilities,
) -> Powers {
    let grant = Arc::new(options.grant.clone());
    let secret_names = grant.secrets().iter().map(|secret| secret.name().to_owned()).collect();
    Powers {
        grant,
        describe_with_grant: options.describe_with_grant,
        secret_names,
        store,
        outbound: OutboundConfig::Network { network: shared.network.clone(), redactor },
        capabilities,
    }
}

/// Opens the granted folders, on the threads for file operations: the file system of a folder may not answer.
async fn open_folders(shared: &Arc<Shared>, grant: &Grant) -> Result<Option<Arc<OpenFolders>>, FolderError> {
    if grant.folders().is_empty() && grant.scratch().is_none() {
        return Ok(None);
    }
    let on_thread = Arc::clone(shared);
    let grant = grant.clone();
    let opening = shared.files.run(move || {
        let own = on_thread.own_folders.as_slice();
        open_all(&grant, own, &on_thread.protected, &on_thread.scratch_root, &on_thread.files)
    });
    let opened = shared
        .runtime
        .within(OPEN_TIMEOUT, opening)
        .await
        .map_err(|Elapsed| FolderError::Slow(OPEN_TIMEOUT.as_secs()))?;
    opened.map_err(|Gone| FolderError::Gone)?
}

/// Compiles a component that was inspected, unless its code is cached. Blocking work runs on other threads, and compiling may
/// run in another process.
async fn compile(
    shared: &Arc<Shared>,
    bytes: &Arc<Vec<u8>>,
    options: &LoadOptions,
    inspection: &Inspection,
    start: Start,
) -> Result<(Code, CacheReport), LoadError> {
    let began = Instant::now();
    let Inspection { digest, engine, isolation, .. } = *inspection;
    let code = match &start {
        Start::Cached(_) | Start::CachedCode(_) => None,
        Start::Compile { .. } => {
            let factor = if options.allow_slow_compile { compile::SLOW_FACTOR } else { 1 };
            let job = CompileJob { engine: compiling_engine(shared, engine)?, bytes: Arc::clone(bytes), factor };
            shared.compile_service.compile(&shared.runtime, job).await?
        }
    };
    let is_compiled = matches!(start, Start::Compile { .. });
    let compiling = run_blocking(shared, bytes, move |shared, bytes| {
        let engine = compiling_engine(shared, engine)?;
        let cache = shared.cache.as_ref();
        let (code, report) = match (start, code) {
            (Start::Cached(component), _) => (Code::Component(component), CacheReport::Hit),
            (Start::CachedCode(code), _) => (Code::File(code), CacheReport::Hit),
            (Start::Compile { damage }, code) if isolation.is_process() => {
                let (code, report) = compile::prepare_for_worker(engine, cache, &digest, bytes, code, damage)?;
                (Code::File(code), report)
            }
            (Start::Compile { damage }, Some(code)) => {
                let (component, report) = compile::load_from_child(engine, cache, &digest, &code, damage)?;
                (Code::Component(component), report)
            }
            (Start::Compile { damage }, None) => {
                let (component, report) = compile::compile_in_process(engine, cache, &digest, bytes, damage)?;
                (Code::Component(component), report)
            }
        };
        if let Code::Component(component) = &code {
            shared.recent_code.keep(&digest, component);
        }
        Ok((code, report))
    });
    let compiled = compiling.await?;
    if is_compiled {
        log::emit_compiled(options.name.as_ref().map_or("", |name| name.as_str()), began.elapsed());
    }
    Ok(compiled)
}

fn compiling_engine(shared: &Shared, kind: EngineKind) -> Result<&Engine, LoadError> {
    shared.compiling_engine(kind).map_err(|error| LoadError::Host(error.to_string()))
}

/// Looks for the code of a component, in the cache of each engine. If there is none, checks that it may be compiled.
fn find_code(
    shared: &Shared,
    digest: &Digest,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<(EngineKind, Start), LoadError> {
    let recent = if options.isolation.is_process() { None } else { shared.recent_code.find(digest) };
    if let Some(component) = recent {
        return Ok((EngineKind::Synchronous, Start::Cached(component)));
    }
    let cache = shared.cache.as_ref();
    let start = compile::look_up(&shared.engine, cache, digest, options.isolation);
    if !matches!(start, Start::Compile { .. }) {
        return Ok((EngineKind::Synchronous, start));
    }
    if cache.is_some() && options.isolation != Isolation::InProcess {
        let engine = compiling_engine(shared, EngineKind::Asynchronous)?;
        let start = compile::look_up(engine, cache, digest, Isolation::Process);
        match start {
            Start::Compile { damage: None } => {}
            Start::Compile { damage: Some(_) } => {
                compile::admit(bytes, &shared.compile_limits, options.allow_slow_compile)?;
                return Ok((EngineKind::Asynchronous, start));
            }
            Start::Cached(_) | Start::CachedCode(_) => return Ok((EngineKind::Asynchronous, start)),
        }
    }
    compile::admit(bytes, &shared.compile_limits, options.allow_slow_compile)?;
    // The bytes have passed the scan, which bounds what is read here.
    let surface = Surface::read(bytes).map_err(compile::malformed_error)?;
    let engine = engine_kind::find(bytes, &surface).map_err(compile::malformed_error)?;
    Ok((engine, start))
}

/// Checks a component as far as possible before it is compiled, and looks its code up in the cache.
fn inspect(shared: &Shared, bytes: &[u8], options: &LoadOptions) -> Result<(Inspection, Start), LoadError> {
    compile::recognise(bytes)?;
    let digest = Digest::of(bytes);
    let (engine, start) = find_code(shared, &digest, bytes, options)?;
    let surface = Surface::read(bytes).map_err(compile::malformed_error)?;
    let imports = crate::load::imports::list(&surface, &shared.capabilities);
    dialect::check_contract(&imports)?;
    let unknown: Vec<_> =
        imports.iter().filter(|import| import.is_unknown()).map(|import| import.name.clone()).collect();
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImport(unknown));
    }
    check_generation(&imports, bytes, &options.grant)?;
    check_grant(&imports, options)?;
    let dialect = dialect::detect(&surface.exports)?;
    if options.docs.is_some() && !dialect.is_typed() {
        return Err(LoadError::DescribesItself);
    }
    check_command(&dialect, options)?;
    let isolation = options.isolation.resolve(engine)?;
    Ok((Inspection { digest, surface, imports, dialect, engine, isolation }, start))
}

/// Runs work on a component's bytes on a thread for blocking work.
async fn run_blocking<R: Send + 'static>(
    shared: &Arc<Shared>,
    bytes: &Arc<Vec<u8>>,
    work: impl FnOnce(&Shared, &[u8]) -> Result<R, LoadError> + Send + 'static,
) -> Result<R, LoadError> {
    let shared_there = Arc::clone(shared);
    let bytes = Arc::clone(bytes);
    shared.runtime.block(move || work(&shared_there, &bytes)).await?
}

/// Returns the definitions of a component's tools: from its `describe` function, within the limits of a call, or from
/// its exports if it is not of the contract.
async fn describe(
    runnable: &Runnable,
    limits: Limits,
    caps: &DefinitionLimits,
) -> Result<Vec<ToolDefinition>, LoadError> {
    if let Some(definitions) = runnable.callable().definitions() {
        return Ok(definitions);
    }
    let raw = runnable.describe(limits).await.map_err(LoadError::Describe)?;
    if raw.len() > caps.tools {
        return Err(DefinitionError::TooManyTools { found: raw.len(), limit: caps.tools }.into());
    }
    raw.into_iter().map(|raw| raw.parse(caps).map_err(LoadError::from)).collect()
}
