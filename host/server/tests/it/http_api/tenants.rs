//! Tenants: what exists for each, their limits, and changes while the server runs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::{Call, CancellationToken};
use fumehood_core::tool::ToolProvider;
use fumehood_server::{Access, HttpOptions, Tenant, TenantLimits, TenantTools, ToolFilter, UsageLedger};

use super::api_server::{Answer, ApiServer, OTHER, PATIENCE, TOKEN, Tools, tenant};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Serves the tools to a tenant with these limits, and to another one without.
async fn limited(limits: TenantLimits) -> ApiServer {
    let access = Access::Tenants(vec![tenant("one", TOKEN).limits(limits), tenant("other", OTHER)]);
    ApiServer::with(|options| HttpOptions { access, ..options }).await
}

/// Asserts that a request was refused with a time to wait.
#[track_caller]
fn check_wait(answer: &Answer, status: u16) -> u64 {
    let problem = answer.check_problem(status);
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    let millis = problem["retry_after_ms"].as_u64().unwrap();
    assert!(seconds >= 1 && Duration::from_millis(millis) <= Duration::from_secs(seconds), "{answer:?}");
    seconds
}

#[tokio::test]
async fn other_tools_do_not_exist_for_a_tenant() {
    let filter = ToolFilter::new("test__e*", |tool| tool.starts_with("test__e"));
    let access = Access::Tenants(vec![tenant("one", TOKEN).tools(filter), tenant("other", OTHER)]);
    let served = ApiServer::with(|options| HttpOptions { access, ..options }).await;
    let listed = served.get("/v1/tools").await.json();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tools"][0]["name"], "test__echo");
    let document = served.get("/openapi.json").await.body;
    assert!(document.contains("test__echo") && !document.contains("test__hidden"));
    served.get("/v1/tools/test__hidden").await.check_problem(404);
    let refused = served.call("hidden", &[], "{}").await;
    assert_eq!(refused.check_problem(404)["kind"], "unknown_tool");
    assert!(!refused.body.contains("test__wait"), "{refused:?}");
    assert_eq!(served.call("echo", &[], r#"{"a": 1}"#).await.status, 200);
    let others = bearer(OTHER);
    assert_eq!(served.call("hidden", &[("Authorization", &others)], "{}").await.status, 200);
    let document = served.send("GET", "/openapi.json", &[("Authorization", &others)], "").await.body;
    assert!(document.contains("test__hidden"));
    served.end().await;
}

#[tokio::test]
async fn the_rate_of_requests_is_limited() {
    let served = limited(TenantLimits { requests_per_minute: NonZeroU32::new(3), ..TenantLimits::default() }).await;
    for _ in 0..3 {
        assert_eq!(served.get("/v1/tools").await.status, 200);
    }
    // Another one is free after 20 s.
    let waits = check_wait(&served.call("echo", &[], r#"{"a": 1}"#).await, 429);
    assert!(waits <= 20, "{waits}");
    let others = served.send("GET", "/v1/tools", &[("Authorization", &bearer(OTHER))], "").await;
    assert_eq!(others.status, 200);
    served.end().await;
}

#[tokio::test]
async fn concurrent_requests_are_limited() {
    let limits = TenantLimits { concurrent_requests: NonZeroU32::new(1), ..TenantLimits::default() };
    let access = Access::Tenants(vec![tenant("one", TOKEN), tenant("other", OTHER).limits(limits)]);
    let served = ApiServer::with(|options| HttpOptions { access, ..options }).await;
    let others = bearer(OTHER);
    let mut sender = served.connect().await;
    let request = served.request("POST", "/v1/tools/test__wait/calls", &[("Authorization", &others)], "{}");
    let waiting = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
    served.tools.started(1).await;
    check_wait(&served.send("GET", "/v1/tools", &[("Authorization", &others)], "").await, 429);
    assert_eq!(served.get("/v1/tools").await.status, 200);
    waiting.abort();
    served.end().await;
}

#[tokio::test]
async fn budgets_refuse_calls_and_free_their_keys() {
    let key = [("Idempotency-Key", "k")];
    let calls = limited(TenantLimits { calls_per_day: Some(1), ..TenantLimits::default() }).await;
    assert_eq!(calls.call("echo", &[], r#"{"a": 1}"#).await.status, 200);
    for _ in 0..2 {
        let refused = calls.call("echo", &key, r#"{"a": 1}"#).await;
        assert_eq!(refused.check_problem(429)["kind"], "quota");
        assert!(check_wait(&refused, 429) <= 24 * 60 * 60);
        assert_eq!(refused.header("idempotent-replayed"), "", "it was not run");
    }
    assert_eq!(calls.get("/v1/tools").await.status, 200, "only calls are counted");
    calls.end().await;
    // Every call uses 7.
    let fuel = limited(TenantLimits { fuel_per_minute: Some(8), ..TenantLimits::default() }).await;
    for _ in 0..2 {
        assert_eq!(fuel.call("echo", &[], r#"{"a": 1}"#).await.status, 200);
    }
    let waits = check_wait(&fuel.call("echo", &[], r#"{"a": 1}"#).await, 429);
    assert!((30..=60).contains(&waits), "{waits}");
    fuel.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_its_fuel() {
    let usage = UsageLedger::default();
    let limits = TenantLimits { fuel_per_day: Some(100), ..TenantLimits::default() };
    let access = Access::Tenants(vec![tenant("one", TOKEN).limits(limits)]);
    let change = |options| HttpOptions { access, ..options };
    let ledger = usage.clone();
    let served = ApiServer::with_tools(change, |tools| tools.usage(ledger)).await;
    let mut sender = served.connect().await;
    let request = served.request("POST", "/v1/tools/test__wait/calls", &[], "{}");
    let waiting = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
    served.tools.started(1).await;
    waiting.abort();
    served.tools.stopped(1).await;
    let charged = async {
        while usage.today("one").fuel == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, charged).await.expect("it was not charged");
    assert_eq!(usage.today("one").fuel, 7);
    served.end().await;
}

#[tokio::test]
async fn a_full_server_refuses_calls() {
    let served = ApiServer::with_tools(|options| options, |tools| tools.places(1, 0)).await;
    let (waiting, id) = served.start_waiting(1).await;
    let refused = served.call("echo", &[], r#"{"a": 1}"#).await;
    assert_eq!(refused.check_problem(503)["kind"], "unavailable");
    assert_eq!(check_wait(&refused, 503), 1);
    assert_eq!(served.send("DELETE", &format!("/v1/calls/{id}"), &[], "").await.status, 202);
    waiting.await.unwrap();
    assert_eq!(served.call("echo", &[], r#"{"a": 1}"#).await.status, 200);
    served.end().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_can_be_cancelled() {
    let served = ApiServer::with_tools(|options| options, |tools| tools.places(1, 8)).await;
    let (running, first) = served.start_waiting(1).await;
    let mut sender = served.connect().await;
    let request = served.request("POST", "/v1/tools/test__echo/calls", &[], r#"{"a": 1}"#);
    let waiting = tokio::spawn(async move { sender.send_request(request).await.unwrap().status().as_u16() });
    let listed = async {
        loop {
            let calls = served.get("/v1/calls").await.json();
            if let Some(second) = calls["calls"].as_array().unwrap().iter().find(|call| call["tool"] == "test__echo") {
                return second["id"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let second = tokio::time::timeout(PATIENCE, listed).await.unwrap();
    assert_eq!(served.send("DELETE", &format!("/v1/calls/{second}"), &[], "").await.status, 202);
    assert_eq!(waiting.await.unwrap(), 503);
    assert_eq!(served.send("DELETE", &format!("/v1/calls/{first}"), &[], "").await.status, 202);
    running.await.unwrap().check_problem(503);
    served.end().await;
}

#[tokio::test]
async fn tenants_are_replaced_while_calls_run() {
    let served = ApiServer::new().await;
    let (running, id) = served.start_waiting(1).await;
    let none = ToolFilter::new("", |_| false);
    served.tenants.replace(vec![tenant("one", "a-new-token-of-the-test").tools(none)]).unwrap();
    served.get("/v1/tools").await.check_problem(401);
    let renewed = bearer("a-new-token-of-the-test");
    let headers = [("Authorization", renewed.as_str())];
    assert_eq!(served.send("GET", "/v1/tools", &headers, "").await.json()["tools"].as_array().unwrap().len(), 0);
    // Its calls are those of the tenant of this name.
    assert_eq!(served.send("DELETE", &format!("/v1/calls/{id}"), &headers, "").await.status, 202);
    running.await.unwrap().check_problem(503);
    served.end().await;
}

#[tokio::test]
async fn calls_of_a_program_run_in_its_place() {
    let tools = Arc::new(Tools::default());
    let shared = TenantTools::new(Arc::clone(&tools) as Arc<dyn ToolProvider>).places(1, 0);
    let own = shared.of(&Arc::new(Tenant::anyone("one")));
    let stop = CancellationToken::new();
    let program = tokio::spawn({
        let call = Call::new("test__wait", "{}").cancelled_by(stop.clone());
        let own = Arc::clone(&own);
        async move { own.dispatch(call).await }
    });
    tools.started(1).await;
    let mut call = Call::new("test__echo", r#"{"a": 1}"#);
    assert_eq!(own.dispatch(call.clone()).await.error().unwrap().kind, ErrorKind::Unavailable);
    call.context.program = Some(Arc::default());
    assert!(own.dispatch(call).await.is_ok());
    stop.cancel();
    assert!(!program.await.unwrap().is_ok());
}
