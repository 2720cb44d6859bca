//! The engine that a component needs.

use wasmparser::{
    BinaryReaderError, CanonicalFunction, CanonicalOption, ComponentDefinedType, ComponentFuncType, ComponentType,
    ComponentTypeDeclaration, InstanceTypeDeclaration, Parser, Payload,
};

use super::surface::Surface;
use crate::engine::EngineKind;

/// Returns whether an interface is one of WASI 0.3: `wasi:cli/environment@0.3.0`.
pub(crate) fn is_wasi_p3(name: &str) -> bool {
    name.starts_with("wasi:") && name.split_once('@').is_some_and(|(_, version)| version.starts_with("0.3."))
}

/// Determines the engine that a component needs: the asynchronous one if it has asynchronous functions, streams or futures,
/// or an interface of WASI 0.3.
///
/// It reads nested types by recursion, so the [scan](super::compile) must have bounded their depth before.
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn find(bytes: &[u8], surface: &Surface) -> Result<EngineKind, BinaryReaderError> {
    if surface.imports.iter().chain(&surface.exports).any(|name| is_wasi_p3(name)) {
        return Ok(EngineKind::Asynchronous);
    }
    for payload in Parser::new(0).parse_all(bytes) {
        let is_asynchronous = match payload? {
            Payload::ComponentTypeSection(section) => any(section, |ty| is_asynchronous_type(&ty))?,
            Payload::ComponentCanonicalSection(section) => {
                any(section, |function| is_asynchronous_canonical(&function))?
            }
            _ => false,
        };
        if is_asynchronous {
            return Ok(EngineKind::Asynchronous);
        }
    }
    Ok(EngineKind::Synchronous)
}

fn any<T>(
    items: impl IntoIterator<Item = Result<T, BinaryReaderError>>,
    is_asynchronous: impl Fn(T) -> bool,
) -> Result<bool, BinaryReaderError> {
    for item in items {
        if is_asynchronous(item?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_asynchronous_type(ty: &ComponentType<'_>) -> bool {
    match ty {
        ComponentType::Func(ComponentFuncType { async_, .. }) => *async_,
        ComponentType::Defined(ty) => {
            matches!(ty, ComponentDefinedType::Stream(_) | ComponentDefinedType::Future(_))
        }
        ComponentType::Component(declarations) => declarations
            .iter()
            .any(|declaration| matches!(declaration, ComponentTypeDeclaration::Type(ty) if is_asynchronous_type(ty))),
        ComponentType::Instance(declarations) => declarations
            .iter()
            .any(|declaration| matches!(declaration, InstanceTypeDeclaration::Type(ty) if is_asynchronous_type(ty))),
        ComponentType::Resource { .. } => false,
    }
}

fn is_asynchronous_canonical(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.iter().any(|option| matches!(option, CanonicalOption::Async | CanonicalOption::Callback(_)))
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        // All other functions are about tasks. Those that are off everywhere were refused before.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: EngineKind) {
        let bytes = wat::parse_str(format!("(component {text})")).unwrap();
        assert_eq!(find(&bytes, &Surface::read(&bytes).unwrap()).unwrap(), expected, "{text}");
    }

    #[test]
    fn asynchronous_components_are_told_from_others() {
        check(r#"(import "wasi:cli/environment@0.2.0" (instance))"#, EngineKind::Synchronous);
        check(r#"(type (func (param "a" string)))"#, EngineKind::Synchronous);
        check(r#"(import "wasi:cli/environment@0.3.0" (instance))"#, EngineKind::Asynchronous);
        check("(type (func async))", EngineKind::Asynchronous);
        check("(type (stream u8))", EngineKind::Asynchronous);
        check("(component (type (instance (type (future string)))))", EngineKind::Asynchronous);
        check("(core func (canon waitable-set.new))", EngineKind::Asynchronous);
    }
}
