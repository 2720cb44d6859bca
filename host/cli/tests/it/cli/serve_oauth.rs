//! `serve` with access tokens of an authorization server, and the commands of logins.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::serve_http::Server;
use super::workbench::Workbench;

/// The public key of the tokens below, whose private half exists nowhere any more.
const PUBLIC_KEY: &str = "IUGcCq2SZgwipbAUi76WF0Yp2l75To_Hx7IrBDJ5Vek";
/// A token of the client `an-app` for https://tools.example.com, issued by http://127.0.0.1:1, valid until 2100.
const TOKEN: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6InRlc3QiLCJ0eXAiOiJhdCtqd3QifQ.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJhdWQiOiJodHRwczovL3Rvb2xzLmV4YW1wbGUuY29tIiwiZXhwIjo0MTAyNDQ0ODAwLCJjbGllbnRfaWQiOiJhbi1hcHAiLCJzY29wZSI6InRvb2xzIn0.rhR8JzDxYo8fDj5kxUuckxQ-EMeDhe2OFPrJthHtL69Yl-b0lZl8ouT0AUTnz3odHKZ2RL50jZiRGwYHtqWyBw";
/// The same for https://other.example.com.
const TOKEN_FOR_ANOTHER: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6InRlc3QiLCJ0eXAiOiJhdCtqd3QifQ.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJhdWQiOiJodHRwczovL290aGVyLmV4YW1wbGUuY29tIiwiZXhwIjo0MTAyNDQ0ODAwLCJjbGllbnRfaWQiOiJhbi1hcHAiLCJzY29wZSI6InRvb2xzIn0.LpM9bCwbjP6-0SQeIy32uIk4OqRl_kovMSnL1Xra6VTdq5uCoU76UNcgSso2CptfW0RF1T2mKppzqNafsDxwAg";

/// Publishes the key at an address of this machine until the test ends. Returns the address.
fn publish_key() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _request = stream.read(&mut [0; 4096]);
            let body =
                json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "test", "x": PUBLIC_KEY }] }).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}

fn configure(bench: &Workbench, jwks: &str, tenants: &str) {
    bench.put(
        "fumehood.toml",
        format!(
            "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n[log]\npath = \"log.db\"\n\
             [serve.oauth]\nissuer = \"http://127.0.0.1:1\"\nresource = \"https://tools.example.com\"\njwks = \"{jwks}\"\n\
             scopes = [\"tools\"]\n{tenants}"
        ),
    );
}

#[test]
fn access_tokens_call_tools_as_their_tenant() {
    let bench = Workbench::new();
    bench.example("calculator");
    let jwks = publish_key();
    configure(&bench, &jwks, "[tenants.app]\nclaims = [\"an-app\"]\ntools = [\"calculator__a*\"]\n");
    let mut server = Server::run(bench.command(&["serve", "--listen", "127.0.0.1:0"]));
    assert_eq!(server.ask("GET", "/v1/tools", "").0, 401);
    let metadata = server.get("/.well-known/oauth-protected-resource");
    assert_eq!(metadata["resource"], "https://tools.example.com");
    TOKEN.clone_into(&mut server.token);
    let tools = server.get("/v1/tools");
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools}");
    let (status, body) = server.ask("POST", "/v1/tools/calculator__add/calls", r#"{"a": 3, "b": 5}"#);
    let record: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &record["value"]["result"]), (200, &json!(8)), "{body}");
    let calls = server.wait_for("/v1/calls", |page| page["calls"][0]["status"] == "ok");
    assert_eq!(calls["calls"][0]["actor"], "app");
    // The other face, by the same code.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    assert_eq!(server.ask("POST", "/mcp", ping).0, 200);
    TOKEN_FOR_ANOTHER.clone_into(&mut server.token);
    for path in ["/mcp", "/v1/tools"] {
        let (status, body) = server.ask("POST", path, ping);
        assert!(status == 401 && body.contains("another resource"), "{path}: {status} {body}");
    }
    TOKEN.clone_into(&mut server.token);
    configure(&bench, &jwks, "[tenants.app]\nclaims = [\"another-app\"]\n");
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
    server.wait_for_note("[tenants] changed and is in force");
    assert_eq!(server.ask("GET", "/v1/tools", "").0, 403);
}

#[test]
fn access_tokens_need_tenants_and_an_issuer() {
    let bench = Workbench::new();
    let oauth = "[serve.oauth]\nissuer = \"https://auth.example.com\"\nresource = \"https://tools.example.com\"\n";
    for (text, part) in [
        (oauth.to_owned(), "add [tenants.NAME] with `claims`"),
        ("[tenants.a]\nclaims = [\"x\"]\n".to_owned(), "add [serve.oauth]"),
        (format!("{oauth}default_tenant = \"b\"\n[tenants.a]\nclaims = [\"x\"]\n"), "[tenants.b] is missing"),
        (
            format!("{oauth}jwks = \"http://auth.example.com\"\n[tenants.a]\nclaims = [\"x\"]\n"),
            "the URL must be https",
        ),
        (format!("{oauth}[tenants.a]\nclaims = [\"x\"]\n[tenants.b]\nclaims = [\"x\"]\n"), "has the same claim"),
        (format!("{oauth}[tenants.a]\n"), "has no token"),
    ] {
        bench.put("fumehood.toml", text);
        let checked = bench.run(&["config", "check"]);
        assert!(checked.code != 0 && checked.stderr.contains(part), "{part}: {checked:?}");
    }
    bench.put("fumehood.toml", format!("{oauth}default_tenant = \"a\"\n[tenants.a]\n"));
    let checked = bench.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn logins_are_for_approved_servers_at_a_url() {
    let bench = Workbench::new();
    bench.put(
        "fumehood.toml",
        "[mcp.servers.program]\ncommand = [\"true\"]\napproval = \"off\"\n\
         [mcp.servers.keyed]\nurl = \"http://127.0.0.1:1/mcp\"\nbearer = { env = \"KEY\" }\napproval = \"off\"\n\
         [mcp.servers.tracker]\nurl = \"http://127.0.0.1:1/mcp\"\n\
         [mcp.servers.open]\nurl = \"http://127.0.0.1:1/mcp\"\napproval = \"off\"\n",
    );
    for (name, part) in [
        ("nobody", "the configuration has no [mcp.servers.nobody]"),
        ("program", "is a local program"),
        ("keyed", "already has a token"),
        ("tracker", "fumehood approve tracker"),
        ("open", "cannot log in at `open`"),
    ] {
        let ran = bench.run(&["mcp", "login", name]);
        assert!(ran.code != 0 && ran.stderr.contains(part), "{name}: {ran:?}");
    }
    let ran = bench.run(&["mcp", "logout", "open"]);
    assert!(ran.code == 0 && ran.stderr.contains("you were not logged in"), "{ran:?}");
}
