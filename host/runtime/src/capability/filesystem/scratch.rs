//! A folder for one call: made when the guest first asks for its folders, gone when the call is over.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::permission::files::{Quota, SCRATCH};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::folder::{OpenFolder, open_plainly};
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
    /// An empty folder that only this user may enter, among the temporary files of the system.
    pub(super) fn make(quota: Quota, pool: &FilePool) -> Result<Self, HostFailure> {
        let failed = |error: std::io::Error| HostFailure(format!("scratch space for the call cannot be made: {error}"));
        let made = tempfile::Builder::new().prefix("fumehood-scratch-").tempdir().map_err(failed)?;
        let path = made.path().canonicalize().map_err(failed)?;
        let file = open_plainly(&path).map_err(|errno| failed(errno.into()))?;
        let folder = Arc::new(OpenFolder::new(file, SCRATCH, Some(quota), None));
        let _kept = made.keep();
        let removal = Removal { folder: Arc::clone(&folder), path };
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
    path: PathBuf,
}

impl Drop for Removal {
    fn drop(&mut self) {
        // What cannot be removed stays behind where only this user gets at it; there is nobody to tell.
        let _emptied = empty(&*self.folder.dir.dir);
        let _removed = std::fs::remove_dir(&self.path);
    }
}

/// Removes everything in a folder with three descriptors, however deep it goes, and follows no link.
///
/// What lies deeper is moved up until it can be removed.
fn empty(root: impl AsFd) -> Result<(), Errno> {
    let mut moved = 0_u64;
    loop {
        let mut found = false;
        for entry in Dir::read_from(&root)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_self_or_parent(name) {
                continue;
            }
            found = true;
            if rustix::fs::unlinkat(&root, name, AtFlags::empty()).is_ok() {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::openat(&root, name, flags, Mode::empty())?;
            lift(&folder, &root, &mut moved)?;
            rustix::fs::unlinkat(&root, name, AtFlags::REMOVEDIR)?;
        }
        if !found {
            return Ok(());
        }
    }
}

/// Empties one folder: what is in it goes, or moves up.
fn lift(folder: impl AsFd, root: impl AsFd, moved: &mut u64) -> Result<(), Errno> {
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_gone = is_self_or_parent(name)
            || rustix::fs::unlinkat(&folder, name, AtFlags::empty()).is_ok()
            || rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_ok();
        if !is_gone {
            move_up(&folder, name, &root, moved)?;
        }
    }
    Ok(())
}

/// Moves a folder to where it has a name that nothing else has.
fn move_up(folder: impl AsFd, name: &CStr, root: impl AsFd, moved: &mut u64) -> Result<(), Errno> {
    loop {
        *moved += 1;
        match rustix::fs::renameat_with(&folder, name, &root, format!("~{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            ended => return ended,
        }
    }
}

fn is_self_or_parent(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    #[test]
    fn everything_goes_however_deep_and_no_link_is_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("canary"), "alive").unwrap();
        let root = tempfile::tempdir().unwrap();
        let mut deep = File::open(root.path()).unwrap();
        for level in 0..2000 {
            std::os::unix::fs::symlink(outside.path(), root.path().join(format!("l{level}"))).unwrap();
            rustix::fs::mkdirat(&deep, "d", Mode::from_raw_mode(0o700)).unwrap();
            rustix::fs::symlinkat(outside.path(), &deep, "link").unwrap_or_default();
            deep = rustix::fs::openat(&deep, "d", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap().into();
        }
        std::fs::write(root.path().join("~1"), "in the way").unwrap();
        empty(File::open(root.path()).unwrap()).unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
    }

    #[tokio::test]
    async fn scratch_space_is_gone_after_its_call_and_after_a_call_that_was_dropped() {
        let pool = FilePool::start().unwrap();
        let fill = |scratch: &Scratch| {
            let path = scratch.removal.as_ref().unwrap().path.clone();
            std::fs::create_dir_all(path.join("a/b")).unwrap();
            std::fs::write(path.join("a/b/c"), "x").unwrap();
            path
        };
        let scratch = Scratch::make(Quota::default(), &pool).unwrap();
        let path = fill(&scratch);
        scratch.remove().await;
        assert!(!path.exists());
        let scratch = Scratch::make(Quota::default(), &pool).unwrap();
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
