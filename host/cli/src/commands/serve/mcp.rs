//! `fumehood serve mcp`: the tools of components for MCP clients.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::Host;
use fumehood::mcp::{Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Arguments, ServeMcp};
use crate::exit::{Exit, UsageError};
use crate::host;
use crate::render;

/// The largest memory that `--memory` may ask for: every place in the pool has that much address space.
const MEMORY_CEILING: usize = 1 << 30;

pub(crate) async fn run(arguments: &Arguments, serve: &ServeMcp) -> Result<Exit> {
    let host = load(arguments, serve).await?;
    let options = ServerOptions { actor: serve.actor.as_deref().map(Arc::from), ..ServerOptions::default() };
    let server = Server::new(Arc::new(host.clone()), options);
    let stop = until_told()?;
    render::note(&format!("serving {} tools over standard input and output", host.tools().len()));
    let served = server.serve_stdio(stop).await;
    host.shut_down(Duration::ZERO).await;
    served?;
    Ok(Exit::Ok)
}

/// A host with everything that was named.
async fn load(arguments: &Arguments, serve: &ServeMcp) -> Result<Host> {
    let limits = serve.limits.limits(MEMORY_CEILING).map_err(|error| UsageError(error.to_string()))?;
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
