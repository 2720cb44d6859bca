//! Traces over a cell: from a client through gateway and worker to the host calls of a tool.

use fumehood_tests::otlp_collector::Collector;
use serde_json::json;

use super::client::ask;
use super::harness::Cell;

/// The span of the client.
const PARENT: &str = "b7ad6b7169203331";
/// The headers of each call, with the status of its answer.
const FACES: [(&str, u16); 2] = [("", 200), ("Prefer: respond-async\r\n", 202)];

#[test]
fn every_call_is_one_trace_from_client_to_host_calls() {
    let Some(mut cell) = Cell::start_with_jetstream() else { return };
    let collector = Collector::start().unwrap();
    cell.keys_of_all = "key_value = \"nats\"\njobs = true\n".to_owned();
    cell.sections = format!(
        "[jobs]\n[telemetry]\nendpoint = {:?}\n\
         [tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\nkey_value = \"64KiB\"\n",
        collector.endpoint()
    );
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    let note = json!({"title": "milk", "text": "buy some"}).to_string();
    for (number, (headers, status)) in FACES.into_iter().enumerate() {
        let trace = format!("{:032x}", number + 1);
        let headers = format!("{headers}traceparent: 00-{trace}-{PARENT}-01\r\n");
        let answer = ask(&gateway, "POST /v1/tools/notes__write/calls", &headers, &note);
        assert_eq!(answer.status, status, "{answer:?}");
        let path = collector.wait(|all| all.path(&trace, "host_call", PARENT)).unwrap();
        let expected =
            ["host_call", "execute_tool notes__write", "cell_call notes__write", "POST /v1/tools/{name}/calls"];
        assert_eq!(path, expected);
    }
}
