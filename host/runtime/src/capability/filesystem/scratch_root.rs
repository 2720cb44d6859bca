//! The folder that holds the scratch spaces of a sandbox, locked for as long as its process lives. The folder of a
//! process that was killed has no lock any more, and the next process that starts removes it.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::remove_contents::remove_contents;

/// Prefix of the folders' names among the temporary files of the system.
const PREFIX: &str = "fumehood-scratch.";
/// Maximum number of names that are read in search of abandoned folders.
const MAX_SWEPT_NAMES: usize = 100_000;
/// Maximum number of attempts to create a folder that no other process takes for an abandoned one.
const MAX_ATTEMPTS: usize = 8;
/// Flags that open a folder and nothing else.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The scratch folder of one sandbox, created on first use. Clones share it.
#[derive(Clone)]
pub(crate) struct ScratchRoot(Arc<Shared>);

struct Shared {
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

/// The scratch folder of a worker process, removed on drop with everything that is left in it.
pub(crate) struct WorkerScratch(LockedFolder);

impl WorkerScratch {
    pub(crate) fn folder(&self) -> &File {
        &self.0.folder
    }
}

impl Drop for WorkerScratch {
    fn drop(&mut self) {
        // The next start removes what stays.
        let _emptied = remove_contents(&self.0.folder);
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
        Self(Arc::new(Shared { parent: parent.to_owned(), made: Mutex::default() }))
    }

    /// Wraps the open folder that the host made for this worker process. The host removes it.
    pub(crate) fn from_host(folder: File) -> Self {
        let root = Arc::new(LockedFolder { folder, path: None });
        let made = Mutex::new(RootState { root: Some(root), spaces: 0 });
        Self(Arc::new(Shared { parent: PathBuf::new(), made }))
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
    pub(crate) fn close(&self) {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner).root = None;
    }

    /// Removes the folders of processes of this user that were killed. Folders that cannot be removed stay.
    pub(crate) fn sweep(&self) {
        let flags = FOLDER_FLAGS.difference(OFlags::NOFOLLOW);
        let Ok(parent) = rustix::fs::openat(CWD, &self.0.parent, flags, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&parent) else { return };
        for entry in entries.take(MAX_SWEPT_NAMES).filter_map(Result::ok) {
            if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
                let _stays = remove_left_behind(&parent, entry.file_name());
            }
        }
    }
}

/// Removes a folder of this user that no process has locked. Links are not followed, neither here nor in it.
fn remove_left_behind(parent: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let folder = rustix::fs::openat(parent, name, FOLDER_FLAGS, Mode::empty())?;
    if rustix::fs::fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    // A process that is alive holds the lock.
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    remove_contents(&folder)?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

impl LockedFolder {
    fn create(parent: &Path) -> io::Result<Self> {
        let mut failed = io::Error::from(Errno::WOULDBLOCK);
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
        let only_this_user = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(only_this_user).tempdir_in(parent)?;
        let path = made.path().canonicalize()?;
        let folder: File = rustix::fs::openat(CWD, &path, FOLDER_FLAGS, Mode::empty())?.into();
        // On a file system without locks, no other process gets one either, so the folder stays.
        if let Err(Errno::WOULDBLOCK) = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            return Err(Errno::WOULDBLOCK.into());
        }
        if rustix::fs::fstat(&folder)?.st_nlink == 0 {
            return Err(Errno::NOENT.into());
        }
        let _kept = made.keep();
        Ok(Self { folder, path: Some(path) })
    }

    fn create_space(root: &Arc<Self>, name: &str) -> io::Result<(ScratchSpace, File)> {
        rustix::fs::mkdirat(&root.folder, name, Mode::RWXU)?;
        let folder = rustix::fs::openat(&root.folder, name, FOLDER_FLAGS, Mode::empty())?;
        Ok((ScratchSpace { root: Arc::clone(root), name: name.to_owned() }, folder.into()))
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
        let _stays = rustix::fs::unlinkat(&self.root.folder, self.name.as_str(), AtFlags::REMOVEDIR);
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
