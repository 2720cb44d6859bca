//! `[tools.NAME]`: one component, and the powers of its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::amount::{Bytes, Count, Time};
use super::flows::FlowLabelName;
use super::limits::LimitsSection;
use super::sources::SecretSection;

/// Approval that a component needs before its tools can be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalRule {
    /// It has to be approved with `fumehood approve`, and again after every change.
    #[default]
    Required,
    /// It can be called as it is, even after its file changed.
    Off,
}

/// Level of detail in the log of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PersistRule {
    /// Arguments and results.
    #[default]
    Full,
    /// Only that calls were made and how they ended. The model sees all of the result.
    Nothing,
}

/// Isolation of the calls of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IsolationRule {
    /// In a worker process of its own.
    Process,
    /// In the process of the host.
    InProcess,
}

impl From<IsolationRule> for fumehood::Isolation {
    fn from(rule: IsolationRule) -> Self {
        match rule {
            IsolationRule::Process => Self::Process,
            IsolationRule::InProcess => Self::InProcess,
        }
    }
}

/// A component, and what its tools may do. Without further lines they can compute, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSection {
    /// The `.wasm` file. The path is relative to this configuration. Either this or `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) component: Option<PathBuf>,
    /// The component in a registry, "oci://HOST/NAME:TAG" or "oci://HOST/NAME@sha256:…", or at "https://…#sha256=…". The lock
    /// pins which one a tag stands for; `fumehood update` moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    /// Limits of one call. A limit that is left out is as in [limits].
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    /// Refuse to load it if it even imports a power that is not granted here.
    #[serde(default)]
    pub(crate) strict_imports: bool,
    /// Approval of the component: "required" (usual) or "off".
    #[serde(default)]
    pub(crate) approval: ApprovalRule,
    /// Level of detail in the log of its calls: "full" (usual), or "nothing" but that they were made and how they
    /// ended.
    #[serde(default)]
    pub(crate) persist: PersistRule,
    /// Bytes of a result that a model is shown. Usually 4KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_bytes: Option<Bytes>,
    /// Compile it even if it is so large that this takes many seconds.
    #[serde(default)]
    pub(crate) allow_slow_compile: bool,
    /// The WIT that it was made of, a file or a folder: its doc comments are what a model reads of the tools. For components that
    /// export plain functions and have lost theirs. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wit: Option<PathBuf>,
    /// Isolation of its calls: "process" for a worker process in a jail of the kernel, or "in_process". Usually a
    /// process until it is approved, unless `--isolation` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) isolation: Option<IsolationRule>,
    /// The data that its tools return, for [flows]: "private" or "public". Usually private if it has folders, a store or
    /// the agent's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<FlowLabelName>,
    /// The place where arguments of its tools go, for [flows]: "public" or "private". Usually public if it may make
    /// requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<FlowLabelName>,
    /// Let it read the agent's state, which `--state` of `run`, `chat` and `call` gives.
    #[serde(default)]
    pub(crate) state: bool,
    /// Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) read: Vec<String>,
    /// Folders that it may read and change, as "HOST:GUEST" or as a table with quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) write: Vec<WriteFolder>,
    /// An empty folder of its own for each call, /scratch, that may grow to this size and is removed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Bytes>,
    /// Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) http: Vec<String>,
    /// Limits on the requests of one call: how many there are, and how much they carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_limits: Option<HttpLimitsSection>,
    /// Private addresses that its requests may reach all the same, such as "127.0.0.1/32".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) private_addresses: Vec<String>,
    /// Environment variables that it sees, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Command line arguments that it sees. Most languages take the first one for the name of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// Secrets that the host puts into its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<SecretSection>,
    /// Resolution of its clocks, such as "1us". Usually 1ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<Time>,
    /// Makes its randomness the same in every call: for replay and tests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) random_seed: Option<u64>,
    /// A private store of keys and values that may grow to this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value: Option<Bytes>,
}

/// Limits on the requests of one call. A limit that is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpLimitsSection {
    /// Requests in one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<Count>,
    /// Bytes that all requests of a call may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_out: Option<Bytes>,
    /// Bytes that all requests of a call may receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_in: Option<Bytes>,
    /// Requests at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<Count>,
    /// Time from looking up a name until there is a connection. Usually 10s. As with the others, never more than is
    /// left of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connect: Option<Time>,
    /// Time from there until the connection is encrypted. Usually 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Time>,
    /// Time from there until the headers of the response are complete. Usually 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_byte: Option<Time>,
    /// Time from one piece of the response to the next. Usually 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) between_bytes: Option<Time>,
}

/// A folder that may be changed, with its quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFolderTable {
    /// The folder on this machine. The path is relative to this configuration.
    pub(crate) folder: String,
    /// The path at which the tool finds it, such as "/out".
    pub(crate) guest: String,
    /// Bytes that a call may write there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Bytes>,
    /// Files and folders that a call may make there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entries: Option<Count>,
}

/// A folder that may be changed: "HOST:GUEST", or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WriteFolder {
    /// "HOST:GUEST", with the usual quotas.
    Text(String),
    /// With quotas of its own.
    Table(WriteFolderTable),
}

/// A visitor for either form. Unlike the one that serde derives, it reports what is wrong with a table.
struct EitherForm;

impl<'de> serde::de::Visitor<'de> for EitherForm {
    type Value = WriteFolder;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text \"HOST:GUEST\" or a table with `folder` and `guest`")
    }

    fn visit_str<E>(self, text: &str) -> Result<WriteFolder, E> {
        Ok(WriteFolder::Text(text.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<WriteFolder, A::Error> {
        WriteFolderTable::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(WriteFolder::Table)
    }
}

impl<'de> Deserialize<'de> for WriteFolder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Folds `-` into `_`: a host takes both for one character, so that only one of two such names could be loaded.
pub(crate) fn fold_name(name: &str) -> String {
    name.replace('-', "_")
}
