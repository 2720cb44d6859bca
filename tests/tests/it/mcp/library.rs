//! Resources and prompts, as a client sees them.

use std::sync::Arc;

use fumehood::mcp::{Entry, Library, Parameter, Prompt, ServerOptions, Source};
use serde_json::{Value, json};

use super::raw::{Raw, host};

fn entry(name: &str, mime_type: &str, source: Source) -> Entry {
    Entry {
        uri: format!("test://{name}"),
        name: name.to_owned(),
        title: Some(format!("Title of {name}")),
        description: None,
        mime_type: mime_type.to_owned(),
        source,
    }
}

fn bytes(bytes: &'static [u8]) -> Source {
    Source::new(move || Box::pin(std::future::ready(Ok(bytes.to_vec()))))
}

fn options() -> ServerOptions {
    let mut library = Library::default();
    let broken = Source::new(|| Box::pin(std::future::ready(Err("it cannot be read now".to_owned()))));
    for entry in [
        entry("rules", "text/markdown", Source::text("# Rules\r\nBe kind\u{202e}.")),
        entry("picture", "image/png", bytes(b"text?")),
        entry("bytes", "text/plain", bytes(&[0xff, 0])),
        entry("broken", "text/plain", broken),
    ] {
        library.add_entry(entry).unwrap();
    }
    let parameter = |name: &str, required| Parameter { name: name.to_owned(), description: String::new(), required };
    let prompt = Prompt {
        name: "review".to_owned(),
        title: Some("Review".to_owned()),
        description: Some("Looks through a text.".to_owned()),
        parameters: vec![parameter("text", true), parameter("tone", false)],
        entries: vec!["test://rules".to_owned(), "test://picture".to_owned()],
        text: Source::text("Review{tone}: {text}"),
    };
    library.add_prompt(prompt.clone()).unwrap();
    library
        .add_prompt(Prompt { name: "plain".to_owned(), parameters: Vec::new(), entries: Vec::new(), ..prompt })
        .unwrap();
    ServerOptions { page: 3, library: Arc::new(library), ..ServerOptions::default() }
}

async fn connected() -> Raw {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::connect(&host, options());
    let said = raw.initialize("2025-11-25").await;
    let expected = json!({"logging": {}, "prompts": {}, "resources": {}, "tools": {"listChanged": true}});
    assert_eq!(said["capabilities"], expected);
    raw
}

#[tokio::test]
async fn entries_are_listed_in_pages_and_read() {
    let mut raw = connected().await;
    let first = raw.request("resources/list", json!({})).await["result"].clone();
    assert_eq!(names_of(&first), ["broken", "bytes", "picture"]);
    let picture = json!({
        "uri": "test://picture", "name": "picture", "title": "Title of picture", "mimeType": "image/png"
    });
    assert_eq!(first["resources"][2], picture);
    let second = raw.request("resources/list", json!({"cursor": first["nextCursor"]})).await["result"].clone();
    assert_eq!((names_of(&second), second.get("nextCursor")), (vec!["rules".to_owned()], None));
    assert_eq!(raw.request("resources/list", json!({"cursor": "3"})).await["error"]["code"], -32602);
    let templates = raw.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"], json!([]));
    for (uri, expected) in [
        ("test://rules", json!({"mimeType": "text/markdown", "text": "# Rules\nBe kind\\u{202e}."})),
        ("test://picture", json!({"mimeType": "image/png", "blob": "dGV4dD8="})),
        ("test://bytes", json!({"mimeType": "text/plain", "blob": "/wA="})),
    ] {
        let mut contents = raw.request("resources/read", json!({"uri": uri})).await["result"]["contents"].clone();
        assert_eq!(contents[0].as_object_mut().unwrap().remove("uri"), Some(json!(uri)));
        assert_eq!(contents, json!([expected]));
    }
    raw.leave().await;
}

fn names_of(page: &Value) -> Vec<String> {
    let listed = page["resources"].as_array().unwrap();
    listed.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
}

#[tokio::test]
async fn what_cannot_be_read_is_told_apart() {
    let mut raw = connected().await;
    let gone = raw.request("resources/read", json!({"uri": "file:///etc/passwd"})).await["error"].clone();
    assert_eq!((&gone["code"], &gone["data"]), (&json!(-32002), &json!({"uri": "file:///etc/passwd"})), "{gone}");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let host = host(&["calculator"], &[]).await;
    let mut stateless = Raw::connect(&host, options());
    let gone = stateless.request("resources/read", json!({"uri": "test://other", "_meta": meta})).await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    stateless.leave().await;
    let broken = raw.request("resources/read", json!({"uri": "test://broken"})).await["error"].clone();
    assert_eq!((&broken["code"], &broken["message"]), (&json!(-32603), &json!("it cannot be read now")));
    let misshapen = raw.request("resources/read", json!({"uri": 7})).await;
    assert_eq!(misshapen["error"]["code"], -32602, "{misshapen}");
    let subscribed = raw.request("resources/subscribe", json!({"uri": "test://rules"})).await;
    assert_eq!(subscribed["error"]["code"], -32601, "{subscribed}");
    raw.leave().await;
}

#[tokio::test]
async fn prompts_are_listed_and_filled() {
    let mut raw = connected().await;
    let listed = raw.request("prompts/list", json!({})).await["result"]["prompts"].clone();
    assert_eq!(listed[0]["name"], "plain");
    assert_eq!(listed[0].get("arguments"), None);
    let arguments = json!([
        {"name": "text", "description": "", "required": true}, {"name": "tone", "description": "", "required": false}
    ]);
    let review = json!({
        "name": "review", "title": "Review", "description": "Looks through a text.", "arguments": arguments
    });
    assert_eq!(listed[1], review);
    let filled = json!({"name": "review", "arguments": {"text": "{tone} é", "tone": " gently"}});
    let filled = raw.request("prompts/get", filled).await["result"].clone();
    assert_eq!(filled["description"], "Looks through a text.");
    let content: Vec<&Value> = filled["messages"].as_array().unwrap().iter().map(|it| &it["content"]).collect();
    assert_eq!(content[0]["resource"]["text"], "# Rules\nBe kind\\u{202e}.");
    assert_eq!(content[0]["resource"]["uri"], "test://rules");
    assert_eq!(content[1], &json!({"type": "image", "data": "dGV4dD8=", "mimeType": "image/png"}));
    assert_eq!(content[2], &json!({"type": "text", "text": "Review gently: {tone} é"}));
    assert_eq!((content.len(), &filled["messages"][2]["role"]), (3, &json!("user")));
    let plain = raw.request("prompts/get", json!({"name": "plain"})).await;
    assert_eq!(plain["result"]["messages"][0]["content"]["text"], "Review{tone}: {text}");
    for (asked, says) in [
        (json!({"name": "other"}), "unknown prompt other"),
        (json!({"name": "review"}), "the argument `text` is missing; the prompt has: text, tone"),
        (json!({"name": "review", "arguments": {"text": 1}}), "the argument `text` is not a string"),
        (json!({"name": "review", "arguments": {"text": "", "x": ""}}), "unknown argument `x`"),
        (json!({"name": "review", "arguments": []}), "invalid parameters"),
    ] {
        let answer = raw.request("prompts/get", asked.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{asked}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(says), "{asked}: {answer}");
    }
    raw.leave().await;
}

#[tokio::test]
async fn one_kind_without_the_other_offers_only_itself() {
    let host = host(&["calculator"], &[]).await;
    let mut library = Library::default();
    library.add_entry(entry("rules", "text/plain", Source::text("x"))).unwrap();
    let options = ServerOptions { library: Arc::new(library), ..ServerOptions::default() };
    let mut raw = Raw::connect(&host, options);
    let said = raw.initialize("2025-11-25").await;
    assert_eq!((said["capabilities"].get("prompts"), &said["capabilities"]["resources"]), (None, &json!({})));
    assert_eq!(raw.request("prompts/list", json!({})).await["error"]["code"], -32601);
    assert_eq!(raw.request("prompts/get", json!({"name": "x"})).await["error"]["code"], -32601);
    raw.leave().await;
}
