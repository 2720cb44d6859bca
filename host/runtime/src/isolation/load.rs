//! Loading a component into a worker process.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use fumehood_core::bounded_list::BoundedList;
use fumehood_core::capability::CapabilityDefinition;
use fumehood_core::log;
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::files::ProtectedFiles;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::tool::definition::{DefinitionError, ToolDefinition};
use fumehood_core::tool::resource::RawResource;

use super::launch::{START_TIMEOUT, StartError, WorkerLaunch};
use super::message::{CapabilitySetup, DescribedTool, LoadFailure, Loaded, MAX_DEFINITIONS, Setup};
use super::services::Services;
use super::supervisor::Worker;
use super::{convert, frame};
use crate::call::shared::Shared;
use crate::config::Workers;
use crate::engine::EngineKind;
use crate::engine::file_pool::{Gone, OPEN_TIMEOUT};
use crate::engine::guest_runtime::Elapsed;
use crate::load::LoadOptions;
use crate::load::cache::{AuthenticCode, sealed};
use crate::load::dialect::{Dialect, Skipped};
use crate::load::error::LoadError;
use crate::wasi::{FolderError, GrantedCapabilities, open_files};

/// Maximum number of calls that one worker runs at once.
const MAX_CONCURRENCY: u32 = 32;
/// Number of threads of a worker for guests that run longer than a slice.
const GUEST_THREADS: u32 = 2;

/// A compiled component for a worker.
pub(crate) struct CompiledComponent {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The engine that it was compiled for.
    pub(crate) engine: EngineKind,
    pub(crate) code: AuthenticCode,
    pub(crate) dialect: Dialect,
    pub(crate) redactor: Option<Arc<Redactor>>,
    pub(crate) capabilities: GrantedCapabilities,
}

/// The descriptions that a component gives of itself. Its resources were not checked yet.
pub(crate) struct Described {
    pub(crate) definitions: Vec<ToolDefinition>,
    pub(crate) resources: Vec<RawResource>,
    /// The exports that are not tools.
    pub(crate) skipped: Vec<Skipped>,
}

/// Starts a worker for a component, and returns it with what the component says of itself.
///
/// # Errors
/// If the worker cannot be started, or cannot load the component, or its definitions are not accepted.
pub(crate) async fn load(
    shared: &Arc<Shared>,
    workers: &Workers,
    compiled: CompiledComponent,
    options: &LoadOptions,
) -> Result<(Worker, Described), LoadError> {
    let launch = Arc::new(prepare_launch(shared, workers, &compiled, options).await?);
    let grant = Arc::new(options.grant.clone());
    let services =
        Arc::new(Services::new(shared, grant, options.name.clone(), compiled.redactor, compiled.capabilities));
    let patience = START_TIMEOUT.saturating_add(options.limits.deadline);
    let starting = Arc::clone(&launch);
    let served = Arc::clone(&services);
    let (link, loaded) = shared.runtime.block(move || starting.start(&served, patience)).await??;
    let (jail, definitions, resources, skipped) = match loaded {
        Loaded::Ready { jail, definitions, resources, skipped } => (jail, definitions, resources, skipped),
        Loaded::NotDescribed(failure) => return Err(LoadError::Describe(failure.0)),
        Loaded::NotListed(failure) => return Err(LoadError::ListResources(Box::new(failure.0))),
        Loaded::Failed { failure, message } => {
            let message = crate::wasi::guest_output::cut(&message);
            return Err(match failure {
                LoadFailure::Link => LoadError::Link(message),
                LoadFailure::Typed => LoadError::Typed(message),
                LoadFailure::Jail => LoadError::Jail(message),
                LoadFailure::Host => LoadError::Worker(message),
            });
        }
    };
    let definitions = parse_definitions(definitions, &compiled.dialect, options)?;
    let resources = resources.into_iter().collect();
    let skipped = skipped.into_iter().map(|(export, why)| Skipped::new(&export, &why)).collect();
    // A restarted worker need not describe its tools again.
    let launch = Arc::into_inner(launch).ok_or_else(|| LoadError::Worker("it is still being started".to_owned()))?;
    let launch = WorkerLaunch { setup: Setup { describe: None, ..launch.setup }, ..launch };
    let described = Described { definitions, resources, skipped };
    log::emit_worker_started(services.component(), link.process_id(), false);
    Ok((Worker::new(launch, services, options.isolation, jail, link), described))
}

/// Parses the definitions that a worker sent. They are as untrusted as those of a guest.
fn parse_definitions(
    found: BoundedList<DescribedTool, MAX_DEFINITIONS>,
    dialect: &Dialect,
    options: &LoadOptions,
) -> Result<Vec<ToolDefinition>, LoadError> {
    let limits = &options.definitions;
    if !dialect.is_typed() && found.len() > limits.tools {
        return Err(DefinitionError::TooManyTools { found: found.len(), limit: limits.tools }.into());
    }
    let mut definitions = Vec::with_capacity(found.len());
    for DescribedTool { definition, export } in found {
        let export = export.map(Into::into);
        definitions.push(ToolDefinition { export, ..definition.parse(limits)? });
    }
    Ok(definitions)
}

async fn prepare_launch(
    shared: &Arc<Shared>,
    workers: &Workers,
    compiled: &CompiledComponent,
    options: &LoadOptions,
) -> Result<WorkerLaunch, LoadError> {
    let host = |error: std::io::Error| LoadError::Worker(error.to_string());
    let mut files =
        vec![to_sealed_file(&compiled.bytes).map_err(host)?, compiled.code.file().try_clone().map_err(host)?];
    let grant = &options.grant;
    if !grant.folders().is_empty() {
        let on_thread = Arc::clone(shared);
        let granted = grant.clone();
        let opening = shared.files.run(move || {
            let files = open_files(&granted, &on_thread.own_folders)?;
            Ok::<Vec<File>, FolderError>(files.into_iter().map(|granted| granted.file).collect())
        });
        let opened = shared
            .runtime
            .within(OPEN_TIMEOUT, opening)
            .await
            .map_err(|Elapsed| FolderError::Slow(OPEN_TIMEOUT.as_secs()))?;
        files.extend(opened.map_err(|Gone| FolderError::Gone)??);
    }
    if files.len() >= frame::MAX_FILES {
        return Err(LoadError::Worker(format!("more than {} folders are granted", frame::MAX_FILES - 4)));
    }
    let engine = shared.compiling_engine(compiled.engine).map_err(|error| LoadError::Host(error.to_string()))?;
    let setup = Setup {
        engine: crate::load::compile::engine_id(engine),
        engine_kind: compiled.engine,
        profile: shared.profile,
        concurrency: shared.concurrency.min(MAX_CONCURRENCY),
        guest_threads: GUEST_THREADS,
        memory_ceiling: shared.memory_ceiling,
        name: options.name.as_ref().map(ToString::to_string),
        grant: Arc::new(grant.clone()),
        may_request: grant.http().is_some(),
        describe_with_grant: options.describe_with_grant,
        secrets: grant.secrets().iter().map(|secret| secret.name().to_owned()).collect(),
        folders: convert::to_granted_folders(grant),
        // Replaced by the current list whenever a worker starts.
        protected: ProtectedFiles::default(),
        definitions: options.definitions,
        docs: options.docs.as_deref().map(<[u8]>::to_vec),
        describe: Some(options.limits),
        is_jail_required: workers.is_jail_required,
        capabilities: list_capabilities(shared, grant),
    };
    Ok(WorkerLaunch { workers: workers.clone(), setup, files })
}

/// Returns the capabilities that are granted, without their grants.
fn list_capabilities(shared: &Shared, grant: &Grant) -> Vec<CapabilitySetup> {
    let added = shared.capabilities.iter().filter(|linked| linked.built_in.is_none());
    let definitions = added.map(|linked| &linked.definition);
    definitions.filter(|definition| grant.capability(definition.name()).is_some()).map(Into::into).collect()
}

impl From<&CapabilityDefinition> for CapabilitySetup {
    fn from(definition: &CapabilityDefinition) -> Self {
        Self {
            name: definition.name().to_owned(),
            description: definition.description().to_owned(),
            wit: definition.wit().to_owned(),
        }
    }
}

/// Copies bytes to sealed memory, for another process to read.
fn to_sealed_file(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = fumehood_platform::sealed::create("fumehood-component")?;
    file.write_all(bytes).map_err(|error| sealed::explain(error, "the component"))?;
    sealed::seal(&mut file)?;
    Ok(file)
}

impl From<StartError> for LoadError {
    fn from(error: StartError) -> Self {
        Self::Worker(error.to_string())
    }
}
