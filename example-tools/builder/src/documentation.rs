//! Doc comments of a component's WIT, embedded in the component.
//!
//! The component format does not define a section for them, and wit-component drops them. They are written to the
//! custom section that `wit-docs-inject` writes and hosts read, which is otherwise used in binary WIT packages. Tools
//! that take the component for such a package, such as `wasm-tools component wit`, reject it, as they do after
//! `wit-docs-inject`.

use std::path::Path;

use anyhow::{Context as _, Result};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_parser::{PackageMetadata, Resolve};

/// Adds the doc comments of a WIT package to a component.
///
/// # Errors
///
/// If `wit` is not a folder with a WIT package.
pub(crate) fn add(mut component: Vec<u8>, wit: &Path) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).with_context(|| format!("{} is not WIT", wit.display()))?;
    let docs = PackageMetadata::extract(&resolve, package).encode()?;
    let section = CustomSection { name: PackageMetadata::SECTION_NAME.into(), data: docs.into() };
    section.append_to_component(&mut component);
    Ok(component)
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload};

    use super::*;

    #[test]
    fn adds_doc_comments_as_a_section() {
        let wit = tempfile::tempdir().unwrap();
        let text = "package a:b;\nworld w {\n  /// Runs it.\n  export run: func();\n}\n";
        std::fs::write(wit.path().join("world.wit"), text).unwrap();
        let component = add(b"\0asm\x0d\0\x01\0".to_vec(), wit.path()).unwrap();
        let sections: Vec<_> = Parser::new(0)
            .parse_all(&component)
            .filter_map(|payload| match payload.unwrap() {
                Payload::CustomSection(section) => Some((section.name(), section.data())),
                _ => None,
            })
            .collect();
        let expected = b"\x01{\"worlds\":{\"w\":{\"func_exports\":{\"run\":{\"docs\":\"Runs it.\"}}}}}";
        assert_eq!(sections, [("package-docs", &expected[..])]);
    }
}
