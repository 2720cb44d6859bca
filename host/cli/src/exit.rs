//! Exit codes, listed in `fumehood --help`, and the errors that lead to them.

use std::path::PathBuf;
use std::process::ExitCode;

use fumehood::agent::agent::BuildError as AgentBuildError;
use fumehood::agent::pipeline::PipelineError;
use fumehood::model::{ScriptError, SetupError, SpecError};
use fumehood::{AgentError, CallResult, ComponentError, ErrorKind, LoadError, LockError, SchemaError, Stage, ToolName};

use fumehood_author::build::BuildError;
use fumehood_author::cases::{CaseError, RunError};
use fumehood_author::mcp_package::McpPackageError;
use fumehood_author::project::ProjectError;
use fumehood_author::scaffold::ScaffoldError;
use fumehood_registry::error::RegistryError;
use fumehood_registry::fetch::FetchError;
use fumehood_registry::index::IndexError;
use fumehood_registry::publish::PublishError;
use fumehood_registry::signature::KeyError;

use crate::config::ConfigError;
use crate::registry::RegistrySetupError;

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    ToolFailed = 1,
    Usage = 2,
    Refused = 3,
    Stopped = 4,
    Crashed = 5,
    NotLoaded = 6,
    Host = 7,
    NoAnswer = 8,
    Tampered = 9,
    Unverified = 10,
    Waiting = 11,
    Incomplete = 12,
    Interrupted = 130,
}

/// An error in the command line that only shows after it was parsed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Something that was refused before it was done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RefusedError(pub(crate) String);

/// A question that needs a terminal, and there is none. It has what was not done.
#[derive(Debug, thiserror::Error)]
#[error("{0}, because there is no terminal to ask at; review it, then pass `--yes`")]
pub(crate) struct UnansweredError(pub(crate) String);

/// The configuration is not trusted, so it has no effect.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file} {why} and was ignored, because it could start programs and send secrets; review and trust it with \
     `fumehood trust`, or use it for this run with `--trust-config`"
)]
pub(crate) struct UntrustedConfigError {
    pub(crate) file: String,
    pub(crate) why: &'static str,
}

/// Cases reach beyond their project and are not trusted, so none was run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file} {why}, and no case was run, because it reaches beyond the project:\n{effects}\nreview and trust it with \
     `fumehood trust {file}`, or use it for this run with `--trust-config`"
)]
pub(crate) struct UntrustedCasesError {
    pub(crate) file: String,
    pub(crate) why: &'static str,
    pub(crate) effects: String,
}

/// The component cannot be loaded. It is named after its file, because the name that a host gives it was not typed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ComponentLoadError {
    #[error("cannot load {file}")]
    Component { file: String, source: ComponentError },
    /// A component of the command line, with a hint that names options.
    #[error("cannot load {file}")]
    Typed { file: String, source: UsageError },
    /// A file that does not exist, beside one with a similar name.
    #[error("there is no file {}; {suggestion}", path.display())]
    Misspelt { path: PathBuf, suggestion: String },
    #[error("cannot load {file}: invalid {which} schema of its tool `{tool}`")]
    Schema { file: String, tool: ToolName, which: &'static str, source: SchemaError },
}

/// The model cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelSetupError {
    #[error("cannot use the model `{model}`{hint}")]
    Provider { model: String, hint: &'static str, source: SetupError },
    #[error("invalid model name")]
    Name(#[from] SpecError),
    #[error("cannot use the script `{file}`")]
    Script { file: String, source: ScriptError },
}

/// An error of finding or opening a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
    #[error("there is no home folder for keys; give a file")]
    NoFolder,
    #[error("invalid key name `{0}`; expected letters, digits, `-` and `_`, or a path with a `/`")]
    Name(String),
    #[error("no key `{name}` in {folder}; `fumehood key list` lists your keys, `fumehood key new` creates one")]
    Missing { name: String, folder: String },
    #[error("no public key {0}; expected a PEM file, or the name of a key from `fumehood key list`")]
    NoPublic(String),
    #[error("{0} already exists, and keys are never overwritten; choose another file, or move this one away")]
    Exists(String),
    #[error("the private key {0} would have the name of its public key; choose another name, such as `release.pem`")]
    PublicName(String),
    #[error(
        "{0} needs a passphrase, and standard input is not a terminal; set FUMEHOOD_KEY_PASSPHRASE, or name a file \
         with `--passphrase-file`"
    )]
    NoPassphrase(String),
    #[error("cannot read the passphrase in {file}: {reason}")]
    PassphraseFile { file: String, reason: String },
    #[error("the passphrases differ; nothing was written")]
    Different,
    #[error("no passphrase was given; nothing was done")]
    GivenUp,
    #[error("cannot write {file}")]
    Write { file: String, source: std::io::Error },
}

impl Exit {
    /// Returns the name of the code, for `--json`.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolFailed => "tool_failed",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Crashed => "crashed",
            Self::NotLoaded => "not_loaded",
            Self::Host => "host",
            Self::NoAnswer => "no_answer",
            Self::Tampered => "tampered",
            Self::Unverified => "unverified",
            Self::Waiting => "waiting_for_approval",
            Self::Incomplete => "incomplete_answer",
            Self::Interrupted => "cancelled",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Maps the result of a call to an exit code.
pub(crate) fn from_result(result: &CallResult) -> Exit {
    let Some(error) = result.error() else { return Exit::Ok };
    match error.kind.stage() {
        _ if error.kind == ErrorKind::Cancelled => Exit::Interrupted,
        // A tool itself may answer that its arguments are invalid, or that it lacks a power.
        Stage::Refused if result.metadata.fuel_used > 0 => Exit::ToolFailed,
        Stage::Refused => Exit::Refused,
        Stage::Stopped => Exit::Stopped,
        Stage::Crashed => Exit::Crashed,
        Stage::Failed => Exit::ToolFailed,
        Stage::Host => Exit::Host,
    }
}

/// Maps an error of a command for authors to an exit code.
fn from_author_error(error: &anyhow::Error) -> Option<Exit> {
    if let Some(error) = error.downcast_ref::<BuildError>() {
        return Some(match error {
            BuildError::Start { .. } | BuildError::Io { .. } => Exit::Host,
            BuildError::Failed { .. }
            | BuildError::Syntax(_)
            | BuildError::Component(_)
            | BuildError::Irreproducible { .. } => Exit::ToolFailed,
            _ => Exit::Usage,
        });
    }
    if let Some(error) = error.downcast_ref::<RunError>() {
        return Some(match error {
            RunError::Load { .. } => Exit::NotLoaded,
            RunError::Case { .. } => Exit::Usage,
            _ => Exit::Host,
        });
    }
    match error.downcast_ref::<ScaffoldError>() {
        Some(ScaffoldError::Write { .. }) => return Some(Exit::Host),
        Some(_) => return Some(Exit::Usage),
        None => {}
    }
    let is_usage = error.is::<CaseError>() || error.is::<ProjectError>() || error.is::<McpPackageError>();
    is_usage.then_some(Exit::Usage)
}

/// Maps an error of keys and publications to an exit code.
fn from_publish_error(error: &anyhow::Error) -> Option<Exit> {
    if let Some(error) = error.downcast_ref::<KeyFileError>() {
        return Some(match error {
            KeyFileError::GivenUp => Exit::Interrupted,
            KeyFileError::Write { .. } => Exit::Host,
            _ => Exit::Usage,
        });
    }
    if let Some(error) = error.downcast_ref::<KeyError>() {
        return Some(match error {
            KeyError::Passphrase | KeyError::Open(_) => Exit::Refused,
            KeyError::Random | KeyError::Io { .. } => Exit::Host,
            _ => Exit::Usage,
        });
    }
    #[cfg(feature = "cell")]
    if let Some(fumehood::cell::KeyError::Exists(_)) = error.downcast_ref() {
        return Some(Exit::Usage);
    }
    match error.downcast_ref::<PublishError>() {
        Some(PublishError::Registry(RegistryError::Denied { .. })) => return Some(Exit::Refused),
        Some(PublishError::Artifact(_)) => return Some(Exit::NotLoaded),
        Some(PublishError::OtherDigest { .. }) => return Some(Exit::Refused),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<IndexError>() {
        return Some(match error {
            IndexError::Build(_) => Exit::Usage,
            IndexError::History { .. } => Exit::Host,
            _ => Exit::Refused,
        });
    }
    matches!(error.downcast_ref(), Some(RegistryError::Url { .. })).then_some(Exit::Usage)
}

/// Maps an error that kept a call from being made to an exit code.
pub(crate) fn from_error(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<LoadError>() {
        Some(LoadError::Limits(_) | LoadError::Name { .. }) => Exit::Usage,
        Some(_) => Exit::NotLoaded,
        None if error.is::<ComponentLoadError>() => Exit::NotLoaded,
        None if error.is::<UsageError>() || error.is::<ModelSetupError>() => Exit::Usage,
        None if error.is::<UnansweredError>() || error.is::<RefusedError>() => Exit::Refused,
        None if error.is::<UntrustedConfigError>() || error.is::<UntrustedCasesError>() => Exit::Refused,
        None if let Some(error) = error.downcast_ref::<FetchError>() => match error {
            FetchError::Policy(_) => Exit::Refused,
            _ => Exit::NotLoaded,
        },
        None if error.is::<RegistrySetupError>() => Exit::Usage,
        None if let Some(exit) = from_author_error(error) => exit,
        None if let Some(exit) = from_publish_error(error) => exit,
        None if error.is::<ConfigError>() || error.is::<LockError>() => Exit::Usage,
        None if let Some(error) = error.downcast_ref::<AgentError>() => match error {
            AgentError::Tool(_) => Exit::NotLoaded,
            AgentError::Agent(AgentBuildError::Resume { .. }) | AgentError::Pipeline(PipelineError::CodeAndSearch) => {
                Exit::Usage
            }
            _ => Exit::Host,
        },
        None => Exit::Host,
    }
}
