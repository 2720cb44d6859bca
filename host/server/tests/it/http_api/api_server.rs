//! A listener with tools of the test, and a client for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_server::http_api::{Api, ApiOptions};
use fumehood_server::{Access, HttpOptions, Listener, Tenant, TenantTools, Tenants, Token};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

pub(crate) const TOKEN: &str = "a-token-for-one-test";
pub(crate) const OTHER: &str = "a-token-for-another-one";
/// Slack of a loaded machine for something quick.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Tools of the test. `wait` runs until it is stopped.
#[derive(Default)]
pub(crate) struct Tools {
    revision: Revision,
    pub(crate) started: AtomicUsize,
    pub(crate) stopped: AtomicUsize,
}

/// Counts the end of a call of `wait`, also when its future is dropped.
struct WaitGuard<'a>(&'a AtomicUsize);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn tool(name: &str, schema: &Value) -> Arc<Tool> {
    let description = "Repeats \u{202e}it".to_owned();
    let raw = RawDefinition {
        name: name.to_owned(),
        description,
        input_schema: schema.to_string(),
        ..RawDefinition::default()
    };
    let definition = raw.parse(&DefinitionLimits::default()).unwrap();
    let gate = Gate::for_arguments(schema, GateLimits::default()).unwrap();
    let tool = Tool::new(definition, gate).in_namespace(&Namespace::parse("test").unwrap());
    Arc::new(match name {
        "pending" => tool.withheld(Some(CallError::new(ErrorKind::NeedsApproval, "nobody approved it"))),
        _ => tool,
    })
}

impl Tools {
    /// Waits until this number of calls of `wait` were started.
    pub(crate) async fn started(&self, calls: usize) {
        wait_for(&self.started, calls).await;
    }

    /// Waits until this number of calls of `wait` have ended.
    pub(crate) async fn stopped(&self, calls: usize) {
        wait_for(&self.stopped, calls).await;
    }

    async fn run(&self, call: &ValidatedCall, context: &CallContext) -> Result<Vec<Content>, CallError> {
        match call.tool().definition().name.as_str() {
            "echo" => Ok(vec![Content::json(call.to_text().into_owned()).unwrap()]),
            "hidden" => Ok(vec![
                Content::text("a\u{202e}b"),
                Content::json("{\"k\u{200b}\": \"\\u001b[1m\"}".to_owned()).unwrap(),
            ]),
            "fail" => {
                let kind = serde_json::from_value(call.arguments()["kind"].clone()).unwrap();
                let error = CallError::new(kind, "it \u{1b}failed").with_hint("try less");
                Err(if kind == ErrorKind::Quota { error.with_retry_after(Duration::from_millis(1500)) } else { error })
            }
            "thread" => Ok(vec![Content::text(format!("{:?}", std::thread::current().id()))]),
            "large" => Ok(vec![Content::text("x".repeat(8 << 20))]),
            "report" => {
                for number in 0..call.arguments()["lines"].as_u64().unwrap_or(1) {
                    context.observer.iter().for_each(|observer| observer.log(Level::Info, &format!("line {number}")));
                }
                let partial = vec![Content::text("pa\u{200b}rt")];
                context.report(Progress { fraction: Some(0.5), message: Some("half\nway".into()), partial });
                Ok(vec![Content::text("done")])
            }
            _ => {
                self.started.fetch_add(1, Ordering::SeqCst);
                let _waiting = WaitGuard(&self.stopped);
                context.cancelled.as_ref().unwrap().cancelled().await;
                Err(CallError::cancelled())
            }
        }
    }
}

async fn wait_for(count: &AtomicUsize, expected: usize) {
    let counted = async {
        while count.load(Ordering::SeqCst) < expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("it was not counted in time");
}

impl ToolProvider for Tools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let any = json!({ "type": "object", "additionalProperties": true });
        let referring = json!({
            "type": "object", "properties": { "a": { "$ref": "#/$defs/number" } }, "required": ["a"],
            "additionalProperties": false, "$defs": { "number": { "type": "number" } },
        });
        let names = ["fail", "hidden", "large", "pending", "report", "thread", "wait"];
        [tool("echo", &referring)].into_iter().chain(names.iter().map(|name| tool(name, &any))).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools().into_iter().find(|tool| tool.full_name() == name)
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = self.run(&call, &context).await;
            let metadata = Metadata::default().fuel_used(7).with_outcome(&outcome);
            Ok(CallResult { id: context.id, tool: call.tool().full_name().to_owned(), outcome, metadata })
        })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}

/// A listener that serves the API.
pub(crate) struct ApiServer {
    pub(crate) address: SocketAddr,
    pub(crate) tools: Arc<Tools>,
    /// The tools as tenants call them.
    pub(crate) shared: TenantTools,
    pub(crate) tenants: Tenants,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// A response whose body was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts that it is an error with problem details.
    #[track_caller]
    pub(crate) fn check_problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty() && problem["title"].is_string(), "{problem}");
        problem
    }
}

pub(crate) fn tenant(name: &str, token: &str) -> Tenant {
    Tenant::new(name, &Token::parse(token).unwrap()).actor(name)
}

pub(crate) fn tokens() -> Access {
    Access::Tenants(vec![tenant("one", TOKEN), tenant("other", OTHER)])
}

impl ApiServer {
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    pub(crate) async fn with(change: impl FnOnce(HttpOptions) -> HttpOptions) -> Self {
        Self::with_tools(change, |tools| tools).await
    }

    /// Serves the tools as `change_tools` shares them between the tenants.
    pub(crate) async fn with_tools(
        change: impl FnOnce(HttpOptions) -> HttpOptions,
        change_tools: impl FnOnce(TenantTools) -> TenantTools,
    ) -> Self {
        Self::with_api(change, change_tools, ApiOptions::default()).await
    }

    /// Serves the API with these options.
    pub(crate) async fn with_api(
        change: impl FnOnce(HttpOptions) -> HttpOptions,
        change_tools: impl FnOnce(TenantTools) -> TenantTools,
        api: ApiOptions,
    ) -> Self {
        let options = change(HttpOptions::new("127.0.0.1:0".parse().unwrap(), tokens()));
        let listener = Listener::bind(options).await.unwrap();
        let tools = Arc::new(Tools::default());
        let shared = change_tools(TenantTools::new(Arc::clone(&tools) as Arc<dyn ToolProvider>));
        let api = Api::with_tools(shared.clone(), api, &listener).unwrap();
        listener.services().open(vec![Arc::new(api)]);
        let address = listener.address();
        let tenants = listener.tenants();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let served = tokio::spawn(async move { listener.serve(stopped.cancelled()).await });
        Self { address, tools, shared, tenants, stop, served }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served).await.expect("it never ends").unwrap();
    }

    /// Creates a request with the usual headers, unless these headers replace them. An empty value leaves one out.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Request<Full<Bytes>> {
        let host = self.address.to_string();
        let bearer = format!("Bearer {TOKEN}");
        let usual = [("Host", host.as_str()), ("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let is_replaced = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let kept = usual.iter().filter(|(name, _)| !is_replaced(name));
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (name, value) in kept.chain(headers).filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
    }

    pub(crate) async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Sends a request, and returns the head of the response.
    pub(crate) async fn open(&self, request: Request<Full<Bytes>>) -> (SendRequest<Full<Bytes>>, Response<Incoming>) {
        let mut sender = self.connect().await;
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("no answer").unwrap();
        (sender, response)
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let (_sender, response) = self.open(self.request(method, path, headers, body)).await;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("no end").unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn call(&self, tool: &str, headers: &[(&str, &str)], arguments: &str) -> Answer {
        self.send("POST", &format!("/v1/tools/test__{tool}/calls"), headers, arguments).await
    }

    /// Starts a call of `wait`. Returns its id once it runs.
    pub(crate) async fn start_waiting(&self, number: usize) -> (JoinHandle<Answer>, String) {
        let mut sender = self.connect().await;
        let request = self.request("POST", "/v1/tools/test__wait/calls", &[], "{}");
        let waiting = tokio::spawn(async move {
            let (head, body) = sender.send_request(request).await.unwrap().into_parts();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        });
        self.tools.started(number).await;
        let listed = self.get("/v1/calls").await.json();
        (waiting, listed["calls"][0]["id"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn tools_are_listed_and_described() {
    let served = ApiServer::new().await;
    let listed = served.get("/v1/tools").await;
    assert_eq!((listed.status, listed.header("content-type")), (StatusCode::OK.as_u16(), "application/json"));
    let tools = listed.json();
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = ["echo", "fail", "hidden", "large", "report", "thread", "wait"];
    assert_eq!(names, expected.map(|name| format!("test__{name}")));
    assert_eq!(tools["tools"][0]["description"], "Repeats \\u{202e}it");
    assert_eq!(tools["tools"][0]["granted"], json!([]));
    let one = served.get("/v1/tools/test__echo").await;
    assert_eq!(one.json(), tools["tools"][0]);
    assert_eq!(served.get("/v1/tools/test__nothing").await.check_problem(404)["kind"], "unknown_tool");
    assert_eq!(served.get("/v1/tools/test__pending").await.check_problem(403)["kind"], "needs_approval");
    let head = served.send("HEAD", "/v1/tools", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), listed.body.len().to_string());
    served.end().await;
}
