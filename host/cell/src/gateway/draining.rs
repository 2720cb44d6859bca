//! Telling a worker to end.

use std::time::Duration;

use tokio::time::Instant;

use super::cell_tools::CellTools;
use crate::error::CellError;
use crate::protocol::{ABSENT_AFTER, ANNOUNCE_EVERY, ToWorker, WorkerName};

/// The state of a worker that was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draining {
    /// It takes no more calls; so many of them run.
    Running(u32),
    /// It does not announce itself any more.
    Gone,
}

impl CellTools {
    /// Tells a worker to take no more calls and to end with the last of those that run, and waits until it is gone.
    ///
    /// # Errors
    /// If it does not announce itself, or still does after `time`.
    pub async fn drain(
        &self,
        worker: &str,
        time: Duration,
        mut observe: impl FnMut(Draining),
    ) -> Result<(), CellError> {
        let (inner, name): (_, WorkerName) = (self.inner(), worker.into());
        let began = Instant::now();
        let state = || inner.state().roster.get(&name).cloned();
        // Announcements come all the time, so that a worker that is there is known soon.
        while state().is_none() {
            if began.elapsed() >= ABSENT_AFTER.saturating_mul(3) {
                return Err(CellError::NoSuchWorker(worker.to_owned()));
            }
            tokio::time::sleep(ANNOUNCE_EVERY / 4).await;
        }
        while let Some(announcement) = state() {
            if began.elapsed() >= time {
                return Err(CellError::StillRunning { worker: worker.to_owned(), running: announcement.running });
            }
            match announcement.draining {
                true => observe(Draining::Running(announcement.running)),
                // Again, because a message may be lost.
                false => inner.send_to(&name, announcement.ticket.run, &ToWorker::Drain),
            }
            tokio::time::sleep(ANNOUNCE_EVERY / 2).await;
        }
        observe(Draining::Gone);
        Ok(())
    }
}
