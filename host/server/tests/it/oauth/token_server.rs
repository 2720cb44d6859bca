//! A listener whose only service answers with the name of the tenant.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_server::body::{ResponseBody, response};
use fumehood_server::oauth::{ResourceServer, ResourceServerOptions};
use fumehood_server::{Access, AdmittedRequest, HttpOptions, HttpService, Listener, Rejection, Tenant, Tenants, Token};
use http::request::Parts;
use http::{Response, StatusCode};

use crate::oauth::issuer::Issuer;

/// The URL that the tokens are for. Nothing is there.
pub(crate) const RESOURCE: &str = "https://tools.example.com/mcp";
/// The token of the tenant that has one of its own.
pub(crate) const OWN_TOKEN: &str = "a-token-of-its-own";
/// Minimum time between two fetches of keys.
pub(crate) const INTERVAL: Duration = Duration::from_millis(300);

/// A listener, served until the test ends.
pub(crate) struct TokenServer {
    pub(crate) address: SocketAddr,
    pub(crate) tenants: Tenants,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) challenge: Option<String>,
    pub(crate) body: String,
}

/// Returns the tenants: two by their claims, and one by a token of its own.
pub(crate) fn tenants() -> Vec<Tenant> {
    vec![
        tenant_by_claim("app", "client-of-app"),
        tenant_by_claim("other", "client-of-other"),
        Tenant::new("own", &Token::parse(OWN_TOKEN).unwrap()).actor("own"),
    ]
}

fn tenant_by_claim(name: &str, claim: &str) -> Tenant {
    Tenant::with_claims(name, vec![claim.to_owned()]).actor(name)
}

/// Returns options for the tokens of this issuer.
pub(crate) fn options(issuer: &Issuer) -> ResourceServerOptions {
    ResourceServerOptions { min_fetch_interval: INTERVAL, ..ResourceServerOptions::new(&issuer.url, RESOURCE) }
}

impl TokenServer {
    pub(crate) async fn start(options: ResourceServerOptions) -> Self {
        let verifier = Arc::new(ResourceServer::new(options).unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = HttpOptions {
            verifier: Some(verifier),
            hosts: vec!["tools.example.com".to_owned()],
            ..HttpOptions::new(address, Access::Tenants(tenants()))
        };
        let listener = Listener::bind(options).await.unwrap();
        listener.services().open(vec![Arc::new(TenantNameService)]);
        let served = Self { address: listener.address(), tenants: listener.tenants() };
        tokio::spawn(async move { listener.serve(std::future::pending::<()>()).await });
        served
    }

    /// Sends a request with this token.
    pub(crate) async fn ask(&self, path: &str, token: Option<&str>) -> Answer {
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: tools.example.com\r\nConnection: close\r\n{authorization}\r\n");
        let address = self.address;
        tokio::task::spawn_blocking(move || exchange(address, &request)).await.unwrap()
    }

    /// Returns the name of the tenant of a token, or the status.
    pub(crate) async fn tenant_of(&self, token: &str) -> Result<String, u16> {
        match self.ask("/name", Some(token)).await {
            Answer { status: 200, body, .. } => Ok(body),
            answer => Err(answer.status),
        }
    }
}

fn exchange(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _reset = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let challenge = head.lines().find_map(|line| line.strip_prefix("www-authenticate: ")).map(str::to_owned);
    Answer {
        status: head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0),
        challenge,
        body: body.to_owned(),
    }
}

/// A service that answers with the name of the tenant.
struct TenantNameService;

impl HttpService for TenantNameService {
    fn has_path(&self, path: &str) -> bool {
        path == "/name"
    }

    fn check(&self, _: &Parts) -> Result<(), Rejection> {
        Ok(())
    }

    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>> {
        Box::pin(async move { Ok(response(StatusCode::OK, "text/plain", request.tenant.name.to_string())) })
    }
}
