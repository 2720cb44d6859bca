//! The names of a component's imports and exports, read from its bytes without compiling or running anything.

use std::collections::BTreeSet;

use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentType, ComponentTypeRef,
    InstanceTypeDeclaration, Parser, Payload, TypeBounds,
};

/// The names at the top level of a component, in the component's order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) imports: Vec<String>,
    /// The imports that are types, or instances of nothing but types, such as a world's `use types.{city}`. They ask
    /// nothing of the host.
    pub(crate) imported_types: BTreeSet<String>,
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
        // For each type of the component, whether it is of an instance that has nothing but types.
        let mut is_types_only = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentTypeSection(section) if depth == 0 => {
                    for definition in section {
                        is_types_only.push(is_instance_of_types(&definition?));
                    }
                }
                Payload::ComponentAliasSection(section) if depth == 0 => {
                    for alias in section {
                        is_types_only.extend(is_alias_of_type(&alias?).then_some(false));
                    }
                }
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        let import = import?;
                        surface.imports.push(import.name.name.to_owned());
                        let asks_nothing = match import.ty {
                            ComponentTypeRef::Instance(index) => is_types_only.get(index as usize) == Some(&true),
                            of_type => is_plain_type(of_type),
                        };
                        surface.imported_types.extend(asks_nothing.then(|| import.name.name.to_owned()));
                        is_types_only.extend(matches!(import.ty, ComponentTypeRef::Type(_)).then_some(false));
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        let export = export?;
                        surface.exports.push(export.name.name.to_owned());
                        is_types_only.extend((export.kind == ComponentExternalKind::Type).then_some(false));
                    }
                }
                _ => {}
            }
        }
        Ok(surface)
    }
}

/// Returns whether an import or export is a type other than a new resource.
fn is_plain_type(of_type: ComponentTypeRef) -> bool {
    matches!(of_type, ComponentTypeRef::Type(TypeBounds::Eq(_)))
}

/// Returns whether a type is that of an instance with nothing but types.
fn is_instance_of_types(definition: &ComponentType<'_>) -> bool {
    let ComponentType::Instance(declarations) = definition else { return false };
    declarations.iter().all(|declaration| match declaration {
        InstanceTypeDeclaration::Export { ty, .. } => is_plain_type(*ty),
        InstanceTypeDeclaration::CoreType(_) | InstanceTypeDeclaration::Type(_) | InstanceTypeDeclaration::Alias(_) => {
            true
        }
    })
}

/// Returns whether an alias adds a type to the component's types.
fn is_alias_of_type(alias: &ComponentAlias<'_>) -> bool {
    match alias {
        ComponentAlias::InstanceExport { kind, .. } => *kind == ComponentExternalKind::Type,
        ComponentAlias::Outer { kind, .. } => *kind == ComponentOuterAliasKind::Type,
        ComponentAlias::CoreInstanceExport { .. } => false,
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

    #[test]
    fn tells_imports_of_types_from_those_of_functions() {
        let bytes = wat::parse_str(
            r#"(component
                (type $city (instance
                    (type $r (record (field "name" string)))
                    (export "city" (type (eq $r)))))
                (import "demo:a/types" (instance $types (type $city)))
                (alias export $types "city" (type $alias))
                (import "city" (type $own (eq $alias)))
                (type $facts (instance (export "ask" (func (result string)))))
                (import "demo:a/facts" (instance (type $facts)))
                (type $open (instance (export "file" (type (sub resource)))))
                (import "demo:a/files" (instance (type $open)))
                (import "demo:a/more" (instance (type $city)))
                (import "handle" (type (sub resource))))"#,
        )
        .unwrap();
        let surface = Surface::read(&bytes).unwrap();
        assert_eq!(surface.imports.len(), 6);
        let types = surface.imported_types.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(types, ["city", "demo:a/more", "demo:a/types"]);
    }
}
