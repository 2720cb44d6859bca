//! A log in PostgreSQL: a chain for each writer, which is a key, and one order of all records.

mod append;
mod batch;
mod prune;
mod source;
mod tables;
mod transfer;
mod verify;

pub(super) use transfer::ServerCopy;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::time::Timestamp;
use fumehood_platform::private;

use self::batch::Item;
use self::source::PostgresSource;
use self::tables::{Month, TABLES};
use super::anchor::{Sealer, reason};
use super::chain::{self, Hash, Key, LogId, Mark};
use super::key;
use super::log::{EventLog, Options};
use super::port::{Outcome, RecordSource, RecordStore};
use super::queue::Rows;
use super::reader::Reader;
use super::retention::{PruneReport, Retention};
use super::row;
use crate::error::{KeyError, OpenError, SchemaError, StorageError};
use crate::postgres::{Connection, Server, Worker};

/// Maximum time of a job that reads or writes much: one that no longer gets answers ends sooner, by the connection's own
/// timeouts.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Time that a transaction may take beyond the time that it may wait for those of other writers.
const GRACE: Duration = Duration::from_secs(5);
/// Time after which an idle log asks whether its server is still there.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

impl EventLog {
    /// Opens the log in a PostgreSQL database for reading and writing, and makes its tables if there are none.
    ///
    /// Whoever writes with a key has a chain of its own, which is found again by the key. Several processes may write with one
    /// key. A missing key file is created with its folder, and begins a chain. [`Options::keep_journal`] has no effect, and
    /// [`Options::busy_timeout`] limits how long a transaction waits for those of other writers.
    ///
    /// # Errors
    /// If the server cannot be reached, the tables are of a newer release, or the options name no key.
    pub fn open_postgres(server: &Server, options: &Options) -> Result<Self, OpenError> {
        let key = read_or_create_key(options)?;
        let worker = Arc::new(Worker::start(server, options.busy_timeout)?);
        let patience = options.busy_timeout.saturating_add(GRACE);
        let unusable = |reason| OpenError::Server { database: TABLES.name, place: server.place().to_owned(), reason };
        let prepare = async move |connection: &mut Connection| {
            TABLES.migrate(connection).await?;
            begin_chain(connection, &key).await
        };
        let writer = worker.run(patience, prepare).map_err(unusable)?;
        let store = PostgresStore { worker: Arc::clone(&worker), writer, patience, months: HashSet::new() };
        let open_source = move || -> Arc<dyn RecordSource> { Arc::new(PostgresSource::new(Arc::clone(&worker))) };
        Self::start_with(Box::new(store), Box::new(open_source), key, options)
    }
}

impl Reader {
    /// Opens the log in a PostgreSQL database for reading only. The seals of the chains whose keys are given or can be read
    /// are checked.
    ///
    /// # Errors
    /// If the server cannot be reached, or its tables are not those of this release.
    pub fn open_postgres(server: &Server, options: &Options) -> Result<Self, OpenError> {
        let worker = Worker::start(server, options.busy_timeout)?;
        let check = async |connection: &mut Connection| TABLES.check_current(connection).await;
        worker.run(options.busy_timeout.saturating_add(GRACE), check).map_err(|reason| OpenError::Server {
            database: TABLES.name,
            place: server.place().to_owned(),
            reason,
        })?;
        let key = match (options.key, &options.key_file) {
            (Some(key), _) => Ok(key),
            (None, Some(file)) => key::read_existing(file).map_err(Arc::new),
            (None, None) => Err(Arc::new(KeyError::Unnamed)),
        };
        Ok(Self::from_source(Arc::new(PostgresSource::new(Arc::new(worker))), key))
    }
}

fn read_or_create_key(options: &Options) -> Result<Key, KeyError> {
    match (options.key, &options.key_file) {
        (Some(key), _) => Ok(key),
        (None, Some(file)) => {
            // There is no database beside it whose folder would be made first.
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
                let failed = |source| KeyError::Io { path: file.clone(), source };
                private::create_folders(folder).map_err(failed)?;
            }
            key::read_or_create(file)
        }
        (None, None) => Err(KeyError::Unnamed),
    }
}

/// A chain that this process writes.
#[derive(Clone)]
struct Writer {
    /// The number of the writer, by which rows refer to it.
    number: i64,
    sealer: Sealer,
}

/// Finds the chain of a key, or begins one.
async fn begin_chain(connection: &mut Connection, key: &Key) -> Result<Writer, SchemaError> {
    let id = chain::key_id(key);
    connection.begin().await?;
    // Two processes with a new key must not begin two chains.
    connection.query("SELECT position FROM log_state FOR UPDATE", &[]).await?;
    let find = "SELECT number, log FROM writers WHERE key_id = $1 AND NOT is_imported ORDER BY number LIMIT 1";
    let found = connection.query_opt(find, &[&id.as_slice()]).await?;
    let (number, log) = match found {
        Some(row) => (row.try_get(0)?, to_log_id(&row.try_get::<_, Vec<u8>>(1)?)?),
        None => {
            let mut log = LogId::default();
            getrandom::fill(&mut log).map_err(|error| StorageError::Other(error.to_string()))?;
            let insert = "INSERT INTO writers (log, key_id, is_imported, seq, hash) VALUES ($1, $2, false, 0, $3)
                          RETURNING number";
            let genesis = chain::genesis_hash(&log);
            let with: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&log.as_slice(), &id.as_slice(), &genesis.0.as_slice()];
            (connection.query_one(insert, &with).await?.try_get(0)?, log)
        }
    };
    connection.run("COMMIT").await?;
    Ok(Writer { number, sealer: Sealer { log, key: *key } })
}

fn to_log_id(bytes: &[u8]) -> Result<LogId, StorageError> {
    bytes.try_into().map_err(|_| StorageError::Damaged)
}

/// Reads a hash from a column. One of the wrong length becomes a hash that matches nothing.
fn hash_column(row: &tokio_postgres::Row, index: usize) -> Result<Hash, tokio_postgres::Error> {
    let bytes: Vec<u8> = row.try_get(index)?;
    Ok(Hash::from_bytes(&bytes).unwrap_or(Hash([0; 32])))
}

fn mark_columns(row: &tokio_postgres::Row, seq: usize, hash: usize) -> Result<Mark, tokio_postgres::Error> {
    Ok(Mark { seq: row::from_sql(row.try_get(seq)?), hash: hash_column(row, hash)? })
}

/// The database of a log, as its writer thread uses it.
struct PostgresStore {
    worker: Arc<Worker>,
    writer: Writer,
    patience: Duration,
    /// The months whose partitions are known to be there.
    months: HashSet<Month>,
}

impl PostgresStore {
    /// Makes the partitions that these items need, and those of this month and the next.
    fn make_partitions(&mut self, items: &[Item]) -> Result<(), StorageError> {
        let needed = items.iter().flat_map(Item::records).filter_map(|record| Month::of(record.at));
        let missing: HashSet<Month> =
            needed.chain(tables::months_ahead(now())).filter(|month| !self.months.contains(month)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let make = missing.clone();
        self.worker.run(self.patience, async move |connection: &mut Connection| {
            for month in make {
                tables::make_partition(connection, month).await?;
            }
            Ok::<_, StorageError>(())
        })?;
        self.months.extend(missing);
        Ok(())
    }
}

impl RecordStore for PostgresStore {
    fn append(&mut self, rows: &[&Rows], _needs_disk: bool) -> Result<Vec<Outcome>, StorageError> {
        let items: Vec<Item> = rows.iter().map(|rows| Item::prepare(rows)).collect();
        self.make_partitions(&items)?;
        let writer = self.writer.clone();
        self.worker.run(self.patience, async move |connection: &mut Connection| {
            append::append(connection, &writer, &items).await
        })
    }

    fn probe_interval(&self) -> Option<Duration> {
        Some(PROBE_INTERVAL)
    }

    fn probe(&mut self) -> Result<(), StorageError> {
        self.worker.run(self.patience, async move |connection: &mut Connection| Ok(connection.run("SELECT 1").await?))
    }

    /// Does nothing: the server has flushed what it confirmed.
    fn sync(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn remove_session(&mut self, session: &str) -> Result<bool, StorageError> {
        let session = session.to_owned();
        self.worker.run(self.patience, async move |connection: &mut Connection| {
            let remove = "DELETE FROM session_entries WHERE session = $1";
            Ok(connection.execute(remove, &[&session]).await? > 0)
        })
    }

    fn prune(&mut self, keep: Retention) -> Result<PruneReport, StorageError> {
        let writer = self.writer.clone();
        let this_month = Month::of(i64::try_from(now().0).unwrap_or(i64::MAX));
        let pruned = self.worker.run(LONG, async move |connection: &mut Connection| {
            prune::prune(connection, &writer, keep, this_month).await
        });
        // Partitions of the past may be gone.
        self.months.clear();
        pruned
    }

    fn close(&mut self) {
        let writer = self.writer.clone();
        let seal = async move |connection: &mut Connection| seal_head(connection, &writer).await;
        drop(self.worker.run(self.patience, seal));
    }
}

/// Seals the last row, unless it is sealed, or there are no rows.
async fn seal_head(connection: &mut Connection, writer: &Writer) -> Result<(), StorageError> {
    connection.begin().await?;
    let locked = connection.query_one(append::LOCK, &[&writer.number]).await?;
    let head = mark_columns(&locked, 1, 2)?;
    let seq = row::to_sql(head.seq);
    let sealed = "SELECT 1 FROM anchors WHERE writer = $1 AND seq = $2 LIMIT 1";
    if head.seq > 0 && connection.query_opt(sealed, &[&writer.number, &seq]).await?.is_none() {
        insert_anchor(connection, writer, head, reason::CLOSE).await?;
    }
    Ok(connection.run("COMMIT").await?)
}

/// Seals a row.
async fn insert_anchor(
    connection: &mut Connection,
    writer: &Writer,
    mark: Mark,
    reason: &'static str,
) -> Result<(), StorageError> {
    let anchors = append::Anchors::new(&writer.sealer, &[(mark, reason)]);
    let with: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&writer.number, &anchors.seqs, &anchors.reasons, &anchors.hashes, &anchors.seals];
    connection.execute(append::INSERT_ANCHORS, &with).await?;
    Ok(())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
