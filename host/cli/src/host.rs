//! The host of a command: with the code cache, and a spinner while a component is compiled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::agent::suggest;
#[cfg(feature = "postgres")]
use fumehood::key_value::PostgresStore;
use fumehood::key_value::{DiskStore, KeyValueStore};
use fumehood::permission::files::FileRole;
use fumehood::{
    CacheReport, CodeCache, Compiler, Component, ComponentError, Host, HostBuilder, JailReport, Load, LoadError,
    Namespace, StoredComponent,
};
use futures_util::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Arguments, COMPILE_COMPONENT};
use crate::config::Config;
pub(crate) use crate::configured::file_name;
use crate::configured::{ConfiguredComponent, lock_file_beside};
use crate::exit::{ComponentLoadError, UsageError};
use crate::isolation::Mode;
use crate::power_arguments::PowerArguments;
use crate::protected_files::{self, secret_file};
use crate::user_folders::{compiled_crates, default_cache, default_store, interpreters, state_folder, store_of};
use crate::{flags, logging, published, render};

/// Time without a result after which a spinner is shown.
const SPINNER_DELAY: Duration = Duration::from_millis(300);
/// Maximum number of concurrent calls: one command makes few.
const CONCURRENCY: u32 = 8;
/// Name of a component whose file name has no letter or digit.
const DEFAULT_NAME: &str = "component";

/// Returns the settings of a host for one command.
pub(crate) fn builder(arguments: &Arguments) -> HostBuilder {
    isolated_builder(arguments, arguments.isolation.unwrap_or_default())
}

/// Like [`builder`], with this isolation whatever the command line says.
pub(crate) fn isolated_builder(arguments: &Arguments, isolation: Mode) -> HostBuilder {
    let compiler = Compiler::this_program([COMPILE_COMPONENT]);
    let builder = with_protected_files(Host::builder().concurrency(CONCURRENCY).compiler(compiler), arguments);
    let builder = isolation.apply(builder);
    match cache_folder(arguments).map(CodeCache::open) {
        Some(Ok(cache)) => match arguments.cache_size {
            Some(bytes) => builder.code_cache(cache.max_bytes(bytes as u64)),
            None => builder.code_cache(cache),
        },
        Some(Err(error)) => {
            render::warning(&format!("{:#}; continuing without a code cache", anyhow::Error::new(error)));
            builder
        }
        None => builder,
    }
}

/// Keeps from all tools, in every command, the files that decide what they may do: the configuration and its lock,
/// existing or not, named or in the working folder, and the user's state and caches.
fn with_protected_files(mut builder: HostBuilder, arguments: &Arguments) -> HostBuilder {
    let caches = default_cache().into_iter().chain(compiled_crates()).chain(interpreters());
    let folders = state_folder().into_iter().chain(caches).chain(crate::signing_key::folder());
    for folder in folders.chain(arguments.cache_dir.clone()) {
        builder = builder.own_folder(folder);
    }
    let here = Config::place(None);
    let named = Config::place(arguments.config.as_deref());
    for file in [here, named] {
        // Where the file is a link, a lock beside its target would be that of another configuration.
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        builder = builder
            .protect(&file, FileRole::Configuration)
            .protect(lock_file_beside(&file), FileRole::Lock)
            .protect(lock_file_beside(&real), FileRole::Lock);
    }
    builder
}

/// Keeps the files of secrets on the command line from all tools.
pub(crate) fn with_typed_secrets(mut builder: HostBuilder, powers: &PowerArguments) -> HostBuilder {
    for secret in &powers.typed.secrets {
        if let Some((file, role)) = secret_file(Path::new("."), &secret.from) {
            builder = builder.protect(file, role);
        }
    }
    builder
}

/// Keeps the components of the command line from all tools, before any of them is loaded.
pub(crate) fn with_components(mut builder: HostBuilder, files: &[PathBuf]) -> HostBuilder {
    // References are left out: the store of components is kept from all tools as a whole.
    for file in files.iter().filter(|file| !published::is_reference(split_name(file).1)) {
        builder = builder.protect(file, FileRole::Component);
    }
    builder
}

/// Keeps the file of a secret from all tools.
pub(crate) fn with_secret_file(builder: HostBuilder, file: Option<&Path>) -> HostBuilder {
    match file {
        Some(file) => builder.protect(file, FileRole::Secret),
        None => builder,
    }
}

/// Like [`builder`], for the components of a configuration: the files that it names are kept from tools as well, and
/// tools have their keys and values in the store that it names.
pub(crate) fn builder_for(arguments: &Arguments, config: &Config) -> Result<HostBuilder> {
    let mut builder = builder(arguments);
    for (file, role) in protected_files::named_files(config) {
        builder = builder.protect(file, role);
    }
    // A count that does not fit was rejected when the configuration was read.
    if let Some(count) = config.http_in_flight.and_then(|count| u32::try_from(count.0).ok()) {
        builder = builder.http_in_flight(count);
    }
    if config.tools.values().all(|tool| tool.powers.key_value.is_none()) {
        return Ok(builder);
    }
    if let Some(store) = shared_store(config)? {
        return Ok(builder.key_value_store(store));
    }
    let file = match &config.key_value_store {
        Some(file) => config.path(file),
        None => default_store(config)?,
    };
    with_store(builder, &file)
}

/// Returns the store of keys and values that several hosts share, if the configuration has one: that of its cell, or of
/// `[storage]`.
fn shared_store(config: &Config) -> Result<Option<Arc<dyn KeyValueStore>>> {
    #[cfg(feature = "cell")]
    if let Some(store) = crate::cell::shared_store(config)? {
        return Ok(Some(Arc::new(store)));
    }
    #[cfg(feature = "postgres")]
    if let Some(server) = crate::storage_server::of(config)? {
        return Ok(Some(Arc::new(PostgresStore::open(&server)?)));
    }
    let _ = config;
    Ok(None)
}

/// Sets the file in which tools keep keys and values.
pub(crate) fn with_store(builder: HostBuilder, file: &Path) -> Result<HostBuilder> {
    Ok(builder.own_folder(file).key_value_store(Arc::new(DiskStore::open(file)?)))
}

/// Sets the store of keys and values for components of the command line: the file that was typed, that of the only
/// component, or memory.
///
/// # Errors
/// If a store cannot be opened, or the configuration has another one.
pub(crate) fn with_typed_store(
    builder: HostBuilder,
    config: &Config,
    powers: &PowerArguments,
    components: &[PathBuf],
) -> Result<HostBuilder> {
    if powers.needs_store()
        && !has_store(config)
        && let Some(store) = shared_store(config)?
    {
        return Ok(builder.key_value_store(store));
    }
    match (&powers.key_value_store, components) {
        (Some(file), _) => own_store(builder, config, file),
        _ if !powers.needs_store() || has_store(config) => Ok(builder),
        (None, [only]) => with_store(builder, &store_of(only)?),
        (None, _) => {
            render::warning(
                "key-value stores of several components are in memory and will be lost; keep them with \
                 `--key-value-store FILE`",
            );
            Ok(builder)
        }
    }
}

/// Returns whether tools of the configuration keep keys and values, in one store for all of them.
fn has_store(config: &Config) -> bool {
    config.tools.values().any(|tool| tool.powers.key_value.is_some())
}

/// Sets the store of `--key-value-store`. A host has one store, so the configuration must not need another.
fn own_store(builder: HostBuilder, config: &Config, file: &Path) -> Result<HostBuilder> {
    if has_store(config) || shared_store(config)?.is_some() {
        let place = config.origin.display();
        let message = format!("`--key-value-store` conflicts with the store in {place}; leave one of them out");
        return Err(UsageError(message).into());
    }
    with_store(builder, file)
}

fn cache_folder(arguments: &Arguments) -> Option<PathBuf> {
    if arguments.no_cache {
        return None;
    }
    arguments.cache_dir.clone().or_else(default_cache)
}

/// A component that the command line names, with or without a name of its own.
pub(crate) struct TypedComponent {
    /// The load, without powers.
    pub(crate) load: Load,
    /// The name: the typed one, or that of the file or repository if it makes a valid name.
    pub(crate) name: String,
    /// The file name or the reference, for messages.
    pub(crate) label: String,
    pub(crate) file: PathBuf,
    /// The component in the store, if a reference was typed.
    pub(crate) stored: Option<StoredComponent>,
}

/// Prepares to load a component that the command line names: a file, a reference, or `NAME=REFERENCE`. A reference is got first.
///
/// # Errors
/// If the reference is malformed, the component cannot be had, or the policy of the configuration refuses it.
pub(crate) async fn typed_component(config: &Config, typed: &Path, allow_slow_compile: bool) -> Result<TypedComponent> {
    let (own_name, typed) = split_name(typed);
    let (mut load, label, file, stored) = match published::typed_reference(typed)? {
        None => (Load::path(typed), file_name(typed), typed.to_owned(), None),
        Some(reference) => {
            let stored = published::get_typed(config, &reference).await?;
            (Load::stored(&stored), reference.to_string(), stored.path.clone(), Some(stored))
        }
    };
    if let Some(name) = own_name {
        load = load.named(name);
    }
    if allow_slow_compile {
        load = load.allow_slow_compile();
    }
    let (load, name) = match load.name() {
        Ok(name) => (load, name.to_string()),
        Err(_) => (load.named(DEFAULT_NAME), DEFAULT_NAME.to_owned()),
    };
    Ok(TypedComponent { load, name, label, file, stored })
}

/// Returns the name of a configured component that was typed; `None` for a file.
pub(crate) fn configured_name(typed: &Path) -> Option<&str> {
    typed.to_str().filter(|name| Namespace::parse(name).is_ok() && !typed.is_file())
}

/// Splits `NAME=REFERENCE`. A path may contain such a character, so that only references can have a name.
fn split_name(typed: &Path) -> (Option<&str>, &Path) {
    let parts = typed.to_str().and_then(|text| text.split_once('='));
    match parts.filter(|(name, rest)| Namespace::parse(name).is_ok() && published::is_reference(Path::new(rest))) {
        Some((name, rest)) => (Some(name), Path::new(rest)),
        None => (None, typed),
    }
}

/// Loads a component. If that takes long, a terminal shows a spinner.
pub(crate) async fn load(host: &Host, what: &str, load: Load) -> Result<Component> {
    load_reported(what, host.load(load)).await
}

/// Like [`load`], for a component of a configuration. A file of a folder in `tools_in` that cannot be loaded is left out, with a
/// warning: nobody named it. Returns whether it was loaded.
pub(crate) async fn load_configured(host: &Host, component: &ConfiguredComponent, request: Load) -> Result<bool> {
    match load(host, &component.label, request).await {
        Ok(_) => Ok(true),
        Err(error) if component.is_from_folder() => {
            render::warning(&format!("{error:#}; skipping {}", component.file.display()));
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Like [`load`], in place of the component of the same name.
pub(crate) async fn reload(host: &Host, what: &str, load: Load) -> Result<Component> {
    load_reported(what, host.reload(load)).await
}

/// Loads several components at the same time.
pub(crate) async fn load_all(host: &Host, what: &str, loads: impl IntoIterator<Item = (&str, Load)>) -> Result<()> {
    let loads = loads.into_iter();
    let loading = loads.map(|(name, load)| async move {
        let component = host.load(load).await.map_err(|error| to_load_error(name, error))?;
        Ok::<_, anyhow::Error>((name, component))
    });
    for (name, component) in with_spinner(what, try_join_all(loading)).await? {
        warn_of_problems(name, &component);
    }
    Ok(())
}

/// Waits for a load, and warns of problems that do not fail it.
async fn load_reported(what: &str, loading: impl Future<Output = Result<Component, LoadError>>) -> Result<Component> {
    let component = with_spinner(what, loading).await.map_err(|error| to_load_error(what, error))?;
    warn_of_problems(what, &component);
    Ok(component)
}

/// Warns if the jail of a loaded component is incomplete, or the cache did not work.
fn warn_of_problems(what: &str, component: &Component) {
    warn_of_incomplete_jail(component);
    match &component.report().cache {
        CacheReport::Damaged(reason) => {
            render::warning(&format!("the cached code of {what} was damaged, and was recompiled: {reason}"));
        }
        CacheReport::NotStored(reason) => {
            render::warning(&format!("cannot cache the compiled code of {what}: {reason}"));
        }
        CacheReport::Off | CacheReport::Hit | CacheReport::Stored => {}
    }
}

/// Warns, once in a process, if the kernel lacks a part of the jail.
fn warn_of_incomplete_jail(component: &Component) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let missing = component.jail().map_or("", JailReport::missing);
    if !missing.is_empty() {
        ONCE.call_once(|| {
            render::warning(&format!(
                "this kernel does not support {missing}: tools run in separate processes without this part of the jail"
            ));
        });
    }
}

/// Translates the error about a component of the command line: the powers that it lacks are named as options.
pub(crate) fn with_option_hints(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ComponentLoadError>() {
        Ok(ComponentLoadError::Component { file, source: source @ ComponentError::Ungranted(_) }) => {
            ComponentLoadError::Typed { file, source: UsageError(flags::translate(&source.to_string())) }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

fn to_load_error(file: &str, error: LoadError) -> anyhow::Error {
    let file = file.to_owned();
    match error {
        LoadError::Component { source, .. } => ComponentLoadError::Component { file, source: *source }.into(),
        LoadError::Schema { tool, which, source, .. } => {
            ComponentLoadError::Schema { file, tool, which, source: *source }.into()
        }
        LoadError::Read { path, source } if let Some(suggestion) = suggest_file(&path, &source) => {
            ComponentLoadError::Misspelt { path, suggestion }.into()
        }
        error => error.into(),
    }
}

/// Shows a spinner with a message and the time that passed, if standard error is a terminal.
pub(crate) fn spinner(message: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} … {elapsed}");
    let spinner = ProgressBar::new_spinner().with_message(message);
    spinner.set_style(style.unwrap_or(ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(Duration::from_millis(100));
    logging::lift_bar(&spinner);
    spinner
}

/// Asks whether a component beside a missing one was meant.
fn suggest_file(path: &Path, error: &std::io::Error) -> Option<String> {
    /// Maximum number of files that are looked at.
    const MAX_FILES: usize = 1000;
    if error.kind() != std::io::ErrorKind::NotFound {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files =
        std::fs::read_dir(folder).ok()?.take(MAX_FILES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let components: Vec<String> = files.filter(|name| name.ends_with(".wasm")).collect();
    suggest(path.file_name()?.to_str()?, components.iter().map(String::as_str))
}

/// Waits for `loading`. If that takes long, a terminal shows a spinner.
async fn with_spinner<T>(what: &str, loading: impl Future<Output = T>) -> T {
    let mut loading = std::pin::pin!(loading);
    match tokio::time::timeout(SPINNER_DELAY, loading.as_mut()).await {
        Ok(loaded) => loaded,
        Err(_still_loading) => {
            let spinner = spinner(format!("compiling {what}"));
            let loaded = loading.await;
            spinner.finish_and_clear();
            loaded
        }
    }
}
