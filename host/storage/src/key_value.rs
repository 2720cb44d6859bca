//! The key-value store of tools on disk: one SQLite file for one host, or for several hosts and processes at once.
//!
//! [`DiskStore`] implements [`KeyValueStore`]. A completed operation survives
//! a crash of the process. After a power failure the file is intact, but the last operations may be lost: no operation
//! waits for the disk (`synchronous = NORMAL`).
//!
//! The file is not encrypted. It is readable by its owner only.
//!
//! ```
//! use std::time::Duration;
//!
//! use fumehood_core::key_value::{Key, KeyValueStore};
//! use fumehood_core::tool::name::Namespace;
//! use fumehood_storage::key_value::DiskStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("tools.db");
//! let owner = Namespace::parse("notes")?;
//! let key = Key::parse("shopping")?;
//! let patience = Duration::from_secs(1);
//! DiskStore::open(&path)?.set(&owner, &key, b"milk", 1 << 20, patience)?;
//! assert_eq!(DiskStore::open(&path)?.get(&owner, &key, patience)?, Some(b"milk".to_vec()));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "postgres")]
mod postgres_store;

#[cfg(feature = "postgres")]
pub use postgres_store::PostgresStore;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::key_value::{Key, KeyValueStore, Page, Query, StoreError, check_quota, entry_bytes};
use fumehood_core::tool::name::Namespace;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::error::{OpenError, SchemaError, StorageError};
use crate::sqlite::Database;

/// The database of a key-value store, with the application id "FUKV". `kept` is the number of bytes that the owner's
/// entries count for, so that an operation need not add them up. A released migration must never change.
const DATABASE: Database = Database {
    name: "key-value store",
    application_id: 0x4655_4b56,
    migrations: &["
        CREATE TABLE owners (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            kept INTEGER NOT NULL CHECK (kept >= 0)
        ) STRICT;
        CREATE TABLE entries (
            id INTEGER PRIMARY KEY,
            owner INTEGER NOT NULL REFERENCES owners (id),
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            UNIQUE (owner, key)
        ) STRICT;
    "],
    creation_settings: "",
    settings: "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 16777216",
};

/// Maximum time that opening waits for another process that has locked the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of idle connections. More may be in use at once; the excess is closed after use.
const MAX_IDLE_CONNECTIONS: usize = 8;

/// A key-value store in a SQLite file. Several processes may use the same file at once.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::key_value::{Key, KeyValueStore, StoreError};
/// use fumehood_core::tool::name::Namespace;
/// use fumehood_storage::key_value::DiskStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("tools.db");
/// let store = DiskStore::open(&path)?;
/// let notes = Namespace::parse("notes")?;
/// let quota = 1 << 10;
/// let large = vec![0; 2 << 10];
/// let refused = store.set(&notes, &Key::parse("photo")?, &large, quota, Duration::from_secs(1));
/// assert!(matches!(refused, Err(StoreError::Full { quota: 1024, .. })));
/// # Ok(())
/// # }
/// ```
pub struct DiskStore {
    pool: Pool,
}

impl DiskStore {
    /// Opens a store. A missing file and its folder are created for their owner only (modes 0600 and 0700).
    ///
    /// # Errors
    /// If the file cannot be created or written, is damaged, or belongs to another program. It is not changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Ok(Self { pool: Pool::new(path, DATABASE.open_writable(path, OPEN_TIMEOUT)?) })
    }

    fn run<R>(
        &self,
        patience: Duration,
        operation: impl FnOnce(&mut Connection) -> Result<R, OperationError>,
    ) -> Result<R, StoreError> {
        self.pool.run(patience, operation).map_err(|error| match error {
            OperationError::Rejected(error) => error,
            OperationError::File(error) => StoreError::Unavailable(format!("{}: {error}", self.pool.path().display())),
        })
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("path", &self.pool.path()).finish_non_exhaustive()
    }
}

enum OperationError {
    /// The operation is not allowed, for example by the quota.
    Rejected(StoreError),
    /// The file cannot be used.
    File(SchemaError),
}

impl From<SchemaError> for OperationError {
    fn from(error: SchemaError) -> Self {
        Self::File(error)
    }
}

impl From<rusqlite::Error> for OperationError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Rejected(error)
    }
}

impl KeyValueStore for DiskStore {
    fn get(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(patience, |connection| {
            let mut find = connection.prepare_cached(
                "SELECT value FROM entries WHERE owner = (SELECT id FROM owners WHERE name = ?1) AND key = ?2",
            )?;
            Ok(find.query_row([owner.as_str(), key.as_str()], |row| row.get(0)).optional()?)
        })
    }

    fn set(
        &self,
        owner: &Namespace,
        key: &Key,
        value: &[u8],
        max_bytes: u64,
        patience: Duration,
    ) -> Result<(), StoreError> {
        self.run(patience, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            OwnerUsage::load(&transaction, owner)?.set(transaction, key, value, max_bytes)
        })
    }

    fn compare_and_set(
        &self,
        owner: &Namespace,
        key: &Key,
        expected: Option<&[u8]>,
        value: &[u8],
        max_bytes: u64,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        self.run(patience, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let usage = OwnerUsage::load(&transaction, owner)?;
            if usage.value(&transaction, key)?.as_deref() != expected {
                return Ok(false);
            }
            usage.set(transaction, key, value, max_bytes).map(|()| true)
        })
    }

    fn delete(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<bool, StoreError> {
        self.run(patience, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let usage = OwnerUsage::load(&transaction, owner)?;
            let Some(old) = usage.value_bytes(&transaction, key)? else { return Ok(false) };
            let mut delete = transaction.prepare_cached("DELETE FROM entries WHERE owner = ?1 AND key = ?2")?;
            delete.execute(params![usage.id, key.as_str()])?;
            drop(delete);
            usage.update(&transaction, usage.kept.saturating_sub(entry_bytes(key, old)))?;
            transaction.commit()?;
            Ok(true)
        })
    }

    fn list(&self, owner: &Namespace, query: &Query, patience: Duration) -> Result<Page, StoreError> {
        let prefix = query.prefix.as_str();
        let after = query.after.as_ref().map_or("", Key::as_str);
        self.run(patience, |connection| {
            // Queries one more key than requested, to find out if there are more.
            let mut find = connection.prepare_cached(
                "SELECT key FROM entries WHERE owner = (SELECT id FROM owners WHERE name = ?1)
                 AND key >= ?2 AND key <> ?3 ORDER BY key LIMIT ?4",
            )?;
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
            let mut rows = find.query(params![owner.as_str(), prefix.max(after), after, limit])?;
            let mut page = Page::default();
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                if !key.starts_with(prefix) {
                    break;
                }
                if page.keys.len() == query.limit {
                    page.more = true;
                    break;
                }
                page.keys.push(Key::parse(key).map_err(|_| SchemaError::from(StorageError::Damaged))?);
            }
            Ok(page)
        })
    }
}

/// The row of one owner: its id, and the bytes that its entries count for.
struct OwnerUsage {
    id: i64,
    kept: u64,
}

impl OwnerUsage {
    fn load(transaction: &Transaction<'_>, owner: &Namespace) -> rusqlite::Result<Self> {
        let mut make =
            transaction.prepare_cached("INSERT INTO owners (name, kept) VALUES (?1, 0) ON CONFLICT DO NOTHING")?;
        make.execute([owner.as_str()])?;
        let mut find = transaction.prepare_cached("SELECT id, kept FROM owners WHERE name = ?1")?;
        find.query_row([owner.as_str()], |row| Ok(Self { id: row.get(0)?, kept: from_sql(row.get(1)?) }))
    }

    fn value(&self, transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut find = transaction.prepare_cached("SELECT value FROM entries WHERE owner = ?1 AND key = ?2")?;
        find.query_row(params![self.id, key.as_str()], |row| row.get(0)).optional()
    }

    /// Sets a value within the quota, and ends the transaction.
    fn set(&self, transaction: Transaction<'_>, key: &Key, value: &[u8], max_bytes: u64) -> Result<(), OperationError> {
        let old = self.value_bytes(&transaction, key)?;
        let kept = check_quota(self.kept, key, old, value.len() as u64, max_bytes)?;
        let mut set = transaction.prepare_cached(
            "INSERT INTO entries (owner, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value",
        )?;
        set.execute(params![self.id, key.as_str(), value])?;
        drop(set);
        self.update(&transaction, kept)?;
        Ok(transaction.commit()?)
    }

    fn value_bytes(&self, transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<u64>> {
        let mut find = transaction.prepare_cached("SELECT length(value) FROM entries WHERE owner = ?1 AND key = ?2")?;
        find.query_row(params![self.id, key.as_str()], |row| row.get(0).map(from_sql)).optional()
    }

    fn update(&self, transaction: &Transaction<'_>, kept: u64) -> rusqlite::Result<()> {
        let mut update = transaction.prepare_cached("UPDATE owners SET kept = ?2 WHERE id = ?1")?;
        update.execute(params![self.id, i64::try_from(kept).unwrap_or(i64::MAX)]).map(drop)
    }
}

/// A pool of connections to one file. Each is used by one thread at a time.
pub(crate) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(path: &Path, first: Connection) -> Self {
        Self { path: path.to_owned(), idle: Mutex::new(vec![first]) }
    }

    /// Runs an operation with a connection that waits for locks for at most `patience`. A connection on which an
    /// operation failed is closed, so that the next operation uses a new one, which sees a file that was restored in
    /// between.
    pub(crate) fn run<R, E: From<SchemaError>>(
        &self,
        patience: Duration,
        operation: impl FnOnce(&mut Connection) -> Result<R, E>,
    ) -> Result<R, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => {
                connection.busy_timeout(patience).map_err(SchemaError::from)?;
                connection
            }
            None => DATABASE.open_existing(&self.path, patience)?,
        };
        let done = operation(&mut connection)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        Ok(done)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Converts a length from SQLite, which only has signed integers. Lengths are never negative.
fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn notes() -> Namespace {
        Namespace::parse("notes").unwrap()
    }

    fn error_of<R: fmt::Debug>(step: Result<R, StoreError>) -> String {
        step.unwrap_err().to_string()
    }

    fn new_store() -> (tempfile::TempDir, PathBuf, DiskStore) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made").join("tools.db");
        let store = DiskStore::open(&path).unwrap();
        (folder, path, store)
    }

    #[test]
    fn file_and_folder_are_accessible_to_their_owner_only() {
        let (_folder, path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        assert_eq!((mode_of(path.parent().unwrap()), mode_of(&path)), (0o700, 0o600));
        assert_eq!(mode_of(&path.with_file_name("tools.db-wal")), 0o600);
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn rejects_and_preserves_a_file_that_is_not_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, contents: &[u8], expected: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, contents).unwrap();
            let error = DiskStore::open(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert_eq!(std::fs::read(&path).unwrap(), contents, "{name}");
        };
        check("text", b"remember the milk, and that this is not a database at all", "is not a database");
        let other = folder.path().join("other");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        check("foreign", &std::fs::read(&other).unwrap(), "belongs to another program");
        Connection::open(&other)
            .unwrap()
            .execute_batch("PRAGMA application_id = 0x46554b56; PRAGMA user_version = 2")
            .unwrap();
        check("newer", &std::fs::read(&other).unwrap(), "has version 2");
        let missing = DiskStore::open(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("check its folder"), "{missing}");
    }

    #[test]
    fn locked_file_is_unavailable_for_writing_and_readable() {
        let (_folder, path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let started = std::time::Instant::now();
        let refused = error_of(store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE));
        assert!(refused.contains("another process has locked the database"), "{refused}");
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(store.get(&notes(), &key("a"), PATIENCE).unwrap(), Some(b"1".to_vec()));
        other.execute_batch("ROLLBACK").unwrap();
        store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE).unwrap();
    }

    #[test]
    fn unwritable_file_is_readable() {
        let (_folder, _path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        let only_reads = |connection: &mut Connection| {
            connection.execute_batch("PRAGMA query_only = ON").map_err(OperationError::from)
        };
        store.run(PATIENCE, only_reads).unwrap();
        assert_eq!(store.get(&notes(), &key("a"), PATIENCE).unwrap(), Some(b"1".to_vec()));
        let refused = error_of(store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE));
        assert!(refused.contains("read-only; make both writable"), "{refused}");
    }

    #[test]
    fn missing_or_damaged_file_is_unavailable() {
        let (_folder, path, store) = new_store();
        let value = vec![7; 60 << 10];
        for number in 0..20 {
            store.set(&notes(), &key(&format!("k{number}")), &value, 1 << 30, PATIENCE).unwrap();
        }
        drop(store);
        let store = DiskStore::open(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4096..].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let refused = error_of(store.get(&notes(), &key("k1"), PATIENCE));
        assert!(refused.contains("the file is damaged"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let refused = error_of(store.get(&notes(), &key("k1"), PATIENCE));
        assert!(refused.contains("check that it exists"), "{refused}");
        assert!(!path.exists(), "no new file is created in its place");
    }

    /// A thread that inspects the database while another creates the tables must see either none of them or all.
    #[test]
    fn concurrent_creation_yields_one_store() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tools.db");
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        begin.wait();
                        DiskStore::open(&path).unwrap();
                    });
                }
            });
        }
    }

    #[test]
    fn concurrent_writers_keep_the_usage_exact() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.db");
        let patience = Duration::from_secs(30);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let path = &path;
                threads.spawn(move || {
                    let store = DiskStore::open(path).unwrap();
                    for number in 0..25 {
                        let key = key(&format!("{thread}-{number:02}"));
                        store.set(&notes(), &key, b"12345", 1 << 20, patience).unwrap();
                    }
                });
            }
        });
        let store = DiskStore::open(&path).unwrap();
        let kept = store.run(patience, |connection| {
            Ok(connection.query_row("SELECT kept FROM owners", [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(kept.unwrap(), 100 * (64 + 4 + 5));
    }
}
