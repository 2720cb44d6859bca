//! Protected files: looked up once, and compared with everything that a guest opens, names or changes.
//!
//! A file is opened first, without truncating it, and then compared, so that the file that was compared is the one that
//! is written. Names are compared relative to their opened parent, in which they are then changed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use cap_fs_ext::{DirExt as _, MetadataExt as _, SystemTimeSpec};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};
use fumehood_core::policy::permission::files::{FileId, FileRole, FileUse, FolderEntry, ProtectedFile, ProtectedFiles};

use super::names::ChangeError;
use super::resolve::{Base, ErrorCode, NamedEntry, OpenOptions, OpenedFile, ResolveError};

/// Maximum number of links that are followed for one path, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// Maximum number of attempts to open a file that is replaced at the same time.
const MAX_ATTEMPTS: usize = 32;

/// The protected files of a sandbox. Clones share the set, which may grow.
#[derive(Clone, Default)]
pub(crate) struct ProtectedSet(Arc<RwLock<Arc<ProtectedFiles>>>);

impl ProtectedSet {
    /// Protects the file at this path, whether or not it exists.
    pub(crate) fn add(&self, path: &Path, role: FileRole) {
        let file = survey(path, role);
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut files).add(file);
    }

    /// Replaces the set with one that another process has looked up.
    pub(crate) fn replace(&self, files: ProtectedFiles) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
    }

    /// Returns a snapshot of the set, which is plain data and can be sent to a worker process.
    pub(crate) fn files(&self) -> Arc<ProtectedFiles> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens a file or a folder that exists, unless the file is protected against that use.
    pub(super) fn open(&self, folder: Base<'_>, path: &str, options: OpenOptions) -> Result<OpenedFile, ChangeError> {
        let files = self.files();
        let wanted = if options.write { FileUse::Change } else { FileUse::Read };
        for _ in 0..MAX_ATTEMPTS {
            let opened = folder.open(path, options)?;
            if files.is_empty() || opened.is_dir {
                return Ok(opened);
            }
            let id = id_of(&Metadata::from_file(&opened.file)?);
            match PathEnd::find(folder, path, options.follow)? {
                PathEnd::Name { parent, name, id: there, .. } if there == id => {
                    files.check_use(wanted, id, parent, name.as_bytes())?;
                    return Ok(opened);
                }
                // The file was replaced in between.
                PathEnd::Name { .. } => {}
                // No guest can make such a link, so comparing the identity of the file suffices.
                PathEnd::Unnamed => {
                    files.check_use(wanted, id, id, b"")?;
                    return Ok(opened);
                }
            }
        }
        Err(ErrorCode::Io.into())
    }

    /// Creates a file that does not exist.
    pub(super) fn create(&self, folder: Base<'_>, path: &str, options: OpenOptions) -> Result<OpenedFile, ChangeError> {
        if self.files().is_empty() {
            return Ok(folder.create(path, options)?);
        }
        let new = folder.new_file(path)?;
        self.check_name(&new)?;
        Ok(new.create(options)?)
    }

    /// Refuses to create, remove, replace or move a protected name.
    pub(super) fn check_name(&self, named: &NamedEntry<'_>) -> Result<(), ChangeError> {
        let files = self.files();
        if files.is_empty() {
            return Ok(());
        }
        Ok(files.check_name(id_of(&named.parent_metadata()?), named.name.as_bytes())?)
    }

    /// Refuses to change an open file if it is protected.
    pub(super) fn check_file(&self, file: &File) -> Result<(), ChangeError> {
        if self.files().is_empty() { Ok(()) } else { self.check_identity(&Metadata::from_file(file)?) }
    }

    /// Refuses to change a file, or to give it another name, if it is protected.
    pub(super) fn check_identity(&self, file: &Metadata) -> Result<(), ChangeError> {
        let files = self.files();
        if files.is_empty() {
            return Ok(());
        }
        let id = id_of(file);
        Ok(files.check_use(FileUse::Change, id, id, b"")?)
    }

    /// Changes the times of the file at a path. Returns `false`, and does nothing, if no file is protected or the path
    /// does not end with a name.
    pub(super) fn set_times(
        &self,
        folder: Base<'_>,
        path: &str,
        follow: bool,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
    ) -> Result<bool, ChangeError> {
        let files = self.files();
        if files.is_empty() {
            return Ok(false);
        }
        match PathEnd::find(folder, path, follow) {
            Ok(PathEnd::Name { dir, parent, name, id }) => {
                files.check_use(FileUse::Change, id, parent, name.as_bytes())?;
                dir.set_symlink_times(&name, accessed, modified)?;
                Ok(true)
            }
            Ok(PathEnd::Unnamed) => Err(ErrorCode::IllegalByteSequence.into()),
            Err(ResolveError::System(ErrorCode::Invalid)) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// The end of a path, after the links at its end were followed.
enum PathEnd {
    Name {
        dir: Dir,
        /// The identity of `dir`.
        parent: FileId,
        name: String,
        id: FileId,
    },
    /// The target of a link that is not UTF-8.
    Unnamed,
}

impl PathEnd {
    fn find(folder: Base<'_>, path: &str, follow: bool) -> Result<Self, ResolveError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let named = folder.parent_of(&path)?;
            let seen = named.look()?.metadata;
            if !follow || !seen.file_type().is_symlink() {
                let name = named.name.to_owned();
                let parent = id_of(&named.parent_metadata()?);
                return Ok(Self::Name { parent, name, id: id_of(&seen), dir: named.into_dir() });
            }
            let target = match named.dir().read_link_contents(named.name) {
                // The link was replaced after it was looked at.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => continue,
                target => target?,
            };
            let Some(target) = target.to_str() else { return Ok(Self::Unnamed) };
            // The kernel resolves it from the folder of the link, through any links that lead there.
            path = match path.trim_end_matches('/').rsplit_once('/') {
                Some((before, _)) if !target.starts_with('/') => format!("{before}/{target}"),
                _ => target.to_owned(),
            };
        }
        Err(ErrorCode::Loop.into())
    }
}

/// Follows a path step by step, and collects every name on it. An entry that cannot be read counts as missing.
fn survey(path: &Path, role: FileRole) -> ProtectedFile {
    let shown = path.display().to_string();
    let mut found = ProtectedFile { role, shown, way: Vec::new(), names: Vec::new(), ids: Vec::new() };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _missing = follow(&absolute, &mut found);
    found
}

fn follow(path: &Path, found: &mut ProtectedFile) -> io::Result<()> {
    let root = || Dir::open_ambient_dir(path.ancestors().last().unwrap_or(path), ambient_authority());
    let mut folder = root()?;
    let mut rest: VecDeque<OsString> = split_path(path);
    let mut links = 0;
    while let Some(step) = rest.pop_front() {
        if step == ".." {
            folder = folder.open_parent_dir(ambient_authority())?;
            continue;
        }
        let parent = id_of(&folder.dir_metadata()?);
        let is_last = rest.is_empty();
        let name = FolderEntry { folder: parent, name: step.as_encoded_bytes().to_vec() };
        if is_last { &mut found.names } else { &mut found.way }.push(name);
        let seen = folder.symlink_metadata(&step)?;
        if is_last {
            found.ids.push(id_of(&seen));
        }
        if seen.file_type().is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("too many links"));
            }
            let target = folder.read_link_contents(&step)?;
            if target.is_absolute() {
                folder = root()?;
            }
            let mut further = split_path(&target);
            further.append(&mut rest);
            rest = further;
        } else if !is_last {
            folder = folder.open_dir_nofollow(&step)?;
        }
    }
    Ok(())
}

fn split_path(path: &Path) -> VecDeque<OsString> {
    let step = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

/// Resolves every link in the part of a path that exists.
pub(super) fn canonicalize_existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let (Ok(there), Ok(rest)) = (above.canonicalize(), absolute.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { there } else { there.join(rest) };
        }
    }
    absolute
}

fn id_of(file: &Metadata) -> FileId {
    FileId { device: file.dev(), inode: file.ino() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names_of(list: &[FolderEntry]) -> Vec<String> {
        list.iter().map(|name| String::from_utf8(name.name.clone()).unwrap()).collect()
    }

    #[test]
    fn collects_every_name_on_the_way_to_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/target"), "").unwrap();
        symlink("real", root.join("way")).unwrap();
        symlink("../real/deep/target", root.join("real/link")).unwrap();
        let found = survey(&root.join("way/link"), FileRole::Lock);
        assert_eq!(names_of(&found.names), ["link", "target"]);
        assert!(names_of(&found.way).ends_with(&["way", "real", "real", "deep"].map(str::to_owned)), "{found:?}");
        assert_eq!(found.ids.len(), 2, "the link and the file");
        let missing = survey(&root.join("later/file"), FileRole::Lock);
        assert_eq!(
            (names_of(&missing.names), missing.way.last().map(|name| name.name.as_slice())),
            (vec![], Some(&b"later"[..]))
        );
        let missing = survey(&root.join("real/file"), FileRole::Lock);
        assert_eq!((names_of(&missing.names), missing.ids.len()), (vec!["file".to_owned()], 0));
        symlink("loop", root.join("loop")).unwrap();
        assert!(survey(&root.join("loop"), FileRole::Lock).names.len() <= MAX_LINKS + 1);
    }

    #[test]
    fn canonicalizes_the_existing_part_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        assert_eq!(canonicalize_existing(&root.join("link/a/b")), root.join("real/a/b"));
        assert_eq!(canonicalize_existing(&root.join("link")), root.join("real"));
    }
}
