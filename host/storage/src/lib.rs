//! Storage of a host on disk: the [event log](event_log), the [key-value store](key_value) of tools, the [`jobs`] of clients and the
//! [`usage`] of tenants, each in a SQLite file of its own.
//!
//! All are opened in the same way: a missing file is created for its owner only, one of another program or a newer
//! release is rejected and not changed, and another process that has it locked is waited for.
//!
//! With the feature `postgres`, the first two are also in a [PostgreSQL server](postgres), for several hosts at once.

mod error;
pub mod event_log;
pub mod jobs;
pub mod key_value;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sqlite;
pub mod usage;

pub use error::{KeyError, OpenError, SchemaError, StorageError};
