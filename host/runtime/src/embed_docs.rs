//! Documentation as a part of a component: writing its `package-docs` section.

use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::BinaryReader;

use crate::compile;
use crate::dialect::DOCS_SECTION;
use crate::load_error::LoadError;

/// Bytes of the magic number and the version that a component begins with.
const HEADER_BYTES: usize = 8;

/// Puts the content of a `package-docs` section into a component, in place of the one that it has, if it has one.
///
/// # Errors
/// If the bytes are not a component.
pub fn embed_docs(component: &[u8], docs: &[u8]) -> Result<Vec<u8>, LoadError> {
    compile::recognise(component)?;
    let mut described = without_docs(component).map_err(compile::malformed_error)?;
    CustomSection { name: DOCS_SECTION.into(), data: docs.into() }.append_to_component(&mut described);
    Ok(described)
}

/// The component without the sections of that name that are its own.
fn without_docs(component: &[u8]) -> wasmparser::Result<Vec<u8>> {
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

    /// The contents of all sections of documentation, wherever they are.
    fn found(component: &[u8]) -> Vec<Vec<u8>> {
        let docs = |payload| match payload {
            Payload::CustomSection(section) if section.name() == DOCS_SECTION => Some(section.data().to_vec()),
            _ => None,
        };
        Parser::new(0).parse_all(component).map(Result::unwrap).filter_map(docs).collect()
    }

    #[test]
    fn docs_replace_those_of_the_component_itself() {
        let old = r#"(@custom "package-docs" "old") (@custom "other" "kept")"#;
        let with = |items: &str| wat::parse_str(format!("(component {items})")).unwrap();
        let long = vec![b'x'; 1000];
        for (component, inner) in [(with(""), 0), (with(old), 0), (with(&format!("{old} (component {old}) {old}")), 1)]
        {
            let once = embed_docs(&component, &long).unwrap();
            let expected = [vec![b"old".to_vec(); inner], vec![long.clone()]].concat();
            assert_eq!(found(&once), expected);
            wasmparser::Validator::new().validate_all(&once).unwrap();
            assert_eq!(embed_docs(&once, &long).unwrap(), once);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(matches!(embed_docs(&wat::parse_str("(module)").unwrap(), b"x"), Err(LoadError::CoreModule)));
        assert!(matches!(embed_docs(b"\0asm\x0d\0\x01\0\x00\x7f", b"x"), Err(LoadError::Malformed(_))));
    }
}
