//! The `[cell]` section: gateways and workers on NATS.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fumehood::cell::{NodePublicKey, is_node_name};
use fumehood::settings::ValueSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::Bytes;

/// Gateways and workers on NATS: `fumehood serve --cell` sends calls to those who run `fumehood worker`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSection {
    /// The NATS server, such as "tls://nats.example:4222". Without TLS only at a loopback address, or with `unencrypted`.
    pub(crate) nats: String,
    /// The name of this gateway or worker: letters, digits, `-` and `_`.
    pub(crate) name: String,
    /// The file of its private key, which `fumehood cell key new FILE` makes.
    pub(crate) key: PathBuf,
    /// The first part of the subjects. Usually "fumehood".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// The workers that a gateway sends calls to, each with its public key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) workers: BTreeMap<String, String>,
    /// The gateways that a worker runs calls for, each with its public key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) gateways: BTreeMap<String, String>,
    /// The user to log in at the server as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The source of the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<ValueSource>,
    /// A file of certificates that vouch for the server, in PEM, instead of those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_roots: Option<PathBuf>,
    /// The file of a certificate to log in with, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    /// The file of the private key of `certificate`, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_key: Option<PathBuf>,
    /// Send arguments and results without encryption to a server elsewhere.
    #[serde(default)]
    pub(crate) unencrypted: bool,
    /// The number of calls that a worker runs at the same time. Usually two for each processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) places: Option<u32>,
    /// The store of all tools with `key_value`, the same for the whole cell: "nats" is JetStream of the server. Usually each
    /// gateway has a store of its own, and runs these tools itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value: Option<SharedStore>,
    /// The counters of tenants' budgets, the same for all gateways: "nats" is JetStream of the server. Usually budgets hold for
    /// each gateway by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budgets: Option<SharedStore>,
    /// A gateway pushes the components that its lock names, for workers to fetch.
    #[serde(default)]
    pub(crate) push: bool,
    /// The components that a worker fetches over the cell, for sections whose file is not there: "locked" are those whose digest
    /// its own lock approves. Usually none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accept: Option<Accept>,
    /// Maximum size of the components that a worker has fetched and keeps. Beyond it, those that were used longest ago are removed,
    /// but none that is in use. Usually "1GiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_fetched: Option<Bytes>,
    /// Components whose calls a gateway runs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) local: Vec<String>,
    /// Send a call of a tool that says it is read-only or idempotent to another worker, once, if its worker is lost.
    #[serde(default)]
    pub(crate) retry_repeatable: bool,
    /// Keep jobs in JetStream of the server, and run those of `tools` in [jobs] from a queue there: workers as gateways need it.
    #[serde(default)]
    pub(crate) jobs: bool,
    /// Maximum number of jobs that wait or run. Usually 1024.
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
    /// Those whose digest the worker's own lock approves.
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
                faults.push((vec![key], format!("`{name}` cannot be a name in a cell; {NAMES}")));
            }
        }
        for (key, nodes) in [("workers", &self.workers), ("gateways", &self.gateways)] {
            for (name, public) in nodes {
                if !is_node_name(name) {
                    faults.push((vec![key, name], format!("`{name}` cannot be a name in a cell; {NAMES}")));
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
            faults.push((vec!["places"], format!("a worker has 1 to {MAX_PLACES} places")));
        }
        if self.queue == Some(0) {
            faults.push((vec!["queue"], "no job could wait or run; leave `jobs` out to have none".to_owned()));
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
            return Err(format!("`{nats}` is no address of NATS; write \"tls://HOST:PORT\""));
        };
        let is_loopback = ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|host| rest.starts_with(host));
        if is_loopback || self.unencrypted {
            return Ok(());
        }
        Err(format!(
            "arguments and results would cross the network unencrypted to `{nats}`; write \"tls://…\", or `unencrypted = true`"
        ))
    }
}

/// The rule for names.
const NAMES: &str = "take at most 64 letters, digits, `-` and `_`";

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

    #[test]
    fn plain_connections_stay_on_this_machine() {
        let section = |nats: &str| format!("nats = \"{nats}\"\nname = \"a\"\nkey = \"k\"\n");
        for fine in ["tls://nats.example:4222", "nats://127.0.0.1:4222", "nats://localhost:1", "nats://[::1]:4222"] {
            assert_eq!(faults(&section(fine)), "");
        }
        for plain in ["nats://nats.example:4222", "nats://127.0.0.1.example:4222", "http://127.0.0.1:1"] {
            assert!(faults(&section(plain)).starts_with("nats: "), "{plain}");
        }
        assert_eq!(faults(&format!("{}unencrypted = true\n", section("nats://nats.example:4222"))), "");
    }

    #[test]
    fn names_and_keys_are_checked() {
        let text = "nats = \"tls://a\"\nname = \"a.b\"\nkey = \"k\"\nplaces = 0\nuser = \"u\"\nworkers = { w = \"ed25519:AA\" }\n";
        let found = faults(text);
        for part in ["name: `a.b`", "workers.w: `ed25519:AA` is not a public key", "places: ", "user: "] {
            assert!(found.contains(part), "{part}\n{found}");
        }
    }
}
