//! Access to a PostgreSQL server: settings, connections on a thread of their own, and migrations.
//!
//! Everything that Fumehood keeps is in the schema `fumehood` of one database. Connections to anything but this machine are
//! encrypted, and the server's certificate and name are checked.

mod connection;
mod schema;
mod server;
mod worker;

pub(crate) use connection::{BEGIN, Connection};
pub(crate) use schema::Schema;
pub use server::{Server, ServerSettings, SettingsError};
pub(crate) use worker::Worker;

use crate::error::{SchemaError, StorageError};

impl From<tokio_postgres::Error> for SchemaError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Storage(error.into())
    }
}

impl From<tokio_postgres::Error> for StorageError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            return Self::Unreachable(root_cause(&error));
        };
        let code = database.code().code();
        let message = database.message();
        match code {
            "53100" => Self::Full,
            "55P03" => Self::Locked,
            "25006" => Self::Standby,
            "54000" => Self::TooLarge,
            "XX001" | "XX002" => Self::Damaged,
            // The server shuts down, starts, or has no connection left.
            "57P01" | "57P02" | "57P03" | "53300" => Self::Unreachable(message.to_owned()),
            "3D000" | "42501" => Self::Refused(message.to_owned()),
            _ if code.starts_with("28") => Self::Refused(message.to_owned()),
            _ => Self::Other(format!("the database server reported: {message} (SQLSTATE {code})")),
        }
    }
}

/// Returns the innermost message of an error, with the outermost one if that says more.
fn root_cause(error: &tokio_postgres::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
