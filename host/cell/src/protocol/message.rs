//! Messages between gateways and workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::content::Content;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::RequestReport;
use fumehood_core::digest::Digest;
use fumehood_core::trace_context::{self, TraceContext};
use serde::{Deserialize, Serialize};

use crate::identity::ExchangeKey;

/// The name of a worker in the configuration of its gateways. Cheap to clone.
pub(crate) type WorkerName = Arc<str>;

/// The id of one attempt to run a call: random, and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AttemptId(u128);

impl AttemptId {
    /// Creates an id from random bits.
    #[must_use]
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<AttemptId> for String {
    fn from(id: AttemptId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for AttemptId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bits = (text.len() == 32).then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| "an attempt is named by 32 hexadecimal digits".to_owned())
    }
}

/// The right to send calls to one run of a worker for some seconds, which it announces.
///
/// A call that was recorded on the bus and is sent again later has an old ticket, or one of another run, and is refused. So
/// a worker remembers the attempts of a few epochs only, and no clocks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// Random bits of the run of the worker.
    pub(crate) run: u64,
    /// The number of the epoch in that run.
    pub(crate) epoch: u64,
}

/// A component of a worker, with the powers that it has there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The digest of the component.
    pub(crate) component: Digest,
    /// The digest of its exact powers.
    pub(crate) powers: Digest,
}

/// The limits of one call on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CallLimits {
    /// The time that is left, in microseconds.
    pub(crate) remaining_us: u64,
    /// Maximum fuel.
    pub(crate) fuel: u64,
    /// Maximum memory, in bytes.
    pub(crate) memory: u64,
    /// Maximum size of the result, in bytes.
    pub(crate) output: u64,
    /// Maximum size of log lines and progress, in bytes.
    pub(crate) log: u64,
}

impl CallLimits {
    /// Returns the part of limits that is sent.
    #[must_use]
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            remaining_us: u64::try_from(limits.deadline.as_micros()).unwrap_or(u64::MAX),
            fuel: limits.fuel,
            memory: to_u64(limits.memory),
            output: to_u64(limits.output),
            log: to_u64(limits.log),
        }
    }

    /// Returns these limits with a time that is a power of two, so that calls whose remaining times differ have one grant.
    #[must_use]
    pub(crate) fn rounded_up(self) -> Self {
        Self { remaining_us: self.remaining_us.checked_next_power_of_two().unwrap_or(u64::MAX), ..self }
    }

    /// Returns the lower of these limits and those of the worker.
    #[must_use]
    pub(crate) fn within(&self, own: &Limits) -> Limits {
        own.deadline(own.deadline.min(Duration::from_micros(self.remaining_us)))
            .fuel(own.fuel.min(self.fuel))
            .memory(own.memory.min(to_usize(self.memory)))
            .output(own.output.min(to_usize(self.output)))
            .log(own.log.min(to_usize(self.log)))
    }
}

fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The right to run a tool of a component with powers within limits, for the calls of one session of a gateway and a worker.
///
/// The gateway signs it, so that the worker can show what it was asked to do. It is checked once, and calls name it by the
/// digest of its signed text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The id of the session.
    pub(crate) session: u64,
    /// The full name of the tool.
    pub(crate) tool: String,
    /// The component, and its powers.
    pub(crate) offer: Offer,
    /// The limits of each call.
    pub(crate) limits: CallLimits,
}

/// A call that a gateway wants a worker to run. Its arguments are the body of the message, as text that passed the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRequest {
    /// The attempt.
    pub(crate) attempt: AttemptId,
    /// The id of the call at the gateway.
    pub(crate) call: String,
    /// The ticket of the worker.
    pub(crate) ticket: Ticket,
    /// The digest of the grant.
    pub(crate) grant: Digest,
    /// The signed grant in base64, until the worker has answered a call that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signed_grant: Option<String>,
    /// The time that is left, in microseconds.
    pub(crate) remaining_us: u64,
    /// The actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// The state of the agent, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// The span of the gateway around the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<WireTrace>,
}

/// The context of a trace on the wire (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireTrace {
    /// The `traceparent`.
    pub(crate) traceparent: String,
    /// The `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tracestate: Option<String>,
}

impl WireTrace {
    /// Returns the context of the current span; `None` if it is not collected.
    #[must_use]
    pub(crate) fn current() -> Option<Self> {
        let context = trace_context::current()?;
        let tracestate = context.tracestate().map(str::to_owned);
        Some(Self { traceparent: context.traceparent().to_owned(), tracestate })
    }

    /// Parses the context; `None` if it is invalid.
    #[must_use]
    pub(crate) fn parse(&self) -> Option<TraceContext> {
        TraceContext::parse(&self.traceparent, self.tracestate.as_deref())
    }
}

/// The first message of a gateway to a run of a worker, signed: keys are to be exchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version of the gateway.
    pub(crate) version: u16,
    /// The cell: the first part of its subjects.
    pub(crate) cell: String,
    /// The run of the gateway.
    pub(crate) gateway_run: u64,
    /// The run of the worker that is meant.
    pub(crate) worker_run: u64,
    /// The gateway's key of the exchange.
    pub(crate) key: ExchangeKey,
}

/// The answer of a worker to a [`Hello`], signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// The version of the worker.
    pub(crate) version: u16,
    /// The cell.
    pub(crate) cell: String,
    /// The run of the gateway that asked.
    pub(crate) gateway_run: u64,
    /// The run of the worker.
    pub(crate) worker_run: u64,
    /// The key that the gateway sent.
    pub(crate) answers: ExchangeKey,
    /// The worker's key of the exchange.
    pub(crate) key: ExchangeKey,
}

/// A message to a worker. Kinds that the receiver does not know are ignored, so that versions one apart work together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub(crate) enum ToWorker {
    /// Run a call.
    Call(Box<CallRequest>),
    /// Stop a call.
    Cancel {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The gateway is there.
    Alive,
    /// Take no more calls, and end with the last of those that run.
    Drain,
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// The reason for which a worker does not run a call. The guest has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub(crate) enum RefusalReason {
    /// All places are taken.
    Full,
    /// The worker is about to end.
    Draining,
    /// The ticket is old, or of another run.
    Stale,
    /// The worker does not have that tool of that component with these powers.
    NotOffered,
    /// The worker does not remember the grant, and the call does not carry it.
    UnknownGrant,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// A message to a gateway. Kinds that the receiver does not know are ignored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub(crate) enum ToGateway {
    /// A call runs.
    Started {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A call does not run.
    Refused {
        /// The attempt.
        attempt: AttemptId,
        /// The reason.
        reason: RefusalReason,
    },
    /// A call has ended. The body of the message is its result, as JSON.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// The component that ran, and its powers.
        offer: Offer,
    },
    /// These calls run.
    Running {
        /// The attempts.
        attempts: Vec<AttemptId>,
    },
    /// A log line of a guest.
    Log {
        /// The attempt.
        attempt: AttemptId,
        /// The severity.
        level: Level,
        /// The text.
        message: String,
    },
    /// Progress of a guest.
    Progress {
        /// The attempt.
        attempt: AttemptId,
        /// The completed fraction.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "fumehood_core::schema::json::deserialize_optional_float"
        )]
        fraction: Option<f64>,
        /// The description.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Parts of the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partial: Vec<Content>,
    },
    /// A request of a guest has ended, or was refused.
    Request {
        /// The attempt.
        attempt: AttemptId,
        /// The report.
        request: RequestReport,
    },
    /// The cost of a call so far.
    Used {
        /// The attempt.
        attempt: AttemptId,
        /// Fuel that the guest used.
        fuel: u64,
        /// Peak size of its memories and tables, in bytes.
        peak_memory: u64,
    },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// The announcement of a worker to all gateways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The version of the worker.
    #[serde(default)]
    pub(crate) version: u16,
    /// A number that is higher than in all earlier announcements of the run.
    #[serde(default)]
    pub(crate) sequence: u64,
    /// The ticket for calls from now on.
    pub(crate) ticket: Ticket,
    /// The number of calls that may run at the same time.
    pub(crate) places: u32,
    /// The number of calls that run.
    pub(crate) running: u32,
    /// True if no more calls are taken.
    pub(crate) draining: bool,
    /// The components, sorted.
    pub(crate) offers: Vec<Offer>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attempt() -> AttemptId {
        AttemptId::from_bits(7)
    }

    #[test]
    fn messages_of_a_later_version_are_understood_or_ignored() {
        let later = json!({"kind": "cancel", "attempt": attempt(), "because": "added later"});
        assert_eq!(serde_json::from_value::<ToWorker>(later).unwrap(), ToWorker::Cancel { attempt: attempt() });
        let later = json!({"kind": "migrate", "to": "w2"});
        assert_eq!(serde_json::from_value::<ToWorker>(later.clone()).unwrap(), ToWorker::Unknown);
        assert!(matches!(serde_json::from_value::<ToGateway>(later).unwrap(), ToGateway::Unknown));
        let later = json!({"kind": "refused", "attempt": attempt(), "reason": "too_hot"});
        let ToGateway::Refused { reason, .. } = serde_json::from_value(later).unwrap() else { panic!("another kind") };
        assert_eq!(reason, RefusalReason::Unknown);
    }

    #[test]
    fn messages_without_optional_fields_are_understood() {
        let earlier = json!({
            "kind": "call", "attempt": attempt(), "call": "c", "ticket": {"run": 1, "epoch": 0}, "grant": Digest::of(b""),
            "remaining_us": 5,
        });
        let ToWorker::Call(request) = serde_json::from_value(earlier).unwrap() else { panic!("another kind") };
        assert_eq!((request.actor, request.signed_grant, request.trace), (None, None, None));
        let earlier =
            json!({"ticket": {"run": 1, "epoch": 0}, "places": 1, "running": 0, "draining": false, "offers": []});
        let announcement: Announcement = serde_json::from_value(earlier).unwrap();
        // That of a worker from before versions were announced, with which no keys can be exchanged.
        assert_eq!((announcement.version, announcement.sequence), (0, 0));
    }

    fn rounded_limits(remaining_us: u64) -> CallLimits {
        CallLimits { remaining_us, fuel: 1, memory: 1, output: 1, log: 1 }.rounded_up()
    }

    #[test]
    fn calls_with_less_time_left_have_the_same_grant() {
        assert_eq!(rounded_limits(1_000_000), rounded_limits(900_000));
        assert!(rounded_limits(900_000).remaining_us >= 1_000_000);
        assert_eq!(rounded_limits(u64::MAX).remaining_us, u64::MAX);
    }
}
