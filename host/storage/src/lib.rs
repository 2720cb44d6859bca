//! What a host keeps on disk, each in a SQLite file of its own: the [event log](event_log) and the [key-value
//! store](key_value) of tools.
//!
//! Both are opened in the same way: a missing file is created for its owner only, one of another program or a newer
//! release is rejected and not changed, and another process that has it locked is waited for.

mod error;
pub mod event_log;
pub mod key_value;
mod sqlite;

pub use error::{KeyError, OpenError, SchemaError, StorageError};
