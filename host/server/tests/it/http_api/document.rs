//! The OpenAPI document: each tool is an operation with its own schema, and a public validator accepts it.

use std::process::Command;
use std::sync::Arc;

use expect_test::expect_file;
use fumehood_server::Jobs;
use fumehood_server::http_api::ApiOptions;
use fumehood_tests::skip::skip;
use serde_json::{Value, json};

use super::api_server::ApiServer;
use super::sessions::Agents;

/// Serves the API with everything that the document describes.
async fn served() -> ApiServer {
    let api = ApiOptions { jobs: Some(Jobs::default()), ..ApiOptions::default() };
    ApiServer::with_api(|options| options, |tools| tools, api).await
}

/// Returns all references in a value.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_tool_is_an_operation_whose_references_resolve() {
    let served = served().await;
    let document = served.get("/openapi.json").await.json();
    served.end().await;
    assert_eq!(document["openapi"], "3.1.0");
    let operation = &document["paths"]["/v1/tools/test__echo/calls"]["post"];
    assert_eq!(operation["operationId"], "call_test__echo");
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/test__echo.arguments");
    let arguments = &document["components"]["schemas"]["test__echo.arguments"];
    assert_eq!(arguments["required"], json!(["a"]));
    assert_eq!(arguments["properties"]["a"]["$ref"], "#/components/schemas/test__echo.arguments/$defs/number");
    assert_eq!(document["paths"].get("/v1/tools/test__pending/calls"), None);
    assert!(operation["description"].as_str().unwrap().contains("\\u{202e}"), "{operation}");
    for path in [
        "/v1/tools",
        "/v1/tools/{name}",
        "/v1/tools/{name}/calls",
        "/v1/calls",
        "/v1/calls/{id}",
        "/v1/jobs",
        "/v1/jobs/{id}",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    for operation in [operation, &document["paths"]["/v1/tools/{name}/calls"]["post"]] {
        let schema = &operation["responses"]["202"]["content"]["application/json"]["schema"];
        assert_eq!(schema["$ref"], "#/components/schemas/JobDetail", "{operation}");
    }
    for method in ["get", "delete"] {
        let choice = &document["paths"]["/v1/calls/{id}"][method]["responses"]["300"]["content"]["application/json"];
        assert_eq!(choice["schema"]["$ref"], "#/components/schemas/CallChoice", "{method}");
    }
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for reference in found {
        let target = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(target).is_some(), "{reference} does not resolve");
    }
}

#[tokio::test]
async fn the_document_is_as_recorded() {
    let options = ApiOptions { name: "test".to_owned(), version: "1.0.0".to_owned(), ..ApiOptions::default() };
    let api = ApiOptions { jobs: Some(Jobs::default()), sessions: Some(Arc::new(Agents)), ..options };
    let served = ApiServer::with_api(|options| options, |tools| tools, api).await;
    let document = served.get("/openapi.json").await.json();
    served.end().await;
    expect_file!["openapi.json"].assert_eq(&format!("{document:#}\n"));
}

#[tokio::test]
async fn a_public_validator_accepts_the_document() {
    let python = std::env::var_os("FUMEHOOD_OPENAPI_VALIDATOR");
    let Some(python) = python.filter(|python| std::path::Path::new(python).exists()) else {
        return skip("openapi", "FUMEHOOD_OPENAPI_VALIDATOR names no Python with openapi-spec-validator");
    };
    let served = served().await;
    let document = served.get("/openapi.json").await;
    served.end().await;
    let folder = tempfile::tempdir().unwrap();
    let validate = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = Command::new(&python).args(["-m", "openapi_spec_validator"]).arg(&path).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    let (is_valid, output) = validate("openapi.json", &document.body);
    assert!(is_valid, "{output}");
    let mut broken = document.json();
    broken["paths"]["/v1/tools"]["get"].as_object_mut().unwrap().remove("responses");
    broken["paths"]["/v1/tools"]["get"]["parameters"] = json!([{ "in": "nowhere" }]);
    assert!(!validate("broken.json", &broken.to_string()).0, "the validator accepts anything");
}
