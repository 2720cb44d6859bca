//! A service with tools for several tenants, on axum: each tenant has the same component with a grant of its own.
//!
//! ```text
//! cargo run -p fumehood --example service
//! curl http://127.0.0.1:PORT/tenants/acme/tools
//! curl http://127.0.0.1:PORT/tenants/acme/tools/write -d '{"title": "milk", "text": "two"}'
//! ```
//!
//! It prints its address. An argument is the address to listen on; the default is a free port of this machine.
#![allow(clippy::print_stdout, reason = "examples print what they do")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fumehood::permission::KeyValueQuota;
use fumehood::{Call, CallResult, Grant, Host, Limits, Load, ToolService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower_service::Service as _;

const NOTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/notes.wasm");
const TENANTS: [(&str, u64); 2] = [("acme", 1 << 20), ("initech", 64 << 10)];
/// Time that running calls have to end in when the service stops.
const GRACE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let stopped = async {
        // Without a handler for signals the service simply goes on.
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, stopped).await
}

/// Serves until `stopped` completes.
///
/// # Errors
/// If the component cannot be loaded, or the listener fails.
pub async fn serve(
    listener: TcpListener,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let limits = Limits { deadline: Duration::from_secs(2), ..Limits::default() };
    let host = Host::builder().limits(limits).build()?;
    // Compiled once. A tenant's component has a store of its own, because keys and values belong to the name.
    let notes = host.load(Load::path(NOTES)).await?;
    for (tenant, bytes) in TENANTS {
        let grant = Grant::none().with_key_value(KeyValueQuota::new(bytes)?);
        host.load(Load::again(tenant, &notes).grant(grant)).await?;
    }
    host.unload("notes");

    let routes = Router::new()
        .route("/tenants/{tenant}/tools", get(list))
        .route("/tenants/{tenant}/tools/{tool}", post(call))
        .with_state(ToolService::new(Arc::new(host.clone())));
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await?;
    host.shutdown(GRACE).await;
    Ok(())
}

/// Lists the tools of a tenant, as a model wants them.
async fn list(State(service): State<ToolService<Host>>, Path(tenant): Path<String>) -> Json<Value> {
    let tools = service.provider().tools();
    let own = tools.iter().filter(|tool| tool.namespace().is_some_and(|name| name.as_str() == tenant));
    let describe = |tool: &Arc<fumehood::Tool>| {
        let definition = tool.definition();
        json!({
            "name": definition.name.as_str(),
            "description": definition.description.to_sanitized(),
            "input_schema": definition.input_schema.to_sanitized(),
            "powers": tool.powers(),
        })
    };
    Json(own.map(describe).collect())
}

/// Calls a tool of a tenant. Arguments go to the gate as they came. A client that leaves drops this future, which stops the guest.
async fn call(
    State(mut service): State<ToolService<Host>>,
    Path((tenant, tool)): Path<(String, String)>,
    arguments: String,
) -> Response {
    let call = Call::new(format!("{tenant}__{tool}"), arguments).actor(tenant);
    let Ok(result) = service.call(call).await;
    let status = status(&result);
    let body = serde_json::to_string(&result).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}

/// Returns the status of a result: that of its error, if it has one.
fn status(result: &CallResult) -> StatusCode {
    let status = result.error().map_or(200, |error| error.kind.http_status());
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
