//! Messages between a host and a worker. Both are the same program, so there are no versions.

use std::time::Duration;

use fumehood_core::error_kind::ErrorKind;
use fumehood_core::event::Level;
use fumehood_core::permission::files::ProtectedFiles;
use serde::{Deserialize, Serialize};

use crate::engine::EngineProfile;
use crate::jail::JailReport;

/// First message to a worker: everything that it needs to load its component.
///
/// Beside it travel descriptors: the component's bytes, its compiled code, the scratch folder if there is one, and the
/// granted folders in their order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Everything about the host's engine that compiled code depends on.
    pub(super) engine: String,
    pub(super) profile: EngineProfile,
    /// Calls that run at once.
    pub(super) concurrency: u32,
    pub(super) guest_threads: u32,
    /// The largest memory limit of a call, in bytes.
    pub(super) memory_ceiling: u64,
    pub(super) name: Option<String>,
    pub(super) powers: Powers,
    pub(super) folders: Vec<GrantedFolder>,
    /// Files in them that no tool may change, or read.
    pub(super) protected: ProtectedFiles,
    pub(super) definitions: DefinitionCaps,
    /// The content of a `package-docs` section, instead of that of the component.
    pub(super) docs: Option<Vec<u8>>,
    /// Limits of the call that describes the tools; `None` if that is known already.
    pub(super) describe: Option<CallLimits>,
    /// Whether an incomplete jail is an error.
    pub(super) is_jail_required: bool,
}

/// The grant, without secrets, rules for requests, and paths: those stay with the host.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Powers {
    pub(super) state: bool,
    pub(super) environment: Vec<(String, String)>,
    pub(super) command_line: Vec<String>,
    pub(super) clock: Duration,
    pub(super) seed: Option<[u8; 32]>,
    pub(super) key_value_bytes: Option<u64>,
    pub(super) scratch: Option<FolderQuota>,
    pub(super) may_request: bool,
    /// Names only.
    pub(super) secrets: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GrantedFolder {
    pub(super) guest: String,
    /// `None` for reading only.
    pub(super) quota: Option<FolderQuota>,
    /// The line of a policy that would allow writing.
    pub(super) write_line: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct FolderQuota {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct DefinitionCaps {
    pub(super) tools: u64,
    pub(super) title_bytes: u64,
    pub(super) description_bytes: u64,
    pub(super) schema_bytes: u64,
}

/// First answer of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Loaded {
    Ready {
        jail: JailReport,
        definitions: Vec<Definition>,
        /// Exports that are no tools: name, reason.
        skipped: Vec<(String, String)>,
    },
    Failed {
        failure: LoadFailure,
        message: String,
    },
    /// The component failed while it described its tools.
    NotDescribed(Failure),
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
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) export: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) input_schema: String,
    pub(super) output_schema: Option<String>,
    /// Read-only, destructive, idempotent, open-world.
    pub(super) annotations: [Option<bool>; 4],
}

/// A message to a worker whose component is loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ToWorker {
    Call(CallMessage),
    /// The protected files are these from now on.
    Protect(ProtectedFiles),
    /// End a call as cancelled, with the account of what it cost.
    Cancel {
        call: u64,
    },
    /// The answer to [`FromWorker::Store`].
    Stored {
        step: u64,
        answer: StoreAnswer,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CallMessage {
    pub(super) call: u64,
    /// Position among the definitions.
    pub(super) tool: u32,
    /// JSON text that has passed the gate.
    pub(super) arguments: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) actor: Option<String>,
    pub(super) state: Option<String>,
    pub(super) limits: CallLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallLimits {
    pub(super) deadline: Duration,
    pub(super) fuel: u64,
    pub(super) memory: u64,
    pub(super) output: u64,
    pub(super) log: u64,
    pub(super) handles: u64,
    pub(super) hostcall_bytes: u64,
    pub(super) random_bytes: u64,
}

/// A message from a worker whose component is loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum FromWorker {
    Ended {
        call: u64,
        outcome: Result<Vec<Part>, Failure>,
        cost: Cost,
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
        partial: Vec<Part>,
    },
    /// One step at the store of keys and values.
    Store {
        step: u64,
        patience: Duration,
        what: StoreStep,
    },
    /// One HTTP request. A descriptor travels beside it: the stream of its bodies and of its response.
    Request {
        call: u64,
        head: RequestHead,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) backtrace: Vec<String>,
}

/// What a call cost in its worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) duration: Duration,
    pub(super) fuel_used: u64,
    pub(super) peak_memory: u64,
    pub(super) sanitized: u64,
    pub(super) log_dropped: u64,
    /// Power, what was tried, why not, and the line that would allow it: see `Refusal`, as JSON.
    pub(super) refused: Vec<String>,
    pub(super) exhausted: Vec<String>,
    pub(super) stdout: (String, u64),
    pub(super) stderr: (String, u64),
}

/// A step at the store. Whose store it is and how much it may keep, the host knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoreStep {
    Get { key: String },
    Set { key: String, value: Vec<u8> },
    Delete { key: String },
    List { prefix: String, after: Option<String>, limit: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoreAnswer {
    Value(Option<Vec<u8>>),
    Done,
    Deleted(bool),
    Page { keys: Vec<String>, more: bool },
    Full { found: u64, most: u64 },
    Unavailable(String),
}

/// The head of a request, as the guest made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) first_byte_timeout: Option<Duration>,
    pub(super) between_bytes_timeout: Option<Duration>,
    /// The length of the body, if it is known.
    pub(super) body_bytes: Option<u64>,
}

/// A message on the stream of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BodyMessage {
    /// The response begins. From the host only, and first.
    Head {
        status: u16,
        headers: Vec<(String, Vec<u8>)>,
        body_bytes: Option<u64>,
    },
    Data(Vec<u8>),
    Trailers(Vec<(String, Vec<u8>)>),
    End,
    /// The request or a body failed; the number of an error of the contract.
    Failed(u8),
}
