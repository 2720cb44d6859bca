//! Checks that a component uses no WebAssembly proposal that is off.
//!
//! The engine refuses the same constructs when it validates. This check comes first, because a construct that validates
//! but was compiled out ends the process, and because its errors name the proposal.

use wasmparser::{
    AbstractHeapType, BinaryReaderError, BlockType, CanonicalFunction, CanonicalOption, ComponentAlias,
    ComponentDefinedType, ComponentExternName, ComponentExternalKind, ComponentFuncType, ComponentType,
    ComponentTypeDeclaration, ComponentTypeRef, ComponentValType, CompositeInnerType, ExternalKind, HeapType, Instance,
    ModuleTypeDeclaration, Operator, PrimitiveValType, RecGroup, RefType, TypeRef, ValType, WasmFeatures,
};

use crate::engine::features::{ASYNCHRONOUS, ENABLED, name};

/// A use of a proposal that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DisabledProposal {
    /// The proposal's name.
    pub(crate) proposal: &'static str,
    /// The offset in the component, in bytes.
    pub(crate) offset: usize,
}

impl DisabledProposal {
    /// Returns the proposal that an error of the parser or the validator is about, if it is about one.
    pub(super) fn from_parser_error(error: &BinaryReaderError) -> Option<Self> {
        let feature = error.missing_wasm_feature()?;
        Some(Self { proposal: name(feature), offset: error.offset() })
    }
}

/// The result of a check: `Err` with the feature that is off.
type FeatureCheck = Result<(), WasmFeatures>;

/// Adds the name of the proposal and the offset to a failed check.
pub(super) fn require(check: FeatureCheck, offset: usize) -> Result<(), DisabledProposal> {
    check.map_err(|feature| DisabledProposal { proposal: name(feature), offset })
}

/// Fails if the feature is off in every engine.
const fn require_enabled(feature: WasmFeatures) -> FeatureCheck {
    if ENABLED.union(ASYNCHRONOUS).contains(feature) { Ok(()) } else { Err(feature) }
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

macro_rules! define_operator_feature {
    ($(@$group:ident $op:ident $({ $($payload:tt)* })? => $visit:ident ($($arity:tt)*))*) => {
        /// Returns the feature that an operator belongs to, apart from its operands.
        const fn operator_feature(operator: &Operator<'_>) -> WasmFeatures {
            match operator {
                $(Operator::$op { .. } => feature_of_group!($group),)*
                _ => WasmFeatures::all(),
            }
        }
    };
}
wasmparser::for_each_operator!(define_operator_feature);

/// Checks an operator of a function's body and its operands.
pub(super) fn check_operator(operator: &Operator<'_>) -> FeatureCheck {
    require_enabled(operator_feature(operator))?;
    match operator {
        Operator::Block { blockty: BlockType::Type(ty) }
        | Operator::Loop { blockty: BlockType::Type(ty) }
        | Operator::If { blockty: BlockType::Type(ty) }
        | Operator::TypedSelect { ty } => check_value_type(*ty),
        Operator::TypedSelectMulti { tys } => tys.iter().try_for_each(|ty| check_value_type(*ty)),
        Operator::RefNull { hty } => check_heap_type(*hty),
        _ => Ok(()),
    }
}

/// Checks a value type of core WebAssembly.
pub(super) fn check_value_type(ty: ValType) -> FeatureCheck {
    match ty {
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64 => Ok(()),
        ValType::V128 => require_enabled(WasmFeatures::SIMD),
        ValType::Ref(ty) => check_ref_type(ty),
    }
}

fn check_ref_type(ty: RefType) -> FeatureCheck {
    check_heap_type(ty.heap_type())?;
    if ty.is_nullable() { Ok(()) } else { require_enabled(WasmFeatures::FUNCTION_REFERENCES) }
}

fn check_heap_type(ty: HeapType) -> FeatureCheck {
    match ty {
        HeapType::Concrete(_) => require_enabled(WasmFeatures::FUNCTION_REFERENCES),
        HeapType::Exact(_) => require_enabled(WasmFeatures::CUSTOM_DESCRIPTORS),
        HeapType::Abstract { shared: true, .. } => require_enabled(WasmFeatures::SHARED_EVERYTHING_THREADS),
        HeapType::Abstract { ty: AbstractHeapType::Func, .. } => require_enabled(WasmFeatures::REFERENCE_TYPES),
        HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. } => {
            require_enabled(WasmFeatures::EXCEPTIONS)
        }
        HeapType::Abstract { ty: AbstractHeapType::Cont | AbstractHeapType::NoCont, .. } => {
            require_enabled(WasmFeatures::STACK_SWITCHING)
        }
        HeapType::Abstract { .. } => require_enabled(WasmFeatures::GC_TYPES),
    }
}

/// The first byte of a plain function type. Every other first byte of a core type belongs to a proposal.
const FUNCTION_TYPE: u8 = 0x60;

/// Checks the first byte of a core type, before the type is read: refuses groups of types, subtypes, and everything but
/// functions. `sub final` without a supertype means the same as a plain function type, and is refused as well.
pub(super) fn check_core_type_form(byte: u8) -> FeatureCheck {
    match byte {
        FUNCTION_TYPE => Ok(()),
        0x5d => require_enabled(WasmFeatures::STACK_SWITCHING),
        0x65 => require_enabled(WasmFeatures::SHARED_EVERYTHING_THREADS),
        0x4c | 0x4d => require_enabled(WasmFeatures::CUSTOM_DESCRIPTORS),
        // 0x4e `rec`, 0x4f `sub final`, 0x50 `sub`, 0x5e `array`, 0x5f `struct`.
        0x4e..=0x50 | 0x5e | 0x5f => require_enabled(WasmFeatures::GC),
        // It belongs to no proposal, and reading it fails.
        _ => Ok(()),
    }
}

/// Checks the parameters and results of a plain function type.
pub(super) fn check_core_type(group: &RecGroup) -> FeatureCheck {
    for ty in group.types() {
        match &ty.composite_type.inner {
            CompositeInnerType::Func(function) => {
                function.params().iter().chain(function.results()).try_for_each(|ty| check_value_type(*ty))?;
            }
            CompositeInnerType::Cont(_) => require_enabled(WasmFeatures::STACK_SWITCHING)?,
            CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) => require_enabled(WasmFeatures::GC)?,
        }
    }
    Ok(())
}

/// Checks an import of a core module, or an import or export of a type of modules.
pub(super) fn check_entity(ty: &TypeRef) -> FeatureCheck {
    match ty {
        TypeRef::Func(_) => Ok(()),
        TypeRef::FuncExact(_) => require_enabled(WasmFeatures::CUSTOM_DESCRIPTORS),
        TypeRef::Tag(_) => require_enabled(WasmFeatures::EXCEPTIONS),
        TypeRef::Global(global) => {
            check_value_type(global.content_type)?;
            if global.shared { require_enabled(WasmFeatures::SHARED_EVERYTHING_THREADS) } else { Ok(()) }
        }
        TypeRef::Memory(memory) => match (memory.memory64, memory.shared, memory.page_size_log2) {
            (true, ..) => require_enabled(WasmFeatures::MEMORY64),
            (_, true, _) => require_enabled(WasmFeatures::THREADS),
            (.., Some(_)) => require_enabled(WasmFeatures::CUSTOM_PAGE_SIZES),
            _ => Ok(()),
        },
        TypeRef::Table(table) => {
            check_ref_type(table.element_type)?;
            match (table.table64, table.shared) {
                (true, _) => require_enabled(WasmFeatures::MEMORY64),
                (_, true) => require_enabled(WasmFeatures::SHARED_EVERYTHING_THREADS),
                _ => Ok(()),
            }
        }
    }
}

/// Checks the number of memories of a module.
pub(super) fn check_memories(count: u64) -> FeatureCheck {
    if count > 1 { require_enabled(WasmFeatures::MULTI_MEMORY) } else { Ok(()) }
}

/// Checks one declaration of a type of modules that is not itself a type.
pub(super) fn check_module_declaration(declaration: &ModuleTypeDeclaration<'_>) -> FeatureCheck {
    match declaration {
        ModuleTypeDeclaration::Type(group) => check_core_type(group),
        ModuleTypeDeclaration::Export { ty, .. } => check_entity(ty),
        ModuleTypeDeclaration::Import(import) => check_entity(&import.ty),
        ModuleTypeDeclaration::OuterAlias { .. } => Ok(()),
    }
}

/// Checks one declaration of a type of components or instances that is not itself a type.
pub(super) fn check_component_declaration(declaration: &ComponentTypeDeclaration<'_>) -> FeatureCheck {
    match declaration {
        // Read separately, because they nest.
        ComponentTypeDeclaration::CoreType(_) | ComponentTypeDeclaration::Type(_) => Ok(()),
        ComponentTypeDeclaration::Alias(found) => check_alias(found),
        ComponentTypeDeclaration::Export { name, ty } => check_extern_item(name, Some(ty)),
        ComponentTypeDeclaration::Import(import) => check_extern_item(&import.name, Some(&import.ty)),
    }
}

/// Checks a type of the component model that contains no other types.
pub(super) fn check_component_type(ty: &ComponentType<'_>) -> FeatureCheck {
    match ty {
        ComponentType::Defined(defined) => check_defined_type(defined),
        ComponentType::Func(ComponentFuncType { async_: true, .. }) => require_enabled(WasmFeatures::CM_ASYNC),
        ComponentType::Func(function) => {
            function.params.iter().map(|(_, ty)| ty).chain(&function.result).try_for_each(check_component_value)
        }
        ComponentType::Resource { rep: ValType::I32, .. } => Ok(()),
        ComponentType::Resource { .. } => require_enabled(WasmFeatures::CM64),
        ComponentType::Component(_) | ComponentType::Instance(_) => Ok(()),
    }
}

fn check_defined_type(ty: &ComponentDefinedType<'_>) -> FeatureCheck {
    match ty {
        ComponentDefinedType::Primitive(ty) => check_primitive(*ty),
        ComponentDefinedType::Record(fields) => fields.iter().try_for_each(|(_, ty)| check_component_value(ty)),
        ComponentDefinedType::Variant(cases) => {
            cases.iter().filter_map(|case| case.ty.as_ref()).try_for_each(check_component_value)
        }
        ComponentDefinedType::Tuple(types) => types.iter().try_for_each(check_component_value),
        ComponentDefinedType::List(ty) | ComponentDefinedType::Option(ty) => check_component_value(ty),
        ComponentDefinedType::Result { ok, err } => ok.iter().chain(err).try_for_each(check_component_value),
        ComponentDefinedType::Flags(_) | ComponentDefinedType::Enum(_) => Ok(()),
        ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => Ok(()),
        ComponentDefinedType::Map(..) => require_enabled(WasmFeatures::CM_MAP),
        ComponentDefinedType::FixedLengthList(..) => require_enabled(WasmFeatures::CM_FIXED_LENGTH_LISTS),
        ComponentDefinedType::Future(_) | ComponentDefinedType::Stream(_) => require_enabled(WasmFeatures::CM_ASYNC),
    }
}

fn check_component_value(ty: &ComponentValType) -> FeatureCheck {
    match ty {
        ComponentValType::Primitive(ty) => check_primitive(*ty),
        ComponentValType::Type(_) => Ok(()),
    }
}

fn check_primitive(ty: PrimitiveValType) -> FeatureCheck {
    if ty == PrimitiveValType::ErrorContext { require_enabled(WasmFeatures::CM_ERROR_CONTEXT) } else { Ok(()) }
}

/// Checks an import or an export of a component.
pub(super) fn check_extern_item(name: &ComponentExternName<'_>, ty: Option<&ComponentTypeRef>) -> FeatureCheck {
    if name.implements.is_some() || name.external_id.is_some() {
        require_enabled(WasmFeatures::CM_IMPLEMENTS)?;
    }
    if name.version_suffix.is_some() {
        require_enabled(WasmFeatures::CM_CANON_NAMES)?;
    }
    if matches!(ty, Some(ComponentTypeRef::Value(_))) { require_enabled(WasmFeatures::CM_VALUES) } else { Ok(()) }
}

/// Checks the kind of an export of a component, or of an instance.
pub(super) fn check_component_kind(kind: ComponentExternalKind) -> FeatureCheck {
    if kind == ComponentExternalKind::Value { require_enabled(WasmFeatures::CM_VALUES) } else { Ok(()) }
}

/// Checks the kind of an export of a core module, or of an instance of one.
pub(super) fn check_core_kind(kind: ExternalKind) -> FeatureCheck {
    match kind {
        ExternalKind::Func | ExternalKind::Table | ExternalKind::Memory | ExternalKind::Global => Ok(()),
        ExternalKind::Tag => require_enabled(WasmFeatures::EXCEPTIONS),
        ExternalKind::FuncExact => require_enabled(WasmFeatures::CUSTOM_DESCRIPTORS),
    }
}

pub(super) fn check_alias(alias: &ComponentAlias<'_>) -> FeatureCheck {
    match alias {
        ComponentAlias::InstanceExport { kind, .. } => check_component_kind(*kind),
        ComponentAlias::CoreInstanceExport { kind, .. } => check_core_kind(*kind),
        ComponentAlias::Outer { .. } => Ok(()),
    }
}

/// Checks an instance of a core module.
pub(super) fn check_core_instance(instance: &Instance<'_>) -> FeatureCheck {
    match instance {
        Instance::Instantiate { .. } => Ok(()),
        Instance::FromExports(exports) => exports.iter().try_for_each(|export| check_core_kind(export.kind)),
    }
}

/// Checks a function of the canonical ABI. Lifting, lowering, resources, and what functions with callbacks need are on; other
/// built-ins are off.
pub(super) fn check_canonical(function: &CanonicalFunction) -> FeatureCheck {
    match function {
        CanonicalFunction::Lift { options, .. } => {
            // Without a callback, each task needs a stack of its own for as long as it runs.
            let has_callback = options.iter().any(|option| matches!(option, CanonicalOption::Callback(_)));
            if is_async(options) && !has_callback {
                require_enabled(WasmFeatures::CM_ASYNC_STACKFUL)?;
            }
            options.iter().try_for_each(check_canonical_option)
        }
        CanonicalFunction::Lower { options, .. } => options.iter().try_for_each(check_canonical_option),
        CanonicalFunction::StreamRead { options, .. }
        | CanonicalFunction::StreamWrite { options, .. }
        | CanonicalFunction::FutureRead { options, .. }
        | CanonicalFunction::FutureWrite { options, .. } => {
            require_enabled(if is_async(options) {
                WasmFeatures::CM_ASYNC
            } else {
                WasmFeatures::CM_MORE_ASYNC_BUILTINS
            })?;
            options.iter().try_for_each(check_canonical_option)
        }
        CanonicalFunction::SubtaskCancel { async_: true }
        | CanonicalFunction::StreamCancelRead { async_: true, .. }
        | CanonicalFunction::StreamCancelWrite { async_: true, .. }
        | CanonicalFunction::FutureCancelRead { async_: true, .. }
        | CanonicalFunction::FutureCancelWrite { async_: true, .. } => {
            require_enabled(WasmFeatures::CM_MORE_ASYNC_BUILTINS)
        }
        CanonicalFunction::TaskReturn { options, .. } => {
            require_enabled(WasmFeatures::CM_ASYNC)?;
            options.iter().try_for_each(check_canonical_option)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => Ok(()),
        CanonicalFunction::ThreadSpawnRef { .. }
        | CanonicalFunction::ThreadSpawnIndirect { .. }
        | CanonicalFunction::ThreadAvailableParallelism => require_enabled(WasmFeatures::SHARED_EVERYTHING_THREADS),
        CanonicalFunction::ErrorContextNew { .. }
        | CanonicalFunction::ErrorContextDebugMessage { .. }
        | CanonicalFunction::ErrorContextDrop => require_enabled(WasmFeatures::CM_ERROR_CONTEXT),
        CanonicalFunction::ThreadIndex
        | CanonicalFunction::ThreadNewIndirect { .. }
        | CanonicalFunction::ThreadResumeLater
        | CanonicalFunction::ThreadSuspend { .. }
        | CanonicalFunction::ThreadSuspendThenResume { .. }
        | CanonicalFunction::ThreadYieldThenResume { .. }
        | CanonicalFunction::ThreadSuspendThenPromote { .. }
        | CanonicalFunction::ThreadYieldThenPromote { .. } => require_enabled(WasmFeatures::CM_THREADING),
        _ => require_enabled(WasmFeatures::CM_ASYNC),
    }
}

fn is_async(options: &[CanonicalOption]) -> bool {
    options.iter().any(|option| matches!(option, CanonicalOption::Async))
}

fn check_canonical_option(option: &CanonicalOption) -> FeatureCheck {
    match option {
        CanonicalOption::UTF8
        | CanonicalOption::UTF16
        | CanonicalOption::CompactUTF16
        | CanonicalOption::Memory(_)
        | CanonicalOption::Realloc(_)
        | CanonicalOption::PostReturn(_) => Ok(()),
        CanonicalOption::Async | CanonicalOption::Callback(_) => require_enabled(WasmFeatures::CM_ASYNC),
        CanonicalOption::CoreType(_) | CanonicalOption::Gc => require_enabled(WasmFeatures::CM_GC),
    }
}
