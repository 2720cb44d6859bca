//! Errors of loading components.

use std::path::PathBuf;

use fumehood_core::call::limits::LimitError;
use fumehood_core::digest::Digest;
use fumehood_core::schema::gate::SchemaError;
use fumehood_core::tool::name::{NameError, Namespace, ToolName};
use fumehood_runtime::LoadError as ComponentError;

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
    /// The path is that of a folder, a device or a pipe.
    #[error("{0} is not a regular file; expected the path of a component")]
    NotAFile(PathBuf),
    /// The bytes of the file have another digest than expected.
    #[error(
        "{path} was changed: expected the digest {expected}, got {found}; remove it, and download the component again"
    )]
    Digest {
        /// The file.
        path: PathBuf,
        /// The expected digest.
        expected: Digest,
        /// The digest of its bytes.
        found: Digest,
    },
    /// The component cannot be had from its registry, or the policy refuses it.
    #[cfg(feature = "registry")]
    #[error("cannot download `{name}`")]
    Fetch {
        /// The name of the component.
        name: Namespace,
        /// The error of getting it.
        source: Box<fumehood_registry::fetch::FetchError>,
    },
    /// The component has no valid name.
    #[error("the component needs a name: {reason}; pass one when you load it")]
    Name {
        /// The error of the name that it would have.
        reason: NameError,
    },
    /// Another component has the same name.
    #[error("a component named `{0}` is already loaded; choose another name, or unload the other component first")]
    NameTaken(Namespace),
    /// The component that has the name was loaded from other bytes, or on other terms: see
    /// [`Host::ensure_loaded`](crate::Host::ensure_loaded).
    #[error("a component named `{name}` is already loaded with {difference}; choose another name, or replace it")]
    Different {
        /// The name.
        name: Namespace,
        /// `other bytes`, `another grant`, `other limits` or `other options`.
        difference: &'static str,
    },
    /// The component is not valid, or cannot be compiled.
    #[error("cannot load `{name}`")]
    Component {
        /// The name of the component.
        name: Namespace,
        /// The error of the component.
        source: Box<ComponentError>,
    },
    /// A schema of one of its tools is not accepted.
    #[error("cannot load `{name}`: invalid {which} schema of its tool `{tool}`")]
    Schema {
        /// The name of the component.
        name: Namespace,
        /// The name of the tool.
        tool: ToolName,
        /// `input` or `output`.
        which: &'static str,
        /// The error of the schema.
        source: Box<SchemaError>,
    },
    /// The host is shutting down, or panicked.
    #[error("the host could not read the component or compile its schemas: it is shutting down, or it panicked")]
    Host,
    /// The limits are not valid.
    #[error("invalid limits for the component")]
    Limits(#[from] LimitError),
}
