//! A tool that was granted nothing can do nothing: every use of WASI refuses, and nothing of the host shows.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use fumehood::{Call, CallResult, Grant, Host, Load};
use fumehood_tests::component;

async fn run(program: &str, tool: &str) -> CallResult {
    let host = Host::builder().concurrency(4).build().unwrap();
    host.load(Load::bytes("it", component(program).unwrap())).await.unwrap();
    host.call(Call::new(format!("it__{tool}"), "{}")).await
}

#[tokio::test]
async fn there_is_no_environment_no_argument_and_no_folder() {
    for tool in ["environment", "arguments", "folders"] {
        assert_eq!(run("look-around", tool).await.text(), Some("0"), "{tool}");
    }
    assert_eq!(run("look-around", "input").await.text(), Some(r#""closed""#), "standard input is empty");
}

#[tokio::test]
async fn sockets_are_refused() {
    // 1 is `access-denied` in the error codes of WASI.
    assert_eq!(run("reach-out", "tcp").await.text(), Some("1"));
    assert_eq!(run("reach-out", "udp").await.text(), Some("1"));
}

#[tokio::test]
async fn clocks_tick_in_milliseconds() {
    let result = run("look-around", "clock-step").await;
    let step: u64 = result.text().unwrap().parse().unwrap();
    assert!(step >= 1_000_000 && step.is_multiple_of(1_000_000), "{step} ns");
}

#[tokio::test]
async fn agent_state_is_shown_only_where_it_was_granted() {
    let host = Host::builder().concurrency(4).build().unwrap();
    let bytes = fumehood_tests::contract("tell-context").unwrap();
    host.load(Load::bytes("denied", bytes.clone())).await.unwrap();
    host.load(Load::bytes("granted", bytes).with_grant(Grant::none().with_state())).await.unwrap();
    let call = |tool: &str| {
        let mut call = Call::new(format!("{tool}__state"), "{}").with_id("call-x").with_actor("ann");
        call.state = Some(r#"{"step":1}"#.into());
        host.call(call)
    };
    assert_eq!(call("denied").await.text(), Some("none"));
    assert_eq!(call("granted").await.text(), Some(r#"{"step":1}"#));
}
