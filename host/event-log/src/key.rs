//! The key that seals anchors: 32 random bytes in a file that only its owner may read, beside the database or elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::Key;
use crate::checkpoint;
use crate::options::Options;

/// More than any key file has.
const MAX_KEY_FILE_BYTES: u64 = 1024;

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
    #[error("{path} is no key: it has {found} bytes instead of 32 (or 64 hexadecimal digits); restore it from a copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How many bytes it has; a file of more than 1 KiB is not read further.
        found: usize,
    },
    /// Others than its owner may read or write the file, so the seals prove nothing.
    #[error(
        "the key {path} is open to others (mode {mode:o}), who could forge the log with it; close it with \
         `chmod 600 {path}`, and if anybody may have read it, begin a new log with a new key"
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is something else than a file.
    #[error("the key {0} is not a regular file; name the file that holds the key")]
    NotAFile(PathBuf),
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

/// Where the key of a database is, with these options.
pub(crate) fn file(database: &Path, options: &Options) -> PathBuf {
    options.key_file.clone().unwrap_or_else(|| beside(database))
}

/// The key in that file, or nothing if there is no such file. Either 32 bytes, as [`read_or_make`] writes them, or 64
/// hexadecimal digits.
pub(crate) fn read(path: &Path) -> Result<Option<Key>, KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    // Looked at before it is opened: opening a pipe would wait for whoever writes to it.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(KeyError::NotAFile(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let file = File::open(path).map_err(failed)?;
    check_private(&file, path)?;
    let mut bytes = Vec::new();
    file.take(MAX_KEY_FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    let digits = || std::str::from_utf8(&bytes).ok().and_then(|text| checkpoint::hex(text.trim()));
    match Key::try_from(bytes.as_slice()).ok().or_else(digits) {
        Some(key) => Ok(Some(key)),
        None => Err(KeyError::Damaged { path: path.to_owned(), found: bytes.len() }),
    }
}

/// The key in that file, which must be there.
pub(crate) fn read_existing(path: &Path) -> Result<Key, KeyError> {
    read(path)?.ok_or_else(|| KeyError::Missing(path.to_owned()))
}

/// Refuses a key that its owner shares, by the permissions of the file that was opened.
fn check_private(file: &File, path: &Path) -> Result<(), KeyError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = file.metadata().map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::NotPrivate { path: path.to_owned(), mode });
        }
    }
    Ok(())
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
