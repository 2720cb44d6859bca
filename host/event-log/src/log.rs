//! The log as whoever records sees it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::record::{Durability, Record, RecordError, Recorder};
use rusqlite::Connection;

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
/// far too many wait is not kept; its error says how many wait. When the log is dropped it is closed as by
/// [`EventLog::close`].
pub struct EventLog {
    queue: Arc<Queue>,
    reader: Reader,
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
        let connection = connect::writable(path, options.busy_timeout)?;
        let log = store::log_id(&connection).map_err(|error| OpenError::schema(path, error))?;
        let key = match options.key {
            Some(key) => key,
            None => {
                let beside = key::beside(path);
                let head = store::head(&connection, &log).map_err(|error| OpenError::schema(path, error))?;
                match key::read(&beside)? {
                    Some(key) => key,
                    None if head.seq == 0 => key::read_or_make(&beside)?,
                    None => return Err(key::KeyError::Missing(beside).into()),
                }
            }
        };
        let reader = Reader::open(path, &Options { key: Some(key), ..options.clone() })?;
        Self::start(Arc::new(Mutex::new(connection)), reader, Sealer { log, key }, options)
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
        let connection = Arc::new(Mutex::new(connection));
        let reader = Reader::sharing(Arc::clone(&connection), key);
        Self::start(connection, reader, Sealer { log, key }, options)
    }

    fn start(
        connection: Arc<Mutex<Connection>>,
        reader: Reader,
        sealer: Sealer,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let queue = Arc::new(Queue::new(options.capacity));
        let writer = Writer::new(Arc::clone(&queue), connection, sealer);
        let thread = thread::Builder::new().name("event-log".to_owned());
        let writer = thread.spawn(move || writer.run()).map_err(OpenError::Thread)?;
        Ok(Self { queue, reader, writer: Some(writer), close_timeout: options.close_timeout })
    }

    /// Finds what was recorded. A record can be found as soon as it is on disk.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
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
