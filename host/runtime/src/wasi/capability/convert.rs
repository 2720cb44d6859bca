//! Conversion of values between the engine and capabilities. The types guide it, so it recurses as deep as they do.

use fumehood_core::capability::{Mismatch, Type, Value};
use wasmtime::StoreContextMut;
use wasmtime::component::{ResourceDynamic, Val};

use crate::wasi::CallState;

/// A conversion for one capability.
pub(super) struct Converter<'c, 's> {
    pub(super) store: &'c mut StoreContextMut<'s, CallState>,
    /// The number of the capability's first resource among those of all capabilities.
    pub(super) first_resource: u32,
}

impl Converter<'_, '_> {
    /// Converts a value of the guest.
    ///
    /// # Errors
    /// If it does not fit its type, or a handle is not the guest's.
    pub(super) fn read(&mut self, value: &Val, ty: &Type) -> wasmtime::Result<Value> {
        Ok(match (value, ty) {
            (Val::Bool(value), Type::Bool) => Value::Bool(*value),
            (Val::S8(value), Type::S8) => Value::S8(*value),
            (Val::U8(value), Type::U8) => Value::U8(*value),
            (Val::S16(value), Type::S16) => Value::S16(*value),
            (Val::U16(value), Type::U16) => Value::U16(*value),
            (Val::S32(value), Type::S32) => Value::S32(*value),
            (Val::U32(value), Type::U32) => Value::U32(*value),
            (Val::S64(value), Type::S64) => Value::S64(*value),
            (Val::U64(value), Type::U64) => Value::U64(*value),
            (Val::Float32(value), Type::F32) => Value::F32(*value),
            (Val::Float64(value), Type::F64) => Value::F64(*value),
            (Val::Char(value), Type::Char) => Value::Char(*value),
            (Val::String(value), Type::String) => Value::String(value.clone()),
            (Val::Enum(name), Type::Enum(_)) => Value::Enum(name.clone()),
            (Val::Flags(names), Type::Flags(_)) => Value::Flags(names.clone()),
            (Val::Resource(handle), Type::Own(resource) | Type::Borrow(resource)) => {
                let handle = handle.try_into_resource_dynamic(&mut *self.store)?;
                if handle.ty() != self.first_resource.saturating_add(*resource) {
                    return Err(Mismatch.into());
                }
                Value::Handle(handle.rep())
            }
            _ => return self.read_compound(value, ty),
        })
    }

    fn read_compound(&mut self, value: &Val, ty: &Type) -> wasmtime::Result<Value> {
        Ok(match (value, ty) {
            (Val::List(items), Type::List(item)) if **item == Type::U8 => {
                let byte = |value: &Val| if let Val::U8(byte) = value { Some(*byte) } else { None };
                Value::Bytes(items.iter().map(byte).collect::<Option<_>>().ok_or(Mismatch)?)
            }
            (Val::List(items), Type::List(item)) => {
                Value::List(items.iter().map(|value| self.read(value, item)).collect::<Result<_, _>>()?)
            }
            (Val::Tuple(items), Type::Tuple(types)) => {
                let items = items.iter().zip(types).map(|(value, ty)| self.read(value, ty));
                Value::Tuple(items.collect::<Result<_, _>>()?)
            }
            (Val::Record(fields), Type::Record(types)) => {
                let fields =
                    fields.iter().zip(types).map(|((name, value), (_, ty))| Ok((name.clone(), self.read(value, ty)?)));
                Value::Record(fields.collect::<wasmtime::Result<_>>()?)
            }
            (Val::Variant(name, payload), Type::Variant(cases)) => {
                let case = cases.iter().find(|(case, _)| case == name).ok_or(Mismatch)?;
                Value::Variant(name.clone(), self.read_optional(payload.as_deref(), case.1.as_ref())?)
            }
            (Val::Option(payload), Type::Option(ty)) => {
                let payload = payload.as_deref().map(|value| self.read(value, ty)).transpose()?;
                Value::Option(payload.map(Box::new))
            }
            (Val::Result(Ok(payload)), Type::Result { ok, .. }) => {
                Value::Result(Ok(self.read_optional(payload.as_deref(), ok.as_deref())?))
            }
            (Val::Result(Err(payload)), Type::Result { err, .. }) => {
                Value::Result(Err(self.read_optional(payload.as_deref(), err.as_deref())?))
            }
            _ => return Err(Mismatch.into()),
        })
    }

    fn read_optional(&mut self, value: Option<&Val>, ty: Option<&Type>) -> wasmtime::Result<Option<Box<Value>>> {
        match (value, ty) {
            (Some(value), Some(ty)) => Ok(Some(Box::new(self.read(value, ty)?))),
            (None, None) => Ok(None),
            _ => Err(Mismatch.into()),
        }
    }

    /// Converts a value for the guest, which has passed the check of its type.
    ///
    /// # Errors
    /// If it does not fit its type.
    pub(super) fn write(&mut self, value: Value, ty: &Type) -> wasmtime::Result<Val> {
        Ok(match (value, ty) {
            (Value::Bool(value), _) => Val::Bool(value),
            (Value::S8(value), _) => Val::S8(value),
            (Value::U8(value), _) => Val::U8(value),
            (Value::S16(value), _) => Val::S16(value),
            (Value::U16(value), _) => Val::U16(value),
            (Value::S32(value), _) => Val::S32(value),
            (Value::U32(value), _) => Val::U32(value),
            (Value::S64(value), _) => Val::S64(value),
            (Value::U64(value), _) => Val::U64(value),
            (Value::F32(value), _) => Val::Float32(value),
            (Value::F64(value), _) => Val::Float64(value),
            (Value::Char(value), _) => Val::Char(value),
            (Value::String(value), _) => Val::String(value),
            (Value::Enum(name), _) => Val::Enum(name),
            (Value::Flags(names), _) => Val::Flags(names),
            (Value::Bytes(bytes), _) => Val::List(bytes.into_iter().map(Val::U8).collect()),
            (Value::Handle(handle), Type::Own(resource)) => {
                let handle = ResourceDynamic::new_own(handle, self.first_resource.saturating_add(*resource));
                Val::Resource(handle.try_into_resource_any(&mut *self.store)?)
            }
            (value, ty) => return self.write_compound(value, ty),
        })
    }

    fn write_compound(&mut self, value: Value, ty: &Type) -> wasmtime::Result<Val> {
        Ok(match (value, ty) {
            (Value::List(items), Type::List(item)) => {
                Val::List(items.into_iter().map(|value| self.write(value, item)).collect::<Result<_, _>>()?)
            }
            (Value::Tuple(items), Type::Tuple(types)) => {
                let items = items.into_iter().zip(types).map(|(value, ty)| self.write(value, ty));
                Val::Tuple(items.collect::<Result<_, _>>()?)
            }
            (Value::Record(mut fields), Type::Record(types)) => {
                let field = |(name, ty): &(String, Type)| {
                    let at = fields.iter().position(|(field, _)| field == name).ok_or(Mismatch)?;
                    Ok((name.clone(), self.write(fields.swap_remove(at).1, ty)?))
                };
                Val::Record(types.iter().map(field).collect::<wasmtime::Result<_>>()?)
            }
            (Value::Variant(name, payload), Type::Variant(cases)) => {
                let ty = cases.iter().find(|(case, _)| *case == name).and_then(|(_, ty)| ty.as_ref());
                Val::Variant(name, self.write_optional(payload, ty)?)
            }
            (Value::Option(payload), Type::Option(ty)) => Val::Option(self.write_optional(payload, Some(&**ty))?),
            (Value::Result(Ok(payload)), Type::Result { ok, .. }) => {
                Val::Result(Ok(self.write_optional(payload, ok.as_deref())?))
            }
            (Value::Result(Err(payload)), Type::Result { err, .. }) => {
                Val::Result(Err(self.write_optional(payload, err.as_deref())?))
            }
            _ => return Err(Mismatch.into()),
        })
    }

    fn write_optional(&mut self, value: Option<Box<Value>>, ty: Option<&Type>) -> wasmtime::Result<Option<Box<Val>>> {
        let Some(value) = value else { return Ok(None) };
        Ok(Some(Box::new(self.write(*value, ty.ok_or(Mismatch)?)?)))
    }
}
