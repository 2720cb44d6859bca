//! The folder in which the scratch spaces of a sandbox lie, locked for as long as its process lives: what a process left
//! behind that was killed has no lock any more, and is removed by the next that starts.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::emptying::empty;

/// How the folders begin among the temporary files of the system.
const PREFIX: &str = "fumehood-scratch.";
/// Names there that are looked at when what was left behind is searched for.
const MOST_SEEN: usize = 100_000;
/// Tries to make a folder that nobody takes for one that was left behind.
const TRIES: usize = 8;
/// How a folder is opened, and nothing but a folder.
const A_FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder of one sandbox, made when it is first needed. Clones are the same.
#[derive(Clone)]
pub(crate) struct ScratchRoot(Arc<Shared>);

struct Shared {
    /// Where it is made.
    parent: PathBuf,
    made: Mutex<Numbered>,
}

/// The folder, and how many spaces were made in all.
#[derive(Default)]
struct Numbered {
    root: Option<Arc<Locked>>,
    spaces: u64,
}

/// A folder whose lock is held. It is removed when the last space in it is gone.
struct Locked {
    folder: File,
    /// `None` if somebody else removes it.
    path: Option<PathBuf>,
}

/// The scratch folder of a worker process. When it is dropped, whatever is left in it is removed with it.
pub(crate) struct HeldScratch(Locked);

impl HeldScratch {
    pub(crate) fn folder(&self) -> &File {
        &self.0.folder
    }
}

impl Drop for HeldScratch {
    fn drop(&mut self) {
        // What stays is removed by the next start.
        let _emptied = empty(&self.0.folder);
    }
}

/// The place of one space within it.
pub(super) struct Space {
    root: Arc<Locked>,
    name: String,
}

impl ScratchRoot {
    /// Among the temporary files of the system.
    pub(crate) fn usual() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// In this folder.
    pub(crate) fn within(parent: &Path) -> Self {
        Self(Arc::new(Shared { parent: parent.to_owned(), made: Mutex::default() }))
    }

    /// The folder that a host made for this process and handed over open. The host removes it.
    pub(crate) fn handed_over(folder: File) -> Self {
        let root = Arc::new(Locked { folder, path: None });
        let made = Mutex::new(Numbered { root: Some(root), spaces: 0 });
        Self(Arc::new(Shared { parent: PathBuf::new(), made }))
    }

    /// Makes a folder of its own for another process, to be handed over.
    ///
    /// # Errors
    /// If there is no place for temporary files.
    pub(crate) fn for_worker(&self) -> io::Result<HeldScratch> {
        Ok(HeldScratch(Locked::make(&self.0.parent)?))
    }

    /// A new empty folder that only this user may enter.
    pub(super) fn space(&self) -> io::Result<(Space, File)> {
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.spaces += 1;
        let name = made.spaces.to_string();
        if let Some(root) = &made.root
            && let Ok(space) = Locked::space(root, &name)
        {
            return Ok(space);
        }
        // There is none yet, or somebody tidied up among the temporary files.
        let root = Arc::new(Locked::make(&self.0.parent)?);
        let space = Locked::space(&root, &name)?;
        made.root = Some(root);
        Ok(space)
    }

    /// Lets go of the folder: it is removed together with the last space in it.
    pub(crate) fn close(&self) {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner).root = None;
    }

    /// Removes what other processes of this user left behind here when they were killed. What cannot be removed stays.
    pub(crate) fn sweep(&self) {
        let flags = A_FOLDER.difference(OFlags::NOFOLLOW);
        let Ok(parent) = rustix::fs::openat(CWD, &self.0.parent, flags, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&parent) else { return };
        for entry in entries.take(MOST_SEEN).filter_map(Result::ok) {
            if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
                let _stays = remove_left_behind(&parent, entry.file_name());
            }
        }
    }
}

/// Removes a folder of this user that nobody holds. Links are not followed, neither here nor in it.
fn remove_left_behind(parent: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let folder = rustix::fs::openat(parent, name, A_FOLDER, Mode::empty())?;
    if rustix::fs::fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    // Whoever lives holds it.
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    empty(&folder)?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

impl Locked {
    fn make(parent: &Path) -> io::Result<Self> {
        let mut failed = io::Error::from(Errno::WOULDBLOCK);
        for _ in 0..TRIES {
            match Self::try_to_make(parent) {
                Ok(made) => return Ok(made),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// It fails if a process that starts just now takes the folder for one that was left behind.
    fn try_to_make(parent: &Path) -> io::Result<Self> {
        let only_this_user = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(only_this_user).tempdir_in(parent)?;
        let path = made.path().canonicalize()?;
        let folder: File = rustix::fs::openat(CWD, &path, A_FOLDER, Mode::empty())?.into();
        // Where there are no locks at all, nobody else gets one either, so that the folder stays.
        if let Err(Errno::WOULDBLOCK) = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            return Err(Errno::WOULDBLOCK.into());
        }
        if rustix::fs::fstat(&folder)?.st_nlink == 0 {
            return Err(Errno::NOENT.into());
        }
        let _kept = made.keep();
        Ok(Self { folder, path: Some(path) })
    }

    fn space(root: &Arc<Self>, name: &str) -> io::Result<(Space, File)> {
        rustix::fs::mkdirat(&root.folder, name, Mode::RWXU)?;
        let folder = rustix::fs::openat(&root.folder, name, A_FOLDER, Mode::empty())?;
        Ok((Space { root: Arc::clone(root), name: name.to_owned() }, folder.into()))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It is not empty if a space could not be removed; then the next start tries.
        let _removed = self.path.as_ref().map(std::fs::remove_dir);
    }
}

impl Space {
    /// Removes the folder, which has to be empty.
    pub(super) fn remove(&self) {
        let _stays = rustix::fs::unlinkat(&self.root.folder, self.name.as_str(), AtFlags::REMOVEDIR);
    }

    /// Where it is.
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
    fn what_is_held_stays_and_what_was_left_behind_goes() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("canary"), "alive").unwrap();
        let living = ScratchRoot::within(parent.path());
        let (space, _file) = living.space().unwrap();
        std::fs::write(space.path().join("mine"), "x").unwrap();
        // As a process leaves it that is killed: full, and not locked.
        let left = parent.path().join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("1/deep/deeper")).unwrap();
        std::fs::write(left.join("1/deep/file"), "x").unwrap();
        symlink(outside.path(), left.join("1/link")).unwrap();
        // What only looks like it: a link, a file, and other names.
        symlink(outside.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();
        std::fs::write(parent.path().join(format!("{PREFIX}file")), "x").unwrap();
        std::fs::create_dir(parent.path().join("fumehood-other")).unwrap();
        for sweeper in [ScratchRoot::within(parent.path()), living.clone()] {
            sweeper.sweep();
            assert!(!left.exists());
            assert_eq!(names(parent.path()), 4);
            assert_eq!(std::fs::read_to_string(space.path().join("mine")).unwrap(), "x");
        }
        assert_eq!(std::fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
    }

    #[test]
    fn only_this_user_gets_in_and_nothing_is_left_in_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::within(parent.path());
        let (first, _file) = root.space().unwrap();
        let (second, _file) = root.space().unwrap();
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
    fn a_folder_that_somebody_removed_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let root = ScratchRoot::within(parent.path());
        let (space, _file) = root.space().unwrap();
        std::fs::remove_dir_all(space.path().parent().unwrap()).unwrap();
        let (other, _file) = root.space().unwrap();
        assert!(other.path().is_dir());
        assert_ne!(space.path(), other.path());
    }

    #[test]
    fn without_a_place_for_temporary_files_it_says_so() {
        let root = ScratchRoot::within(Path::new("/no/such/folder"));
        assert_eq!(root.space().map(|_| ()).unwrap_err().kind(), io::ErrorKind::NotFound);
        root.sweep();
    }
}
