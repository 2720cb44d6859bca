//! The names of a component's imports and exports, read from its bytes without compiling or running anything.

use wasmparser::{BinaryReaderError, Parser, Payload};

/// The names at the top level of a component, in the component's order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

impl Surface {
    /// Reads the names. Validating the component is left to the engine.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut surface = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        surface.imports.push(import?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        surface.exports.push(export?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(surface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_of_the_outermost_component_only() {
        let bytes = wat::parse_str(
            r#"(component
                (import "wasi:cli/exit@0.2.0" (instance))
                (component (import "inner" (func)) (core module))
                (import "second" (func $f))
                (export "third" (func $f)))"#,
        )
        .unwrap();
        let surface = Surface::read(&bytes).unwrap();
        assert_eq!(surface.imports, ["wasi:cli/exit@0.2.0", "second"]);
        assert_eq!(surface.exports, ["third"]);
        assert!(Surface::read(&bytes[..bytes.len() - 3]).is_err());
    }
}
