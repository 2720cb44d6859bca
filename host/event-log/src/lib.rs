//! Records on disk: written in order by one thread, read by many, chained so that a change shows.
//!
//! - [`EventLog`] is the [`fumehood_core::record::Recorder`] that keeps records in SQLite: one thread writes what has
//!   come together since its last transaction as one more (group commit), and then answers everybody who waited for
//!   it. [`Reader`] finds records again, follows new ones, exports and verifies them, from this process or another.
//! - Every row holds a hash over the row before it and all that it says itself. Anchors, sealed with a key that is
//!   not in the database, are set every [`ANCHOR_EVERY`] rows, at the end of every session, when old rows are removed
//!   and when the log is closed. So [`Reader::verify`] finds an edited, removed or reordered row at once, and a chain
//!   that somebody computed anew, without the key, at the next anchor.
//! - What it cannot find: rows cut from the end together with all anchors after them, changes after the last anchor
//!   whose maker computed the chain anew, and anything that somebody did who has the key, which lies beside the database
//!   unless it is put elsewhere. A [`Checkpoint`] that is kept elsewhere closes that gap: [`Reader::verify_since`].
//! - The newest records may be in the journal beside the database (`<path>-wal`), also after the log was closed, where
//!   [`Options::keep_journal`] says so. [`EventLog::files`] names all files that make up a log.
//! - Nothing here redacts: whoever makes a record has taken out what must not be kept.
//!
//! Reading blocks the calling thread on the disk. An asynchronous program does it on a thread for blocking work.
//! Clones of one [`Reader`] wait for each other; one that is opened anew does not.
//!
//! ```
//! use fumehood_core::record::{Durability, Record, RecordKind, Recorder};
//! use fumehood_event_log::{EventLog, Filter, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = EventLog::in_memory(&Options::default())?;
//! let record: Record = serde_json::from_value(serde_json::json!({
//!     "id": "1", "session": "s", "at": 1_700_000_000_000_u64, "kind": "verdict", "call": "c", "status": "allow",
//! }))?;
//! futures_executor::block_on(log.record(record, Durability::Durable))?;
//! let verdicts = Filter { kind: Some(RecordKind::Verdict), ..Filter::default() };
//! assert_eq!(log.reader().query(&verdicts)?.len(), 1);
//! assert_eq!(log.reader().verify(None)?.finding, None);
//! # Ok(())
//! # }
//! ```

mod chain;
mod checkpoint;
mod connect;
mod filter;
mod follow;
mod hash;
mod key;
mod log;
mod options;
mod queue;
mod reader;
mod retention;
mod row;
mod schema;
mod show;
mod storage_error;
mod store;
mod verify;
mod writer;

pub use checkpoint::{Checkpoint, CheckpointError, LogId};
pub use connect::OpenError;
pub use filter::{Filter, Order};
pub use follow::Follow;
pub use hash::{Hash, Mark};
pub use key::KeyError;
pub use log::{CloseError, EventLog};
pub use options::Options;
pub use reader::{ExportError, ReadError, Reader};
pub use retention::{Keep, Pruned};
pub use row::Stored;
pub use schema::SchemaError;
pub use show::CallHistory;
pub use storage_error::StorageError;
pub use store::ANCHOR_EVERY;
pub use verify::{Continuity, Finding, Problem, Report};
