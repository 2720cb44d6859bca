//! An append-only log of records on disk, written in order by one thread and chained by hashes, so that changes are
//! detected.
//!
//! - [`EventLog`] implements [`fumehood_core::record::Recorder`] with SQLite. One thread writes all records that
//!   arrived during its last transaction in the next one (group commit), and then wakes their callers. [`Reader`]
//!   queries, follows, exports and verifies records, from the same process or another.
//! - Every row contains a hash over the previous row and its own contents. Anchors, sealed with a key that is not in
//!   the database, are written every [`ANCHOR_INTERVAL_ROWS`] rows, at the end of every session, when old rows are
//!   removed and when the log is closed. So [`Reader::verify`] detects an edited, removed or reordered row directly,
//!   and a chain that was recomputed without the key at the next anchor.
//! - Not detected by `verify`: rows cut from the end together with all later anchors, changes after the last anchor
//!   with a recomputed chain, and any change by an attacker who has the key, which lies beside the database unless it
//!   is stored elsewhere. A [`Checkpoint`] that is kept elsewhere closes that gap: [`Reader::verify_since`]. In a database
//!   of several writers, a [`JoinedHead`] does so for all of their chains.
//! - The newest records may be in the journal beside the database (`<path>-wal`), even after the log was closed if
//!   [`Options::keep_journal`] is set. [`EventLog::files`] lists all files of a log.
//! - Records are stored as they are given. Redaction is up to the caller.
//!
//! Reading blocks the calling thread on the disk; an asynchronous program should use a thread for blocking work. Clones
//! of one [`Reader`] share a connection and wait for each other; readers that are opened separately do not.
//!
//! ```
//! use fumehood_core::record::{Durability, Record, RecordKind, Recorder};
//! use fumehood_storage::event_log::{EventLog, Filter, Options};
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

mod anchor;
mod call_history;
mod chain;
mod chains;
mod checkpoint;
mod filter;
mod joined_head;
mod key;
mod log;
mod port;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod reader;
mod retention;
mod row;
mod sessions;
mod sqlite;
#[cfg(feature = "postgres")]
mod transfer;
mod verify;
mod withheld;
mod writer;

pub use crate::error::{KeyError, OpenError, SchemaError, StorageError};
pub use anchor::ANCHOR_INTERVAL_ROWS;
pub use call_history::CallHistory;
pub use chain::{Hash, Mark};
pub use checkpoint::{Checkpoint, CheckpointError, LogId};
pub use filter::{Filter, Order};
pub use joined_head::{JoinProblem, JoinReport, JoinedHead, JoinedHeadError};
pub use log::{CloseError, EventLog, Options};
pub use reader::{ExportError, Follower, ReadError, Reader};
pub use retention::{PruneReport, Retention};
pub use row::{StoredRecord, WriterRow};
pub use sessions::SavedSessionInfo;
#[cfg(feature = "postgres")]
pub use transfer::{TransferError, TransferReport};
pub use verify::{Continuity, Finding, Problem, Report};
