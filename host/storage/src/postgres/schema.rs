//! Tables of one kind, and the migrations from each version to the next, which go forwards only.

use std::cmp::Ordering;

use super::connection::Connection;
use crate::error::SchemaError;

/// Number of the advisory lock under which tables are made and changed: "FUMEHOOD".
const MIGRATION_LOCK: i64 = 0x4655_4d45_484f_4f44;

/// A kind of tables in the schema `fumehood`. The table `migrations` there has a row for each version of each kind.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// Its name in that table and in messages.
    pub(crate) name: &'static str,
    /// The migrations from each version to the next, the first from nothing. A released one must never change.
    pub(crate) migrations: &'static [&'static str],
}

impl Schema {
    /// Brings the tables up to the current version.
    ///
    /// # Errors
    /// If they were made by a newer release, or the user may not make them.
    pub(crate) async fn migrate(&self, connection: &mut Connection) -> Result<(), SchemaError> {
        if self.version(connection).await? == Some(self.newest()) {
            return Ok(());
        }
        // Held until the end of the session at most. It is taken before the transaction, because what others made in the
        // meantime is certain to be seen only by one that begins later.
        connection.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
        connection.begin().await?;
        // Asked again under the lock, because another process may have been faster. A user who may make tables in a schema
        // that is there need not be allowed to make schemas.
        let found = match self.version(connection).await? {
            Some(found) => found,
            None => {
                let has_schema = "SELECT to_regnamespace('fumehood') IS NOT NULL";
                if !connection.query_one(has_schema, &[]).await?.try_get::<_, bool>(0)? {
                    connection.run("CREATE SCHEMA fumehood").await?;
                }
                let versions = "CREATE TABLE IF NOT EXISTS migrations (
                    kind text NOT NULL,
                    version integer NOT NULL,
                    applied_at timestamptz NOT NULL DEFAULT now(),
                    PRIMARY KEY (kind, version)
                )";
                connection.run(versions).await?;
                0
            }
        };
        let mut version = found;
        let done = usize::try_from(found).unwrap_or(0);
        for migration in self.migrations.iter().skip(done) {
            connection.run(migration).await?;
            version = version.saturating_add(1);
            let note = "INSERT INTO migrations (kind, version) VALUES ($1, $2)";
            connection.execute(note, &[&self.name, &version]).await?;
        }
        connection.run("COMMIT").await?;
        connection.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await?;
        Ok(())
    }

    /// Checks that the tables have the current version, without changing them.
    ///
    /// # Errors
    /// If there are none, or they were made by another release.
    pub(crate) async fn check_current(&self, connection: &mut Connection) -> Result<(), SchemaError> {
        let found = self.version(connection).await?;
        let known = self.newest();
        match found {
            None => Err(SchemaError::NoTables),
            Some(found) if found < known => Err(SchemaError::TooOld { found: found.into(), known: known.into() }),
            Some(_) => Ok(()),
        }
    }

    /// Returns the version of the tables; `None` if there are none.
    async fn version(&self, connection: &mut Connection) -> Result<Option<i32>, SchemaError> {
        let exists = "SELECT to_regclass('fumehood.migrations') IS NOT NULL";
        if !connection.query_one(exists, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        // Not prepared once for all: the table may have been made after the statement.
        let newest = "SELECT max(version) FROM migrations WHERE kind = $1";
        let found: Option<i32> = connection.query_one(newest, &[&self.name]).await?.try_get(0)?;
        match found.map(|found| (found, found.cmp(&self.newest()))) {
            Some((found, Ordering::Greater)) => {
                Err(SchemaError::TooNew { found: found.into(), known: self.newest().into() })
            }
            Some((found, _)) => Ok(Some(found)),
            None => Ok(None),
        }
    }

    fn newest(&self) -> i32 {
        i32::try_from(self.migrations.len()).unwrap_or(i32::MAX)
    }
}
