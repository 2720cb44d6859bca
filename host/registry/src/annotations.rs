//! Annotations of an artifact from the metadata of its component, under the names of the OCI image specification.

use std::collections::BTreeMap;

use wasm_metadata::Payload;

use crate::artifact::ArtifactError;

/// Maximum length of an annotation's value, in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// Returns the annotations that a component's own metadata give: title, description, version, licences, source, revision,
/// authors and home page.
///
/// # Errors
/// If the bytes are not WebAssembly.
pub fn from_component(component: &[u8]) -> Result<BTreeMap<String, String>, ArtifactError> {
    let payload = payload(component)?;
    let metadata = payload.metadata();
    let text = |value: Option<&dyn ToString>| value.map(ToString::to_string);
    let values = [
        ("title", text(metadata.name.as_ref().map(|value| value as &dyn ToString))),
        ("description", text(metadata.description.as_ref().map(|value| value as &dyn ToString))),
        ("version", text(metadata.version.as_ref().map(|value| value as &dyn ToString))),
        ("licenses", text(metadata.licenses.as_ref().map(|value| value as &dyn ToString))),
        ("source", text(metadata.source.as_ref().map(|value| value as &dyn ToString))),
        ("revision", text(metadata.revision.as_ref().map(|value| value as &dyn ToString))),
        ("authors", text(metadata.authors.as_ref().map(|value| value as &dyn ToString))),
        ("url", text(metadata.homepage.as_ref().map(|value| value as &dyn ToString))),
    ];
    let named = values.into_iter().filter_map(|(name, value)| {
        let value = value.filter(|value| !value.is_empty() && value.len() <= MAX_VALUE_BYTES)?;
        Some((format!("org.opencontainers.image.{name}"), value))
    });
    Ok(named.collect())
}

/// Reads the metadata of a component and of what is nested in it.
pub(crate) fn payload(component: &[u8]) -> Result<Payload, ArtifactError> {
    // The reader of metadata takes for granted what begins a component.
    let begins_well = component.get(..4) == Some(b"\0asm");
    let payload = if begins_well { Payload::from_binary(component).ok() } else { None };
    payload.ok_or_else(|| ArtifactError::NotWasm("its metadata cannot be read".to_owned()))
}
