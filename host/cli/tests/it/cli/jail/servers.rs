//! MCP servers in their jail: what they find there, their requests, their limits, and servers without a jail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use fumehood_tests::fake_server;
use serde_json::Value;

use crate::cli::workbench::Workbench;

/// Makes requests through the proxy, and prints the status and the body of each answer. The ports of two servers are its arguments.
const FETCH: &str = r#"
import base64, os, socket, sys
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTPS_PROXY"])
login = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
one, other = sys.argv[1:]
def fetch(method, target, login=login):
    connection = socket.create_connection((proxy.hostname, proxy.port), 10)
    ask = lambda text: connection.sendall(text.replace("\n", "\r\n").encode())
    ask(f"{method} {target} HTTP/1.1\nHost: elsewhere.example\nProxy-Authorization: Basic {login}\nContent-Length: 0\n\n")
    def read_head():
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        return head.decode()
    head = read_head()
    status = head.split()[1]
    if method == "CONNECT" and status == "200":
        ask("GET /tunnel HTTP/1.1\nHost: inside.example\n\n")
        head = read_head()
    size = int(head.lower().split("content-length: ")[1].split()[0]) if status == "200" else 0
    body = connection.recv(size, socket.MSG_WAITALL).decode()
    return f"{status} {body}".strip()
print(", ".join([
    fetch("GET", f"http://127.0.0.1:{one}/ok/a?b"),
    fetch("GET", f"http://127.0.0.1:{one}/other"),
    fetch("POST", f"http://127.0.0.1:{one}/ok/a"),
    fetch("CONNECT", f"127.0.0.1:{one}"),
    fetch("CONNECT", f"127.0.0.1:{other}"),
    fetch("GET", f"http://127.0.0.1:{one}/ok/a", "bm9ib2R5Om5v"),
    fetch("GET", "/ok/a"),
    fetch("GET", "http://169.254.169.254/latest"),
]))
"#;

/// Starts a server that answers every request with its first line and its host. Returns its port.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut head = Vec::new();
            while let Some(Ok(line)) = lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())) {
                head.push(line.to_ascii_lowercase());
            }
            let host = head.iter().find(|line| line.starts_with("host:")).cloned().unwrap_or_default();
            let has_login = head.iter().any(|line| line.contains("authorization"));
            let body = format!("{} {host} {has_login}", head.first().cloned().unwrap_or_default());
            let _gone = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    port
}

/// Returns a folder with a server that answers calls by these commands, and more lines of its section.
fn bench(on_call: &str, more: &str) -> Workbench {
    let bench = Workbench::new();
    bench.put("server.sh", fake_server::SCRIPT);
    let server =
        "[mcp.servers.other]\ncommand = [\"sh\", \"server.sh\"]\nstart_timeout = \"60s\"\napproval = \"off\"\n";
    bench.put("fumehood.toml", format!("{server}env.ON_CALL = '''{on_call}'''\n{more}"));
    bench
}

fn call(bench: &Workbench) -> Value {
    bench.run(&["call", "--json", "other", "t"]).json()
}

#[test]
fn requests_of_a_server_pass_its_proxy() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return fumehood_tests::skip::skip("Python", "there is no /usr/bin/python3");
    }
    let [one, other] = [echo(), echo()];
    let rules = format!("http = [\"GET http://127.0.0.1:{one}/ok/**\", \"* http://127.0.0.1:{other}/**\"]\n");
    let more = format!("read = [\"fetch.py\"]\n{rules}private_addresses = [\"127.0.0.1/32\"]\n");
    let bench = bench(&format!(r#"text "$(/usr/bin/python3 fetch.py {one} {other})""#), &more);
    bench.put("fetch.py", FETCH);
    let result = call(&bench);
    let expected = format!(
        "200 get /ok/a?b http/1.1 host: 127.0.0.1:{one} false, 403, 403, 403, 200 get /tunnel http/1.1 host: \
         inside.example false, 407, 400, 403"
    );
    assert_eq!(result["content"][0]["text"], expected, "{result}");
    let refused = result["metadata"]["refused"].as_array().unwrap();
    let lines: Vec<_> = refused.iter().map(|refusal| refusal["allow"].as_str().unwrap()).collect();
    assert_eq!(
        lines,
        [
            format!("http = [\"GET http://127.0.0.1:{one}/**\"]"),
            format!("http = [\"POST http://127.0.0.1:{one}/**\"]"),
            format!("http = [\"* https://127.0.0.1:{one}/**\"]"),
            "http = [\"GET http://169.254.169.254/**\"]".to_owned(),
        ]
    );
}

#[test]
fn a_server_finds_its_own_home_and_nothing_of_yours() {
    let bench =
        bench(r#"text "$(echo kept >> "$HOME/notes"; wc -l < "$HOME/notes"; cat fumehood.toml && echo read)""#, "");
    for count in ["1", "2"] {
        assert_eq!(call(&bench)["content"][0]["text"], count);
    }
}

#[test]
fn the_limit_that_ended_a_server_is_in_the_error_of_the_call() {
    let bench = bench("while :; do :; done", "limits = { cpu = \"1s\" }\n");
    let result = call(&bench);
    assert_eq!(result["error"]["kind"], "interrupted", "{result}");
    assert!(result["error"]["message"].as_str().unwrap().contains("CPU time of 1 s (`cpu`)"), "{result}");
}

#[test]
fn a_server_without_a_jail_says_so_wherever_it_starts() {
    let bench = bench(r#"text "$(head -c 5 fumehood.toml)""#, "isolation = \"none\"\n");
    let ran = bench.run(&["call", "--json", "other", "t"]);
    assert_eq!(ran.json()["content"][0]["text"], "[mcp.", "{ran:?}");
    assert!(ran.stderr.contains("`other` runs without a jail"), "{ran:?}");
    let text = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap().replace("\"off\"", "\"required\"");
    bench.put("fumehood.toml", &text);
    let shown = bench.run(&["approve", "--check"]);
    assert!(shown.stdout.contains("WITHOUT A JAIL"), "{shown:?}");
    assert_eq!(bench.run(&["approve", "other", "--yes"]).code, 0);
    // Another grant needs a new approval.
    bench.put("fumehood.toml", text.replace("isolation = \"none\"", "write = [\".\"]"));
    let changed = bench.run(&["call", "other", "t"]);
    assert!(changed.code == 3 && changed.stderr.contains("changed since it was approved"), "{changed:?}");
}
