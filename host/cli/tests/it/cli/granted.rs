//! The example tools that need powers: refused without them, and granted by the lines that the refusals name.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use super::workbench::Workbench;

/// Maximum number of refusals: more than any of these tools needs.
const ROUNDS: usize = 6;
const TOKEN: &str = "ghp_canary0123456789";

/// One example tool, with a policy that grows.
struct Trial<'a> {
    bench: &'a Workbench,
    component: &'a str,
    policy: toml::Table,
}

impl<'a> Trial<'a> {
    fn new(bench: &'a Workbench, component: &'a str) -> Self {
        bench.example(component);
        Self { bench, component, policy: toml::Table::new() }
    }

    /// Adds a line to the policy. A list that is there already is extended.
    fn apply(&mut self, line: &str) {
        let added: toml::Table = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        for (key, value) in added {
            match (self.policy.get_mut(&key), value) {
                (Some(toml::Value::Array(before)), toml::Value::Array(more)) => before.extend(more),
                (_, value) => drop(self.policy.insert(key, value)),
            }
        }
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let mut section = self.policy.clone();
        section.insert("component".to_owned(), format!("{}.wasm", self.component).into());
        section.insert("approval".to_owned(), "off".into());
        let tools = toml::Table::from_iter([(self.component.to_owned(), section.into())]);
        let whole = toml::Table::from_iter([("tools".to_owned(), toml::Value::from(tools))]);
        self.bench.put("fumehood.toml", toml::to_string(&whole).unwrap());
        let arguments = arguments.to_string();
        let mut command = self.bench.command(&["call", "--json", self.component, tool, &arguments]);
        let output = command.env("TOKEN_OF_TEST", TOKEN).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(!stdout.contains(TOKEN), "{stdout}");
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Calls a tool, and applies the line of each refusal, until it is allowed. Returns the lines too.
    fn until_allowed(&mut self, tool: &str, arguments: &Value, power: &str) -> (Value, Vec<String>) {
        let mut applied = Vec::new();
        for _ in 0..ROUNDS {
            let result = self.call(tool, arguments);
            if result["status"] == "ok" {
                return (content(&result), applied);
            }
            assert_eq!(result["error"]["kind"], "denied", "{applied:?} {result}");
            let refused = &result["metadata"]["refused"][0];
            assert_eq!(refused["power"], power, "{result}");
            let line = refused["allow"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
            assert!(result["error"]["hint"].as_str().is_some_and(|hint| hint.contains(&line)), "{result}");
            assert!(!applied.contains(&line), "it was applied already: {line}");
            self.apply(&line);
            applied.push(line);
        }
        panic!("it was never allowed: {applied:?}");
    }
}

/// Returns the JSON or text of a result's only part.
fn content(result: &Value) -> Value {
    let part = &result["content"][0];
    part.get("json").or_else(|| part.get("value")).unwrap_or(part).clone()
}

/// Starts a server that answers each request by calling `answer` with its head. It ends with the process of the test.
pub(crate) fn serve(answer: impl Fn(&str) -> (&'static str, String) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            respond(stream, &answer);
        }
    });
    port
}

fn respond(mut stream: TcpStream, answer: &dyn Fn(&str) -> (&'static str, String)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if !matches!(reader.read_line(&mut head), Ok(1..)) {
            return;
        }
    }
    if head.to_lowercase().contains("transfer-encoding: chunked") {
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            if reader.read_exact(&mut byte).is_err() {
                return;
            }
            body.extend(byte);
        }
    }
    let (kind, body) = answer(&head);
    let length = body.len();
    let _gone = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

#[test]
fn files_are_read_and_written_by_the_lines_of_the_refusals() {
    let bench = Workbench::new();
    // The refusal cannot know which folder is meant, so its line has a placeholder. Here a folder has that name.
    std::fs::create_dir(bench.path("FOLDER")).unwrap();
    bench.put("FOLDER/a.md", "# Hoods\nGlass and air.\n");
    let mut trial = Trial::new(&bench, "files");
    let (read, applied) = trial.until_allowed("read", &json!({"path": "/FOLDER/a.md"}), "files");
    assert!(read.to_string().contains("Glass and air."), "{read}");
    assert_eq!(applied, ["read = [\"./FOLDER:/FOLDER\"]"]);

    let text = json!({"path": "/FOLDER/b.md", "text": "new"});
    let refused = trial.call("write", &text);
    assert_eq!(refused["error"]["kind"], "denied", "{refused}");
    let line = refused["metadata"]["refused"][0]["allow"].as_str().unwrap().to_owned();
    // Only the line for writing is granted from here on.
    trial.policy.clear();
    trial.apply(&line);
    assert_eq!(trial.call("write", &text)["status"], "ok", "{line}");
    assert_eq!(std::fs::read_to_string(bench.path("FOLDER/b.md")).unwrap(), "new");
    assert_eq!(trial.call("read", &json!({"path": "/FOLDER/a.md"}))["status"], "ok");
}

#[test]
fn a_page_is_fetched_by_the_lines_of_the_refusals() {
    let port = serve(|_| ("text/html", "<h1>Hoods</h1><p>Glass &amp; air.</p>".to_owned()));
    let bench = Workbench::new();
    let mut trial = Trial::new(&bench, "fetch");
    let url = json!({"url": format!("http://localhost:{port}/page")});
    let (page, applied) = trial.until_allowed("get", &url, "http");
    assert!(page.to_string().contains("Glass & air."), "{page}");
    assert_eq!(applied[0], format!("http = [\"GET http://localhost:{port}/**\"]"));
    assert!(applied[1..].iter().all(|line| line.starts_with("private_addresses = [")), "{applied:?}");
}

#[test]
fn issues_are_read_and_answered_by_the_lines_of_the_refusals() {
    let port = serve(|head| {
        let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap_or("nobody");
        let comment = json!({"id": 7, "user": {"login": "ada"}, "body": token, "created_at": "", "html_url": ""});
        let issue = json!({
            "number": 1, "title": "It leaks", "state": "open", "user": {"login": "ada"}, "body": token,
            "labels": [{"name": "bug"}], "comments": 0, "created_at": "", "updated_at": "", "html_url": "",
        });
        ("application/json", if head.starts_with("POST ") { comment } else { issue }.to_string())
    });
    let bench = Workbench::new();
    let mut trial = Trial::new(&bench, "github-issues");
    trial.apply(&format!("env = {{ GITHUB_API_URL = \"http://localhost:{port}\" }}"));
    let one = json!({"repository": "a/b", "number": 1});
    let (issue, applied) = trial.until_allowed("read", &one, "http");
    assert!(issue.to_string().contains("nobody"), "{issue}");
    assert_eq!(applied[0], format!("http = [\"GET http://localhost:{port}/**\"]"));

    trial.apply(&format!(
        "secrets = [{{ name = \"github\", from = {{ env = \"TOKEN_OF_TEST\" }}, for = \"http://localhost:{port}/**\", \
         header = \"Authorization\", value = \"Bearer {{secret}}\" }}]"
    ));
    let issue = trial.call("read", &one);
    assert!(issue.to_string().contains("[secret github]"), "{issue}");

    let said = json!({"repository": "a/b", "number": 1, "body": "Me too."});
    let (comment, applied) = trial.until_allowed("comment", &said, "http");
    assert!(comment.to_string().contains("[secret github]"), "{comment}");
    assert_eq!(applied, [format!("http = [\"POST http://localhost:{port}/**\"]")]);
}

#[test]
fn without_its_grant_github_is_not_even_looked_up() {
    let bench = Workbench::new();
    let trial = Trial::new(&bench, "github-issues");
    let refused = trial.call("list", &json!({"repository": "a/b"}));
    assert_eq!(refused["error"]["kind"], "denied", "{refused}");
    assert_eq!(refused["metadata"]["refused"][0]["allow"], "http = [\"GET https://api.github.com/**\"]");
}

#[test]
fn notes_are_kept_by_the_line_of_the_refusal() {
    let bench = Workbench::new();
    let mut trial = Trial::new(&bench, "notes");
    let (_, applied) = trial.until_allowed("write", &json!({"title": "a", "text": "b"}), "key_value");
    assert_eq!(applied.len(), 1);
}

#[test]
fn the_configuration_of_the_example_tools_is_fine() {
    let bench = Workbench::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/fumehood.toml");
    let checked = bench.run(&["config", "check", path.to_str().unwrap(), "--json"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let tools = &checked.json()["tools"];
    for (tool, key) in [("files", "read"), ("fetch", "http"), ("github-issues", "secrets"), ("notes", "key_value")] {
        assert!(!tools[tool][key].is_null(), "{tool}: {tools}");
        assert!(path.with_file_name("dist").join(format!("{tool}.wasm")).is_file(), "{tool}");
    }
}
