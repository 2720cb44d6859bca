//! The folder that holds the scratch spaces of a sandbox, locked for as long as its process lives. The folder of a
//! process that was killed has no lock any more, and the next process that starts removes it.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use cap_fs_ext::{DirExt as _, OpenOptionsMaybeDirExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use fumehood_platform::files::FileStatus;
use fumehood_platform::private;

use super::folder::open_without_links;
use super::remove_contents::remove_contents;
use super::resolver::as_dir;
use crate::engine::file_pool::FilePool;

/// Prefix of the folders' names among the temporary files of the system.
const PREFIX: &str = "fumehood-scratch.";
/// Maximum number of names that are read in search of abandoned folders.
const MAX_SWEPT_NAMES: usize = 100_000;
/// Maximum number of attempts to create a folder that no other process takes for an abandoned one.
const MAX_ATTEMPTS: usize = 8;

/// The scratch folder of one sandbox, created on first use. Clones share it.
#[derive(Clone)]
pub(crate) struct ScratchRoot(Arc<RootInner>);

struct RootInner {
    /// The folder in which it is created.
    parent: PathBuf,
    made: Mutex<RootState>,
}

/// The folder, and the number of spaces that were created in all.
#[derive(Default)]
struct RootState {
    root: Option<Arc<LockedFolder>>,
    spaces: u64,
}

/// A folder whose lock is held. It is removed once the last space in it has been dropped.
struct LockedFolder {
    folder: File,
    /// `None` if another process removes it.
    path: Option<PathBuf>,
}

/// The scratch folder of a worker process.
pub(crate) struct WorkerScratch(LockedFolder);

impl WorkerScratch {
    pub(crate) fn folder(&self) -> &File {
        &self.0.folder
    }

    /// Removes the folder. Spaces that a dead worker left in it are removed on a thread for file work: that takes as long as the file
    /// system does.
    pub(crate) fn remove(self, pool: &FilePool) {
        let Self(root) = self;
        if as_dir(&root.folder).entries().is_ok_and(|mut entries| entries.next().is_some()) {
            // The next start removes what stays.
            pool.detach(move || {
                let _emptied = remove_contents(&as_dir(&root.folder));
                drop(root);
            });
        }
    }
}

/// A scratch folder that gets no more spaces.
pub(crate) struct ClosedRoot(Weak<LockedFolder>);

impl ClosedRoot {
    /// Waits at most `patience` until every space in it was removed. Blocks.
    pub(crate) fn wait_until_removed(&self, patience: Duration) {
        const POLL: Duration = Duration::from_millis(1);
        let until = Instant::now() + patience;
        while self.0.strong_count() > 0 && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }
}

/// One scratch space in the folder.
pub(super) struct ScratchSpace {
    root: Arc<LockedFolder>,
    name: String,
}

impl ScratchRoot {
    /// Creates a root among the temporary files of the system.
    pub(crate) fn in_temp_dir() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    /// Creates a root in `parent`.
    pub(crate) fn new_in(parent: &Path) -> Self {
        Self(Arc::new(RootInner { parent: parent.to_owned(), made: Mutex::default() }))
    }

    /// Wraps the open folder that the host made for this worker process. The host removes it.
    pub(crate) fn from_host(folder: File) -> Self {
        let root = Arc::new(LockedFolder { folder, path: None });
        let made = Mutex::new(RootState { root: Some(root), spaces: 0 });
        Self(Arc::new(RootInner { parent: PathBuf::new(), made }))
    }

    /// Creates a folder to be passed to a worker process.
    ///
    /// # Errors
    /// If the folder for temporary files cannot be used.
    pub(crate) fn create_for_worker(&self) -> io::Result<WorkerScratch> {
        Ok(WorkerScratch(LockedFolder::create(&self.0.parent)?))
    }

    /// Creates an empty folder that only this user may enter.
    pub(super) fn create_space(&self) -> io::Result<(ScratchSpace, File)> {
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.spaces += 1;
        let name = made.spaces.to_string();
        if let Some(root) = &made.root
            && let Ok(space) = LockedFolder::create_space(root, &name)
        {
            return Ok(space);
        }
        // There is none yet, or it was removed from among the temporary files.
        let root = Arc::new(LockedFolder::create(&self.0.parent)?);
        let space = LockedFolder::create_space(&root, &name)?;
        made.root = Some(root);
        Ok(space)
    }

    /// Releases the folder, which is removed together with the last space in it.
    pub(crate) fn close(&self) -> ClosedRoot {
        let root = self.0.made.lock().unwrap_or_else(PoisonError::into_inner).root.take();
        ClosedRoot(root.map(|root| Arc::downgrade(&root)).unwrap_or_default())
    }

    /// Removes the folders of processes of this user that were killed. Folders that cannot be removed stay.
    pub(crate) fn sweep(&self) {
        let Ok(parent) = Dir::open_ambient_dir(&self.0.parent, ambient_authority()) else { return };
        let Ok(entries) = parent.entries() else { return };
        for entry in entries.take(MAX_SWEPT_NAMES).filter_map(Result::ok) {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                let _stays = remove_left_behind(&parent, &name);
            }
        }
    }
}

/// Removes a folder of this user that no process has locked. Links are not followed, neither here nor in it.
fn remove_left_behind(parent: &Dir, name: &OsStr) -> io::Result<()> {
    let folder = open_to_lock(&parent.open_dir_nofollow(name)?)?;
    if !private::is_own(&folder.metadata()?) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // A process that is alive holds the lock.
    folder.try_lock()?;
    remove_contents(&as_dir(&folder))?;
    parent.remove_dir(name)
}

/// Opens a folder once more, with a descriptor that can be locked and read.
fn open_to_lock(folder: &Dir) -> io::Result<File> {
    Ok(folder.open_with(".", OpenOptions::new().read(true).maybe_dir(true))?.into_std())
}

impl LockedFolder {
    fn create(parent: &Path) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..MAX_ATTEMPTS {
            match Self::try_create(parent) {
                Ok(made) => return Ok(made),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Fails if a process that starts at this moment takes the folder for an abandoned one.
    fn try_create(parent: &Path) -> io::Result<Self> {
        let only_this_user = private::folder_permissions();
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(only_this_user).tempdir_in(parent)?;
        let path = made.path().canonicalize()?;
        let folder = open_without_links(&path)?;
        // On a file system without locks, no other process gets one either, so the folder stays.
        if let Err(TryLockError::WouldBlock) = folder.try_lock() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if FileStatus::of(&folder)?.links == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let _kept = made.keep();
        Ok(Self { folder, path: Some(path) })
    }

    fn create_space(root: &Arc<Self>, name: &str) -> io::Result<(ScratchSpace, File)> {
        private::create_folder_in(&root.folder, name)?;
        let folder = open_to_lock(&as_dir(&root.folder).open_dir_nofollow(name)?)?;
        Ok((ScratchSpace { root: Arc::clone(root), name: name.to_owned() }, folder))
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        // It is not empty if a space could not be removed; then the next start tries again.
        let _removed = self.path.as_ref().map(std::fs::remove_dir);
    }
}

impl ScratchSpace {
    /// Removes the folder of the space, which has to be empty.
    pub(super) fn remove(&self) {
        let _stays = as_dir(&self.root.folder).remove_dir(&self.name);
    }

    /// Returns the path of the space.
    #[cfg(test)]
    pub(super) fn path(&self) -> PathBuf {
        self.root.path.as_ref().unwrap().join(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn sweep_removes_abandoned_folders_only() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("canary"), "alive").unwrap();
        let living = ScratchRoot::new_in(parent.path());
        let (space, _file) = living.create_space().unwrap();
        std::fs::write(space.path().join("mine"), "x").unwrap();
        // As a killed process leaves it: full, and not locked.
        let left = parent.path().join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("1/deep/deeper")).unwrap();
        std::fs::write(left.join("1/deep/file"), "x").unwrap();
        symlink(outside.path(), left.join("1/link")).unwrap();
        // Similar entries: a link, a file, and other names.
        symlink(outside.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();
        std::fs::write(parent.path().join(format!("{PREFIX}file")), "x").unwrap();
        std::fs::create_dir(parent.path().join("fumehood-other")).unwrap();
        for sweeper in [ScratchRoot::new_in(parent.path()), living.clone()] {
            sweeper.sweep();
            assert!(!left.exists());
            assert_eq!(names(parent.path()), 4);
            assert_eq!(std::fs::read_to_string(space.path().join("mine")).unwrap(), "x");
        }
        assert_eq!(std::fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
    }

    #[test]
    fn folders_are_private_and_removed_in_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::new_in(parent.path());
        let (first, _file) = root.create_space().unwrap();
        let (second, _file) = root.create_space().unwrap();
        assert_eq!(first.path().parent(), second.path().parent(), "one folder for all of them");
        for path in [first.path().as_path(), first.path().parent().unwrap()] {
            assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
        }
        first.remove();
        second.remove();
        drop((first, second, root));
        assert_eq!(names(parent.path()), 0);
    }

    #[test]
    fn removed_folder_is_created_again() {
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::new_in(parent.path());
        let (space, _file) = root.create_space().unwrap();
        std::fs::remove_dir_all(space.path().parent().unwrap()).unwrap();
        let (other, _file) = root.create_space().unwrap();
        assert!(other.path().is_dir());
        assert_ne!(space.path(), other.path());
    }

    #[test]
    fn reports_a_missing_folder_for_temporary_files() {
        let root = ScratchRoot::new_in(Path::new("/no/such/folder"));
        assert_eq!(root.create_space().map(|_| ()).unwrap_err().kind(), io::ErrorKind::NotFound);
        root.sweep();
    }
}
