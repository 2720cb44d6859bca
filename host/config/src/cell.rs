//! The `[cell]` section: gateways and workers on NATS.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::Bytes;
use crate::secret::ValueSource;

/// A cell: gateways (`fumehood serve --cell`) and workers (`fumehood worker`) on NATS.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSection {
    /// The NATS server, such as "tls://nats.example:4222". TLS is required unless the address is loopback or
    /// `unencrypted` is set.
    pub nats: String,
    /// The name of this gateway or worker: letters, digits, `-` and `_`.
    pub name: String,
    /// The file with its private key. `fumehood cell key new FILE` creates one.
    pub key: PathBuf,
    /// The first part of all subjects. Default: "fumehood".
    pub prefix: Option<String>,
    /// Gateway: its workers, with their public keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<String, String>,
    /// Worker: its gateways, with their public keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gateways: BTreeMap<String, String>,
    /// The user name for the server.
    pub user: Option<String>,
    /// The source of the user's password.
    pub password: Option<ValueSource>,
    /// Certificates in PEM that verify the server. Default: the system's.
    pub tls_roots: Option<PathBuf>,
    /// A client certificate for the login, in PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`, in PEM.
    pub certificate_key: Option<PathBuf>,
    /// Allow unencrypted connections to another machine.
    #[serde(default)]
    pub unencrypted: bool,
    /// Worker: maximum number of running calls. Default: two per processor.
    pub places: Option<u32>,
    /// One store for all tools with `key_value`, shared by all nodes: "nats" is JetStream. Default: each gateway has a
    /// store and runs these tools itself.
    pub key_value: Option<SharedStore>,
    /// Share rates and budgets of tenants between gateways: "nats" is JetStream. Default: each gateway counts
    /// separately.
    pub budgets: Option<SharedStore>,
    /// Gateway: push the components that its lock names, for workers to fetch.
    #[serde(default)]
    pub push: bool,
    /// Worker: fetch missing components over the cell. "locked" fetches components whose digest its own lock approves.
    /// Default: none.
    pub accept: Option<Accept>,
    /// Worker: maximum size of fetched components. The least recently used are removed first, but none that is in use.
    /// Default: "1GiB".
    pub max_fetched: Option<Bytes>,
    /// Gateway: components whose calls it runs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<String>,
    /// If a worker is lost, send calls of read-only and idempotent tools to another worker once. Default: no call that
    /// may have started is sent again.
    #[serde(default)]
    pub retry_repeatable: bool,
    /// Keep jobs in JetStream, and run calls of `tools` in [jobs] from a queue there. Set it on gateways and workers
    /// alike.
    #[serde(default)]
    pub jobs: bool,
    /// Maximum number of waiting and running jobs. Default: 1024.
    pub queue: Option<u32>,
}

/// A store that all nodes of a cell share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SharedStore {
    /// A bucket of JetStream.
    Nats,
}

/// Components that a worker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accept {
    /// Components whose digest the worker's own lock approves.
    Locked,
}
