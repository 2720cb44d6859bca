//! Files of texts for models and clients, which are read while tools may write beside them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file that is read without leaving a folder: write access to the folder must not expose other files of the machine.
#[derive(Debug, Clone)]
pub(crate) struct FileBeneath {
    folder: PathBuf,
    below: PathBuf,
}

/// Errors of reading a [`FileBeneath`], for its operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextFileError {
    /// The file is not there, is not readable, or is a link that leads out of its folder.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file is a folder, a pipe or a device.
    #[error("is not a regular file")]
    NotAFile,
    /// The file has more than 1 MiB.
    #[error("is larger than 1 MiB")]
    TooLarge,
    /// The file is not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// The program ends.
    #[error("was not read completely")]
    Stopped,
}

impl TextFileError {
    /// Returns the message for models and clients, which does not reveal the path.
    pub(crate) fn for_readers(&self) -> &'static str {
        match self {
            Self::Io(_) => "it cannot be read now; its operator must check the file",
            Self::NotAFile => "it is not a regular file; its operator must check it",
            Self::TooLarge => "it is larger than 1 MiB; its operator must make it smaller",
            Self::NotText => "it is not UTF-8 text; its operator must check it",
            Self::Stopped => "the server stopped while reading it",
        }
    }
}

impl FileBeneath {
    /// Creates a file below `base`, the folder of the configuration; or below its own folder if the path is absolute or
    /// contains `..`.
    pub(crate) fn new(base: &Path, path: &Path) -> Self {
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        match (is_below, path.parent(), path.file_name()) {
            (false, Some(folder), Some(name)) => Self { folder: base.join(folder), below: PathBuf::from(name) },
            _ => Self { folder: base.to_owned(), below: path.to_owned() },
        }
    }

    /// Opens the file. A link that leads out of the folder is not followed.
    ///
    /// # Errors
    /// If it cannot be opened, is not a regular file, or is too large.
    pub(crate) fn open(&self) -> Result<File, TextFileError> {
        let folder = Dir::open_ambient_dir(&self.folder, ambient_authority())?;
        // Without blocking: opening a pipe would otherwise wait for a writer.
        let file = folder.open_with(&self.below, OpenOptions::new().read(true).nonblock(true))?.into_std();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(TextFileError::NotAFile);
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(TextFileError::TooLarge);
        }
        Ok(file)
    }

    /// Reads the file, without blocking the executor.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(crate) async fn read(&self) -> Result<Vec<u8>, TextFileError> {
        let file = self.clone();
        tokio::task::spawn_blocking(move || file.read_blocking()).await.map_err(|_| TextFileError::Stopped)?
    }

    /// Like [`Self::read`], for a file of text.
    ///
    /// # Errors
    /// Like [`Self::open`], or if it is not UTF-8.
    pub(crate) async fn read_text(&self) -> Result<String, TextFileError> {
        String::from_utf8(self.read().await?).map_err(|_| TextFileError::NotText)
    }

    fn read_blocking(&self) -> Result<Vec<u8>, TextFileError> {
        let mut bytes = Vec::new();
        self.open()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        // It may have grown since it was opened.
        if bytes.len() as u64 > MAX_FILE_BYTES { Err(TextFileError::TooLarge) } else { Ok(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_read(base: &Path, path: &str, expected: Result<&str, &str>) {
        let found = FileBeneath::new(base, Path::new(path)).read_blocking();
        let found = found.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.for_readers());
        match expected {
            Ok(text) => assert_eq!(found, Ok(text.to_owned()), "{path}"),
            Err(part) => assert!(found.clone().unwrap_err().contains(part), "{path}: {found:?}"),
        }
    }

    #[test]
    fn reads_no_file_outside_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        std::fs::create_dir_all(base.join("sub")).unwrap();
        std::fs::write(base.join("sub/a"), "inside").unwrap();
        std::fs::write(folder.path().join("above"), "above").unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::write(base.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        std::fs::write(base.join("largest"), vec![b'x'; 1 << 20]).unwrap();
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, base.join(name)).unwrap();
        link(&outside.path().join("secret"), "out");
        link(Path::new("../above"), "up");
        link(Path::new("sub/a"), "in");
        let whole = outside.path().join("secret");
        assert_read(&base, "sub/a", Ok("inside"));
        assert_read(&base, "./sub/a", Ok("inside"));
        assert_read(&base, "in", Ok("inside"));
        // Paths that the operator named.
        assert_read(&base, "../above", Ok("above"));
        assert_read(&base, whole.to_str().unwrap(), Ok("secret"));
        // Links that anybody with write access to the folder can make.
        assert_read(&base, "out", Err("cannot be read"));
        assert_read(&base, "up", Err("cannot be read"));
        assert_read(&base, "sub", Err("not a regular file"));
        assert_read(&base, "missing", Err("cannot be read"));
        assert_read(&base, "large", Err("larger than 1 MiB"));
        assert_read(&base, "largest", Ok(&"x".repeat(1 << 20)));
    }
}
