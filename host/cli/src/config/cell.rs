//! The `[cell]` section: gateways and workers on NATS.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fumehood::cell::{NodePublicKey, is_node_name};
use fumehood::settings::ValueSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::Bytes;

/// A cell: gateways (`fumehood serve --cell`) and workers (`fumehood worker`) on NATS.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSection {
    /// The NATS server, such as "tls://nats.example:4222". TLS is required unless the address is loopback or
    /// `unencrypted` is set.
    pub(crate) nats: String,
    /// The name of this gateway or worker: letters, digits, `-` and `_`.
    pub(crate) name: String,
    /// The file with its private key. `fumehood cell key new FILE` creates one.
    pub(crate) key: PathBuf,
    /// The first part of all subjects. Default: "fumehood".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// Gateway: its workers, with their public keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) workers: BTreeMap<String, String>,
    /// Worker: its gateways, with their public keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) gateways: BTreeMap<String, String>,
    /// The user name for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The source of the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<ValueSource>,
    /// Certificates in PEM that verify the server. Default: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_roots: Option<PathBuf>,
    /// A client certificate for the login, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    /// The private key of `certificate`, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_key: Option<PathBuf>,
    /// Allow unencrypted connections to another machine.
    #[serde(default)]
    pub(crate) unencrypted: bool,
    /// Worker: maximum number of running calls. Default: two per processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) places: Option<u32>,
    /// One store for all tools with `key_value`, shared by all nodes: "nats" is JetStream. Default: each gateway has a
    /// store and runs these tools itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value: Option<SharedStore>,
    /// Share rates and budgets of tenants between gateways: "nats" is JetStream. Default: each gateway counts
    /// separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budgets: Option<SharedStore>,
    /// Gateway: push the components that its lock names, for workers to fetch.
    #[serde(default)]
    pub(crate) push: bool,
    /// Worker: fetch missing components over the cell. "locked" fetches components whose digest its own lock approves.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accept: Option<Accept>,
    /// Worker: maximum size of fetched components. The least recently used are removed first, but none that is in use.
    /// Default: "1GiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_fetched: Option<Bytes>,
    /// Gateway: components whose calls it runs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) local: Vec<String>,
    /// If a worker is lost, send calls of read-only and idempotent tools to another worker once. Default: no call that
    /// may have started is sent again.
    #[serde(default)]
    pub(crate) retry_repeatable: bool,
    /// Keep jobs in JetStream, and run calls of `tools` in [jobs] from a queue there. Set it on gateways and workers
    /// alike.
    #[serde(default)]
    pub(crate) jobs: bool,
    /// Maximum number of waiting and running jobs. Default: 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
}

/// A store that all nodes of a cell share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SharedStore {
    /// A bucket of JetStream.
    Nats,
}

/// Components that a worker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Accept {
    /// Components whose digest the worker's own lock approves.
    Locked,
}

/// Maximum of `places`.
const MAX_PLACES: u32 = 4096;

impl CellSection {
    /// Returns what is wrong with single keys, each with its path below the section.
    pub(crate) fn faults(&self) -> Vec<(Vec<&str>, String)> {
        let mut faults = Vec::new();
        let names = [("name", Some(&self.name)), ("prefix", self.prefix.as_ref())];
        for (key, name) in names.into_iter().filter_map(|(key, name)| Some((key, name?))) {
            if !is_node_name(name) {
                faults.push((vec![key], format!("invalid name `{name}` in a cell; {NAMES}")));
            }
        }
        for (key, nodes) in [("workers", &self.workers), ("gateways", &self.gateways)] {
            for (name, public) in nodes {
                if !is_node_name(name) {
                    faults.push((vec![key, name], format!("invalid name `{name}` in a cell; {NAMES}")));
                }
                if let Err(error) = public.parse::<NodePublicKey>() {
                    faults.push((vec![key, name], error.to_string()));
                }
            }
        }
        if let Err(message) = self.check_address() {
            faults.push((vec!["nats"], message));
        }
        if self.places.is_some_and(|places| places == 0 || places > MAX_PLACES) {
            faults.push((vec!["places"], format!("expected 1 to {MAX_PLACES} places")));
        }
        if self.queue == Some(0) {
            faults.push((vec!["queue"], "no job could be queued; to turn off jobs, leave `jobs` out".to_owned()));
        }
        if self.user.is_some() != self.password.is_some() {
            faults.push((vec!["user"], "`user` and `password` belong together; add the other one".to_owned()));
        }
        if self.certificate.is_some() != self.certificate_key.is_some() {
            let message = "`certificate` and `certificate_key` belong together; add the other one";
            faults.push((vec!["certificate"], message.to_owned()));
        }
        faults
    }

    fn check_address(&self) -> Result<(), String> {
        let nats = &self.nats;
        if nats.starts_with("tls://") {
            return Ok(());
        }
        let Some(rest) = nats.strip_prefix("nats://") else {
            return Err(format!("invalid NATS URL `{nats}`; expected \"tls://HOST:PORT\""));
        };
        let is_loopback = ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|host| rest.starts_with(host));
        if is_loopback || self.unencrypted {
            return Ok(());
        }
        Err(format!(
            "arguments and results would be sent unencrypted to `{nats}`; use \"tls://…\", or set `unencrypted = true`"
        ))
    }
}

/// The rule for names.
const NAMES: &str = "expected at most 64 letters, digits, `-` and `_`";

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        let section: CellSection = toml::from_str(text).unwrap();
        section
            .faults()
            .iter()
            .map(|(path, message)| format!("{}: {message}", path.join(".")))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn section_at(nats: &str) -> String {
        format!("nats = \"{nats}\"\nname = \"a\"\nkey = \"k\"\n")
    }

    #[test]
    fn plain_connections_stay_on_this_machine() {
        for fine in ["tls://nats.example:4222", "nats://127.0.0.1:4222", "nats://localhost:1", "nats://[::1]:4222"] {
            assert_eq!(faults(&section_at(fine)), "");
        }
        for plain in ["nats://nats.example:4222", "nats://127.0.0.1.example:4222", "http://127.0.0.1:1"] {
            assert!(faults(&section_at(plain)).starts_with("nats: "), "{plain}");
        }
        assert_eq!(faults(&format!("{}unencrypted = true\n", section_at("nats://nats.example:4222"))), "");
    }

    #[test]
    fn names_and_keys_are_checked() {
        let text = "nats = \"tls://a\"\nname = \"a.b\"\nkey = \"k\"\nplaces = 0\nuser = \"u\"\nworkers = { w = \"ed25519:AA\" }\n";
        let found = faults(text);
        for part in ["name: invalid name `a.b`", "workers.w: `ed25519:AA` is not a public key", "places: ", "user: "] {
            assert!(found.contains(part), "{part}\n{found}");
        }
    }
}
