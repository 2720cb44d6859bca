//! Errors of builds.

use std::path::{Path, PathBuf};

use crate::language::Language;
use crate::project::ProjectError;

/// Errors of building a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The project cannot be read.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A tool is not installed.
    #[error("{what}; {remedy}")]
    MissingTool {
        /// The tool that is missing.
        what: String,
        /// The command that installs it.
        remedy: String,
    },
    /// The manifest lacks a setting, or has one that cannot be used.
    #[error("{}: {reason}", manifest.display())]
    Setting {
        /// The manifest.
        manifest: PathBuf,
        /// The setting, and a value for it.
        reason: String,
    },
    /// A tool cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A tool failed.
    #[error("`{program}` failed{reason}")]
    Failed {
        /// The program and its command.
        program: String,
        /// Its messages, or the place where they are.
        reason: String,
    },
    /// A source has an error. The text is its file, line and message.
    #[error("{0}")]
    Syntax(String),
    /// The result of the compiler is not a component, or cannot become one.
    #[error("the compiler did not produce a component: {0}")]
    Component(String),
    /// The WIT is not valid.
    #[error("{} is not valid WIT: {reason}", path.display())]
    Wit {
        /// The file or folder.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
    /// The doc comments cannot be read.
    #[error("cannot use the doc comments of the WIT")]
    Docs(#[from] fumehood::WitDocsError),
    /// A value of the manifest cannot be embedded.
    #[error("cannot embed the {field} of the manifest: {reason}")]
    Metadata {
        /// The field.
        field: &'static str,
        /// The reason.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Two builds gave different components.
    #[error(
        "two builds of the same sources differ from byte {offset}: sha256:{first} and sha256:{second}; check code that \
         runs at build time for dates and unordered collections"
    )]
    Irreproducible {
        /// The digest of the first component.
        first: String,
        /// The digest of the second component.
        second: String,
        /// The offset of the first byte that differs.
        offset: usize,
    },
    /// Two builds always give different components.
    #[error("the runtime of {0} puts random numbers into components, so two builds always differ; leave `--check` out")]
    RandomRuntime(Language),
}

impl BuildError {
    /// Creates the error of WIT that cannot be parsed.
    pub(super) fn wit(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self::Wit { path: path.to_owned(), reason: format!("{error:#}").trim().to_owned() }
    }

    /// Creates the error of a setting of the project's manifest.
    pub(super) fn setting(manifest: PathBuf, reason: impl Into<String>) -> Self {
        Self::Setting { manifest, reason: reason.into() }
    }

    /// Creates the error of a file that cannot be read or written.
    pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}
