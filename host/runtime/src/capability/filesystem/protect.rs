//! Protected files: looked up once, and held against everything that a guest opens, names or changes.
//!
//! A file is opened first, without truncating it, and compared then: what was compared is what will be written. Names
//! are compared relative to their opened parent, which is the one that they are then changed in.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use fumehood_core::permission::files::{FileId, FileRole, FileUse, FolderEntry, ProtectedFile, ProtectedFiles};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use super::names::Unchanged;
use super::resolve::{self, Failure, Named, Opened, Opening};

/// Links that are followed on the way to one file, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// A file that is replaced while it is opened is opened again, so many times.
const TRIES: usize = 32;

/// The protected files of a sandbox. Clones are the same set, which may grow.
#[derive(Clone, Default)]
pub(crate) struct Protected(Arc<RwLock<Arc<ProtectedFiles>>>);

impl Protected {
    /// Protects the file at this path, whether or not it is there.
    pub(crate) fn add(&self, path: &Path, role: FileRole) {
        let file = survey(path, role);
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut files).add(file);
    }

    /// Takes a set that another process has looked up.
    pub(crate) fn replace(&self, files: ProtectedFiles) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
    }

    /// The set as it is now: plain data, for a process that works on granted folders in place of this one.
    pub(crate) fn files(&self) -> Arc<ProtectedFiles> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens what is there already, unless it is protected against that.
    pub(super) fn open(&self, folder: impl AsFd, path: &str, opening: Opening) -> Result<Opened, Unchanged> {
        let files = self.files();
        let wanted = if opening.write { FileUse::Change } else { FileUse::Read };
        for _ in 0..TRIES {
            let opened = resolve::open(&folder, path, opening)?;
            if files.is_empty() || opened.is_dir {
                return Ok(opened);
            }
            let id = id_of(&opened.file)?;
            match End::find(&folder, path, opening.follow)? {
                End::Name { parent, name, id: there } if there == id => {
                    files.check_use(wanted, id, id_of(&parent)?, name.as_bytes())?;
                    return Ok(opened);
                }
                // It was replaced in between.
                End::Name { .. } => {}
                // No guest can make such a link, so that what it leads to is known by its identity.
                End::Unnamed => {
                    files.check_use(wanted, id, id, b"")?;
                    return Ok(opened);
                }
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Creates a file that is not there yet.
    pub(super) fn create(&self, folder: impl AsFd, path: &str, opening: Opening) -> Result<Opened, Unchanged> {
        if self.files().is_empty() {
            return Ok(resolve::create(folder, path, opening)?);
        }
        let new = match resolve::parent(folder, path) {
            Err(Failure::System(Errno::INVAL)) => return Err(Errno::EXIST.into()),
            found => found?,
        };
        if new.says_folder {
            return Err(Errno::ISDIR.into());
        }
        self.check_name(&new)?;
        Ok(resolve::create(&new.parent, new.name, opening)?)
    }

    /// Refuses to create, remove, replace or move a protected name.
    pub(super) fn check_name(&self, named: &Named<'_>) -> Result<(), Unchanged> {
        let files = self.files();
        if files.is_empty() {
            return Ok(());
        }
        Ok(files.check_name(id_of(&named.parent)?, named.name.as_bytes())?)
    }

    /// Refuses to change what is open, or to give it another name, if it is protected.
    pub(super) fn check_identity(&self, file: impl AsFd) -> Result<(), Unchanged> {
        let files = self.files();
        if files.is_empty() {
            return Ok(());
        }
        let id = id_of(file)?;
        Ok(files.check_use(FileUse::Change, id, id, b"")?)
    }

    /// Changes the times of what is at a path. `false` if nothing is protected, or the path has no name at its end: then
    /// nothing was done.
    pub(super) fn set_times(
        &self,
        folder: impl AsFd,
        path: &str,
        follow: bool,
        times: &Timestamps,
    ) -> Result<bool, Unchanged> {
        let files = self.files();
        if files.is_empty() {
            return Ok(false);
        }
        match End::find(&folder, path, follow) {
            Ok(End::Name { parent, name, id }) => {
                files.check_use(FileUse::Change, id, id_of(&parent)?, name.as_bytes())?;
                rustix::fs::utimensat(&parent, name.as_str(), times, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(true)
            }
            Ok(End::Unnamed) => Err(Errno::ILSEQ.into()),
            Err(Failure::System(Errno::INVAL)) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Where a path ends, once the links at its end are followed.
enum End {
    Name {
        parent: OwnedFd,
        name: String,
        id: FileId,
    },
    /// Behind a link whose target is not text.
    Unnamed,
}

impl End {
    fn find(folder: impl AsFd, path: &str, follow: bool) -> Result<Self, Failure> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let named = resolve::parent(&folder, &path)?;
            let seen = named.look()?;
            if !follow || kind_of(&seen)? != FileType::Symlink {
                let (name, id) = (named.name.to_owned(), id_of(&seen)?);
                return Ok(Self::Name { parent: named.parent, name, id });
            }
            let target = rustix::fs::readlinkat(&seen, "", Vec::new())?;
            let Ok(target) = target.to_str() else { return Ok(Self::Unnamed) };
            // The kernel resolves it from the folder of the link, through whatever links lead there.
            path = match path.trim_end_matches('/').rsplit_once('/') {
                Some((before, _)) if !target.starts_with('/') => format!("{before}/{target}"),
                _ => target.to_owned(),
            };
        }
        Err(Failure::System(Errno::LOOP))
    }
}

/// Follows a path step by step, and notes every name on it. What cannot be looked at is taken for missing.
fn survey(path: &Path, role: FileRole) -> ProtectedFile {
    let shown = path.display().to_string();
    let mut found = ProtectedFile { role, shown, way: Vec::new(), names: Vec::new(), ids: Vec::new() };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _missing = follow(&absolute, &mut found);
    found
}

fn follow(path: &Path, found: &mut ProtectedFile) -> Result<(), Errno> {
    let root = || open_folder(CWD, Path::new("/"));
    let mut folder = root()?;
    let mut rest: VecDeque<OsString> = steps(path);
    let mut links = 0;
    while let Some(step) = rest.pop_front() {
        if step == ".." {
            folder = open_folder(&folder, Path::new(".."))?;
            continue;
        }
        let name = FolderEntry { folder: id_of(&folder)?, name: step.as_bytes().to_vec() };
        let is_last = rest.is_empty();
        if is_last { &mut found.names } else { &mut found.way }.push(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let seen = rustix::fs::openat(&folder, step.as_os_str(), flags, Mode::empty())?;
        if is_last {
            found.ids.push(id_of(&seen)?);
        }
        if kind_of(&seen)? == FileType::Symlink {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            let target = PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(&seen, "", Vec::new())?.into_bytes()));
            if target.is_absolute() {
                folder = root()?;
            }
            let mut further = steps(&target);
            further.append(&mut rest);
            rest = further;
        } else if !is_last {
            folder = seen;
        }
    }
    Ok(())
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let step = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

/// The path with every link followed, as far as it exists.
pub(super) fn canonical_as_far(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let (Ok(there), Ok(rest)) = (above.canonicalize(), absolute.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { there } else { there.join(rest) };
        }
    }
    absolute
}

fn open_folder(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

fn id_of(file: impl AsFd) -> Result<FileId, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileId { device: stat.st_dev, inode: stat.st_ino })
}

fn kind_of(file: impl AsFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_name_on_the_way_to_a_file_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/target"), "").unwrap();
        symlink("real", root.join("way")).unwrap();
        symlink("../real/deep/target", root.join("real/link")).unwrap();
        let found = survey(&root.join("way/link"), FileRole::Lock);
        let names = |list: &[FolderEntry]| -> Vec<String> {
            list.iter().map(|name| String::from_utf8(name.name.clone()).unwrap()).collect()
        };
        assert_eq!(names(&found.names), ["link", "target"]);
        assert!(names(&found.way).ends_with(&["way", "real", "real", "deep"].map(str::to_owned)), "{found:?}");
        assert_eq!(found.ids.len(), 2, "the link and the file");
        let missing = survey(&root.join("later/file"), FileRole::Lock);
        assert_eq!(
            (names(&missing.names), missing.way.last().map(|name| name.name.as_slice())),
            (vec![], Some(&b"later"[..]))
        );
        let missing = survey(&root.join("real/file"), FileRole::Lock);
        assert_eq!((names(&missing.names), missing.ids.len()), (vec!["file".to_owned()], 0));
        symlink("loop", root.join("loop")).unwrap();
        assert!(survey(&root.join("loop"), FileRole::Lock).names.len() <= MAX_LINKS + 1);
    }

    #[test]
    fn a_path_is_canonical_as_far_as_it_exists() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        assert_eq!(canonical_as_far(&root.join("link/a/b")), root.join("real/a/b"));
        assert_eq!(canonical_as_far(&root.join("link")), root.join("real"));
    }
}
