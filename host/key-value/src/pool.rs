//! Connections to one file, each used by one thread at a time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::connect;
use crate::schema::SchemaError;

/// Connections that wait for the next step. More may be in use at once; they are closed when they come back.
const IDLE: usize = 8;

/// Hands out connections.
pub(crate) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(path: &Path, first: Connection) -> Self {
        Self { path: path.to_owned(), idle: Mutex::new(vec![first]) }
    }

    /// Does one step with a connection that waits for at most `patience` where it has to. A connection that met trouble is
    /// closed, so that the next step begins with a new one: that finds a file that was restored meanwhile.
    pub(crate) fn step<R, E: From<SchemaError>>(
        &self,
        patience: Duration,
        step: impl FnOnce(&mut Connection) -> Result<R, E>,
    ) -> Result<R, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => {
                connection.busy_timeout(patience).map_err(SchemaError::from)?;
                connection
            }
            None => connect::again(&self.path, patience)?,
        };
        let done = step(&mut connection)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(done)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
