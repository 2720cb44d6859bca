//! The port for queues of calls that may wait: jobs.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallResult;
use fumehood_core::job::JobId;
use fumehood_core::tool::ValidatedCall;

use crate::protocol::Offer;

/// A call for a queue.
pub(crate) struct QueuedCall<'a> {
    pub(crate) call: &'a ValidatedCall,
    pub(crate) context: &'a CallContext,
    /// The component that a worker needs, with its powers.
    pub(crate) offer: Offer,
    pub(crate) limits: Limits,
    /// True if another worker may begin the call once more when the first is lost.
    pub(crate) repeatable: bool,
}

/// A queue from which workers take calls as they have places.
pub(crate) trait CallQueue: Send + Sync {
    /// Puts a call into the queue under the id of its job, and waits for its end. A job that is in the queue already is waited
    /// for.
    fn run<'a>(&'a self, job: JobId, call: QueuedCall<'a>) -> BoxFuture<'a, CallResult>;
}
