//! `fumehood serve mcp`: the tools of components for MCP clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::Host;
use fumehood::mcp::{Access, HttpListener, HttpOptions, Principal, Server, ServerOptions, Token};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Arguments, Http, ServeMcp};
use crate::exit::Exit;
use crate::host;
use crate::render;

/// The largest memory that `--memory` may ask for: every place in the pool has that much address space.
const MEMORY_CEILING: usize = 1 << 30;
/// The variable that holds the token, if no file does.
const TOKEN: &str = "FUMEHOOD_MCP_TOKEN";

pub(crate) async fn run(arguments: &Arguments, serve: &ServeMcp) -> Result<Exit> {
    let host = load(arguments, serve).await?;
    let options = ServerOptions { actor: serve.actor.as_deref().map(Arc::from), ..ServerOptions::default() };
    let server = Server::new(Arc::new(host.clone()), options);
    let stop = until_told()?;
    let served = match serve.http.address {
        Some(address) => over_http(&server, &serve.http, address, host.tools().len(), stop).await,
        None => {
            render::note(&format!("serving {} tools over standard input and output", host.tools().len()));
            server.serve_stdio(stop).await.map_err(Into::into)
        }
    };
    host.shut_down(Duration::ZERO).await;
    served?;
    Ok(Exit::Ok)
}

async fn over_http(
    server: &Server,
    http: &Http,
    address: SocketAddr,
    tools: usize,
    stop: CancellationToken,
) -> Result<()> {
    let access = match http.no_auth {
        true => Access::Anyone,
        false => Access::Tokens(vec![Principal { actor: server.actor(), token: token(http)? }]),
    };
    let options = HttpOptions {
        hosts: http.allow_host.clone(),
        origins: http.allow_origin.clone(),
        ..HttpOptions::new(address, access)
    };
    let listener = HttpListener::bind(server, options).await?;
    render::note(&format!("serving {tools} tools at {}", listener.url()));
    listener.serve(stop).await;
    Ok(())
}

/// What clients must show. One that is made here is told once, on standard error.
fn token(http: &Http) -> Result<Token> {
    if let Some(path) = &http.token_file {
        return Ok(Token::read(path)?);
    }
    if let Some(token) = std::env::var_os(TOKEN) {
        return Ok(Token::parse(&token.to_string_lossy())?);
    }
    let token = Token::generate()?;
    render::note(&format!("clients show this token: {}", token.reveal()));
    Ok(token)
}

/// A host with everything that was named.
async fn load(arguments: &Arguments, serve: &ServeMcp) -> Result<Host> {
    let limits = serve
        .limits
        .over(fumehood::Limits::default(), MEMORY_CEILING)
        .map_err(|error| crate::args::bad_limit(&error))?;
    let builder = host::builder(arguments).concurrency(serve.calls).queue(serve.waiting);
    let host = builder.limits(limits).memory_ceiling(limits.memory).build()?;
    for path in &serve.components {
        let (load, _) = host::load_of(path, serve.allow_slow_compile);
        host::load(&host, &host::file_name(path), load).await?;
    }
    Ok(host)
}

/// Cancelled by Ctrl-C or a request to terminate.
fn until_told() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let told = stop.clone();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}
