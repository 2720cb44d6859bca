//! Servers that are too old for what JetStream is for: each node says so at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use fumehood_cell::{
    BucketError, CellError, CellJobs, CellTools, ComponentStore, JobQueueOptions, NodeKey, NodeOptions, ServerOptions,
};

use super::bus::gateway_options;
use super::nats::{PATIENCE, old_server};
use super::test_tools::TestTool;

fn server(version: &str) -> ServerOptions {
    ServerOptions {
        nats: old_server(version),
        prefix: "test".to_owned(),
        name: "g".to_owned(),
        password: None,
        tls_roots: None,
        tls_identity: None,
    }
}

#[tokio::test]
async fn buckets_need_a_newer_server() {
    let refused = ComponentStore::new(server("2.10.26")).open().await.unwrap_err();
    assert!(matches!(refused, BucketError::Version(_)), "{refused:?}");
    assert_eq!(refused.to_string(), "the NATS server has version 2.10.26; buckets need 2.11 or later");
}

#[tokio::test]
async fn jobs_need_a_newer_server() {
    let key = Arc::new(NodeKey::generate().unwrap().0);
    let node = NodeOptions { server: server("2.9.10"), key, peers: BTreeMap::new() };
    let tools = CellTools::join(node, TestTool::echo(false, false), gateway_options()).await.unwrap();
    let gateways = BTreeMap::new();
    let workers = BTreeMap::new();
    let options = JobQueueOptions { gateways, workers, max_queued: 1, keep: PATIENCE };
    let refused = CellJobs::open(&tools, options).await.map(drop).unwrap_err();
    assert!(matches!(refused, CellError::JetStream(_)), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("NATS 2.10 or later") && said.ends_with("the server has version 2.9.10"), "{said}");
}
