//! The start of a worker: the first message, the jail, and the component.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::Arc;

use fumehood_core::bounded_list::{BoundedList, ListTooLong};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::resource::{RawPage, RawResource};
use wasmtime::Engine;

use super::capability_relay::{CapabilityRelay, define};
use super::channel::Channel;
use super::relay::{Requests, StoreRelay};
use crate::call::run::Runnable;
use crate::call::shared::Shared;
use crate::config::SandboxConfig;
use crate::engine::{self, EngineKind, EngineSettings, MAX_MEMORIES, TASK_STACKS_BYTES};
use crate::isolation::frame::Message;
use crate::isolation::message::{DescribedTool, LoadFailure, Loaded, MAX_DEFINITIONS, MAX_LISTED_RESOURCES, Setup};
use crate::jail::{self, JailReport, Profile, Reachable, ReachableFolder, Resources};
use crate::load::cache::{AuthenticCode, map_from_host};
use crate::load::compile::engine_id;
use crate::load::dialect;
use crate::load::error::LoadError;
use crate::load::surface::Surface;
use crate::wasi::{ComponentStore, HostServices, OpenFolder, OpenFolders, Powers, Removals, ScratchRoot};

/// Memory of the process without that of its calls, in bytes: the program, compiled code, threads, messages.
const PROCESS_BYTES: u64 = 768 << 20;
/// Memory of one call without its linear memory, in bytes: its stack, and the tables of the pool.
const CALL_BYTES: u64 = 32 << 20;
/// Address space of one linear memory, in bytes: what the engine reserves for it, and twice as much again for guards.
const ADDRESS_SPACE_OF_MEMORY_BYTES: u64 = 12 << 30;
/// Address space besides writable memory and that of guests, in bytes: the program, code, and what allocators reserve.
/// Without a limit, the page tables of memory that is only read would be memory that no limit counts.
const EXTRA_ADDRESS_SPACE_BYTES: u64 = 64 << 30;
/// Maximum number of open descriptors of the process.
const MAX_DESCRIPTORS: u64 = 4096;

/// A component that is loaded in this process.
pub(super) struct LoadedComponent {
    pub(super) shared: Arc<Shared>,
    pub(super) runnable: Runnable,
    pub(super) store: Arc<StoreRelay>,
    pub(super) capabilities: CapabilityRelay,
    requests: Requests,
    /// Its powers between calls. Of the capabilities, only those of the runtime are usable.
    powers: Powers,
    may_request: bool,
}

impl LoadedComponent {
    /// Returns what the host does for a call.
    pub(super) fn services_of(&self, call: u64) -> HostServices {
        let Powers { grant, store, capabilities, .. } = &self.powers;
        let store = grant.key_value().map(|_| Arc::new(store.within(self.store.of_call(call))));
        HostServices {
            capabilities: self.capabilities.grant(capabilities, grant, store.as_ref(), call),
            outbound: self.requests.outbound(Some(call), self.may_request),
            store,
        }
    }
}

/// The files that are sent with the first message.
struct Files {
    component: File,
    code: AuthenticCode,
    scratch: Option<File>,
    folders: Vec<File>,
}

impl Files {
    /// Takes the files that were sent with the first message.
    fn new(files: Vec<File>, setup: &Setup) -> io::Result<Self> {
        let mut files = files.into_iter();
        let mut next = || files.next().ok_or_else(|| io::Error::other("a file is missing"));
        Ok(Self {
            component: next()?,
            code: AuthenticCode::from_host(next()?),
            scratch: setup.grant.scratch().map(|_| next()).transpose()?,
            folders: setup.folders.iter().map(|_| next()).collect::<io::Result<_>>()?,
        })
    }

    fn reachable(&mut self, setup: &Setup) -> Reachable<'_> {
        let folders = self.folders.iter_mut().zip(&setup.folders);
        let folders = folders.map(|(file, granted)| (file, granted.quota.is_some()));
        let scratch = self.scratch.iter_mut().map(|file| (file, true));
        let all = folders.chain(scratch).map(|(file, is_writable)| ReachableFolder { file, is_writable });
        // Sealed memory is in no folder: Landlock has no rule for it, and needs none.
        let is_on_disk = |file: &&File| !fumehood_platform::sealed::is_sealed(file);
        Reachable { folders: all.collect(), files: [self.code.file()].into_iter().filter(is_on_disk).collect() }
    }
}

/// Creates the answer that reports a failure to load.
fn load_failure(failure: LoadFailure, message: impl ToString) -> Loaded {
    Loaded::Failed { failure, message: message.to_string() }
}

fn host_failure(error: impl ToString) -> Loaded {
    load_failure(LoadFailure::Host, error)
}

impl From<LoadError> for Loaded {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Link(message) => load_failure(LoadFailure::Link, message),
            LoadError::Typed(message) => load_failure(LoadFailure::Typed, message),
            LoadError::Describe(error) => Self::NotDescribed(error.into()),
            LoadError::ListResources(error) => Self::NotListed((*error).into()),
            other => load_failure(LoadFailure::Host, other),
        }
    }
}

/// Loads the component of the first message, and answers it. Returns `None` if there is nothing to serve.
///
/// # Errors
/// If the socket fails, or the host violates the protocol.
pub(super) fn load(channel: &Channel) -> io::Result<Option<LoadedComponent>> {
    let Some(Message { body: setup, files }) = channel.receive::<Setup>()? else { return Ok(None) };
    let files = Files::new(files, &setup)?;
    let (answer, running) = match start(channel, &setup, files) {
        Ok((running, ready)) => (ready, Some(running)),
        Err(failure) => (failure, None),
    };
    channel.send(&answer, &[]);
    Ok(running)
}

fn start(channel: &Channel, setup: &Setup, mut files: Files) -> Result<(LoadedComponent, Loaded), Loaded> {
    // Before the jail, in which the engine could not open `/proc/self/pagemap` to find the pages that calls touched.
    let engine = build_engine(setup)?;
    let jail = enter_jail(setup, &mut files)?;
    let store = StoreRelay::new(channel.clone());
    let requests = Requests::new(channel.clone());
    let capabilities = CapabilityRelay::new(channel.clone());
    let mut bytes = Vec::new();
    // An earlier worker may have read the shared file to its end.
    let mut component = &files.component;
    component.rewind().and_then(|()| component.read_to_end(&mut bytes)).map_err(host_failure)?;
    let shared = build_shared(setup, engine, files.scratch).map_err(host_failure)?;
    shared.protected.replace(setup.protected.clone());
    let component = map_from_host(&shared.engine, &files.code).map_err(host_failure)?;
    let has_folders = !files.folders.is_empty() || setup.grant.scratch().is_some();
    jail::end_setup(jail, has_folders).map_err(|error| load_failure(LoadFailure::Jail, error))?;
    let surface = Surface::read(&bytes).map_err(host_failure)?;
    let dialect = dialect::detect(&surface.exports)?;
    let docs = setup.docs.as_deref();
    let limits = &setup.definitions;
    let (callable, skipped) =
        dialect::link(&shared.linker, &shared.capabilities, &component, &bytes, docs, &dialect, limits)?;
    let powers = build_powers(setup, &shared, &requests).map_err(host_failure)?;
    let folders = build_folders(setup, &shared, files.folders);
    let runnable = Runnable::new(&shared, callable, &surface, powers.clone(), folders);
    let definitions = collect_definitions(&runnable, &shared, setup).map_err(LoadError::Describe)?;
    let resources =
        collect_resources(&runnable, &shared, setup).map_err(|error| LoadError::ListResources(Box::new(error)))?;
    let skipped = BoundedList::truncate_from(skipped.into_iter().map(|skipped| (skipped.export, skipped.why)));
    let may_request = setup.may_request;
    Ok((
        LoadedComponent { shared, runnable, store, capabilities, requests, powers, may_request },
        Loaded::Ready { jail, definitions, resources, skipped },
    ))
}

fn build_engine(setup: &Setup) -> Result<Engine, Loaded> {
    let settings = EngineSettings {
        kind: setup.engine_kind,
        profile: setup.profile,
        concurrency: setup.concurrency,
        programs: 0,
        memory_ceiling: setup.memory_ceiling,
    };
    let engine = engine::build(&settings).map_err(|error| load_failure(LoadFailure::Host, error))?;
    if engine_id(&engine) == setup.engine {
        return Ok(engine);
    }
    Err(load_failure(LoadFailure::Host, "the worker and the host are different builds; use the same build"))
}

fn enter_jail(setup: &Setup, files: &mut Files) -> Result<JailReport, Loaded> {
    let calls = u64::from(setup.concurrency);
    let stacks = if setup.engine_kind == EngineKind::Asynchronous { TASK_STACKS_BYTES } else { 0 };
    let of_call = (setup.memory_ceiling as u64).saturating_add(CALL_BYTES).saturating_add(stacks);
    let data = PROCESS_BYTES.saturating_add(calls.saturating_mul(of_call));
    let reserved = calls.saturating_mul(u64::from(MAX_MEMORIES)).saturating_mul(ADDRESS_SPACE_OF_MEMORY_BYTES);
    let address_space = Some(data.saturating_add(reserved).saturating_add(EXTRA_ADDRESS_SPACE_BYTES));
    let resources = Resources { data, address_space, cpu_seconds: None, file_size: None, descriptors: MAX_DESCRIPTORS };
    let jail = jail::enter(&mut files.reachable(setup), &resources, Profile::Worker)
        .map_err(|error| load_failure(LoadFailure::Jail, error))?;
    if setup.is_jail_required && !jail.is_complete() {
        let message = format!("the kernel does not support {}, but a complete jail is required", jail.missing());
        return Err(load_failure(LoadFailure::Jail, message));
    }
    Ok(jail)
}

fn build_shared(setup: &Setup, engine: Engine, scratch: Option<File>) -> Result<Arc<Shared>, String> {
    let config = SandboxConfig {
        profile: setup.profile,
        concurrency: setup.concurrency,
        // The host never sends more than `concurrency` calls at once, so this queue is never full.
        queue: setup.concurrency,
        memory_ceiling: setup.memory_ceiling,
        guest_threads: setup.guest_threads as usize,
        capabilities: define(&setup.capabilities),
        ..SandboxConfig::default()
    };
    let scratch_root = scratch.map_or_else(ScratchRoot::in_temp_dir, ScratchRoot::from_host);
    Shared::with_engine(config, engine, setup.engine_kind, scratch_root)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

fn build_powers(setup: &Setup, shared: &Arc<Shared>, requests: &Requests) -> Result<Powers, String> {
    let owner = setup.name.as_deref().map(Namespace::parse).transpose().map_err(|error| error.to_string())?;
    let grant = Arc::clone(&setup.grant);
    let store = Arc::new(ComponentStore::new(&shared.key_value, owner));
    let capabilities = shared.capabilities.bind(&grant, Some(&store)).map_err(|error| error.to_string())?;
    Ok(Powers {
        grant,
        describe_with_grant: setup.describe_with_grant,
        secret_names: setup.secrets.iter().cloned().collect(),
        store,
        outbound: requests.outbound(None, setup.may_request),
        // Each call adds those of the host.
        capabilities,
    })
}

fn build_folders(setup: &Setup, shared: &Arc<Shared>, files: Vec<File>) -> Option<Arc<OpenFolders>> {
    let scratch = setup.grant.scratch();
    if files.is_empty() && scratch.is_none() {
        return None;
    }
    let mut folders = Vec::new();
    for (file, granted) in files.into_iter().zip(&setup.folders) {
        let write_line = Some(granted.write_line.clone());
        let protected = shared.protected.clone();
        folders.push(Arc::new(OpenFolder::new(file, &granted.guest, granted.quota, write_line, protected)));
    }
    let scratch_root = shared.scratch_root.clone();
    let pool = shared.files.clone();
    let removals = Removals::new(&pool);
    Some(Arc::new(OpenFolders { folders, scratch, scratch_root, removals, pool }))
}

/// Returns the definitions of the tools, from the exports or from the component's `describe`. Returns none if the host
/// has them already.
fn collect_definitions(
    runnable: &Runnable,
    shared: &Shared,
    setup: &Setup,
) -> Result<BoundedList<DescribedTool, MAX_DEFINITIONS>, CallError> {
    let definitions: Vec<DescribedTool> = match (setup.describe, runnable.callable().definitions()) {
        (None, _) => Vec::new(),
        (Some(_), Some(definitions)) => definitions.into_iter().map(DescribedTool::from).collect(),
        (Some(limits), None) => {
            let described = shared.runtime.block_on(runnable.describe(limits))?;
            described.into_iter().map(DescribedTool::from).collect()
        }
    };
    definitions.try_into().map_err(too_long)
}

/// Returns the definitions of the resources, from the component's `list`. Returns none if the host has them already.
fn collect_resources(
    runnable: &Runnable,
    shared: &Shared,
    setup: &Setup,
) -> Result<BoundedList<RawResource, MAX_LISTED_RESOURCES>, CallError> {
    let Some(limits) = setup.describe else { return Ok(BoundedList::default()) };
    let listed = shared.runtime.block_on(runnable.list_resources(limits))?;
    listed.iter().filter_map(|resource| resource.page.as_ref()).try_for_each(RawPage::check_lists).map_err(too_long)?;
    listed.try_into().map_err(too_long)
}

fn too_long(error: ListTooLong) -> CallError {
    CallError::new(ErrorKind::BadResult, error.to_string())
}
