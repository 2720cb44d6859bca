//! Requests of tools: they never go to a proxy of the environment, and they are in the log.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use super::granted::serve;
use super::workbench::Workbench;

const NAMES: [&str; 8] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "CGI_HTTP_PROXY", "FTP_PROXY"];

fn fetch_past_proxy(bench: &Workbench, proxy: SocketAddr, url: &str) -> String {
    let arguments = serde_json::json!({"url": url}).to_string();
    let rule = format!("GET {url}");
    let call = ["call", "--json", "fetch.wasm", "get", &arguments, "--allow-http", &rule, "--allow-private"];
    let mut command = bench.command(&[&call[..], &["127.0.0.1/32"]].concat());
    for name in NAMES {
        command.env(name, format!("http://{proxy}"));
    }
    // Without exceptions, so that every request would go to the proxy.
    command.env("NO_PROXY", "").env("no_proxy", "");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn requests_of_tools_never_go_to_a_proxy_of_the_environment() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let proxy = canary.local_addr().unwrap();
    let plain = serve(|_| ("text/plain", "reached directly".to_owned()));
    let encrypted = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = encrypted.local_addr().unwrap().port();
    let (tell, reached) = std::sync::mpsc::channel();
    // It closes the connection at once. Without one, the thread ends with the process of the test.
    std::thread::spawn(move || tell.send(encrypted.accept().is_ok()));
    let bench = Workbench::new();
    bench.example("fetch");
    let page = fetch_past_proxy(&bench, proxy, &format!("http://127.0.0.1:{plain}/page"));
    assert!(page.contains("reached directly"), "{page}");
    // The server does not speak TLS, but the connection shows where the request went.
    let failed = fetch_past_proxy(&bench, proxy, &format!("https://127.0.0.1:{port}/page"));
    assert!(failed.contains("\"status\":\"error\""), "{failed}");
    assert_eq!(reached.recv_timeout(Duration::from_secs(60)), Ok(true));
    assert_eq!(canary.accept().map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock, "the proxy was asked");
}

fn fetch_call(url: &str) -> String {
    format!(r#"{{"calls": [{{"name": "fetch__get", "arguments": {{"url": "{url}"}}}}]}}"#)
}

#[test]
fn requests_of_a_session_are_in_its_log() {
    let port = serve(|_| ("text/plain", "hello".to_owned()));
    let bench = Workbench::new();
    bench.example("fetch");
    bench.put(
        "fumehood.toml",
        format!(
            "[tools.fetch]\ncomponent = \"fetch.wasm\"\napproval = \"off\"\n\
             http = [\"GET http://127.0.0.1:{port}/**\"]\nprivate_addresses = [\"127.0.0.1/32\"]\n"
        ),
    );
    let [allowed, refused] = ["/page?q=private", ":1/page"].map(|rest| match rest.strip_prefix(':') {
        Some(other) => fetch_call(&format!("http://127.0.0.1:{other}")),
        None => fetch_call(&format!("http://127.0.0.1:{port}{rest}")),
    });
    bench.put("script.jsonl", format!("{allowed}\n{refused}\n{{\"text\": \"Done.\"}}\n"));
    let ran = bench.run(&["run", "Fetch it.", "--script", "script.jsonl", "--log", "events.db"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let exported = bench.run(&["log", "export", "--log", "events.db"]).stdout;
    let records = exported.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let finished: Vec<_> = records.filter(|record| record["kind"] == "tool_finished").collect();
    let [first, second] = &finished[..] else { panic!("{exported}") };
    let request = &first["body"]["requests"][0];
    let place = format!("127.0.0.1:{port}");
    assert_eq!((&request["method"], &request["host"], &request["status"]), (&"GET".into(), &place.into(), &200.into()));
    assert!(request["bytes_in"].as_u64().is_some_and(|bytes| bytes > 5), "{request}");
    assert!(!first["body"]["requests"].to_string().contains("private"), "neither path nor query: {first}");
    let request = &second["body"]["requests"][0];
    assert!(request["status"].is_null() && request["reason"].is_string(), "{second}");
}
