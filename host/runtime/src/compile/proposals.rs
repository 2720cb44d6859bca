//! Checks that a component uses no WebAssembly proposal that is off.
//!
//! The engine refuses the same constructs when it validates. This check comes first, because a construct that validates but
//! was compiled out ends the process, and because its errors name the proposal.

use wasmparser::{
    AbstractHeapType, BinaryReaderError, BlockType, CanonicalFunction, CanonicalOption, ComponentAlias,
    ComponentDefinedType, ComponentExternName, ComponentExternalKind, ComponentFuncType, ComponentType,
    ComponentTypeDeclaration, ComponentTypeRef, ComponentValType, CompositeInnerType, ExternalKind, HeapType, Instance,
    ModuleTypeDeclaration, Operator, PrimitiveValType, RecGroup, RefType, TypeRef, ValType, WasmFeatures,
};

use crate::features::{ENABLED, name};

/// A use of a proposal that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disabled {
    /// The proposal's name.
    pub(crate) proposal: &'static str,
    /// The offset in the component, in bytes.
    pub(crate) offset: usize,
}

impl Disabled {
    /// Returns the proposal that an error of the parser or the validator is about, if it is about one.
    pub(super) fn in_error(error: &BinaryReaderError) -> Option<Self> {
        let feature = error.missing_wasm_feature()?;
        Some(Self { proposal: name(feature), offset: error.offset() })
    }
}

/// The result of a check: `Err` with the feature that is off.
type Needs = Result<(), WasmFeatures>;

/// Adds the name of the proposal and the offset to a failed check.
pub(super) fn require(needs: Needs, offset: usize) -> Result<(), Disabled> {
    needs.map_err(|feature| Disabled { proposal: name(feature), offset })
}

/// Fails if the feature is off.
const fn feature(feature: WasmFeatures) -> Needs {
    if ENABLED.contains(feature) { Ok(()) } else { Err(feature) }
}

/// Maps the groups that the parser sorts operators into to features. A group that is not listed here does not compile.
macro_rules! feature_of_group {
    (mvp) => {
        WasmFeatures::empty()
    };
    (sign_extension) => {
        WasmFeatures::SIGN_EXTENSION
    };
    (gc) => {
        WasmFeatures::GC
    };
    (custom_descriptors) => {
        WasmFeatures::CUSTOM_DESCRIPTORS
    };
    (saturating_float_to_int) => {
        WasmFeatures::SATURATING_FLOAT_TO_INT
    };
    (bulk_memory) => {
        WasmFeatures::BULK_MEMORY
    };
    (reference_types) => {
        WasmFeatures::REFERENCE_TYPES
    };
    (tail_call) => {
        WasmFeatures::TAIL_CALL
    };
    (memory_control) => {
        WasmFeatures::MEMORY_CONTROL
    };
    (threads) => {
        WasmFeatures::THREADS
    };
    (simd) => {
        WasmFeatures::SIMD
    };
    (relaxed_simd) => {
        WasmFeatures::RELAXED_SIMD
    };
    (exceptions) => {
        WasmFeatures::EXCEPTIONS
    };
    (legacy_exceptions) => {
        WasmFeatures::LEGACY_EXCEPTIONS
    };
    (shared_everything_threads) => {
        WasmFeatures::SHARED_EVERYTHING_THREADS
    };
    (function_references) => {
        WasmFeatures::FUNCTION_REFERENCES
    };
    (stack_switching) => {
        WasmFeatures::STACK_SWITCHING
    };
    (wide_arithmetic) => {
        WasmFeatures::WIDE_ARITHMETIC
    };
}

macro_rules! define_group_of {
    ($(@$group:ident $op:ident $({ $($payload:tt)* })? => $visit:ident ($($arity:tt)*))*) => {
        /// Returns the feature that an operator belongs to, apart from its operands.
        const fn group_of(operator: &Operator<'_>) -> WasmFeatures {
            match operator {
                $(Operator::$op { .. } => feature_of_group!($group),)*
                _ => WasmFeatures::all(),
            }
        }
    };
}
wasmparser::for_each_operator!(define_group_of);

/// Checks an operator of a function's body and its operands.
pub(super) fn operator(operator: &Operator<'_>) -> Needs {
    feature(group_of(operator))?;
    match operator {
        Operator::Block { blockty: BlockType::Type(ty) }
        | Operator::Loop { blockty: BlockType::Type(ty) }
        | Operator::If { blockty: BlockType::Type(ty) }
        | Operator::TypedSelect { ty } => value_type(*ty),
        Operator::TypedSelectMulti { tys } => tys.iter().try_for_each(|ty| value_type(*ty)),
        Operator::RefNull { hty } => heap_type(*hty),
        _ => Ok(()),
    }
}

/// Checks a value type of core WebAssembly.
pub(super) fn value_type(ty: ValType) -> Needs {
    match ty {
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64 => Ok(()),
        ValType::V128 => feature(WasmFeatures::SIMD),
        ValType::Ref(ty) => ref_type(ty),
    }
}

fn ref_type(ty: RefType) -> Needs {
    heap_type(ty.heap_type())?;
    if ty.is_nullable() { Ok(()) } else { feature(WasmFeatures::FUNCTION_REFERENCES) }
}

fn heap_type(ty: HeapType) -> Needs {
    match ty {
        HeapType::Concrete(_) => feature(WasmFeatures::FUNCTION_REFERENCES),
        HeapType::Exact(_) => feature(WasmFeatures::CUSTOM_DESCRIPTORS),
        HeapType::Abstract { shared: true, .. } => feature(WasmFeatures::SHARED_EVERYTHING_THREADS),
        HeapType::Abstract { ty: AbstractHeapType::Func, .. } => feature(WasmFeatures::REFERENCE_TYPES),
        HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. } => {
            feature(WasmFeatures::EXCEPTIONS)
        }
        HeapType::Abstract { ty: AbstractHeapType::Cont | AbstractHeapType::NoCont, .. } => {
            feature(WasmFeatures::STACK_SWITCHING)
        }
        HeapType::Abstract { .. } => feature(WasmFeatures::GC_TYPES),
    }
}

/// The first byte of a plain function type. Every other first byte of a core type belongs to a proposal.
const FUNCTION_TYPE: u8 = 0x60;

/// Checks the first byte of a core type, before the type is read: refuses groups of types, subtypes, and everything but
/// functions. `sub final` without a supertype means the same as a plain function type, and is refused as well.
pub(super) fn core_type_form(byte: u8) -> Needs {
    match byte {
        FUNCTION_TYPE => Ok(()),
        0x5d => feature(WasmFeatures::STACK_SWITCHING),
        0x65 => feature(WasmFeatures::SHARED_EVERYTHING_THREADS),
        0x4c | 0x4d => feature(WasmFeatures::CUSTOM_DESCRIPTORS),
        // 0x4e `rec`, 0x4f `sub final`, 0x50 `sub`, 0x5e `array`, 0x5f `struct`.
        0x4e..=0x50 | 0x5e | 0x5f => feature(WasmFeatures::GC),
        // It belongs to no proposal, and reading it fails.
        _ => Ok(()),
    }
}

/// Checks the parameters and results of a plain function type.
pub(super) fn core_type(group: &RecGroup) -> Needs {
    for ty in group.types() {
        match &ty.composite_type.inner {
            CompositeInnerType::Func(function) => {
                function.params().iter().chain(function.results()).try_for_each(|ty| value_type(*ty))?;
            }
            CompositeInnerType::Cont(_) => feature(WasmFeatures::STACK_SWITCHING)?,
            CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) => feature(WasmFeatures::GC)?,
        }
    }
    Ok(())
}

/// Checks an import of a core module, or an import or export of a type of modules.
pub(super) fn entity(ty: &TypeRef) -> Needs {
    match ty {
        TypeRef::Func(_) => Ok(()),
        TypeRef::FuncExact(_) => feature(WasmFeatures::CUSTOM_DESCRIPTORS),
        TypeRef::Tag(_) => feature(WasmFeatures::EXCEPTIONS),
        TypeRef::Global(global) => {
            value_type(global.content_type)?;
            if global.shared { feature(WasmFeatures::SHARED_EVERYTHING_THREADS) } else { Ok(()) }
        }
        TypeRef::Memory(memory) => match (memory.memory64, memory.shared, memory.page_size_log2) {
            (true, ..) => feature(WasmFeatures::MEMORY64),
            (_, true, _) => feature(WasmFeatures::THREADS),
            (.., Some(_)) => feature(WasmFeatures::CUSTOM_PAGE_SIZES),
            _ => Ok(()),
        },
        TypeRef::Table(table) => {
            ref_type(table.element_type)?;
            match (table.table64, table.shared) {
                (true, _) => feature(WasmFeatures::MEMORY64),
                (_, true) => feature(WasmFeatures::SHARED_EVERYTHING_THREADS),
                _ => Ok(()),
            }
        }
    }
}

/// Checks the number of memories of a module.
pub(super) fn memories(count: u64) -> Needs {
    if count > 1 { feature(WasmFeatures::MULTI_MEMORY) } else { Ok(()) }
}

/// Checks one declaration of a type of modules that is not itself a type.
pub(super) fn module_declaration(declaration: &ModuleTypeDeclaration<'_>) -> Needs {
    match declaration {
        ModuleTypeDeclaration::Type(group) => core_type(group),
        ModuleTypeDeclaration::Export { ty, .. } => entity(ty),
        ModuleTypeDeclaration::Import(import) => entity(&import.ty),
        ModuleTypeDeclaration::OuterAlias { .. } => Ok(()),
    }
}

/// Checks one declaration of a type of components or instances that is not itself a type.
pub(super) fn component_declaration(declaration: &ComponentTypeDeclaration<'_>) -> Needs {
    match declaration {
        // Read separately, because they nest.
        ComponentTypeDeclaration::CoreType(_) | ComponentTypeDeclaration::Type(_) => Ok(()),
        ComponentTypeDeclaration::Alias(found) => alias(found),
        ComponentTypeDeclaration::Export { name, ty } => extern_item(name, Some(ty)),
        ComponentTypeDeclaration::Import(import) => extern_item(&import.name, Some(&import.ty)),
    }
}

/// Checks a type of the component model that contains no other types.
pub(super) fn component_type(ty: &ComponentType<'_>) -> Needs {
    match ty {
        ComponentType::Defined(defined) => defined_type(defined),
        ComponentType::Func(ComponentFuncType { async_: true, .. }) => feature(WasmFeatures::CM_ASYNC),
        ComponentType::Func(function) => {
            function.params.iter().map(|(_, ty)| ty).chain(&function.result).try_for_each(component_value)
        }
        ComponentType::Resource { rep: ValType::I32, .. } => Ok(()),
        ComponentType::Resource { .. } => feature(WasmFeatures::CM64),
        ComponentType::Component(_) | ComponentType::Instance(_) => Ok(()),
    }
}

fn defined_type(ty: &ComponentDefinedType<'_>) -> Needs {
    match ty {
        ComponentDefinedType::Primitive(ty) => primitive(*ty),
        ComponentDefinedType::Record(fields) => fields.iter().try_for_each(|(_, ty)| component_value(ty)),
        ComponentDefinedType::Variant(cases) => {
            cases.iter().filter_map(|case| case.ty.as_ref()).try_for_each(component_value)
        }
        ComponentDefinedType::Tuple(types) => types.iter().try_for_each(component_value),
        ComponentDefinedType::List(ty) | ComponentDefinedType::Option(ty) => component_value(ty),
        ComponentDefinedType::Result { ok, err } => ok.iter().chain(err).try_for_each(component_value),
        ComponentDefinedType::Flags(_) | ComponentDefinedType::Enum(_) => Ok(()),
        ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => Ok(()),
        ComponentDefinedType::Map(..) => feature(WasmFeatures::CM_MAP),
        ComponentDefinedType::FixedLengthList(..) => feature(WasmFeatures::CM_FIXED_LENGTH_LISTS),
        ComponentDefinedType::Future(_) | ComponentDefinedType::Stream(_) => feature(WasmFeatures::CM_ASYNC),
    }
}

fn component_value(ty: &ComponentValType) -> Needs {
    match ty {
        ComponentValType::Primitive(ty) => primitive(*ty),
        ComponentValType::Type(_) => Ok(()),
    }
}

fn primitive(ty: PrimitiveValType) -> Needs {
    if ty == PrimitiveValType::ErrorContext { feature(WasmFeatures::CM_ERROR_CONTEXT) } else { Ok(()) }
}

/// Checks an import or an export of a component.
pub(super) fn extern_item(name: &ComponentExternName<'_>, ty: Option<&ComponentTypeRef>) -> Needs {
    if name.implements.is_some() || name.external_id.is_some() {
        feature(WasmFeatures::CM_IMPLEMENTS)?;
    }
    if name.version_suffix.is_some() {
        feature(WasmFeatures::CM_CANON_NAMES)?;
    }
    if matches!(ty, Some(ComponentTypeRef::Value(_))) { feature(WasmFeatures::CM_VALUES) } else { Ok(()) }
}

/// Checks the kind of an export of a component, or of an instance.
pub(super) fn component_kind(kind: ComponentExternalKind) -> Needs {
    if kind == ComponentExternalKind::Value { feature(WasmFeatures::CM_VALUES) } else { Ok(()) }
}

/// Checks the kind of an export of a core module, or of an instance of one.
pub(super) fn core_kind(kind: ExternalKind) -> Needs {
    match kind {
        ExternalKind::Func | ExternalKind::Table | ExternalKind::Memory | ExternalKind::Global => Ok(()),
        ExternalKind::Tag => feature(WasmFeatures::EXCEPTIONS),
        ExternalKind::FuncExact => feature(WasmFeatures::CUSTOM_DESCRIPTORS),
    }
}

/// Checks an alias of a component.
pub(super) fn alias(alias: &ComponentAlias<'_>) -> Needs {
    match alias {
        ComponentAlias::InstanceExport { kind, .. } => component_kind(*kind),
        ComponentAlias::CoreInstanceExport { kind, .. } => core_kind(*kind),
        ComponentAlias::Outer { .. } => Ok(()),
    }
}

/// Checks an instance of a core module.
pub(super) fn core_instance(instance: &Instance<'_>) -> Needs {
    match instance {
        Instance::Instantiate { .. } => Ok(()),
        Instance::FromExports(exports) => exports.iter().try_for_each(|export| core_kind(export.kind)),
    }
}

/// Checks a function of the canonical ABI. Lifting, lowering and resources are on; other built-ins are off.
pub(super) fn canonical(function: &CanonicalFunction) -> Needs {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.iter().try_for_each(canonical_option)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => Ok(()),
        CanonicalFunction::ThreadSpawnRef { .. }
        | CanonicalFunction::ThreadSpawnIndirect { .. }
        | CanonicalFunction::ThreadAvailableParallelism => feature(WasmFeatures::SHARED_EVERYTHING_THREADS),
        CanonicalFunction::ErrorContextNew { .. }
        | CanonicalFunction::ErrorContextDebugMessage { .. }
        | CanonicalFunction::ErrorContextDrop => feature(WasmFeatures::CM_ERROR_CONTEXT),
        CanonicalFunction::ThreadIndex
        | CanonicalFunction::ThreadNewIndirect { .. }
        | CanonicalFunction::ThreadResumeLater
        | CanonicalFunction::ThreadSuspend { .. }
        | CanonicalFunction::ThreadSuspendThenResume { .. }
        | CanonicalFunction::ThreadYieldThenResume { .. }
        | CanonicalFunction::ThreadSuspendThenPromote { .. }
        | CanonicalFunction::ThreadYieldThenPromote { .. } => feature(WasmFeatures::CM_THREADING),
        _ => feature(WasmFeatures::CM_ASYNC),
    }
}

fn canonical_option(option: &CanonicalOption) -> Needs {
    match option {
        CanonicalOption::UTF8
        | CanonicalOption::UTF16
        | CanonicalOption::CompactUTF16
        | CanonicalOption::Memory(_)
        | CanonicalOption::Realloc(_)
        | CanonicalOption::PostReturn(_) => Ok(()),
        CanonicalOption::Async | CanonicalOption::Callback(_) => feature(WasmFeatures::CM_ASYNC),
        CanonicalOption::CoreType(_) | CanonicalOption::Gc => feature(WasmFeatures::CM_GC),
    }
}
