//! The event log, as its recorder, and the options of opening it.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::dependency::{Dependency, Measurement, Metric};
use fumehood_core::record::{Durability, Record, RecordError, Recorder};
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use futures_timer::Delay;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::anchor::Sealer;
use super::chain::Key;
use super::key;
use super::port::{RecordSource, RecordStore};
use super::queue::{EnqueueOutcome, LogHealth, Patience, Queue, ReplyReceiver, Rows, Work};
use super::reader::Reader;
use super::retention::{PruneReport, Retention};
use super::sqlite::store::{self, DATABASE};
use super::sqlite::{SqliteSource, SqliteStore};
use super::withheld::WithheldEntries;
use super::writer::Writer;
use crate::error::{KeyError, OpenError};
use crate::sqlite;

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
    /// Maximum time that [`record`](fumehood_core::record::Recorder::record) waits, for the database or for room, while
    /// nothing at all is written. After it the record stays in memory and is written when the database answers, and until
    /// then further records are refused like those after a failed write. Entries of saved sessions wait as long as the
    /// database takes.
    pub record_timeout: Duration,
    /// Maximum time that closing or dropping the log waits for the records that are not on disk yet.
    pub close_timeout: Duration,
    /// True if a small journal stays beside the database when the log is closed. Moving it into the database takes
    /// longer than a short session.
    pub keep_journal: bool,
}

impl Default for Options {
    /// Returns options with the key beside the database, a capacity of 8192 records, a record timeout of 15 s, both other
    /// timeouts of 5 s, and no journal after closing.
    fn default() -> Self {
        let busy_timeout = Duration::from_secs(5);
        let close_timeout = Duration::from_secs(5);
        let record_timeout = Duration::from_secs(15);
        let key = None;
        let key_file = None;
        Self { key, key_file, capacity: 8192, busy_timeout, record_timeout, close_timeout, keep_journal: false }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("key", &self.key.map(|_| "…"))
            .field("key_file", &self.key_file)
            .field("capacity", &self.capacity)
            .field("busy_timeout", &self.busy_timeout)
            .field("record_timeout", &self.record_timeout)
            .field("close_timeout", &self.close_timeout)
            .field("keep_journal", &self.keep_journal)
            .finish()
    }
}

/// An error of closing a log: some records were not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event log was closed, but {lost} records are not on disk; free some space, or close other programs that use \
     the file"
)]
pub struct CloseError {
    /// Number of records that were not written.
    pub lost: usize,
}

/// An event log that is open for writing.
///
/// While writing fails (disk full, locked, read-only), records are kept in memory and retried, and callers get a
/// [`RecordError`]; sending the same record again is harmless. A record that was rejected because the queue is full is
/// not kept; its error states how many records are waiting. Neither is a record with the id of another record, or one
/// too large for the database: a caller that waits until it is durable gets an error, and the records around it are
/// written.
///
/// Dropping the log closes it like [`EventLog::close`].
///
/// ```
/// use fumehood_storage::event_log::{EventLog, Filter, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.db");
/// // The key that seals the log is kept elsewhere.
/// let options = Options { key_file: Some(folder.path().join("log.key")), ..Options::default() };
/// let log = EventLog::open(&path, &options)?;
/// log.close()?;
///
/// // Another process reads it.
/// let reader = EventLog::open_read_only(&path, &options)?;
/// assert!(reader.query(&Filter { tool: Some("calculator__add".to_owned()), ..Filter::default() })?.is_empty());
/// assert_eq!(reader.verify(None)?.finding, None);
/// # Ok(())
/// # }
/// ```
pub struct EventLog {
    queue: Arc<Queue>,
    /// The reader, opened on first use.
    reader: OnceLock<Reader>,
    /// Opens the database once more, for the reader.
    open_source: Box<dyn Fn() -> Arc<dyn RecordSource> + Send + Sync>,
    key: Key,
    writer: Option<JoinHandle<()>>,
    record_timeout: Duration,
    close_timeout: Duration,
    withheld: Arc<WithheldEntries>,
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").finish_non_exhaustive()
    }
}

impl EventLog {
    /// Opens the log in a file for reading and writing. A missing log is created for its owner only (mode 0600), with
    /// its missing folders (0700). Several processes may write to one log.
    ///
    /// # Errors
    /// If the file cannot be created or written, is not an event log, has a newer version, or its key is missing. An
    /// existing file is never overwritten.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let connection = DATABASE.open_writable(path, options.busy_timeout)?;
        let unusable = |error| DATABASE.unusable(path, error);
        // By default the last connection that is closed moves the journal into the database.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, options.keep_journal).map_err(unusable)?;
        let log = store::log_id(&connection).map_err(unusable)?;
        let key = match options.key {
            Some(key) => key,
            None => {
                let file = key::path_of(path, options.key_file.as_deref());
                let head = store::head(&connection, &log).map_err(unusable)?;
                match key::read(&file)? {
                    Some(key) => key,
                    None if head.seq == 0 => key::read_or_create(&file)?,
                    None => return Err(KeyError::Missing(file).into()),
                }
            }
        };
        let place = Some((path.to_owned(), options.clone()));
        Self::start(Arc::new(Mutex::new(connection)), place, Sealer { log, key }, options)
    }

    /// Opens the log in a file for reading only. See [`Reader::open`].
    ///
    /// # Errors
    /// If the file cannot be read, or is not an event log of this version.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Reader, OpenError> {
        Reader::open(path, options)
    }

    /// Creates a log in memory, which is lost when it is dropped: for tests and for hosts that keep no records.
    ///
    /// # Errors
    /// If memory, random bytes or a thread are not available.
    pub fn in_memory(options: &Options) -> Result<Self, OpenError> {
        let connection = DATABASE.open_in_memory()?;
        let log = store::log_id(&connection).map_err(|error| DATABASE.unusable(Path::new(":memory:"), error))?;
        let key = options.key.map_or_else(key::generate, Ok)?;
        Self::start(Arc::new(Mutex::new(connection)), None, Sealer { log, key }, options)
    }

    /// Starts the log of a SQLite database. `place` has the path and options of the file, unless the log is in memory.
    fn start(
        connection: Arc<Mutex<Connection>>,
        place: Option<(PathBuf, Options)>,
        sealer: Sealer,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let key = sealer.key;
        let store = SqliteStore::new(Arc::clone(&connection), sealer, options.keep_journal);
        let open_source = move || -> Arc<dyn RecordSource> {
            let opened = place.as_ref().and_then(|(path, options)| SqliteSource::open(path, options).ok());
            // If the file cannot be opened a second time, the connection of the writer is shared.
            Arc::new(opened.unwrap_or_else(|| SqliteSource::from_connection(Arc::clone(&connection))))
        };
        Self::start_with(Box::new(store), Box::new(open_source), key, options)
    }

    /// Starts the thread that writes to a database.
    pub(super) fn start_with(
        store: Box<dyn RecordStore>,
        open_source: Box<dyn Fn() -> Arc<dyn RecordSource> + Send + Sync>,
        key: Key,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let queue = Arc::new(Queue::new(options.capacity));
        let writer = Writer::new(Arc::clone(&queue), store);
        let thread = thread::Builder::new().name("event-log".to_owned());
        let writer = Some(thread.spawn(move || writer.run()).map_err(OpenError::Thread)?);
        let &Options { record_timeout, close_timeout, .. } = options;
        let reader = OnceLock::new();
        let withheld = Arc::default();
        Ok(Self { queue, reader, open_source, key, writer, record_timeout, close_timeout, withheld })
    }

    /// Returns a reader of this log. A record is visible to it as soon as it is on disk.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        let open = || Reader::from_source((self.open_source)(), Ok(self.key)).with_withheld(Arc::clone(&self.withheld));
        self.reader.get_or_init(open)
    }

    /// Returns the paths of the files of the log at `path`: the database, and the files that SQLite keeps beside it.
    /// The newest records may be in the second, so a backup copies all of them, or is an [export](Reader::export).
    #[must_use]
    pub fn files(path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        [path.to_owned()].into_iter().chain(sqlite::companion_files(path)).collect()
    }

    /// Waits until all earlier records are on disk.
    ///
    /// # Errors
    /// If writing fails. The records stay in memory and are retried.
    pub fn flush(&self) -> BoxFuture<'_, Result<(), RecordError>> {
        let reply = self.queue.submit(Work::Flush);
        Box::pin(await_reply(reply))
    }

    /// Removes old rows, and seals the row where the rest begins, so that the rest can still be verified.
    ///
    /// # Errors
    /// If writing fails. Some of the rows may have been removed all the same; the rest is then sealed where it begins.
    pub fn retain(&self, keep: Retention) -> BoxFuture<'_, Result<PruneReport, RecordError>> {
        let reply = self.queue.submit(|answer| Work::Prune(keep, answer));
        Box::pin(await_reply(reply))
    }

    /// Writes the waiting records, seals the last row and closes the file. Blocks for at most
    /// [`Options::close_timeout`].
    ///
    /// # Errors
    /// If some records could not be written.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.end()
    }

    /// Removes a saved session, so that it cannot be resumed. Its records stay. Returns whether it was there.
    ///
    /// # Errors
    /// If writing fails.
    pub fn remove_session(&self, session: &str) -> BoxFuture<'_, Result<bool, RecordError>> {
        self.withheld.remove(session);
        let reply = self.queue.submit(|answer| Work::Remove(session.to_owned(), answer));
        Box::pin(await_reply(reply))
    }

    /// Waits for the outcome of a record, for at most the record timeout while nothing is written.
    async fn await_record(&self, reply: ReplyReceiver, mut transactions: u64) -> Result<(), RecordError> {
        let mut reply = pin!(await_reply(reply));
        loop {
            let mut timeout = pin!(Delay::new(self.record_timeout));
            let in_time = poll_fn(|cx| match reply.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => timeout.as_mut().poll(cx).map(|()| None),
            });
            if let Some(outcome) = in_time.await {
                return outcome;
            }
            match self.queue.patience(transactions, self.record_timeout) {
                Patience::Working(now) => transactions = now,
                Patience::Hanging(error) => return Err(error),
            }
        }
    }

    fn end(&mut self) -> Result<(), CloseError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let (ended, lost) = self.queue.close(self.close_timeout);
        // A writer that hangs on the disk is not joined: it ends by itself when the disk responds.
        if ended {
            drop(writer.join());
        }
        if lost > 0 { Err(CloseError { lost }) } else { Ok(()) }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        drop(self.end());
    }
}

static UP: Metric = Metric::gauge("event_log_up", "1 if records can be written, else 0");
static RECORDS_WAITING: Metric = Metric::gauge("event_log_records_waiting", "Records that are not written yet");
static RECORDS: Metric = Metric::counter("event_log_records", "Records that were written");
static TRANSACTIONS: Metric = Metric::counter("event_log_transactions", "Transactions that wrote records");
static WRITE_SECONDS: Metric = Metric::counter("event_log_write_seconds", "Time that these transactions took");

impl Dependency for EventLog {
    fn outage(&self) -> Option<&'static str> {
        self.queue.health().is_failing.then_some("event_log")
    }

    #[allow(clippy::cast_precision_loss, reason = "a metric needs no more than 52 bits")]
    fn metrics(&self) -> Vec<&'static Metric> {
        vec![&UP, &RECORDS_WAITING, &RECORDS, &TRANSACTIONS, &WRITE_SECONDS]
    }

    fn measurements(&self) -> Vec<Measurement> {
        let LogHealth { is_failing, waiting, written, transactions, writing } = self.queue.health();
        vec![
            UP.value(if is_failing { 0.0 } else { 1.0 }),
            RECORDS_WAITING.value(waiting as f64),
            RECORDS.value(written as f64),
            TRANSACTIONS.value(transactions as f64),
            WRITE_SECONDS.value(writing.as_secs_f64()),
        ]
    }
}

impl Recorder for EventLog {
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        match self.queue.put(Rows::Record(Box::new(record)), durability) {
            EnqueueOutcome::Done => Box::pin(std::future::ready(Ok(()))),
            EnqueueOutcome::Rejected(error) => Box::pin(std::future::ready(Err(error))),
            EnqueueOutcome::Pending(reply, transactions) => Box::pin(self.await_record(reply, transactions)),
        }
    }
}

impl SessionStore for EventLog {
    fn append(&self, entry: SessionEntry, records: Vec<Record>) -> BoxFuture<'_, Result<(), RecordError>> {
        match self.queue.put(Rows::Entry(Box::new(entry), records), Durability::Durable) {
            EnqueueOutcome::Done => Box::pin(std::future::ready(Ok(()))),
            EnqueueOutcome::Rejected(error) => Box::pin(std::future::ready(Err(error))),
            EnqueueOutcome::Pending(reply, _) => Box::pin(await_reply(reply)),
        }
    }

    fn append_withheld(
        &self,
        entry: SessionEntry,
        placeholder: String,
        records: Vec<Record>,
    ) -> BoxFuture<'_, Result<(), RecordError>> {
        self.withheld.add(&entry, &placeholder);
        self.append(SessionEntry { content: placeholder, ..entry }, records)
    }
}

async fn await_reply<T>(reply: ReplyReceiver<T>) -> Result<T, RecordError> {
    reply.await.unwrap_or_else(|_| Err(RecordError("it was closed before the record was written to disk".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};
    use std::time::Instant;

    use fumehood_core::record::RecordKind;
    use fumehood_core::time::Timestamp;
    use futures_executor::block_on;
    use serde_json::json;

    use super::*;
    use crate::event_log::filter::Filter;
    use crate::event_log::sqlite::lock;

    fn record(number: usize) -> Record {
        Record {
            id: number.to_string(),
            parent: None,
            session: "s".to_owned(),
            at: Timestamp(1),
            kind: RecordKind::Verdict,
            actor: None,
            tool: None,
            digest: None,
            call: None,
            status: None,
            body: json!("x".repeat(2000)),
        }
    }

    /// Opens a log, and returns it with its connection, through which a test can make writing fail.
    fn failing(folder: &Path) -> (EventLog, Arc<Mutex<Connection>>) {
        let path = folder.join("events.db");
        let options = Options { close_timeout: Duration::from_millis(300), ..Options::default() };
        let connection = Arc::new(Mutex::new(DATABASE.open_writable(&path, Duration::ZERO).unwrap()));
        let sealer = Sealer { log: store::log_id(&lock(&connection)).unwrap(), key: [1; 32] };
        let place = Some((path, options.clone()));
        (EventLog::start(Arc::clone(&connection), place, sealer, &options).unwrap(), connection)
    }

    fn soon<T, F: Future<Output = Result<T, RecordError>>>(mut ask: impl FnMut() -> F) -> T {
        let started = Instant::now();
        loop {
            match block_on(ask()) {
                Ok(value) => return value,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(10), "{error}"),
            }
        }
    }

    /// Makes writing fail, records until that is noticed, repairs it, and expects every record to be there.
    fn check(break_it: &str, mend_it: &str, words: &str) {
        let folder = tempfile::tempdir().unwrap();
        let (log, connection) = failing(folder.path());
        block_on(log.record(record(0), Durability::Durable)).unwrap();
        let _: Result<(), _> = lock(&connection).query_row(break_it, [], |_| Ok(()));
        let mut sent = 1;
        let error = loop {
            let result = block_on(log.record(record(sent), Durability::Durable));
            sent += 1;
            if let Err(error) = result {
                break error.to_string();
            }
        };
        assert!(error.contains(words) && error.contains("is in memory"), "{error}");
        for _ in 0..10 {
            block_on(log.record(record(sent), Durability::Queued)).unwrap_err();
            sent += 1;
        }
        block_on(log.retain(Retention::Newest(0))).unwrap_err();
        let _: Result<(), _> = lock(&connection).query_row(mend_it, [], |_| Ok(()));
        soon(|| log.flush());
        let found = log.reader().query(&Filter::default()).unwrap();
        let ids: Vec<_> = found.iter().map(|row| row.record.id.clone()).collect();
        assert_eq!(ids, (0..sent).map(|id| id.to_string()).collect::<Vec<_>>());
        assert_eq!(log.reader().verify(None).unwrap().finding, None);
        log.close().unwrap();
    }

    #[test]
    fn full_disk_is_reported_and_loses_no_record() {
        check("PRAGMA max_page_count = 40", "PRAGMA max_page_count = 100000", "the disk is full");
    }

    #[test]
    fn read_only_disk_is_reported_and_loses_no_record() {
        check("PRAGMA query_only = ON", "PRAGMA query_only = OFF", "read-only");
    }

    #[test]
    fn records_do_not_wait_for_a_disk_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, connection) = failing(folder.path());
        log.record_timeout = Duration::from_millis(50);
        let hanging = lock(&connection);
        let error = block_on(log.record(record(0), Durability::Durable)).unwrap_err().to_string();
        assert!(error.contains("has not answered within 50ms") && error.contains("is in memory"), "{error}");
        for (number, durability) in [(1, Durability::Durable), (2, Durability::Queued)] {
            let mut refused = log.record(record(number), durability);
            let at_once = refused.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(at_once, Poll::Ready(Err(_))), "{at_once:?}");
        }
        // A session that misses an entry cannot be saved any more, so that its entries wait.
        let entry = SessionEntry { session: "s".to_owned(), number: 0, at: Timestamp(1), content: "{}".to_owned() };
        let mut waiting = log.append(entry, Vec::new());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(hanging);
        block_on(waiting).unwrap();
        block_on(log.flush()).unwrap();
        block_on(log.record(record(3), Durability::Durable)).unwrap();
        assert_eq!(log.reader().query(&Filter::default()).unwrap().len(), 4);
    }

    #[test]
    fn a_slow_disk_is_waited_for_while_it_writes() {
        let queue = Queue::new(8);
        let EnqueueOutcome::Pending(_reply, before) = queue.put(Rows::Record(Box::new(record(0))), Durability::Durable)
        else {
            panic!("it is not written yet");
        };
        queue.complete(0, Duration::ZERO);
        let Patience::Working(now) = queue.patience(before, Duration::ZERO) else { panic!("it has written") };
        assert!(matches!(
            queue.put(Rows::Record(Box::new(record(1))), Durability::Durable),
            EnqueueOutcome::Pending(..)
        ));
        assert!(matches!(queue.patience(now, Duration::ZERO), Patience::Hanging(_)));
        assert!(matches!(
            queue.put(Rows::Record(Box::new(record(2))), Durability::Durable),
            EnqueueOutcome::Rejected(_)
        ));
        queue.complete(1, Duration::ZERO);
        assert!(matches!(
            queue.put(Rows::Record(Box::new(record(3))), Durability::Durable),
            EnqueueOutcome::Pending(..)
        ));
    }

    #[test]
    fn closing_does_not_wait_for_a_failing_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (log, connection) = failing(folder.path());
        lock(&connection).execute_batch("PRAGMA query_only = ON").unwrap();
        block_on(log.record(record(0), Durability::Durable)).unwrap_err();
        let started = Instant::now();
        assert_eq!(log.close(), Err(CloseError { lost: 1 }));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
