//! A service of axum whose users call tools: each tenant has a notebook of its own, and all share layers of tower.
//!
//! `cargo run -p fumehood --example axum_service -- 127.0.0.1:3000`, and then
//!
//! ```text
//! curl -H 'Authorization: Bearer token-of-ann' 127.0.0.1:3000/tools
//! curl -H 'Authorization: Bearer token-of-ann' 127.0.0.1:3000/tools/write -d '{"title": "milk", "text": "buy some"}'
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fumehood::key_value::MemoryStore;
use fumehood::permission::KeyValueQuota;
use fumehood::{Call, Digest, Grant, Host, Load, ToolService};
use serde_json::json;
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use tower::limit::ConcurrencyLimit;
use tower::load_shed::LoadShed;

const NOTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/notes.wasm");
/// Tenants and their tokens. A service of yours has the digests of random tokens in a database, and no token at all.
const TENANTS: [(&str, &str); 2] = [("ann", "token-of-ann"), ("ben", "token-of-ben")];
/// Maximum number of calls at once. More are answered with 503.
const MAX_CALLS: usize = 64;
const MAX_BODY_BYTES: usize = 64 << 10;

#[derive(Clone)]
struct App {
    host: Arc<Host>,
    calls: LoadShed<ConcurrencyLimit<ToolService<Host>>>,
    /// By the digest of the token, so that the time of a lookup says nothing about other tokens.
    tenants: Arc<HashMap<Digest, &'static str>>,
}

/// Loads the component once, and once more under the name of each tenant, with a store and a grant of its own.
async fn load() -> Result<Host, Box<dyn Error>> {
    let host = Host::builder().key_value_store(Arc::new(MemoryStore::default())).build()?;
    let notes = host.load(Load::path(NOTES)).await?;
    for (tenant, _) in TENANTS {
        let grant = Grant::none().with_key_value(KeyValueQuota::new(1 << 20)?);
        host.load(Load::again(tenant, &notes).grant(grant)).await?;
    }
    host.unload("notes");
    Ok(host)
}

/// Makes the routes of a host.
fn router(host: Arc<Host>) -> Router {
    let calls = tower::ServiceBuilder::new().load_shed().concurrency_limit(MAX_CALLS);
    let calls = calls.service(ToolService::new(Arc::clone(&host)));
    let tenants = TENANTS.into_iter().map(|(tenant, token)| (Digest::of(token.as_bytes()), tenant));
    Router::new()
        .route("/tools", get(list))
        .route("/tools/{tool}", post(call))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(App { host, calls, tenants: Arc::new(tenants.collect()) })
}

/// The response to a request that calls nothing.
type Refusal = (StatusCode, &'static str);

impl App {
    /// Returns the tenant whose token a request shows.
    fn tenant_of(&self, headers: &HeaderMap) -> Result<&'static str, Refusal> {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let tenant = token.and_then(|token| self.tenants.get(&Digest::of(token.as_bytes())).copied());
        tenant.ok_or((StatusCode::UNAUTHORIZED, "show a token: `Authorization: Bearer TOKEN`\n"))
    }
}

async fn list(State(app): State<App>, headers: HeaderMap) -> Result<Response, Refusal> {
    let tenant = app.tenant_of(&headers)?;
    let tools = app.host.tools();
    let own = tools.iter().filter_map(|tool| {
        let name = tool.full_name().strip_prefix(tenant)?.strip_prefix("__")?;
        let description = tool.definition().description.to_sanitized();
        Some(json!({"name": name, "description": description, "input_schema": tool.input_schema()}))
    });
    Ok(Json(own.collect::<Vec<_>>()).into_response())
}

/// Calls a tool with the body as its arguments, which are text until they pass the gate. If the client leaves, axum drops the
/// future, and that stops the guest.
async fn call(
    State(app): State<App>,
    Path(tool): Path<String>,
    headers: HeaderMap,
    arguments: String,
) -> Result<Response, Refusal> {
    let tenant = app.tenant_of(&headers)?;
    let call = Call::new(format!("{tenant}__{tool}"), arguments).actor(tenant);
    let Ok(result) = app.calls.clone().oneshot(call).await else {
        let busy = (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "too many calls at once\n");
        return Ok(busy.into_response());
    };
    let status = result.error().map_or(Ok(StatusCode::OK), |error| StatusCode::from_u16(error.kind.http_status()));
    Ok((status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(result)).into_response())
}

/// Serves until `stop` completes; requests that run are answered first.
pub(crate) async fn serve(
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let host = Arc::new(load().await?);
    axum::serve(listener, router(Arc::clone(&host))).with_graceful_shutdown(stop).await?;
    host.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening at http://{}", listener.local_addr()?);
    let stop = async {
        // Without a handler Ctrl-C ends the process at once, which is an end, too.
        tokio::signal::ctrl_c().await.unwrap_or(())
    };
    serve(listener, stop).await
}
