//! Loading of components: the source of the bytes, the name, and the check of the schemas.

pub(crate) mod error;
pub(crate) mod load_tools;
pub(crate) mod loaded_component;
#[cfg(feature = "registry")]
pub(crate) mod registry_source;
pub(crate) mod wit_docs;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, Origin};
use fumehood_core::policy::permission::Grant;
use fumehood_core::tool::command_template::CommandTemplate;
use fumehood_core::tool::definition::DefinitionLimits;
use fumehood_core::tool::name::Namespace;
use fumehood_runtime::{Component, Isolation, LoadError as ComponentError, LoadOptions, MAX_COMPONENT_BYTES};

use crate::lock::approval_check::{LockedApproval, Pinning};
use error::LoadError;
use loaded_component::name_of_file;
#[cfg(feature = "registry")]
use registry_source::{RegistrySource, StoredComponent, default_component_name};
use wit_docs::WitDocs;

/// A component to load, with its options.
///
/// ```
/// use fumehood::permission::Environment;
/// use fumehood::{Digest, Grant, Host, Limits, Load};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let host = Host::builder().build()?;
/// let grant = Grant::none().with_environment(Environment::none().with("LANG", "en")?);
/// let limits = Limits::default().fuel(10_000_000);
/// host.load(Load::path(path).named("sums").grant(grant).limits(limits)).await?;
/// assert!(host.tool("sums__add").is_some());
///
/// // Other bytes than the expected ones are refused.
/// let pinned = Load::bytes("pinned", std::fs::read(path)?).digest(Digest::of(b"other bytes"));
/// assert!(host.load(pinned).await.is_err());
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Load {
    source: Source,
    name: Option<String>,
    limits: Option<Limits>,
    grant: Grant,
    strict_imports: bool,
    describe_with_grant: bool,
    pinning: Pinning,
    allow_slow_compile: bool,
    docs: Option<WitDocs>,
    command: Option<Arc<CommandTemplate>>,
    isolation: Option<Isolation>,
    digest: Option<Digest>,
    origin: Option<Origin>,
}

/// What a component is loaded with, besides its bytes and what is approved of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadTerms {
    /// The limits of calls without limits of their own.
    pub(crate) limits: Limits,
    pub(crate) grant: Grant,
    strict_imports: bool,
    describe_with_grant: bool,
    docs: Option<WitDocs>,
    command: Option<Arc<CommandTemplate>>,
    isolation: Option<Isolation>,
}

impl LoadTerms {
    /// Returns what differs from other terms, if anything does.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.grant != other.grant {
            Some("another grant")
        } else if self.limits != other.limits {
            Some("other limits")
        } else {
            (self != other).then_some("other options")
        }
    }
}

#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
    Loaded(Component),
    #[cfg(feature = "registry")]
    Reference(Box<fumehood_registry::reference::Reference>, Arc<RegistrySource>),
}

impl Load {
    /// Creates a load of a component in a file. Its name is that of the file, without `.wasm`.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::new(Source::Path(path.into()))
    }

    /// Creates a load of a component in memory, with its name.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(Source::Bytes(bytes.into())).named(name)
    }

    /// Creates a load of a component that the same host has loaded, under another name and with a grant of its own: for tenants whose
    /// tools have different powers. It is neither read nor compiled again, and its code does not run. A component in a worker process
    /// cannot be shared.
    ///
    /// ```
    /// use fumehood::{Call, Grant, Host, Load};
    /// use fumehood::permission::KeyValueQuota;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/notes.wasm");
    /// let host = Host::builder().build()?;
    /// let notes = host.load(Load::path(path)).await?;
    /// for tenant in ["acme", "initech"] {
    ///     let grant = Grant::none().with_key_value(KeyValueQuota::new(1 << 20)?);
    ///     host.load(Load::again(format!("notes-{tenant}"), &notes).grant(grant)).await?;
    /// }
    /// let written = host.call(Call::new("notes-acme__write", r#"{"title": "milk", "text": "two"}"#)).await;
    /// assert!(written.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn again(name: impl Into<String>, component: &Component) -> Self {
        Self::new(Source::Loaded(component.clone())).named(name)
    }

    /// Creates a load of a component in a registry, or at a URL with a digest. Its name is the last part of its repository.
    /// [`Host::load`](crate::Host::load) fetches it, which needs a runtime of tokio, and verifies it; what is in the store
    /// already is verified again, without a network. For many components, [`RegistrySource::stored_all`] verifies them at once.
    #[cfg(feature = "registry")]
    pub fn reference(
        reference: impl Into<fumehood_registry::reference::Reference>,
        source: Arc<RegistrySource>,
    ) -> Self {
        Self::new(Source::Reference(Box::new(reference.into()), source))
    }

    /// Creates a load of a component that a [`RegistrySource`] has got.
    #[cfg(feature = "registry")]
    #[must_use]
    pub fn stored(component: &StoredComponent) -> Self {
        let load = Self::path(&component.path).named(default_component_name(&component.reference));
        load.digest(component.digest).origin(component.origin())
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            name: None,
            limits: None,
            grant: Grant::none(),
            strict_imports: false,
            describe_with_grant: false,
            pinning: Pinning::Off,
            allow_slow_compile: false,
            docs: None,
            command: None,
            isolation: None,
            digest: None,
            origin: None,
        }
    }

    /// Overrides the component's name. The full name of its tools is `name__tool`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Refuses the component if its bytes have another digest.
    #[must_use]
    pub fn digest(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// Sets the origin of the component, which an approval pins together with everything else.
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Sets the limits of its calls, in place of the host's.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Grants powers to the component. Without this it has none.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// Refuses the component if it imports a power that it is not granted, whether or not it would use it.
    ///
    /// Most language runtimes import all of WASI, so this is for components that were built without one.
    #[must_use]
    pub fn strict_imports(mut self) -> Self {
        self.strict_imports = true;
        self
    }

    /// Gives the component its grant while it describes its tools, too. By default it has no powers then, because nobody has
    /// approved it yet.
    ///
    /// For an interpreter that reads the author's program from a granted folder, while the author works on it.
    #[must_use]
    pub fn describe_with_grant(mut self) -> Self {
        self.describe_with_grant = true;
        self
    }

    /// Allows calls of its tools only if the component is what was approved; with `None`, none can be called. Approvals
    /// are stored in a lock: see [`crate::Lock::get`].
    ///
    /// A component that is not what was approved is loaded nevertheless, so that an operator can inspect it. Its code
    /// has then run once, without any power and within the limits of a call, to describe its tools; no other code of it
    /// ever runs.
    #[must_use]
    pub fn approval(mut self, approved: Option<Approval>) -> Self {
        self.pinning = Pinning::On { approved: Box::new(approved.into()), base: None, origin: None };
        self
    }

    /// Like [`Self::approval`], with folders of the grant below `base` recorded relative to it, so that an approval
    /// does not depend on the location of `base`.
    #[must_use]
    pub fn approval_below(mut self, base: impl Into<PathBuf>, approved: impl Into<LockedApproval>) -> Self {
        self.pinning = Pinning::On { approved: Box::new(approved.into()), base: Some(base.into()), origin: None };
        self
    }

    /// Compiles the component even if that takes many seconds.
    #[must_use]
    pub fn allow_slow_compile(mut self) -> Self {
        self.allow_slow_compile = true;
        self
    }

    /// Describes its tools with the doc comments of the WIT that it was built from. For components that export plain
    /// typed functions and have lost their doc comments; a component that describes its tools itself is refused.
    #[must_use]
    pub fn docs(mut self, docs: WitDocs) -> Self {
        self.docs = Some(docs);
        self
    }

    /// Gives a program named arguments, in place of its command line. A component that is no program is refused.
    #[must_use]
    pub fn command(mut self, command: CommandTemplate) -> Self {
        self.command = Some(Arc::new(command));
        self
    }

    /// Sets where its calls run, in place of the host's policy. [`IsolationPolicy::Everything`] takes precedence: see
    /// [`crate::HostBuilder::isolation`].
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
    /// If the name that was set, or else the name of the file, is not valid.
    pub fn name(&self) -> Result<Namespace, LoadError> {
        let name = match (&self.name, &self.source) {
            (Some(name), _) => Namespace::parse(name),
            (None, Source::Path(path)) => Namespace::parse(&name_of_file(path)),
            (None, Source::Bytes(_) | Source::Loaded(_)) => Namespace::parse(""),
            #[cfg(feature = "registry")]
            (None, Source::Reference(reference, _)) => Namespace::parse(&default_component_name(reference)),
        };
        name.map_err(|reason| LoadError::Name { reason })
    }

    pub(crate) fn own_limits(&self) -> Option<Limits> {
        self.limits
    }

    pub(crate) fn pinning(&self) -> Pinning {
        self.pinning.clone().with_origin(self.origin.clone())
    }

    /// Returns its terms, with the limits that its calls will have.
    pub(crate) fn terms(&self, limits: Limits) -> LoadTerms {
        // Not the whole, which has the bytes of the component.
        LoadTerms {
            limits,
            grant: self.grant.clone(),
            strict_imports: self.strict_imports,
            describe_with_grant: self.describe_with_grant,
            docs: self.docs.clone(),
            command: self.command.clone(),
            isolation: self.isolation,
        }
    }

    /// Fetches the component if it is in a registry.
    #[cfg(feature = "registry")]
    pub(crate) async fn fetched(self) -> Result<Self, LoadError> {
        let Source::Reference(reference, source) = &self.source else { return Ok(self) };
        let name = self.name()?;
        let found = source.get(reference, &mut |_| {}).await;
        let found = found.map_err(|source| LoadError::Fetch { name: name.clone(), source: Box::new(source) })?;
        let digest = Some(found.digest);
        let origin = Some(found.origin());
        Ok(Self { source: Source::Path(found.path), name: Some(name.to_string()), digest, origin, ..self })
    }

    pub(crate) fn options(&self, name: &Namespace, describe: Limits) -> LoadOptions {
        LoadOptions {
            limits: describe,
            definitions: DefinitionLimits::default(),
            name: Some(name.clone()),
            grant: self.grant.clone(),
            strict_imports: self.strict_imports,
            describe_with_grant: self.describe_with_grant,
            allow_slow_compile: self.allow_slow_compile,
            docs: self.docs.as_ref().map(WitDocs::section),
            command: self.command.clone(),
            isolation: Isolation::default(),
        }
    }

    /// Returns the component, if it is one that was loaded.
    pub(crate) fn loaded(&self) -> Option<&Component> {
        match &self.source {
            Source::Loaded(component) => Some(component),
            _ => None,
        }
    }

    /// Returns the file that the component is in, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Reads the bytes, and returns them with their digest. A file over [`MAX_COMPONENT_BYTES`] is not read at all.
    pub(crate) fn read(self, name: &Namespace) -> Result<(Vec<u8>, Digest), LoadError> {
        let path = self.file().map(Path::to_owned).unwrap_or_default();
        let expected = self.digest;
        let bytes = self.read_bytes(name)?;
        let found = Digest::of(&bytes);
        check_digest(path, expected, found)?;
        Ok((bytes, found))
    }

    /// Checks the digest of a component that was loaded.
    ///
    /// # Errors
    /// If another one is expected.
    pub(crate) fn check_digest(&self, found: Digest) -> Result<(), LoadError> {
        check_digest(PathBuf::new(), self.digest, found)
    }

    fn read_bytes(self, name: &Namespace) -> Result<Vec<u8>, LoadError> {
        let path = match self.source {
            Source::Bytes(bytes) => return Ok(bytes),
            Source::Path(path) => path,
            // A host does not read it, or fetches it before it reads.
            Source::Loaded(_) => return Err(LoadError::Host),
            #[cfg(feature = "registry")]
            Source::Reference(..) => return Err(LoadError::Host),
        };
        let io = |source| LoadError::Read { path: path.clone(), source };
        let too_large =
            |size| Err(LoadError::Component { name: name.clone(), source: Box::new(ComponentError::TooLarge(size)) });
        // Opening a pipe would otherwise block until a process writes to it. The metadata is that of the open file, which
        // the path may not name any more.
        let file = fumehood_platform::files::open_without_waiting(&path).map_err(io)?;
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

fn check_digest(path: PathBuf, expected: Option<Digest>, found: Digest) -> Result<(), LoadError> {
    match expected.filter(|expected| *expected != found) {
        Some(expected) => Err(LoadError::Digest { path, expected, found }),
        None => Ok(()),
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
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use fumehood::{Host, IsolationPolicy, Workers, serve_worker};
///
/// fn main() -> ExitCode {
///     // A worker process is this program with another argument.
///     if std::env::args().nth(1).as_deref() == Some("run-worker") {
///         return serve_worker();
///     }
///     let builder = Host::builder().workers(Workers::this_program(["run-worker"]));
///     match builder.isolation(IsolationPolicy::Everything).build() {
///         Ok(_host) => ExitCode::SUCCESS,
///         Err(_) => ExitCode::FAILURE,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationPolicy {
    /// No component.
    Nothing,
    /// Components whose bytes are not those of an approval, also while they describe their tools: see
    /// [`crate::Load::approval`]. The default of a host with workers.
    #[default]
    Unapproved,
    /// All components, even those whose [`crate::Load::isolation`] says otherwise.
    Everything,
}

impl IsolationPolicy {
    /// Decides where a component with this digest runs; `wanted` is the setting of its load.
    pub(crate) fn choose(self, wanted: Option<Isolation>, pinning: &Pinning, digest: &Digest) -> Isolation {
        match (self, wanted) {
            (Self::Everything, Some(Isolation::ProcessPerActor)) => Isolation::ProcessPerActor,
            (Self::Everything, _) => Isolation::Process,
            (_, Some(wanted)) => wanted,
            (Self::Unapproved, None) if !pinning.knows(digest) => Isolation::Process,
            (Self::Unapproved, None) => Isolation::InProcessIfSynchronous,
            (Self::Nothing, None) => Isolation::InProcess,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_called_after_its_file() {
        check_name("tools/calculator.wasm", "calculator");
        check_name("My Tools_v2.wasm", "my-tools-v2");
        check_name("a__b.wasm", "a-b");
        check_name("/", "");
    }

    fn check_name(path: &str, expected: &str) {
        assert_eq!(name_of_file(Path::new(path)), expected)
    }
}
