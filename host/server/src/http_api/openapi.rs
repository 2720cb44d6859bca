//! The OpenAPI 3.1 document: the API from its routes, and each tool as an operation of its own.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use axum::extract::State;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::{NameForm, Tool, ToolProvider};
use serde_json::{Map, Value, json};
use tokio_util::bytes::Bytes;

use crate::http_api::response::{self, Response};
use crate::http_api::routes;
use crate::http_api::state::{ApiOptions, ApiState, Caller, Document};

/// Returns the document of a tenant. It is made once for each change of its tools.
pub(crate) async fn get(State(shared): State<Arc<ApiState>>, caller: Caller) -> Response {
    // The revision is read first: a change in between costs one more document, and never leaves an old one in place.
    let revision = caller.tools.changes().revision();
    let documents = || shared.documents.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cached) = documents().get(&caller.tenant.name)
        && cached.revision == revision
        && Arc::ptr_eq(&cached.tenant, &caller.tenant)
    {
        return response::json_text(cached.text.clone());
    }
    // Without the lock, for which other tenants would wait.
    let text = Bytes::from(document(caller.tools.as_ref(), &shared.options).to_string());
    let tenant = Arc::clone(&caller.tenant);
    let cached = text.clone();
    documents().insert(Arc::clone(&tenant.name), Document { tenant, revision, text: cached });
    response::json_text(text)
}

/// Creates the document of these tools.
fn document(tools: &dyn ToolProvider, options: &ApiOptions) -> Value {
    let mut document = serde_json::to_value(routes::documented().into_openapi()).unwrap_or_default();
    let head = json!({
        "openapi": "3.1.0",
        "info": {
            "title": printable(&options.name),
            "version": printable(&options.version),
            "description": "Tools in a sandbox. Every call runs in a fresh instance, with limits and only granted \
                            powers.",
        },
        "security": [{ "bearer": [] }, {}],
    });
    extend(&mut document, "", head);
    let schemes = json!({ "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } } });
    extend(&mut document, "/components", schemes);
    let sessions: &[&str] = if options.sessions.is_none() { &["/v1/sessions", "/v1/approvals"] } else { &[] };
    let jobs: &[&str] = if options.jobs.is_none() { &["/v1/jobs"] } else { &[] };
    if let Some(Value::Object(paths)) = document.pointer_mut("/paths") {
        paths.retain(|path, _| !sessions.iter().chain(jobs).any(|without| path.starts_with(without)));
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut operations = HashSet::new();
    for tool in tools.tools().iter().filter(|tool| tool.is_approved()) {
        let operation = operation_id(tool, &mut operations);
        add_tool(tool, operation, &mut paths, &mut schemas, options.jobs.is_some());
    }
    extend(&mut document, "/paths", paths.into());
    extend(&mut document, "/components/schemas", schemas.into());
    add_problems(&mut document);
    document
}

/// Adds members to the object at a JSON pointer (RFC 6901) of the document.
fn extend(document: &mut Value, pointer: &str, members: Value) {
    if let (Some(Value::Object(object)), Value::Object(members)) = (document.pointer_mut(pointer), members) {
        object.extend(members);
    }
}

/// Returns the id of a tool's operation, which no other one has: an identifier in most languages.
fn operation_id(tool: &Tool, taken: &mut HashSet<String>) -> String {
    let mut id = format!("call_{}", NameForm::Portable.alias(tool.full_name()).replace('-', "_"));
    while !taken.insert(id.clone()) {
        id.push('_');
    }
    id
}

/// Adds the operation of a tool, and the schemas that it refers to. `has_jobs` is true if its calls may become jobs.
fn add_tool(tool: &Tool, id: String, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>, has_jobs: bool) {
    let name = tool.full_name();
    let definition = tool.definition();
    // Keys of components are letters, digits, `.`, `-` and `_`.
    let portable = NameForm::Portable.alias(name);
    let arguments = add_schema(schemas, format!("{portable}.arguments"), &definition.input_schema.to_sanitized());
    let value = definition.output_schema.as_ref();
    let value = value.map(|schema| add_schema(schemas, format!("{portable}.value"), &schema.to_sanitized()));
    let record = match value {
        Some(value) => json!({ "allOf": [reference("ResultRecord"), { "properties": { "value": value } }] }),
        None => reference("ResultRecord"),
    };
    let title = definition.title.as_ref().map_or_else(|| name.into(), |title| title.to_sanitized());
    let mut operation = json!({
        "operationId": id,
        "tags": [tool.namespace().map_or("tools", |namespace| namespace.as_str())],
        "summary": title,
        "description": definition.description.to_sanitized(),
        "parameters": [{
            "name": "Idempotency-Key", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "A key under which the call is run once",
        }],
        "requestBody": { "required": true, "content": { "application/json": { "schema": arguments } } },
        "responses": { "200": {
            "description": "The result of the tool",
            "content": { "application/json": { "schema": record }, "text/event-stream": { "schema": { "type": "string" } } },
        } },
    });
    if has_jobs {
        let accepted = json!({
            "description": "The call is a job at `Location`",
            "content": { "application/json": { "schema": reference("JobDetail") } },
        });
        extend(&mut operation, "/responses", json!({ "202": accepted }));
        let prefer = json!({
            "name": "Prefer", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "`respond-async` requests a job at once, `respond-async, wait=N` after N seconds",
        });
        if let Some(Value::Array(parameters)) = operation.pointer_mut("/parameters") {
            parameters.push(prefer);
        }
    }
    paths.insert(format!("/v1/tools/{}/calls", name.replace('/', "%2F")), json!({ "post": operation }));
}

/// Adds a schema, and returns the reference to it.
fn add_schema(schemas: &mut Map<String, Value>, key: String, schema: &Value) -> Value {
    let reference = reference(&key);
    schemas.insert(key.clone(), embed(schema, &key));
    reference
}

fn reference(key: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{key}") })
}

/// Adds the problem details to every operation: any of them may be rejected.
fn add_problems(document: &mut Value) {
    let problem = json!({
        "description": "Problem details (RFC 9457)",
        "content": { "application/problem+json": { "schema": reference("Problem") } },
    });
    let paths = document.pointer_mut("/paths").and_then(Value::as_object_mut);
    let operations = paths.into_iter().flat_map(|paths| paths.values_mut());
    for operation in operations.filter_map(Value::as_object_mut).flat_map(|path| path.values_mut()) {
        extend(operation, "/responses", json!({ "default": problem }));
    }
}

/// Keywords whose value is data, not a schema: what looks like a reference in there is none.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose value has a schema for each name, so that its own members are no keywords.
const BY_NAME: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Returns a schema as a part of the document: its references, which begin at its own root, begin at `key`.
fn embed(schema: &Value, key: &str) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let embedded = members.iter().filter(|(name, _)| !matches!(name.as_str(), "$id" | "$schema"));
    let embedded = embedded.map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) => match target.strip_prefix('#') {
                Some(pointer) => json!(format!("#/components/schemas/{key}{pointer}")),
                None => value.clone(),
            },
            (name, _) if DATA.contains(&name) => value.clone(),
            (name, Value::Object(named)) if BY_NAME.contains(&name) => {
                named.iter().map(|(name, schema)| (name.clone(), embed(schema, key))).collect::<Map<_, _>>().into()
            }
            (_, Value::Array(items)) => items.iter().map(|item| embed(item, key)).collect::<Vec<_>>().into(),
            _ => embed(value, key),
        };
        (name.clone(), value)
    });
    Value::Object(embedded.collect())
}

#[cfg(test)]
mod tests {
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition, ToolDefinition};
    use fumehood_core::tool::name::{Namespace, ToolName};

    use super::*;

    #[test]
    fn references_begin_at_the_embedded_schema() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "$ref": { "$ref": "#/$defs/a" }, "enum": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } },
            "required": ["$ref"],
            "default": { "$ref": "#/$defs/a" },
            "$defs": { "a": { "const": { "$ref": "#" } }, "$id": { "items": { "$ref": "#/$defs/a" } } },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "$ref": { "$ref": "#/components/schemas/x__y.arguments/$defs/a" },
                "enum": { "anyOf": [{ "$ref": "#/components/schemas/x__y.arguments" }, { "type": "null" }] },
            },
            "required": ["$ref"],
            "default": { "$ref": "#/$defs/a" },
            "$defs": {
                "a": { "const": { "$ref": "#" } },
                "$id": { "items": { "$ref": "#/components/schemas/x__y.arguments/$defs/a" } },
            },
        });
        assert_eq!(embed(&schema, "x__y.arguments"), expected);
    }

    fn tool_of_server(name: &str) -> Tool {
        let definition =
            RawDefinition { name: "t".to_owned(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let definition = definition.parse(&DefinitionLimits::default()).unwrap();
        let definition = ToolDefinition { name: ToolName::parse(name).unwrap(), ..definition };
        let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
        Tool::new(definition, gate).in_namespace(&Namespace::parse("m").unwrap())
    }

    #[test]
    fn names_of_servers_tools_are_keys_and_paths() {
        let mut paths = Map::new();
        let mut schemas = Map::new();
        let mut ids = HashSet::new();
        for name in ["a.b/c", "x-y_z", "x_y-z"] {
            let tool = tool_of_server(name);
            add_tool(&tool, operation_id(&tool, &mut ids), &mut paths, &mut schemas, false);
        }
        let keys: Vec<_> = schemas.keys().map(String::as_str).collect();
        assert_eq!(keys[1..], ["m__x-y_z.arguments", "m__x_y-z.arguments"]);
        assert!(keys[0].starts_with("m__a_b_c_") && !keys[0].contains('/'), "{keys:?}");
        assert_eq!(paths["/v1/tools/m__a.b%2Fc/calls"]["post"]["tags"], json!(["m"]));
        assert_eq!((paths.len(), ids.len()), (3, 3));
        assert!(ids.contains("call_m__x_y_z") && ids.contains("call_m__x_y_z_"), "{ids:?}");
    }
}
