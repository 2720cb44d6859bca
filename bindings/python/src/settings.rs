//! Settings of a host and of a component, as the Python package passes them: JSON with the names of `fumehood.toml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood::key_value::DiskStore;
use fumehood::permission::files::FileRole;
use fumehood::{CodeCache, CompileBudget, Compiler, HostBuilder, Isolation, IsolationPolicy, Limits, Load, Workers};
use pyo3::PyResult;
use serde::Deserialize;

use crate::amount::{Bytes, Count, Time};
use crate::error::{host_error, value_error};
use crate::grant::Powers;

/// The hidden commands of the program `fumehood` that compile a component and run calls.
const COMPILE_COMPONENT: &str = "compile-component";
const RUN_WORKER: &str = "run-worker";

/// Limits of one call. A limit that is left out has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsSection {
    deadline: Option<Time>,
    fuel: Option<Count>,
    memory: Option<Bytes>,
    output: Option<Bytes>,
    log: Option<Bytes>,
    string: Option<Bytes>,
}

impl LimitsSection {
    /// Reads limits from JSON.
    pub(crate) fn read(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|error| value_error("limits", &without_place(&error)))
    }

    /// Returns `defaults`, overridden by the limits that are written here.
    pub(crate) fn over(&self, defaults: Limits) -> Limits {
        Limits {
            deadline: self.deadline.map_or(defaults.deadline, |time| time.0),
            fuel: self.fuel.map_or(defaults.fuel, |count| count.0),
            memory: self.memory.map_or(defaults.memory, |bytes| bytes.0),
            output: self.output.map_or(defaults.output, |bytes| bytes.0),
            log: self.log.map_or(defaults.log, |bytes| bytes.0),
            string: self.string.map(|bytes| bytes.0).or(defaults.string),
            ..defaults
        }
    }
}

/// Components that run in worker processes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IsolationRule {
    /// None of them.
    InProcess,
    /// All of them.
    Process,
    /// All of them, and only in a complete jail.
    ProcessRequired,
}

/// The keyword arguments of `Host`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostSettings {
    program: PathBuf,
    isolation: IsolationRule,
    cache: Option<PathBuf>,
    key_value_store: Option<PathBuf>,
    concurrency: Option<u32>,
    queue: Option<u32>,
    http_in_flight: Option<u32>,
    memory_ceiling: Option<Bytes>,
}

impl HostSettings {
    /// Reads the settings from JSON.
    pub(crate) fn read(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|error| value_error("Host", &without_place(&error)))
    }

    /// Applies the settings to a builder.
    pub(crate) fn apply(self, builder: HostBuilder) -> PyResult<HostBuilder> {
        let args = vec![COMPILE_COMPONENT.into()];
        let compiler = Compiler::Child { program: self.program.clone(), args, budget: CompileBudget::default() };
        let mut builder = builder.compiler(compiler).protect(&self.program, FileRole::Program);
        let workers = Workers::program(&self.program, [RUN_WORKER]);
        builder = match self.isolation {
            IsolationRule::InProcess => builder.workers(workers).isolation(IsolationPolicy::Nothing),
            IsolationRule::Process => builder.workers(workers).isolation(IsolationPolicy::Everything),
            IsolationRule::ProcessRequired => {
                builder.workers(workers.require_jail()).isolation(IsolationPolicy::Everything)
            }
        };
        if let Some(folder) = &self.cache {
            builder = builder.code_cache(CodeCache::open(absolute(folder)?).map_err(|error| host_error(&error))?);
        }
        if let Some(file) = &self.key_value_store {
            let file = absolute(file)?;
            let store = DiskStore::open(&file).map_err(|error| host_error(&error))?;
            builder = builder.own_folder(file).key_value_store(Arc::new(store));
        }
        builder = self.concurrency.into_iter().fold(builder, HostBuilder::concurrency);
        builder = self.queue.into_iter().fold(builder, HostBuilder::queue);
        builder = self.http_in_flight.into_iter().fold(builder, HostBuilder::http_in_flight);
        Ok(self.memory_ceiling.into_iter().fold(builder, |builder, bytes| builder.memory_ceiling(bytes.0)))
    }
}

/// The keyword arguments of `Host.load`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadSettings {
    path: Option<PathBuf>,
    name: Option<String>,
    strict_imports: bool,
    allow_slow_compile: bool,
    isolated: bool,
}

impl LoadSettings {
    /// Reads the settings from JSON.
    pub(crate) fn read(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|error| value_error("load", &without_place(&error)))
    }

    /// Creates the load of a file, or of `bytes` in its place.
    pub(crate) fn load(self, bytes: Option<Vec<u8>>, grant: Option<&str>) -> PyResult<Load> {
        let mut load = match (bytes, self.path, self.name) {
            (Some(bytes), _, name) => Load::bytes(name.unwrap_or_default(), bytes),
            (None, path, Some(name)) => Load::path(absolute(&path.unwrap_or_default())?).named(name),
            (None, path, None) => Load::path(absolute(&path.unwrap_or_default())?),
        };
        if let Some(json) = grant {
            let powers: Powers =
                serde_json::from_str(json).map_err(|error| value_error("grants", &without_place(&error)))?;
            load = load.grant(powers.grant().map_err(|message| value_error("grants", &message))?);
        }
        if self.strict_imports {
            load = load.strict_imports();
        }
        if self.allow_slow_compile {
            load = load.allow_slow_compile();
        }
        Ok(if self.isolated { load.isolation(Isolation::Process) } else { load })
    }
}

fn absolute(path: &Path) -> PyResult<PathBuf> {
    std::path::absolute(path).map_err(|error| value_error("path", &error))
}

/// Returns the message of an error without its line and column, which mean nothing to those who wrote a dictionary.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
}
