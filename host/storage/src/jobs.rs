//! Jobs that outlive the process that runs them: one SQLite file for one server, or for several at once.
//!
//! Each process holds a lock on a file of its own beside the database for as long as it lives. A job that runs in a process
//! whose lock is free was lost with that process. The files are readable by their owner only.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobState, JobStoreError};
use fumehood_core::time::Timestamp;
use fumehood_platform::private;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::error::{OpenError, StorageError};
use crate::sqlite::{Database, companion_files};

/// The database of jobs, with the application id "FUJB". A released migration must never change.
const DATABASE: Database = Database {
    name: "jobs",
    application_id: 0x4655_4A42,
    migrations: &[
        "
        CREATE TABLE jobs (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            process TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            is_final INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            job TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX jobs_of_owner ON jobs (owner, created_at);
        CREATE INDEX jobs_by_end ON jobs (expires_at);
    ",
        "
        ALTER TABLE jobs ADD COLUMN key TEXT;
        UPDATE jobs SET key = json_extract(job, '$.key.key')
            WHERE CASE WHEN json_valid(job) THEN json_extract(job, '$.key.key') END IS NOT NULL;
        CREATE INDEX jobs_by_key ON jobs (owner, key) WHERE key IS NOT NULL;
    ",
    ],
    creation_settings: "PRAGMA auto_vacuum = INCREMENTAL",
    settings: "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 1048576",
};

/// Maximum time that an operation waits for another process that has locked the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of hexadecimal digits in the name of a process.
const PROCESS_DIGITS: usize = 16;

/// Jobs in a SQLite file. Every operation blocks on the disk.
pub struct JobFile {
    path: PathBuf,
    connection: Mutex<Connection>,
    /// The name of this process in the file.
    process: String,
    lock_path: PathBuf,
    /// Locked for as long as this process lives.
    _lock: File,
}

impl fmt::Debug for JobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl JobFile {
    /// Opens a file, and removes the jobs whose time is over. A missing file and its folder are created for their owner only (modes
    /// 0600 and 0700).
    ///
    /// # Errors
    /// If the file cannot be created or written, is damaged, or belongs to another program. It is not changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::open_at(path.as_ref().to_owned(), Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }

    fn open_at(path: PathBuf, now: Timestamp) -> Result<Self, OpenError> {
        let connection = Mutex::new(DATABASE.open_writable(&path, LOCK_TIMEOUT)?);
        let random = getrandom::u64().map_err(|error| file_error(&path, io::Error::other(error)))?;
        let process = format!("{random:016x}");
        let lock_path = lock_path(&path, &process);
        let lock = lock_new(&lock_path).map_err(|source| file_error(&lock_path, source))?;
        let file = Self { path, connection, process, lock_path, _lock: lock };
        // If another process has locked the file, they stay until the next job is created.
        let _stay = file.change(|transaction| remove_expired(transaction, now));
        Ok(file)
    }

    /// Returns the paths of all files that a process uses, for those who keep tools away from them.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let own = [self.path.clone(), self.lock_path.clone()];
        own.into_iter().chain(companion_files(&self.path)).collect()
    }

    /// Adds a job, after removing those whose time is over.
    ///
    /// # Errors
    /// If there is no room for it, its owner has a job of its key, or the file cannot be written.
    pub fn create(&self, job: &Job, limits: &JobLimits) -> Result<(), JobStoreError> {
        let text = to_text(job)?;
        let key = job.key.map(|key| key.key.to_string());
        self.change(|transaction| {
            remove_expired(transaction, job.created_at)?;
            let of_key = "SELECT count(*) FROM jobs WHERE owner = ?1 AND key = ?2";
            if transaction.query_row(of_key, params![&*job.owner, key], |row| row.get::<_, i64>(0))? > 0 {
                return Ok(Err(JobStoreError::KeyTaken));
            }
            let sizes = "SELECT count(*), coalesce(sum(bytes), 0) FROM jobs WHERE owner = ?1";
            let owner = transaction
                .query_row(sizes, [&*job.owner], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
            let all: i64 = transaction.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))?;
            if let Err(full) = limits.check(size(owner.0), size(owner.1), size(all)) {
                return Ok(Err(full));
            }
            let created = stored(job.created_at.0);
            let expires = stored(job.expires_at().0);
            transaction.execute(
                "INSERT INTO jobs (id, owner, process, created_at, expires_at, is_final, bytes, job, key)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![job.id.to_string(), &*job.owner, self.process, created, expires, false, 0, text, key],
            )?;
            Ok(Ok(()))
        })?
    }

    /// Replaces a job by its next state. One that has ended, or does not exist, stays as it is.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn update(&self, job: &Job) -> Result<(), JobStoreError> {
        self.replace(job).map(|_changed| ())
    }

    /// Replaces a job that has not ended by its next state. Returns whether there was one.
    fn replace(&self, job: &Job) -> Result<bool, JobStoreError> {
        let text = to_text(job)?;
        let changed = self.change(|transaction| {
            transaction.execute(
                "UPDATE jobs SET is_final = ?2, bytes = ?3, job = ?4 WHERE id = ?1 AND NOT is_final",
                params![job.id.to_string(), job.state.is_final(), stored_size(text.len()), text],
            )
        })?;
        Ok(changed > 0)
    }

    /// Finds a job. One that ran in a process which is gone is interrupted.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find(&self, id: JobId, now: Timestamp) -> Result<Option<Job>, JobStoreError> {
        let Some((text, process)) = self.read(id, now)? else { return Ok(None) };
        self.settle(from_text(&text)?, &process, now)
    }

    /// Finds the job of an owner by the digest of its key. One that ran in a process which is gone is interrupted.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find_by_key(&self, owner: &str, key: &Digest, now: Timestamp) -> Result<Option<Job>, JobStoreError> {
        let select = "SELECT job, process FROM jobs WHERE owner = ?1 AND key = ?2 AND expires_at > ?3";
        let values = params![owner, key.to_string(), stored(now.0)];
        let row = self.lock().query_row(select, values, read_row).optional();
        let Some((text, process)) = row.map_err(unavailable)? else { return Ok(None) };
        self.settle(from_text(&text)?, &process, now)
    }

    /// Returns the row of a job: its text, and the name of its process.
    fn read(&self, id: JobId, now: Timestamp) -> Result<Option<(String, String)>, JobStoreError> {
        let select = "SELECT job, process FROM jobs WHERE id = ?1 AND expires_at > ?2";
        let row = self.lock().query_row(select, params![id.to_string(), stored(now.0)], read_row).optional();
        row.map_err(unavailable)
    }

    /// Returns the jobs of an owner, the newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self, owner: &str, now: Timestamp) -> Result<Vec<Job>, JobStoreError> {
        // The connection is locked again for each job that is settled.
        let rows = read_rows(&self.lock(), owner, now).map_err(unavailable)?;
        let jobs = rows.into_iter().map(|(text, process)| self.settle(from_text(&text)?, &process, now));
        jobs.filter_map(Result::transpose).collect()
    }

    /// Removes a job of an owner.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remove(&self, owner: &str, id: JobId) -> Result<(), JobStoreError> {
        let delete = "DELETE FROM jobs WHERE id = ?1 AND owner = ?2";
        self.change(|transaction| transaction.execute(delete, params![id.to_string(), owner]))?;
        Ok(())
    }

    /// Ends a job that was lost with its process. One that has ended or was removed since it was read is
    /// read again.
    fn settle(&self, mut job: Job, process: &str, now: Timestamp) -> Result<Option<Job>, JobStoreError> {
        if job.state.is_final() || process == self.process || !is_gone(&self.path, process) {
            return Ok(Some(job));
        }
        job.advance(JobState::interrupted(), now);
        if self.replace(&job)? {
            return Ok(Some(job));
        }
        self.read(job.id, now)?.map(|(text, _)| from_text(&text)).transpose()
    }

    fn change<T>(&self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, JobStoreError> {
        in_transaction(&mut self.lock(), change).map_err(unavailable)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that was not committed is rolled back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::File { database: DATABASE.name, path: path.to_owned(), source }
}

/// Returns the rows of an owner's jobs, the newest first.
fn read_rows(connection: &Connection, owner: &str, now: Timestamp) -> rusqlite::Result<Vec<(String, String)>> {
    let select = "SELECT job, process FROM jobs WHERE owner = ?1 AND expires_at > ?2 ORDER BY created_at DESC, id";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map(params![owner, stored(now.0)], read_row)?;
    rows.collect()
}

/// Makes a change and commits it. The transaction is rolled back if the change fails.
fn in_transaction<T>(
    connection: &mut Connection,
    change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let changed = change(&transaction)?;
    transaction.commit()?;
    Ok(changed)
}

impl Drop for JobFile {
    /// Removes the file of the lock. One that stays behind is removed by whoever finds a job of this process.
    fn drop(&mut self) {
        let _stays = fs::remove_file(&self.lock_path);
    }
}

fn lock_path(database: &Path, process: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!("-{process}"));
    name.into()
}

fn lock_new(path: &Path) -> io::Result<File> {
    let file = private::write_options().create_new(true).open(path)?;
    match file.try_lock() {
        // On a file system without locks every process counts as alive as long as its file is there.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Returns whether the process of this name has ended.
fn is_gone(database: &Path, process: &str) -> bool {
    // The name is that of a file, and a database may have been edited.
    if process.len() != PROCESS_DIGITS || !process.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return true;
    }
    let path = lock_path(database, process);
    match File::open(&path) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(file) => {
            let is_free = file.try_lock().is_ok();
            if is_free {
                let _stays = fs::remove_file(&path);
            }
            is_free
        }
    }
}

fn remove_expired(transaction: &Transaction<'_>, now: Timestamp) -> rusqlite::Result<usize> {
    transaction.execute("DELETE FROM jobs WHERE expires_at <= ?1", [stored(now.0)])
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn to_text(job: &Job) -> Result<String, JobStoreError> {
    serde_json::to_string(job).map_err(|error| JobStoreError::Unavailable(error.to_string()))
}

fn from_text(text: &str) -> Result<Job, JobStoreError> {
    serde_json::from_str(text).map_err(|error| JobStoreError::Unavailable(format!("cannot read a job: {error}")))
}

fn unavailable(error: rusqlite::Error) -> JobStoreError {
    JobStoreError::Unavailable(StorageError::from(error).to_string())
}

fn stored(moment: u64) -> i64 {
    i64::try_from(moment).unwrap_or(i64::MAX)
}

fn stored_size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn size(stored: i64) -> usize {
    usize::try_from(stored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::content::Content;
    use fumehood_core::call::result::{CallResult, Metadata};
    use fumehood_core::job::JobKey;

    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn job(id: u128, owner: &str) -> Job {
        Job::begin(JobId::from_bits(id), owner.into(), "t".to_owned(), NOW, Duration::from_secs(1))
    }

    fn open(path: &Path) -> Result<JobFile, OpenError> {
        JobFile::open_at(path.to_owned(), NOW)
    }

    fn ended(mut job: Job) -> Job {
        let outcome = Ok(vec![Content::text("3")]);
        let result = CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() };
        job.advance(JobState::of_result(result, false), NOW);
        job
    }

    fn status(file: &JobFile, id: u128) -> Option<&'static str> {
        file.find(JobId::from_bits(id), NOW).unwrap().map(|job| job.state.as_str())
    }

    #[test]
    fn a_job_of_a_process_that_is_gone_was_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let first = open(&path).unwrap();
        first.create(&job(1, "a"), &JobLimits::default()).unwrap();
        first.create(&job(2, "a"), &JobLimits::default()).unwrap();
        first.update(&ended(job(2, "a"))).unwrap();
        let second = open(&path).unwrap();
        assert_eq!((status(&second, 1), status(&second, 2)), (Some("working"), Some("completed")));
        drop(first);
        assert_eq!((status(&second, 1), status(&second, 2)), (Some("failed"), Some("completed")));
        let states: Vec<_> = second.list("a", NOW).unwrap().iter().map(|job| job.state.as_str()).collect();
        assert_eq!(states, ["failed", "completed"]);
        // A result that comes too late changes nothing.
        second.update(&ended(job(1, "a"))).unwrap();
        assert_eq!(status(&second, 1), Some("failed"));
    }

    #[test]
    fn an_end_that_its_process_saved_last_is_not_taken_for_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let first = open(&path).unwrap();
        let second = open(&path).unwrap();
        for id in [1, 2] {
            first.create(&job(id, "a"), &JobLimits::default()).unwrap();
        }
        let process = first.process.clone();
        // Both were read before: then one ends, and the other is removed.
        first.update(&ended(job(1, "a"))).unwrap();
        first.remove("a", JobId::from_bits(2)).unwrap();
        drop(first);
        let settled = second.settle(job(1, "a"), &process, NOW).unwrap();
        assert_eq!(settled.map(|job| job.state.as_str()), Some("completed"));
        assert!(second.settle(job(2, "a"), &process, NOW).unwrap().is_none());
    }

    #[test]
    fn jobs_whose_time_is_over_are_removed_when_the_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let first = open(&path).unwrap();
        first.create(&job(1, "a"), &JobLimits::default()).unwrap();
        assert_eq!(count_rows(&open(&path).unwrap()), 1);
        assert_eq!(count_rows(&JobFile::open(&path).unwrap()), 0);
    }

    fn count_rows(file: &JobFile) -> i64 {
        file.lock().query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_file_of_a_lock_that_stayed_behind_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let first = open(&path).unwrap();
        first.create(&job(1, "a"), &JobLimits::default()).unwrap();
        let left = first.lock_path.clone();
        drop(first);
        // As after a kill.
        fs::write(&left, "").unwrap();
        let second = open(&path).unwrap();
        assert_eq!((status(&second, 1), left.exists()), (Some("failed"), false));
        for process in ["", "../../etc/passwd", "000000000000000g"] {
            assert!(is_gone(&path, process), "{process}");
        }
    }

    fn keyed(id: u128, owner: &str, key: &[u8]) -> Job {
        let key = JobKey { key: Digest::of(key), request: Digest::of(b"r") };
        Job { key: Some(key), ..job(id, owner) }
    }

    #[test]
    fn an_owner_has_one_job_of_a_key_and_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let one = open(&path).unwrap();
        let other = open(&path).unwrap();
        let limits = JobLimits::default();
        one.create(&keyed(1, "a", b"k"), &limits).unwrap();
        assert_eq!(other.create(&keyed(2, "a", b"k"), &limits), Err(JobStoreError::KeyTaken));
        other.create(&keyed(3, "b", b"k"), &limits).unwrap();
        other.create(&keyed(4, "a", b"l"), &limits).unwrap();
        // Jobs without one are as many as there is room for.
        other.create(&job(5, "a"), &limits).unwrap();
        other.create(&job(6, "a"), &limits).unwrap();
        let found = |owner: &str, key: &[u8], now: Timestamp| {
            one.find_by_key(owner, &Digest::of(key), now).unwrap().map(|job| job.id)
        };
        assert_eq!(found("a", b"k", NOW), Some(JobId::from_bits(1)));
        assert_eq!(found("b", b"k", NOW), Some(JobId::from_bits(3)));
        assert_eq!((found("a", b"m", NOW), found("a", b"k", Timestamp(2000))), (None, None));
        let later = Job { created_at: Timestamp(2000), ..keyed(7, "a", b"k") };
        one.create(&later, &limits).unwrap();
    }

    #[test]
    fn keys_of_a_file_without_their_column_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let first_release = Database { migrations: &DATABASE.migrations[..1], ..DATABASE };
        let connection = first_release.open_writable(&path, LOCK_TIMEOUT).unwrap();
        for job in [keyed(1, "a", b"k"), job(2, "a")] {
            let insert = "INSERT INTO jobs VALUES (?1, 'a', 'p', 1000, 2000, false, 0, ?2)";
            connection.execute(insert, params![job.id.to_string(), to_text(&job).unwrap()]).unwrap();
        }
        // One that cannot be read is not in the way of the others.
        connection.execute("INSERT INTO jobs VALUES ('3', 'b', 'p', 1000, 2000, true, 0, '{')", []).unwrap();
        drop(connection);
        let file = open(&path).unwrap();
        let found = file.find_by_key("a", &Digest::of(b"k"), NOW).unwrap();
        assert_eq!(found.map(|job| job.id), Some(JobId::from_bits(1)));
        assert_eq!(file.list("a", NOW).unwrap().len(), 2);
    }

    #[test]
    fn jobs_of_several_processes_are_bounded_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let one = open(&path).unwrap();
        let other = open(&path).unwrap();
        let limits = JobLimits { owner_jobs: 2, owner_bytes: 1 << 20, jobs: 3 };
        one.create(&job(1, "a"), &limits).unwrap();
        other.create(&job(2, "a"), &limits).unwrap();
        assert!(matches!(one.create(&job(3, "a"), &limits), Err(JobStoreError::Full(_))));
        one.create(&job(3, "b"), &limits).unwrap();
        assert!(matches!(one.create(&job(4, "c"), &limits), Err(JobStoreError::Full(_))));
        one.remove("b", JobId::from_bits(2)).unwrap();
        assert_eq!(status(&one, 2), Some("working"));
        one.remove("a", JobId::from_bits(2)).unwrap();
        one.create(&job(4, "a"), &limits).unwrap();
        let later = Job { created_at: Timestamp(2000), ..job(5, "a") };
        assert_eq!(one.find(JobId::from_bits(1), Timestamp(2000)).unwrap().map(|job| job.id), None);
        one.create(&later, &limits).unwrap();
        assert_eq!(one.list("a", Timestamp(2000)).unwrap().len(), 1);
    }
}
