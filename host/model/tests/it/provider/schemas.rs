//! Schemas of tools in the subset that each provider documents, and the arguments of calls in the form of the original.

use fumehood_core::chat::{Message, Request, ToolIntent, ToolSpec};
use serde_json::{Value, json};

use super::server::Server;
use super::{SERVICES, ask, config, provider, question, stream};

/// Schemas that providers refuse, of servers in use.
fn schemas() -> Vec<Value> {
    let text = json!({"type": "string"});
    vec![
        json!({"type": "object", "anyOf": [{"properties": {"a": text}, "required": ["a"]}, {"properties": {"b": text}}]}),
        json!({"type": "object", "properties": {"a": text}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"type": "object", "allOf": [{"properties": {"a": text}, "required": ["a"]}, {"properties": {"b": text}}]}),
        json!({"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"a": text}}}}),
        json!({"type": "object"}),
        json!({}),
        json!({"type": "object", "properties": null, "required": null}),
        json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["integer", "string"]}}}),
        json!({"type": "object", "properties": {"$top": text, "filter[name]": text, "größe": text, "a b": text}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)", "format": "uri"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": [text, text]}, "b": {"const": 1}}}),
        json!({"type": "array", "items": {"type": "string"}}),
    ]
}

/// Returns the schemas in a request of a provider.
fn sent_schemas(service: &str, body: &Value) -> Vec<Value> {
    let (list, schema) = match service {
        "anthropic" => ("/tools", "/input_schema"),
        "gemini" => ("/tools/0/functionDeclarations", "/parametersJsonSchema"),
        _ => ("/tools", "/function/parameters"),
    };
    let tools = body.pointer(list).and_then(Value::as_array).unwrap_or_else(|| panic!("{service}: {body}"));
    tools.iter().map(|tool| tool.pointer(schema).cloned().unwrap_or_default()).collect()
}

/// Returns the keywords and property names of a schema.
fn keywords(schema: &Value, keywords_found: &mut Vec<String>, names: &mut Vec<String>) {
    let Some(map) = schema.as_object() else { return };
    for (keyword, value) in map {
        keywords_found.push(keyword.clone());
        if keyword == "type" {
            assert!(value.is_string(), "{schema}");
        }
        if keyword == "properties" {
            names.extend(value.as_object().unwrap().keys().cloned());
            value.as_object().unwrap().values().for_each(|schema| keywords(schema, keywords_found, names));
        } else if let Some(alternatives) = value.as_array().filter(|_| keyword == "anyOf") {
            alternatives.iter().for_each(|schema| keywords(schema, keywords_found, names));
        } else if keyword == "items" {
            keywords(value, keywords_found, names);
        }
    }
}

#[tokio::test]
async fn each_provider_is_sent_the_subset_that_it_documents() {
    let services = SERVICES.into_iter().chain([("compatible", "sse")]);
    for (service, kind) in services {
        let tools = schemas().into_iter().enumerate().map(|(index, parameters)| ToolSpec {
            name: format!("t{index}"),
            alias: None,
            description: "Does it.".to_owned(),
            parameters,
        });
        let request = Request { tools: tools.collect(), ..question() };
        let answers = if service == "compatible" { "openai" } else { service };
        let server = Server::start(vec![stream(&format!("{answers}/text.{kind}"))]).await;
        ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let body = server.requests().remove(0).body;
        let sent = sent_schemas(service, &body);
        assert_eq!(sent.len(), request.tools.len(), "{service}");
        let mut names = Vec::new();
        for schema in &sent {
            let mut found = Vec::new();
            keywords(schema, &mut found, &mut names);
            assert_eq!(schema["type"], "object", "{service}: {schema}");
            assert!(schema["properties"].is_object() && schema.get("anyOf").is_none(), "{service}: {schema}");
            let banned = ["$ref", "$defs", "allOf", "oneOf", "const", "pattern", "prefixItems", "not", "nullable"];
            assert!(!found.iter().any(|keyword| banned.contains(&keyword.as_str())), "{service}: {schema}");
        }
        let is_plain = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_renamed = matches!(service, "anthropic" | "gemini");
        assert_eq!(names.iter().all(is_plain), is_renamed, "{service}: {names:?}");
        let text = body.to_string();
        assert!(text.contains("requires a, or b"), "{service}: rules of the root are in the description: {text}");
        assert!(text.contains("pattern ^(?!x)"), "{service}: {text}");
    }
}

#[tokio::test]
async fn arguments_have_the_names_and_the_form_of_the_original() {
    for (service, kind) in SERVICES {
        let mut request = question();
        // The recorded calls have the argument `a`, which is the alias of `$a`.
        request.tools[0].parameters = json!({"type": "object", "properties": {"$a": {"type": "integer"}}});
        let arguments = r#"{"$a":3}"#.to_owned();
        let call = ToolIntent { id: "c1".to_owned(), name: "calculator__add".to_owned(), arguments };
        let asks = Message { tool_calls: vec![call], ..Message::assistant("") };
        request.messages.extend([asks, Message::tool("c1", "8")]);
        let server = Server::start(vec![stream(&format!("{service}/calls.{kind}"))]).await;
        let answer = ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let first = &answer.reply.calls()[0];
        let text = server.requests().remove(0).body.to_string();
        let has_alias = matches!(service, "anthropic" | "gemini");
        assert_eq!(first.arguments.starts_with(r#"{"$a":"#), has_alias, "{service}: {first:?}");
        assert_eq!(text.contains(r#"{"a":3}"#), has_alias, "{service}: earlier calls have the alias as well: {text}");
    }
}

#[tokio::test]
async fn wrapped_arguments_are_unwrapped() {
    for (service, kind) in SERVICES {
        let mut request = question();
        request.tools[0].parameters = json!({"type": "array", "items": {"type": "integer"}});
        let calls = String::from_utf8(super::fixture(&format!("{service}/calls.{kind}"))).unwrap();
        let headers = "content-type: text/event-stream\r\n";
        let calls = calls.replace(r#"{\"a\":3,"#, r#"{\"value\":[3,"#).replace(r#"\"b\":5}"#, "5]}");
        let calls = calls.replace(r#"{"a":3,"b":5}"#, r#"{"value":[3,5]}"#);
        let server = Server::start(vec![super::reply(200, headers, calls)]).await;
        let answer = ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let first = &answer.reply.calls()[0];
        assert_eq!(first.arguments, "[3,5]", "{service}: {first:?}");
    }
}
