//! The metadata of a component: annotations under the names of the OCI image specification, and its inventory in CycloneDX,
//! from the list that `cargo auditable` embeds.

use std::collections::BTreeMap;

use serde_json::json;
use wasm_metadata::{Dependencies, Payload};

use crate::artifact::ArtifactError;

/// Media type of an inventory (CycloneDX 1.6, "Media types").
pub const SBOM_MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
/// Maximum size of an inventory, in bytes.
pub const MAX_SBOM_BYTES: u64 = 16 << 20;
/// Maximum length of an annotation's value, in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// Returns the annotations that a component's own metadata give: title, description, version, licences, source, revision,
/// authors and home page.
///
/// # Errors
/// If the bytes are not WebAssembly.
pub fn annotations(component: &[u8]) -> Result<BTreeMap<String, String>, ArtifactError> {
    let payload = payload(component)?;
    let metadata = payload.metadata();
    let values = [
        ("title", metadata.name.as_ref().map(ToString::to_string)),
        ("description", metadata.description.as_ref().map(ToString::to_string)),
        ("version", metadata.version.as_ref().map(ToString::to_string)),
        ("licenses", metadata.licenses.as_ref().map(ToString::to_string)),
        ("source", metadata.source.as_ref().map(ToString::to_string)),
        ("revision", metadata.revision.as_ref().map(ToString::to_string)),
        ("authors", metadata.authors.as_ref().map(ToString::to_string)),
        ("url", metadata.homepage.as_ref().map(ToString::to_string)),
    ];
    let named = values.into_iter().filter_map(|(name, value)| {
        let value = value.filter(|value| !value.is_empty() && value.len() <= MAX_VALUE_BYTES)?;
        Some((format!("org.opencontainers.image.{name}"), value))
    });
    Ok(named.collect())
}

/// Reads the metadata of a component and of what is nested in it.
fn payload(component: &[u8]) -> Result<Payload, ArtifactError> {
    // The reader of metadata takes for granted what begins a component.
    let begins_well = component.get(..4) == Some(b"\0asm");
    let payload = if begins_well { Payload::from_binary(component).ok() } else { None };
    payload.ok_or_else(|| ArtifactError::NotWasm("its metadata is malformed".to_owned()))
}

/// Returns the name of a package within an inventory.
fn reference_of(index: usize) -> String {
    format!("package-{index}")
}

/// Returns the inventory of a component, or `None` if it has no list of what it was built from. The same component always
/// gives the same bytes.
///
/// # Errors
/// If the bytes are not WebAssembly.
pub fn inventory(component: &[u8]) -> Result<Option<Vec<u8>>, ArtifactError> {
    let payload = payload(component)?;
    let Some(list) = find_dependencies(&payload) else { return Ok(None) };
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (index, package) in list.version_info().packages.iter().enumerate() {
        let version = package.version.to_string();
        components.push(json!({
            "type": if package.root { "application" } else { "library" },
            "bom-ref": reference_of(index),
            "name": package.name,
            "version": version,
            "purl": format!("pkg:cargo/{}@{version}", package.name),
        }));
        let uses: Vec<String> = package.dependencies.iter().map(|index| reference_of(*index)).collect();
        dependencies.push(json!({ "ref": reference_of(index), "dependsOn": uses }));
    }
    let mut about = json!({});
    if let (Some(name), Some(about)) = (&payload.metadata().name, about.as_object_mut()) {
        about.insert("component".to_owned(), json!({ "type": "application", "name": name }));
    }
    let sbom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": dependencies,
    });
    serde_json::to_vec(&sbom).map(Some).map_err(|error| ArtifactError::Manifest(error.to_string()))
}

/// Returns the first list in a component: the compiler writes it into a core module, which encoding wraps.
fn find_dependencies(payload: &Payload) -> Option<&Dependencies> {
    let nested = match payload {
        Payload::Component { children, .. } => children.as_slice(),
        Payload::Module(_) => &[],
    };
    let own = payload.metadata().dependencies.as_ref();
    own.or_else(|| nested.iter().find_map(find_dependencies))
}
