//! Options of a host inside another program: the packages of other languages pass them as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::BudgetSection;
use crate::amount::{Bytes, Time};
use crate::json::{SettingError, deserialize_setting, parse_object};
use crate::limits::LimitsSection;
use crate::powers::Powers;
use crate::registry::SignatureRule;
use crate::text::TextSource;

/// The settings of this module that are times, as JSON pointers.
pub const TIMES: [&str; 12] = [
    "/budget/wall_time",
    "/limits/deadline",
    "/grants/clock",
    "/grants/http_limits/connect",
    "/grants/http_limits/tls",
    "/grants/http_limits/first_byte",
    "/grants/http_limits/between_bytes",
    "/grants/tcp_limits/connect",
    "/max_timeout",
    "/registry/min_age",
    "/start_timeout",
    "/timeout",
];

/// The unit of times that a program writes as numbers, by the convention of its language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds, as in Python.
    Seconds,
    /// Milliseconds, as in JavaScript.
    Milliseconds,
}

impl TimeUnit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
        }
    }

    /// Converts a number of this unit to a time.
    ///
    /// # Errors
    /// If it is negative or too large.
    pub fn duration(self, number: f64) -> Result<Duration, String> {
        let seconds = match self {
            Self::Seconds => number,
            Self::Milliseconds => number / 1e3,
        };
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("invalid time `{number}`; expected a number of {}", self.as_str()))
    }
}

/// Reads settings of this module from JSON. Unlike in a file, times may be numbers, in this unit.
///
/// # Errors
/// If the text is not JSON of that type: the path of the setting, and the reason.
pub fn read_options<T: DeserializeOwned>(json: &str, unit: TimeUnit) -> Result<T, SettingError> {
    let mut settings = parse_object("", json)?;
    for pointer in TIMES {
        let Some(setting) = settings.pointer_mut(pointer) else { continue };
        if let Some(number) = setting.as_f64() {
            let failed = |message| SettingError::new(pointer.trim_start_matches('/').replace('/', "."), message);
            let time = unit.duration(number).map_err(failed)?;
            *setting = Value::String(format!("{}ns", time.as_nanos()));
        }
    }
    deserialize_setting("", settings)
}

/// Where calls run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostIsolation {
    /// In the process of the host.
    #[default]
    InProcess,
    /// In worker processes, in a kernel jail.
    Process,
    /// In worker processes, and only with a complete jail.
    ProcessRequired,
}

/// Options of a host. Paths are relative to the working folder.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// The program `fumehood` that compiles components and runs workers. The default is the program of this package.
    pub program: PathBuf,
    /// Where calls run: in this process (default), in worker processes in a kernel jail, or only in worker processes with
    /// a complete jail.
    #[serde(default)]
    pub isolation: HostIsolation,
    /// Limits of calls without separate limits.
    #[serde(default)]
    pub limits: LimitsSection,
    /// A folder for compiled code. Without one it is in memory.
    pub cache: Option<PathBuf>,
    /// A file for the keys and values of tools. Without one they are in memory.
    pub key_value_store: Option<PathBuf>,
    /// Maximum number of running calls. Further calls wait.
    pub concurrency: Option<u32>,
    /// Maximum number of waiting calls. Further calls are refused.
    pub queue: Option<u32>,
    /// Maximum number of running HTTP requests of all calls together.
    pub http_in_flight: Option<u32>,
    /// The largest memory limit that a call may have.
    pub memory_ceiling: Option<Bytes>,
    /// Components of registries. Without these settings none can be loaded.
    pub registry: Option<RegistrySettings>,
    /// The file with the approvals that `fumehood approve` writes. With one, only approved tools can be called. It is read
    /// whenever a component is loaded.
    pub lock: Option<PathBuf>,
    /// A file for the event log. Every call is recorded in it before it runs. Without one nothing is recorded.
    pub log: Option<PathBuf>,
    /// The file with the key that seals the event log. It is created with the log. Default: the file of the log with `.key`.
    pub log_key: Option<PathBuf>,
}

/// Options of the load of one component. Paths are relative to the working folder.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The file of the component, or its reference, such as `oci://ghcr.io/acme/greeter:1.0`. Left out for bytes.
    pub path: Option<PathBuf>,
    /// The name of the component. The default is the name of the file. Bytes need one.
    pub name: Option<String>,
    /// Its powers. The default is none.
    pub grants: Option<Powers>,
    /// The capabilities of the host that it may use, by their names, each with its grant: plain data without secrets, which an
    /// approval pins. The default is none.
    pub capabilities: BTreeMap<String, Value>,
    /// Limits of its calls, in place of the host's.
    pub limits: Option<LimitsSection>,
    /// Refuse it if it imports a power that it is not granted.
    pub strict_imports: bool,
    /// Compile it even if that takes many seconds.
    pub allow_slow_compile: bool,
    /// Run its calls in a worker process, whatever the host's `isolation`.
    pub isolated: bool,
    /// Replace the component that has its name, if there is one, in one step. Running calls continue with the old one. Without
    /// it, a component of the same bytes, grants and limits stays, and any other is an error.
    pub replace: bool,
}

/// Options of one call.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CallSettings {
    /// Limits of this call, in place of the tool's.
    pub limits: Option<LimitsSection>,
    /// The id of the call in its result and in events. Default: one that the host generates.
    pub id: Option<String>,
    /// The actor on whose behalf the call runs. Default: a guest.
    pub actor: Option<String>,
    /// The agent's state, as JSON text. Only a tool with the grant `state` can read it.
    pub state: Option<String>,
}

/// Options of an agent.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentSettings {
    /// The system prompt: the role of the model, and how it should behave. Default: none.
    pub system: Option<String>,
    /// The tools that the model may call. Default: all tools of the host, also those that are loaded later.
    pub allow: Option<Vec<String>>,
    /// The tools whose calls need approval by `approve`. Default: all tools if there is an `approve`, and otherwise none.
    pub ask: Option<Vec<String>>,
    /// Limits of its runs and of the whole conversation.
    pub budget: BudgetSection,
    /// The actor on whose behalf its calls run. Default: a guest.
    pub actor: Option<String>,
    /// The agent's state, as JSON text. Only a tool with the grant `state` can read it.
    pub state: Option<String>,
}

/// Components of registries, with the names of `[registry]` in `fumehood.toml`. Paths are relative to the working
/// folder.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistrySettings {
    /// The folder that components are kept in.
    pub store: PathBuf,
    /// Use only components that are in the store.
    #[serde(default)]
    pub offline: bool,
    /// Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default:
    /// all names.
    pub allow: Option<Vec<String>>,
    /// The rule for signatures. Default: required.
    #[serde(default)]
    pub signatures: SignatureRule,
    /// Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or a file with it.
    #[serde(default)]
    pub trusted_keys: Vec<TextSource>,
    /// The only trusted keys for names that match a pattern.
    #[serde(default)]
    pub trusted: BTreeMap<String, Vec<TextSource>>,
    /// Maximum size of a component. The default is 64 MiB.
    pub max_bytes: Option<Bytes>,
    /// Minimum age of a signature. The default is none.
    pub min_age: Option<Time>,
    /// Digests of manifests and components that are refused.
    #[serde(default)]
    pub revoked: Vec<String>,
    /// Mirrors of registries, tried in this order before the registry.
    #[serde(default)]
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// The proxy for all requests. Default: none; proxy variables of the environment are ignored.
    pub proxy: Option<String>,
    /// Registries, `HOST[:PORT]`, to contact without encryption. Default: registries on this machine.
    #[serde(default)]
    pub plain_http: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, unit: TimeUnit, expected: Result<Duration, &str>) {
        let read = read_options::<CallSettings>(json, unit).map_err(|error| error.to_string());
        let deadline = read.map(|settings| settings.limits.and_then(|limits| limits.deadline).unwrap().0);
        assert_eq!(deadline, expected.map_err(str::to_owned));
    }

    #[test]
    fn times_may_be_numbers_of_the_unit() {
        let deadline = |time: &str| format!(r#"{{"limits": {{"deadline": {time}}}}}"#);
        check(&deadline("2.5"), TimeUnit::Seconds, Ok(Duration::from_millis(2500)));
        check(&deadline("2"), TimeUnit::Seconds, Ok(Duration::from_secs(2)));
        check(&deadline("2500"), TimeUnit::Milliseconds, Ok(Duration::from_millis(2500)));
        check(&deadline("0.5"), TimeUnit::Milliseconds, Ok(Duration::from_micros(500)));
        check(&deadline("\"2s\""), TimeUnit::Milliseconds, Ok(Duration::from_secs(2)));
        let negative = "`limits.deadline`: invalid time `-1`; expected a number of milliseconds";
        check(&deadline("-1"), TimeUnit::Milliseconds, Err(negative));
        let large = "`limits.deadline`: invalid time `1e300`; expected a number of seconds";
        check(&deadline("1e300"), TimeUnit::Seconds, Err(&large.replace("1e300", &1e300.to_string())));
        let boolean = "`limits.deadline`: invalid type: boolean `true`, expected a string with a number and a unit, such as \"2s\"";
        check(&deadline("true"), TimeUnit::Seconds, Err(boolean));
    }

    #[test]
    fn errors_of_options_name_the_setting() {
        let read = |json: &str| read_options::<LoadSettings>(json, TimeUnit::Seconds).unwrap_err().to_string();
        assert!(read(r#"{"grants": {"raed": []}}"#).starts_with("`grants.raed`: unknown field `raed`"));
        assert!(read(r#"{"grants": {"clock": -1}}"#).starts_with("`grants.clock`: invalid time `-1`"));
        assert!(read("[]").starts_with("`settings`: expected an object"));
        assert!(read("{").starts_with("`settings`: EOF"));
    }
}
