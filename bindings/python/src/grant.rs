//! Powers of a component, with the names of `fumehood.toml`, and the grant that they make.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::permission::http::{HttpGrant, HttpLimits, HttpRule};
use fumehood::permission::{ClockStep, CommandLine, Environment, Injection, KeyValueQuota, Secret, Seed};
use fumehood::{Grant, SecretSource};
use ipnet::IpNet;
use serde::Deserialize;

use crate::amount::{Bytes, Count, Time};

/// The service of secrets in the user's keyring, the same as that of the command.
const KEYRING_SERVICE: &str = "fumehood";

/// The parameter `grants` of `Host.load`. The default is no power.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Powers {
    state: bool,
    read: Vec<String>,
    write: Vec<WriteFolder>,
    scratch: Option<Bytes>,
    http: Vec<String>,
    http_limits: Option<HttpLimitsSection>,
    private_addresses: Vec<String>,
    env: BTreeMap<String, String>,
    args: Vec<String>,
    secrets: Vec<SecretSection>,
    clock: Option<Time>,
    random_seed: Option<u64>,
    key_value: Option<Bytes>,
}

/// A folder that may be changed: `"HOST:GUEST"`, or a table with quotas.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a text \"HOST:GUEST\", or a dictionary of `folder`, `guest`, `bytes` and `entries`")]
enum WriteFolder {
    Text(String),
    Table(WriteFolderTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFolderTable {
    folder: PathBuf,
    guest: String,
    bytes: Option<Bytes>,
    entries: Option<Count>,
}

/// Limits on the requests of one call. A limit that is left out has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpLimitsSection {
    requests: Option<u32>,
    bytes_out: Option<Bytes>,
    bytes_in: Option<Bytes>,
    in_flight: Option<u32>,
    connect: Option<Time>,
    tls: Option<Time>,
    first_byte: Option<Time>,
    between_bytes: Option<Time>,
}

/// A secret that the host puts into requests. The tool never sees it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretSection {
    name: String,
    from: ValueSource,
    #[serde(rename = "for")]
    requests: String,
    header: Option<String>,
    query: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ValueSource {
    Env(String),
    File(PathBuf),
    Keyring(String),
}

impl Powers {
    /// Builds the grant. Folders are relative to the working folder.
    ///
    /// # Errors
    /// The first power that cannot be granted, with its name.
    pub(crate) fn grant(&self) -> Result<Grant, String> {
        let grant = if self.state { Grant::none().with_state() } else { Grant::none() };
        let grant = self.with_files(grant)?;
        let grant = self.with_http(grant)?;
        let grant = self.with_secrets(grant)?;
        self.with_environment(grant)
    }

    fn with_files(&self, mut grant: Grant) -> Result<Grant, String> {
        for text in &self.read {
            let folder = Folder::read(text).map_err(named("read"))?;
            grant = grant.with_folder(rebase(&folder)?).map_err(named("read"))?;
        }
        for folder in &self.write {
            let folder = folder.read().map_err(|message| format!("write: {message}"))?;
            grant = grant.with_folder(rebase(&folder)?).map_err(named("write"))?;
        }
        if let Some(Bytes(bytes)) = self.scratch {
            let quota = Quota::new(bytes as u64, Quota::DEFAULT_ENTRIES).map_err(named("scratch"))?;
            grant = grant.with_scratch(quota).map_err(named("scratch"))?;
        }
        Ok(grant)
    }

    fn with_http(&self, grant: Grant) -> Result<Grant, String> {
        if self.http.is_empty() {
            let useless = [
                ("private_addresses", !self.private_addresses.is_empty()),
                ("http_limits", self.http_limits.is_some()),
            ];
            return match useless.iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => Err(format!("{key} is of no use without http; add \"GET https://HOST/**\" to it")),
                None => Ok(grant),
            };
        }
        let rules: Result<Vec<HttpRule>, _> = self.http.iter().map(|rule| rule.parse()).collect();
        let private: Result<Vec<IpNet>, _> = self.private_addresses.iter().map(|text| parse_addresses(text)).collect();
        let limits = self.http_limits.as_ref().map(HttpLimitsSection::limits).unwrap_or_default();
        let rules = rules.map_err(named("http"))?;
        let http =
            HttpGrant::new(rules, private.map_err(named("private_addresses"))?, limits).map_err(named("http"))?;
        Ok(grant.with_http(http))
    }

    fn with_secrets(&self, grant: Grant) -> Result<Grant, String> {
        self.secrets.iter().try_fold(grant, |grant, section| {
            let secret = section.read().map_err(|message| format!("secrets: {message}"))?;
            grant.with_secret(secret).map_err(named("secrets"))
        })
    }

    fn with_environment(&self, mut grant: Grant) -> Result<Grant, String> {
        let mut environment = Environment::none();
        for (name, value) in &self.env {
            environment = environment.with(name, value).map_err(named("env"))?;
        }
        let line = CommandLine::new(self.args.iter().cloned()).map_err(named("args"))?;
        grant = grant.with_environment(environment).with_command_line(line);
        if let Some(Time(step)) = self.clock {
            grant = grant.with_clock(ClockStep::new(step).map_err(named("clock"))?);
        }
        if let Some(Bytes(bytes)) = self.key_value {
            grant = grant.with_key_value(KeyValueQuota::new(bytes as u64).map_err(named("key_value"))?);
        }
        Ok(match self.random_seed {
            Some(seed) => grant.with_seed(Seed::from(seed)),
            None => grant,
        })
    }
}

impl WriteFolder {
    fn read(&self) -> Result<Folder, String> {
        let text = |error: fumehood::permission::files::FolderError| error.to_string();
        match self {
            Self::Text(folder) => Folder::write(folder).map_err(text),
            Self::Table(WriteFolderTable { folder, guest, bytes, entries }) => {
                let bytes = bytes.map_or(Quota::DEFAULT_BYTES, |bytes| bytes.0 as u64);
                let entries = entries.map_or(Quota::DEFAULT_ENTRIES, |entries| entries.0);
                let quota = Quota::new(bytes, entries).map_err(|error| error.to_string())?;
                Folder::new(folder, guest, Access::Write(quota)).map_err(text)
            }
        }
    }
}

impl HttpLimitsSection {
    fn limits(&self) -> HttpLimits {
        let default = HttpLimits::default();
        let bytes = |bytes: Option<Bytes>, default: u64| bytes.map_or(default, |bytes| bytes.0 as u64);
        HttpLimits {
            requests: self.requests.unwrap_or(default.requests),
            bytes_out: bytes(self.bytes_out, default.bytes_out),
            bytes_in: bytes(self.bytes_in, default.bytes_in),
            in_flight: self.in_flight.unwrap_or(default.in_flight),
            connect: self.connect.map_or(default.connect, |time| time.0),
            tls: self.tls.map_or(default.tls, |time| time.0),
            first_byte: self.first_byte.map_or(default.first_byte, |time| time.0),
            between_bytes: self.between_bytes.map_or(default.between_bytes, |time| time.0),
        }
    }
}

impl SecretSection {
    fn read(&self) -> Result<Secret, String> {
        let name = &self.name;
        let injection = match (&self.header, &self.query) {
            (Some(header), None) => Injection::header(header, self.value.as_deref().unwrap_or("{secret}")),
            (None, Some(_)) if self.value.is_some() => {
                return Err(format!("the secret {name}: a value is only for a header"));
            }
            (None, Some(query)) => Injection::query(query),
            (None, None) | (Some(_), Some(_)) => {
                return Err(format!(
                    "the secret {name} needs one of: \"header\": \"Authorization\", \"query\": \"NAME\""
                ));
            }
        };
        let injection = injection.map_err(|error| error.to_string())?;
        let value = self.from.source().read().map_err(|error| format!("the secret {name}: {error}"))?;
        Secret::new(name, value, &self.requests, injection).map_err(|error| error.to_string())
    }
}

impl ValueSource {
    fn source(&self) -> SecretSource {
        match self {
            Self::Env(name) => SecretSource::Env(name.clone()),
            Self::File(path) => SecretSource::File(path.clone()),
            Self::Keyring(user) => SecretSource::Keyring { service: KEYRING_SERVICE.to_owned(), user: user.clone() },
        }
    }
}

/// Returns a function that puts the name of a power before an error.
fn named<E: std::fmt::Display>(name: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{name}: {error}")
}

fn rebase(folder: &Folder) -> Result<Folder, String> {
    let host = std::path::absolute(folder.host()).map_err(|error| error.to_string())?;
    Folder::new(host, folder.guest(), folder.access()).map_err(|error| error.to_string())
}

/// Parses an address, or a network of addresses.
fn parse_addresses(text: &str) -> Result<IpNet, String> {
    let wrong = |_| format!("`{text}` is no address; write one such as 127.0.0.1, or a network such as 10.1.0.0/16");
    text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(wrong)
}
