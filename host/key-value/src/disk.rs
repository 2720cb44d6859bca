//! The store: each step is one transaction.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fumehood_core::key_value::{Key, KeyValueStore, Page, Query, StoreError, check_quota, entry_bytes};
use fumehood_core::name::Namespace;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::connect::{self, OpenError};
use crate::pool::Pool;
use crate::schema::SchemaError;
use crate::storage_error::StorageError;

/// Keeps keys and values in a SQLite file. Several processes may use the same file at once.
pub struct DiskStore {
    pool: Pool,
}

impl DiskStore {
    /// Opens a store, and makes the file and its folder if there is none, for this user alone.
    ///
    /// # Errors
    /// If the file cannot be made or written, is damaged, or belongs to something else. Nothing is changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Ok(Self { pool: Pool::new(path, connect::make(path)?) })
    }

    fn step<R>(
        &self,
        patience: Duration,
        step: impl FnOnce(&mut Connection) -> Result<R, StepError>,
    ) -> Result<R, StoreError> {
        self.pool.step(patience, step).map_err(|error| match error {
            StepError::Refused(refused) => refused,
            StepError::File(why) => StoreError::Unavailable(format!("{}: {why}", self.pool.path().display())),
        })
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("path", &self.pool.path()).finish_non_exhaustive()
    }
}

/// Why a step was not done.
enum StepError {
    /// The owner may not.
    Refused(StoreError),
    /// The file does not.
    File(SchemaError),
}

impl From<SchemaError> for StepError {
    fn from(error: SchemaError) -> Self {
        Self::File(error)
    }
}

impl From<rusqlite::Error> for StepError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl KeyValueStore for DiskStore {
    fn get(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.step(patience, |connection| {
            let mut find = connection.prepare_cached(
                "SELECT value FROM entries WHERE owner = (SELECT id FROM owners WHERE name = ?1) AND key = ?2",
            )?;
            Ok(find.query_row([owner.as_str(), key.as_str()], |row| row.get(0)).optional()?)
        })
    }

    fn set(&self, owner: &Namespace, key: &Key, value: &[u8], most: u64, patience: Duration) -> Result<(), StoreError> {
        self.step(patience, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let shelf = Shelf::of(&transaction, owner)?;
            let old = shelf.value_bytes(&transaction, key)?;
            let kept = check_quota(shelf.kept, key, old, value.len() as u64, most)?;
            let mut set = transaction.prepare_cached(
                "INSERT INTO entries (owner, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value",
            )?;
            set.execute(params![shelf.id, key.as_str(), value])?;
            drop(set);
            shelf.keeps(&transaction, kept)?;
            Ok(transaction.commit()?)
        })
    }

    fn delete(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<bool, StoreError> {
        self.step(patience, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let shelf = Shelf::of(&transaction, owner)?;
            let Some(old) = shelf.value_bytes(&transaction, key)? else { return Ok(false) };
            let mut delete = transaction.prepare_cached("DELETE FROM entries WHERE owner = ?1 AND key = ?2")?;
            delete.execute(params![shelf.id, key.as_str()])?;
            drop(delete);
            shelf.keeps(&transaction, shelf.kept.saturating_sub(entry_bytes(key, old)))?;
            transaction.commit()?;
            Ok(true)
        })
    }

    fn list(&self, owner: &Namespace, query: &Query, patience: Duration) -> Result<Page, StoreError> {
        let prefix = query.prefix.as_str();
        let after = query.after.as_ref().map_or("", Key::as_str);
        self.step(patience, |connection| {
            // One more than asked for, to know whether there is one.
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

/// What one owner keeps, as a transaction that may write sees it.
struct Shelf {
    id: i64,
    kept: u64,
}

impl Shelf {
    fn of(transaction: &Transaction<'_>, owner: &Namespace) -> rusqlite::Result<Self> {
        let mut make =
            transaction.prepare_cached("INSERT INTO owners (name, kept) VALUES (?1, 0) ON CONFLICT DO NOTHING")?;
        make.execute([owner.as_str()])?;
        let mut find = transaction.prepare_cached("SELECT id, kept FROM owners WHERE name = ?1")?;
        find.query_row([owner.as_str()], |row| Ok(Self { id: row.get(0)?, kept: bytes(row.get(1)?) }))
    }

    fn value_bytes(&self, transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<u64>> {
        let mut find = transaction.prepare_cached("SELECT length(value) FROM entries WHERE owner = ?1 AND key = ?2")?;
        find.query_row(params![self.id, key.as_str()], |row| row.get(0).map(bytes)).optional()
    }

    fn keeps(&self, transaction: &Transaction<'_>, kept: u64) -> rusqlite::Result<()> {
        let mut update = transaction.prepare_cached("UPDATE owners SET kept = ?2 WHERE id = ?1")?;
        update.execute(params![self.id, i64::try_from(kept).unwrap_or(i64::MAX)]).map(drop)
    }
}

/// SQLite has signed numbers only; a length is never below zero.
fn bytes(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn notes() -> Namespace {
        Namespace::parse("notes").unwrap()
    }

    fn why<R: fmt::Debug>(step: Result<R, StoreError>) -> String {
        step.unwrap_err().to_string()
    }

    fn new_store() -> (tempfile::TempDir, std::path::PathBuf, DiskStore) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made").join("tools.db");
        let store = DiskStore::open(&path).unwrap();
        (folder, path, store)
    }

    #[cfg(unix)]
    #[test]
    fn file_and_folder_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        assert_eq!(mode(&path.with_file_name("tools.db-wal")), 0o600);
    }

    #[test]
    fn what_is_no_store_is_refused_and_stays_as_it_is() {
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
        check("foreign", &std::fs::read(&other).unwrap(), "the database of another program");
        Connection::open(&other)
            .unwrap()
            .execute_batch("PRAGMA application_id = 0x46554b56; PRAGMA user_version = 2")
            .unwrap();
        check("newer", &std::fs::read(&other).unwrap(), "has version 2");
        let missing = DiskStore::open(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("cannot be opened; check its folder"), "{missing}");
    }

    #[test]
    fn a_file_that_another_holds_is_unavailable_in_time_and_can_be_read() {
        let (_folder, path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let started = std::time::Instant::now();
        let refused = why(store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE));
        assert!(refused.contains("another process holds the file"), "{refused}");
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(store.get(&notes(), &key("a"), PATIENCE).unwrap(), Some(b"1".to_vec()));
        other.execute_batch("ROLLBACK").unwrap();
        store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_can_be_read() {
        let (_folder, _path, store) = new_store();
        store.set(&notes(), &key("a"), b"1", 1 << 20, PATIENCE).unwrap();
        let only_reads =
            |connection: &mut Connection| connection.execute_batch("PRAGMA query_only = ON").map_err(StepError::from);
        store.step(PATIENCE, only_reads).unwrap();
        assert_eq!(store.get(&notes(), &key("a"), PATIENCE).unwrap(), Some(b"1".to_vec()));
        let refused = why(store.set(&notes(), &key("a"), b"2", 1 << 20, PATIENCE));
        assert!(refused.contains("read-only; make both writable"), "{refused}");
    }

    #[test]
    fn a_file_that_is_gone_or_damaged_is_unavailable() {
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
        let refused = why(store.get(&notes(), &key("k1"), PATIENCE));
        assert!(refused.contains("the file is damaged"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let refused = why(store.get(&notes(), &key("k1"), PATIENCE));
        assert!(refused.contains("cannot be opened; check that it exists"), "{refused}");
        assert!(!path.exists(), "nothing is made in its place");
    }

    /// Whoever looks while another makes the tables sees either none of them or all.
    #[test]
    fn a_store_that_several_make_at_once_is_one_store() {
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
    fn several_may_open_and_write_at_once_and_no_byte_is_lost() {
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
        let kept = store.step(patience, |connection| {
            Ok(connection.query_row("SELECT kept FROM owners", [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(kept.unwrap(), 100 * (64 + 4 + 5));
    }
}
