//! Records of calls that are not made by an agent: those of a program, a person or an MCP client.
//!
//! They have the shape of an agent's records, so that one log holds both: a session starts, each of its calls is
//! rejected or started, finished and answered, and the session ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Arguments, Call, CallContext};
use fumehood_core::digest::Digest;
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::persistence::Persistence;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood_core::schema::gate::Repair;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ValidatedCall;
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;
use serde_json::{Map, Value, json};

/// Maximum size of rejected arguments in a record, in bytes. No tool received them.
const MAX_REJECTED_BYTES: usize = 4096;

/// A function that returns the part of a tool's calls that is recorded, by its full name.
type PersistPolicy = Arc<dyn Fn(&str) -> Persistence + Send + Sync>;

/// Options of a [`CallLog`].
#[derive(Clone)]
pub struct CallLogOptions {
    /// The origin of the calls, such as `call` or `serve mcp`. Every record has it.
    pub entry_point: String,
    /// The actor on whose behalf the session as a whole runs. Each call has an actor of its own.
    pub actor: Option<String>,
    /// The durability that a call waits for before it runs, for its start, and before it is answered, for its end.
    pub durability: Durability,
    /// True if the session ends with its only call. The end of the call is then written together with that of the
    /// session.
    pub is_single_call: bool,
    /// Returns the part of arguments and results that is recorded, by the full name of a tool. The default is all of
    /// them.
    pub persist: PersistPolicy,
}

impl CallLogOptions {
    /// Returns options for calls from this entry point: each waits until it is written, with full arguments and results.
    #[must_use]
    pub fn new(entry_point: impl Into<String>) -> Self {
        let entry_point = entry_point.into();
        let persist = Arc::new(|_: &str| Persistence::Full);
        Self { entry_point, actor: None, durability: Durability::default(), is_single_call: false, persist }
    }
}

impl fmt::Debug for CallLogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry_point, actor, durability, is_single_call, persist: _ } = self;
        let mut shown = f.debug_struct("CallLogOptions");
        shown.field("entry_point", entry_point).field("actor", actor).field("durability", durability);
        shown.field("is_single_call", is_single_call);
        shown.finish_non_exhaustive()
    }
}

/// Errors of [`CallLog::begin`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallLogError {
    /// The system has no random bytes for the id of the session.
    #[error("the system returned no random bytes for a session id of the event log")]
    Random(#[source] getrandom::Error),
    /// The recorder refuses the first record.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A session of calls in an event log. Cheap to clone; clones share the session.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::record::NullRecorder;
/// use fumehood_layers::{CallLog, CallLogOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A service has an event log in place of the recorder that keeps nothing.
/// let log = CallLog::begin(Arc::new(NullRecorder), CallLogOptions::new("my-service")).await?;
/// println!("the calls of session {} are recorded", log.session());
/// log.end("finished").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CallLog {
    inner: Arc<Inner>,
}

struct Inner {
    recorder: Arc<dyn Recorder>,
    options: CallLogOptions,
    session: String,
    records: AtomicU64,
    calls: AtomicU64,
    /// Numbers as the ids of calls have them: the clients of one session do not learn how many calls others make.
    numbers: OpaqueNumbers,
}

impl CallLog {
    /// Starts a session.
    ///
    /// # Errors
    /// If the recorder refuses the first record, or the system has no random bytes for the id of the session.
    pub async fn begin(recorder: Arc<dyn Recorder>, options: CallLogOptions) -> Result<Self, CallLogError> {
        let session = format!("c{:016x}", getrandom::u64().map_err(CallLogError::Random)?);
        let records = AtomicU64::new(0);
        let calls = AtomicU64::new(0);
        let numbers = OpaqueNumbers::default();
        let log = Self { inner: Arc::new(Inner { recorder, options, session, records, calls, numbers }) };
        // It is on disk no later than the start of the first call, which is recorded after it.
        let started = log.of_session(RecordKind::SessionStarted, None);
        let durability = if log.inner.options.is_single_call { Durability::Deferred } else { Durability::Queued };
        log.inner.recorder.record(started, durability).await?;
        Ok(log)
    }

    /// Ends the session. `status` is one word, such as `ok`.
    ///
    /// # Errors
    /// If the recorder refuses the record.
    pub async fn end(&self, status: &str) -> Result<(), RecordError> {
        self.record(self.of_session(RecordKind::SessionFinished, Some(status))).await
    }

    /// Records a result that arrived after its call had ended, such as that of a worker that was taken for lost. The end of
    /// the call stands as it was recorded.
    ///
    /// # Errors
    /// If the recorder refuses the record.
    pub async fn record_late(&self, origin: &str, result: &CallResult) -> Result<(), RecordError> {
        let status = result.error().map_or("ok", |error| error.kind.as_str());
        let body = json!({
            "entry_point": self.inner.options.entry_point,
            "late": status,
            "origin": printable(origin),
            "model_call": printable(&result.id),
            "usage": result.to_usage(),
        });
        let tool = truncate_str(&printable(&result.tool), MAX_FULL_NAME_BYTES).to_owned();
        let bare = self.bare(RecordKind::ToolPartial, Some(self.first_id()), Some("late"), body);
        self.record(Record { tool: Some(tool), ..bare }).await
    }

    /// Returns the id of the session in the records.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.inner.session
    }

    /// Prepares the records of one call. Nothing is recorded before the call starts or is rejected.
    #[must_use]
    pub fn entry(&self, call: &Call) -> CallEntry {
        self.entry_of(&call.tool, &call.context, beginning_of(&call.arguments))
    }

    /// Like [`Self::entry`], for a call that has passed the gate.
    #[must_use]
    pub fn entry_of_validated(&self, call: &ValidatedCall, context: &CallContext) -> CallEntry {
        let beginning = truncate_str(&call.to_text(), MAX_REJECTED_BYTES).to_owned();
        self.entry_of(call.tool().full_name(), context, beginning)
    }

    fn entry_of(&self, tool: &str, context: &CallContext, rejected: String) -> CallEntry {
        let inner = &self.inner;
        let call = context.execution.as_deref().map_or_else(|| self.next_call(), str::to_owned);
        CallEntry {
            log: self.clone(),
            given_id: Some(context.id.clone()).filter(|id| !id.is_empty() && *id != call),
            call,
            tool: truncate_str(&printable(tool), MAX_FULL_NAME_BYTES).to_owned(),
            digest: None,
            actor: context.actor.as_deref().map(str::to_owned),
            client: context.client.clone(),
            persist: (inner.options.persist)(tool),
            arguments: Value::Null,
            repairs: Vec::new(),
            rejected: Some(rejected),
            last: context.cause.as_deref().map_or_else(|| self.first_id(), str::to_owned),
            is_running: false,
            has_ended: false,
        }
    }

    /// Returns a new id of a call. The part that differs comes first, so that a short prefix identifies it.
    fn next_call(&self) -> String {
        let number = self.inner.numbers.encode(self.inner.calls.fetch_add(1, Ordering::Relaxed));
        format!("{number:016x}-{}", self.inner.session)
    }

    fn first_id(&self) -> String {
        format!("{}-r0", self.inner.session)
    }

    async fn record(&self, record: Record) -> Result<(), RecordError> {
        self.inner.recorder.record(record, self.inner.options.durability).await
    }

    fn of_session(&self, kind: RecordKind, status: Option<&str>) -> Record {
        let parent = (kind != RecordKind::SessionStarted).then(|| self.first_id());
        let body = json!({ "entry_point": self.inner.options.entry_point });
        Record { actor: self.inner.options.actor.clone(), ..self.bare(kind, parent, status, body) }
    }

    fn bare(&self, kind: RecordKind, parent: Option<String>, status: Option<&str>, body: Value) -> Record {
        let number = self.inner.records.fetch_add(1, Ordering::Relaxed);
        Record {
            id: format!("{}-r{number:x}", self.inner.session),
            parent,
            session: self.inner.session.clone(),
            at: now(),
            kind,
            actor: None,
            tool: None,
            digest: None,
            call: None,
            status: status.map(str::to_owned),
            body,
        }
    }
}

impl fmt::Debug for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLog").field("session", &self.inner.session).finish_non_exhaustive()
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The records of one call. If it is dropped before the call ended, that is recorded as `cancelled`.
pub struct CallEntry {
    log: CallLog,
    call: String,
    tool: String,
    digest: Option<Digest>,
    actor: Option<String>,
    client: Option<String>,
    /// The id that the caller gave the call, if it is another one. Nobody ensures that it is unique.
    given_id: Option<String>,
    persist: Persistence,
    /// The arguments as the tool gets them; set only if the policy redacts.
    arguments: Value,
    /// Repairs of the arguments that were made before the call passed the gate.
    repairs: Vec<Repair>,
    /// The beginning of the arguments that were sent, until the call starts.
    rejected: Option<String>,
    last: String,
    is_running: bool,
    has_ended: bool,
}

impl CallEntry {
    /// Returns the id of the call in the records.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.call
    }

    /// Returns the id of its last record: the cause of what the call leads to.
    #[must_use]
    pub fn last_record(&self) -> &str {
        &self.last
    }

    /// Notes the repairs of the arguments, for the record of the start. They name places and kinds, and no values.
    pub fn repaired(&mut self, repairs: &[Repair]) {
        self.repairs = repairs.to_vec();
    }

    /// Records the start of the call, after it passed every check. `digest` is that of the component.
    ///
    /// # Errors
    /// If the recorder refuses the record. The tool must not run then. [`Self::ended`] has to be called nevertheless,
    /// because the log may write the record later.
    pub async fn started(&mut self, arguments: &Value, digest: Option<Digest>) -> Result<(), RecordError> {
        self.digest = digest;
        self.rejected = None;
        let kept = self.persist.arguments(arguments);
        let mut body: Map<String, Value> = kept.map(|kept| ("arguments".to_owned(), kept)).into_iter().collect();
        if !self.repairs.is_empty() {
            body.insert("repairs".to_owned(), json!(self.repairs));
        }
        if matches!(self.persist, Persistence::Redact { .. }) {
            self.arguments = arguments.clone();
        }
        self.is_running = true;
        let record = self.next(RecordKind::ToolStarted, None, Value::Object(body));
        self.log.record(record).await
    }

    /// Records the end of the call. The result stands even if that fails: the log reports the failure to the next call.
    pub async fn ended(mut self, result: &CallResult) {
        self.has_ended = true;
        let status = result.error().map_or("ok", |error| error.kind.as_str());
        if !self.is_running {
            let record = self.rejection(status, Some(result));
            let _next_call_is_told = self.log.record(record).await;
            return;
        }
        let finished = self.next(RecordKind::ToolFinished, Some(status), result.to_usage());
        let kept = self.persist.result(&self.arguments, result, result).map(|kept| {
            let body = json!({ "result": kept, "truncated": result.metadata.truncated });
            self.next(RecordKind::ToolResult, Some(status), body)
        });
        let inner = &self.log.inner;
        let last = if inner.options.is_single_call { Durability::Deferred } else { inner.options.durability };
        // Deferred, so that both records are in one write.
        let first = if kept.is_some() { Durability::Deferred } else { last };
        let _next_call_is_told = inner.recorder.record(finished, first).await;
        if let Some(kept) = kept {
            let _next_call_is_told = inner.recorder.record(kept, last).await;
        }
    }

    fn rejection(&mut self, status: &str, result: Option<&CallResult>) -> Record {
        // As JSON if they are JSON, else as text.
        let sent = self.rejected.take().map(|text| serde_json::from_str(&text).unwrap_or(Value::from(text)));
        let arguments = sent.and_then(|arguments| self.persist.arguments(&arguments));
        // The message repeats the arguments, which the policy may exclude from the records.
        let error = match result.and_then(CallResult::error).filter(|_| self.persist.is_full()) {
            Some(error) => json!(error),
            None => json!({ "kind": status }),
        };
        self.next(RecordKind::ToolRejected, Some(status), json!({ "arguments": arguments, "error": error }))
    }

    fn next(&mut self, kind: RecordKind, status: Option<&str>, body: Value) -> Record {
        let mut body = match body {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        body.insert("entry_point".to_owned(), Value::from(self.log.inner.options.entry_point.as_str()));
        body.extend(self.client.as_deref().map(|client| ("client".to_owned(), Value::from(client))));
        body.extend(self.given_id.as_deref().map(|id| ("model_call".to_owned(), Value::from(id))));
        let record = Record {
            actor: self.actor.clone(),
            tool: Some(self.tool.clone()),
            digest: self.digest.map(|digest| digest.to_string()),
            call: Some(self.call.clone()),
            ..self.log.bare(kind, Some(self.last.clone()), status, Value::Object(body))
        };
        self.last.clone_from(&record.id);
        record
    }
}

impl fmt::Debug for CallEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallEntry").field("call", &self.call).field("tool", &self.tool).finish_non_exhaustive()
    }
}

impl Drop for CallEntry {
    /// Records a call that its caller dropped, without waiting for the disk.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let record = if self.is_running {
            self.next(RecordKind::ToolFinished, Some("cancelled"), Value::Null)
        } else {
            self.rejection("cancelled", None)
        };
        drop(self.log.inner.recorder.record(record, self.log.inner.options.durability));
    }
}

/// Returns the beginning of arguments that are not checked yet.
fn beginning_of(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Text(text) => truncate_str(text, MAX_REJECTED_BYTES).to_owned(),
        Arguments::Value(value) => truncate_str(&value.to_string(), MAX_REJECTED_BYTES).to_owned(),
    }
}
