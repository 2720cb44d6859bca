//! Granted folders, opened once when their tool is loaded.
//!
//! The grant is the folder that was opened, whatever its path leads to later.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::{DirExt as _, OpenOptionsMaybeDirExt as _};
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::files::{Access, Folder, Place, PlaceError, Quota, check_places};
use fumehood_platform::beneath;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::ledger::Ledger;
use super::protected_set::{ProtectedSet, canonicalize_existing};
use super::resolver::Resolver;
use super::scratch::Removals;
use super::scratch_root::ScratchRoot;
use crate::engine::file_pool::FilePool;

/// The open folders of one loaded tool.
pub(crate) struct OpenFolders {
    pub(crate) folders: Vec<Arc<OpenFolder>>,
    /// The quota of the scratch space that each call gets.
    pub(crate) scratch: Option<Quota>,
    pub(crate) scratch_root: ScratchRoot,
    /// The scratch spaces of its calls that are being removed.
    pub(crate) removals: Removals,
    pub(crate) pool: FilePool,
}

/// One granted folder: its descriptor, its path for the guest, and its account.
pub(crate) struct OpenFolder {
    /// The descriptor, as wasmtime's own functions take it. Those of this module view it as a directory of cap-std.
    pub(crate) dir: Dir,
    /// The way that paths beneath it are resolved.
    pub(crate) resolver: Resolver,
    pub(crate) guest: String,
    /// The account of growth; `None` if the folder is read-only.
    pub(crate) ledger: Option<Ledger>,
    /// The line of a policy that would allow writing.
    pub(crate) write_line: Option<String>,
    /// Files that the guest cannot reach, even if they are in the folder.
    pub(crate) protected: ProtectedSet,
}

/// An error when opening granted folders.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path does not exist.
    #[error("the granted folder `{folder}` does not exist (at {place}); create it, or correct the path", folder = .folder.display(), place = .place.display())]
    Missing {
        /// The path as it was granted.
        folder: PathBuf,
        /// The same path, made absolute.
        place: PathBuf,
    },
    /// The path is a file.
    #[error("`{0}` is granted as a folder, but is not a folder; grant its parent folder")]
    NotAFolder(PathBuf),
    /// The folder cannot be opened.
    #[error("cannot open the granted folder `{folder}`")]
    Open {
        /// The path as it was granted.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder is one that is never granted.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A file system did not answer within this number of seconds.
    #[error("cannot open the granted folders within {0} seconds; the file system of one of them does not answer")]
    Slow(u64),
    /// The host is shutting down.
    #[error("cannot open the granted folders: the host is shutting down")]
    Gone,
}

/// Opens every folder of a grant, or none. Nothing is opened if the grant has none.
///
/// `own` are folders of the host itself, which are never granted. `protected` files cannot be reached in granted
/// folders.
pub(crate) fn open_all(
    grant: &Grant,
    own: &[PathBuf],
    protected: &ProtectedSet,
    scratch_root: &ScratchRoot,
    pool: &FilePool,
) -> Result<Option<Arc<OpenFolders>>, FolderError> {
    if grant.folders().is_empty() && grant.scratch().is_none() {
        return Ok(None);
    }
    let open = |granted: GrantedFile<'_>| Arc::new(granted.into_folder(protected));
    let folders = open_files(grant, own)?.into_iter().map(open).collect();
    Ok(Some(Arc::new(OpenFolders {
        folders,
        scratch: grant.scratch(),
        scratch_root: scratch_root.clone(),
        removals: Removals::new(pool),
        // If threads of its own cannot be started, it shares the host's.
        pool: pool.of_tool().unwrap_or_else(|_| pool.clone()),
    })))
}

/// A granted folder that is open.
pub(crate) struct GrantedFile<'g> {
    pub(crate) folder: &'g Folder,
    pub(crate) file: File,
}

impl GrantedFile<'_> {
    fn into_folder(self, protected: &ProtectedSet) -> OpenFolder {
        let quota = match self.folder.access() {
            Access::Read => None,
            Access::Write(quota) => Some(quota),
        };
        let write_line = Some(self.folder.write_line());
        OpenFolder::new(self.file, self.folder.guest(), quota, write_line, protected.clone())
    }
}

/// Opens every folder of a grant, in their order, or none.
pub(crate) fn open_files<'g>(grant: &'g Grant, own: &[PathBuf]) -> Result<Vec<GrantedFile<'g>>, FolderError> {
    let place = |folder| canonicalize(folder).map(|canonical| Place { folder, canonical });
    let places = grant.folders().iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let own: Vec<_> = own.iter().map(|own| canonicalize_existing(own)).collect();
    check_places(&places, &own)?;
    places.iter().map(open).collect()
}

fn canonicalize(folder: &Folder) -> Result<PathBuf, FolderError> {
    let host = folder.host();
    host.canonicalize().map_err(|source| match source.kind() {
        ErrorKind::NotFound => FolderError::Missing {
            folder: host.to_owned(),
            place: std::path::absolute(host).unwrap_or_else(|_| host.to_owned()),
        },
        ErrorKind::NotADirectory => FolderError::NotAFolder(host.to_owned()),
        _ => FolderError::Open { folder: host.to_owned(), source },
    })
}

/// Opens the path that was checked: it held no links, and must not hold any now.
fn open<'g>(place: &Place<'g>) -> Result<GrantedFile<'g>, FolderError> {
    let folder = place.folder;
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotADirectory => FolderError::NotAFolder(folder.host().to_owned()),
        _ => FolderError::Open { folder: folder.host().to_owned(), source },
    };
    let file = open_without_links(&place.canonical).map_err(failed)?;
    Ok(GrantedFile { folder, file })
}

/// Opens a folder, and fails if its path holds a link.
pub(super) fn open_without_links(path: &Path) -> io::Result<File> {
    match beneath::open_folder_without_links(path)? {
        Some(folder) => Ok(folder),
        None => walk_without_links(path),
    }
}

/// Opens an absolute path part by part.
fn walk_without_links(path: &Path) -> io::Result<File> {
    let root = path.ancestors().last().unwrap_or(path);
    let mut dir = cap_std::fs::Dir::open_ambient_dir(root, cap_std::ambient_authority())?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            dir = dir.open_dir_nofollow(name)?;
        }
    }
    // Opened once more to be read: on the way, it was opened for its metadata only.
    let mut how = cap_std::fs::OpenOptions::new();
    Ok(dir.open_with(".", how.read(true).maybe_dir(true))?.into_std())
}

impl OpenFolder {
    pub(crate) fn new(
        file: File,
        guest: &str,
        quota: Option<Quota>,
        write_line: Option<String>,
        protected: ProtectedSet,
    ) -> Self {
        let (perms, mode) = match quota {
            None => (FsPerms::ReadOnly, OpenMode::READ),
            Some(_) => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        Self {
            resolver: Resolver::choose(&file),
            dir: Dir::new(file, perms, mode, false),
            guest: guest.to_owned(),
            ledger: quota.map(Ledger::new),
            write_line,
            protected,
        }
    }
}
