//! Places of components, and checks of `[registry]`.

use fumehood::Digest;
use fumehood_config::fault::{KeyFault, key_fault};
use fumehood_config::file::Config;
pub(crate) use fumehood_config::registry::{RegistrySection, SignatureRule};
use fumehood_config::text::TextSource;
use fumehood_config::tool::{ApprovalRule, ToolSection};
use fumehood_registry::policy::Pattern;
use fumehood_registry::reference::{Reference, ReferenceError};
use fumehood_registry::signature::PublicKey;

/// The place of a configured component.
#[derive(Debug, Clone)]
pub(crate) enum Place<'a> {
    /// A file.
    File(&'a std::path::Path),
    /// A registry, or a URL.
    Reference(Reference),
}

/// Returns the place of the component.
///
/// # Errors
/// If it has none or two, or its reference is malformed.
pub(crate) fn place(tool: &ToolSection) -> Result<Place<'_>, String> {
    match (&tool.component, &tool.reference) {
        (Some(file), None) => Ok(Place::File(file)),
        (None, Some(text)) => match parse_reference(text) {
            Ok(reference) => Ok(Place::Reference(reference)),
            Err(error) => Err(error.to_string()),
        },
        (None, None) => Err("it has neither `component`, a file, nor `reference`; add one of them".to_owned()),
        (Some(_), Some(_)) => Err("it has both `component` and `reference`; leave one of them out".to_owned()),
    }
}

/// Parses a reference to a registry or a URL; a path is none.
///
/// # Errors
/// If it is malformed.
pub(crate) fn parse_reference(text: &str) -> Result<Reference, ReferenceError> {
    match text.parse()? {
        Reference::File(_) => Err(ReferenceError::Unreadable(text.to_owned())),
        reference => Ok(reference),
    }
}

/// Adds the faults of `[registry]`, and of the places of components.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, tool) in &config.tools {
        check_place(faults, name, tool);
    }
    let registry = &config.registry;
    let mut add = |keys: &[&str], message: String| faults.push(key_fault(&["registry"], keys, message));
    for (index, pattern) in registry.allow.iter().flatten().enumerate() {
        if let Err(error) = pattern.parse::<Pattern>() {
            add(&["allow", &index.to_string()], error.to_string());
        }
    }
    for pattern in registry.trusted.keys() {
        if let Err(error) = pattern.parse::<Pattern>() {
            add(&["trusted", pattern], error.to_string());
        }
    }
    let lists = registry.trusted.iter().map(|(pattern, keys)| (vec!["trusted", pattern.as_str()], keys));
    let of_indexes = registry.indexes.iter().map(|(name, index)| (vec!["indexes", name.as_str(), "keys"], &index.keys));
    for (path, keys) in lists.chain(of_indexes).chain([(vec!["trusted_keys"], &registry.trusted_keys)]) {
        for (index, key) in keys.iter().enumerate() {
            // Files are read when they are needed: they may be those of another machine.
            let TextSource::Here(text) = key else { continue };
            if let Err(error) = text.parse::<PublicKey>() {
                add(&[&path[..], &[&index.to_string()]].concat(), error.to_string());
            }
        }
    }
    for (index, digest) in registry.revoked.iter().enumerate() {
        if let Err(error) = digest.parse::<Digest>() {
            add(&["revoked", &index.to_string()], error.to_string());
        }
    }
    if registry.max_bytes.is_some_and(|bytes| bytes.0 == 0) {
        add(&["max_bytes"], "expected more than 0 bytes, or leave it out for 64MiB".to_owned());
    }
    for (name, index) in &registry.indexes {
        if index.url.is_some() == index.file.is_some() {
            add(&["indexes", name], format!("the index `{name}` needs either `url` or `file`"));
        }
        if index.keys.is_empty() {
            add(&["indexes", name, "keys"], format!("the index `{name}` has no keys; add its publisher's key"));
        }
    }
}

fn check_place(faults: &mut Vec<KeyFault>, name: &str, tool: &ToolSection) {
    let mut add = |keys: &[&str], message: String| faults.push(key_fault(&["tools", name], keys, message));
    match place(tool) {
        Err(message) if tool.reference.is_some() && tool.component.is_none() => add(&["reference"], message),
        Err(message) => add(&[], format!("[tools.{name}]: {message}")),
        Ok(Place::Reference(Reference::Oci(oci))) if tool.approval == ApprovalRule::Off && oci.digest().is_none() => {
            let message = format!(
                "`{oci}` may change at any time, because without approval nothing pins it; add its digest, \
                 `@sha256:…`, or leave `approval` out"
            );
            add(&["reference"], message);
        }
        Ok(_) => {}
    }
}
