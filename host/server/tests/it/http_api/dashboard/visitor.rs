//! A listener with the dashboard, and a visitor of it: a client that keeps its cookie.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fumehood_core::call::Call;
use fumehood_core::call::result::CallResult;
use fumehood_core::tool::ToolProvider;
use fumehood_server::http_api::dashboard::{Dashboard, DashboardOptions};
use fumehood_server::{Access, HttpOptions, Listener, RunningCalls, Tenant, TenantLimits, TenantTools, Token};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use super::hostile::{HostileApprovals, HostileCalls, HostileSelfTest, HostileTimelines, HostileTools, MARKUP};
use crate::http_api::api_server::{Answer, PATIENCE, TOKEN};

/// A listener that serves the dashboard.
pub(crate) struct DashboardServer {
    pub(crate) address: SocketAddr,
    pub(crate) tools: Arc<HostileTools>,
    pub(crate) client: Arc<dyn ToolProvider>,
    pub(crate) running: RunningCalls,
    pub(crate) approvals: Arc<HostileApprovals>,
    pub(crate) containment: Arc<HostileSelfTest>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// A browser without its looks.
#[derive(Default)]
pub(crate) struct Visitor {
    pub(crate) address: String,
    pub(crate) cookie: String,
}

impl DashboardServer {
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    /// Opens a dashboard of this many places.
    pub(crate) async fn with_places(places: usize) -> Self {
        Self::open(places, |options| options).await
    }

    pub(crate) async fn with(change: impl FnOnce(DashboardOptions) -> DashboardOptions) -> Self {
        Self::open(8, change).await
    }

    async fn open(places: usize, change: impl FnOnce(DashboardOptions) -> DashboardOptions) -> Self {
        let options = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
        let listener = Listener::bind(options).await.unwrap();
        let tools = Arc::new(HostileTools::default());
        let approvals = Arc::new(HostileApprovals::default());
        let provider = Arc::clone(&tools) as Arc<dyn ToolProvider>;
        let served = TenantTools::new(provider).places(places, 8);
        let running = served.running().clone();
        let limits = TenantLimits { calls_per_day: Some(9_000), ..TenantLimits::default() };
        let client = served.of(&Arc::new(Tenant::anyone(MARKUP).limits(limits)));
        let containment = Arc::new(HostileSelfTest::default());
        let options = DashboardOptions {
            tenants: Some(listener.tenants()),
            calls: Some(Arc::new(HostileCalls)),
            timelines: Some(Arc::new(HostileTimelines)),
            approvals: Some(Arc::clone(&approvals) as _),
            containment: Some(Arc::clone(&containment) as _),
            ..DashboardOptions::new(Token::parse(TOKEN).unwrap())
        };
        listener.services().open(vec![Arc::new(Dashboard::new(served, change(options), &listener))]);
        let address = listener.address();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let served = tokio::spawn(async move { listener.serve(stopped.cancelled()).await });
        Self { address, tools, client, running, approvals, containment, stop, served }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served).await.expect("it never ends").unwrap();
    }

    /// Returns a visitor who has not logged in.
    pub(crate) fn stranger(&self) -> Visitor {
        Visitor { address: self.address.to_string(), cookie: String::new() }
    }

    /// Returns a visitor who has logged in.
    pub(crate) async fn visitor(&self) -> Visitor {
        let mut visitor = self.stranger();
        let answer = visitor.post("login", &[("token", TOKEN)]).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/dashboard/tools"), "{answer:?}");
        visitor.cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        visitor
    }

    /// Starts a call of `wait`, and returns once it runs.
    pub(crate) async fn start_waiting(&self, calls: usize) -> JoinHandle<CallResult> {
        let client = Arc::clone(&self.client);
        let running = tokio::spawn(async move { client.dispatch(Call::new("test__wait", "{}")).await });
        let started = async {
            while self.tools.started.load(Ordering::SeqCst) < calls {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, started).await.expect("it never starts");
        running
    }
}

impl Visitor {
    /// Sends a request with these headers instead of the usual ones. An empty value leaves one out.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let (_sender, response) = self.open(method, path, headers, body).await;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("no end").unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// Sends a request, and returns the head of the response, with the connection.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (hyper::client::conn::http1::SendRequest<Full<Bytes>>, http::Response<hyper::body::Incoming>) {
        let origin = format!("http://{}", self.address);
        let usual = [
            ("Host", self.address.as_str()),
            ("Cookie", self.cookie.as_str()),
            ("Origin", if method == "POST" { origin.as_str() } else { "" }),
            ("Content-Type", if method == "POST" { "application/x-www-form-urlencoded" } else { "" }),
        ];
        let is_replaced = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in usual.iter().filter(|(name, _)| !is_replaced(name)).chain(headers) {
            if !value.is_empty() {
                request = request.header(*name, *value);
            }
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let stream = TokioIo::new(TcpStream::connect(&self.address).await.unwrap());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("no answer").unwrap();
        (sender, response)
    }

    pub(crate) async fn get(&self, page: &str) -> Answer {
        self.send("GET", &format!("/dashboard/{page}"), &[], "").await
    }

    /// Sends a form without the token of forms.
    pub(crate) async fn post(&self, page: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send("POST", &format!("/dashboard/{page}"), &[], &body).await
    }

    /// Sends a form as a page of this session would.
    pub(crate) async fn submit(&self, page: &str, fields: &[(&str, &str)]) -> Answer {
        let csrf = self.csrf().await;
        self.post(page, &[&[("csrf", csrf.as_str())], fields].concat()).await
    }

    /// Returns the token of forms of this session.
    pub(crate) async fn csrf(&self) -> String {
        let page = self.get("health").await;
        let (_, rest) = page.body.split_once("name=\"csrf\" value=\"").unwrap_or_else(|| panic!("{page:?}"));
        rest.split('"').next().unwrap().to_owned()
    }
}
