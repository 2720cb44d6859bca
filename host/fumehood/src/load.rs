//! Loading: where the bytes come from, what the component is called, and whether its schemas are acceptable.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood_core::approval::Approval;
use fumehood_core::definition::{DefinitionLimits, ToolDefinition};
use fumehood_core::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::limits::{LimitError, Limits};
use fumehood_core::name::{NameError, Namespace, ToolName};
use fumehood_core::permission::Grant;
use fumehood_runtime::{Component, Isolation, LoadError as ComponentError, LoadOptions, MAX_COMPONENT_BYTES};
use rustix::fs::{Mode, OFlags};

use crate::approval_check::{ApprovalCheck, Pinning};
use crate::tool::Tool;
use crate::wit_docs::WitDocs;

/// A component to load, and how.
#[derive(Debug, Clone)]
pub struct Load {
    source: Source,
    name: Option<String>,
    limits: Option<Limits>,
    grant: Grant,
    strict_imports: bool,
    pinning: Pinning,
    allow_slow_compile: bool,
    docs: Option<WitDocs>,
    isolation: Option<Isolation>,
}

#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

/// Errors of [`Host::load`](crate::Host::load). Nothing of the component is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is a folder, a device, a pipe.
    #[error("{0} is not a regular file; give the path of a component")]
    NotAFile(PathBuf),
    /// There is no name for it.
    #[error("the component needs a name: {reason}; name it yourself with `Load::named`")]
    Name {
        /// The fault of the name that it would have.
        reason: NameError,
    },
    /// Another component is called the same.
    #[error("a component named `{0}` is loaded already; give this one another name, or unload that one first")]
    NameTaken(Namespace),
    /// The component itself is at fault.
    #[error("cannot load `{name}`")]
    Component {
        /// The name of the component.
        name: Namespace,
        /// The fault of the component.
        source: Box<ComponentError>,
    },
    /// One of its schemas is not acceptable.
    #[error("cannot load `{name}`: the {which} schema of its tool `{tool}` is refused")]
    Schema {
        /// The name of the component.
        name: Namespace,
        /// The name of the tool.
        tool: ToolName,
        /// `input` or `output`.
        which: &'static str,
        /// The fault of the schema.
        source: Box<SchemaError>,
    },
    /// The host broke, or is shutting down.
    #[error("the host could not read the component or compile its schemas: it is shutting down, or it panicked")]
    Host,
    /// The limits make no sense.
    #[error("the limits for the component cannot be kept")]
    Limits(#[from] LimitError),
}

impl Load {
    /// A component in a file. It is called after the file, without `.wasm`.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::new(Source::Path(path.into()))
    }

    /// A component in memory, with its name.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(Source::Bytes(bytes.into())).named(name)
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            name: None,
            limits: None,
            grant: Grant::none(),
            strict_imports: false,
            pinning: Pinning::Off,
            allow_slow_compile: false,
            docs: None,
            isolation: None,
        }
    }

    /// Calls it something else. The full name of its tools is `name__tool`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives its calls other limits than the host's own.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Grants it powers. Without this it has none.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// Refuses it if it imports a power that it is not granted, whether it would use it or not.
    ///
    /// Most language runtimes import all of WASI, so this is for components that were built without.
    #[must_use]
    pub fn strict_imports(mut self) -> Self {
        self.strict_imports = true;
        self
    }

    /// Its tools can be called only if it is what was approved; `None`: nothing was, so they cannot. A lock keeps
    /// approvals: see [`crate::Lock::get`].
    ///
    /// A component that is not what was approved is loaded all the same, so that it can be looked at. Then it has been
    /// asked, without any power and within the limits of a call, what its tools are; nothing else of it ever runs.
    #[must_use]
    pub fn approval(mut self, approved: Option<Approval>) -> Self {
        self.pinning = Pinning::On { approved: approved.map(Box::new), base: None };
        self
    }

    /// The same, and folders below `base` are told from there, so that an approval does not depend on where that is.
    #[must_use]
    pub fn approval_below(mut self, base: impl Into<PathBuf>, approved: Option<Approval>) -> Self {
        self.pinning = Pinning::On { approved: approved.map(Box::new), base: Some(base.into()) };
        self
    }

    /// Compiles it even if that takes many seconds.
    #[must_use]
    pub fn allow_slow_compile(mut self) -> Self {
        self.allow_slow_compile = true;
        self
    }

    /// Describes its tools with the doc comments of the WIT that it was made of. For components that export plain typed functions
    /// and have lost theirs; one that describes its tools itself is refused.
    #[must_use]
    pub fn docs(mut self, docs: WitDocs) -> Self {
        self.docs = Some(docs);
        self
    }

    /// Runs its calls there, whatever the host does with others: see [`crate::HostBuilder::isolation`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    pub(crate) fn isolation_wanted(&self) -> Option<Isolation> {
        self.isolation
    }

    /// Returns the name that it will have.
    ///
    /// # Errors
    /// If it was given no name, and what it was given or its file name is none.
    pub fn name(&self) -> Result<Namespace, LoadError> {
        let name = match (&self.name, &self.source) {
            (Some(name), _) => Namespace::parse(name),
            (None, Source::Path(path)) => Namespace::parse(&from_file_name(path)),
            (None, Source::Bytes(_)) => Namespace::parse(""),
        };
        name.map_err(|reason| LoadError::Name { reason })
    }

    pub(crate) fn own_limits(&self) -> Option<Limits> {
        self.limits
    }

    pub(crate) fn pinning(&self) -> (Pinning, Grant) {
        (self.pinning.clone(), self.grant.clone())
    }

    pub(crate) fn options(&self, name: &Namespace, describe: Limits) -> LoadOptions {
        LoadOptions {
            limits: describe,
            definitions: DefinitionLimits::default(),
            name: Some(name.clone()),
            grant: self.grant.clone(),
            strict_imports: self.strict_imports,
            allow_slow_compile: self.allow_slow_compile,
            docs: self.docs.as_ref().map(WitDocs::section),
            isolation: Isolation::default(),
        }
    }

    /// The file that it is in, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::Path(path) => Some(path),
            Source::Bytes(_) => None,
        }
    }

    /// The bytes. A file over the cap is not read at all.
    pub(crate) fn read(self, name: &Namespace) -> Result<Vec<u8>, LoadError> {
        let path = match self.source {
            Source::Bytes(bytes) => return Ok(bytes),
            Source::Path(path) => path,
        };
        let io = |source| LoadError::Read { path: path.clone(), source };
        let too_large =
            |size| Err(LoadError::Component { name: name.clone(), source: Box::new(ComponentError::TooLarge(size)) });
        // Without waiting: opening a pipe would otherwise last until somebody writes. What is looked at is what was opened.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| io(errno.into()))?);
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(LoadError::NotAFile(path));
        }
        let most = MAX_COMPONENT_BYTES as u64;
        if metadata.len() > most {
            return too_large(metadata.len());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        let read = file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
        if read as u64 > most { too_large(read as u64) } else { Ok(bytes) }
    }
}

impl From<&Path> for Load {
    fn from(path: &Path) -> Self {
        Self::path(path)
    }
}

impl From<PathBuf> for Load {
    fn from(path: PathBuf) -> Self {
        Self::path(path)
    }
}

impl From<&str> for Load {
    fn from(path: &str) -> Self {
        Self::path(path)
    }
}

/// The components that run in worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationPolicy {
    /// None.
    Nothing,
    /// All whose bytes are not those of an approval, also while they describe their tools: see
    /// [`crate::Load::approval`].
    Unapproved,
    /// All, whatever [`crate::Load::isolation`] says.
    Everything,
}

impl IsolationPolicy {
    /// Decides where a component of these bytes runs, given the wish of its load.
    pub(crate) fn choose(self, wanted: Option<Isolation>, pinning: &Pinning, bytes: &[u8]) -> Isolation {
        match (self, wanted) {
            (Self::Everything, _) => Isolation::Process,
            (_, Some(wanted)) => wanted,
            (Self::Unapproved, None) if !pinning.knows(bytes) => Isolation::Process,
            (Self::Unapproved | Self::Nothing, None) => Isolation::InProcess,
        }
    }
}

/// `My Tools.wasm` → `my-tools`: what is not part of a name becomes a dash.
fn from_file_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let dashed: String = stem.chars().map(|c| if matches!(c, 'a'..='z' | '0'..='9') { c } else { '-' }).collect();
    dashed.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// The tools of a loaded component, each behind its gates.
pub(crate) fn tools(
    name: &Namespace,
    component: &Component,
    limits: Limits,
    gate_limits: &GateLimits,
    pinned: Option<&Arc<ApprovalCheck>>,
) -> Result<Vec<Tool>, LoadError> {
    let arguments_limits = match limits.string {
        Some(bytes) => gate_limits.clone().with_string_bytes(bytes),
        None => gate_limits.clone(),
    };
    let gated = |(index, definition): (usize, &ToolDefinition)| {
        let refused = |which| {
            let (name, tool) = (name.clone(), definition.name.clone());
            move |source| LoadError::Schema { name, tool, which, source: Box::new(source) }
        };
        let arguments = Gate::for_arguments(definition.input_schema.expose_raw(), arguments_limits.clone())
            .map_err(refused("input"))?;
        let results = definition
            .output_schema
            .as_ref()
            .map(|schema| {
                let limits = results_limits(gate_limits, &limits);
                Gate::for_results(schema.expose_raw(), limits).map_err(refused("output"))
            })
            .transpose()?;
        let tool = Tool::new(name, definition, component.clone(), index, arguments, results, limits);
        Ok(tool.pinned(pinned.cloned()))
    };
    component.definitions().iter().enumerate().map(gated).collect()
}

/// A result may be as large as its own cap says, and its strings too: the cap on arguments is there to protect tools.
fn results_limits(gate: &GateLimits, limits: &Limits) -> GateLimits {
    let bytes = limits.output.max(gate.document_bytes);
    GateLimits { document_bytes: bytes, string_bytes: bytes, ..gate.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_called_after_its_file() {
        let check = |path: &str, expected: &str| assert_eq!(from_file_name(Path::new(path)), expected);
        check("tools/calculator.wasm", "calculator");
        check("My Tools_v2.wasm", "my-tools-v2");
        check("a__b.wasm", "a-b");
        check("/", "");
    }
}
