//! One connection with its prepared statements.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::server::Server;
use crate::error::StorageError;

/// Maximum number of prepared statements of a connection. Filters have fewer forms in practice.
const MAX_STATEMENTS: usize = 128;

/// Maximum time in a transaction without a statement. A gateway that was stopped in the middle of one keeps the others
/// waiting no longer.
const MAX_IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);

/// Begins a transaction of the kind that everything here is written for, whatever is usual in the database.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection, which one job uses at a time.
pub(crate) struct Connection {
    pub(crate) client: Client,
    statements: HashMap<String, Statement>,
}

impl Connection {
    /// Connects. Waits for locks for at most `lock_timeout`.
    pub(super) async fn open(server: &Server, lock_timeout: Duration) -> Result<Self, StorageError> {
        let (client, connection) = server.config.connect(server.tls.clone()).await?;
        // Its error is also that of the operations that are under way.
        tokio::task::spawn_local(async move { drop(connection.await) });
        let lock = lock_timeout.as_millis().max(1);
        let idle = MAX_IDLE_IN_TRANSACTION.as_millis();
        // Someone may have chosen to lose the last records of a server that crashes; for this log nobody may. Every query has an
        // index, and a table that grew since its statistics were made must not be read as a whole for it.
        let settings = format!(
            "SET search_path = fumehood; SET lock_timeout = {lock};
             SET idle_in_transaction_session_timeout = {idle}; SET client_min_messages = warning;
             SET enable_seqscan = off; SET jit = off;
             SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        );
        client.batch_execute(&settings).await?;
        Ok(Self { client, statements: HashMap::new() })
    }

    /// Returns whether the connection can no longer be used.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Prepares a statement, once for each connection.
    pub(crate) async fn prepare(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        if self.statements.len() >= MAX_STATEMENTS {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a query, and returns its rows.
    pub(crate) async fn query(&mut self, sql: &str, with: Parameters<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, with).await
    }

    /// Runs a query that has at most one row.
    pub(crate) async fn query_opt(
        &mut self,
        sql: &str,
        with: Parameters<'_>,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query_opt(&statement, with).await
    }

    /// Runs a query that has one row.
    pub(crate) async fn query_one(&mut self, sql: &str, with: Parameters<'_>) -> Result<Row, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query_one(&statement, with).await
    }

    /// Runs a statement, and returns the number of rows that it changed.
    pub(crate) async fn execute(&mut self, sql: &str, with: Parameters<'_>) -> Result<u64, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.execute(&statement, with).await
    }

    /// Begins a transaction, whose statements each see what others have committed before them.
    pub(crate) async fn begin(&mut self) -> Result<(), tokio_postgres::Error> {
        self.run(BEGIN).await
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }
}
