//! Reading the WIT of a capability.

use std::collections::HashMap;

use fumehood_core::capability::{Function, Interface, Type};
use wit_parser::{FunctionKind, Handle, InterfaceId, ParseError, Resolve, Type as WitType, TypeDefKind, TypeId};

/// Maximum number of types of a capability. A type that is used twice counts twice.
const MAX_NODES: usize = 10_000;
/// Maximum depth of nested types.
const MAX_DEPTH: usize = 32;

/// Reads a package and those that are nested in its text, and returns their interfaces and the number of their resources.
///
/// # Errors
/// If it is not WIT, or uses types that capabilities cannot have. The text says what.
pub(super) fn read(wit: &str) -> Result<(Vec<Interface>, u32), String> {
    let mut resolve = Resolve::default();
    if let Err(error) = resolve.push_source("capability.wit", wit) {
        let with_place = error.downcast_ref::<ParseError>().map(|error| error.render(&resolve.source_map));
        return Err(with_place.unwrap_or_else(|| format!("{error:#}")));
    }
    let packages = resolve.packages.iter().flat_map(|(_, package)| package.interfaces.values());
    let declared: Vec<InterfaceId> = packages.copied().collect();
    let mut resources = HashMap::new();
    for id in &declared {
        for ty in resolve.interfaces.get(*id).into_iter().flat_map(|interface| interface.types.values()) {
            if resolve.types.get(*ty).is_some_and(|ty| matches!(ty.kind, TypeDefKind::Resource)) {
                let number = u32::try_from(resources.len()).unwrap_or(u32::MAX);
                resources.insert(*ty, number);
            }
        }
    }
    let mut reader = Reader { resolve: &resolve, resources, nodes: 0 };
    let mut interfaces = Vec::with_capacity(declared.len());
    for id in &declared {
        let interface = resolve.interfaces.get(*id).ok_or("an interface is missing")?;
        let name = resolve.id_of(*id).ok_or("an interface has no name")?;
        let mut functions = Vec::with_capacity(interface.functions.len());
        for function in interface.functions.values() {
            let read = reader.function(function);
            functions.push(read.map_err(|reason| format!("the function `{}` of `{name}`: {reason}", function.name))?);
        }
        let own = interface.types.iter().filter_map(|(name, ty)| Some((name.clone(), *reader.resources.get(ty)?)));
        interfaces.push(Interface { name, functions, resources: own.collect() });
    }
    if interfaces.iter().all(|interface| interface.functions.is_empty()) {
        return Err("its WIT has no interface with functions".to_owned());
    }
    Ok((interfaces, u32::try_from(reader.resources.len()).unwrap_or(u32::MAX)))
}

struct Reader<'r> {
    resolve: &'r Resolve,
    /// The resources, with their numbers.
    resources: HashMap<TypeId, u32>,
    nodes: usize,
}

impl Reader<'_> {
    fn function(&mut self, function: &wit_parser::Function) -> Result<Function, String> {
        use FunctionKind::{AsyncFreestanding, AsyncMethod, AsyncStatic};
        if matches!(function.kind, AsyncFreestanding | AsyncMethod(_) | AsyncStatic(_)) {
            return Err("it is async; expected a synchronous one".to_owned());
        }
        let mut params = Vec::with_capacity(function.params.len());
        for param in &function.params {
            params.push((param.name.clone(), self.convert(&param.ty, 0)?));
        }
        let result = function.result.as_ref().map(|ty| self.convert(ty, 0)).transpose()?;
        Ok(Function { name: function.name.clone(), params, result })
    }

    fn convert(&mut self, ty: &WitType, depth: usize) -> Result<Type, String> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(format!(
                "its types are too complex; at most {MAX_NODES} types, {MAX_DEPTH} deep, are accepted"
            ));
        }
        Ok(match ty {
            WitType::Bool => Type::Bool,
            WitType::S8 => Type::S8,
            WitType::U8 => Type::U8,
            WitType::S16 => Type::S16,
            WitType::U16 => Type::U16,
            WitType::S32 => Type::S32,
            WitType::U32 => Type::U32,
            WitType::S64 => Type::S64,
            WitType::U64 => Type::U64,
            WitType::F32 => Type::F32,
            WitType::F64 => Type::F64,
            WitType::Char => Type::Char,
            WitType::String => Type::String,
            WitType::Id(id) => return self.convert_named(*id, depth + 1),
            WitType::ErrorContext => return Err(unsupported("an error-context")),
        })
    }

    fn convert_named(&mut self, id: TypeId, depth: usize) -> Result<Type, String> {
        let resolve = self.resolve;
        let kind = &resolve.types.get(id).ok_or("a type is missing")?.kind;
        let mut boxed = |ty: &WitType| self.convert(ty, depth).map(Box::new);
        Ok(match kind {
            TypeDefKind::Type(ty) => self.convert(ty, depth)?,
            TypeDefKind::List(item) => Type::List(boxed(item)?),
            TypeDefKind::Option(inner) => Type::Option(boxed(inner)?),
            TypeDefKind::Result(result) => Type::Result {
                ok: result.ok.as_ref().map(&mut boxed).transpose()?,
                err: result.err.as_ref().map(&mut boxed).transpose()?,
            },
            TypeDefKind::Tuple(tuple) => {
                Type::Tuple(tuple.types.iter().map(|ty| self.convert(ty, depth)).collect::<Result<_, _>>()?)
            }
            TypeDefKind::Record(record) => {
                let mut fields = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    fields.push((field.name.clone(), self.convert(&field.ty, depth)?));
                }
                Type::Record(fields)
            }
            TypeDefKind::Variant(variant) => {
                let mut cases = Vec::with_capacity(variant.cases.len());
                for case in &variant.cases {
                    let payload = case.ty.as_ref().map(|ty| self.convert(ty, depth)).transpose()?;
                    cases.push((case.name.clone(), payload));
                }
                Type::Variant(cases)
            }
            TypeDefKind::Enum(cases) => Type::Enum(cases.cases.iter().map(|case| case.name.clone()).collect()),
            TypeDefKind::Flags(flags) => Type::Flags(flags.flags.iter().map(|flag| flag.name.clone()).collect()),
            TypeDefKind::Handle(Handle::Own(resource)) => Type::Own(self.resource(*resource)?),
            TypeDefKind::Handle(Handle::Borrow(resource)) => Type::Borrow(self.resource(*resource)?),
            other => return Err(unsupported(other.as_str())),
        })
    }

    /// Returns the number of a resource, which may be named in another interface with `use`.
    fn resource(&self, id: TypeId) -> Result<u32, String> {
        let mut at = id;
        while let Some(TypeDefKind::Type(WitType::Id(next))) = self.resolve.types.get(at).map(|ty| &ty.kind) {
            at = *next;
        }
        self.resources.get(&at).copied().ok_or_else(|| "it names a resource of another package".to_owned())
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} is not supported")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_functions_methods_and_shared_types() {
        let wit = "package acme:db@0.1.0;
            interface types { record row { id: u32, title: option<string> } resource cursor { next: func() -> option<row>; } }
            interface query { use types.{row, cursor}; open: func(sql: string) -> result<cursor, string>; put: func(row: row, blob: list<u8>); }";
        let (interfaces, resources) = read(wit).unwrap();
        assert_eq!(resources, 1);
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        assert_eq!(names, ["acme:db/types@0.1.0", "acme:db/query@0.1.0"]);
        let functions = |at: usize| interfaces[at].functions.iter().map(|function| function.name.as_str());
        assert_eq!(functions(0).collect::<Vec<_>>(), ["[method]cursor.next"]);
        assert_eq!(interfaces[0].functions[0].params, [("self".to_owned(), Type::Borrow(0))]);
        assert_eq!(interfaces[0].resources, [("cursor".to_owned(), 0)]);
        let open = &interfaces[1].functions[0];
        assert_eq!(
            open.result,
            Some(Type::Result { ok: Some(Box::new(Type::Own(0))), err: Some(Box::new(Type::String)) })
        );
        assert_eq!(interfaces[1].functions[1].params[1].1, Type::List(Box::new(Type::U8)));
        assert!(interfaces[1].resources.is_empty());
    }

    #[test]
    fn rejects_what_capabilities_cannot_have() {
        let check = |wit: &str, says: &str| {
            let error = read(wit).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        check("package a:b; interface c { d: async func(); }", "async");
        check("package a:b; interface c { d: func() -> stream<u8>; }", "stream is not supported");
        check("package a:b; interface c { type t = u8; }", "no interface with functions");
        check("package a:b; interface c { d: fun(); }", "capability.wit");
    }
}
