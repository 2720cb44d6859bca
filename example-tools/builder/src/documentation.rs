//! The doc comments of a component's WIT, as a part of the component.
//!
//! The component format has no place for them, and wit-component drops them. They go where `wit-docs-inject` puts them
//! and hosts look for them: into a custom section that is otherwise known from binary WIT packages. A reader of WIT
//! that takes the section for one of those, such as `wasm-tools component wit`, refuses it, as it does after
//! `wit-docs-inject`.

use std::path::Path;

use anyhow::{Context as _, Result};
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
    append_section(&mut component, PackageMetadata::SECTION_NAME, &docs);
    Ok(component)
}

/// A custom section is a zero byte, the length of the rest, the length of the name, the name and the contents.
fn append_section(component: &mut Vec<u8>, name: &str, contents: &[u8]) {
    let name_length = leb128(name.len());
    component.push(0);
    component.extend(leb128(name_length.len() + name.len() + contents.len()));
    component.extend(name_length);
    component.extend_from_slice(name.as_bytes());
    component.extend_from_slice(contents);
}

/// A number as WebAssembly writes it: seven bits a byte, the lowest first, and a sign that more follow.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload};

    use super::*;

    #[test]
    fn numbers_are_split_into_sevens() {
        assert_eq!(leb128(0), [0]);
        assert_eq!(leb128(127), [0x7f]);
        assert_eq!(leb128(128), [0x80, 1]);
        assert_eq!(leb128(624_485), [0xe5, 0x8e, 0x26]);
    }

    #[test]
    fn doc_comments_become_a_section() {
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
