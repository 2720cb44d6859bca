//! The rules of jobs: when a call becomes one, and how many are kept for how long.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::job::JobLimits;

/// Default time after which a call becomes a job.
const DEFAULT_AFTER: Duration = Duration::from_secs(1);
/// Default time from the creation of a job until it is removed.
const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);

/// A decision by the full name of a tool.
type ToolRule = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The rules of jobs.
#[derive(Clone)]
pub struct JobOptions {
    /// The time after which a call becomes a job, if its client can come back for the result.
    pub after: Duration,
    /// The time from the creation of a job until it is removed, with its result.
    pub ttl: Duration,
    /// Bounds of the jobs that are kept.
    pub limits: JobLimits,
    /// Returns whether calls of a tool become jobs before they run.
    pub at_once: ToolRule,
    /// Returns whether calls of a tool, if they become jobs before they run, wait in a queue of the provider, and not for a
    /// place of this process.
    pub is_queued: ToolRule,
    /// Returns whether the results of a tool may be kept in the store. Others are kept in memory, and lost with the process.
    pub is_stored: ToolRule,
}

impl Default for JobOptions {
    /// Returns the defaults: a call becomes a job after a second, is kept for an hour, and its result may be stored.
    fn default() -> Self {
        let after = DEFAULT_AFTER;
        let ttl = DEFAULT_TTL;
        let limits = JobLimits::default();
        Self {
            after,
            ttl,
            limits,
            at_once: Arc::new(|_| false),
            is_queued: Arc::new(|_| false),
            is_stored: Arc::new(|_| true),
        }
    }
}

impl fmt::Debug for JobOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, ttl, limits, at_once: _, is_queued: _, is_stored: _ } = self;
        let mut shown = f.debug_struct("JobOptions");
        shown.field("after", after).field("ttl", ttl).field("limits", limits).finish_non_exhaustive()
    }
}
