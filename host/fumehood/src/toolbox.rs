//! The tools of a host as the [`Toolbox`] of an MCP server. Calls run in the sandbox.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::event::{Level, Progress};
use fumehood_core::result::CallResult;
use fumehood_mcp::{Listing, Request, Toolbox, Watcher};
use fumehood_runtime::{Invocation, Observer};
use tokio::sync::watch;

use crate::call_log::CallLog;
use crate::host::Host;

impl Toolbox for Host {
    /// Returns all tools. Those that need approval are withheld from clients, because no operator has seen their
    /// descriptions yet.
    fn list(&self) -> Vec<Listing> {
        let listing = |tool: &Arc<crate::Tool>| Listing {
            name: tool.full_name().to_owned(),
            definition: tool.definition().clone(),
            is_listed: tool.is_approved(),
            may: tool.powers().to_vec(),
        };
        self.tools().iter().map(listing).collect()
    }

    fn call(&self, request: Request) -> BoxFuture<'_, CallResult> {
        let Request { call, watcher, cancelled, client: _ } = request;
        Box::pin(self.call_observed(call, observer(watcher), Some(cancelled), None))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Host::changes(self)
    }
}

/// The tools of a host, with every call recorded before it runs.
#[derive(Clone)]
pub struct RecordedHost {
    host: Host,
    log: CallLog,
}

impl fmt::Debug for RecordedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedHost").finish_non_exhaustive()
    }
}

impl RecordedHost {
    /// Records the calls of `host` in `log`.
    #[must_use]
    pub fn new(host: Host, log: CallLog) -> Self {
        Self { host, log }
    }
}

impl Toolbox for RecordedHost {
    fn list(&self) -> Vec<Listing> {
        Toolbox::list(&self.host)
    }

    fn call(&self, request: Request) -> BoxFuture<'_, CallResult> {
        let Request { call, watcher, cancelled, client } = request;
        let entry = self.log.entry(&call).with_client(client);
        Box::pin(self.host.call_observed(call, observer(watcher), Some(cancelled), Some(entry)))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.host.changes()
    }
}

fn observer(watcher: Option<Arc<dyn Watcher>>) -> Option<Arc<dyn Observer>> {
    watcher.map(|watcher| Arc::new(Watched(watcher)) as Arc<dyn Observer>)
}

/// An observer that forwards log lines and progress of a call to its client.
struct Watched(Arc<dyn Watcher>);

impl Observer for Watched {
    fn log(&self, _call: &Invocation, level: Level, message: &str) {
        self.0.log(level, message);
    }

    fn progress(&self, _call: &Invocation, progress: Progress) {
        self.0.progress(progress);
    }
}
