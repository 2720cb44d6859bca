//! The ports for what an operator sees and decides, besides tools and calls.

use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::policy::approval::ApprovalNote;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;

pub use crate::http_api::history::PortError;

/// One record of the event log.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineRecord {
    /// The id of the record.
    pub id: String,
    /// The id of the record that caused this one.
    pub parent: Option<String>,
    /// The session.
    pub session: String,
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The kind, such as `tool_started`.
    pub kind: &'static str,
    /// The id of the call concerned.
    pub call: Option<String>,
    /// The full name of the tool concerned.
    pub tool: Option<PrintableText>,
    /// The outcome in one word.
    pub status: Option<PrintableText>,
    /// Its further data, as JSON text without hidden characters.
    pub body: PrintableText,
}

/// The port for the records of sessions.
pub trait Timelines: Send + Sync {
    /// Returns the records of a session in their order, at most some thousands.
    fn of_session(&self, session: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>>;

    /// Returns the records of the session that a call is part of; none if there is no such call.
    fn of_call(&self, call: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>>;
}

/// A difference between what was approved and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalChange {
    /// The part that differs, such as ``description of `write` ``.
    pub what: PrintableText,
    /// The approved value.
    pub old: Option<PrintableText>,
    /// The current value.
    pub new: Option<PrintableText>,
}

/// The state of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    /// Approved and served.
    Approved,
    /// Nothing was approved under that name.
    Never,
    /// It differs from what was approved.
    Changed,
    /// Approved, and not loaded with that approval yet.
    Stored,
}

/// A tool of a component, as it is to be approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedTool {
    /// What it is, and its name within the component: `Tool add`, `Prompt review`.
    pub name: PrintableText,
    /// Its description.
    pub description: PrintableText,
    /// The effects that it declares, one phrase for each.
    pub annotations: Vec<PrintableText>,
    /// Its arguments, one line for each: `name: type (range) — description`.
    pub arguments: PrintableText,
    /// The schema of its arguments, as indented JSON.
    pub input_schema: PrintableText,
}

/// A component that needs an approval, or an MCP server whose tools do: its contract is `mcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentApproval {
    /// The name of the component.
    pub name: PrintableText,
    /// The hash over all that an approval covers.
    pub pin: String,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The digest of its code.
    pub digest: Option<String>,
    /// The calling convention.
    pub contract: PrintableText,
    /// The powers that it gets, or how the server is started or reached, one line each.
    pub grants: Vec<PrintableText>,
    /// The reference that it was published under.
    pub reference: Option<PrintableText>,
    /// The key that signed it.
    pub signer: Option<PrintableText>,
    /// By whom and when it was approved last, if that is known.
    pub note: Option<ApprovalNote>,
    /// The differences from what was approved.
    pub changes: Vec<ApprovalChange>,
    /// Its tools.
    pub tools: Vec<WantedTool>,
}

/// A call of a saved session that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingApproval {
    /// The id by which it is answered.
    pub id: String,
    /// The session.
    pub session: PrintableText,
    /// The full name of the tool.
    pub tool: PrintableText,
    /// The arguments, as indented JSON.
    pub arguments: PrintableText,
    /// The source of the question, such as a rule.
    pub from: PrintableText,
    /// The question.
    pub question: PrintableText,
    /// The time since which it waits, in milliseconds since 1970.
    pub asked_at_ms: u64,
}

/// A decision of the operator about a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Approve it as it is.
    Approve,
    /// Take its approval back.
    Revoke,
}

/// The port for approvals, and for what they are about.
pub trait Approvals: Send + Sync {
    /// Returns the components and MCP servers that need an approval.
    fn components(&self) -> BoxFuture<'_, Result<Vec<ComponentApproval>, PortError>>;

    /// Stores a decision about the component of this name, if its hash is still `pin`. Returns what follows from it.
    fn decide(&self, name: String, pin: String, decision: Decision) -> BoxFuture<'_, Result<String, PortError>>;

    /// Returns the calls of saved sessions that wait for a person.
    fn waiting_calls(&self) -> BoxFuture<'_, Result<Vec<WaitingApproval>, PortError>>;

    /// Stores the answer to a call. Returns what follows from it.
    fn answer_call(&self, id: String, is_allowed: bool, reason: String) -> BoxFuture<'_, Result<String, PortError>>;

    /// Returns the imports of the component of this name whose powers are not granted, one line for each power; none if there is no
    /// such component. It must not block.
    fn ungranted(&self, component: &str) -> Vec<PrintableText>;
}

/// The report of a run of hostile tools, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReport {
    /// The time of its end.
    pub at: Timestamp,
    /// The time that it took.
    pub duration: Duration,
    /// The report of `fumehood selftest --json`.
    pub text: String,
}

/// The port for runs of hostile tools against this host, and for the reports of earlier ones.
pub trait Containment: Send + Sync {
    /// Runs all attacks, and returns the report of `fumehood selftest --json`. Takes a minute. Dropping the future ends
    /// it.
    fn run(&self) -> BoxFuture<'static, Result<String, PortError>>;

    /// Returns the stored reports with the times of their ends, the newest first and at most `max`. It blocks on the disk.
    fn load(&self, max: usize) -> Vec<StoredReport>;

    /// Stores the report of a run that has ended, and removes all but the newest `max`. It blocks on the disk.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn store(&self, report: StoredReport, max: usize) -> Result<(), PortError>;
}
