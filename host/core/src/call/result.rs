//! Results of calls, with one shape for all kinds of tools, for successes and failures.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::call::content::Content;
use crate::call::error_kind::ErrorKind;
use crate::call::{ErrorDetails, Refusal, ResultMembers};
use crate::record::RecordError;
use crate::schema::json;
use crate::text::sanitize::truncate_str;
use crate::text::untrusted::{PrintableText, Untrusted, expose_raw};

/// Maximum length of the reason why a result does not match a type, in bytes. It may quote the tool.
const MAX_REASON_BYTES: usize = 300;
/// Time after which a call that could not be recorded may be made again. A log tries to write every two seconds at the latest.
const RETRY_UNRECORDED: Duration = Duration::from_secs(2);

/// The outcome of one call.
///
/// In JSON: `{ id, tool, status: "ok" | "error", content: […], error?, metadata: {…} }`, where `error` is
/// `{ kind, message, hint?, retry_after_ms?, backtrace? }`.
///
/// ```
/// use fumehood_core::call::content::Content;
/// use fumehood_core::call::result::{CallResult, Metadata};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outcome = Ok(vec![Content::json(r#"{"result":8}"#.to_owned())?]);
/// let metadata = Metadata::default();
/// let result = CallResult { id: "7".to_owned(), tool: "calculator__add".to_owned(), outcome, metadata };
/// match result.error() {
///     None => assert_eq!(result.text().as_deref(), Some(r#"{"result":8}"#)),
///     Some(error) => eprintln!("{}: {}", error.kind, error.message),
/// }
/// assert_eq!(serde_json::to_value(&result)?["status"], "ok");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// The full name of the requested tool.
    pub tool: String,
    /// The parts of the result, or the failure.
    pub outcome: Result<Vec<Content>, CallError>,
    /// Resource usage and observations.
    pub metadata: Metadata,
}

/// A failed call, described so that a model can act on it.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::call::error_kind::ErrorKind;
/// use fumehood_core::call::result::CallError;
///
/// let error = CallError::new(ErrorKind::Quota, "too many calls today").with_hint("call again tomorrow");
/// assert_eq!(error.to_string(), "quota: too many calls today (call again tomorrow)");
/// // The status and the `Retry-After` header of a response over HTTP.
/// let error = error.with_retry_after(Duration::from_secs(60));
/// assert_eq!(error.kind.http_status(), 429);
/// assert_eq!(error.retry_after_secs(), Some(60));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// A description of the failure.
    pub message: PrintableText,
    /// A suggested remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<PrintableText>,
    /// The delay after which the same call may be retried, if it is known.
    #[serde(
        default,
        rename = "retry_after_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_millis",
        deserialize_with = "from_optional_millis"
    )]
    pub retry_after: Option<Duration>,
    /// The backtrace of a crashed guest, innermost frame first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<PrintableText>,
    /// The parts and the data of a failed call at an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ErrorDetails>>,
}

impl CallError {
    /// Creates a failure of this kind with this message.
    pub fn new(kind: ErrorKind, message: impl Into<PrintableText>) -> Self {
        Self { kind, message: message.into(), hint: None, retry_after: None, backtrace: Vec::new(), details: None }
    }

    /// Creates the failure of a call whose caller gave up.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "the caller stopped waiting, so the tool was stopped")
    }

    /// Creates the failure of a call that did not run because its start could not be recorded. It may be made again: a log that
    /// cannot write tries again by itself.
    #[must_use]
    pub fn unrecorded(error: &RecordError) -> Self {
        let message = format!("the tool did not run, because the call could not be recorded: {error}");
        Self::new(ErrorKind::Unavailable, message)
            .with_hint("call again a little later; an operator must check the event log")
            .with_retry_after(RETRY_UNRECORDED)
    }

    /// Returns the number of characters of its texts that are escaped because a reader would not see them.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        std::iter::once(&self.message).chain(&self.hint).chain(&self.backtrace).map(PrintableText::hidden_chars).sum()
    }

    /// Sets the suggested remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<PrintableText>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the backtrace of a crashed guest, innermost frame first.
    #[must_use]
    pub fn with_backtrace(mut self, frames: Vec<PrintableText>) -> Self {
        self.backtrace = frames;
        self
    }

    /// Sets what the tool returned besides the message.
    #[must_use]
    pub fn with_details(mut self, details: ErrorDetails) -> Self {
        self.details = (!details.is_empty()).then(|| Box::new(details));
        self
    }

    /// Removes what the tool returned besides the message.
    #[must_use]
    pub fn without_details(mut self) -> Self {
        self.details = None;
        self
    }

    /// Returns the parts of the failed result of an MCP server.
    #[must_use]
    pub fn content(&self) -> &[Content] {
        self.details.as_ref().map(|details| details.content.as_slice()).unwrap_or_default()
    }

    /// Sets the delay after which the call may be retried.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Returns the seconds to wait before the same call may be retried, rounded up and at least one, as in a `Retry-After`
    /// header (RFC 9110, section 10.2.3).
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let after = self.retry_after?;
        Some(after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).max(1))
    }

    /// Returns what the caller can do, in one text: the suggested remedy, and the seconds to wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fumehood_core::call::error_kind::ErrorKind;
    /// use fumehood_core::call::result::CallError;
    ///
    /// let error = CallError::new(ErrorKind::Quota, "too many calls").with_hint("call again later");
    /// let error = error.with_retry_after(Duration::from_millis(39_500));
    /// assert_eq!(error.advice().as_deref(), Some("call again later; retry after 40 s"));
    /// ```
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        let wait = self.retry_after_secs().map(|seconds| format!("retry after {seconds} s"));
        match (&self.hint, wait) {
            (Some(hint), Some(wait)) => Some(format!("{hint}; {wait}")),
            (Some(hint), None) => Some(hint.to_string()),
            (None, wait) => wait,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl std::error::Error for CallError {}

/// The resource usage of a call, and observations about its result.
///
/// ```
/// use fumehood_core::call::result::Metadata;
///
/// fn describe(cost: &Metadata) -> String {
///     format!("{:?}, {} units of fuel, {} bytes", cost.duration, cost.fuel_used, cost.peak_memory)
/// }
///
/// let metadata = Metadata::default().fuel_used(12_345).peak_memory(1 << 16);
/// assert_eq!(describe(&metadata), "0ns, 12345 units of fuel, 65536 bytes");
/// // A power that the tool tried to use without a grant.
/// assert!(metadata.refused.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Metadata {
    /// Bytes over all parts of the result, as the tool returned them.
    pub bytes: usize,
    /// True if the result was truncated.
    pub truncated: bool,
    /// The MIME type of the result: that of its only part, or `multipart/mixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<Cow<'static, str>>,
    /// The time from leaving the queue until the instance was dropped.
    #[serde(rename = "duration_ms", serialize_with = "millis", deserialize_with = "from_millis")]
    pub duration: Duration,
    /// The time that the call waited for a free slot.
    #[serde(rename = "queue_ms", serialize_with = "millis", deserialize_with = "from_millis")]
    pub queued: Duration,
    /// The deadline of the call.
    #[serde(rename = "deadline_ms", serialize_with = "millis", deserialize_with = "from_millis")]
    pub deadline: Duration,
    /// Fuel that the guest used. Exact and deterministic if it returned, aborted, used up its fuel, or was stopped while
    /// it waited for the host. If it was stopped or crashed while it ran, at most 4 million units more than it used.
    pub fuel_used: u64,
    /// Peak size of its memories and tables, in bytes, without what the host kept for it.
    pub peak_memory: usize,
    /// Number of characters that a reader would not see or that a terminal would act on, in all output of the tool: its
    /// result or failure, log lines, progress, stdout and stderr, as far as those were kept. They are escaped wherever
    /// the output is shown to a person or a model; [`CallResult::content`] has them as the tool wrote them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sanitized: u64,
    /// Bytes of log lines and progress that were dropped.
    pub log_dropped: u64,
    /// Attempts that were not granted, in the order in which they were made. A few at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// Attempts that exceeded a quota, such as bytes on disk or requests, each as a sentence. A few at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<String>,
    /// The HTTP requests and TCP connections that the tool made, or was refused, in the order in which they ended. The first 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestReport>,
    /// Output of the guest on stdout, capped. Never part of the result.
    #[serde(skip_serializing_if = "CapturedStream::is_empty")]
    pub stdout: CapturedStream,
    /// Output of the guest on stderr, capped. Never part of the result.
    #[serde(skip_serializing_if = "CapturedStream::is_empty")]
    pub stderr: CapturedStream,
    /// Members of an MCP server's result besides its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Box<ResultMembers>>,
    /// The worker of a cell that ran the call, or that was lost with it; `None` if it ran in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Cow<'static, str>>,
}

impl Metadata {
    /// Sets the size of the result, in bytes.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the MIME type of the result.
    #[must_use]
    pub fn mime(mut self, mime: Option<Cow<'static, str>>) -> Self {
        self.mime = mime;
        self
    }

    /// Sets the time that the call took.
    #[must_use]
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Sets the time that the call waited for a free slot.
    #[must_use]
    pub const fn queued(mut self, queued: Duration) -> Self {
        self.queued = queued;
        self
    }

    /// Sets the deadline of the call.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the fuel that the guest used.
    #[must_use]
    pub const fn fuel_used(mut self, fuel_used: u64) -> Self {
        self.fuel_used = fuel_used;
        self
    }

    /// Sets the peak size of its memories and tables, in bytes.
    #[must_use]
    pub const fn peak_memory(mut self, peak_memory: usize) -> Self {
        self.peak_memory = peak_memory;
        self
    }

    /// Sets the number of bytes of log lines and progress that were dropped.
    #[must_use]
    pub const fn log_dropped(mut self, log_dropped: u64) -> Self {
        self.log_dropped = log_dropped;
        self
    }

    /// Sets the number of characters that are escaped.
    #[must_use]
    pub const fn sanitized(mut self, sanitized: u64) -> Self {
        self.sanitized = sanitized;
        self
    }

    /// Sets the attempts that were not granted.
    #[must_use]
    pub fn refused(mut self, refused: Vec<Refusal>) -> Self {
        self.refused = refused;
        self
    }

    /// Sets the attempts that exceeded a quota.
    #[must_use]
    pub fn exhausted(mut self, exhausted: Vec<String>) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// Sets the HTTP requests of the tool.
    #[must_use]
    pub fn requests(mut self, requests: Vec<RequestReport>) -> Self {
        self.requests = requests;
        self
    }

    /// Sets the output on stdout.
    #[must_use]
    pub fn stdout(mut self, stdout: CapturedStream) -> Self {
        self.stdout = stdout;
        self
    }

    /// Sets the output on stderr.
    #[must_use]
    pub fn stderr(mut self, stderr: CapturedStream) -> Self {
        self.stderr = stderr;
        self
    }

    /// Sets the members of an MCP server's result besides its content.
    #[must_use]
    pub fn members(mut self, members: Option<Box<ResultMembers>>) -> Self {
        self.members = members;
        self
    }

    /// Sets the worker of a cell that ran the call.
    #[must_use]
    pub fn worker(mut self, worker: Option<Cow<'static, str>>) -> Self {
        self.worker = worker;
        self
    }

    /// Adds the size of an outcome and its number of hidden characters.
    ///
    /// For tools that are not components: the sandbox has not counted their texts.
    #[must_use]
    pub fn with_outcome(self, outcome: &Result<Vec<Content>, CallError>) -> Self {
        let (bytes, hidden) = match outcome {
            Ok(parts) => (parts.iter().map(Content::bytes).sum(), parts.iter().map(Content::hidden_chars).sum()),
            Err(error) => (0, error.hidden_chars()),
        };
        let hidden = hidden + self.members.as_ref().map_or(0, |members| members.hidden_chars());
        Self { bytes, sanitized: self.sanitized + hidden, ..self }
    }
}

impl CallResult {
    /// Replaces the outcome. What the tool wrote to its standard streams, and members of the result besides its content, are
    /// left out, because they may have the same as the outcome that is replaced.
    #[must_use]
    pub fn replace(mut self, outcome: Result<Vec<Content>, CallError>) -> Self {
        (self.metadata.stdout, self.metadata.stderr) = Default::default();
        self.metadata.members = None;
        self.metadata.mime = match outcome.as_deref() {
            Ok([only]) => Some(only.mime()),
            Ok([_, ..]) => Some(Cow::Borrowed("multipart/mixed")),
            Ok([]) | Err(_) => None,
        };
        let metadata = std::mem::take(&mut self.metadata).with_outcome(&outcome);
        Self { outcome, metadata, ..self }
    }

    /// Withholds the outcome for this reason. The result has none of its content.
    #[must_use]
    pub fn withhold(mut self, reason: &str) -> Self {
        let message = format!("the result was withheld: {reason}");
        let hint = "the tool has already run; do not repeat the call";
        self.outcome = Err(CallError::new(ErrorKind::Denied, message).with_hint(hint));
        // Output of the tool may contain the same secrets.
        (self.metadata.stdout, self.metadata.stderr) = Default::default();
        self.metadata.members = None;
        self
    }
}

/// The outcome of one HTTP request of a call, or of one TCP connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// The method; [`Self::CONNECTION`] for a connection.
    pub method: String,
    /// The host, and the port unless it is the default one of a request. Path and query are left out, because they may hold private
    /// data.
    pub host: String,
    /// The status of the response, if there was one. A connection has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason of a refusal or failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes sent: address, headers and body.
    pub bytes_out: u64,
    /// Bytes received: headers and body.
    pub bytes_in: u64,
}

impl RequestReport {
    /// The method of a TCP connection. No tool makes a request with this method.
    pub const CONNECTION: &str = "CONNECT";
}

/// The output of a guest on one stream, up to a cap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedStream {
    /// The captured text. Bytes that are not UTF-8 are replaced.
    #[serde(serialize_with = "expose_raw")]
    pub text: Untrusted<String>,
    /// The number of bytes after it that were dropped.
    pub dropped: u64,
}

impl CapturedStream {
    /// Returns whether the guest wrote nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.dropped == 0
    }
}

impl CallResult {
    /// Returns whether the call succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    /// Returns the parts of the result; none if the call failed.
    #[must_use]
    pub fn content(&self) -> &[Content] {
        self.outcome.as_deref().unwrap_or_default()
    }

    /// Returns the failure, if the call failed.
    #[must_use]
    pub fn error(&self) -> Option<&CallError> {
        self.outcome.as_ref().err()
    }

    /// Returns the cost of the call for its record, without anything of its result.
    #[must_use]
    pub fn to_usage(&self) -> Value {
        let Metadata { duration, fuel_used, peak_memory, requests, worker, .. } = &self.metadata;
        let mut usage = serde_json::json!({
            "duration_ms": u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) as f64 / 1000.0,
            "fuel_used": fuel_used,
            "peak_memory": peak_memory,
            "bytes": self.content().iter().map(Content::bytes).sum::<usize>(),
        });
        if let Value::Object(usage) = &mut usage {
            if !requests.is_empty() {
                // Method, host, status and sizes only, nothing of the bodies.
                usage.insert("requests".to_owned(), serde_json::json!(requests));
            }
            if let Some(worker) = worker {
                usage.insert("worker".to_owned(), serde_json::json!(worker));
            }
        }
        usage
    }

    /// Returns the first text or JSON part, sanitized. Most tools return nothing else. Sanitized JSON has the same
    /// value.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.content().iter().find_map(|part| match part {
            Content::Text { text } => Some(text.to_sanitized()),
            Content::Json { value } => Some(value.to_sanitized()),
            Content::Blob { .. } | Content::Link { .. } => None,
        })
    }

    /// Deserializes the first text or JSON part, the one that [`Self::text`] returns. Its strings are as the tool wrote
    /// them, and not sanitized.
    ///
    /// ```
    /// use fumehood_core::call::content::Content;
    /// use fumehood_core::call::result::{CallResult, Metadata};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     result: f64,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outcome = Ok(vec![Content::json(r#"{"result":8}"#.to_owned())?]);
    /// # let metadata = Metadata::default();
    /// # let result = CallResult { id: "7".to_owned(), tool: "calculator__add".to_owned(), outcome, metadata };
    /// let sum: Sum = result.json()?;
    /// assert_eq!(sum.result, 8.0);
    /// // The error says what the tool returned instead.
    /// assert!(result.json::<Vec<String>>().is_err_and(|error| error.to_string().contains("invalid type: map")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the call failed, or has no such part, or the part is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, JsonResultError> {
        let parts = self.outcome.as_ref().map_err(|error| JsonResultError::Failed(error.clone()))?;
        let read = parts.iter().find_map(|part| match part {
            Content::Json { value } => Some(("JSON", value.read())),
            Content::Text { text } => Some(("text", text.read_json())),
            Content::Blob { .. } | Content::Link { .. } => None,
        });
        let (part, value) = read.ok_or_else(|| JsonResultError::Missing { found: describe_parts(parts) })?;
        value.map_err(|error: serde_json::Error| {
            let reason = error.to_string();
            JsonResultError::Mismatch { part, reason: truncate_str(&reason, MAX_REASON_BYTES).into() }
        })
    }
}

/// Errors of [`CallResult::json`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonResultError {
    /// The call failed, so it has no result.
    #[error(transparent)]
    Failed(CallError),
    /// The result has neither a text nor a JSON part.
    #[error("the result has no text or JSON part; it has {found}")]
    Missing {
        /// A description of its parts.
        found: String,
    },
    /// The part is not JSON of the expected type.
    #[error("the {part} part of the result does not match the expected type: {reason}")]
    Mismatch {
        /// The kind of the part: `JSON` or `text`.
        part: &'static str,
        /// The difference, which may quote the tool.
        reason: PrintableText,
    },
}

/// Describes parts that are neither text nor JSON by their numbers, such as `1 blob and 2 links`.
fn describe_parts(parts: &[Content]) -> String {
    let blobs = parts.iter().filter(|part| matches!(part, Content::Blob { .. })).count();
    let links = parts.iter().filter(|part| matches!(part, Content::Link { .. })).count();
    match (blobs, links) {
        (0, 0) => "no parts".to_owned(),
        (_, 0) => format_count(blobs, "blob"),
        (0, _) => format_count(links, "link"),
        (_, _) => format!("{} and {}", format_count(blobs, "blob"), format_count(links, "link")),
    }
}

fn format_count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

impl Serialize for CallResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            id: &'a str,
            tool: &'a str,
            status: &'static str,
            content: &'a [Content],
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a CallError>,
            metadata: &'a Metadata,
        }
        Shape {
            id: &self.id,
            tool: &self.tool,
            status: if self.is_ok() { "ok" } else { "error" },
            content: self.content(),
            error: self.error(),
            metadata: &self.metadata,
        }
        .serialize(serializer)
    }
}

/// Writes milliseconds with microsecond resolution: the one place where a duration becomes a number in JSON.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    serializer.serialize_f64(micros as f64 / 1000.0)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn optional_millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => millis(duration, serializer),
        None => serializer.serialize_none(),
    }
}

impl<'de> Deserialize<'de> for CallResult {
    /// Reads the serialized form of [`CallResult`], so that stored results can be shown again.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Shape {
            id: String,
            tool: String,
            content: Vec<Content>,
            #[serde(default)]
            error: Option<CallError>,
            metadata: Metadata,
        }
        let Shape { id, tool, content, error, metadata } = Shape::deserialize(deserializer)?;
        Ok(Self { id, tool, outcome: error.map_or(Ok(content), Err), metadata })
    }
}

/// Reads the output of [`millis`]. Negative numbers become zero.
fn from_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let millis = json::deserialize_float(deserializer)?;
    // The cast saturates; NaN becomes zero.
    Ok(Duration::from_micros((millis * 1000.0).round() as u64))
}

fn from_optional_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    from_millis(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check_json(outcome: Result<Vec<Content>, CallError>, expected: Result<Vec<u32>, &str>) {
        let metadata = Metadata::default();
        let result = CallResult { id: "c1".to_owned(), tool: "a__b".to_owned(), outcome, metadata };
        let read = result.json::<Vec<u32>>().map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn reads_first_text_or_json_part() {
        let json = |text: &str| Content::json(text.to_owned()).unwrap();
        let blob = || Content::Blob { mime_type: "image/png".into(), data: vec![1] };
        let link = || Content::Link { uri: "urn:x".into(), title: None, mime_type: None };
        check_json(Ok(vec![json("[1, 2]")]), Ok(vec![1, 2]));
        check_json(Ok(vec![blob(), Content::text("[3]"), json("[4]")]), Ok(vec![3]));
        check_json(Ok(Vec::new()), Err("the result has no text or JSON part; it has no parts"));
        check_json(Ok(vec![blob()]), Err("the result has no text or JSON part; it has 1 blob"));
        let parts = vec![link(), blob(), link()];
        check_json(Ok(parts), Err("the result has no text or JSON part; it has 1 blob and 2 links"));
        check_json(Err(CallError::new(ErrorKind::Fuel, "used up")), Err("fuel: used up"));
        let mismatch = "the JSON part of the result does not match the expected type: invalid type: map, expected a \
                        sequence at line 1 column 0";
        check_json(Ok(vec![json("{}")]), Err(mismatch));
        let prose = "the text part of the result does not match the expected type: expected value at line 1 column 1";
        check_json(Ok(vec![Content::text("eight")]), Err(prose));
    }

    #[test]
    fn reasons_of_mismatch_are_short_and_printable() {
        let text = Content::text(format!("\"\u{202e}{}\"", "x".repeat(1000)));
        let metadata = Metadata::default();
        let result = CallResult { id: String::new(), tool: String::new(), outcome: Ok(vec![text]), metadata };
        let error = result.json::<u32>().unwrap_err().to_string();
        assert!(error.len() < 400 && !error.contains('\u{202e}'), "{error}");
    }

    #[test]
    fn deserializes_serialized_result() {
        let metadata = Metadata {
            duration: Duration::from_micros(1500),
            mime: Some(Cow::Borrowed("text/plain")),
            fuel_used: 7,
            ..Metadata::default()
        };
        let parts = vec![
            Content::text("3"),
            Content::json(r#"{"b": 1, "a": 2.50}"#.to_owned()).unwrap(),
            Content::Blob { mime_type: "image/png".into(), data: vec![0, 255] },
            Content::Link { uri: "urn:x".into(), title: None, mime_type: None },
        ];
        let mut error = CallError::new(ErrorKind::Deadline, "stopped").with_hint("ask for less");
        for outcome in [Ok(parts), Err(error.clone()), {
            error.retry_after = Some(Duration::from_millis(3));
            Err(error)
        }] {
            let result = CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: metadata.clone() };
            let text = serde_json::to_string(&result).unwrap();
            let read: CallResult = serde_json::from_str(&text).unwrap();
            assert_eq!(format!("{read:?}"), format!("{result:?}"));
        }
    }

    /// Event logs and saved sessions have this text.
    #[test]
    fn json_of_results_is_stable() {
        let refused = Refusal {
            power: crate::call::Power::Env,
            tried: "reading `A`".to_owned(),
            because: "it was not granted".to_owned(),
            allow: None,
        };
        let metadata = Metadata {
            bytes: 2,
            mime: Some(Cow::Borrowed("application/json")),
            duration: Duration::from_nanos(1_234_567),
            fuel_used: 7,
            sanitized: 1,
            refused: vec![refused],
            stdout: CapturedStream { text: "x y".into(), dropped: 3 },
            ..Metadata::default()
        };
        let mut error = CallError::new(ErrorKind::Trap, "stopped").with_retry_after(Duration::from_millis(3));
        error.backtrace.push("f".into());
        let part = Content::Blob { mime_type: "image/png".into(), data: vec![0, 255] };
        let text = [Ok(vec![part]), Err(error)].map(|outcome| {
            let metadata = metadata.clone();
            serde_json::to_string(&CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata }).unwrap()
        });
        expect_test::expect![[r#"
            {"id":"1","tool":"t","status":"ok","content":[{"type":"blob","mime_type":"image/png","data":"AP8="}],"metadata":{"bytes":2,"truncated":false,"mime":"application/json","duration_ms":1.234,"queue_ms":0.0,"deadline_ms":0.0,"fuel_used":7,"peak_memory":0,"sanitized":1,"log_dropped":0,"refused":[{"power":"env","tried":"reading `A`","because":"it was not granted"}],"stdout":{"text":"x y","dropped":3}}}
            {"id":"1","tool":"t","status":"error","content":[],"error":{"kind":"trap","message":"stopped","retry_after_ms":3.0,"backtrace":["f"]},"metadata":{"bytes":2,"truncated":false,"mime":"application/json","duration_ms":1.234,"queue_ms":0.0,"deadline_ms":0.0,"fuel_used":7,"peak_memory":0,"sanitized":1,"log_dropped":0,"refused":[{"power":"env","tried":"reading `A`","because":"it was not granted"}],"stdout":{"text":"x y","dropped":3}}}"#]].assert_eq(&text.join("\n"));
    }

    #[test]
    fn success_and_failure_have_one_shape() {
        let metadata = Metadata { duration: Duration::from_micros(1500), ..Metadata::default() };
        let mut result = CallResult {
            id: "1".to_owned(),
            tool: "calculator__add".to_owned(),
            outcome: Ok(vec![Content::text("3")]),
            metadata,
        };
        let ok = serde_json::to_value(&result).unwrap();
        assert_eq!(ok["status"], "ok");
        assert_eq!(ok["content"], json!([{"type": "text", "text": "3"}]));
        assert_eq!(ok["metadata"]["duration_ms"], json!(1.5));
        assert_eq!(ok.get("error"), None);

        result.outcome = Err(CallError::new(ErrorKind::Deadline, "stopped after 1 s").with_hint("ask for less"));
        let error = serde_json::to_value(&result).unwrap();
        assert_eq!(error["status"], "error");
        assert_eq!(error["content"], json!([]));
        assert_eq!(error["error"], json!({"kind": "deadline", "message": "stopped after 1 s", "hint": "ask for less"}));
    }
}
