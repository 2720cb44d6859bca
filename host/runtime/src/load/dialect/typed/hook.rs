//! Components of the world `fumehood:hooks/hooks`: their functions, called with the typed calling convention.

use fumehood_core::schema::typed::{Ty, TypedFunction};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::docs::PackageDocs;
use super::exports::Exports;
use super::{DefinitionLimits, Reader, TypedTool, type_docs};

/// The interface that a hook exports, without its version.
pub(crate) const HOOK_INTERFACE: &str = "fumehood:hooks/hook";

/// The functions of a hook, in the order of its definitions.
pub const HOOK_FUNCTIONS: [&str; 3] = ["authorize", "before", "after"];

/// Finds the functions of a hook, in the order of [`HOOK_FUNCTIONS`].
///
/// # Errors
/// If one of them is missing, or its type is not that of `wit/hooks`; the text is the reason.
pub(crate) fn find_hook(
    component: &Component,
    version: &str,
    package: &PackageDocs,
    engine: &Engine,
    limits: &DefinitionLimits,
) -> Result<Vec<TypedTool>, String> {
    let instance = format!("{HOOK_INTERFACE}@{version}");
    let ty = component.component_type();
    let exports = Exports::of_instance(&instance, &ty, engine);
    let exports = exports.ok_or_else(|| format!("the component exports `{instance}`, but not as an interface"))?;
    let types = type_docs(&ty, Some(&instance), package, engine);
    let reader = Reader { component, package, types: &types, limits };
    let expected = HOOK_FUNCTIONS.into_iter().zip(signatures());
    let read = expected.map(|(name, expected)| {
        let export = exports.functions.iter().find(|export| export.name == name);
        let export = export.ok_or_else(|| format!("the hook does not export the function `{name}` of `{instance}`"))?;
        let tool = reader.tool(export).map_err(|why| format!("unsupported function `{name}` of the hook: {why}"))?;
        if tool.function == expected {
            Ok(tool)
        } else {
            Err(format!(
                "the function `{name}` of the hook does not have the type in `{instance}`; build it with the WIT of \
                 this version"
            ))
        }
    });
    read.collect()
}

/// Returns the signatures of [`HOOK_FUNCTIONS`], as in `wit/hooks`.
fn signatures() -> [TypedFunction; 3] {
    let authorization = variant(&[("allow", None), ("deny", Some(Ty::String))]);
    let reasons =
        [("allow", None), ("modify", Some(Ty::String)), ("deny", Some(Ty::String)), ("ask", Some(Ty::String))];
    let after = [("keep", None), ("replace", Some(outcome_type())), ("reject", Some(Ty::String))];
    [
        TypedFunction { params: vec![call_param()], result: Some(authorization) },
        TypedFunction { params: vec![call_param()], result: Some(variant(&reasons)) },
        TypedFunction {
            params: vec![call_param(), ("outcome".to_owned(), outcome_type())],
            result: Some(variant(&after)),
        },
    ]
}

fn call_param() -> (String, Ty) {
    ("call".to_owned(), call_type())
}

fn call_type() -> Ty {
    let annotations = ["read-only", "destructive", "idempotent", "open-world"].map(|name| (name, option(Ty::Bool)));
    record([
        ("id", Ty::String),
        ("tool", Ty::String),
        ("arguments", Ty::String),
        ("actor", option(Ty::String)),
        ("session", option(Ty::String)),
        ("client", option(Ty::String)),
        ("annotations", record(annotations)),
        ("time-ms", Ty::U64),
    ])
}

fn outcome_type() -> Ty {
    let blob = record([("mime-type", Ty::String), ("data", Ty::String)]);
    let link = record([("uri", Ty::String), ("title", option(Ty::String)), ("mime-type", option(Ty::String))]);
    let content =
        variant(&[("text", Some(Ty::String)), ("json", Some(Ty::String)), ("blob", Some(blob)), ("link", Some(link))]);
    let failure = record([("kind", Ty::String), ("message", Ty::String)]);
    Ty::Result { ok: Some(Box::new(Ty::List(Box::new(content)))), err: Some(Box::new(failure)) }
}

fn record<const N: usize>(fields: [(&str, Ty); N]) -> Ty {
    Ty::Record(fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect())
}

fn variant(cases: &[(&str, Option<Ty>)]) -> Ty {
    Ty::Variant(cases.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect())
}

fn option(ty: Ty) -> Ty {
    Ty::Option(Box::new(ty))
}
