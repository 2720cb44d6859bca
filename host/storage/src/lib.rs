//! Storage of the Fumehood tool host: the [event log](event_log), the [key-value store](key_value) of tools, the
//! [`jobs`] of clients and the [`usage`] of tenants, each in a SQLite file of its own.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! All are opened in the same way: a missing file is created for its owner only, one of another program or a newer
//! release is rejected and not changed, and another process that has it locked is waited for.
//!
//! With the feature `postgres`, the first two are also in a [PostgreSQL server](postgres), for several hosts at once.
//!
//! ```
//! use fumehood_storage::event_log::{EventLog, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("events.db");
//! let log = EventLog::open(&path, &Options::default())?;
//! // A log that somebody changed has a finding.
//! assert_eq!(log.reader().verify(None)?.finding, None);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
pub mod event_log;
pub mod jobs;
pub mod key_value;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sqlite;
pub mod usage;

pub use error::{KeyError, OpenError, SchemaError, StorageError};
