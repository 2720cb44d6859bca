//! Opening a database: who may read it, what is refused before anything is changed, and how safely it writes.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::key::{self, KeyError};
use crate::schema::{self, Found, SchemaError};
use crate::storage_error::StorageError;

/// Between two tries to open a file that another process is making.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its folder cannot be made or read.
    #[error("the event log {path} cannot be opened; check its folder, and that this user may write there")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not an event log that this release can use.
    #[error("the event log {path} cannot be used: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SchemaError,
    },
    /// There is no key to seal anchors with.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The system starts no thread that could write.
    #[error("the system starts no thread to write the event log")]
    Thread(#[source] io::Error),
}

impl OpenError {
    /// A refusal of the database at `path`.
    pub(crate) fn schema(path: &Path, source: impl Into<SchemaError>) -> Self {
        Self::Schema { path: path.to_owned(), source: source.into() }
    }

    fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

/// A connection that writes, to a database of this version.
pub(crate) fn writable(path: &Path, busy: Duration, keep_journal: bool) -> Result<Connection, OpenError> {
    make_file(path).map_err(|error| OpenError::file(path, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || -> Result<Connection, SchemaError> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        prepare(&mut connection, busy)?;
        // Otherwise the last connection that is closed moves the journal into the database.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_journal)?;
        Ok(connection)
    };
    patiently(busy, connect).map_err(|error| OpenError::schema(path, error))
}

/// Tries again while another process is making the same file: SQLite does not wait for whoever changes the journal's mode.
fn patiently<T>(patience: Duration, connect: impl Fn() -> Result<T, SchemaError>) -> Result<T, SchemaError> {
    let began = Instant::now();
    loop {
        match connect() {
            Err(SchemaError::StorageError(StorageError::Locked)) if began.elapsed() < patience => {
                std::thread::sleep(PAUSE)
            }
            ended => return ended,
        }
    }
}

/// A connection that writes to memory.
pub(crate) fn in_memory() -> Result<Connection, OpenError> {
    let connect = || -> Result<Connection, SchemaError> {
        let mut connection = Connection::open_in_memory()?;
        prepare(&mut connection, Duration::ZERO)?;
        Ok(connection)
    };
    connect().map_err(|error| OpenError::schema(Path::new(":memory:"), error))
}

/// A connection that cannot write.
pub(crate) fn read_only(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    if let Err(error) = fs::metadata(path) {
        return Err(OpenError::file(path, error));
    }
    let known = schema::version(schema::MIGRATIONS);
    let connect = |connection: Connection| -> Result<Connection, SchemaError> {
        connection.busy_timeout(busy)?;
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")?;
        match schema::inspect(&connection, known)? {
            Found::Empty => Err(SchemaError::NotALog),
            Found::Version(found) if found < known => Err(SchemaError::TooOld { found, known }),
            Found::Version(_) => Ok(connection),
        }
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).map_err(SchemaError::from).and_then(connect);
    let opened = match opened {
        // Where nothing may be written, not even what readers share, a log that nobody writes is read as it is.
        Err(SchemaError::StorageError(StorageError::CannotOpen | StorageError::ReadOnly))
            if journal_bytes(path) == 0 =>
        {
            Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
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
    if found == Found::Empty {
        // Only possible before the first table: gives back the room of removed rows.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA journal_size_limit = 67108864",
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    match found {
        Found::Version(version) if version == schema::version(schema::MIGRATIONS) => Ok(()),
        _ => schema::migrate(connection, schema::MIGRATIONS),
    }
}

/// The size of the journal beside a database, in bytes: 0 if there is none.
pub(crate) fn journal_bytes(database: &Path) -> u64 {
    fs::metadata(beside(database, "-wal")).map_or(0, |metadata| metadata.len())
}

/// The files that SQLite keeps beside a database: the journal of what was written last, and the index of that.
pub(crate) fn companions(database: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|ending| beside(database, ending))
}

fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// SQLite gives what it makes the mode of the database itself; so that is made first, for its owner alone.
fn make_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    match key::private().create_new(true).open(path) {
        Ok(file) => {
            file.sync_all()?;
            key::sync_folder(path)
        }
        Err(_) if path.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}

fn immutable(path: &Path) -> String {
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
    fn a_path_keeps_its_meaning_in_a_uri() {
        assert_eq!(immutable(Path::new("/a b/ü?#.db")), "file:/a%20b/%c3%bc%3f%23.db?immutable=1");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_to_be_read_only() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA query_only = ON").unwrap();
        assert_eq!(prepare(&mut connection, Duration::ZERO), Err(StorageError::ReadOnly.into()));
    }
}
