//! The protocol between gateways and workers, pure: messages, and state machines that are given the time.
//!
//! Nothing here reads a clock or sends a message. A moment is the time since the process began, so that clocks of
//! different machines are never compared: deadlines travel as the time that is left.

mod gateway_calls;
mod introductions;
mod message;
mod roster;
#[cfg(test)]
mod tests;
mod worker_calls;

use std::time::Duration;

pub(crate) use gateway_calls::{Conclusion, GatewayCalls, GatewayEffect, GuestStart, OpenCall, RetryPlan};
pub(crate) use introductions::{Introduction, Introductions};
pub(crate) use message::{
    Announcement, AttemptId, CallLimits, CallRequest, Grant, Hello, Offer, RefusalReason, Ticket, ToGateway, ToWorker,
    Welcome, WireTrace, WorkerName,
};
pub(crate) use roster::{Candidate, NoWorker, Roster};
pub(crate) use worker_calls::{Admission, WorkerCalls, WorkerEffect};

/// The version of the protocol. Gateways and workers whose versions are one apart work together.
pub(crate) const PROTOCOL_VERSION: u16 = 2;

/// Time after which a worker says that a call runs, unless it has ended before.
pub(crate) const STARTED_AFTER: Duration = Duration::from_millis(20);
/// Time between two messages in which a worker names the calls that it runs.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_millis(80);
/// Time without a sign of a call after which its worker counts as lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_millis(400);
/// Time between two announcements of a worker.
pub(crate) const ANNOUNCE_EVERY: Duration = Duration::from_millis(200);
/// Time without an announcement after which a worker gets no more calls.
pub(crate) const ABSENT_AFTER: Duration = Duration::from_millis(700);
/// Time beyond the deadline of a call that its worker has to say how it ended.
pub(crate) const DEADLINE_GRACE: Duration = Duration::from_millis(500);
/// Time that a worker has to say how a cancelled call ended.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_millis(250);
/// Time between two messages of a gateway to a worker that runs calls of it.
pub(crate) const GATEWAY_HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
/// Time without a sign of a gateway after which a worker cancels its calls.
pub(crate) const ORPHANED_AFTER: Duration = Duration::from_secs(2);
/// Time for which a worker accepts a ticket as its newest one. Two older ones are accepted, too.
pub(crate) const EPOCH: Duration = Duration::from_secs(10);
/// Time after which a gateway and a worker exchange keys anew.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(60 * 60);
