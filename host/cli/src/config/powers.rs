//! Powers of a tool as written in a file or on the command line, and the grant that they make.
//!
//! File and command line share this type, so that both mean the same.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fumehood::Grant;
use fumehood::permission::files::{Access, Folder, FolderError, Quota};
use fumehood::permission::http::{HttpGrant, HttpLimits, HttpRule};
use fumehood::permission::{ClockStep, CommandLine, Environment, Injection, KeyValueQuota, Secret, SecretValue, Seed};

use ipnet::IpNet;

use super::amount::{Bytes, Count, Time};
use super::file::resolve;
use super::methods;
use super::sources::{SecretSection, ValueSource};
use super::tool::{HttpLimitsSection, ToolSection, WriteFolder, WriteFolderTable};

/// The keys of a tool's section that grant powers.
const POWER_KEYS: [&str; 13] = [
    "args",
    "clock",
    "env",
    "http",
    "http_limits",
    "key_value",
    "private_addresses",
    "random_seed",
    "read",
    "scratch",
    "secrets",
    "state",
    "write",
];

/// Builds the grant of a table with the powers of `[tools.NAME]`. Folders and files are relative to `base`.
///
/// # Errors
/// Everything in it that is unknown or cannot be granted.
pub(crate) fn grant_of_table(table: &toml::Table, base: &Path) -> Result<Grant, String> {
    if let Some(unknown) = table.keys().find(|key| !POWER_KEYS.contains(&key.as_str())) {
        return Err(format!("`grant` has the unknown key `{unknown}`; known there: {}", POWER_KEYS.join(", ")));
    }
    let mut section = table.clone();
    section.insert("component".to_owned(), toml::Value::from("component.wasm"));
    let section: ToolSection =
        section.try_into().map_err(|error: toml::de::Error| format!("`grant`: {}", error.message()))?;
    let granted = section.powers().grant(base, &|source| source.value(base));
    granted.map_err(|faults| {
        let lines: Vec<String> =
            faults.iter().map(|fault| format!("`grant`: {}: {}", fault.key, fault.message)).collect();
        lines.join("; ")
    })
}

/// The powers of a tool, as written. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Powers {
    pub(crate) state: bool,
    pub(crate) read: Vec<String>,
    pub(crate) write: Vec<WriteFolder>,
    pub(crate) scratch: Option<Bytes>,
    pub(crate) http: Vec<String>,
    pub(crate) http_limits: Option<HttpLimitsSection>,
    pub(crate) private_addresses: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) args: Vec<String>,
    pub(crate) secrets: Vec<SecretSection>,
    pub(crate) clock: Option<Time>,
    pub(crate) random_seed: Option<u64>,
    pub(crate) key_value: Option<Bytes>,
}

impl ToolSection {
    /// Returns its powers, in the form that the command line has too.
    pub(crate) fn powers(&self) -> Powers {
        Powers {
            state: self.state,
            read: self.read.clone(),
            write: self.write.clone(),
            scratch: self.scratch,
            http: self.http.clone(),
            http_limits: self.http_limits.clone(),
            private_addresses: self.private_addresses.clone(),
            env: self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            args: self.args.clone(),
            secrets: self.secrets.clone(),
            clock: self.clock,
            random_seed: self.random_seed,
            key_value: self.key_value,
        }
    }
}

/// A power that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PowerFault {
    /// The key of the configuration.
    pub(crate) key: &'static str,
    /// The entry of the key, if it has several.
    pub(crate) entry: Option<String>,
    /// The reason.
    pub(crate) message: String,
}

/// A function that reads the values of secrets when a grant is made.
pub(crate) type Values<'a> = &'a dyn Fn(&ValueSource) -> Result<String, String>;

/// A collector of faults, so that all are reported at once.
struct Faults(Vec<PowerFault>);

impl Faults {
    fn collect<T, E: std::fmt::Display>(
        &mut self,
        key: &'static str,
        entry: Option<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.0.push(PowerFault { key, entry, message: error.to_string() })).ok()
    }
}

impl Powers {
    /// Builds the grant. Folders are relative to `base`.
    ///
    /// # Errors
    /// Everything that cannot be granted.
    pub(crate) fn grant(&self, base: &Path, values: Values<'_>) -> Result<Grant, Vec<PowerFault>> {
        let mut faults = Faults(Vec::new());
        let grant = if self.state { Grant::none().with_state() } else { Grant::none() };
        let grant = self.with_files(grant, base, &mut faults);
        let grant = self.with_http(grant, &mut faults);
        let grant = self.with_secrets(grant, values, &mut faults);
        let grant = self.with_environment(grant, &mut faults);
        let grant = self.with_clock_store_and_seed(grant, &mut faults);
        if faults.0.is_empty() { Ok(grant) } else { Err(faults.0) }
    }

    fn with_files(&self, mut grant: Grant, base: &Path, faults: &mut Faults) -> Grant {
        let read = self.read.iter().enumerate().map(|(index, text)| ("read", index, Folder::read(text)));
        let write = self.write.iter().enumerate().map(|(index, folder)| ("write", index, write_folder(folder)));
        for (key, index, folder) in read.chain(write) {
            let rebased = folder.and_then(|folder| rebase(&folder, base));
            let added = rebased.and_then(|folder| grant.clone().with_folder(folder));
            grant = faults.collect(key, Some(index.to_string()), added).unwrap_or(grant);
        }
        let quota = self.scratch.map(|Bytes(bytes)| Quota::new(bytes as u64, Quota::DEFAULT_ENTRIES));
        if let Some(quota) = quota {
            let added = quota.map_err(FolderError::from).and_then(|quota| grant.clone().with_scratch(quota));
            grant = faults.collect("scratch", None, added).unwrap_or(grant);
        }
        grant
    }

    fn with_http(&self, grant: Grant, faults: &mut Faults) -> Grant {
        let before = faults.0.len();
        let entries = |index: usize| Some(index.to_string());
        let mut rules: Vec<HttpRule> = Vec::new();
        for (index, text) in self.http.iter().enumerate() {
            let rule = faults.collect("http", entries(index), text.parse::<HttpRule>());
            let known =
                rule.and_then(|rule| faults.collect("http", entries(index), methods::check(&rule).map(|()| rule)));
            rules.extend(known);
        }
        let mut private = Vec::new();
        for (index, text) in self.private_addresses.iter().enumerate() {
            private.extend(faults.collect("private_addresses", entries(index), parse_addresses(text)));
        }
        let limits = faults.collect("http_limits", None, self.http_limits());
        let useless = match () {
            () if !self.http.is_empty() => None,
            () if !self.private_addresses.is_empty() => Some("private_addresses"),
            () if self.http_limits.is_some() => Some("http_limits"),
            () => return grant,
        };
        if let Some(key) = useless {
            let message = format!("`{key}` is of no use without `http`; add http = [\"GET https://HOST/**\"]");
            faults.0.push(PowerFault { key, entry: None, message });
        }
        match limits {
            Some(limits) if faults.0.len() == before => faults
                .collect("http", None, HttpGrant::new(rules, private, limits))
                .map(|http| grant.clone().with_http(http)),
            _ => None,
        }
        .unwrap_or(grant)
    }

    fn http_limits(&self) -> Result<HttpLimits, String> {
        let default = HttpLimits::default();
        let Some(written) = &self.http_limits else { return Ok(default) };
        let small = |count: Option<Count>, default: u32| match count {
            None => Ok(default),
            Some(Count(count)) => u32::try_from(count).map_err(|_| format!("{count} is more than {}", u32::MAX)),
        };
        let bytes = |bytes: Option<Bytes>, default: u64| bytes.map_or(default, |bytes| bytes.0 as u64);
        let time = |time: Option<Time>, default: Duration| time.map_or(default, |time| time.0);
        Ok(HttpLimits {
            requests: small(written.requests, default.requests)?,
            bytes_out: bytes(written.bytes_out, default.bytes_out),
            bytes_in: bytes(written.bytes_in, default.bytes_in),
            in_flight: small(written.in_flight, default.in_flight)?,
            connect: time(written.connect, default.connect),
            tls: time(written.tls, default.tls),
            first_byte: time(written.first_byte, default.first_byte),
            between_bytes: time(written.between_bytes, default.between_bytes),
        })
    }

    fn with_secrets(&self, mut grant: Grant, values: Values<'_>, faults: &mut Faults) -> Grant {
        for (index, section) in self.secrets.iter().enumerate() {
            let entry = Some(index.to_string());
            let Some(secret) = faults.collect("secrets", entry.clone(), secret(section, values)) else { continue };
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

fn write_folder(written: &WriteFolder) -> Result<Folder, FolderError> {
    match written {
        WriteFolder::Text(text) => Folder::write(text),
        WriteFolder::Table(WriteFolderTable { folder, guest, bytes, entries }) => {
            let bytes = bytes.map_or(Quota::DEFAULT_BYTES, |bytes| bytes.0 as u64);
            let quota = Quota::new(bytes, entries.map_or(Quota::DEFAULT_ENTRIES, |entries| entries.0))?;
            Folder::new(folder, guest, Access::Write(quota))
        }
    }
}

fn rebase(folder: &Folder, base: &Path) -> Result<Folder, FolderError> {
    Folder::new(resolve(base, folder.host()), folder.guest(), folder.access())
}

/// Parses an address, or a network of addresses.
fn parse_addresses(text: &str) -> Result<IpNet, String> {
    let address = |_| text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| format!("`{text}` is no address; write one such as 127.0.0.1, or a network such as 10.1.0.0/16");
    text.parse().or_else(address).map_err(wrong)
}

fn secret(section: &SecretSection, values: Values<'_>) -> Result<Secret, String> {
    let template = section.value.as_deref().unwrap_or("{secret}");
    let into = match (&section.header, &section.query) {
        (Some(header), None) => Injection::header(header, template),
        (None, Some(_)) if section.value.is_some() => return Err("a `value` is only for a `header`".to_owned()),
        (None, Some(query)) => Injection::query(query),
        (None, None) | (Some(_), Some(_)) => {
            let name = &section.name;
            return Err(format!("the secret `{name}` needs one of: header = \"Authorization\", query = \"NAME\""));
        }
    };
    let into = into.map_err(|error| error.to_string())?;
    let value = values(&section.from).map_err(|error| format!("the secret `{}`: {error}", section.name))?;
    let value = SecretValue::new(value).map_err(|error| format!("the secret `{}`: {error}", section.name))?;
    Secret::new(&section.name, value, &section.requests, into).map_err(|error| error.to_string())
}
