//! Tools that keep keys and values, in a cell whose nodes share a store in JetStream.

use std::sync::Arc;

use fumehood::cell::{NatsStore, ServerOptions};
use fumehood_tests::key_value_suite::check_store;
use serde_json::json;

use super::client::{Answer, call};
use super::harness::{Cell, wait_until};

const NOTES: &str = "[tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\nkey_value = \"64KiB\"\n";

/// Starts a server with JetStream, for nodes that share a store.
fn start() -> Option<Cell> {
    let mut cell = Cell::start_with_jetstream()?;
    cell.keys_of_all = "key_value = \"nats\"\n".to_owned();
    cell.sections = NOTES.to_owned();
    Some(cell)
}

fn write(gateway: &str, title: &str, text: &str) -> Answer {
    call(gateway, "notes__write", &json!({ "title": title, "text": text }).to_string())
}

fn read(gateway: &str, title: &str) -> Answer {
    call(gateway, "notes__read", &json!({ "title": title }).to_string())
}

fn server_options(cell: &Cell, name: &str) -> ServerOptions {
    ServerOptions {
        nats: cell.url(),
        prefix: "suite".to_owned(),
        name: name.to_owned(),
        password: None,
        tls_roots: None,
        tls_identity: None,
    }
}

#[test]
fn store_in_jetstream_passes_the_suite() {
    let Some(cell) = Cell::start_with_jetstream() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let runtime = runtime.handle();
    let open = || {
        let _entered = runtime.enter();
        Ok(Arc::new(NatsStore::new(server_options(&cell, "node"))) as _)
    };
    check_store(&open).unwrap();
}

#[test]
fn tools_that_keep_values_run_at_every_worker() {
    let Some(mut cell) = start() else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    assert_eq!(write(&gateway, "one", "kept").kind(), "ok");
    cell.kill("w1");
    wait_until("the worker is gone", || read(&gateway, "one").kind() == "unavailable");
    cell.worker("w2", 2);
    wait_until("the other worker is known", || read(&gateway, "one").kind() == "ok");
    let answer = read(&gateway, "one");
    assert!(answer.body.to_string().contains("kept"), "{answer:?}");
    // What JetStream has outlives its server.
    cell.stop_nats();
    cell.start_nats();
    wait_until("the cell is joined again", || read(&gateway, "one").kind() == "ok");
    assert_eq!(write(&gateway, "one", "changed").kind(), "ok");
    assert!(read(&gateway, "one").body.to_string().contains("changed"));
}

#[test]
fn a_worker_with_a_store_of_its_own_gets_no_such_call() {
    let Some(mut cell) = start() else { return };
    let shared = std::mem::take(&mut cell.keys_of_all);
    cell.worker("w1", 2);
    cell.keys_of_all = shared;
    let gateway = cell.gateway("");
    let add = || call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#);
    wait_until("the worker is known", || add().kind() == "ok");
    let answer = write(&gateway, "one", "kept");
    assert_eq!(answer.kind(), "unavailable", "{answer:?}");
}

#[test]
fn a_tool_is_told_that_the_store_is_unavailable() {
    let Some(mut cell) = start() else { return };
    let gateway = cell.gateway("local = [\"notes\"]\n");
    assert_eq!(write(&gateway, "one", "kept").kind(), "ok");
    cell.stop_nats();
    let answer = write(&gateway, "one", "lost");
    assert_eq!(answer.kind(), "unavailable", "{answer:?}");
    assert!(answer.detail().contains("the store of this tool cannot be reached"), "{answer:?}");
    cell.start_nats();
    wait_until("the store is there again", || read(&gateway, "one").kind() == "ok");
    assert!(read(&gateway, "one").body.to_string().contains("kept"));
}

#[test]
fn a_node_whose_server_has_no_jetstream_does_not_start() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    assert_eq!(call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind(), "ok");
    cell.kill("g1");
    let config = std::fs::read_to_string(cell.path("g1.toml")).unwrap();
    std::fs::write(cell.path("g1.toml"), config.replacen("[cell]\n", "[cell]\nkey_value = \"nats\"\n", 1)).unwrap();
    let refused = cell.run_as_gateway(&["serve", "http", "--cell", "--no-auth", "--listen", "127.0.0.1:0"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("start it with `-js`"), "{refused:?}");
}
