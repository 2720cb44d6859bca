//! Components over the cell: a gateway pushes those that its lock names, and a worker fetches those that its own lock names.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use fumehood::cell::ComponentStore;
use fumehood::{Digest, Lock, Namespace};
use tokio::sync::Notify;

use crate::config::Config;
use crate::config::cell::Accept;
use crate::configured::{self, ConfiguredComponent, Version};
use crate::trust::ConfigSource;
use crate::{cell, render, user_folders};

/// Interval at which a gateway looks at what is pushed.
const PUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which a worker looks for what it lacks.
const FETCH_INTERVAL: Duration = Duration::from_secs(1);

/// Default size of the fetched components that are kept, in bytes.
const DEFAULT_FETCHED_BYTES: u64 = 1 << 30;
/// Interval at which a worker marks the components that it uses, and removes others if there are too many.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// Time without a mark after which nobody uses a component: workers of other folders share the files.
const UNUSED_AFTER: Duration = Duration::from_secs(600);

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
            render::warning(&format!("{shown} is not the component that was fetched; fetching it again"));
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
    store.open().await.context("cannot fetch components over the cell; check `accept` in [cell]")?;
    let mut fetcher = Fetcher { store, warned: HashMap::new() };
    let lock = configured::open_lock(config)?;
    remove_damaged(config, &lock);
    fetcher.fetch_all(&awaited(config, &lock)).await;
    tidy(config, &lock);
    let arrived = Arc::new(Notify::new());
    let tell = Arc::clone(&arrived);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(FETCH_INTERVAL);
        let mut tidied = Instant::now();
        loop {
            ticks.tick().await;
            // What is wrong with a configuration is told when it is read again for its tools.
            let Ok(config) = source.open() else { continue };
            let Ok(lock) = configured::open_lock(&config) else { continue };
            let count = fetcher.fetch_all(&awaited(&config, &lock)).await;
            if count > 0 {
                tell.notify_one();
            }
            if count > 0 || tidied.elapsed() >= TIDY_INTERVAL {
                tidy(&config, &lock);
                tidied = Instant::now();
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
    let mut beside = tempfile::NamedTempFile::new_in(folder).context("cannot save the component")?;
    beside.write_all(bytes).context("cannot save the component")?;
    beside.persist(file).context("cannot save the component")?;
    Ok(())
}

/// Marks the fetched components that are used, and removes others if they are too many. A failure leaves too much there, and no
/// component is missing, so that it is reported only.
fn tidy(config: &Config, lock: &Lock) {
    let Some(folder) = user_folders::fetched_components() else { return };
    let used: Vec<PathBuf> = fetchable(config, lock).into_iter().map(|component| component.file).collect();
    let now = SystemTime::now();
    for file in &used {
        let _missing = std::fs::File::options().append(true).open(file).and_then(|file| file.set_modified(now));
    }
    let max_bytes =
        config.cell.as_ref().and_then(|cell| cell.max_fetched).map_or(DEFAULT_FETCHED_BYTES, |max| max.0 as u64);
    match remove_unused(&folder, &used, max_bytes, now) {
        Ok(0) => {}
        Ok(count) => render::note(&format!("removed {count} fetched components that were least recently used")),
        Err(error) => render::warning(&format!("cannot remove fetched components from {}: {error}", folder.display())),
    }
}

/// Removes files that nobody uses, those that were used longest ago first, until the rest has at most `max_bytes`. Returns how
/// many.
fn remove_unused(folder: &Path, used: &[PathBuf], max_bytes: u64, now: SystemTime) -> std::io::Result<usize> {
    let mut unused = Vec::new();
    let mut bytes = 0_u64;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if metadata.is_file() {
            bytes = bytes.saturating_add(metadata.len());
            let used_at = metadata.modified()?;
            let is_old = now.duration_since(used_at).is_ok_and(|age| age > UNUSED_AFTER);
            unused.extend(Some((used_at, metadata.len(), path)).filter(|(_, _, path)| is_old && !used.contains(path)));
        }
    }
    unused.sort();
    let mut removed = 0_usize;
    for (_, size, path) in unused {
        if bytes <= max_bytes {
            break;
        }
        std::fs::remove_file(&path)?;
        bytes = bytes.saturating_sub(size);
        removed = removed.saturating_add(1);
    }
    Ok(removed)
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
    store.open().await.context("cannot push components over the cell; check `push` in [cell]")?;
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PUSH_INTERVAL);
        let mut warned = None;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn put_used(folder: &Path, now: SystemTime, name: &str, bytes: usize, minutes: u64) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, vec![0; bytes]).unwrap();
        let used_at = now - Duration::from_secs(minutes * 60);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(used_at).unwrap();
        path
    }

    fn assert_left(
        folder: &Path,
        used: &[PathBuf],
        now: SystemTime,
        max_bytes: u64,
        expected: usize,
        left: &[&PathBuf],
    ) {
        assert_eq!(remove_unused(folder, used, max_bytes, now).unwrap(), expected, "{max_bytes}");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.collect();
        let mut left: Vec<_> = left.to_vec();
        files.sort();
        left.sort();
        assert!(files.iter().eq(left), "{files:?}");
    }

    #[test]
    fn components_that_were_used_longest_ago_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        // The oldest is used here, and the newest perhaps by another worker.
        let used = [put_used(folder.path(), now, "used", 100, 500)];
        let oldest = put_used(folder.path(), now, "oldest", 100, 400);
        let older = put_used(folder.path(), now, "older", 100, 300);
        let newest = put_used(folder.path(), now, "newest", 100, 1);
        assert_left(folder.path(), &used, now, 400, 0, &[&used[0], &oldest, &older, &newest]);
        assert_left(folder.path(), &used, now, 399, 1, &[&used[0], &older, &newest]);
        assert_left(folder.path(), &used, now, 1, 1, &[&used[0], &newest]);
        assert_left(folder.path(), &used, now, 0, 0, &[&used[0], &newest]);
        assert_eq!(remove_unused(&folder.path().join("missing"), &[], 0, now).unwrap(), 0);
    }
}
