//! Clients whose calls spin, and clients beside them.

use std::time::Instant;

use serde_json::json;

use super::test_server::{Face, OTHER, TOKEN, TestServer, bearer, tokens};
use crate::mcp::raw::{PATIENCE, host, running};

/// Number of calls of the honest client.
const CALLS: usize = 20;

#[tokio::test]
async fn spinning_requests_of_one_client_do_not_hold_up_another() {
    let host = host(&["calculator"], &["spin"]).await;
    let hostile = bearer(OTHER);
    let honest = bearer(TOKEN);
    let hostile = [("Authorization", hostile.as_str())];
    let honest = [("Authorization", honest.as_str())];
    for face in Face::ALL {
        let served = TestServer::new(face, &host, tokens()).await;
        for spinning in [2, 4, 8] {
            let mut open = Vec::new();
            for _ in 0..spinning {
                open.push(served.open(&served.call(&hostile, "spin__run", &json!({}))).await);
            }
            running(&host, spinning).await;
            let started = Instant::now();
            for _ in 0..CALLS {
                let request = served.call(&honest, "calculator__add", &json!({"a": 1, "b": 1}));
                let (status, answer) = served.send(&request).await;
                assert!(status == 200 && answer.contains(r#"{"result":2}"#), "{face:?}: {status}: {answer}");
            }
            assert!(started.elapsed() < PATIENCE / 4, "{face:?} {spinning}: {:?}", started.elapsed());
            drop(open);
            running(&host, 0).await;
        }
        served.end().await;
    }
}
