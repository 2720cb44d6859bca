//! Linking the interfaces of capabilities to components.

use std::sync::Arc;

use fumehood_core::capability::{Function, Interface, Type, Value};
use wasmtime::component::types::{self, ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Linker, ResourceType, Val};
use wasmtime::{StoreContextMut, Trap};

use super::convert::Converter;
use super::{Capabilities, FunctionIndex};
use crate::wasi::CallState;

/// Bytes of values whose conversion costs one unit of fuel.
const BYTES_PER_FUEL: usize = 2;

/// A function as a guest calls it.
struct LinkedFunction {
    at: FunctionIndex,
    first_resource: u32,
    function: Function,
}

/// A resource as a guest drops it.
struct LinkedResource {
    capability: usize,
    name: String,
}

/// Links the interfaces of all capabilities. Without a grant, their functions refuse.
pub(crate) fn link(linker: &mut Linker<CallState>, capabilities: &Capabilities) -> wasmtime::Result<()> {
    for (capability, linked) in capabilities.iter().enumerate() {
        for (interface, found) in linked.interfaces.iter().enumerate() {
            let mut instance = linker.instance(&found.name)?;
            for (name, number) in &found.resources {
                let ty = ResourceType::host_dynamic(linked.first_resource.saturating_add(*number));
                let resource = Arc::new(LinkedResource { capability, name: name.clone() });
                instance.resource_async(name, ty, move |store, handle| {
                    Box::new(drop_resource(store, Arc::clone(&resource), handle))
                })?;
            }
            for (function, ty) in found.functions.iter().enumerate() {
                let at = FunctionIndex { capability, interface, function };
                let first_resource = linked.first_resource;
                let function = Arc::new(LinkedFunction { at, first_resource, function: ty.clone() });
                instance.func_new_async(&ty.name, move |store, _type, params, results| {
                    Box::new(call_function(store, Arc::clone(&function), params, results))
                })?;
            }
        }
    }
    Ok(())
}

/// Runs a function for a guest.
async fn call_function(
    mut store: StoreContextMut<'_, CallState>,
    linked: Arc<LinkedFunction>,
    params: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    store.data_mut().admit_host_function();
    let LinkedFunction { at, first_resource, function } = &*linked;
    let mut converter = Converter { store: &mut store, first_resource: *first_resource };
    let read = params.iter().zip(&function.params).map(|(value, (_, ty))| converter.read(value, ty));
    let arguments = read.collect::<wasmtime::Result<Vec<Value>>>()?;
    charge(&mut store, arguments.iter().map(Value::bytes).sum())?;
    let mut sessions = store.data_mut().take_sessions();
    let result = sessions.call(*at, arguments).await;
    store.data_mut().return_sessions(sessions);
    if let (Some(value), Some(ty), [place]) = (result?, &function.result, results) {
        charge(&mut store, value.bytes())?;
        *place = Converter { store: &mut store, first_resource: *first_resource }.write(value, ty)?;
    }
    Ok(())
}

/// Drops a handle of a guest.
async fn drop_resource(
    mut store: StoreContextMut<'_, CallState>,
    resource: Arc<LinkedResource>,
    handle: u32,
) -> wasmtime::Result<()> {
    store.data_mut().admit_host_function();
    let mut sessions = store.data_mut().take_sessions();
    sessions.drop_resource(resource.capability, &resource.name, handle);
    store.data_mut().return_sessions(sessions);
    Ok(())
}

/// Charges fuel for the conversion of values: the engine does not, and a guest could ask for it again and again.
fn charge(store: &mut StoreContextMut<'_, CallState>, bytes: usize) -> wasmtime::Result<()> {
    let fuel = (bytes / BYTES_PER_FUEL) as u64;
    let left = store.get_fuel()?;
    store.set_fuel(left.saturating_sub(fuel))?;
    if left < fuel { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

/// Checks that a component imports the interfaces with the types that their capabilities declare.
///
/// # Errors
/// If a type differs, or the linker does not fit the component.
pub(crate) fn check_types(
    linker: &Linker<CallState>,
    component: &Component,
    capabilities: &Capabilities,
) -> wasmtime::Result<()> {
    let engine = linker.engine();
    let unresolved = component.component_type();
    if !unresolved.imports(engine).any(|(name, _)| capabilities.provider_of(name).is_some()) {
        return Ok(());
    }
    let ty = linker.substituted_component_type(component)?;
    for (name, import) in ty.imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        for linked in capabilities.iter() {
            let first_resource = linked.first_resource;
            let Some(interface) = find_interface(&linked.interfaces, name) else { continue };
            for (function, export) in instance.exports(engine) {
                if let ComponentItem::ComponentFunc(found) = export.ty {
                    check_function(interface, function, &found, first_resource)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the interface with this name, or one of another version, which the engine found compatible.
fn find_interface<'i>(interfaces: &'i [Interface], imported: &str) -> Option<&'i Interface> {
    let name = super::without_version(imported);
    let mut same = interfaces.iter().filter(|interface| super::without_version(&interface.name) == name);
    same.clone().find(|interface| interface.name == imported).or_else(|| same.next())
}

fn check_function(
    interface: &Interface,
    name: &str,
    found: &ComponentFunc,
    first_resource: u32,
) -> wasmtime::Result<()> {
    let declared = interface.functions.iter().find(|function| function.name == name);
    if declared.is_some_and(|declared| fits_function(found, declared, first_resource)) {
        return Ok(());
    }
    let interface = &interface.name;
    Err(wasmtime::Error::msg(format!(
        "it imports `{name}` of `{interface}` with a type that this host does not provide"
    )))
}

fn fits_function(found: &ComponentFunc, declared: &Function, first_resource: u32) -> bool {
    let mut results = found.results();
    let result = results.next();
    let has_shape = !found.async_() && found.params().len() == declared.params.len() && results.next().is_none();
    let mut params = found.params().zip(&declared.params);
    has_shape
        && params.all(|((_, found), (_, ty))| fits_type(&found, ty, first_resource))
        && fits_optional(result.as_ref(), declared.result.as_ref(), first_resource)
}

/// Compares an imported type with a declared one. Recurses as deep as the declared type.
fn fits_type(found: &types::Type, declared: &Type, first_resource: u32) -> bool {
    use types::Type as Found;
    let fits = |found: &Found, ty: &Type| fits_type(found, ty, first_resource);
    let resource = |number: &u32| ResourceType::host_dynamic(first_resource.saturating_add(*number));
    match (found, declared) {
        (Found::Bool, Type::Bool)
        | (Found::S8, Type::S8)
        | (Found::U8, Type::U8)
        | (Found::S16, Type::S16)
        | (Found::U16, Type::U16)
        | (Found::S32, Type::S32)
        | (Found::U32, Type::U32)
        | (Found::S64, Type::S64)
        | (Found::U64, Type::U64)
        | (Found::Float32, Type::F32)
        | (Found::Float64, Type::F64)
        | (Found::Char, Type::Char)
        | (Found::String, Type::String) => true,
        (Found::List(found), Type::List(item)) => fits(&found.ty(), item),
        (Found::Option(found), Type::Option(inner)) => fits(&found.ty(), inner),
        (Found::Tuple(found), Type::Tuple(types)) => {
            found.types().len() == types.len() && found.types().zip(types).all(|(found, ty)| fits(&found, ty))
        }
        (Found::Record(found), Type::Record(fields)) => {
            let mut pairs = found.fields().zip(fields);
            found.fields().len() == fields.len()
                && pairs.all(|(found, (name, ty))| found.name == name && fits(&found.ty, ty))
        }
        (Found::Variant(found), Type::Variant(cases)) => {
            let mut pairs = found.cases().zip(cases);
            let fits = |found: Option<&Found>, ty: Option<&Type>| fits_optional(found, ty, first_resource);
            found.cases().len() == cases.len()
                && pairs.all(|(found, (name, ty))| found.name == name && fits(found.ty.as_ref(), ty.as_ref()))
        }
        (Found::Enum(found), Type::Enum(names)) => found.names().eq(names.iter().map(String::as_str)),
        (Found::Flags(found), Type::Flags(names)) => found.names().eq(names.iter().map(String::as_str)),
        (Found::Result(found), Type::Result { ok, err }) => {
            fits_optional(found.ok().as_ref(), ok.as_deref(), first_resource)
                && fits_optional(found.err().as_ref(), err.as_deref(), first_resource)
        }
        (Found::Own(found), Type::Own(number)) => *found == resource(number),
        (Found::Borrow(found), Type::Borrow(number)) => *found == resource(number),
        _ => false,
    }
}

fn fits_optional(found: Option<&types::Type>, declared: Option<&Type>, first_resource: u32) -> bool {
    match (found, declared) {
        (Some(found), Some(declared)) => fits_type(found, declared, first_resource),
        (None, None) => true,
        _ => false,
    }
}
