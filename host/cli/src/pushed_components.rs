//! Components over the cell: a gateway pushes those that its lock names, and a worker fetches those that its own lock names.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::cell::ComponentStore;
use fumehood::{Digest, Lock, Namespace};
use tokio::sync::Notify;

use crate::config::Config;
use crate::config::cell::Accept;
use crate::configured::{self, ConfiguredComponent, Version};
use crate::trust::ConfigSource;
use crate::{cell, render};

/// Interval at which a gateway looks at what is pushed.
const PUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which a worker looks for what it lacks.
const FETCH_INTERVAL: Duration = Duration::from_secs(1);

/// A component that a worker fetches: its section names a file that is not there, and its lock approves a digest.
pub(crate) struct FetchedComponent {
    name: Namespace,
    digest: Digest,
    file: PathBuf,
}

/// Returns whether a component is still to be fetched.
pub(crate) fn is_awaited(config: &Config, lock: &Lock, component: &ConfiguredComponent) -> bool {
    let section = component.terms.section.as_ref();
    let fetched = section.and_then(|section| configured::fetched_file(config, lock, &component.name, section));
    fetched.is_some_and(|(file, _)| !file.exists())
}

/// Returns the components that a worker fetches, whether or not it has them already.
fn fetchable(config: &Config, lock: &Lock) -> Vec<FetchedComponent> {
    let sections = config.tools.iter().filter_map(|(name, section)| {
        let name = Namespace::parse(name).ok()?;
        let (file, digest) = configured::fetched_file(config, lock, &name, section)?;
        Some(FetchedComponent { name, digest, file })
    });
    sections.collect()
}

/// Returns the components that a worker lacks.
fn awaited(config: &Config, lock: &Lock) -> Vec<FetchedComponent> {
    fetchable(config, lock).into_iter().filter(|component| !component.file.exists()).collect()
}

/// Removes files that have another digest than they had when they were fetched, so that they are fetched again.
fn remove_damaged(config: &Config, lock: &Lock) {
    for FetchedComponent { digest, file, .. } in fetchable(config, lock) {
        if std::fs::read(&file).is_ok_and(|bytes| Digest::of(&bytes) != digest) {
            let shown = file.display();
            render::warning(&format!("{shown} is not the component that was fetched; it is removed and fetched again"));
            if let Err(error) = std::fs::remove_file(&file) {
                render::warning(&format!("cannot remove {shown}: {error}"));
            }
        }
    }
}

/// Fetches what is there already, and goes on with the rest for as long as the process lives. Returns what is notified whenever
/// a component has arrived; `None` if the configuration does not accept components over the cell.
///
/// # Errors
/// If the bucket of components cannot be used.
pub(crate) async fn fetch(config: &Config, source: ConfigSource) -> Result<Option<Arc<Notify>>> {
    let section = cell::section(config)?;
    if section.accept != Some(Accept::Locked) {
        return Ok(None);
    }
    let store = ComponentStore::new(cell::server_options(config, section)?);
    store.open().await.context("components cannot be fetched over the cell; look at [cell] and its `accept`")?;
    let mut fetcher = Fetcher { store, warned: HashMap::new() };
    let lock = configured::open_lock(config)?;
    remove_damaged(config, &lock);
    fetcher.fetch_all(&awaited(config, &lock)).await;
    let arrived = Arc::new(Notify::new());
    let tell = Arc::clone(&arrived);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(FETCH_INTERVAL);
        loop {
            ticks.tick().await;
            // What is wrong with a configuration is told when it is read again for its tools.
            let Ok(config) = source.open() else { continue };
            let Ok(lock) = configured::open_lock(&config) else { continue };
            if fetcher.fetch_all(&awaited(&config, &lock)).await > 0 {
                tell.notify_one();
            }
        }
    });
    Ok(Some(arrived))
}

struct Fetcher {
    store: ComponentStore,
    /// The last failure of each component, so that it is told once.
    warned: HashMap<Digest, String>,
}

impl Fetcher {
    /// Fetches these components. Returns how many of them arrived.
    async fn fetch_all(&mut self, awaited: &[FetchedComponent]) -> usize {
        let mut arrived = 0_usize;
        for FetchedComponent { name, digest, file } in awaited {
            let fetched = match self.store.fetch(*digest).await {
                Ok(bytes) => save(file, &bytes),
                Err(error) => Err(error.into()),
            };
            match fetched {
                Ok(()) => {
                    arrived = arrived.saturating_add(1);
                    self.warned.remove(digest);
                    render::note(&format!("`{name}` was fetched over the cell"));
                }
                Err(error) => {
                    let message = format!("{error:#}; `{name}` is not served until it can be fetched");
                    if self.warned.insert(*digest, message.clone()).as_ref() != Some(&message) {
                        render::warning(&message);
                    }
                }
            }
        }
        arrived
    }
}

/// Writes a component beside its place, and moves it there whole.
fn save(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a component needs a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut beside = tempfile::NamedTempFile::new_in(folder).context("cannot keep the component")?;
    beside.write_all(bytes).context("cannot keep the component")?;
    beside.persist(file).context("cannot keep the component")?;
    Ok(())
}

/// Pushes the components that the lock of a gateway names, if its configuration says so: now, and for as long as the process
/// lives whenever they are not whole in the bucket.
///
/// # Errors
/// If the bucket of components cannot be used.
pub(crate) async fn push(config: &Config, source: ConfigSource) -> Result<()> {
    let section = cell::section(config)?;
    if !section.push {
        return Ok(());
    }
    let store = ComponentStore::new(cell::server_options(config, section)?);
    store.open().await.context("components cannot be pushed over the cell; look at [cell] and its `push`")?;
    tokio::spawn(async move {
        let (mut ticks, mut warned) = (tokio::time::interval(PUSH_INTERVAL), None);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let failed = push_all(&store, &source).await.err().map(|error| format!("{error:#}"));
            if failed != warned {
                failed.iter().for_each(|failed| render::warning(failed));
            }
            warned = failed;
        }
    });
    Ok(())
}

/// Pushes those components whose files have the digest that the lock names.
async fn push_all(store: &ComponentStore, source: &ConfigSource) -> Result<()> {
    let config = source.open()?;
    let lock = configured::open_lock(&config)?;
    for component in configured::all(&config, &lock, Version::Pinned).await? {
        let approved = lock.get(&component.name).and_then(|approval| approval.manifest().component);
        let Some(approved) = approved.filter(|_| component.is_pinned) else { continue };
        // What is not as it was approved is told by whoever loads it.
        let Ok(bytes) = std::fs::read(&component.file) else { continue };
        if Digest::of(&bytes) == approved && store.push(&bytes).await? {
            render::note(&format!("`{}` was pushed for workers to fetch", component.name));
        }
    }
    Ok(())
}
