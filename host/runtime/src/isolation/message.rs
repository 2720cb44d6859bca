//! Messages between a host and a worker. Both are the same program, so the format has no versions.
//!
//! A worker may be taken over, so every list that it sends has a maximum length, which decoding enforces. An honest worker keeps
//! within the same constants: it truncates a list, or fails the call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::bounded_list::{self, BoundedList};
use fumehood_core::call::Usage;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, CapturedStream};
use fumehood_core::capability::CapabilityError;
use fumehood_core::key_value::{Key, Page, Query, StoreError};
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::files::{ProtectedFiles, Quota};
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
use fumehood_core::tool::resource::RawResource;
use serde::{Deserialize, Serialize};

use super::frame::MAX_MESSAGE_BYTES;
use super::values::Values;
pub(super) use crate::call::outcome::{MAX_BACKTRACE_FRAMES, MAX_PARTS};
use crate::engine::{EngineKind, EngineProfile};
use crate::jail::JailReport;
use crate::wasi::sockets::SocketError;
use crate::wasi::{Invocation, MAX_REFUSALS};

/// Maximum number of headers of a request or a response.
pub(super) const MAX_HEADERS: usize = 4_096;
/// Maximum number of addresses of a name.
pub(super) const MAX_FOUND_ADDRESSES: usize = 16;
/// Maximum number of tools of a component, and of its exports that are not tools.
pub(super) const MAX_DEFINITIONS: usize = 4_096;

/// Maximum number of resources of a component. The host accepts fewer.
pub(super) const MAX_LISTED_RESOURCES: usize = 1_024;

/// Maximum size of a message besides the texts that the limits of a call count, in bytes: the head of a request, an entry of the
/// store, an error with its backtrace and refusals, the lengths of all parts.
pub(super) const MESSAGE_MARGIN_BYTES: usize = 4 << 20;

/// Returns the maximum size of a message that a call within these limits causes, in bytes: its result with its standard streams,
/// of which a byte that is not UTF-8 becomes three.
pub(super) fn max_message_bytes(limits: &Limits) -> usize {
    let texts = limits.output.saturating_add(limits.log.saturating_mul(3));
    texts.saturating_add(MESSAGE_MARGIN_BYTES).min(MAX_MESSAGE_BYTES)
}

/// The parts of a result.
pub(super) type Parts = BoundedList<Part, MAX_PARTS>;
/// Refusals, or allowances that were used up.
pub(super) type Refused = BoundedList<String, MAX_REFUSALS>;
/// The names and values of headers.
pub(super) type Headers = BoundedList<(String, Vec<u8>), MAX_HEADERS>;

/// The first message to a worker: everything that it needs to load its component.
///
/// Files are sent with it: the component's bytes, its compiled code, the scratch folder if there is one, and the granted
/// folders in their order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Everything about the host's engine that compiled code depends on.
    pub(super) engine: String,
    pub(super) engine_kind: EngineKind,
    pub(super) profile: EngineProfile,
    /// Maximum number of calls that run at once.
    pub(super) concurrency: u32,
    pub(super) guest_threads: u32,
    /// Maximum memory limit of a call, in bytes.
    pub(super) memory_ceiling: usize,
    pub(super) name: Option<String>,
    /// The powers that a worker enforces itself.
    pub(super) grant: Arc<Grant>,
    pub(super) may_request: bool,
    /// True if the component has them while it describes itself, too.
    pub(super) describe_with_grant: bool,
    /// The names of secrets.
    pub(super) secrets: Vec<String>,
    pub(super) folders: Vec<GrantedFolder>,
    /// Files in the folders that no tool may change, or read.
    pub(super) protected: ProtectedFiles,
    pub(super) definitions: DefinitionLimits,
    /// The content of a `package-docs` section, in place of the component's own.
    pub(super) docs: Option<Vec<u8>>,
    /// Limits of the call that describes the tools; `None` if the host has the definitions already.
    pub(super) describe: Option<Limits>,
    /// True if an incomplete jail is an error.
    pub(super) is_jail_required: bool,
    /// The capabilities that are granted. The grants themselves stay with the host.
    pub(super) capabilities: Vec<CapabilitySetup>,
}

/// A capability that the host provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CapabilitySetup {
    pub(super) name: String,
    pub(super) description: String,
    /// The WIT package with its interfaces.
    pub(super) wit: String,
}

/// The answer to [`FromWorker::Use`]: the result of the function, if it has one.
pub(super) type UseAnswer = Result<Values, CapabilityError>;

/// A granted folder, without its path in the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GrantedFolder {
    /// The path that the guest sees.
    pub(super) guest: String,
    /// The quota for writing; `None` if the folder is read-only.
    pub(super) quota: Option<Quota>,
    /// The line of a policy that would allow writing.
    pub(super) write_line: String,
}

/// The answer to [`Setup`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Loaded {
    Ready {
        jail: JailReport,
        definitions: BoundedList<DescribedTool, MAX_DEFINITIONS>,
        resources: BoundedList<RawResource, MAX_LISTED_RESOURCES>,
        /// The exports that are not tools: name, reason.
        skipped: BoundedList<(String, String), MAX_DEFINITIONS>,
    },
    Failed {
        failure: LoadFailure,
        message: String,
    },
    /// A failure of the component to describe its tools.
    NotDescribed(Failure),
    /// A failure of the component to list its resources.
    NotListed(Failure),
}

/// The kind of a load error that a worker found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LoadFailure {
    Link,
    Typed,
    Jail,
    Host,
}

/// A tool as its component describes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct DescribedTool {
    pub(super) definition: RawDefinition,
    /// The name of the export, if it differs from that of the tool.
    pub(super) export: Option<String>,
}

/// A message to a worker whose component is loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ToWorker {
    Call(CallMessage),
    /// The new list of protected files.
    Protect(ProtectedFiles),
    /// Cancel a call. It still ends with the metadata of its cost.
    Cancel {
        call: u64,
    },
    /// The answer to [`FromWorker::Store`].
    Stored {
        step: u64,
        answer: Result<StoreAnswer, StoreError>,
    },
    /// The answer to [`FromWorker::Use`].
    Used {
        step: u64,
        answer: UseAnswer,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CallMessage {
    pub(super) call: u64,
    /// Index into the definitions.
    pub(super) tool: usize,
    /// JSON text that has passed the tool's schema.
    pub(super) arguments: String,
    pub(super) invocation: Invocation,
}

/// A message from a worker whose component is loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum FromWorker {
    Ended {
        call: u64,
        outcome: Result<Parts, Failure>,
        cost: Cost,
    },
    /// The call goes on after its first slice. Without this message, only the oldest call of a worker may have begun.
    Began {
        call: u64,
    },
    Log {
        call: u64,
        level: Level,
        message: String,
    },
    Progress {
        call: u64,
        fraction: Option<f64>,
        message: Option<String>,
        partial: Parts,
    },
    /// The cost so far.
    Used {
        call: u64,
        usage: Usage,
    },
    /// An operation on the store of keys and values.
    Store {
        call: u64,
        step: u64,
        patience: Duration,
        what: StoreStep,
    },
    /// An HTTP request. One file is sent with it: the stream of its bodies and of its response.
    Request {
        call: u64,
        head: RequestHead,
    },
    /// A lookup or a connection. One file is sent with it: the stream of its answer and of its bytes.
    Socket {
        call: u64,
        wanted: SocketStep,
    },
    /// A function of a capability.
    Use {
        call: u64,
        step: u64,
        capability: String,
        interface: String,
        function: String,
        arguments: Values,
    },
    /// The end of a handle of a capability.
    DropHandle {
        call: u64,
        capability: String,
        resource: String,
        handle: u32,
    },
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Part {
    Text(String),
    Json(String),
    Blob { mime_type: String, data: Vec<u8> },
    Link { uri: String, title: Option<String>, mime_type: Option<String> },
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CallErrorForm", into = "CallErrorForm")]
pub(super) struct Failure(pub(super) CallError);

/// The form of an error in messages. Its JSON leaves out what is empty, and a format without names cannot.
#[derive(Serialize, Deserialize)]
struct CallErrorForm {
    kind: ErrorKind,
    message: PrintableText,
    hint: Option<PrintableText>,
    retry_after: Option<Duration>,
    #[serde(deserialize_with = "bounded_list::deserialize::<MAX_BACKTRACE_FRAMES, _, _>")]
    backtrace: Vec<PrintableText>,
}

impl From<Failure> for CallErrorForm {
    fn from(Failure(error): Failure) -> Self {
        // Only errors of MCP servers have details.
        let CallError { kind, message, hint, retry_after, backtrace, .. } = error;
        Self { kind, message, hint, retry_after, backtrace }
    }
}

impl From<CallErrorForm> for Failure {
    fn from(form: CallErrorForm) -> Self {
        let CallErrorForm { kind, message, hint, retry_after, backtrace } = form;
        let mut error = CallError::new(kind, message).with_backtrace(backtrace);
        error.hint = hint;
        error.retry_after = retry_after;
        Self(error)
    }
}

/// The metadata of a call that its worker measures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) duration: Duration,
    pub(super) fuel_used: u64,
    pub(super) peak_memory: usize,
    pub(super) sanitized: u64,
    pub(super) log_dropped: u64,
    /// The refusals as JSON: see [`Refusal`](fumehood_core::policy::permission::Refusal).
    pub(super) refused: Refused,
    pub(super) exhausted: Refused,
    pub(super) stdout: CapturedStream,
    pub(super) stderr: CapturedStream,
}

/// An operation on the store. The host supplies its owner and quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoreStep {
    Get(Key),
    Set(Key, Vec<u8>),
    /// The key, the value that it must have, and the new one.
    CompareAndSet(Key, Option<Vec<u8>>, Vec<u8>),
    Delete(Key),
    List(Query),
}

/// A lookup or a connection that a guest wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SocketStep {
    LookUp(String),
    Connect(SocketAddr),
}

/// The answer to a [`SocketStep`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SocketAnswer {
    Found(BoundedList<IpAddr, MAX_FOUND_ADDRESSES>),
    Connected,
    Failed(SocketError),
}

impl FromWorker {
    /// Returns the call that a message is about.
    pub(super) fn call(&self) -> u64 {
        match self {
            Self::Ended { call, .. }
            | Self::Began { call }
            | Self::Log { call, .. }
            | Self::Progress { call, .. }
            | Self::Used { call, .. }
            | Self::Store { call, .. }
            | Self::Request { call, .. }
            | Self::Socket { call, .. }
            | Self::Use { call, .. }
            | Self::DropHandle { call, .. } => *call,
        }
    }
}

impl StoreStep {
    /// Returns the function of the interface `key-value` that the guest called.
    pub(super) fn function(&self) -> &'static str {
        match self {
            Self::Get(_) => "key-value.get",
            Self::Set(..) => "key-value.set",
            Self::CompareAndSet(..) => "key-value.compare-and-set",
            Self::Delete(_) => "key-value.delete",
            Self::List(_) => "key-value.list",
        }
    }
}

/// The answer to a [`StoreStep`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoreAnswer {
    Value(Option<Vec<u8>>),
    Done,
    /// True if the operation changed something.
    Changed(bool),
    Page(Page),
}

/// The head of a request, as the guest made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) headers: Headers,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) first_byte_timeout: Option<Duration>,
    pub(super) between_bytes_timeout: Option<Duration>,
    /// The length of the body, if it is known.
    pub(super) body_bytes: Option<u64>,
}

/// A message on the stream of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BodyMessage {
    /// The head of the response. Sent only by the host, as its first message.
    Head {
        status: u16,
        headers: Headers,
        body_bytes: Option<u64>,
    },
    Data(Vec<u8>),
    Trailers(Headers),
    End,
    /// A failure of the request or of a body: the index of its error in the list of `body_stream`.
    Failed(u8),
}
