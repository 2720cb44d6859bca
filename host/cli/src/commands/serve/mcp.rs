//! `fumehood serve mcp`: serves the tools of components and of other MCP servers to MCP clients.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::mcp::{HttpListener, HttpOptions, Server};
use fumehood::{CancellationToken, FlowProvider, Grant, Host, Limits, ToolProvider};

use super::served_components::{ServeRequest, ServedComponents};
use super::served_tools::ServedTools;
use super::{code_mode, settings, watch};
use crate::agent::settings as agent_settings;
use crate::args::{Arguments, ServeMcp};
use crate::config::Config;
use crate::configured::{self, ConfiguredComponent, LoadSettings, Version};
use crate::exit::{Exit, UsageError};
use crate::recording::{EntryPoint, Recording};
use crate::trust::ConfigSource;
use crate::{flows, hooks, host, render, servers, signals};

/// Maximum value of `--memory`, in bytes: every slot in the pool has that much address space.
const MAX_MEMORY_BYTES: usize = 1 << 30;

pub(crate) async fn run(arguments: &Arguments, serve: &ServeMcp) -> Result<Exit> {
    let source = ConfigSource::from_arguments(arguments);
    let config = source.open()?;
    let http = settings::http_options(serve, &config)?;
    let options = settings::server_options(serve, &config)?;
    // Before anything is loaded: only existing files can be protected from tools.
    let recording = Recording::begin(&serve.recording, &config, EntryPoint::ServeMcp, serve.actor.as_deref()).await?;
    let (host, components) = load_components(arguments, serve, (source, &config), recording.as_ref()).await?;
    let remotes = match serve.servers {
        true => Some(Arc::new(servers::connect(&config, &configured::open_lock(&config)?).await?)),
        false => None,
    };
    let log = recording.as_ref().map(|recording| recording.calls().clone());
    let hooks = hooks::from_config(&config, &host)?;
    let offered = ServedTools::new(&host, remotes.clone(), config.serve.tools.as_deref(), (hooks, log.clone()))?;
    let all = offered.tools();
    let tools = all.iter().filter(|tool| tool.is_approved()).count();
    let offered: Arc<dyn ToolProvider> = match flows::policy(&config, &all)? {
        Some(policy) => Arc::new(FlowProvider::new(Arc::new(offered), policy).recorded(log)),
        None => Arc::new(offered),
    };
    let offered = match agent_settings::code(config.serve.code, serve.code) {
        Some(mode) => code_mode::in_front_of(offered, &host, mode, recording.as_ref())?,
        None => offered,
    };
    let server = Server::new(offered, options);
    let mut signals = signals::listen_for_stop()?;
    let stop = signals.received();
    let watching = CancellationToken::new();
    let watch = if serve.watch { Some(watch::start(components, watching.clone())?) } else { None };
    let served = match http {
        Some(http) => serve_http(&server, http, tools, stop).await,
        None => {
            render::note(&format!("serving {tools} tools over standard input and output"));
            server.serve_stdio(stop).await.map_err(Into::into)
        }
    };
    watching.cancel();
    host.shutdown(settings::shutdown_grace(&config)).await;
    if let Some(remotes) = remotes {
        remotes.close().await;
    }
    // The token above is cancelled, so this does not wait for changes of files.
    if let Some(watch) = watch {
        let _panicked = watch.join();
    }
    if let Some(recording) = recording {
        recording.end(if served.is_ok() { "ok" } else { "host" }).await?;
    }
    served?;
    Ok(Exit::Ok)
}

async fn serve_http(server: &Server, http: HttpOptions, tools: usize, stop: impl Future) -> Result<()> {
    let listener = HttpListener::bind(server, http).await?;
    render::note(&format!("serving {tools} tools at {}", listener.url()));
    listener.serve(stop).await;
    Ok(())
}

/// Creates a host and loads all components: those of the command line with the powers of the options, those of the
/// configuration with their powers there, as far as they are approved.
async fn load_components(
    arguments: &Arguments,
    serve: &ServeMcp,
    (source, config): (ConfigSource, &Config),
    recording: Option<&Recording>,
) -> Result<(Host, ServedComponents)> {
    let configured = configured::all(config, &configured::open_lock(config)?, Version::Pinned).await?;
    let may_appear = serve.watch && config.origin.exists();
    let has_texts = !config.knowledge.is_empty() || !config.prompts.is_empty();
    let has_servers = serve.servers && !config.mcp.servers.is_empty();
    if configured.is_empty() && serve.components.is_empty() && !may_appear && !has_texts && !has_servers {
        let message = "there is nothing to serve; name components, or put [tools] into fumehood.toml";
        return Err(UsageError(message.to_owned()).into());
    }
    let defaults = config.limits.over(Limits::default());
    let limits =
        serve.limits.over(defaults, MAX_MEMORY_BYTES).map_err(|error| crate::args::name_limit_option(&error))?;
    let max_memory = configured.iter().map(|component| component.limits.memory).max().unwrap_or(0).max(limits.memory);
    let builder = match configured.is_empty() && !serve.watch {
        true => host::builder(arguments),
        false => host::builder_for(arguments, config)?,
    };
    let builder = host::with_components(builder, &serve.components);
    let builder = host::with_typed_secrets(builder, &serve.powers);
    let builder = host::with_typed_store(builder, config, &serve.powers, &serve.components)?;
    let builder = host::with_secret_file(builder, serve.http.token_file.as_deref());
    let builder = recording.into_iter().fold(builder, |builder, recording| recording.protect(builder));
    let (concurrency, queue_length) = (settings::concurrency(serve, config), settings::queue_length(serve, config));
    let host =
        builder.concurrency(concurrency).queue(queue_length).limits(limits).memory_ceiling(max_memory).build()?;
    let mut typed = Vec::new();
    let grant = serve.powers.grant_for(&serve.components, "on the command line")?;
    for component in &serve.components {
        typed.push(typed_component(config, component, limits, (&grant, serve.powers.strict_imports)).await?);
    }
    let request = ServeRequest {
        source: source.without_asking(),
        config: config.clone(),
        typed,
        configured,
        allow_slow_compile: serve.allow_slow_compile,
        persist: recording.map(|recording| recording.persist().clone()).unwrap_or_default(),
    };
    let components = ServedComponents::load(host.clone(), request).await?;
    Ok((host, components))
}

/// Prepares a component of the command line, with the powers of the options.
async fn typed_component(
    config: &Config,
    typed: &Path,
    limits: Limits,
    (grant, is_strict): (&Grant, bool),
) -> Result<ConfiguredComponent> {
    let typed = host::typed_component(config, typed, false).await?;
    let name = typed.load.name()?;
    let load = typed.load.grant(grant.clone());
    let load = if is_strict { load.strict_imports() } else { load };
    Ok(ConfiguredComponent {
        name,
        file: typed.file,
        label: typed.label,
        load,
        limits,
        is_pinned: false,
        terms: LoadSettings::powerless(limits),
    })
}
