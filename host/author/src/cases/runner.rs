//! Calls of cases in the sandbox: the one file that uses the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fumehood::key_value::{Key, KeyValueStore, MAX_PAGE_KEYS, MemoryStore, Prefix, Query, StoreError};
use fumehood::permission::GrantError;
use fumehood::permission::files::{Access, Folder};
use fumehood::permission::http::{HttpGrant, HttpLimits, HttpRule};
use fumehood::permission::{KeyValueQuota, Seed};
use fumehood::{
    Call, CallResult, CapturedStream, Content, Grant, Host, HostBuilder, Level, Limits, Load, Namespace, Observer,
};
use serde_json::Value;

use super::case::{Case, CaseFile};
use super::http_mock::HttpMock;
use super::http_recorder::Recording;
use crate::build::PROGRAM_FOLDER;

/// Quota of the private store of a case that fills it without granting one, in bytes.
const DEFAULT_STORE_BYTES: u64 = 1 << 20;
/// Patience with the store, which is in memory.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// The parts of a runner that the program around it provides.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Makes the settings of a host.
    pub host: &'a dyn Fn() -> HostBuilder,
    /// Makes the grant of a case: its own table, and what the tool asks for. Folders count from the path.
    pub grant: &'a dyn Fn(&Case, &Path) -> Result<Grant, String>,
    /// The limits of the tool, which a case may change.
    pub limits: Limits,
    /// The folder of the program, if the component is an interpreter for development.
    pub program: Option<&'a Path>,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

/// A component in a sandbox of its own, with servers that answer as cases say.
#[derive(Debug)]
pub struct Runner<'a> {
    environment: Environment<'a>,
    component: &'a Path,
    name: Namespace,
    host: Host,
    store: Arc<MemoryStore>,
    http: HttpMock,
}

/// The result of one call, and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The result: an object with `text`, `json` or `content`, or with `error` and `message`.
    pub result: Value,
    /// The keys and values of the private store after the call.
    pub store: BTreeMap<String, String>,
    /// The fuel that the call used.
    pub fuel: u64,
    /// The peak memory of the call, in bytes.
    pub memory: u64,
    /// Requests that no exchange of the case answers.
    pub unanswered: Vec<String>,
    /// Exchanges of the case that the tool did not ask for.
    pub unused: Vec<String>,
    /// What the tool wrote during the call, which no model sees: log lines, stdout, stderr, and the frames of a crash.
    pub output: Vec<String>,
}

/// Keeps the log lines of a call.
#[derive(Debug, Default)]
struct LogLines(Mutex<Vec<String>>);

impl Observer for LogLines {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {message}", level.as_str()));
    }
}

/// Errors of running cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The sandbox cannot be set up.
    #[error("cannot set up the sandbox")]
    Host(#[from] fumehood::BuildError),
    /// The component cannot be loaded.
    #[error("cannot load {file}")]
    Load {
        /// The file.
        file: String,
        /// The reason.
        source: fumehood::LoadError,
    },
    /// The servers of the cases cannot be set up.
    #[error("cannot set up the mock servers of the cases: {0}")]
    Http(String),
    /// The folder of a program cannot be granted.
    #[error("cannot read the program of the tool")]
    Program(#[source] GrantError),
    /// A case cannot be called as it is written.
    #[error("the case \"{case}\": {reason}")]
    Case {
        /// The name of the case.
        case: String,
        /// The reason.
        reason: String,
    },
}

impl<'a> Runner<'a> {
    /// Prepares a sandbox for the cases of these files.
    ///
    /// # Errors
    /// If the sandbox or the servers cannot be set up.
    pub async fn start(
        environment: Environment<'a>,
        component: &'a Path,
        files: &[CaseFile],
    ) -> Result<Self, RunError> {
        let exchanges = files.iter().flat_map(|file| &file.cases).flat_map(|case| &case.http);
        let hosts = exchanges.filter_map(|exchange| exchange.host().map(str::to_owned)).collect();
        let http = HttpMock::start(hosts).await.map_err(RunError::Http)?;
        Self::with_servers(environment, component, http)
    }

    /// Prepares a sandbox for a call whose requests reach their servers, which is recorded.
    ///
    /// # Errors
    /// If the sandbox or the recorder cannot be set up.
    pub async fn start_recording(environment: Environment<'a>, component: &'a Path) -> Result<Self, RunError> {
        let http = HttpMock::start_recording().await.map_err(RunError::Http)?;
        Self::with_servers(environment, component, http)
    }

    fn with_servers(environment: Environment<'a>, component: &'a Path, http: HttpMock) -> Result<Self, RunError> {
        let failed = |source| RunError::Load { file: component.display().to_string(), source };
        let name = Load::path(component).name().map_err(failed)?;
        let store = Arc::new(MemoryStore::default());
        let builder = (environment.host)().resolver(http.resolver()).key_value_store(Arc::clone(&store) as _);
        let builder =
            builder.trusted_roots(&[http.root().to_vec()]).map_err(|error| RunError::Http(error.to_string()))?;
        let host = builder.build()?;
        Ok(Self { environment, component, name, host, store, http })
    }

    /// Makes the call of a case. Folders of its grant count from `folder`.
    ///
    /// # Errors
    /// If the component cannot be loaded, or the case cannot be called as it is written. A call that fails is a result.
    pub async fn run(&self, case: &Case, folder: &Path) -> Result<Observation, RunError> {
        let wrong = |reason: String| RunError::Case { case: case.name.clone(), reason };
        let grant = self.grant(case, folder).map_err(wrong)?;
        let limits = case.limits(self.environment.limits).map_err(wrong)?;
        let arguments = case.arguments().map_err(wrong)?.to_string();
        let log = Arc::new(LogLines::default());
        let mut call = Call::new(format!("{}__{}", self.name, case.tool), arguments).limits(limits);
        call = call.observer(Arc::clone(&log) as Arc<dyn Observer>);
        if let Some(actor) = &case.actor {
            call = call.actor(actor.as_str());
        }
        if let Some(state) = case.state().map_err(wrong)? {
            call = call.state(state);
        }
        self.fill_store(&case.store).map_err(wrong)?;
        self.http.expect(&case.http).map_err(wrong)?;
        self.load(grant, limits).await?;
        let result = self.host.call(call).await;
        self.host.unload(self.name.as_str());
        let (unanswered, unused) = self.http.finish();
        Ok(Observation {
            store: self.read_store().map_err(wrong)?,
            fuel: result.metadata.fuel_used,
            memory: result.metadata.peak_memory as u64,
            result: self.to_value(&result),
            unanswered,
            unused,
            output: self.output_of(&log, &result),
        })
    }

    /// Returns the exchanges with servers that were recorded since the last time.
    #[must_use]
    pub fn finish_recording(&self) -> Recording {
        self.http.finish_recording()
    }

    /// Returns the names of the component's tools.
    ///
    /// # Errors
    /// If the component cannot be loaded.
    pub async fn tool_names(&self) -> Result<Vec<String>, RunError> {
        self.load(Grant::none(), self.environment.limits).await?;
        let names = self.host.tools().iter().map(|tool| tool.definition().name.to_string()).collect();
        self.host.unload(self.name.as_str());
        Ok(names)
    }

    async fn load(&self, grant: Grant, limits: Limits) -> Result<(), RunError> {
        // The limit of strings counts when a component is loaded.
        let mut load = Load::path(self.component).allow_slow_compile().limits(limits);
        if let Some(program) = self.environment.program {
            load = load.grant(grant_program(grant, program).map_err(RunError::Program)?).describe_with_grant();
        } else {
            load = load.grant(grant);
        }
        let loaded = self.host.load(load).await;
        loaded.map_err(|source| RunError::Load { file: self.component.display().to_string(), source })?;
        Ok(())
    }

    /// Ends the sandbox.
    pub async fn close(self) {
        self.host.shutdown(Duration::ZERO).await;
    }

    /// Returns the grant of a case: what it says, and what its other keys need.
    fn grant(&self, case: &Case, folder: &Path) -> Result<Grant, String> {
        let mut grant = (self.environment.grant)(case, folder)?;
        if let Some(time) = case.fixed_time()? {
            grant = grant.with_fixed_time(time);
        }
        if let Some(seed) = case.seed {
            grant = grant.with_seed(Seed::from(seed));
        }
        let uses_store = !case.store.is_empty() || case.expect.as_ref().is_some_and(|expect| expect.store.is_some());
        if uses_store && grant.key_value().is_none() {
            let quota = KeyValueQuota::new(DEFAULT_STORE_BYTES).map_err(|error| error.to_string())?;
            grant = grant.with_key_value(quota);
        }
        if !case.http.is_empty() && grant.http().is_none() {
            let rules = case.http.iter().map(|exchange| {
                let (method, address) = exchange.parts()?;
                let rule = format!("{method} {}", address.split(['?', '#']).next().unwrap_or(address));
                rule.parse::<HttpRule>().map_err(|error| error.to_string())
            });
            let rules = rules.collect::<Result<Vec<_>, String>>()?;
            let http = HttpGrant::new(rules, Vec::new(), HttpLimits::default()).map_err(|error| error.to_string())?;
            grant = grant.with_http(http);
        }
        Ok(grant)
    }

    /// Replaces the contents of the private store.
    fn fill_store(&self, contents: &BTreeMap<String, String>) -> Result<(), String> {
        for key in self.keys().map_err(|error| error.to_string())? {
            self.store.delete(&self.name, &key, STORE_TIMEOUT).map_err(|error| error.to_string())?;
        }
        for (key, value) in contents {
            let key = Key::parse(key.as_str()).map_err(|error| format!("`store`: {error}"))?;
            let set = self.store.set(&self.name, &key, value.as_bytes(), KeyValueQuota::MAX_BYTES, STORE_TIMEOUT);
            set.map_err(|error| format!("`store`: {error}"))?;
        }
        Ok(())
    }

    fn read_store(&self) -> Result<BTreeMap<String, String>, String> {
        let keys = self.keys().map_err(|error| error.to_string())?;
        let entry = |key: Key| {
            let value = self.store.get(&self.name, &key, STORE_TIMEOUT).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
            Ok((key.as_str().to_owned(), text))
        };
        keys.into_iter().map(entry).collect()
    }

    fn keys(&self) -> Result<Vec<Key>, StoreError> {
        let prefix = Prefix::parse("").map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let mut query = Query { prefix, after: None, limit: MAX_PAGE_KEYS };
        let mut keys = Vec::new();
        loop {
            let page = self.store.list(&self.name, &query, STORE_TIMEOUT)?;
            query.after = page.keys.last().cloned();
            keys.extend(page.keys);
            if !page.more {
                return Ok(keys);
            }
        }
    }

    /// Returns what a tool wrote during its call.
    fn output_of(&self, log: &LogLines, result: &CallResult) -> Vec<String> {
        let mut output = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, CapturedStream { text, .. }) in
            [("stdout", &result.metadata.stdout), ("stderr", &result.metadata.stderr)]
        {
            output.extend(text.to_sanitized().lines().map(|line| format!("{name}: {line}")));
        }
        if let Some(error) = result.error() {
            output.extend(error.backtrace.iter().map(|frame| format!("at {frame}")));
            let hint = error.hint.as_ref().map(|hint| hint.replace(&format!("{}__", self.name), ""));
            output.extend(hint.map(|hint| format!("hint: {hint}")));
        }
        output
    }

    /// Returns a result in the form that cases have: tools have their own names, without that of the component.
    fn to_value(&self, result: &CallResult) -> Value {
        match &result.outcome {
            Err(error) => {
                let message = error.message.as_str().replace(&format!("{}__", self.name), "");
                serde_json::json!({"error": error.kind.as_str(), "message": message})
            }
            Ok(parts) => match parts.as_slice() {
                [Content::Text { text }] => serde_json::json!({"text": text.to_sanitized()}),
                [Content::Json { value }] => {
                    let sanitized = value.to_sanitized();
                    let parsed = serde_json::from_str(&sanitized).unwrap_or_else(|_| Value::from(sanitized.as_ref()));
                    serde_json::json!({"json": parsed})
                }
                parts => serde_json::json!({"content": parts}),
            },
        }
    }
}

/// Adds the folder of a program to the grant of its interpreter.
///
/// # Errors
/// If another folder has the guest path.
pub fn grant_program(grant: Grant, program: &Path) -> Result<Grant, GrantError> {
    let absolute = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    grant.with_folder(Folder::new(absolute, PROGRAM_FOLDER, Access::Read)?)
}
