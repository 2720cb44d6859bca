//! The log as whoever records sees it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::record::{Durability, Record, RecordError, Recorder};
use rusqlite::Connection;

use crate::chain::Key;
use crate::connect::{self, OpenError};
use crate::key;
use crate::options::Options;
use crate::queue::{Awaited, Queue, Taken, Work};
use crate::reader::Reader;
use crate::retention::{Keep, Pruned};
use crate::store::{self, Sealer};
use crate::writer::Writer;

/// Records were left behind when the log was closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event log was closed with {lost} records that are not on disk; free some space or let go of the file")]
pub struct CloseError {
    /// How many.
    pub lost: usize,
}

/// An event log that takes records.
///
/// While the disk refuses (full, locked, read-only), records are kept in memory and tried again, and whoever records
/// is told so with a [`RecordError`]; to send the same record again is harmless. A record that was refused because
/// far too many wait is not kept; its error says how many wait. Nor is one with the id of another record, or one too
/// large for the database: whoever waits until it is durable is told, and the records around it are kept.
///
/// When the log is dropped it is closed as by [`EventLog::close`].
pub struct EventLog {
    queue: Arc<Queue>,
    connection: Arc<Mutex<Connection>>,
    /// Opened when it is first asked for.
    reader: OnceLock<Reader>,
    /// The file, unless the log is in memory.
    place: Option<(PathBuf, Options)>,
    key: Key,
    writer: Option<JoinHandle<()>>,
    close_timeout: Duration,
}

impl EventLog {
    /// Opens the log in this file for reading and writing. A log that is not there is made: the file for its owner
    /// alone (0600), and folders that are missing too (0700). Several processes may write to one log.
    ///
    /// # Errors
    /// The file cannot be made or written, is not an event log, is one of a newer version, or lost its key. Nothing
    /// is ever overwritten.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let connection = connect::writable(path, options.busy_timeout, options.keep_journal)?;
        let log = store::log_id(&connection).map_err(|error| OpenError::schema(path, error))?;
        let key = match options.key {
            Some(key) => key,
            None => {
                let file = key::file(path, options);
                let head = store::head(&connection, &log).map_err(|error| OpenError::schema(path, error))?;
                match key::read(&file)? {
                    Some(key) => key,
                    None if head.seq == 0 => key::read_or_make(&file)?,
                    None => return Err(key::KeyError::Missing(file).into()),
                }
            }
        };
        let place = Some((path.to_owned(), options.clone()));
        Self::start(Arc::new(Mutex::new(connection)), place, Sealer { log, key }, options)
    }

    /// Opens the log in this file for reading alone: see [`Reader::open`].
    ///
    /// # Errors
    /// The file cannot be read, or is not an event log of this version.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Reader, OpenError> {
        Reader::open(path, options)
    }

    /// A log that is gone with the process, for tests and for hosts that keep nothing.
    ///
    /// # Errors
    /// There is no memory, no randomness or no thread for it.
    pub fn in_memory(options: &Options) -> Result<Self, OpenError> {
        let connection = connect::in_memory()?;
        let log = store::log_id(&connection).map_err(|error| OpenError::schema(Path::new(":memory:"), error))?;
        let key = options.key.map_or_else(key::random, Ok)?;
        Self::start(Arc::new(Mutex::new(connection)), None, Sealer { log, key }, options)
    }

    fn start(
        connection: Arc<Mutex<Connection>>,
        place: Option<(PathBuf, Options)>,
        sealer: Sealer,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let (queue, key) = (Arc::new(Queue::new(options.capacity)), sealer.key);
        let writer = Writer::new(Arc::clone(&queue), Arc::clone(&connection), sealer, options.keep_journal);
        let thread = thread::Builder::new().name("event-log".to_owned());
        let writer = Some(thread.spawn(move || writer.run()).map_err(OpenError::Thread)?);
        let (reader, close_timeout) = (OnceLock::new(), options.close_timeout);
        Ok(Self { queue, connection, reader, place, key, writer, close_timeout })
    }

    /// Finds what was recorded. A record can be found as soon as it is on disk.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        self.reader.get_or_init(|| {
            let opened = self.place.as_ref().and_then(|(path, options)| {
                Reader::open(path, &Options { key: Some(self.key), ..options.clone() }).ok()
            });
            // Where the file cannot be opened once more, it is read over the connection that writes.
            opened.unwrap_or_else(|| Reader::sharing(Arc::clone(&self.connection), self.key))
        })
    }

    /// The files of the log in `path`: the database, and what SQLite keeps beside it. The newest records may be in the
    /// second, so a copy of the log is a copy of all of them, or an [export](Reader::export).
    #[must_use]
    pub fn files(path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        [path.to_owned()].into_iter().chain(connect::companions(path)).collect()
    }

    /// Waits until all that was recorded before is on disk.
    ///
    /// # Errors
    /// The disk refuses. The records wait in memory and are tried again.
    pub fn flush(&self) -> BoxFuture<'_, Result<(), RecordError>> {
        let awaited = self.queue.ask(Work::Flush);
        Box::pin(answered(awaited))
    }

    /// Removes old rows, and seals where the rest begins, so that it can still be verified.
    ///
    /// # Errors
    /// The disk refuses. Some of the rows may be gone all the same, sealed as they should be.
    pub fn retain(&self, keep: Keep) -> BoxFuture<'_, Result<Pruned, RecordError>> {
        let awaited = self.queue.ask(|answer| Work::Prune(keep, answer));
        Box::pin(answered(awaited))
    }

    /// Writes what waits, seals the end and closes the file; blocks for [`Options::close_timeout`] at most.
    ///
    /// # Errors
    /// Some records are not on disk.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), CloseError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let (ended, lost) = self.queue.close(self.close_timeout);
        // A writer that hangs on the disk is left alone: it ends by itself when the disk answers.
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

impl Recorder for EventLog {
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        match self.queue.put(record, durability) {
            Taken::Now => Box::pin(std::future::ready(Ok(()))),
            Taken::Refused(error) => Box::pin(std::future::ready(Err(error))),
            Taken::Later(awaited) => Box::pin(answered(awaited)),
        }
    }
}

async fn answered<T>(awaited: Awaited<T>) -> Result<T, RecordError> {
    awaited.await.unwrap_or_else(|_| Err(RecordError("it was closed before the record was on disk".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::time::Instant;

    use fumehood_core::record::RecordKind;
    use fumehood_core::time::Timestamp;
    use futures_executor::block_on;
    use serde_json::json;

    use super::*;
    use crate::filter::Filter;
    use crate::writer::lock;

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

    /// A log whose disk can be made to refuse, and what makes it.
    fn failing(folder: &Path) -> (EventLog, Arc<Mutex<Connection>>) {
        let path = folder.join("events.db");
        let options = Options { close_timeout: Duration::from_millis(300), ..Options::default() };
        let connection = Arc::new(Mutex::new(connect::writable(&path, Duration::ZERO, false).unwrap()));
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

    /// Breaks the disk, records until that is noticed, mends it, and finds everything.
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
        assert!(error.contains(words) && error.contains("waits in memory"), "{error}");
        for _ in 0..10 {
            block_on(log.record(record(sent), Durability::Queued)).unwrap_err();
            sent += 1;
        }
        block_on(log.retain(Keep::Newest(0))).unwrap_err();
        let _: Result<(), _> = lock(&connection).query_row(mend_it, [], |_| Ok(()));
        soon(|| log.flush());
        let found = log.reader().query(&Filter::default()).unwrap();
        let ids: Vec<_> = found.iter().map(|row| row.record.id.clone()).collect();
        assert_eq!(ids, (0..sent).map(|id| id.to_string()).collect::<Vec<_>>());
        assert_eq!(log.reader().verify(None).unwrap().finding, None);
        log.close().unwrap();
    }

    #[test]
    fn a_full_disk_is_said_and_nothing_is_lost_once_there_is_room() {
        check("PRAGMA max_page_count = 40", "PRAGMA max_page_count = 100000", "the disk is full");
    }

    #[test]
    fn a_disk_that_turns_read_only_is_said_and_nothing_is_lost_once_it_turns_back() {
        check("PRAGMA query_only = ON", "PRAGMA query_only = OFF", "read-only");
    }

    #[test]
    fn a_disk_that_stays_full_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let (log, connection) = failing(folder.path());
        lock(&connection).execute_batch("PRAGMA query_only = ON").unwrap();
        block_on(log.record(record(0), Durability::Durable)).unwrap_err();
        let started = Instant::now();
        assert_eq!(log.close(), Err(CloseError { lost: 1 }));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
