//! A folder for one call: made when the guest first asks for its folders, gone when the call is over.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::permission::files::{Quota, SCRATCH};

use super::emptying::empty;
use super::folder::OpenFolder;
use super::protect::Protected;
use super::scratch_root::{ScratchRoot, Space};
use crate::file_pool::FilePool;
use crate::host_failure::HostFailure;

/// How long a call that is over waits for its scratch space to be removed. After that it goes on by itself.
const PATIENCE: Duration = Duration::from_millis(200);

/// The scratch space of one call. However the call ends, it is removed.
pub(crate) struct Scratch {
    removal: Option<Removal>,
    folder: Arc<OpenFolder>,
    pool: FilePool,
}

impl Scratch {
    /// An empty folder that only this user may enter.
    pub(super) fn make(quota: Quota, root: &ScratchRoot, pool: &FilePool) -> Result<Self, HostFailure> {
        let failed = |error: std::io::Error| HostFailure(format!("scratch space for the call cannot be made: {error}"));
        let (space, file) = root.space().map_err(failed)?;
        let folder = Arc::new(OpenFolder::new(file, SCRATCH, Some(quota), None, Protected::default()));
        let removal = Removal { folder: Arc::clone(&folder), space };
        Ok(Self { removal: Some(removal), folder, pool: pool.clone() })
    }

    pub(super) fn folder(&self) -> &Arc<OpenFolder> {
        &self.folder
    }

    /// Removes it, and waits a little for that to be done.
    pub(crate) async fn remove(mut self) {
        if let Some(removal) = self.removal.take() {
            let (done, wait) = tokio::sync::oneshot::channel();
            self.pool.detach(move || {
                drop(removal);
                let _nobody_waits = done.send(());
            });
            let _still_at_it = tokio::time::timeout(PATIENCE, wait).await;
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

/// Removes a scratch space when it is dropped: on a thread for file work, or right here if those have ended already.
struct Removal {
    folder: Arc<OpenFolder>,
    space: Space,
}

impl Drop for Removal {
    fn drop(&mut self) {
        // What cannot be removed stays behind where only this user gets at it; there is nobody to tell. The next start
        // tries again.
        let _emptied = empty(&*self.folder.dir.dir);
        self.space.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[tokio::test]
    async fn scratch_space_is_gone_after_its_call_and_after_a_call_that_was_dropped() {
        let pool = FilePool::start().unwrap();
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::within(parent.path());
        let fill = |scratch: &Scratch| {
            let path = scratch.removal.as_ref().unwrap().space.path();
            std::fs::create_dir_all(path.join("a/b")).unwrap();
            std::fs::write(path.join("a/b/c"), "x").unwrap();
            path
        };
        let scratch = Scratch::make(Quota::default(), &root, &pool).unwrap();
        let path = fill(&scratch);
        scratch.remove().await;
        assert!(!path.exists());
        let scratch = Scratch::make(Quota::default(), &root, &pool).unwrap();
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
