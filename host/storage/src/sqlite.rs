//! Opening of SQLite databases: permissions, checks before anything is changed, migrations and durability settings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fumehood_platform::private;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::{OpenError, SchemaError, StorageError};

/// Time between two attempts to open a file that another process is creating.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of every connection.
const SETTINGS: &str = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON";

/// The query of [`Database::inspect`]. It is one statement, and so consistent while another process creates the tables.
const INSPECT_SQL: &str = "
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
";

/// A kind of database: how it is recognised, its tables, and its settings.
#[derive(Clone, Copy)]
pub(crate) struct Database {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The application id in the header of the file.
    pub(crate) application_id: i32,
    /// The migrations from each version to the next, the first from an empty file.
    pub(crate) migrations: &'static [&'static str],
    /// Settings that can be made only before the first table is created.
    pub(crate) creation_settings: &'static str,
    /// Settings of every connection that may write.
    pub(crate) settings: &'static str,
}

impl Database {
    /// Creates the error of a file that cannot be used.
    pub(crate) fn unusable(&self, path: &Path, source: impl Into<SchemaError>) -> OpenError {
        OpenError::Schema { database: self.name, path: path.to_owned(), reason: source.into() }
    }

    fn inaccessible(&self, path: &Path, source: io::Error) -> OpenError {
        OpenError::File { database: self.name, path: path.to_owned(), source }
    }

    /// Opens a connection for writing, creates the file if it does not exist, and brings its tables up to the current
    /// version.
    pub(crate) fn open_writable(&self, path: &Path, busy: Duration) -> Result<Connection, OpenError> {
        create_file(path).map_err(|error| self.inaccessible(path, error))?;
        let connect = || -> Result<Connection, SchemaError> {
            let mut connection = connect_writable(path)?;
            self.prepare(&mut connection, busy)?;
            Ok(connection)
        };
        retry_while_locked(busy, connect).map_err(|error| self.unusable(path, error))
    }

    /// Opens a database in memory.
    pub(crate) fn open_in_memory(&self) -> Result<Connection, OpenError> {
        let unusable = |error: SchemaError| self.unusable(Path::new(":memory:"), error);
        let mut connection = Connection::open_in_memory().map_err(|error| unusable(error.into()))?;
        self.prepare(&mut connection, Duration::ZERO).map_err(unusable)?;
        Ok(connection)
    }

    /// Opens another connection to an existing database of the current version.
    pub(crate) fn open_existing(&self, path: &Path, busy: Duration) -> Result<Connection, SchemaError> {
        let connection = connect_writable(path)?;
        connection.busy_timeout(busy)?;
        self.check_current(&connection)?;
        self.configure(&connection)?;
        Ok(connection)
    }

    /// Opens a connection for reading only.
    pub(crate) fn open_read_only(&self, path: &Path, busy: Duration) -> Result<Connection, OpenError> {
        if let Err(error) = fs::metadata(path) {
            return Err(self.inaccessible(path, error));
        }
        let connect = |connection: Connection| -> Result<Connection, SchemaError> {
            connection.busy_timeout(busy)?;
            connection.execute_batch(SETTINGS)?;
            connection.execute_batch("PRAGMA query_only = ON")?;
            self.check_current(&connection)?;
            Ok(connection)
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags).map_err(SchemaError::from).and_then(connect);
        let opened = match opened {
            // Without write access, the files that readers share cannot be created. A database without a journal can
            // be read without them.
            Err(SchemaError::Storage(StorageError::CannotOpen | StorageError::ReadOnly))
                if journal_bytes(path) == 0 =>
            {
                Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)
                    .map_err(SchemaError::from)
                    .and_then(connect)
            }
            other => other,
        };
        opened.map_err(|error| self.unusable(path, error))
    }

    fn prepare(&self, connection: &mut Connection, busy: Duration) -> Result<(), SchemaError> {
        connection.busy_timeout(busy)?;
        let found = self.inspect(connection)?;
        if connection.is_readonly("main")? {
            return Err(StorageError::ReadOnly.into());
        }
        if found.is_none() {
            connection.execute_batch(self.creation_settings)?;
        }
        let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        self.configure(connection)?;
        if found == Some(self.version()) { Ok(()) } else { self.migrate(connection) }
    }

    fn configure(&self, connection: &Connection) -> Result<(), SchemaError> {
        connection.execute_batch(SETTINGS)?;
        connection.execute_batch(self.settings)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(())
    }

    /// Returns the version of a database of this kind, or `None` if it is empty, without changing it.
    fn inspect(&self, connection: &Connection) -> Result<Option<i64>, SchemaError> {
        let (application, found, tables): (i32, i64, i64) =
            connection.query_row(INSPECT_SQL, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let known = self.version();
        match (application, tables) {
            (0, 0) if found == 0 => Ok(None),
            (id, _) if id != self.application_id => Err(SchemaError::Foreign),
            _ if found > known => Err(SchemaError::TooNew { found, known }),
            _ => Ok(Some(found)),
        }
    }

    fn check_current(&self, connection: &Connection) -> Result<(), SchemaError> {
        let known = self.version();
        match self.inspect(connection)? {
            None => Err(SchemaError::Foreign),
            Some(found) if found < known => Err(SchemaError::TooOld { found, known }),
            Some(_) => Ok(()),
        }
    }

    /// Applies the missing migrations in one transaction.
    fn migrate(&self, connection: &mut Connection) -> Result<(), SchemaError> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Inspected again under the lock, because another process may have been faster.
        let found = self.inspect(&transaction)?.unwrap_or(0);
        let done = usize::try_from(found).unwrap_or(0);
        if done == self.migrations.len() {
            return Ok(());
        }
        for migration in self.migrations.iter().skip(done) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "application_id", self.application_id)?;
        transaction.pragma_update(None, "user_version", self.version())?;
        Ok(transaction.commit()?)
    }

    /// Returns the version that the migrations lead to.
    fn version(&self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }
}

fn connect_writable(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
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

/// Returns the size of the journal beside a database, in bytes; 0 if there is none.
pub(crate) fn journal_bytes(database: &Path) -> u64 {
    fs::metadata(with_suffix(database, "-wal")).map_or(0, |metadata| metadata.len())
}

/// Waits until the journal beside a database is on disk, if there is one.
///
/// # Errors
/// If the disk does not take it.
pub(crate) fn sync_journal(database: &Path) -> io::Result<()> {
    // Closing this file gives up no lock of SQLite, which are on the two files beside it.
    match fs::OpenOptions::new().write(true).open(with_suffix(database, "-wal")) {
        Ok(journal) => journal.sync_data(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
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
        private::create_folders(folder)?;
    }
    match private::write_options().create_new(true).open(path) {
        Ok(file) => {
            file.sync_all()?;
            private::sync_parent(path)
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

    const NOTES: Database = Database {
        name: "box of notes",
        application_id: 7,
        migrations: &["CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES (hex(randomblob(16)))"],
        creation_settings: "",
        settings: "",
    };
    const NEWER: Database =
        Database { migrations: &[NOTES.migrations[0], "ALTER TABLE notes ADD COLUMN author TEXT"], ..NOTES };
    const BROKEN: Database =
        Database { migrations: &[NOTES.migrations[0], "CREATE TABLE half (a); SELECT nonsense FROM nowhere"], ..NOTES };

    #[test]
    fn immutable_uri_escapes_the_path() {
        assert_eq!(immutable_uri(Path::new("/a b/ü?#.db")), "file:/a%20b/%c3%bc%3f%23.db?immutable=1");
    }

    #[test]
    fn unwritable_file_is_reported_as_read_only() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA query_only = ON").unwrap();
        assert_eq!(NOTES.prepare(&mut connection, Duration::ZERO), Err(StorageError::ReadOnly.into()));
    }

    #[test]
    fn migrates_an_older_database_and_keeps_its_rows() {
        let mut connection = NOTES.open_in_memory().unwrap();
        let before = read_note(&connection);
        assert_eq!(NEWER.check_current(&connection), Err(SchemaError::TooOld { found: 1, known: 2 }));
        NEWER.migrate(&mut connection).unwrap();
        assert_eq!(NEWER.inspect(&connection), Ok(Some(2)));
        connection.prepare("SELECT author FROM notes").unwrap();
        NEWER.migrate(&mut connection).unwrap();
        assert_eq!(read_note(&connection), before);
        assert_eq!(NOTES.migrate(&mut connection), Err(SchemaError::TooNew { found: 2, known: 1 }));
    }

    fn read_note(connection: &Connection) -> String {
        connection.query_row("SELECT text FROM notes", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn failed_migration_changes_nothing() {
        let mut connection = NOTES.open_in_memory().unwrap();
        BROKEN.migrate(&mut connection).unwrap_err();
        assert_eq!(BROKEN.inspect(&connection), Ok(Some(1)));
        connection.prepare("SELECT a FROM half").unwrap_err();
    }

    #[test]
    fn rejects_a_database_of_another_kind() {
        let connection = NOTES.open_in_memory().unwrap();
        let other = Database { application_id: 8, ..NOTES };
        assert_eq!(other.inspect(&connection), Err(SchemaError::Foreign));
    }
}
