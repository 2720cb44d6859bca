//! The chains of a log: their verification, their checkpoints, and which key seals which.

use fumehood_core::time::Timestamp;

use super::chain::{self, Key, Mark};
use super::checkpoint::{Checkpoint, LogId};
use super::port::Chain;
use super::reader::{ReadError, Reader};
use super::verify::{Finding, Problem, Report};

impl Reader {
    /// Verifies every row and every anchor in a consistent snapshot of the log, and that the chain contains `mark`, if
    /// one was kept elsewhere. Takes some seconds for a million rows.
    ///
    /// In a database of several writers, this is the chain of the writer whose key the reader has, or else of the first one;
    /// [`Self::verify_all`] verifies all of them.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, mark: Option<Mark>) -> Result<Report, ReadError> {
        self.verify_chain(&self.own_chain()?, mark.as_slice())
    }

    /// Like [`Self::verify`], and checks that this is the log of the checkpoints and still contains all of them whose rows were
    /// not pruned. Of checkpoints of several logs, those of the log of the last one that is here count: see also
    /// [`Self::verify_all`].
    ///
    /// [`Report::continuity`] states the result for the highest row. Nothing is proven if that row was pruned.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify_since(&self, kept: &[Checkpoint]) -> Result<Report, ReadError> {
        let chains = self.source().chains()?;
        let known = kept.iter().rev().find_map(|checkpoint| chains.iter().find(|chain| chain.log == checkpoint.log.0));
        if let Some(chain) = known {
            return self.verify_chain(chain, &marks_of(kept, chain));
        }
        let report = self.verify(None)?;
        Ok(match kept.last() {
            Some(checkpoint) => as_other_log(report, checkpoint),
            None => report,
        })
    }

    /// Verifies the chains of all writers, in the order in which they were begun, each with its checkpoints as in
    /// [`Self::verify_since`]. A checkpoint of a log that is not there is a report with a finding.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify_all(&self, checkpoints: &[Checkpoint]) -> Result<Vec<Report>, ReadError> {
        let chains = self.source().chains()?;
        let mut reports = Vec::new();
        for chain in &chains {
            reports.push(self.verify_chain(chain, &marks_of(checkpoints, chain))?);
        }
        for checkpoint in checkpoints {
            if chains.iter().all(|chain| chain.log != checkpoint.log.0) {
                reports.push(as_other_log(Report::empty(checkpoint.log), checkpoint));
            }
        }
        Ok(reports)
    }

    /// Returns whether the database has a chain for each of its writers.
    #[must_use]
    pub fn has_writers(&self) -> bool {
        self.source().has_writers()
    }

    /// Returns a checkpoint of the current state, to be kept elsewhere. It is taken without verification: verify the
    /// log first, since the checkpoint of a changed log confirms the change. See [`Self::verify`] for which chain it is.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn checkpoint(&self, now: Timestamp) -> Result<Checkpoint, ReadError> {
        let chain = self.own_chain()?;
        self.checkpoint_of(&chain, now)
    }

    /// Returns the checkpoints of all chains, in the order in which they were begun.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn checkpoints(&self, now: Timestamp) -> Result<Vec<Checkpoint>, ReadError> {
        self.source().chains()?.iter().map(|chain| self.checkpoint_of(chain, now)).collect()
    }

    fn checkpoint_of(&self, chain: &Chain, now: Timestamp) -> Result<Checkpoint, ReadError> {
        Ok(Checkpoint { log: LogId(chain.log), mark: self.source().head(&chain.log)?, at: now })
    }

    fn verify_chain(&self, chain: &Chain, marks: &[Mark]) -> Result<Report, ReadError> {
        self.source().verify(&chain.log, self.key_of(chain), marks)
    }

    /// Returns the chain that the reader's key seals, or else the first one.
    pub(crate) fn own_chain(&self) -> Result<Chain, ReadError> {
        let chains = self.source().chains()?;
        let own = self.key().map(chain::key_id);
        let mut sealed = chains.iter().filter(|chain| chain.key.is_some() && chain.key == own);
        let found = sealed.clone().find(|chain| chain.is_own).or_else(|| sealed.next());
        found.or(chains.first()).copied().ok_or(ReadError::Empty)
    }

    /// Returns the key that seals a chain, if the reader has it.
    pub(crate) fn key_of(&self, chain: &Chain) -> Option<&Key> {
        match chain.key {
            None => self.key(),
            Some(id) => self.keys().find(|key| chain::key_id(key) == id),
        }
    }
}

fn marks_of(checkpoints: &[Checkpoint], chain: &Chain) -> Vec<Mark> {
    checkpoints.iter().filter(|checkpoint| checkpoint.log.0 == chain.log).map(|checkpoint| checkpoint.mark).collect()
}

fn as_other_log(mut report: Report, checkpoint: &Checkpoint) -> Report {
    report.finding = Some(Finding { seq: checkpoint.mark.seq, problem: Problem::OtherLog });
    report.continuity = None;
    report
}
