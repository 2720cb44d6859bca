//! Opening a file: who may read it, what is refused before anything is changed, and how safely it writes.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::schema::{self, Found, SchemaError};
use crate::storage_error::StorageError;

/// How long opening waits for another process that holds the file.
const BUSY: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its folder cannot be made.
    #[error("the key-value store {path} cannot be opened; check its folder, and that this user may write there")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not a store that this release can use.
    #[error("the key-value store {path} cannot be used: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SchemaError,
    },
}

/// A connection to a store that is made if there is none.
pub(crate) fn make(path: &Path) -> Result<Connection, OpenError> {
    make_file(path).map_err(|source| OpenError::File { path: path.to_owned(), source })?;
    let connect = || {
        let mut connection = open(path, BUSY)?;
        if connection.is_readonly("main")? {
            return Err(StorageError::ReadOnly.into());
        }
        if schema::inspect(&connection)? == Found::Empty {
            let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            schema::create(&mut connection)?;
        }
        Ok(connection)
    };
    patiently(BUSY, connect).map_err(|source| OpenError::Schema { path: path.to_owned(), source })
}

/// Tries again while another process is making the same file: SQLite does not wait for whoever changes the journal's mode.
fn patiently<T>(patience: Duration, connect: impl Fn() -> Result<T, SchemaError>) -> Result<T, SchemaError> {
    let began = Instant::now();
    loop {
        match connect() {
            Err(SchemaError::Storage(StorageError::Locked)) if began.elapsed() < patience => {
                std::thread::sleep(PAUSE)
            }
            ended => return ended,
        }
    }
}

/// One more connection to a store that is there.
pub(crate) fn again(path: &Path, busy: Duration) -> Result<Connection, SchemaError> {
    let connection = open(path, busy)?;
    match schema::inspect(&connection)? {
        Found::Empty => Err(SchemaError::NotAStore),
        Found::Store => Ok(connection),
    }
}

fn open(path: &Path, busy: Duration) -> Result<Connection, SchemaError> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(busy)?;
    connection.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 16777216",
    )?;
    Ok(connection)
}

/// SQLite gives what it makes the mode of the file itself; so that is made first, for its owner alone.
fn make_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_new) => Ok(()),
        Err(_) if path.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}
