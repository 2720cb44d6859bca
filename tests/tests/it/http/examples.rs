//! The example tools that make requests, over TLS: their results, and the secrets that they never see.

use std::sync::{Arc, Mutex};

use fumehood::permission::http::HttpLimits;
use fumehood::permission::{Environment, Power};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, HostBuilder, Load};
use serde_json::{Value, json};

use super::names::trusting;
use super::server::{Server, ok, respond};
use super::stage::{LOCAL, Names, bearer, failed, requests, secret};

const TOKEN: &str = "ghp_canary0123456789";

async fn host(builder: HostBuilder, tool: &str, grant: Grant) -> Host {
    let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist");
    let folder = std::env::var_os("FUMEHOOD_EXAMPLES").map_or(dist, std::path::PathBuf::from);
    let host = builder.concurrency(4).build().unwrap();
    host.load(Load::path(folder.join(format!("{tool}.wasm"))).grant(grant)).await.unwrap();
    host
}

fn json_of(result: &CallResult) -> Value {
    let shown = serde_json::to_string(result).unwrap();
    assert!(!shown.contains(TOKEN), "{shown}");
    serde_json::from_str(&result.text().unwrap_or_else(|| panic!("it should succeed: {result:?}"))).unwrap()
}

#[tokio::test]
async fn pages_are_fetched_as_text() {
    let (builder, config) = trusting("page.test");
    let server = Server::start_tls(config, |stream, head| match head.split(' ').nth(1).unwrap_or_default() {
        "/html" => respond(stream, "200 OK", "content-type: text/html\r\n", "<h1>Hoods</h1><p>Glass &amp; air.</p>"),
        "/image" => respond(stream, "200 OK", "content-type: image/png\r\n", "PNG"),
        "/moved" => respond(stream, "302 Found", "location: http://169.254.169.254/\r\n", ""),
        "/long" => respond(stream, "200 OK", "content-type: text/plain\r\n", &"x".repeat(300_000)),
        _ => respond(stream, "404 Not Found", "content-type: text/plain\r\n", "no such page"),
    });
    let at = server.at("page.test");
    let host = host(builder, "fetch", requests(&[&format!("GET https://{at}/**")], LOCAL, HttpLimits::default())).await;
    let get = async |path: &str| {
        host.call(Call::new("fetch__get", json!({"url": format!("https://{at}{path}"), "max_characters": 1000}))).await
    };
    let page = json_of(&get("/html").await);
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("Glass & air.") && !text.contains('<'), "{page}");
    let long = json_of(&get("/long").await);
    assert_eq!((long["text"].as_str().unwrap().len(), &long["complete"]), (1000, &json!(false)));
    let moved = json_of(&get("/moved").await);
    assert_eq!((&moved["status"], &moved["location"]), (&json!(302), &json!("http://169.254.169.254/")));
    failed(&get("/image").await, ErrorKind::ToolFailed, "`image/png`, which is not text");
    failed(&get("/absent").await, ErrorKind::ToolFailed, "404 Not Found and said: no such page");

    let elsewhere = host.call(Call::new("fetch__get", json!({"url": "https://other.test/"}))).await;
    failed(&elsewhere, ErrorKind::Denied, "this request is not allowed");
    let refusal = &elsewhere.metadata.refused[0];
    assert_eq!((refusal.power, refusal.tried.as_str()), (Power::Http, "GET https://other.test/"));
    let hint = elsewhere.error().unwrap().hint.clone().unwrap();
    assert!(hint.contains(refusal.allow.as_ref().unwrap()), "{hint}");
}

#[tokio::test]
async fn what_goes_wrong_on_the_way_is_said_in_words() {
    let (builder, config) = trusting("other.test");
    let server = Server::start_tls(config, |stream, _| ok(stream, "never"));
    let broken = Server::start(|stream, _| drop(stream.write_all(b"SSH-2.0-nonsense\r\n\r\n")));
    let [wrong, nonsense] = [server.at("page.test"), broken.at("page.test")];
    let rules = [
        format!("GET https://{wrong}/**"),
        format!("GET http://{nonsense}/**"),
        "GET https://absent.example/**".to_owned(),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let host = host(builder, "fetch", requests(&rules, LOCAL, HttpLimits::default())).await;
    let get = async |url: String| host.call(Call::new("fetch__get", json!({ "url": url }))).await;
    failed(&get(format!("https://{wrong}/")).await, ErrorKind::ToolFailed, "the connection is not secure");
    failed(&get(format!("http://{nonsense}/")).await, ErrorKind::ToolFailed, "broken or too large");
    failed(&get("https://absent.example/".to_owned()).await, ErrorKind::InvalidArguments, "unknown host");
    let (builder, config) = trusting("page.test");
    let small = Server::start_tls(config, |stream, _| ok(stream, &"x".repeat(5000)));
    let at = small.at("page.test");
    let grant =
        requests(&[&format!("GET https://{at}/**")], LOCAL, HttpLimits { bytes_in: 1000, ..HttpLimits::default() });
    let limited = self::host(builder, "fetch", grant).await;
    let result = limited.call(Call::new("fetch__get", json!({"url": format!("https://{at}/")}))).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Quota, "{result:?}");
}

#[tokio::test]
async fn issues_are_listed_read_and_commented_on_with_a_token_that_the_tool_never_sees() {
    let (builder, config) = trusting("api.test");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let server = Server::start_tls(config, move |stream, head| {
        seen.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
        if !head.contains(&format!("authorization: Bearer {TOKEN}\r\n")) {
            return respond(stream, "401 Unauthorized", "", r#"{"message": "Requires authentication"}"#);
        }
        let user = json!({"login": "ada"});
        let comment = json!({"id": 7, "user": user, "body": format!("I am {TOKEN}"), "created_at": "", "html_url": ""});
        let issue = json!({
            "number": 1, "title": "It leaks", "state": "open", "user": user, "body": "Look.", "labels": [{"name": "bug"}],
            "comments": 1, "created_at": "", "updated_at": "", "html_url": "",
        });
        let body = match head.split(['?', ' ']).nth(1).unwrap_or_default() {
            "/v3/repos/a/b/issues" => json!([issue]),
            "/v3/repos/a/b/issues/1" => issue,
            _ if head.starts_with("POST ") => comment,
            _ => json!([comment]),
        };
        respond(stream, "200 OK", "content-type: application/json\r\n", &body.to_string());
    });
    let at = server.at("api.test");
    let base = format!("https://{at}/v3");
    let environment = Environment::none().with("GITHUB_API_URL", &base).unwrap();
    let grant =
        requests(&[&format!("GET,POST {base}/repos/**")], LOCAL, HttpLimits::default()).with_environment(environment);
    let with_token = grant.clone().with_secret(secret("github", TOKEN, &format!("{base}/**"), bearer())).unwrap();
    let host = host(builder, "github-issues", with_token).await;
    let call =
        async |tool: &str, arguments: Value| host.call(Call::new(format!("github-issues__{tool}"), arguments)).await;
    let listed = json_of(&call("list", json!({"repository": "a/b", "labels": ["bug"]})).await);
    assert_eq!(listed["issues"][0]["title"], "It leaks");
    let read = json_of(&call("read", json!({"repository": "a/b", "number": 1})).await);
    assert_eq!((&read["author"], &read["comments"][0]["body"]), (&json!("ada"), &json!("I am [secret github]")));
    let said = json_of(&call("comment", json!({"repository": "a/b", "number": 1, "body": "Me too."})).await);
    assert_eq!(said["id"], json!(7));
    let expected = [
        "GET /v3/repos/a/b/issues?state=open&sort=updated&page=1&per_page=20&labels=bug HTTP/1.1",
        "GET /v3/repos/a/b/issues/1 HTTP/1.1",
        "GET /v3/repos/a/b/issues/1/comments?per_page=20 HTTP/1.1",
        "POST /v3/repos/a/b/issues/1/comments HTTP/1.1",
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
    let annotations = host.tool("github-issues__comment").unwrap().definition().annotations;
    assert_eq!((annotations.destructive, annotations.open_world), (Some(true), Some(true)));
}

#[tokio::test]
async fn without_the_token_or_the_method_that_is_what_is_said() {
    let server =
        Server::start(|stream, _| respond(stream, "401 Unauthorized", "", r#"{"message": "Requires authentication"}"#));
    let base = format!("http://{}", server.at("api.test"));
    let environment = Environment::none().with("GITHUB_API_URL", &base).unwrap();
    let grant = requests(&[&format!("GET {base}/**")], LOCAL, HttpLimits::default()).with_environment(environment);
    let host = host(Host::builder().resolver(Names::local()), "github-issues", grant).await;
    let call =
        async |tool: &str, arguments: Value| host.call(Call::new(format!("github-issues__{tool}"), arguments)).await;
    let issue = json!({"repository": "a/b", "number": 1});
    failed(&call("read", issue).await, ErrorKind::Denied, "can grant it one as a secret");
    let said = call("comment", json!({"repository": "a/b", "number": 1, "body": "Me too."})).await;
    failed(&said, ErrorKind::Denied, "this request is not allowed");
    assert!(said.metadata.refused[0].because.contains("allows only GET"), "{:?}", said.metadata.refused);
    assert_eq!(server.seen.heads().len(), 1);
}
