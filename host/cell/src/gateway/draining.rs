//! Telling a worker to end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallResult;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use tokio::time::Instant;

use super::cell_tools::{CellTools, GatewayOptions};
use crate::error::CellError;
use crate::link::NodeOptions;
use crate::protocol::{ABSENT_AFTER, ANNOUNCE_EVERY, ToWorker, WorkerName};
use crate::worker::KeptValues;

/// The state of a worker that was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrainState {
    /// It takes no more calls; so many of them run.
    Running(u32),
    /// It does not announce itself any more.
    Gone,
}

/// The tools of a gateway that only talks to workers.
#[derive(Debug, Default)]
struct NoTools(Revision);

impl ToolProvider for NoTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<Arc<Tool>> {
        None
    }

    fn call(&self, _: ValidatedCall, _: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async { Err(Stop::new("this gateway has no tools")) })
    }

    fn changes(&self) -> Changes {
        self.0.subscribe()
    }
}

impl CellTools {
    /// Joins a cell as a gateway without tools.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn join_without_tools(node: NodeOptions) -> Result<Self, CellError> {
        let options = GatewayOptions {
            local: BTreeSet::new(),
            retry_repeatable: false,
            limits: Arc::new(|_| Limits::default()),
            kept_values: KeptValues::none(),
            on_late: Arc::new(|_| {}),
        };
        Self::join(node, Arc::new(NoTools::default()), options).await
    }

    /// Tells a worker to take no more calls and to end with the last of those that run, and waits until it is gone.
    ///
    /// # Errors
    /// If it does not announce itself, or still does after `time`.
    pub async fn drain(
        &self,
        worker: &str,
        time: Duration,
        mut observe: impl FnMut(DrainState),
    ) -> Result<(), CellError> {
        let inner = self.inner();
        let name: WorkerName = worker.into();
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
            if announcement.draining {
                observe(DrainState::Running(announcement.running))
            } else {
                // Again, because a message may be lost.
                inner.send_to(&name, announcement.ticket.run, &ToWorker::Drain)
            }
            tokio::time::sleep(ANNOUNCE_EVERY / 2).await;
        }
        observe(DrainState::Gone);
        Ok(())
    }
}
