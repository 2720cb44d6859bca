//! Questions of agents to persons: a resource that waits for an answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::log;
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::text::sanitize::{printable, printable_value};
use fumehood_core::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use crate::http_api::stream::{EventQueue, event};
use crate::now;

/// A question about a call, or about going on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalQuestion {
    /// The full name of the tool; `None` if the question is about going on after a limit.
    pub tool: Option<String>,
    /// The arguments of the call.
    pub arguments: Option<Value>,
    /// The question.
    pub question: String,
    /// The source of the question, such as the name of a rule.
    pub from: String,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes.
    Allow,
    /// No.
    Deny {
        /// The reason, for the model. May be empty.
        reason: String,
    },
}

/// An approval that waits for an answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Approval {
    /// The id of the approval.
    pub(crate) id: String,
    /// The id of the session that waits.
    session: String,
    /// The full name of the tool that would be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The arguments of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    /// The question.
    question: String,
    /// The source of the question: the name of a rule, `judge` or `budget`.
    from: String,
    /// The time of the question, in milliseconds since 1970.
    asked_at_ms: u64,
}

impl Approval {
    /// Creates an approval, without hidden characters in what a model or a tool wrote.
    pub(crate) fn new(id: String, session: &str, question: &ApprovalQuestion, asked_at: Timestamp) -> Self {
        Self {
            id,
            session: session.to_owned(),
            tool: question.tool.as_deref().map(|tool| printable(tool).into_owned()),
            arguments: question.arguments.as_ref().map(|arguments| printable_value(arguments).0.into_owned()),
            question: printable(&question.question).into_owned(),
            from: printable(&question.from).into_owned(),
            asked_at_ms: asked_at.0,
        }
    }
}

struct Entry {
    tenant: Arc<str>,
    session: String,
    question: ApprovalQuestion,
    at: Timestamp,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// The approvals that wait. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Approvals(Arc<Inner>);

#[derive(Default)]
struct Inner {
    prefix: u64,
    /// Numbers as ids have them, so that a tenant does not learn how many approvals others have.
    numbers: OpaqueNumbers,
    waiting: Mutex<PendingApprovals>,
}

#[derive(Default)]
struct PendingApprovals {
    last: u64,
    entries: BTreeMap<u64, Entry>,
}

impl Approvals {
    /// Creates an empty set. The ids of its approvals begin with `prefix`.
    pub(crate) fn new(prefix: u64) -> Self {
        Self(Arc::new(Inner { prefix, ..Inner::default() }))
    }

    /// Returns the approvals of a tenant, the oldest first.
    pub(crate) fn list(&self, tenant: &str) -> Vec<Approval> {
        let waiting = self.lock();
        let own = waiting.entries.iter().filter(|(_, entry)| *entry.tenant == *tenant);
        own.map(|(number, entry)| self.describe(*number, entry)).collect()
    }

    /// Returns an approval, if it is one of this tenant.
    pub(crate) fn find(&self, tenant: &str, id: &str) -> Option<Approval> {
        self.list(tenant).into_iter().find(|approval| approval.id == id)
    }

    /// Answers an approval of this tenant. Returns whether it still waited.
    pub(crate) fn answer(&self, tenant: &str, id: &str, answer: ApprovalAnswer) -> bool {
        let mut waiting = self.lock();
        let mut entries = waiting.entries.iter();
        let found = entries.find(|(number, entry)| *entry.tenant == *tenant && self.id_of(**number) == id);
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        let entry = waiting.entries.remove(&number);
        drop(waiting);
        entry.is_some_and(|entry| entry.answer.send(answer).is_ok())
    }

    fn add(&self, entry: Entry) -> u64 {
        let mut waiting = self.lock();
        waiting.last = waiting.last.saturating_add(1);
        let number = waiting.last;
        log::emit_approval_waiting(&entry.session, &self.id_of(number), entry.question.tool.as_deref());
        waiting.entries.insert(number, entry);
        number
    }

    fn describe(&self, number: u64, entry: &Entry) -> Approval {
        Approval::new(self.id_of(number), &entry.session, &entry.question, entry.at)
    }

    fn id_of(&self, number: u64) -> String {
        format!("a{:016x}-{:016x}", self.0.prefix, self.0.numbers.encode(number))
    }

    fn lock(&self) -> MutexGuard<'_, PendingApprovals> {
        // No code that holds the lock can panic half-way.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The approvals of one session.
#[derive(Clone)]
pub struct SessionApprovals {
    approvals: Approvals,
    tenant: Arc<str>,
    session: String,
    /// The events of the reply that is running.
    events: Arc<Mutex<Option<Arc<EventQueue>>>>,
}

impl fmt::Debug for SessionApprovals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionApprovals").field("session", &self.session).finish_non_exhaustive()
    }
}

/// An approval that waits. Dropping it withdraws the question.
struct PendingApproval<'a> {
    approvals: &'a Approvals,
    number: u64,
}

impl Drop for PendingApproval<'_> {
    fn drop(&mut self) {
        let entry = self.approvals.lock().entries.remove(&self.number);
        drop(entry);
    }
}

impl SessionApprovals {
    pub(crate) fn new(approvals: Approvals, tenant: Arc<str>, session: String) -> Self {
        Self { approvals, tenant, session, events: Arc::default() }
    }

    /// Sets the stream that approvals are announced in.
    pub(crate) fn announce_in(&self, events: Option<Arc<EventQueue>>) {
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }

    /// Asks a question, and waits for the answer without a timeout. Dropping the future withdraws the question.
    pub async fn ask(&self, question: ApprovalQuestion) -> ApprovalAnswer {
        let (answer, answered) = oneshot::channel();
        let tenant = Arc::clone(&self.tenant);
        let session = self.session.clone();
        let number = self.approvals.add(Entry { tenant, session, question, at: now(), answer });
        let _asking = PendingApproval { approvals: &self.approvals, number };
        let id = self.approvals.id_of(number);
        if let Some(approval) = self.approvals.find(&self.tenant, &id)
            && let Some(events) = self.events.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            events.push(event("approval", &json!(approval)));
        }
        answered.await.unwrap_or(ApprovalAnswer::Deny { reason: "the question was withdrawn".to_owned() })
    }
}
