//! Messages about jobs between gateways and workers: signed, because one in a queue is for nodes that may never have met.

use fumehood_core::digest::Digest;
use fumehood_core::job::JobId;
use serde::{Deserialize, Serialize};

use crate::protocol::{CallLimits, Offer, WireTrace};

/// The version of these messages.
pub(super) const JOBS_VERSION: u16 = 1;

/// An order of a gateway about a job, signed as a [`JobGateway`](crate::identity::Role::JobGateway).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub(super) enum JobOrder {
    /// Run a call. Its arguments are the body of the message, as text that passed the gate.
    Run(Box<JobRequest>),
    /// Stop a call.
    Cancel {
        /// The job.
        job: JobId,
    },
    /// Never begin a call: the claim of a gateway, in place of a worker's.
    Withdraw {
        /// The job.
        job: JobId,
    },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// A call that any worker may run which has the component with these powers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobRequest {
    /// The version of the gateway.
    pub(super) version: u16,
    pub(super) job: JobId,
    /// The id of the call at the gateway.
    pub(super) call: String,
    /// The full name of the tool.
    pub(super) tool: String,
    /// The component, and its powers.
    pub(super) offer: Offer,
    /// The limits of the call. Its time begins when a worker begins it.
    pub(super) limits: CallLimits,
    /// True if another worker may begin the call once more when the first is lost.
    #[serde(default)]
    pub(super) repeatable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<String>,
    /// The span of the gateway around the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<WireTrace>,
}

/// The claim of a worker: it has begun a job, and no other may. Signed as a
/// [`JobWorker`](crate::identity::Role::JobWorker), and written again while the call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobClaim {
    pub(super) job: JobId,
    /// The digest of the signed request.
    pub(super) request: Digest,
    /// The run of the worker.
    pub(super) run: u64,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
    /// True once the guest has certainly begun.
    pub(super) begun: bool,
    /// The last report of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// The end of a job. The body of the message is the result, as JSON. Signed as a
/// [`JobEnd`](crate::identity::Role::JobEnd).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobEnd {
    pub(super) job: JobId,
    /// The digest of the signed request.
    pub(super) request: Digest,
    /// The component that ran, and its powers.
    pub(super) offer: Offer,
}

/// A job as gateways keep it, signed as a [`JobRecord`](crate::identity::Role::JobRecord). The body is the job, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobRecord {
    pub(super) job: JobId,
    /// Its owner, for whom it is kept.
    pub(super) owner: String,
    /// The run of the gateway that signed it.
    pub(super) run: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_a_later_version_is_read_as_unknown() {
        let read: JobOrder = serde_json::from_str(r#"{"kind": "pause", "job": "x"}"#).unwrap();
        assert_eq!(read, JobOrder::Unknown);
    }
}
