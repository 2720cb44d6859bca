//! The client of rmcp against the server.

use std::sync::Arc;

use fumehood::mcp::{Server, ServerOptions};
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ClientConfig};
use serde_json::json;

use super::raw::host;

#[tokio::test]
async fn rmcp_lists_and_calls() {
    let host = host(&["calculator", "text"], &[]).await;
    let server = Server::new(Arc::new(host.clone()), ServerOptions { page: 3, ..ServerOptions::default() });
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(theirs);
    let served = tokio::spawn(async move { server.serve_streams(input, output, std::future::pending::<()>()).await });
    let client = ClientConfig::default().serve(ours).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), host.tools().len());
    let arguments = json!({"a": 3, "b": 5}).as_object().cloned().unwrap();
    let result =
        client.call_tool(CallToolRequestParams::new("calculator__add").with_arguments(arguments)).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"result": 8})));
    client.cancel().await.unwrap();
    served.await.unwrap().unwrap();
}
