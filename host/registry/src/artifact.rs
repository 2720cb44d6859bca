//! Components as OCI artifacts: the layout of the CNCF's working group on WebAssembly, one configuration and one layer.
//!
//! The same bytes and annotations always give the same manifest, so that a second publication has the same digest.

use std::collections::BTreeMap;

use bytes::Bytes;
use fumehood_core::digest::{Digest, DigestError};
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::text::untrusted::PrintableText;
use oci_client::manifest::{
    ImageIndexEntry, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageIndex, OciImageManifest,
};
use serde::Serialize;
use wasmparser::{Encoding, Parser, Payload};

/// Maximum size of a manifest or an index, in bytes (OCI distribution specification 1.1, "Pushing manifests").
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Media type of the configuration (CNCF TAG Runtime, "Wasm OCI Artifact layout").
pub const CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the layer with the component.
pub const LAYER_MEDIA_TYPE: &str = "application/wasm";
/// Media type of manifests.
pub(crate) const MANIFEST_MEDIA_TYPE: &str = OCI_IMAGE_MEDIA_TYPE;
/// Media type of indexes.
pub(crate) const INDEX_MEDIA_TYPE: &str = OCI_IMAGE_INDEX_MEDIA_TYPE;
/// Media type of an empty configuration, which referrers and artifacts of ORAS have (OCI image specification 1.1, "Guidance for an empty
/// descriptor").
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The empty configuration.
pub(crate) const EMPTY_CONFIG: &[u8] = b"{}";
/// The architecture of components, in configurations and in indexes.
const ARCHITECTURE: &str = "wasm";
/// Maximum length of a name in a message, in bytes.
const MAX_EXCERPT_BYTES: usize = 100;
/// Maximum number of names in a message.
const MAX_LISTED: usize = 4;
/// Maximum number of annotations that are kept.
const MAX_ANNOTATIONS: usize = 64;
/// Maximum length of an annotation's name or value that is kept, in bytes.
const MAX_ANNOTATION_BYTES: usize = 4096;
/// The time that stands in every configuration: a real one would give each publication another digest.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// A component that is ready to be published.
#[derive(Debug, Clone)]
pub struct Artifact {
    component: Bytes,
    component_digest: Digest,
    config: Bytes,
    manifest: Bytes,
    manifest_digest: Digest,
    annotations: BTreeMap<String, String>,
}

/// An error of making an artifact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The bytes are a core module.
    #[error("this is a core module, not a component; build it for `wasm32-wasip2`, or with `fumehood build`")]
    Module,
    /// The bytes are something else.
    #[error("this is not a WebAssembly component: {0}; publish the `.wasm` file of the build")]
    NotWasm(String),
    /// The manifest cannot be written.
    #[error("cannot write the manifest: {0}")]
    Manifest(String),
}

/// A component that a manifest of a registry describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentDescriptor {
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The size of the component, in bytes.
    pub component_bytes: u64,
    /// The annotations of the manifest, which its publisher wrote.
    pub annotations: BTreeMap<PrintableText, PrintableText>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    created: &'static str,
    architecture: &'static str,
    os: &'static str,
    layer_digests: Vec<String>,
    component: Interface,
}

#[derive(Default, Serialize)]
struct Interface {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

impl Artifact {
    /// Creates the artifact of a component.
    ///
    /// # Errors
    /// If the bytes are not a component.
    pub fn new(component: impl Into<Bytes>, annotations: BTreeMap<String, String>) -> Result<Self, ArtifactError> {
        let component = component.into();
        let component_digest = Digest::of(&component);
        let config = Config {
            created: CREATED,
            architecture: ARCHITECTURE,
            os: "wasip2",
            layer_digests: vec![component_digest.to_string()],
            component: interface(&component)?,
        };
        let failed = |error: serde_json::Error| ArtifactError::Manifest(error.to_string());
        let config = serde_json::to_vec(&config).map_err(failed)?;
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
            config: descriptor(CONFIG_MEDIA_TYPE, &Digest::of(&config), config.len()),
            layers: vec![descriptor(LAYER_MEDIA_TYPE, &component_digest, component.len())],
            annotations: Some(annotations.clone()).filter(|annotations| !annotations.is_empty()),
            ..OciImageManifest::default()
        };
        let manifest = serde_json::to_vec(&manifest).map_err(failed)?;
        Ok(Self {
            component,
            component_digest,
            config: config.into(),
            manifest_digest: Digest::of(&manifest),
            manifest: manifest.into(),
            annotations,
        })
    }

    /// Returns the digest of the manifest, which identifies the artifact.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.manifest_digest
    }

    /// Returns the digest of the component's bytes.
    #[must_use]
    pub fn component_digest(&self) -> Digest {
        self.component_digest
    }

    /// Returns the component.
    #[must_use]
    pub fn component(&self) -> &Bytes {
        &self.component
    }

    /// Returns the manifest, as it is published.
    #[must_use]
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// Returns the configuration, as it is published.
    #[must_use]
    pub fn config(&self) -> &Bytes {
        &self.config
    }

    /// Returns the annotations.
    #[must_use]
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }
}

/// Returns the digest of the manifest in an index whose platform has the architecture `wasm`.
///
/// # Errors
/// The reason why there is none, or no single one.
pub(crate) fn find_component(index: &[u8]) -> Result<Digest, String> {
    let index: OciImageIndex = serde_json::from_slice(index).map_err(|error| excerpt(&error))?;
    let mut components = index.manifests.iter().filter(|entry| architecture(entry).as_deref() == Some(ARCHITECTURE));
    let (Some(component), None) = (components.next(), components.next()) else {
        let found = index.manifests.iter().map(|entry| architecture(entry).unwrap_or_else(|| "unknown".to_owned()));
        let found = list(found);
        return Err(format!(
            "it is an index with the architectures {found}; expected `{ARCHITECTURE}` once, or name an artifact in it"
        ));
    };
    component.digest.parse().map_err(|error: DigestError| excerpt(&error))
}

fn architecture(entry: &ImageIndexEntry) -> Option<String> {
    entry.platform.as_ref().map(|platform| platform.architecture.to_string())
}

/// Reads the manifest of a component: exactly one layer has its media type. Others, such as a licence beside it, are ignored.
///
/// # Errors
/// The reason why it describes none.
pub(crate) fn describe(manifest: &[u8]) -> Result<ComponentDescriptor, String> {
    let value: OciImageManifest = serde_json::from_slice(manifest).map_err(|error| {
        let is_index = serde_json::from_slice::<OciImageIndex>(manifest).is_ok();
        if is_index { "it is an index of several artifacts; name one of them".to_owned() } else { excerpt(&error) }
    })?;
    if ![CONFIG_MEDIA_TYPE, EMPTY_MEDIA_TYPE].contains(&value.config.media_type.as_str()) {
        return Err(format!("its configuration is `{}`", excerpt(&value.config.media_type)));
    }
    let layers = value.layers.as_slice();
    let mut components = layers.iter().filter(|layer| layer.media_type == LAYER_MEDIA_TYPE);
    let (Some(layer), None) = (components.next(), components.next()) else {
        return Err(format!("it has the layers {}", list(layers.iter().map(|layer| &layer.media_type))));
    };
    let component = layer.digest.parse::<Digest>().map_err(|error| excerpt(&error))?;
    let component_bytes = u64::try_from(layer.size).map_err(|_| "the size of its layer is negative".to_owned())?;
    let annotations = value.annotations.unwrap_or_default().into_iter();
    let annotations = annotations.filter(|(name, value)| name.len().max(value.len()) <= MAX_ANNOTATION_BYTES);
    let annotations = annotations.take(MAX_ANNOTATIONS).map(|(name, value)| (name.into(), value.into())).collect();
    Ok(ComponentDescriptor { component, component_bytes, annotations })
}

/// Returns the manifest of something that refers to another manifest, such as a signature.
pub(crate) fn referrer_manifest(
    subject: &OciDescriptor,
    artifact_type: &str,
    layer: &[u8],
    annotations: BTreeMap<String, String>,
) -> Result<Vec<u8>, String> {
    let manifest = OciImageManifest {
        media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
        artifact_type: Some(artifact_type.to_owned()),
        config: descriptor(EMPTY_MEDIA_TYPE, &Digest::of(EMPTY_CONFIG), EMPTY_CONFIG.len()),
        layers: vec![descriptor(artifact_type, &Digest::of(layer), layer.len())],
        subject: Some(subject.clone()),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..OciImageManifest::default()
    };
    serde_json::to_vec(&manifest).map_err(|error| error.to_string())
}

/// Returns the descriptor of bytes.
pub(crate) fn descriptor(media_type: &str, digest: &Digest, bytes: usize) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.to_owned(),
        digest: digest.to_string(),
        size: i64::try_from(bytes).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

/// Returns the beginning of a text that a registry wrote.
fn excerpt(text: &impl ToString) -> String {
    printable(truncate_str(&text.to_string(), MAX_EXCERPT_BYTES)).into_owned()
}

/// Returns the first of some names that a registry wrote.
fn list(names: impl ExactSizeIterator<Item = impl ToString>) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let mut listed: Vec<String> = names.take(MAX_LISTED).map(|name| format!("`{}`", excerpt(&name))).collect();
    if listed.is_empty() {
        listed.push("(none)".to_owned());
    }
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}

/// Returns the names that a component imports and exports.
fn interface(component: &[u8]) -> Result<Interface, ArtifactError> {
    let not_wasm = |error: wasmparser::BinaryReaderError| ArtifactError::NotWasm(error.message().to_owned());
    let mut interface = Interface::default();
    let mut depth = 0_u32;
    let mut has_begun = false;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(not_wasm)? {
            Payload::Version { encoding: Encoding::Module, .. } if !has_begun => return Err(ArtifactError::Module),
            Payload::Version { .. } => {
                has_begun = true;
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    interface.imports.push(import.map_err(not_wasm)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    interface.exports.push(export.map_err(not_wasm)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    if !has_begun {
        return Err(ArtifactError::NotWasm("it is empty".to_owned()));
    }
    Ok(interface)
}
