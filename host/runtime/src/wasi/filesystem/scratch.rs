//! The scratch space of a call: created when the guest first lists its folders, removed when the call is over.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::policy::permission::files::{Quota, SCRATCH};

use super::folder::OpenFolder;
use super::protected_set::ProtectedSet;
use super::remove_contents::remove_contents;
use super::resolver::as_dir;
use super::scratch_root::{ScratchRoot, ScratchSpace};
use crate::engine::file_pool::FilePool;
use crate::wasi::HostFailure;

/// Maximum time that a call waits for the removal of its scratch space. After that the removal goes on in the
/// background.
const MAX_REMOVAL_WAIT: Duration = Duration::from_millis(200);

/// The scratch space of one call, removed on drop.
pub(crate) struct Scratch {
    removal: Option<RemoveOnDrop>,
    folder: Arc<OpenFolder>,
    pool: FilePool,
}

impl Scratch {
    /// Creates an empty folder that only this user may enter.
    pub(super) fn create(quota: Quota, root: &ScratchRoot, pool: &FilePool) -> Result<Self, HostFailure> {
        let failed = |error: std::io::Error| HostFailure(format!("scratch space for the call cannot be made: {error}"));
        let (space, file) = root.create_space().map_err(failed)?;
        let folder = Arc::new(OpenFolder::new(file, SCRATCH, Some(quota), None, ProtectedSet::default()));
        let removal = RemoveOnDrop { folder: Arc::clone(&folder), space };
        Ok(Self { removal: Some(removal), folder, pool: pool.clone() })
    }

    pub(super) fn folder(&self) -> &Arc<OpenFolder> {
        &self.folder
    }

    /// Removes the folder, and waits a short time for that to be done.
    pub(crate) async fn remove(mut self) {
        if let Some(removal) = self.removal.take() {
            let (done, wait) = tokio::sync::oneshot::channel();
            self.pool.detach(move || {
                drop(removal);
                let _nobody_waits = done.send(());
            });
            let _still_at_it = tokio::time::timeout(MAX_REMOVAL_WAIT, wait).await;
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(removal) = self.removal.take() {
            self.pool.detach(move || drop(removal));
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
    use super::*;
    use std::path::Path;

    #[tokio::test]
    async fn scratch_space_is_removed_after_its_call_and_on_drop() {
        let pool = FilePool::start().unwrap();
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::new_in(parent.path());
        let fill = |scratch: &Scratch| {
            let path = scratch.removal.as_ref().unwrap().space.path();
            std::fs::create_dir_all(path.join("a/b")).unwrap();
            std::fs::write(path.join("a/b/c"), "x").unwrap();
            path
        };
        let scratch = Scratch::create(Quota::default(), &root, &pool).unwrap();
        let path = fill(&scratch);
        scratch.remove().await;
        assert!(!path.exists());
        let scratch = Scratch::create(Quota::default(), &root, &pool).unwrap();
        let path = fill(&scratch);
        drop(scratch);
        for _ in 0..500 {
            if !Path::exists(&path) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it is still there");
    }
}
