//! Resources of components: what `list` may return, and reads as calls.

use std::path::Path;
use std::time::Duration;

use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};
use serde_json::json;

/// Returns a component that lists this number of resources, after this code.
fn component(count: usize, code: &str) -> Vec<u8> {
    let text = include_str!("resources.wat").replace("COUNT)", &format!("{count})")).replace("    LIST\n", code);
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    fumehood_tests::wrap_as(&text, "tool-with-resources", &wit).unwrap()
}

fn host() -> Host {
    let limits = Limits::default().deadline(Duration::from_millis(300));
    Host::builder().concurrency(4).limits(limits).build().unwrap()
}

/// Reads a resource, as a request of a client does.
async fn read(host: &Host, uri: &str) -> CallResult {
    let mut call = Call::new("r__resources/read", json!({ "uri": uri }));
    call.context.is_library_request = true;
    host.call(call).await
}

#[tokio::test]
async fn a_resource_is_read_as_a_call_of_a_tool_that_is_not_listed() {
    let host = host();
    let loaded = host.load(Load::bytes("r", component(3, ""))).await.unwrap();
    let uris: Vec<&str> = loaded.resources().iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["test:text", "test:trap", "test:spin"]);
    let listed: Vec<_> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    assert_eq!(listed, ["r__echo"]);
    let whole = read(&host, "test:text").await;
    assert_eq!(whole.text().as_deref(), Some("test:text"), "{whole:?}");
    assert!(whole.metadata.fuel_used > 0);
    for (uri, expected) in
        [("test:trap", ErrorKind::Trap), ("test:spin", ErrorKind::Deadline), ("test:none", ErrorKind::InvalidArguments)]
    {
        let failed = read(&host, uri).await;
        assert_eq!(failed.error().map(|error| error.kind), Some(expected), "{uri}: {failed:?}");
        assert_eq!(failed.metadata.fuel_used == 0, expected == ErrorKind::InvalidArguments, "{uri}: {failed:?}");
    }
    let called = host.call(Call::new("r__resources/read", json!({"uri": "test:text"}))).await;
    let kind = called.error().map(|error| error.kind);
    assert_eq!(kind, Some(ErrorKind::UnknownTool), "it is for requests to read a resource alone: {called:?}");
    assert!(host.call(Call::new("r__echo", json!({"a": 1}))).await.is_ok());
}

#[tokio::test]
async fn a_component_with_an_odd_list_is_not_loaded() {
    let host = host();
    for (count, code, expected) in [
        (65, "", "lists 65 resources; at most 64 are accepted"),
        (4, "", "expected a scheme, a colon and visible ASCII"),
        (3, "    (i32.store8 (i32.const 1024) (i32.const 9))\n", "two resources with the URI `test:trap`"),
        (3, "    (i32.store (i32.const 1036) (i32.const 0))\n", "the name of the resource `test:text` is empty"),
        (3, "    unreachable\n", "could not list its resources"),
        (3, "    (loop $on (br $on))\n", "could not list its resources"),
    ] {
        let error = host.load(Load::bytes("r", component(count, code))).await.unwrap_err();
        let said = format!("{:#}", anyhow::Error::from(error));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(host.load(Load::bytes("r", component(0, ""))).await.is_ok());
    assert!(host.tool("r__resources/read").is_none(), "without resources there is nothing to read");
}
