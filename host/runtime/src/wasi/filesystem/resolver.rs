//! The two ways of resolving a guest's path beneath a folder, and the choice between them.
//!
//! The kernel does it where it can, in one step that no concurrent rename comes between. Elsewhere cap-std does, one
//! part of the path after the other. It also follows a path onto another mount, which is refused here by comparing
//! devices; a mount of the same device, as a bind mount may be, is told apart by the kernel only.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use cap_fs_ext::{
    FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _, OpenOptionsMaybeDirExt as _, OpenOptionsSyncExt as _,
};
use cap_std::fs::{Dir, Metadata};
use fumehood_platform::beneath::{self, Access, BeneathError};
use io_lifetimes::AsFilelike as _;
use io_lifetimes::views::FilelikeView;

use super::ledger::RemovedEntry;
use super::resolve::{OpenOptions, ResolveError};

/// A way of resolving paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolver {
    /// The kernel, all of a path at once.
    Kernel,
    /// cap-std, part by part.
    Library,
}

/// Something at the end of a path, which was looked at and not opened.
pub(crate) struct FoundEntry {
    pub(crate) metadata: Metadata,
    /// Keeps what was found apart from anything that gets its name later. [`Resolver::Library`] has none.
    handle: Option<File>,
}

/// Views an open folder as a directory of cap-std.
pub(super) fn as_dir(folder: &File) -> FilelikeView<'_, Dir> {
    folder.as_filelike_view()
}

impl Resolver {
    /// Chooses the resolver of this process, once: the kernel if it resolves paths beneath `folder`.
    pub(crate) fn choose(folder: &File) -> Self {
        static CHOSEN: OnceLock<Resolver> = OnceLock::new();
        *CHOSEN.get_or_init(|| if beneath::is_available(folder) { Self::Kernel } else { Self::Library })
    }

    /// Looks at what a path leads to.
    pub(super) fn look(self, folder: &File, path: &str, follow: bool) -> Result<FoundEntry, ResolveError> {
        match self {
            Self::Kernel => {
                let options =
                    beneath::OpenOptions { access: Access::Metadata, directory: false, follow, create_new: false };
                let handle = beneath::open(folder, path, options)?;
                Ok(FoundEntry { metadata: Metadata::from_file(&handle)?, handle: Some(handle) })
            }
            Self::Library => {
                let dir = as_dir(folder);
                let metadata = if follow { dir.metadata(path) } else { dir.symlink_metadata(path) };
                let metadata = metadata.map_err(library_error)?;
                check_device(folder, &metadata)?;
                Ok(FoundEntry { metadata, handle: None })
            }
        }
    }

    /// Opens what a path leads to, without waiting.
    pub(super) fn open(self, folder: &File, path: &str, options: OpenOptions) -> Result<File, ResolveError> {
        match self {
            Self::Kernel => Ok(beneath::open(folder, path, kernel_options(options))?),
            Self::Library => {
                let how = library_options(options);
                let file = as_dir(folder).open_with(path, &how).map_err(library_error)?.into_std();
                check_device(folder, &Metadata::from_file(&file)?)?;
                Ok(file)
            }
        }
    }

    /// Opens a folder that names are looked up in.
    pub(super) fn open_folder(self, folder: &File, path: &str) -> Result<File, ResolveError> {
        match self {
            Self::Kernel => {
                let options =
                    beneath::OpenOptions { access: Access::Metadata, directory: true, follow: true, create_new: false };
                Ok(beneath::open(folder, path, options)?)
            }
            Self::Library => {
                let opened = as_dir(folder).open_dir(path).map_err(library_error)?.into_std_file();
                check_device(folder, &Metadata::from_file(&opened)?)?;
                Ok(opened)
            }
        }
    }

    pub(super) fn create(self, folder: &File, name: &str, options: OpenOptions) -> Result<File, ResolveError> {
        match self {
            Self::Kernel => {
                let options = beneath::OpenOptions { create_new: true, ..kernel_options(options) };
                Ok(beneath::open(folder, name, options)?)
            }
            Self::Library => {
                let mut how = library_options(options);
                how.create_new(true);
                Ok(as_dir(folder).open_with(name, &how).map_err(library_error)?.into_std())
            }
        }
    }
}

impl FoundEntry {
    /// Returns what was found under a name of `parent`, for its account. A file that cannot be held on to is
    /// [`RemovedEntry::Other`]: nothing is known of it once its name is gone.
    pub(super) fn into_removed(self, parent: &File, name: &str) -> RemovedEntry {
        let kind = self.metadata.file_type();
        if kind.is_symlink() && self.metadata.nlink() == 1 {
            return RemovedEntry::Link { bytes: self.metadata.len() };
        }
        if !kind.is_file() {
            return RemovedEntry::Other;
        }
        let handle = self.handle.or_else(|| {
            let options = OpenOptions { follow: false, read: true, write: false, directory: false };
            let file = as_dir(parent).open_with(name, &library_options(options)).ok()?.into_std();
            let is_same = is_same(&Metadata::from_file(&file).ok()?, &self.metadata);
            is_same.then_some(file)
        });
        handle.map_or(RemovedEntry::Other, RemovedEntry::File)
    }
}

fn kernel_options(options: OpenOptions) -> beneath::OpenOptions {
    let access = match (options.read, options.write) {
        (true, true) => Access::ReadWrite,
        (false, true) => Access::Write,
        _ => Access::Read,
    };
    beneath::OpenOptions { access, directory: options.directory, follow: options.follow, create_new: false }
}

fn library_options(options: OpenOptions) -> cap_std::fs::OpenOptions {
    let follow = if options.follow { FollowSymlinks::Yes } else { FollowSymlinks::No };
    let mut how = cap_std::fs::OpenOptions::new();
    how.read(options.read || !options.write).write(options.write).follow(follow).maybe_dir(true).nonblock(true);
    how
}

/// Refuses what lies on another device than the folder.
fn check_device(folder: &File, found: &Metadata) -> Result<(), ResolveError> {
    if Metadata::from_file(folder)?.dev() == found.dev() { Ok(()) } else { Err(ResolveError::Outside) }
}

/// Returns whether two descriptions are of the same file.
pub(super) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Converts an error of cap-std, which has an error of its own for paths that lead outside.
fn library_error(error: io::Error) -> ResolveError {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, None) => ResolveError::Outside,
        _ => error.into(),
    }
}

impl From<BeneathError> for ResolveError {
    fn from(error: BeneathError) -> Self {
        match error {
            BeneathError::Outside => Self::Outside,
            BeneathError::System(error) => error.into(),
            _ => Self::System(super::resolve::ErrorCode::Io),
        }
    }
}
