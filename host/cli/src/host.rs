//! A host for one command: with the code cache, and a sign of life while something is compiled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use etcetera::BaseStrategy as _;
use fumehood::key_value::DiskStore;
use fumehood::{CacheReport, CodeCache, Compiler, Component, Digest, Host, HostBuilder, Load, LoadError};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Arguments, COMPILE_COMPONENT};
use crate::config::Config;
use crate::exit::{CannotLoad, UsageError};
use crate::render;

/// Longer than this and a person wonders.
const BLINK: Duration = Duration::from_millis(300);
/// One command makes few calls at a time, so it needs few slots.
const CONCURRENCY: u32 = 8;
/// What a component is called whose file name holds no letter or digit.
const NAMELESS: &str = "component";

/// Settings for a host of one command.
pub(crate) fn builder(arguments: &Arguments) -> HostBuilder {
    let compiler = Compiler::this_program([COMPILE_COMPONENT]);
    let builder = Host::builder().concurrency(CONCURRENCY).compiler(compiler);
    match cache_folder(arguments).map(CodeCache::open) {
        Some(Ok(cache)) => builder.code_cache(cache),
        Some(Err(error)) => {
            render::warning(&format!("{:#}; going on without a code cache", anyhow::Error::new(error)));
            builder
        }
        None => builder,
    }
}

/// The same for the components of a configuration: no tool is granted a folder with the configuration or the state in it,
/// and what tools keep is kept where the configuration says.
pub(crate) fn builder_for(arguments: &Arguments, config: &Config) -> Result<HostBuilder> {
    let mut builder = builder(arguments);
    // The lock lies beside it, so that whoever holds one of them holds both.
    builder = builder.own_folder(&config.origin);
    builder = state_folder().into_iter().fold(builder, HostBuilder::own_folder);
    // What is too large for that was refused when the configuration was read.
    let most = config.http_in_flight.and_then(|count| u32::try_from(count.0).ok());
    builder = most.into_iter().fold(builder, HostBuilder::http_in_flight);
    if config.tools.values().all(|tool| tool.key_value.is_none()) {
        return Ok(builder);
    }
    let file = match &config.key_value_store {
        Some(file) => config.path(file),
        None => usual_store(config)?,
    };
    with_store(builder, &file)
}

/// The same, with what tools keep in this file.
pub(crate) fn with_store(builder: HostBuilder, file: &Path) -> Result<HostBuilder> {
    Ok(builder.own_folder(file).key_value_store(Arc::new(DiskStore::open(file)?)))
}

/// Each configuration has its own, so that a tool of one never finds what a tool of the same name in another kept.
fn usual_store(config: &Config) -> Result<PathBuf> {
    let folder = state_folder().ok_or_else(|| {
        UsageError("there is no home folder to keep the stores of tools in; set `key_value_store`".to_owned())
    })?;
    let origin = config.origin.canonicalize().unwrap_or_else(|_| config.origin.clone());
    let digest = Digest::of(origin.as_os_str().as_encoded_bytes()).hex();
    Ok(folder.join("key-value").join(format!("{}.db", digest.get(..16).unwrap_or(&digest))))
}

/// Where the command keeps what is not to be lost, and not to be edited either.
fn state_folder() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.state_dir().unwrap_or_else(|| strategy.data_dir()).join("fumehood"))
}

fn cache_folder(arguments: &Arguments) -> Option<PathBuf> {
    if arguments.no_cache {
        return None;
    }
    let usual = || Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("fumehood").join("code"));
    arguments.cache_dir.clone().or_else(usual)
}

/// How to load the component in this file, and what it is called then: after the file, if that makes a name.
pub(crate) fn load_of(path: &Path, allow_slow_compile: bool) -> (Load, String) {
    let load = Load::path(path);
    let load = if allow_slow_compile { load.allow_slow_compile() } else { load };
    match load.name() {
        Ok(name) => (load, name.to_string()),
        Err(_) => (load.named(NAMELESS), NAMELESS.to_owned()),
    }
}

/// Loads a component. If that takes long, a terminal shows that something is going on.
pub(crate) async fn load(host: &Host, what: &str, load: Load) -> Result<Component> {
    loaded(what, host.load(load)).await
}

/// The same in place of what has its name.
pub(crate) async fn reload(host: &Host, what: &str, load: Load) -> Result<Component> {
    loaded(what, host.reload(load)).await
}

async fn loaded(what: &str, loading: impl Future<Output = Result<Component, LoadError>>) -> Result<Component> {
    let component = visibly(what, loading).await.map_err(|error| named(what, error))?;
    match &component.report().cache {
        CacheReport::Damaged(reason) => {
            render::warning(&format!("the cached code of {what} was damaged and was compiled again: {reason}"));
        }
        CacheReport::NotStored(reason) => {
            render::warning(&format!("the compiled code of {what} could not be cached: {reason}"));
        }
        CacheReport::Off | CacheReport::Hit | CacheReport::Stored => {}
    }
    Ok(component)
}

fn named(file: &str, error: LoadError) -> anyhow::Error {
    let file = file.to_owned();
    match error {
        LoadError::Component { source, .. } => CannotLoad::Component { file, source: *source }.into(),
        LoadError::Schema { tool, which, source, .. } => {
            CannotLoad::Schema { file, tool, which, source: *source }.into()
        }
        error => error.into(),
    }
}

async fn visibly(
    what: &str,
    loading: impl Future<Output = Result<Component, LoadError>>,
) -> Result<Component, LoadError> {
    let mut loading = std::pin::pin!(loading);
    match tokio::time::timeout(BLINK, loading.as_mut()).await {
        Ok(loaded) => loaded,
        Err(_still_loading) => {
            let spinner = ProgressBar::new_spinner().with_message(format!("compiling {what}"));
            spinner.set_style(
                ProgressStyle::with_template("{spinner} {msg} … {elapsed}").unwrap_or(ProgressStyle::default_spinner()),
            );
            spinner.enable_steady_tick(Duration::from_millis(100));
            let loaded = loading.await;
            spinner.finish_and_clear();
            loaded
        }
    }
}

/// What a component in this file is called on the screen.
pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    fumehood::sanitize::printable(&name).into_owned()
}
