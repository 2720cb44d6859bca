//! Flows of data of clients without sessions: those of a tenant are judged together, and apart from those of all others.

use fumehood::Stack;
use fumehood::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood::listener::TenantTools;
use serde_json::json;

use super::test_server::{Face, OTHER, TOKEN, TestServer, bearer, tokens};
use crate::mcp::raw::host;

#[tokio::test]
async fn tenants_without_sessions_have_separate_histories() {
    for face in Face::ALL {
        let host = host(&["calculator"], &[]).await;
        let policy = FlowPolicy::new()
            .label_tool("calculator__add", FlowLabels::default().source(FlowLabel::Private))
            .label_tool("calculator__divide", FlowLabels::default().sink(FlowLabel::Public));
        let tools = TenantTools::new(Stack::new().flows(Some(policy)).around([host]));
        let mut served = TestServer::both(face, tools, tokens()).await;
        let arguments = json!({"a": 6, "b": 3});
        let call = async |served: &TestServer, token: &str, tool: &str| {
            let headers = [("Authorization", bearer(token))];
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            let (status, answer) = served.send(&served.call(&headers, tool, &arguments)).await;
            assert!(matches!(status, 200 | 403), "{face:?}: {answer}");
            answer
        };
        let is_refused = |answer: &str| answer.contains("needs_approval");
        assert!(!is_refused(&call(&served, TOKEN, "calculator__add").await));
        let other = call(&served, OTHER, "calculator__divide").await;
        assert!(!is_refused(&other) && !other.contains("calculator__add"), "{face:?}: {other}");
        assert!(is_refused(&call(&served, TOKEN, "calculator__divide").await), "{face:?}");
        // The other protocol is no way around it.
        served.face = if face == Face::Mcp { Face::Http } else { Face::Mcp };
        assert!(is_refused(&call(&served, TOKEN, "calculator__divide").await), "{face:?}");
        assert!(!is_refused(&call(&served, OTHER, "calculator__divide").await), "{face:?}");
        served.end().await;
    }
}
