//! The key that seals anchors: 32 random bytes in a file that only its owner may read, beside the database or
//! elsewhere.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fumehood_platform::private;

use super::chain::Key;
use super::checkpoint;
use crate::error::KeyError;

/// Maximum size of a key file that is read, in bytes. Any key is shorter.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// Returns the path of a database's key: `key_file` if it is set, otherwise `<path>.key` beside the database.
pub(crate) fn path_of(database: &Path, key_file: Option<&Path>) -> PathBuf {
    match key_file {
        Some(path) => path.to_owned(),
        None => {
            let mut name = database.as_os_str().to_owned();
            name.push(".key");
            name.into()
        }
    }
}

/// Reads a key: either 32 bytes, as [`read_or_create`] writes them, or 64 hexadecimal digits. Returns `None` if the
/// file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Key>, KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    // Checked before the file is opened: opening a pipe would block until another process writes to it.
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
    let digits = || std::str::from_utf8(&bytes).ok().and_then(|text| checkpoint::parse_hex(text.trim()));
    match Key::try_from(bytes.as_slice()).ok().or_else(digits) {
        Some(key) => Ok(Some(key)),
        None => Err(KeyError::Damaged { path: path.to_owned(), found: bytes.len() }),
    }
}

/// Reads a key from a file that must exist.
pub(crate) fn read_existing(path: &Path) -> Result<Key, KeyError> {
    read(path)?.ok_or_else(|| KeyError::Missing(path.to_owned()))
}

/// Rejects a key file that other users may access. Checks the opened file, so that it cannot be exchanged in between.
fn check_private(file: &File, path: &Path) -> Result<(), KeyError> {
    let metadata = file.metadata().map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    if private::is_open_to_others(&metadata) {
        Err(KeyError::NotPrivate { path: path.to_owned(), mode: private::mode(&metadata) })
    } else {
        Ok(())
    }
}

/// The number of the next temporary file, which keeps those of several threads apart.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// Reads a key, and creates it if the file does not exist. Concurrent callers all get the same key.
pub(crate) fn read_or_create(path: &Path) -> Result<Key, KeyError> {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    let key = generate()?;
    // Linked under its name only when it is complete. That fails if another process was faster, whose key is then used.
    let process = std::process::id();
    let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_extension(format!("key-{process}-{number}"));
    let made = write_private(&unfinished, &key).and_then(|()| match fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => private::sync_parent(path),
    });
    drop(fs::remove_file(&unfinished));
    made.map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    read(path)?.ok_or_else(|| KeyError::Missing(path.to_owned()))
}

/// Generates a random key.
pub(crate) fn generate() -> Result<Key, KeyError> {
    let mut key = Key::default();
    getrandom::fill(&mut key).map_err(|error| KeyError::Random(error.to_string()))?;
    Ok(key)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::write_options().truncate(true).create(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
