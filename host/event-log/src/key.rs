//! The key that seals anchors: 32 random bytes in a file beside the database that only its owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::Key;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The log has rows, and its key is gone.
    #[error(
        "the log has records, but its key {0} is gone, so nobody could tell a forged log from a true one; \
         restore the key from a copy, or move the log away and begin a new one"
    )]
    Missing(PathBuf),
    /// The file holds something else.
    #[error("{path} is no key: it has {found} bytes instead of 32; restore it from a copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How many bytes it has.
        found: usize,
    },
    /// The file cannot be read or made.
    #[error("the key {path} cannot be read or written; check who owns it and its folder")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system has no random bytes.
    #[error("the system gave no random bytes for a new key: {0}")]
    Random(String),
}

/// Where the key of a database is.
pub(crate) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

/// The key in that file, or nothing if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Key>, KeyError> {
    match fs::read(path) {
        Ok(bytes) => match Key::try_from(bytes.as_slice()) {
            Ok(key) => Ok(Some(key)),
            Err(_) => Err(KeyError::Damaged { path: path.to_owned(), found: bytes.len() }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Io { path: path.to_owned(), source }),
    }
}

/// Tells apart keys that are being made by this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The key in that file, which is made if it is not there. If several make it at once, all get the same.
pub(crate) fn read_or_make(path: &Path) -> Result<Key, KeyError> {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    let key = random()?;
    // Linked under its name only when it is whole, which fails if somebody else was faster.
    let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let unfinished = path.with_extension(format!("key-{process}-{number}"));
    let made = write_private(&unfinished, &key).and_then(|()| match fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(path),
    });
    drop(fs::remove_file(&unfinished));
    made.map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    read(path)?.ok_or_else(|| KeyError::Missing(path.to_owned()))
}

/// A key out of random bytes.
pub(crate) fn random() -> Result<Key, KeyError> {
    let mut key = Key::default();
    getrandom::fill(&mut key).map_err(|error| KeyError::Random(error.to_string()))?;
    Ok(key)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private().truncate(true).create(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// How to open a file for writing that, if it is made, only its owner may read and write.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes sure that a new name is still there after a crash.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
