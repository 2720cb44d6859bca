//! Options of a log, and opening its database: permissions, checks before anything is changed, and durability settings.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::key::{self, KeyError};
use crate::schema::{self, DatabaseState, SchemaError};
use crate::storage_error::StorageError;

/// Time between two attempts to open a file that another process is creating.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Options for opening a log.
#[derive(Clone)]
pub struct Options {
    /// The key that seals the anchors. `None`: the key in `key_file`.
    pub key: Option<[u8; 32]>,
    /// The file with the key, unless `key` is set. It is created with a new log. `None`: `<path>.key` beside the
    /// database; then anyone with write access to both can rewrite the whole log undetected.
    pub key_file: Option<PathBuf>,
    /// Number of records that may wait to be written before [`record`](fumehood_core::record::Recorder::record) waits
    /// for room. At four times this number further records are rejected; that many accumulate only if callers do not
    /// wait, or while writing fails.
    pub capacity: usize,
    /// Maximum time to wait for another process that has locked the database.
    pub busy_timeout: Duration,
    /// Maximum time that closing or dropping the log waits for the records that are not on disk yet.
    pub close_timeout: Duration,
    /// True if a small journal stays beside the database when the log is closed. Moving it into the database takes
    /// longer than a short session.
    pub keep_journal: bool,
}

impl Default for Options {
    /// Returns options with the key beside the database, a capacity of 8192 records, both timeouts of 5 s, and no
    /// journal after closing.
    fn default() -> Self {
        let (busy_timeout, close_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { key: None, key_file: None, capacity: 8192, busy_timeout, close_timeout, keep_journal: false }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("key", &self.key.map(|_| "…"))
            .field("key_file", &self.key_file)
            .field("capacity", &self.capacity)
            .field("busy_timeout", &self.busy_timeout)
            .field("close_timeout", &self.close_timeout)
            .field("keep_journal", &self.keep_journal)
            .finish()
    }
}

/// Errors of opening a log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its folder cannot be created or read.
    #[error("the event log {path} cannot be opened; check its folder, and that this user may write there")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not an event log that this release can use.
    #[error("the event log {path} cannot be used: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SchemaError,
    },
    /// The key that seals anchors is missing or unusable.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The writer thread cannot be started.
    #[error("the system starts no thread to write the event log")]
    Thread(#[source] io::Error),
}

impl OpenError {
    /// Creates the error of a database that cannot be used.
    pub(crate) fn schema(path: &Path, source: impl Into<SchemaError>) -> Self {
        Self::Schema { path: path.to_owned(), source: source.into() }
    }

    fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

/// Opens a connection for writing, and brings the database up to the current version.
pub(crate) fn open_writable(path: &Path, busy: Duration, keep_journal: bool) -> Result<Connection, OpenError> {
    create_file(path).map_err(|error| OpenError::file(path, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || -> Result<Connection, SchemaError> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        prepare(&mut connection, busy)?;
        // By default the last connection that is closed moves the journal into the database.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_journal)?;
        Ok(connection)
    };
    retry_while_locked(busy, connect).map_err(|error| OpenError::schema(path, error))
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

/// Opens a database in memory.
pub(crate) fn open_in_memory() -> Result<Connection, OpenError> {
    let connect = || -> Result<Connection, SchemaError> {
        let mut connection = Connection::open_in_memory()?;
        prepare(&mut connection, Duration::ZERO)?;
        Ok(connection)
    };
    connect().map_err(|error| OpenError::schema(Path::new(":memory:"), error))
}

/// Opens a connection for reading only.
pub(crate) fn open_read_only(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    if let Err(error) = fs::metadata(path) {
        return Err(OpenError::file(path, error));
    }
    let known = schema::version(schema::MIGRATIONS);
    let connect = |connection: Connection| -> Result<Connection, SchemaError> {
        connection.busy_timeout(busy)?;
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")?;
        match schema::inspect(&connection, known)? {
            DatabaseState::Empty => Err(SchemaError::NotALog),
            DatabaseState::Version(found) if found < known => Err(SchemaError::TooOld { found, known }),
            DatabaseState::Version(_) => Ok(connection),
        }
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).map_err(SchemaError::from).and_then(connect);
    let opened = match opened {
        // Without write access, the files that readers share cannot be created. A log without a journal can be read
        // without them.
        Err(SchemaError::Storage(StorageError::CannotOpen | StorageError::ReadOnly)) if journal_bytes(path) == 0 => {
            Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)
                .map_err(SchemaError::from)
                .and_then(connect)
        }
        other => other,
    };
    opened.map_err(|error| OpenError::schema(path, error))
}

fn prepare(connection: &mut Connection, busy: Duration) -> Result<(), SchemaError> {
    connection.busy_timeout(busy)?;
    let found = schema::inspect(connection, schema::version(schema::MIGRATIONS))?;
    if connection.is_readonly("main")? {
        return Err(StorageError::ReadOnly.into());
    }
    if found == DatabaseState::Empty {
        // Lets pruning return space to the file system. It can be set only before the first table is created.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA journal_size_limit = 67108864",
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    match found {
        DatabaseState::Version(version) if version == schema::version(schema::MIGRATIONS) => Ok(()),
        _ => schema::migrate(connection, schema::MIGRATIONS),
    }
}

/// Returns the size of the journal beside a database, in bytes; 0 if there is none.
pub(crate) fn journal_bytes(database: &Path) -> u64 {
    fs::metadata(with_suffix(database, "-wal")).map_or(0, |metadata| metadata.len())
}

/// Returns the paths of the files that SQLite keeps beside a database: the write-ahead log and its index.
pub(crate) fn companion_files(database: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|ending| with_suffix(database, ending))
}

fn with_suffix(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Creates the database file for its owner only. SQLite creates the files beside it with the same mode.
fn create_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    match key::private_options().create_new(true).open(path) {
        Ok(file) => {
            file.sync_all()?;
            key::sync_parent(path)
        }
        Err(_) if path.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immutable_uri_escapes_the_path() {
        assert_eq!(immutable_uri(Path::new("/a b/ü?#.db")), "file:/a%20b/%c3%bc%3f%23.db?immutable=1");
    }

    #[test]
    fn unwritable_file_is_reported_as_read_only() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA query_only = ON").unwrap();
        assert_eq!(prepare(&mut connection, Duration::ZERO), Err(StorageError::ReadOnly.into()));
    }
}
