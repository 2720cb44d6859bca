//! Loading a component into a worker process.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use fumehood_core::definition::{DefinitionError, RawDefinition, ToolDefinition};
use fumehood_core::permission::files::ProtectedFiles;
use fumehood_core::redact::Redactor;

use super::launch::{Launch, START, StartError};
use super::message::{Definition, LoadFailure, Loaded, Setup};
use super::services::Services;
use super::supervisor::Worker;
use super::{convert, frame};
use crate::cache::{AuthenticCode, sealed};
use crate::capability::{FolderError, open_files};
use crate::dialect::{Dialect, Skipped};
use crate::file_pool::{Gone, PATIENCE};
use crate::guest_runtime::Elapsed;
use crate::load_error::LoadError;
use crate::load_options::LoadOptions;
use crate::shared::Shared;
use crate::workers::Workers;

/// Calls that one worker runs at once.
const MAX_CONCURRENCY: u32 = 32;
/// Threads of a worker for guests that run longer than a slice.
const GUEST_THREADS: u32 = 2;

/// A compiled component on its way to a worker.
pub(crate) struct Parcel {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) code: AuthenticCode,
    pub(crate) dialect: Dialect,
    pub(crate) redactor: Option<Arc<Redactor>>,
}

/// Starts a worker for a component, and asks it for the tools.
pub(crate) async fn load(
    shared: &Arc<Shared>,
    workers: &Workers,
    parcel: Parcel,
    options: &LoadOptions,
) -> Result<(Worker, Vec<ToolDefinition>, Vec<Skipped>), LoadError> {
    let launch = Arc::new(launch(shared, workers, &parcel, options).await?);
    let grant = Arc::new(options.grant.clone());
    let services = Arc::new(Services::new(shared, grant, options.name.clone(), parcel.redactor));
    let patience = START.saturating_add(options.limits.deadline);
    let (starting, served) = (Arc::clone(&launch), Arc::clone(&services));
    let (link, loaded) = shared.runtime.block(move || starting.start(&served, patience)).await??;
    let (jail, definitions, skipped) = match loaded {
        Loaded::Ready { jail, definitions, skipped } => (jail, definitions, skipped),
        Loaded::NotDescribed(failure) => return Err(LoadError::Describe(failure.into())),
        Loaded::Failed { failure, message } => {
            let message = crate::outcome::cut(&message);
            return Err(match failure {
                LoadFailure::Link => LoadError::Link(message),
                LoadFailure::Typed => LoadError::Typed(message),
                LoadFailure::Jail => LoadError::Jail(message),
                LoadFailure::Host => LoadError::Worker(message),
            });
        }
    };
    let definitions = parse(definitions, &parcel.dialect, options)?;
    let skipped = skipped.into_iter().map(|(export, why)| Skipped::new(&export, &why)).collect();
    // Started again, it need not describe its tools once more.
    let launch = Arc::into_inner(launch).ok_or_else(|| LoadError::Worker("it is still being started".to_owned()))?;
    let launch = Launch { setup: Setup { describe: None, ..launch.setup }, ..launch };
    Ok((Worker::new(launch, services, jail, link), definitions, skipped))
}

/// Reads what the worker says of the tools as what it is: a guest's word.
fn parse(found: Vec<Definition>, dialect: &Dialect, options: &LoadOptions) -> Result<Vec<ToolDefinition>, LoadError> {
    let limits = &options.definitions;
    if *dialect != Dialect::Typed && found.len() > limits.tools {
        return Err(DefinitionError::TooManyTools { found: found.len(), limit: limits.tools }.into());
    }
    let parse = |definition: Definition| {
        let export = definition.export.clone().map(Into::into);
        let parsed = RawDefinition::from(definition).parse(limits)?;
        Ok(ToolDefinition { export, ..parsed })
    };
    found.into_iter().map(parse).collect()
}

async fn launch(
    shared: &Arc<Shared>,
    workers: &Workers,
    parcel: &Parcel,
    options: &LoadOptions,
) -> Result<Launch, LoadError> {
    let host = |error: std::io::Error| LoadError::Worker(error.to_string());
    let mut files = vec![in_memory(&parcel.bytes).map_err(host)?, parcel.code.file().try_clone().map_err(host)?];
    let mut scratch = None;
    let grant = &options.grant;
    if !grant.folders().is_empty() {
        let (on_thread, granted) = (Arc::clone(shared), grant.clone());
        let opening = shared.files.run(move || {
            let files = open_files(&granted, &on_thread.own_folders)?;
            Ok::<Vec<File>, FolderError>(files.into_iter().map(|granted| granted.file).collect())
        });
        let opened =
            shared.runtime.within(PATIENCE, opening).await.map_err(|Elapsed| FolderError::Slow(PATIENCE.as_secs()))?;
        files.extend(opened.map_err(|Gone| FolderError::Gone)??);
    }
    if grant.scratch().is_some() {
        scratch = Some(shared.scratch_root.create_for_worker().map_err(host)?);
    }
    if files.len() >= frame::MAX_DESCRIPTORS {
        return Err(LoadError::Worker(format!("more than {} folders are granted", frame::MAX_DESCRIPTORS - 4)));
    }
    let setup = Setup {
        engine: crate::compile::engine_id(&shared.engine),
        profile: shared.profile,
        concurrency: shared.concurrency.min(MAX_CONCURRENCY),
        guest_threads: GUEST_THREADS,
        memory_ceiling: shared.memory_ceiling as u64,
        name: options.name.as_ref().map(ToString::to_string),
        powers: convert::powers(grant),
        folders: convert::folders(grant),
        // As they are when a worker starts.
        protected: ProtectedFiles::default(),
        definitions: (&options.definitions).into(),
        docs: options.docs.as_deref().map(<[u8]>::to_vec),
        describe: Some((&options.limits).into()),
        is_jail_required: workers.is_jail_required,
    };
    Ok(Launch { workers: workers.clone(), setup, files, scratch })
}

/// The bytes in sealed memory, for another process to read.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = sealed::new("fumehood-component")?;
    file.write_all(bytes).map_err(|error| sealed::explain(error, "the component"))?;
    sealed::seal(&mut file)?;
    Ok(file)
}

impl From<StartError> for LoadError {
    fn from(error: StartError) -> Self {
        Self::Worker(error.to_string())
    }
}
