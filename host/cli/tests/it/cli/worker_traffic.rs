//! Messages of guests through their worker: honest traffic never ends it, and costs the same in both modes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, CallResult, Grant, Host, Isolation, Load};

use super::isolation::{host, process, runtime, workers};

/// Starts a server that answers everything with `ok` and closes. It ends with the test.
fn answering_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut buffer = [0; 4096];
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(read @ 1..) => head.extend_from_slice(&buffer[..read]),
                    _ => break,
                }
            }
            let _client_left = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    port
}

#[test]
fn log_lines_before_a_request_do_not_end_the_worker() {
    let port = answering_server();
    runtime().block_on(async {
        let host = host();
        let rules = vec![format!("GET http://127.0.0.1:{port}/**").parse().unwrap()];
        let grant = HttpGrant::new(rules, vec!["127.0.0.1/32".parse().unwrap()], HttpLimits::default()).unwrap();
        let bytes = fumehood_tests::component("fetch").unwrap();
        let fetch = host.load(Load::bytes("fetch", bytes).grant(Grant::none().with_http(grant))).await.unwrap();
        let worker = process(&fetch);
        for lines in [0, 1, 2, 40] {
            let arguments = serde_json::json!({
                "authority": format!("127.0.0.1:{port}"), "path": "/working-on-it", "lines": lines, "count": 5,
            });
            let result = host.call(Call::new("fetch__log-and-ask", arguments)).await;
            assert_eq!(result.text().as_deref(), Some("5"), "{lines} lines before each: {result:?}");
        }
        assert_eq!(process(&fetch), worker, "it is the same worker");
    });
}

/// Calls a tool of the contract in this process and in a worker.
async fn in_both_modes(host: &Host, program: &str, tool: &str) -> [CallResult; 2] {
    let bytes = fumehood_tests::contract(program).unwrap();
    let mut results = Vec::new();
    for (name, isolation) in [("here", Isolation::InProcess), ("apart", Isolation::Process)] {
        host.load(Load::bytes(name, bytes.clone()).isolation(isolation)).await.unwrap();
        results.push(host.call(Call::new(format!("{name}__{tool}"), "{}")).await);
    }
    results.try_into().unwrap()
}

#[test]
fn log_lines_that_grow_when_they_are_shown_do_not_end_the_worker() {
    runtime().block_on(async {
        let host = Host::builder().workers(workers()).build().unwrap();
        let mut events = host.subscribe();
        let [here, apart] = in_both_modes(&host, "flood-escapes", "flood").await;
        assert!(here.is_ok() && apart.is_ok(), "{here:?} {apart:?}");
        assert_eq!(here.metadata.log_dropped, apart.metadata.log_dropped, "both modes count the same");
        assert!(here.metadata.log_dropped > 200_000, "{}", here.metadata.log_dropped);
        let limit = fumehood::Limits::default().log;
        let mut shown = [0, 0];
        let mut ended = 0;
        while ended < 2 {
            let Some(fumehood::Observed::Event(event)) = events.next().await else { continue };
            match event {
                fumehood::Event::Log { message, .. } => shown[ended] += message.as_str().len(),
                fumehood::Event::Progress { progress, .. } => {
                    shown[ended] += progress.message.map_or(0, |message| message.as_str().len());
                }
                fumehood::Event::Finished { .. } => ended += 1,
                _ => {}
            }
        }
        assert_eq!(shown[0], shown[1]);
        assert!(shown[0] > limit / 2 && shown[0] <= limit, "{shown:?} bytes were shown of {limit}");
    });
}
