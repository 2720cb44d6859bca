//! The scratch space of a call: created when the guest first lists its folders, removed when the call is over.
//!
//! The answer of a call does not wait for the removal, which takes as long as the file system does. Each tool's spaces
//! are removed one after the other, so that a tool occupies one of the host's threads at most, and its calls wait while
//! too many of them are left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::policy::permission::files::{Quota, SCRATCH};
use tokio::sync::Notify;

use super::folder::OpenFolder;
use super::protected_set::ProtectedSet;
use super::remove_contents::remove_contents;
use super::resolver::as_dir;
use super::scratch_root::{ScratchRoot, ScratchSpace};
use crate::engine::file_pool::FilePool;
use crate::wasi::HostFailure;

/// Maximum number of spaces of one tool that wait for their removal when another of its calls begins.
const MAX_PENDING_REMOVALS: usize = 4;

/// The scratch space of one call, whose removal begins when it is dropped.
pub(crate) struct Scratch {
    removal: Option<RemoveOnDrop>,
    folder: Arc<OpenFolder>,
    removals: Removals,
}

impl Scratch {
    /// Creates an empty folder that only this user may enter.
    pub(super) fn create(quota: Quota, root: &ScratchRoot, removals: &Removals) -> Result<Self, HostFailure> {
        let failed =
            |error: std::io::Error| HostFailure(format!("cannot create the scratch folder of the call: {error}"));
        let (space, file) = root.create_space().map_err(failed)?;
        let folder = Arc::new(OpenFolder::new(file, SCRATCH, Some(quota), None, ProtectedSet::default()));
        let removal = RemoveOnDrop { folder: Arc::clone(&folder), space };
        Ok(Self { removal: Some(removal), folder, removals: removals.clone() })
    }

    pub(super) fn folder(&self) -> &Arc<OpenFolder> {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(removal) = self.removal.take() {
            self.removals.begin(removal);
        }
    }
}

/// The scratch spaces of one tool that are being removed. Clones share them.
#[derive(Clone)]
pub(crate) struct Removals {
    shared: Arc<PendingRemovals>,
    pool: FilePool,
}

#[derive(Default)]
struct PendingRemovals {
    queue: Mutex<Queue>,
    one_less: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<RemoveOnDrop>,
    /// True while a thread removes them.
    is_removing: bool,
}

impl Removals {
    pub(crate) fn new(pool: &FilePool) -> Self {
        Self { shared: Arc::default(), pool: pool.clone() }
    }

    /// Returns whether too many spaces wait for their removal.
    pub(crate) fn is_behind(&self) -> bool {
        let queue = self.shared.queue();
        queue.waiting.len() + usize::from(queue.is_removing) > MAX_PENDING_REMOVALS
    }

    /// Waits until few enough spaces wait for their removal.
    pub(crate) async fn catch_up(&self) {
        loop {
            let one_less = self.shared.one_less.notified();
            if !self.is_behind() {
                return;
            }
            one_less.await;
        }
    }

    fn begin(&self, removal: RemoveOnDrop) {
        let mut queue = self.shared.queue();
        queue.waiting.push_back(removal);
        if queue.is_removing {
            return;
        }
        queue.is_removing = true;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        self.pool.detach(move || shared.remove_all());
    }
}

impl PendingRemovals {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all spaces. Blocks.
    fn remove_all(&self) {
        loop {
            let mut queue = self.queue();
            let next = queue.waiting.pop_front();
            queue.is_removing = next.is_some();
            drop(queue);
            self.one_less.notify_waiters();
            match next {
                Some(removal) => drop(removal),
                None => return,
            }
        }
    }
}

/// Removes a scratch space on drop: on a thread for file work, or on this one if those have ended already.
struct RemoveOnDrop {
    folder: Arc<OpenFolder>,
    space: ScratchSpace,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        // Files that cannot be removed stay in a folder that only this user may enter. The next start tries again.
        let _emptied = remove_contents(&as_dir(&self.folder.dir.dir));
        self.space.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::*;

    fn fill(scratch: &Scratch) -> PathBuf {
        let path = scratch.removal.as_ref().unwrap().space.path();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::write(path.join("a/b/c"), "x").unwrap();
        path
    }

    async fn is_gone(path: &Path) -> bool {
        for _ in 0..500 {
            if !path.exists() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn scratch_space_is_removed_after_its_call() {
        let pool = FilePool::start().unwrap();
        let removals = Removals::new(&pool);
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::new_in(parent.path());
        for _ in 0..2 {
            let scratch = Scratch::create(Quota::default(), &root, &removals).unwrap();
            let path = fill(&scratch);
            drop(scratch);
            assert!(is_gone(&path).await);
            removals.catch_up().await;
        }
    }

    #[tokio::test]
    async fn calls_wait_while_too_many_spaces_are_left() {
        let pool = FilePool::start().unwrap();
        let removals = Removals::new(&pool);
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::new_in(parent.path());
        // The thread that removes them is held up by the first.
        removals.shared.queue().is_removing = true;
        let spaces = (0..MAX_PENDING_REMOVALS).map(|_| Scratch::create(Quota::default(), &root, &removals).unwrap());
        let spaces: Vec<_> = spaces.collect();
        let paths: Vec<_> = spaces.iter().map(fill).collect();
        assert!(!removals.is_behind());
        drop(spaces);
        assert!(removals.is_behind());
        let mut waiting = std::pin::pin!(removals.catch_up());
        assert!(tokio::time::timeout(Duration::from_millis(20), waiting.as_mut()).await.is_err());
        let shared = Arc::clone(&removals.shared);
        pool.detach(move || shared.remove_all());
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
        for path in paths {
            assert!(is_gone(&path).await);
        }
    }
}
