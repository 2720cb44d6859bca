//! The key-value store of tools in PostgreSQL, which several hosts share.

use std::fmt;
use std::time::Duration;

use fumehood_core::key_value::{Key, KeyValueStore, Page, Query, StoreError, check_quota, entry_bytes};
use fumehood_core::tool::name::Namespace;
use tokio_postgres::types::ToSql;

use crate::error::{OpenError, StorageError};
use crate::postgres::{BEGIN, Connection, Schema, Server, Worker};

/// The tables. `kept` is the number of bytes that the owner's entries count for, so that an operation need not add them up; its
/// row is locked by every operation that changes an entry. A released migration must never change.
const TABLES: Schema = Schema {
    name: "key-value store",
    migrations: &["
        CREATE TABLE owners (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text COLLATE \"C\" NOT NULL UNIQUE,
            kept bigint NOT NULL CHECK (kept >= 0)
        );
        CREATE TABLE entries (
            owner bigint NOT NULL REFERENCES owners (id),
            key text COLLATE \"C\" NOT NULL,
            value bytea NOT NULL,
            PRIMARY KEY (owner, key)
        );
    "],
};

/// Maximum time that opening takes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A key-value store in a PostgreSQL database. Several hosts may use the same database at once.
///
/// A completed operation survives a crash of the host and of the server. One that failed because the server did not answer
/// in time has changed nothing, unless that was while it was committed.
pub struct PostgresStore {
    worker: Worker,
}

impl PostgresStore {
    /// Opens the store, and makes its tables if there are none.
    ///
    /// # Errors
    /// If the server cannot be reached, or the tables are of a newer release.
    pub fn open(server: &Server) -> Result<Self, OpenError> {
        let worker = Worker::start(server, OPEN_TIMEOUT)?;
        let unusable = |reason| OpenError::Server { database: TABLES.name, place: server.place().to_owned(), reason };
        worker
            .run(OPEN_TIMEOUT, async |connection: &mut Connection| TABLES.migrate(connection).await)
            .map_err(unusable)?;
        Ok(Self { worker })
    }

    fn run<R: Send + 'static>(
        &self,
        patience: Duration,
        operation: impl AsyncFnOnce(&mut Connection) -> Result<R, StorageError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.worker
            .run(patience, operation)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", self.worker.place())))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.worker.place()).finish_non_exhaustive()
    }
}

impl KeyValueStore for PostgresStore {
    fn get(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let owner = owner.as_str().to_owned();
        let key = key.as_str().to_owned();
        self.run(patience, async move |connection| {
            let find = "SELECT value FROM entries WHERE owner = (SELECT id FROM owners WHERE name = $1) AND key = $2";
            let found = connection.query_opt(find, &[&owner, &key]).await?;
            Ok(found.map(|row| row.try_get(0)).transpose()?)
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
        let owner = owner.as_str().to_owned();
        let key = key.clone();
        let value = value.to_vec();
        self.run(patience, async move |connection| {
            let usage = OwnerUsage::lock(connection, &owner, patience).await?;
            Ok(usage.set(connection, &key, &value, max_bytes).await?)
        })?
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
        let owner = owner.as_str().to_owned();
        let key = key.clone();
        let expected = expected.map(<[u8]>::to_vec);
        let value = value.to_vec();
        self.run(patience, async move |connection| {
            let usage = OwnerUsage::lock(connection, &owner, patience).await?;
            if usage.value(connection, &key).await? != expected {
                connection.run("ROLLBACK").await?;
                return Ok(Ok(false));
            }
            Ok(usage.set(connection, &key, &value, max_bytes).await?.map(|()| true))
        })?
    }

    fn delete(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<bool, StoreError> {
        let owner = owner.as_str().to_owned();
        let key = key.clone();
        self.run(patience, async move |connection| {
            let usage = OwnerUsage::lock(connection, &owner, patience).await?;
            let Some(old) = usage.value_bytes(connection, &key).await? else {
                connection.run("ROLLBACK").await?;
                return Ok(false);
            };
            let delete = "DELETE FROM entries WHERE owner = $1 AND key = $2";
            connection.execute(delete, &[&usage.id, &key.as_str()]).await?;
            usage.commit(connection, usage.kept.saturating_sub(entry_bytes(&key, old))).await?;
            Ok(true)
        })
    }

    fn list(&self, owner: &Namespace, query: &Query, patience: Duration) -> Result<Page, StoreError> {
        let owner = owner.as_str().to_owned();
        let query = query.clone();
        self.run(patience, async move |connection| {
            let prefix = query.prefix.as_str();
            let after = query.after.as_ref().map_or("", Key::as_str);
            // Queries one more key than requested, to find out if there are more.
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
            let find = "SELECT key FROM entries WHERE owner = (SELECT id FROM owners WHERE name = $1)
                        AND key >= $2 AND key <> $3 ORDER BY key LIMIT $4";
            let with: [&(dyn ToSql + Sync); 4] = [&owner, &prefix.max(after), &after, &limit];
            let mut page = Page::default();
            for row in connection.query(find, &with).await? {
                let key: String = row.try_get(0)?;
                if !key.starts_with(prefix) {
                    break;
                }
                if page.keys.len() == query.limit {
                    page.more = true;
                    break;
                }
                page.keys.push(Key::parse(key).map_err(|_| StorageError::Damaged)?);
            }
            Ok(page)
        })
    }
}

/// The row of one owner, locked until the end of the transaction: its id, and the bytes that its entries count for.
struct OwnerUsage {
    id: i64,
    kept: u64,
}

impl OwnerUsage {
    /// Begins a transaction, which waits for others for at most `patience`.
    async fn lock(connection: &mut Connection, owner: &str, patience: Duration) -> Result<Self, tokio_postgres::Error> {
        connection.run(&format!("{BEGIN}; SET LOCAL lock_timeout = {}", patience.as_millis().max(1))).await?;
        let find = "SELECT id, kept FROM owners WHERE name = $1 FOR UPDATE";
        let found = match connection.query_opt(find, &[&owner]).await? {
            Some(found) => found,
            None => {
                let make = "INSERT INTO owners (name, kept) VALUES ($1, 0) ON CONFLICT DO NOTHING";
                connection.execute(make, &[&owner]).await?;
                connection.query_one(find, &[&owner]).await?
            }
        };
        Ok(Self { id: found.try_get(0)?, kept: u64::try_from(found.try_get::<_, i64>(1)?).unwrap_or(0) })
    }

    async fn value(&self, connection: &mut Connection, key: &Key) -> Result<Option<Vec<u8>>, tokio_postgres::Error> {
        let find = "SELECT value FROM entries WHERE owner = $1 AND key = $2";
        connection.query_opt(find, &[&self.id, &key.as_str()]).await?.map(|row| row.try_get(0)).transpose()
    }

    /// Sets a value within the quota, and ends the transaction.
    async fn set(
        &self,
        connection: &mut Connection,
        key: &Key,
        value: &[u8],
        max_bytes: u64,
    ) -> Result<Result<(), StoreError>, tokio_postgres::Error> {
        let old = self.value_bytes(connection, key).await?;
        let kept = match check_quota(self.kept, key, old, value.len() as u64, max_bytes) {
            Ok(kept) => kept,
            Err(full) => {
                connection.run("ROLLBACK").await?;
                return Ok(Err(full));
            }
        };
        let set = "INSERT INTO entries (owner, key, value) VALUES ($1, $2, $3)
                   ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value";
        connection.execute(set, &[&self.id, &key.as_str(), &value]).await?;
        self.commit(connection, kept).await?;
        Ok(Ok(()))
    }

    async fn value_bytes(&self, connection: &mut Connection, key: &Key) -> Result<Option<u64>, tokio_postgres::Error> {
        let find = "SELECT octet_length(value) FROM entries WHERE owner = $1 AND key = $2";
        let found = connection.query_opt(find, &[&self.id, &key.as_str()]).await?;
        let bytes: Option<i32> = found.map(|row| row.try_get(0)).transpose()?;
        Ok(bytes.map(|bytes| u64::try_from(bytes).unwrap_or(0)))
    }

    /// Notes what the entries count for, and ends the transaction.
    async fn commit(&self, connection: &mut Connection, kept: u64) -> Result<(), tokio_postgres::Error> {
        let kept = i64::try_from(kept).unwrap_or(i64::MAX);
        connection.execute("UPDATE owners SET kept = $2 WHERE id = $1", &[&self.id, &kept]).await?;
        connection.run("COMMIT").await
    }
}
