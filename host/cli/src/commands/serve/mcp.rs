//! `fumehood serve mcp`: the tools of components for MCP clients.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::mcp::{HttpListener, HttpOptions, Server};
use fumehood::{Host, Limits};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::assembly::{Assembly, ServeRequest};
use super::offered::Offered;
use super::{settings, watch};
use crate::args::{Arguments, ServeMcp};
use crate::config::Config;
use crate::configured::{self, ConfiguredComponent, LoadSettings};
use crate::exit::{Exit, UsageError};
use crate::recording::{EntryPoint, Recording};
use crate::trust::ConfigSource;
use crate::{host, render};

/// The largest memory that `--memory` may ask for: every place in the pool has that much address space.
const MAX_MEMORY_BYTES: usize = 1 << 30;

pub(crate) async fn run(arguments: &Arguments, serve: &ServeMcp) -> Result<Exit> {
    let source = ConfigSource::of(arguments);
    let config = source.open()?;
    let http = settings::http(serve, &config)?;
    let options = settings::server(serve, &config)?;
    // Before anything is loaded: only files that are there can be kept from tools.
    let recording = Recording::begin(&serve.recording, &config, EntryPoint::ServeMcp, serve.actor.as_deref()).await?;
    let (host, assembly) = load(arguments, serve, (source, &config), recording.as_ref()).await?;
    let log = recording.as_ref().map(|recording| recording.calls().clone());
    let offered = Offered::of(&host, config.serve.tools.as_deref(), log)?;
    let tools = fumehood::mcp::Toolbox::list(&offered).iter().filter(|tool| tool.is_listed).count();
    let server = Server::new(Arc::new(offered), options);
    let stop = until_told()?;
    let watching = CancellationToken::new();
    let watch = if serve.watch { Some(watch::start(assembly, watching.clone())?) } else { None };
    let served = match http {
        Some(http) => over_http(&server, http, tools, stop).await,
        None => {
            render::note(&format!("serving {tools} tools over standard input and output"));
            server.serve_stdio(stop).await.map_err(Into::into)
        }
    };
    watching.cancel();
    host.shut_down(settings::grace(&config)).await;
    // By now nothing is left that it could wait for.
    if let Some(watch) = watch {
        let _panicked = watch.join();
    }
    if let Some(recording) = recording {
        recording.end(if served.is_ok() { "ok" } else { "host" }).await?;
    }
    served?;
    Ok(Exit::Ok)
}

async fn over_http(server: &Server, http: HttpOptions, tools: usize, stop: CancellationToken) -> Result<()> {
    let listener = HttpListener::bind(server, http).await?;
    render::note(&format!("serving {tools} tools at {}", listener.url()));
    listener.serve(stop).await;
    Ok(())
}

/// A host with everything that was named: components of the command line without any power, those of the configuration
/// with the powers that they have there, as far as they were approved.
async fn load(
    arguments: &Arguments,
    serve: &ServeMcp,
    (source, config): (ConfigSource, &Config),
    recording: Option<&Recording>,
) -> Result<(Host, Assembly)> {
    let configured = configured::all(config, &configured::open_lock(config)?)?;
    let may_come = serve.watch && config.origin.exists();
    let has_texts = !config.knowledge.is_empty() || !config.prompts.is_empty();
    if configured.is_empty() && serve.components.is_empty() && !may_come && !has_texts {
        let message = "there is nothing to serve; name components, or put [tools] into fumehood.toml";
        return Err(UsageError(message.to_owned()).into());
    }
    let usual = config.limits.over(Limits::default());
    let limits = serve.limits.over(usual, MAX_MEMORY_BYTES).map_err(|error| crate::args::name_limit_option(&error))?;
    let most = configured.iter().map(|component| component.limits.memory).max().unwrap_or(0).max(limits.memory);
    let builder = match configured.is_empty() && !serve.watch {
        true => host::builder(arguments),
        false => host::builder_for(arguments, config)?,
    };
    let builder = host::with_components(builder, &serve.components);
    let builder = host::with_secret_file(builder, serve.http.token_file.as_deref());
    let builder = recording.into_iter().fold(builder, |builder, recording| recording.protect(builder));
    let (calls, waiting) = (settings::calls(serve, config), settings::waiting(serve, config));
    let host = builder.concurrency(calls).queue(waiting).limits(limits).memory_ceiling(most).build()?;
    let typed = serve.components.iter().map(|path| typed(path, limits)).collect::<Result<_>>()?;
    let asked = ServeRequest {
        source: source.without_asking(),
        config: config.clone(),
        typed,
        configured,
        allow_slow_compile: serve.allow_slow_compile,
        persist: recording.map(|recording| recording.persist().clone()).unwrap_or_default(),
    };
    let assembly = Assembly::load(host.clone(), asked).await?;
    Ok((host, assembly))
}

/// A component of the command line.
fn typed(path: &Path, limits: Limits) -> Result<ConfiguredComponent> {
    let (load, _) = host::prepare_load(path, false);
    let name = load.name()?;
    Ok(ConfiguredComponent {
        name,
        file: path.to_owned(),
        load,
        limits,
        is_pinned: false,
        terms: LoadSettings::powerless(limits),
    })
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
