//! Resolution of a guest's paths beneath a folder, and what is refused whichever way a path is resolved.
//!
//! A [`Resolver`] follows a path and refuses to leave the folder at any step. Something is looked at before it is opened,
//! so that pipes and devices never are. Names are created, removed and moved relative to their opened parent, one plain
//! name at a time, and no operation here follows that name if it is a link.

use std::fs::File;

use cap_std::fs::{Dir, FileType, Metadata};
use io_lifetimes::views::FilelikeView;
pub(super) use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::ledger::RemovedEntry;
use super::resolver::{FoundEntry, Resolver, as_dir};

/// Maximum length of a path. The limit of Linux is the same.
pub(crate) const MAX_PATH_BYTES: usize = 4095;

/// An error when resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// An error of the system.
    System(ErrorCode),
    /// A path that leads out of the folder.
    Outside,
    /// Something that is neither a file nor a folder.
    Special(FileType),
}

impl From<std::io::Error> for ResolveError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error.into())
    }
}

impl From<ErrorCode> for ResolveError {
    fn from(code: ErrorCode) -> Self {
        Self::System(code)
    }
}

/// Options for opening a file or a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenOptions {
    pub(crate) follow: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Fails unless it is a folder.
    pub(crate) directory: bool,
}

/// A file or a folder that was opened.
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) is_dir: bool,
}

/// An open folder that paths are resolved beneath. Every path of a guest that is resolved in this crate goes through it;
/// those of `stat_at` and the other delegated methods are resolved by wasmtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(crate) folder: &'a File,
    pub(crate) resolver: Resolver,
}

impl Base<'_> {
    /// Opens a file or a folder that exists.
    ///
    /// Its type is read first: opening a pipe or a device can block for ever, or have side effects.
    pub(crate) fn open(self, path: &str, options: OpenOptions) -> Result<OpenedFile, ResolveError> {
        check_length(path)?;
        let found = self.resolver.look(self.folder, path, options.follow)?;
        check_kind(&found.metadata, options)?;
        let file = self.resolver.open(self.folder, path, options)?;
        // It may have been replaced in between. Opening it did not block even then.
        let metadata = Metadata::from_file(&file)?;
        check_kind(&metadata, options)?;
        Ok(OpenedFile { file, is_dir: metadata.is_dir() })
    }

    /// Creates a file that does not exist. A link of that name counts as existing, wherever it points.
    pub(crate) fn create(self, path: &str, options: OpenOptions) -> Result<OpenedFile, ResolveError> {
        check_length(path)?;
        match self.resolver {
            Resolver::Kernel => {
                Ok(OpenedFile { file: self.resolver.create(self.folder, path, options)?, is_dir: false })
            }
            // The parent is compared with the folder before anything is created in it.
            Resolver::Library => self.new_file(path)?.create(options),
        }
    }

    /// Resolves all but the last part of the path of a file that is to be created.
    pub(crate) fn new_file(self, path: &str) -> Result<NamedEntry<'_>, ResolveError> {
        let new = match self.parent_of(path) {
            Err(ResolveError::System(ErrorCode::Invalid)) => return Err(ErrorCode::Exist.into()),
            found => found?,
        };
        if new.has_trailing_slash { Err(ErrorCode::IsDirectory.into()) } else { Ok(new) }
    }

    /// Resolves all but the last part of a path.
    pub(crate) fn parent_of(self, path: &str) -> Result<NamedEntry<'_>, ResolveError> {
        check_length(path)?;
        let plain = path.trim_end_matches('/');
        let (before, name) = plain.rsplit_once('/').map_or((".", plain), |(before, name)| match before {
            // `/name`: the resolver reports that it leads outside.
            "" => ("/", name),
            before => (before, name),
        });
        match name {
            "" if path.starts_with('/') => return Err(ResolveError::Outside),
            "" => return Err(ErrorCode::NoEntry.into()),
            // Resolved all the same, so that a path that leads outside is reported as such.
            "." | ".." => {
                self.resolver.look(self.folder, plain, true)?;
                return Err(ErrorCode::Invalid.into());
            }
            _ => {}
        }
        let parent = self.resolver.open_folder(self.folder, before)?;
        Ok(NamedEntry { parent, name, resolver: self.resolver, has_trailing_slash: plain.len() < path.len() })
    }
}

/// A name and its opened parent folder.
pub(crate) struct NamedEntry<'a> {
    parent: File,
    pub(crate) name: &'a str,
    resolver: Resolver,
    /// True if the path ended with a slash, which only a folder allows.
    pub(crate) has_trailing_slash: bool,
}

impl NamedEntry<'_> {
    /// Returns the parent, whose operations on the name do not follow it.
    pub(crate) fn dir(&self) -> FilelikeView<'_, Dir> {
        as_dir(&self.parent)
    }

    /// Returns the parent itself.
    pub(crate) fn into_dir(self) -> Dir {
        Dir::from_std_file(self.parent)
    }

    /// Reads the metadata of the parent.
    pub(crate) fn parent_metadata(&self) -> Result<Metadata, ResolveError> {
        Ok(Metadata::from_file(&self.parent)?)
    }

    /// Fails if the path ended with a slash.
    pub(crate) fn without_trailing_slash(self) -> Result<Self, ResolveError> {
        if self.has_trailing_slash { Err(ErrorCode::NotDirectory.into()) } else { Ok(self) }
    }

    /// Looks at the entry, and follows no link.
    pub(crate) fn look(&self) -> Result<FoundEntry, ResolveError> {
        self.resolver.look(&self.parent, self.name, false)
    }

    /// Returns the entry that was found, for the account of a folder that it is removed from.
    pub(crate) fn removed(&self, found: FoundEntry) -> RemovedEntry {
        found.into_removed(&self.parent, self.name)
    }

    /// Creates a file of that name, which does not exist.
    pub(crate) fn create(&self, options: OpenOptions) -> Result<OpenedFile, ResolveError> {
        Ok(OpenedFile { file: self.resolver.create(&self.parent, self.name, options)?, is_dir: false })
    }
}

/// Refuses anything but a regular file or a folder, and a file where a folder is required.
fn check_kind(metadata: &Metadata, options: OpenOptions) -> Result<(), ResolveError> {
    match metadata.file_type() {
        kind if kind.is_symlink() => Err(ErrorCode::Loop.into()),
        kind if kind.is_file() && options.directory => Err(ErrorCode::NotDirectory.into()),
        kind if kind.is_file() || kind.is_dir() => Ok(()),
        special => Err(ResolveError::Special(special)),
    }
}

/// Refuses a path that is too long, which a resolver would split before the system refuses it.
pub(crate) fn check_length(path: &str) -> Result<(), ErrorCode> {
    if path.len() > MAX_PATH_BYTES { Err(ErrorCode::NameTooLong) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_platform::files::{create_link, create_pipe};

    const READ: OpenOptions = OpenOptions { follow: true, read: true, write: false, directory: false };

    /// Calls `check` with a folder, once for each resolver.
    fn with_both(folder: &std::path::Path, check: impl Fn(Base<'_>)) {
        let folder = File::open(folder).unwrap();
        for resolver in [Resolver::Kernel, Resolver::Library] {
            check(Base { folder: &folder, resolver });
        }
    }

    fn error(result: Result<impl Sized, ResolveError>) -> ResolveError {
        result.err().unwrap()
    }

    #[test]
    fn both_resolvers_refuse_the_same() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("in/sub")).unwrap();
        std::fs::write(at("canary"), "canary").unwrap();
        std::fs::write(at("in/sub/file"), "file").unwrap();
        create_pipe(&at("in/pipe")).unwrap();
        for (target, name) in [("sub/file", "link"), ("../canary", "out"), ("loop", "loop"), ("/etc/passwd", "root")] {
            create_link(target, &at("in").join(name)).unwrap();
        }
        with_both(&at("in"), |base| {
            for path in ["sub/file", "link", "./sub/../link", "sub"] {
                assert_eq!(base.open(path, READ).unwrap().is_dir, path == "sub", "{base:?} {path}");
            }
            for path in ["..", "../canary", "out", "/etc/passwd", "root", "sub/../../canary"] {
                assert_eq!(error(base.open(path, READ)), ResolveError::Outside, "{base:?} {path}");
            }
            for path in ["../canary", "/etc/passwd", "..", "/", "sub/../.."] {
                assert_eq!(error(base.parent_of(path)), ResolveError::Outside, "{base:?} {path}");
            }
            let code = |path: &str, options| match error(base.open(path, options)) {
                ResolveError::System(code) => code,
                other => panic!("{base:?} {path}: {other:?}"),
            };
            assert_eq!(code("loop", READ), ErrorCode::Loop);
            assert_eq!(code("link", OpenOptions { follow: false, ..READ }), ErrorCode::Loop);
            assert_eq!(code("sub/file", OpenOptions { directory: true, ..READ }), ErrorCode::NotDirectory);
            assert_eq!(code("sub/file/", READ), ErrorCode::NotDirectory);
            assert_eq!(code("missing", READ), ErrorCode::NoEntry);
            assert_eq!(code("", READ), ErrorCode::NoEntry);
            assert_eq!(code(&"x".repeat(MAX_PATH_BYTES + 1), READ), ErrorCode::NameTooLong);
            assert!(matches!(error(base.open("pipe", READ)), ResolveError::Special(_)), "{base:?}");
            let write = OpenOptions { write: true, ..READ };
            let made = |path: &str| base.create(path, write).map(drop);
            for path in ["sub", "link", "out", "sub/file"] {
                assert_eq!(made(path), Err(ErrorCode::Exist.into()), "{base:?} {path}");
            }
            assert_eq!(made("../new"), Err(ResolveError::Outside), "{base:?}");
            made("sub/new").unwrap();
            std::fs::remove_file(at("in/sub/new")).unwrap();
        });
    }

    #[test]
    fn both_resolvers_refuse_other_devices_and_magic_links() {
        with_both(std::path::Path::new("/"), |base| {
            assert_eq!(error(base.open("proc/version", READ)), ResolveError::Outside, "{base:?}");
            assert_eq!(error(base.parent_of("proc/version")), ResolveError::Outside, "{base:?}");
            let write = OpenOptions { write: true, ..READ };
            assert_eq!(error(base.create("proc/new", write)), ResolveError::Outside, "{base:?}");
        });
        with_both(std::path::Path::new("/proc/self"), |base| {
            for path in ["root/etc/passwd", "cwd", "exe"] {
                assert!(base.open(path, READ).is_err(), "{base:?} {path}");
            }
        });
    }

    #[test]
    fn entries_are_looked_at_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "file").unwrap();
        create_link("file", &root.path().join("link")).unwrap();
        with_both(root.path(), |base| {
            let file = base.parent_of("file").unwrap();
            let found = file.look().unwrap();
            assert!(found.metadata.is_file());
            assert!(matches!(file.removed(found), RemovedEntry::File(_)), "{base:?}");
            let link = base.parent_of("link/").unwrap();
            assert!(link.has_trailing_slash);
            let found = link.look().unwrap();
            assert!(found.metadata.file_type().is_symlink());
            assert!(matches!(link.removed(found), RemovedEntry::Link { bytes: 4 }), "the target is `file`");
        });
    }
}
