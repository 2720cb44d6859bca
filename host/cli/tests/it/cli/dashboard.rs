//! The dashboard of a real `fumehood serve`: its pages show what is there, and its forms change what is served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use fumehood_tests::contract::{Answer, ToolDescription};

use super::serve_http::{PATIENCE, Server};
use super::workbench::Workbench;

const TOOLS: &str = "/v1/tools";

/// A person who has logged in.
struct Visitor {
    address: String,
    cookie: String,
}

impl Visitor {
    /// Opens the address that the server prints.
    fn log_in(server: &Server) -> Self {
        server.wait_for_note("the dashboard is at http://");
        let said = server.said();
        let (_, rest) = said.split_once("the dashboard is at http://").unwrap();
        let (address, path) = rest.lines().next().unwrap().split_once('/').unwrap();
        let mut visitor = Self { address: address.to_owned(), cookie: String::new() };
        let answer = visitor.send("GET", &format!("/{path}"), "");
        let cookie = answer.split_once("set-cookie: ").unwrap_or_else(|| panic!("{answer}")).1;
        visitor.cookie = cookie.split(';').next().unwrap().to_owned();
        visitor
    }

    fn send(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = &self.address;
        let cookie = &self.cookie;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\n\
             Connection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn page(&self, name: &str) -> String {
        let answer = self.send("GET", &format!("/dashboard/{name}"), "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
        answer
    }

    /// Sends a form of a page with the values of its hidden fields.
    fn submit(&self, page: &str, action: &str, fields: &str) -> String {
        let shown = self.page(page);
        let hidden = |name: &str| {
            let (_, rest) = shown.split_once(&format!("name=\"{name}\" value=\""))?;
            Some(format!("&{name}={}", rest.split('"').next()?.replace(':', "%3A")))
        };
        let hidden = ["csrf", "pin"].into_iter().filter_map(hidden).collect::<String>();
        self.send("POST", &format!("/dashboard/{action}"), &format!("{fields}{hidden}"))
    }
}

/// Returns a folder `served` with a component that nobody has approved.
fn bench() -> Workbench {
    let bench = Workbench::new();
    std::fs::create_dir(bench.path("served")).unwrap();
    let component = fumehood_tests::answering(&[ToolDescription::new("read")], Answer::Text(b"one")).unwrap();
    bench.put("served/notes.wasm", component);
    bench.put("served/fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n");
    bench
}

fn serve(bench: &Workbench, more: &[&str]) -> (Server, Visitor) {
    let arguments = ["--config", "served/fumehood.toml", "serve", "http", "--no-auth", "--listen", "127.0.0.1:0"];
    let mut server = Server::run(bench.command(&[&arguments[..], &["--dashboard=127.0.0.1:0"], more].concat()));
    let visitor = Visitor::log_in(&server);
    let said = server.said();
    let mut addresses = said.split(" at http://").skip(1).filter_map(|rest| rest.split_once('/'));
    server.address = addresses.find(|(_, path)| !path.starts_with("dashboard")).unwrap().0.to_owned();
    (server, visitor)
}

#[test]
fn what_the_dashboard_approves_is_served_until_it_is_revoked() {
    let bench = bench();
    let (server, visitor) = serve(&bench, &["--watch", "--log", "log.db"]);
    for page in ["tools", "live", "calls", "containment", "health"] {
        visitor.page(page);
    }
    assert!(visitor.page("approvals").contains("notes"));
    assert_eq!(server.get(TOOLS)["tools"], serde_json::json!([]));
    let stale = visitor.send("POST", "/dashboard/approvals/components/notes", "decision=approve&pin=sha256%3A0");
    assert!(stale.starts_with("HTTP/1.1 403 "), "without the token of its form: {stale}");
    let approved = visitor.submit("approvals", "approvals/components/notes", "decision=approve");
    assert!(approved.contains("Approved `notes`"), "{approved}");
    let is_served = |found: &serde_json::Value| found["tools"][0]["name"] == "notes__read";
    server.wait_for(TOOLS, is_served);
    let called = visitor.submit("tools/notes__read", "tools/notes__read/try", "arguments=%7B%7D");
    assert!(called.contains("one"), "{called}");
    assert!(visitor.page("calls").contains("notes__read"));
    let revoked = visitor.submit("approvals", "approvals/components/notes", "decision=revoke");
    assert!(revoked.contains("Revoked the approval of `notes`"), "{revoked}");
    server.wait_for(TOOLS, |found| !is_served(found));
}

#[test]
fn each_row_of_calls_opens_its_own_call() {
    let bench = bench();
    bench.example("calculator");
    for number in 3..6 {
        // Scripted models count the ids of their calls from one in every session.
        let call = format!(r#"{{"calls": [{{"name": "calculator__add", "arguments": {{"a": {number}, "b": 5}}}}]}}"#);
        bench.put("script.jsonl", format!("{call}\n{{\"text\": \"Done.\"}}\n"));
        let run = ["run", "Add", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "log.db"];
        assert_eq!(bench.run(&run).code, 0);
    }
    let (_server, visitor) = serve(&bench, &["--log", "log.db"]);
    let page = visitor.page("calls");
    let hrefs: Vec<&str> = page.split("href=\"/dashboard/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let hrefs: Vec<&str> = hrefs.into_iter().filter(|href| href.starts_with("calls/")).collect();
    assert_eq!(hrefs.len(), 3, "{page}");
    for (number, href) in [5, 4, 3].into_iter().zip(hrefs) {
        let call = visitor.page(href);
        assert!(call.contains(&format!("&#34;a&#34;: {number}")), "{href}: {call}");
        assert!(page.contains(&format!("<code>{}</code>", &href["calls/".len()..][..7])), "ids are short: {page}");
        // Its session leads back to it.
        let session = call.split_once("href=\"/dashboard/sessions/").unwrap().1.split('"').next().unwrap();
        assert!(visitor.page(&format!("sessions/{session}")).contains(&format!("href=\"/dashboard/{href}\"")));
    }
    let several = visitor.page("calls/call_1_1");
    assert_eq!(several.matches("href=\"/dashboard/calls/").count(), 3, "{several}");
}

#[test]
fn an_approval_that_cannot_be_kept_says_where_to_give_it() {
    let bench = bench();
    let (_server, visitor) = serve(&bench, &["--no-log"]);
    std::fs::rename(bench.path("served"), bench.path("elsewhere")).unwrap();
    let refused = visitor.submit("approvals", "approvals/components/notes", "decision=approve");
    assert!(refused.contains("nothing was changed") && refused.contains("approve notes"), "{refused}");
}
