//! Writing the `package-docs` section of a component.

use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::BinaryReader;

use super::compile;
use super::dialect::DOCS_SECTION;
use super::error::LoadError;

/// Size of the magic number and the version that a component begins with, in bytes.
const HEADER_BYTES: usize = 8;

/// Adds a `package-docs` section to a component, replacing the one that it has.
///
/// # Errors
/// If the bytes are not a component.
pub fn embed_docs(component: &[u8], docs: &[u8]) -> Result<Vec<u8>, LoadError> {
    compile::recognise(component)?;
    let mut described = strip_docs(component).map_err(compile::malformed_error)?;
    CustomSection { name: DOCS_SECTION.into(), data: docs.into() }.append_to_component(&mut described);
    Ok(described)
}

/// Returns the component without its own sections of that name. Sections of nested components are kept.
fn strip_docs(component: &[u8]) -> wasmparser::Result<Vec<u8>> {
    let mut reader = BinaryReader::new(component, 0);
    let mut kept = reader.read_bytes(HEADER_BYTES)?.to_vec();
    while !reader.eof() {
        let start = reader.original_position();
        let id = reader.read_u8()?;
        let length = reader.read_var_u32()?;
        let content = reader.read_bytes(length as usize)?;
        let is_docs = id == 0 && BinaryReader::new(content, 0).read_string()? == DOCS_SECTION;
        if !is_docs {
            kept.extend_from_slice(component.get(start..reader.original_position()).unwrap_or_default());
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload};

    use super::*;

    /// Returns the contents of all `package-docs` sections, nested ones included.
    fn docs_sections(component: &[u8]) -> Vec<Vec<u8>> {
        let docs = |payload| match payload {
            Payload::CustomSection(section) if section.name() == DOCS_SECTION => Some(section.data().to_vec()),
            _ => None,
        };
        Parser::new(0).parse_all(component).map(Result::unwrap).filter_map(docs).collect()
    }

    #[test]
    fn replaces_only_the_components_own_section() {
        let old = r#"(@custom "package-docs" "old") (@custom "other" "kept")"#;
        let with = |items: &str| wat::parse_str(format!("(component {items})")).unwrap();
        let long = vec![b'x'; 1000];
        for (component, inner) in [(with(""), 0), (with(old), 0), (with(&format!("{old} (component {old}) {old}")), 1)]
        {
            let once = embed_docs(&component, &long).unwrap();
            let expected = [vec![b"old".to_vec(); inner], vec![long.clone()]].concat();
            assert_eq!(docs_sections(&once), expected);
            wasmparser::Validator::new().validate_all(&once).unwrap();
            assert_eq!(embed_docs(&once, &long).unwrap(), once);
        }
    }

    #[test]
    fn rejects_bytes_that_are_no_component() {
        assert!(matches!(embed_docs(&wat::parse_str("(module)").unwrap(), b"x"), Err(LoadError::CoreModule)));
        assert!(matches!(embed_docs(b"\0asm\x0d\0\x01\0\x00\x7f", b"x"), Err(LoadError::Malformed(_))));
    }
}
