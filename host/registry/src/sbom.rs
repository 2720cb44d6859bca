//! The inventory of a component: what it was built from, in CycloneDX, from the list that `cargo auditable` embeds.

use serde_json::json;
use wasm_metadata::{Dependencies, Payload};

use crate::annotations::payload;
use crate::artifact::ArtifactError;

/// Media type of an inventory (CycloneDX 1.6, "Media types").
pub const SBOM_MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
/// Maximum size of an inventory, in bytes.
pub const MAX_SBOM_BYTES: u64 = 16 << 20;

/// Returns the inventory of a component, or `None` if it has no list of what it was built from. The same component always
/// gives the same bytes.
///
/// # Errors
/// If the bytes are not WebAssembly.
pub fn from_component(component: &[u8]) -> Result<Option<Vec<u8>>, ArtifactError> {
    let payload = payload(component)?;
    let Some(list) = find_dependencies(&payload) else { return Ok(None) };
    let reference = |index: usize| format!("package-{index}");
    let (mut components, mut dependencies) = (Vec::new(), Vec::new());
    for (index, package) in list.version_info().packages.iter().enumerate() {
        let version = package.version.to_string();
        components.push(json!({
            "type": if package.root { "application" } else { "library" },
            "bom-ref": reference(index),
            "name": package.name,
            "version": version,
            "purl": format!("pkg:cargo/{}@{version}", package.name),
        }));
        let uses: Vec<String> = package.dependencies.iter().map(|index| reference(*index)).collect();
        dependencies.push(json!({ "ref": reference(index), "dependsOn": uses }));
    }
    let mut about = json!({});
    if let (Some(name), Some(about)) = (&payload.metadata().name, about.as_object_mut()) {
        about.insert("component".to_owned(), json!({ "type": "application", "name": name }));
    }
    let inventory = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": dependencies,
    });
    serde_json::to_vec(&inventory).map(Some).map_err(|error| ArtifactError::Manifest(error.to_string()))
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
