//! Copies of whole chains from one database to another, row by row with their hashes and seals.
//!
//! A copy is the same log: the same key verifies it, and checkpoints of the original are found in it. Nobody goes on with it:
//! whoever records in the other database has a chain of its own there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::anchor::reason;
use super::chain::{self, Hash, Key, Mark};
use super::checkpoint::LogId;
use super::log::EventLog;
use super::port::{Chain, RecordSource};
use super::postgres;
use super::reader::{ReadError, Reader};
use super::row::RawRow;
use super::sqlite;
use super::verify::{Finding, Report, StoredAnchor};
use crate::error::{OpenError, StorageError};
use crate::postgres::Server;

/// A chain that was copied, and verified in both places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferReport {
    /// The log of its writer.
    pub log: LogId,
    /// Number of rows that were copied now.
    pub copied: u64,
    /// The last row, with its hash, of both.
    pub last: Mark,
    /// True if the seals were checked, because the key is known.
    pub seals_checked: bool,
}

/// Errors of copying a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The source is not in order, so that it is not copied.
    #[error("the log {log} was not copied, because it is not in order: {finding}")]
    Source {
        /// The log.
        log: LogId,
        /// The problem.
        finding: Finding,
    },
    /// The copy is not what the source is.
    #[error("the copy of the log {log} is not in order: {finding}; remove it, and copy again")]
    Copy {
        /// The log.
        log: LogId,
        /// The problem.
        finding: Finding,
    },
    /// The copy ends elsewhere than the source.
    #[error("the copy of the log {log} ends at row {found} instead of {expected}; copy again")]
    Incomplete {
        /// The log.
        log: LogId,
        /// The last row of the copy.
        found: u64,
        /// The last row that was to be copied.
        expected: u64,
    },
    /// A writer records in this log, in the database that it would be copied to.
    #[error("the log {0} is already written in that database; there is nothing to copy")]
    Own(LogId),
    /// The source has removed rows that an earlier copy does not have.
    #[error(
        "cannot continue the copy of the log {log}: it ends at row {copied}, but rows up to {pruned} were removed since"
    )]
    Gap {
        /// The log.
        log: LogId,
        /// The last row of the earlier copy.
        copied: u64,
        /// The last row that was removed.
        pruned: u64,
    },
    /// A row cannot be stored in the other database.
    #[error("row {0} has a NUL character, which PostgreSQL cannot store; the log was not copied")]
    Nul(u64),
    /// There is no such log.
    #[error("unknown log {0}; `fumehood log verify` lists the logs")]
    Missing(LogId),
    /// The file exists already.
    #[error("{0} already exists; choose another file")]
    Exists(PathBuf),
    /// One of the databases cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The source cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The copy cannot be written.
    #[error("cannot write the copy: {0}")]
    Write(#[from] StorageError),
}

/// A row of a chain, as it is copied.
pub(crate) struct CopiedRow {
    pub(crate) row: RawRow,
    pub(crate) content: Vec<u8>,
}

/// The chain that a copy is made of.
pub(crate) struct CopiedChain {
    pub(crate) log: [u8; 16],
    pub(crate) key_id: Option<[u8; 16]>,
    /// The row before the first one.
    pub(crate) before: Mark,
    pub(crate) anchors: Vec<StoredAnchor>,
}

/// The database that a chain is copied to.
pub(crate) trait CopyTarget {
    /// Begins a copy, or goes on with one. Returns the last row that is there.
    fn begin(&mut self, chain: &CopiedChain) -> Result<Mark, TransferError>;

    /// Writes rows, with the anchors at them, in one transaction.
    fn write(&mut self, rows: Vec<CopiedRow>, anchors: Vec<StoredAnchor>) -> Result<(), TransferError>;

    /// Opens the copy for reading.
    fn source(&self) -> Result<Arc<dyn RecordSource>, TransferError>;

    /// Writes the entries of saved sessions that are not there.
    fn write_sessions(&mut self, source: &dyn RecordSource) -> Result<(), TransferError>;
}

impl Reader {
    /// Copies the chain of a writer, and all saved sessions, to a new SQLite file. Without a `log`, it is the chain that
    /// [`Reader::verify`] verifies.
    ///
    /// # Errors
    /// If the chain is not in order, or the file exists or cannot be written.
    pub fn copy_to_file(&self, log: Option<LogId>, path: &Path) -> Result<TransferReport, TransferError> {
        let chain = match log {
            None => self.own_chain()?,
            Some(log) => self
                .source()
                .chains()?
                .into_iter()
                .find(|chain| chain.log == log.0)
                .ok_or(TransferError::Missing(log))?,
        };
        if path.exists() {
            return Err(TransferError::Exists(path.to_owned()));
        }
        let mut target = sqlite::FileCopy::create(path)?;
        let copied = self.copy(&chain, &mut target).and_then(|report| {
            target.write_sessions(self.source())?;
            Ok(report)
        });
        drop(target);
        if copied.is_err() {
            // Half a copy is of no use, and would be in the way of the next.
            EventLog::files(path).into_iter().for_each(|file| drop(std::fs::remove_file(file)));
        }
        copied
    }

    /// Copies all chains, and all saved sessions, to a PostgreSQL database. What an earlier copy has is not copied again.
    ///
    /// # Errors
    /// If a chain is not in order, or the database cannot be written.
    pub fn copy_to_postgres(&self, server: &Server) -> Result<Vec<TransferReport>, TransferError> {
        let mut target = postgres::ServerCopy::open(server)?;
        let mut reports = Vec::new();
        for chain in self.source().chains()? {
            reports.push(self.copy(&chain, &mut target)?);
        }
        target.write_sessions(self.source())?;
        Ok(reports)
    }

    fn copy(&self, chain: &Chain, target: &mut dyn CopyTarget) -> Result<TransferReport, TransferError> {
        let log = LogId(chain.log);
        let key = self.key_of(chain);
        let report = self.source().verify(&chain.log, key, &[])?;
        if let Some(finding) = report.finding {
            return Err(TransferError::Source { log, finding });
        }
        let anchors = self.source().read_anchors(&chain.log)?;
        let cut = anchors.iter().filter(|anchor| anchor.reason == reason::CUT).max_by_key(|anchor| anchor.seq);
        let genesis = Mark { seq: 0, hash: chain::genesis_hash(&chain.log) };
        let before = cut.map_or(genesis, |cut| Mark { seq: cut.seq, hash: cut.hash });
        let key_id = chain.key.or(key.map(chain::key_id));
        let mut copied = CopiedChain { log: chain.log, key_id, before, anchors };
        let begun = target.begin(&copied)?;
        if begun.seq < before.seq {
            return Err(TransferError::Gap { log, copied: begun.seq, pruned: before.seq });
        }
        let mut last = begun;
        let mut count = 0_u64;
        while last.seq < report.last {
            let mut rows = self.source().read_chain(&chain.log, last.seq)?;
            rows.retain(|row| row.row.seq <= report.last);
            let Some(end) = rows.last() else { break };
            let end = Mark { seq: end.row.seq, hash: Hash::from_bytes(&end.row.hash).unwrap_or(Hash([0; 32])) };
            count = count.saturating_add(rows.len() as u64);
            let is_here = |anchor: &mut StoredAnchor| anchor.seq > last.seq && anchor.seq <= end.seq;
            let anchors = copied.anchors.extract_if(.., is_here).collect();
            target.write(rows, anchors)?;
            last = end;
        }
        if last.seq != report.last {
            return Err(TransferError::Incomplete { log, found: last.seq, expected: report.last });
        }
        check_copy(target.source()?.as_ref(), chain, key, last)?;
        Ok(TransferReport { log, copied: count, last, seals_checked: report.seals_checked })
    }
}

/// Verifies a copy, and that it ends as the source does.
fn check_copy(copy: &dyn RecordSource, chain: &Chain, key: Option<&Key>, last: Mark) -> Result<(), TransferError> {
    let Report { last: found, finding, log, .. } = copy.verify(&chain.log, key, &[last])?;
    match finding {
        Some(finding) => Err(TransferError::Copy { log, finding }),
        None if found != last.seq => Err(TransferError::Incomplete { log, found, expected: last.seq }),
        None => Ok(()),
    }
}
