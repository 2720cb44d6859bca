//! Tools of components that do not implement our contract: every plain typed function that they export.

mod docs;
mod exports;
mod hook;
mod reflect;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;

use fumehood_core::schema::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::schema::typed::{Ty, TypeDocs, TypedFunction};
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::{Annotations, DefinitionError, DefinitionLimits, ToolDefinition, check_set};
use fumehood_core::tool::name::ToolName;
use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentExtern, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Val};

use exports::{Export, MAX_EXPORTS};

pub(crate) use docs::{COMPLETE_SECTION as COMPLETE_DOCS_SECTION, PackageDocs, SECTION as DOCS_SECTION};
pub use exports::Skipped;
pub use hook::HOOK_FUNCTIONS;
pub(crate) use hook::{HOOK_INTERFACE, find_hook};
pub(crate) use reflect::DeferredResult;
use value::Shape;
pub use value::convert_typed;
pub(crate) use value::{JsonReader, JsonWriter, ValueError};

/// Maximum number of named types of one instance that are looked up in the documentation.
const MAX_NAMED_TYPES: usize = 64;

/// The tools of a component's exports.
#[derive(Debug)]
pub(crate) struct TypedTools {
    /// The tools; at least one.
    pub(crate) tools: Vec<TypedTool>,
    /// The exports that are not tools, each with the reason.
    pub(crate) skipped: Vec<Skipped>,
}

/// An exported function as a tool.
#[derive(Debug)]
pub(crate) struct TypedTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) function: TypedFunction,
    pub(crate) export_index: ComponentExportIndex,
    /// The factor by which its results may cost more than the engine counts for them.
    pub(crate) lift_factor: usize,
    /// The stream or future in its result, if it has one.
    pub(crate) deferred: Option<DeferredResult>,
    params: Vec<(String, Shape)>,
    result: Option<Shape>,
}

/// The outcome of a call. Values other than strings are not yet written as JSON.
#[derive(Debug)]
pub(crate) enum TypedOutcome<'v> {
    /// Success without a value.
    Nothing,
    /// A returned `string`.
    Text(&'v str),
    /// A returned value of any other type.
    Value(&'v Val, &'v Shape),
    /// The error of a returned `result` that is a `string`, or the lack of a reason.
    Failed(&'v str),
    /// The error of a returned `result` of any other type.
    FailedValue(&'v Val, &'v Shape),
}

/// Errors of [`discover`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum TypedError {
    /// No function that can be called.
    #[error(
        "the component exports no function that can be a tool{}; export a function, or implement `fumehood:tool`",
        format_skipped(.0)
    )]
    NoTools(Vec<Skipped>),
    /// More exports than [`MAX_EXPORTS`].
    #[error("the component exports more than {MAX_EXPORTS} functions; export fewer")]
    TooManyExports,
    /// Two exports with the same tool name.
    #[error("the exports `{0}` and `{1}` would both be the tool `{2}`; rename one, or export only one")]
    SameName(String, String, ToolName),
    /// Definitions that are not accepted together.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

fn format_skipped(skipped: &[Skipped]) -> String {
    const MAX_LISTED: usize = 8;
    let mut text = String::new();
    for (at, Skipped { export, why }) in skipped.iter().take(MAX_LISTED).enumerate() {
        text.push_str(&format!("{} `{export}` is ignored: {why}", if at == 0 { ":" } else { ";" }));
    }
    if skipped.len() > MAX_LISTED {
        text.push_str(&format!("; and {} more", skipped.len() - MAX_LISTED));
    }
    text
}

/// Converts a component's exported functions to tools. A function that cannot be a tool is skipped, with the reason.
///
/// # Errors
/// If no tool is left, two tools have the same name, or there are too many.
pub(crate) fn discover(
    component: &Component,
    package: &PackageDocs,
    engine: &Engine,
    limits: &DefinitionLimits,
) -> Result<TypedTools, TypedError> {
    let ty = component.component_type();
    let exports::Exports { functions, mut skipped } =
        exports::collect(&ty, engine).ok_or(TypedError::TooManyExports)?;
    let mut known: Option<(Option<String>, TypeDocs)> = None;
    let mut tools = Vec::new();
    let found = functions.len();
    for export in functions {
        // Every schema is compiled, so a component with too many functions is not read to its end.
        if tools.len() >= limits.tools {
            return Err(DefinitionError::TooManyTools { found, limit: limits.tools }.into());
        }
        // The functions of one instance are adjacent, so its types are read once.
        let types = match known.take() {
            Some((instance, types)) if instance == export.instance => types,
            _ => type_docs(&ty, export.instance.as_deref(), package, engine),
        };
        let reader = Reader { component, package, types: &types, limits };
        match reader.tool(&export) {
            Ok(tool) => tools.push(tool),
            Err(why) => skipped.push(Skipped::new(&export.path(), &why)),
        }
        known = Some((export.instance, types));
    }
    if tools.is_empty() {
        return Err(TypedError::NoTools(skipped));
    }
    check_names(&tools)?;
    check_set(tools.iter().map(|tool| &tool.definition.name), limits)?;
    Ok(TypedTools { tools, skipped })
}

fn export_name(tool: &TypedTool) -> String {
    tool.definition.export.clone().unwrap_or_default().to_sanitized().into_owned()
}

/// Checks that no two tools have the same name. Unlike [`check_set`], the error names the exports, which the author of
/// the component can change.
fn check_names(tools: &[TypedTool]) -> Result<(), TypedError> {
    let mut seen = HashMap::new();
    for tool in tools {
        let name = &tool.definition.name;
        if let Some(first) = seen.insert(name.folded(), tool) {
            return Err(TypedError::SameName(export_name(first), export_name(tool), name.clone()));
        }
    }
    Ok(())
}

/// Collects the documentation of the named types that an instance, or the component itself, exports.
fn type_docs(component: &types::Component, instance: Option<&str>, package: &PackageDocs, engine: &Engine) -> TypeDocs {
    let mut known = TypeDocs::new();
    let mut add = |(name, item): (&str, ComponentExtern<'_>)| {
        if let (ComponentItem::Type(ty), Some(doc)) = (item.ty, package.named_type(instance, name))
            && let Some(ty) = reflect::convert_named_type(&ty)
        {
            known.add(ty, doc);
        }
    };
    let is_type = |(_, item): &(&str, ComponentExtern<'_>)| matches!(item.ty, ComponentItem::Type(_));
    match instance {
        // A world's own types are among what it imports.
        None => component
            .exports(engine)
            .chain(component.imports(engine))
            .filter(is_type)
            .take(MAX_NAMED_TYPES)
            .for_each(&mut add),
        Some(instance) => {
            if let Some(ComponentItem::ComponentInstance(instance)) =
                component.get_export(engine, instance).map(|item| item.ty)
            {
                instance.exports(engine).filter(is_type).take(MAX_NAMED_TYPES).for_each(&mut add);
            }
        }
    }
    known
}

/// Converts the exports of one component to tools.
struct Reader<'a> {
    component: &'a Component,
    package: &'a PackageDocs,
    types: &'a TypeDocs,
    limits: &'a DefinitionLimits,
}

impl Reader<'_> {
    /// Converts an export to a tool.
    ///
    /// # Errors
    /// If it cannot be a tool; the text is the reason.
    fn tool(&self, export: &Export) -> Result<TypedTool, String> {
        let name = ToolName::for_component(&export.tool_name()).map_err(|error| error.to_string())?;
        let (function, deferred) = reflect::convert_function(&export.ty).map_err(|error| error.to_string())?;
        let (input_schema, output_schema) = self.schemas(&function)?;
        let definition = ToolDefinition {
            name,
            export: Some(export.path().into()),
            title: None,
            description: self.description(export, &function).into(),
            input_schema: input_schema.into(),
            output_schema: output_schema.map(Untrusted::new),
            annotations: Annotations::default(),
            mcp_members: None,
        };
        let instance = export.instance.as_ref().map(|instance| self.component.get_export_index(None, instance));
        let export_index = match instance {
            None => self.component.get_export_index(None, &export.name),
            Some(None) => None,
            Some(Some(instance)) => self.component.get_export_index(Some(&instance), &export.name),
        };
        Ok(TypedTool {
            definition,
            export_index: export_index.ok_or("it cannot be found by its name")?,
            lift_factor: function.result.as_ref().map_or(1, value::lift_factor),
            deferred,
            params: Shape::of_fields(&function.params),
            result: function.result.as_ref().map(Shape::from),
            function,
        })
    }

    /// Generates the schemas of arguments and result, with the documentation of the types unless that makes them too
    /// large.
    fn schemas(&self, function: &TypedFunction) -> Result<(Value, Option<Value>), String> {
        self.schemas_with_docs(function, self.types).or_else(|_| self.schemas_with_docs(function, &TypeDocs::new()))
    }

    fn schemas_with_docs(&self, function: &TypedFunction, types: &TypeDocs) -> Result<(Value, Option<Value>), String> {
        let input = function.input_schema(types);
        self.check_size(&input)?;
        // The caller compiles the schemas again. Compiling them here lets one function with an unacceptable schema be
        // skipped without losing the other tools of its component.
        Gate::for_arguments(&input, GateLimits::default()).map_err(|error| schema_error("arguments", &error))?;
        let output = function.output_schema(types);
        if let Some(output) = &output {
            self.check_size(output)?;
            Gate::for_results(output, GateLimits::default()).map_err(|error| schema_error("result", &error))?;
        }
        Ok((input, output))
    }

    fn check_size(&self, schema: &Value) -> Result<(), String> {
        let found = schema.to_string().len();
        let limit = self.limits.schema_bytes;
        if found > limit {
            return Err(format!("its schema has {found} bytes; the maximum is {limit}; use smaller types"));
        }
        Ok(())
    }

    fn description(&self, export: &Export, function: &TypedFunction) -> String {
        let text = match self.package.function(export.instance.as_deref(), &export.name) {
            Some(docs) => docs.to_owned(),
            None => match &export.instance {
                Some(instance) => format!("Calls `{}{function}` of `{instance}`.", export.name),
                None => format!("Calls `{}{function}`.", export.name),
            },
        };
        docs::truncate(&text, self.limits.description_bytes)
    }
}

fn schema_error(what: &str, error: &SchemaError) -> String {
    format!("the schema of its {what} is not supported; use flatter or smaller types: {error}")
}

impl TypedTool {
    /// Converts the arguments of a call to values, in the order of the parameters.
    ///
    /// # Errors
    /// If they do not fit the parameters, or the deadline of the reader passes. Arguments that match the input schema always
    /// fit.
    pub(crate) fn arguments(&self, arguments: &Value, reader: &mut JsonReader) -> Result<Vec<Val>, ValueError> {
        Ok(reader.record(arguments, &self.params)?.into_iter().map(|(_, value)| value).collect())
    }

    /// Returns the outcome of a call with these results.
    ///
    /// # Errors
    /// If they are not of the function's type, which the engine prevents.
    pub(crate) fn outcome<'v>(&'v self, results: &'v [Val]) -> Result<TypedOutcome<'v>, ValueError> {
        match (&self.result, results) {
            (None, []) => Ok(TypedOutcome::Nothing),
            (Some(Shape::Result { ok, .. }), [Val::Result(Ok(value))]) => ok_outcome(ok.as_deref(), value.as_deref()),
            (Some(Shape::Result { err, .. }), [Val::Result(Err(value))]) => {
                err_outcome(err.as_deref(), value.as_deref())
            }
            (Some(shape), [value]) => ok_outcome(Some(shape), Some(value)),
            _ => Err(ValueError::Answer(format!("{} values were returned", results.len()))),
        }
    }
}

fn ok_outcome<'v>(shape: Option<&'v Shape>, value: Option<&'v Val>) -> Result<TypedOutcome<'v>, ValueError> {
    match (shape, value) {
        (None, None) => Ok(TypedOutcome::Nothing),
        (Some(Shape::Scalar(Ty::String)), Some(Val::String(text))) => Ok(TypedOutcome::Text(text)),
        (Some(shape), Some(value)) => Ok(TypedOutcome::Value(value, shape)),
        _ => Err(ValueError::Answer("the `ok` of a result has the wrong type".to_owned())),
    }
}

fn err_outcome<'v>(shape: Option<&'v Shape>, value: Option<&'v Val>) -> Result<TypedOutcome<'v>, ValueError> {
    const NO_REASON: &str = "the tool failed without a reason";
    match (shape, value) {
        (Some(Shape::Scalar(Ty::String)), Some(Val::String(text))) if !text.trim().is_empty() => {
            Ok(TypedOutcome::Failed(text))
        }
        (None, None) | (Some(Shape::Scalar(Ty::String)), Some(Val::String(_))) => Ok(TypedOutcome::Failed(NO_REASON)),
        (Some(shape), Some(value)) => Ok(TypedOutcome::FailedValue(value, shape)),
        _ => Err(ValueError::Answer("the `err` of a result has the wrong type".to_owned())),
    }
}
