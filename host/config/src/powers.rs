//! The powers of a component, as they are written, and the grant that they make.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use fumehood_core::policy::permission::files::{Folder, Quota};
use fumehood_core::policy::permission::http::{HttpGrant, HttpRule};
use fumehood_core::policy::permission::tcp::{TcpGrant, TcpRule};
use fumehood_core::policy::permission::{ClockStep, CommandLine, Environment, Grant, GrantError, KeyValueQuota, Seed};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Time};
use crate::folder::WriteFolder;
use crate::http_limits::HttpLimitsSection;
use crate::http_methods;
#[cfg(feature = "clap")]
use crate::option;
use crate::secret::{SecretSection, Values, resolve};
use crate::tcp_limits::TcpLimitsSection;

/// Powers of a component. The default is none.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Powers"))]
#[serde(deny_unknown_fields)]
pub struct Powers {
    /// Let it read the agent's state, which `--state` of `run`, `chat` and `call` sets.
    #[serde(default)]
    #[cfg_attr(
        feature = "clap",
        arg(id = "powers.state", long = "allow-state", help = "Let it read the agent state from `--state`")
    )]
    pub state: bool,
    /// Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.read",
            long = "allow-read",
            value_name = "HOST:GUEST",
            help = "Folder to read, such as `./docs:/docs`; repeatable"
        )
    )]
    pub read: Vec<String>,
    /// Folders that it may read and change, as "HOST:GUEST" or as a table with quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.write",
            long = "allow-write",
            value_name = "HOST:GUEST",
            value_parser = option::write_folder,
            help = "Folder to read and change, such as `./out:/out`; repeatable"
        )
    )]
    pub write: Vec<WriteFolder>,
    /// An empty folder for each call, /scratch, of at most this size. It is removed after the call.
    #[cfg_attr(feature = "clap", arg(id = "powers.scratch", long = "scratch", value_name = "BYTES"))]
    pub scratch: Option<Bytes>,
    /// Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.http",
            long = "allow-http",
            value_name = "RULE",
            help = "HTTP requests to allow, such as `GET https://api.example.com/v1/**`; repeatable"
        )
    )]
    pub http: Vec<String>,
    /// Limits on the number, size and time of the requests of one call.
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.http_limits",
            long = "http-limits",
            value_name = "TOML",
            value_parser = option::http_limits,
            help = "Limits on HTTP requests, such as `requests=10, bytes_in=\"1MiB\", connect=\"2s\"`"
        )
    )]
    pub http_limits: Option<HttpLimitsSection>,
    /// TCP connections that it may open, as "HOST:PORT", such as "db.example.com:5432".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.tcp",
            long = "allow-tcp",
            value_name = "HOST:PORT",
            help = "TCP connections to allow, such as `db.example.com:5432`; repeatable"
        )
    )]
    pub tcp: Vec<String>,
    /// Limits on the number and size of the TCP connections of one call.
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.tcp_limits",
            long = "tcp-limits",
            value_name = "TOML",
            value_parser = option::tcp_limits,
            help = "Limits on TCP connections, such as `connections=2, bytes_in=\"1MiB\", connect=\"2s\"`"
        )
    )]
    pub tcp_limits: Option<TcpLimitsSection>,
    /// Private addresses that its requests and connections may reach, such as "127.0.0.1/32".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.private_addresses",
            long = "allow-private",
            value_name = "ADDRESSES",
            help = "Private addresses that requests and connections may reach, such as `127.0.0.1/32`; repeatable"
        )
    )]
    pub private_addresses: Vec<String>,
    /// Environment variables, with their values. The host's own are never passed on.
    // Pairs, because a command line may name one twice, which is an error.
    #[serde(default, with = "variables", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.env",
            long = "env",
            value_name = "NAME=VALUE",
            value_parser = option::variable,
            help = "Environment variable for the tool; repeatable"
        )
    )]
    pub env: Vec<(String, String)>,
    /// Command line arguments. Most languages take the first as the program name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.args",
            long = "arg",
            value_name = "TEXT",
            allow_hyphen_values = true,
            help = "Command line argument for the tool; most languages take the first as the program name; repeatable"
        )
    )]
    pub args: Vec<String>,
    /// Secrets that the host adds to its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.secrets",
            long = "secret",
            value_name = "TOML",
            value_parser = option::secret,
            help = "Secret that the host adds to requests, which the tool never sees, such as `name=\"token\", \
                from={env=\"TOKEN\"}, for=\"https://api.example.com/**\", header=\"Authorization\"`"
        )
    )]
    pub secrets: Vec<SecretSection>,
    /// Resolution of its clocks, such as "1us". Default: 1ms.
    #[cfg_attr(feature = "clap", arg(id = "powers.clock", long = "clock", value_name = "TIME"))]
    pub clock: Option<Time>,
    /// Makes its randomness the same in every call. Use it for replay and tests only.
    #[cfg_attr(feature = "clap", arg(id = "powers.random_seed", long = "random-seed", value_name = "NUMBER"))]
    pub random_seed: Option<u64>,
    /// A private key-value store of at most this size.
    #[cfg_attr(feature = "clap", arg(id = "powers.key_value", long = "key-value", value_name = "BYTES"))]
    pub key_value: Option<Bytes>,
    /// Show its pages (MCP Apps: `ui://` resources and `_meta.ui` of its tools) to clients that declare the extension.
    /// Default: false.
    #[serde(default)]
    #[cfg_attr(
        feature = "clap",
        arg(id = "powers.apps", long = "allow-apps", help = "Show its pages (MCP Apps) to clients")
    )]
    pub apps: bool,
    /// Origins that its pages may reach, such as "https://api.example.com". Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            id = "powers.app_origins",
            long = "app-origin",
            value_name = "ORIGIN",
            help = "Origin that its pages may reach, such as `https://api.example.com`; repeatable"
        )
    )]
    pub app_origins: Vec<String>,
}

/// Variables as a table.
mod variables {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(variables: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(variables.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
        BTreeMap::deserialize(deserializer).map(|variables| variables.into_iter().collect())
    }
}

/// A power that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerFault {
    /// The key of the configuration.
    pub key: &'static str,
    /// The entry of the key, if it has several.
    pub entry: Option<String>,
    /// The reason.
    pub message: String,
}

impl fmt::Display for PowerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "{}[{entry}]: {}", self.key, self.message),
            None => write!(f, "{}: {}", self.key, self.message),
        }
    }
}

/// A collector of faults, so that all are reported at once.
struct Faults(Vec<PowerFault>);

impl Faults {
    fn collect<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        entry: Option<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.0.push(PowerFault { key, entry, message: error.to_string() })).ok()
    }

    /// Adds a key that has no effect without what `missing` names.
    fn add_useless(&mut self, key: &'static str, missing: &str) {
        let message = format!("`{key}` has no effect without {missing}");
        self.0.push(PowerFault { key, entry: None, message });
    }
}

impl Powers {
    /// Builds the grant. Folders are relative to `base`.
    ///
    /// # Errors
    /// Everything that cannot be granted.
    pub fn grant(&self, base: &Path, values: Values<'_>) -> Result<Grant, Vec<PowerFault>> {
        let mut faults = Faults(Vec::new());
        let grant = if self.state { Grant::none().with_state() } else { Grant::none() };
        let grant = self.with_files(grant, base, &mut faults);
        let grant = self.with_network(grant, &mut faults);
        let grant = self.with_secrets(grant, values, &mut faults);
        let grant = self.with_environment(grant, &mut faults);
        let grant = self.with_clock_store_and_seed(grant, &mut faults);
        let grant = self.with_pages(grant, &mut faults);
        if faults.0.is_empty() { Ok(grant) } else { Err(faults.0) }
    }

    fn with_pages(&self, grant: Grant, faults: &mut Faults) -> Grant {
        if self.apps {
            let pages = grant.clone().with_pages(self.app_origins.clone());
            return faults.collect("app_origins", None, pages).unwrap_or(grant);
        }
        if !self.app_origins.is_empty() {
            faults.add_useless("app_origins", "`apps`; add apps = true");
        }
        grant
    }

    fn with_files(&self, mut grant: Grant, base: &Path, faults: &mut Faults) -> Grant {
        let read = self.read.iter().enumerate().map(|(index, text)| ("read", index, Folder::read(text)));
        let write = self.write.iter().enumerate().map(|(index, folder)| ("write", index, folder.to_folder()));
        for (key, index, folder) in read.chain(write) {
            let rebased = folder.and_then(|folder| rebase(&folder, base));
            let added = rebased.and_then(|folder| grant.clone().with_folder(folder));
            grant = faults.collect(key, Some(index.to_string()), added).unwrap_or(grant);
        }
        let quota = self.scratch.map(|Bytes(bytes)| Quota::new(bytes as u64, Quota::DEFAULT_ENTRIES));
        if let Some(quota) = quota {
            let added = quota.and_then(|quota| grant.clone().with_scratch(quota));
            grant = faults.collect("scratch", None, added).unwrap_or(grant);
        }
        grant
    }

    fn with_http(&self, grant: Grant, private: Option<&[IpNet]>, faults: &mut Faults) -> Grant {
        let before = faults.0.len();
        let mut rules: Vec<HttpRule> = Vec::new();
        for (index, text) in self.http.iter().enumerate() {
            let rule = faults.collect("http", Some(index.to_string()), text.parse::<HttpRule>());
            let known = rule.and_then(|rule| {
                faults.collect("http", Some(index.to_string()), http_methods::check(&rule).map(|()| rule))
            });
            rules.extend(known);
        }
        let limits = faults.collect("http_limits", None, self.http_limits.clone().unwrap_or_default().limits());
        if self.http.is_empty() {
            if self.http_limits.is_some() {
                faults.add_useless("http_limits", "`http`; add http = [\"GET https://HOST/**\"]");
            }
            return grant;
        }
        match (limits, private) {
            (Some(limits), Some(private)) if faults.0.len() == before => faults
                .collect("http", None, HttpGrant::new(rules, private.to_vec(), limits))
                .map(|http| grant.clone().with_http(http)),
            _ => None,
        }
        .unwrap_or(grant)
    }

    fn with_tcp(&self, grant: Grant, private: Option<&[IpNet]>, faults: &mut Faults) -> Grant {
        let before = faults.0.len();
        let mut rules: Vec<TcpRule> = Vec::new();
        for (index, text) in self.tcp.iter().enumerate() {
            rules.extend(faults.collect("tcp", Some(index.to_string()), text.parse()));
        }
        let limits = faults.collect("tcp_limits", None, self.tcp_limits.clone().unwrap_or_default().limits());
        if self.tcp.is_empty() {
            if self.tcp_limits.is_some() {
                faults.add_useless("tcp_limits", "`tcp`; add tcp = [\"HOST:PORT\"]");
            }
            return grant;
        }
        match (limits, private) {
            (Some(limits), Some(private)) if faults.0.len() == before => faults
                .collect("tcp", None, TcpGrant::new(rules, private.to_vec(), limits))
                .map(|tcp| grant.clone().with_tcp(tcp)),
            _ => None,
        }
        .unwrap_or(grant)
    }

    /// Adds requests and connections, which share the private addresses.
    fn with_network(&self, grant: Grant, faults: &mut Faults) -> Grant {
        let before = faults.0.len();
        let mut private = Vec::new();
        for (index, text) in self.private_addresses.iter().enumerate() {
            private.extend(faults.collect("private_addresses", Some(index.to_string()), parse_addresses(text)));
        }
        if !self.private_addresses.is_empty() && self.http.is_empty() && self.tcp.is_empty() {
            faults.add_useless("private_addresses", "`http` or `tcp`; add http = [\"GET https://HOST/**\"]");
        }
        // Without the addresses it is not known which rules can match.
        let private = if faults.0.len() == before { Some(&*private) } else { None };
        let grant = self.with_http(grant, private, faults);
        self.with_tcp(grant, private, faults)
    }

    fn with_secrets(&self, mut grant: Grant, values: Values<'_>, faults: &mut Faults) -> Grant {
        for (index, section) in self.secrets.iter().enumerate() {
            let entry = Some(index.to_string());
            let Some(secret) = faults.collect("secrets", entry.clone(), section.read(values)) else { continue };
            // A secret cannot be checked without the rules for requests, and those have faults of their own.
            if self.http.is_empty() || grant.http().is_some() {
                let added = grant.clone().with_secret(secret);
                grant = faults.collect("secrets", entry, added).unwrap_or(grant);
            }
        }
        grant
    }

    fn with_environment(&self, grant: Grant, faults: &mut Faults) -> Grant {
        let mut environment = Environment::none();
        for (name, value) in &self.env {
            let added = environment.clone().with(name, value);
            environment = faults.collect("env", Some(name.clone()), added).unwrap_or(environment);
        }
        let line = faults.collect("args", None, CommandLine::new(self.args.iter().cloned()));
        let grant = grant.with_environment(environment);
        line.map_or(grant.clone(), |line| grant.with_command_line(line))
    }

    fn with_clock_store_and_seed(&self, mut grant: Grant, faults: &mut Faults) -> Grant {
        if let Some(Time(step)) = self.clock {
            let step = faults.collect("clock", None, ClockStep::new(step));
            grant = step.map_or(grant.clone(), |step| grant.with_clock(step));
        }
        if let Some(Bytes(bytes)) = self.key_value {
            let quota = faults.collect("key_value", None, KeyValueQuota::new(bytes as u64));
            grant = quota.map_or(grant.clone(), |quota| grant.with_key_value(quota));
        }
        match self.random_seed {
            Some(seed) => grant.with_seed(Seed::from(seed)),
            None => grant,
        }
    }
}

fn rebase(folder: &Folder, base: &Path) -> Result<Folder, GrantError> {
    Folder::new(resolve(base, folder.host()), folder.guest(), folder.access())
}

/// Parses an address, or a network of addresses.
pub(crate) fn parse_addresses(text: &str) -> Result<IpNet, String> {
    let address = |_| text.parse::<IpAddr>().map(IpNet::from);
    let wrong =
        |_| format!("invalid address `{text}`; expected one such as 127.0.0.1, or a network such as 10.1.0.0/16");
    text.parse().or_else(address).map_err(wrong)
}
