//! Opening the database: permissions, checks before anything is changed, and durability settings.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::schema::{self, DatabaseState, SchemaError};
use crate::storage_error::StorageError;

/// Maximum time that opening waits for another process that has locked the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two attempts to open a file that another process is creating.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Errors of opening a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its folder cannot be created.
    #[error("the key-value store {path} cannot be opened; check its folder, and that this user may write there")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a store that this release can use.
    #[error("the key-value store {path} cannot be used: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SchemaError,
    },
}

/// Opens a connection to a store, and creates the store if it does not exist.
pub(crate) fn open_or_create(path: &Path) -> Result<Connection, OpenError> {
    create_file(path).map_err(|source| OpenError::File { path: path.to_owned(), source })?;
    let connect = || {
        let mut connection = open(path, OPEN_TIMEOUT)?;
        if connection.is_readonly("main")? {
            return Err(StorageError::ReadOnly.into());
        }
        if schema::inspect(&connection)? == DatabaseState::Empty {
            let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            schema::create(&mut connection)?;
        }
        Ok(connection)
    };
    retry_while_locked(OPEN_TIMEOUT, connect).map_err(|source| OpenError::Schema { path: path.to_owned(), source })
}

/// Retries while another process is creating the same file: SQLite's busy timeout does not cover a change of the
/// journal mode.
fn retry_while_locked<T>(patience: Duration, connect: impl Fn() -> Result<T, SchemaError>) -> Result<T, SchemaError> {
    let began = Instant::now();
    loop {
        match connect() {
            Err(SchemaError::Storage(StorageError::Locked)) if began.elapsed() < patience => {
                std::thread::sleep(RETRY_INTERVAL)
            }
            ended => return ended,
        }
    }
}

/// Opens another connection to an existing store.
pub(crate) fn open_existing(path: &Path, busy: Duration) -> Result<Connection, SchemaError> {
    let connection = open(path, busy)?;
    match schema::inspect(&connection)? {
        DatabaseState::Empty => Err(SchemaError::NotAStore),
        DatabaseState::Store => Ok(connection),
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

/// Creates the file for its owner only. SQLite creates the files beside it with the same mode.
fn create_file(path: &Path) -> io::Result<()> {
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
