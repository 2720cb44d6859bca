//! Resources and pages of components, as clients see them.

use std::sync::Arc;

use fumehood::mcp::{Entry, Library, ServerOptions, Source};
use fumehood::{Grant, Host, Load};
use serde_json::{Value, json};

use super::raw::Raw;

const PAGE: &str = "ui://chart/view";

fn load(name: &str) -> Load {
    let file = format!("{}/../example-tools/dist/chart.wasm", env!("CARGO_MANIFEST_DIR"));
    Load::path(file).named(name)
}

/// Returns a host with components that are the same, each with a grant.
async fn host(components: &[(&str, Grant)]) -> Host {
    let host = Host::builder().concurrency(4).build().unwrap();
    for (name, grant) in components {
        host.load(load(name).grant(grant.clone())).await.unwrap();
    }
    host
}

fn pages() -> Grant {
    Grant::none().with_pages(Vec::new()).unwrap()
}

/// Returns a client that shows pages.
async fn able(host: &Host, options: ServerOptions) -> Raw {
    let mut raw = Raw::connect(host, options);
    let declared = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    raw.initialize_with("2025-11-25", declared).await;
    raw
}

async fn tools(raw: &mut Raw) -> Vec<Value> {
    raw.request("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_page_reaches_clients_that_show_pages() {
    let host = host(&[("chart", pages())]).await;
    let mut raw = able(&host, ServerOptions::default()).await;
    let listed = raw.request("resources/list", json!({})).await["result"]["resources"].clone();
    let ui = json!({"prefersBorder": true});
    let expected = json!([{
        "uri": PAGE, "name": "view", "title": "Chart", "description": "Shows the chart that `draw` drew.",
        "mimeType": "text/html;profile=mcp-app", "_meta": {"ui": ui},
    }]);
    assert_eq!(listed, expected);
    let read = raw.request("resources/read", json!({"uri": PAGE})).await["result"]["contents"].clone();
    assert_eq!((&read[0]["uri"], &read[0]["mimeType"]), (&json!(PAGE), &json!("text/html;profile=mcp-app")));
    assert_eq!(read[0]["_meta"], json!({"ui": ui}));
    assert_eq!(read[0]["text"], include_str!("../../../../example-tools/chart/src/view.html"));
    let tools = tools(&mut raw).await;
    assert_eq!((tools.len(), &tools[0]["_meta"]), (1, &json!({"ui": {"resourceUri": PAGE}})));
    let drawn = raw.call("chart__draw", json!({"title": "t", "labels": ["a"], "values": [1]})).await;
    assert_eq!(drawn["structuredContent"]["values"], json!([1.0]), "{drawn}");
    assert_eq!(drawn["content"][0]["mimeType"], "image/svg+xml", "{drawn}");
    let called = raw.request("tools/call", json!({"name": "chart__resources/read", "arguments": {"uri": PAGE}})).await;
    assert_eq!(called["error"]["code"], -32602, "{called}");
    raw.leave().await;
}

#[tokio::test]
async fn without_the_operator_or_the_client_there_is_no_page() {
    let allowed = host(&[("chart", pages())]).await;
    let mut unable = Raw::open(&allowed).await;
    let listed = unable.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]), "{listed}");
    assert_eq!(unable.request("resources/read", json!({"uri": PAGE})).await["error"]["code"], -32002);
    assert_eq!(tools(&mut unable).await[0].get("_meta"), None);
    unable.leave().await;
    let forbidden = host(&[("chart", Grant::none())]).await;
    let mut able = able(&forbidden, ServerOptions::default()).await;
    let listed = able.request("resources/list", json!({})).await;
    assert_eq!(listed["error"]["code"], -32601, "there are no other resources: {listed}");
    assert_eq!(tools(&mut able).await[0].get("_meta"), None);
    able.leave().await;
}

#[tokio::test]
async fn a_page_is_shown_for_the_tools_of_its_own_component_only() {
    let host = host(&[("a", pages()), ("b", pages())]).await;
    let mut raw = able(&host, ServerOptions::default()).await;
    let shown = tools(&mut raw).await;
    assert_eq!(shown[0]["_meta"], json!({"ui": {"resourceUri": PAGE}}), "the first by name has the URI");
    assert_eq!(shown[1].get("_meta"), None, "and the other's results are not handed to it");
    raw.leave().await;
    let mut library = Library::default();
    let [name, mime_type] = ["own", "text/plain"].map(str::to_owned);
    let source = Source::text("own");
    library.add_entry(Entry { uri: PAGE.to_owned(), name, title: None, description: None, mime_type, source }).unwrap();
    let options = ServerOptions { library: Arc::new(library), ..ServerOptions::default() };
    let mut raw = able(&host, options).await;
    let read = raw.request("resources/read", json!({"uri": PAGE})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "own", "the operator's comes first");
    assert!(tools(&mut raw).await.iter().all(|tool| tool.get("_meta").is_none()));
    raw.leave().await;
}

#[tokio::test]
async fn clients_are_told_when_components_have_other_resources() {
    let host = host(&[("chart", pages())]).await;
    let mut raw = able(&host, ServerOptions::default()).await;
    host.reload(load("chart").grant(Grant::none())).await.unwrap();
    let method = "notifications/resources/list_changed";
    while !raw.news.iter().any(|message| message["method"] == method) {
        let message = raw.next().await;
        raw.news.push(message);
    }
    raw.leave().await;
}

#[tokio::test]
async fn resources_wait_for_the_approval_of_their_component() {
    let host = Host::builder().concurrency(4).build().unwrap();
    host.load(load("chart").grant(pages()).approval(None)).await.unwrap();
    let mut raw = able(&host, ServerOptions::default()).await;
    let listed = raw.request("resources/list", json!({})).await;
    assert_eq!(listed["error"]["code"], -32601, "{listed}");
    raw.leave().await;
}
