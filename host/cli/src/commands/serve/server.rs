//! `fumehood serve`: serves the tools of components and of MCP servers over MCP, as an HTTP API, or both on one listener.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::dependency::Dependency;
use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{
    CallSink, HttpOptions, HttpService, Jobs, Listener, RunningCalls, Tenant, TenantTools, Tenants, Token,
};
use fumehood::mcp::{LogLevel, McpService, Server, ServerOptions};
use fumehood::settings::LimitsSection;
use fumehood::telemetry::{Metrics, MetricsService};
use fumehood::{CancellationToken, Grant, Host, Limits, McpTools};
use fumehood_author::cases::grant_program;
use tokio::task::JoinHandle;

use super::cell::JoinedCell;
use super::jobs::{self, ServedJobs};
use super::offered_tools::{OfferedTools, Sources, offer};
use super::served_components::{ServeRequest, ServedComponents};
use super::sessions::ServedSessions;
use super::tenants::SavedUsage;
use super::watch::Triggers;
use super::{cell, dashboard, settings, watch};
use crate::app::App;
use crate::args::{Arguments, ServeMcp, ServeOptions, limits_over};
use crate::config::Config;
use crate::configured::{self, ConfiguredComponent, LoadSettings, Version};
use crate::exit::{Exit, UsageError};
use crate::grants::{Grants, wishes_of_file};
use crate::logging::{self, Starting};
use crate::power_arguments::PowerArguments;
use crate::recording::{EntryPoint, Recording};
use crate::service_manager::{self, ServiceState};
use crate::{host, list_notices, log_place, render, servers, signals, telemetry};

/// Maximum value of `--memory`, in bytes: every slot in the pool has that much address space.
const MAX_MEMORY_BYTES: usize = 1 << 30;

/// Name of the tenant over standard input and output.
const ONLY_CLIENT: &str = "client";

/// Name of the tenant whose tools have metrics: all of them. It makes no calls.
const METRICS: &str = "metrics";

/// The protocols that are served, and where.
pub(crate) enum Faces<'a> {
    /// MCP, over standard input and output or HTTP.
    Mcp(&'a ServeMcp),
    /// The HTTP API, at the typed address or that of the configuration.
    Http(Option<SocketAddr>),
    /// Both on one listener.
    Both(Option<SocketAddr>),
    /// Both on one listener, for the author of a component. A configuration is used only if it was named.
    Development {
        listen: SocketAddr,
        /// Gets the ends of calls.
        calls: Arc<dyn CallSink>,
    },
}

impl Faces<'_> {
    fn entry_point(&self) -> EntryPoint {
        match self {
            Self::Mcp(_) => EntryPoint::ServeMcp,
            Self::Http(_) => EntryPoint::ServeHttp,
            Self::Both(_) | Self::Development { .. } => EntryPoint::Serve,
        }
    }

    /// Opens the configuration; for development, only one that was named.
    fn open_app<'a>(&self, arguments: &'a Arguments) -> Result<App<'a>> {
        let is_development = matches!(self, Self::Development { .. });
        App::open_if(arguments, !is_development || arguments.config.is_some())
    }

    /// Sends the ends of calls to whoever develops the component.
    fn follow(&self, running: &RunningCalls) {
        if let Self::Development { calls, .. } = self {
            running.subscribe(Arc::clone(calls));
        }
    }

    fn has_mcp(&self) -> bool {
        !matches!(self, Self::Http(_))
    }

    fn has_api(&self) -> bool {
        !matches!(self, Self::Mcp(_))
    }

    /// Returns the options of the listener, and the token if a new one was generated; `None` for standard input and
    /// output.
    fn listener_options(&self, typed: &ServeOptions, config: &Config) -> Result<Option<(HttpOptions, Option<Token>)>> {
        let (address, drain) = match self {
            Self::Mcp(mcp) => match settings::mcp_address(mcp, config)? {
                Some(address) => (address, Duration::ZERO),
                None => return Ok(None),
            },
            Self::Http(typed) | Self::Both(typed) => (settings::api_address(*typed, config)?, settings::drain(config)),
            Self::Development { listen, .. } => (*listen, Duration::ZERO),
        };
        settings::listener_options(typed, config, address, drain).map(Some)
    }
}

/// A listener that accepts connections already, and rejects requests until its services are opened.
pub(super) struct OpenListener {
    pub(super) listener: Arc<Listener>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl OpenListener {
    /// Listens at the socket that the service manager passed on, or else at the address of the options.
    async fn start_as_service(options: HttpOptions) -> Result<Self> {
        let listener = match service_manager::take_listener().context("the socket of the service manager")? {
            Some(socket) => Listener::from_socket(socket, options)?,
            None => Listener::bind(options).await?,
        };
        Ok(Self::of(listener))
    }

    /// Listens at the address of the options.
    pub(super) async fn start(options: HttpOptions) -> Result<Self> {
        Ok(Self::of(Listener::bind(options).await?))
    }

    fn of(listener: Listener) -> Self {
        let listener = Arc::new(listener);
        let stop = CancellationToken::new();
        let served = Arc::clone(&listener);
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { served.serve(stopped.cancelled()).await });
        Self { listener, stop, serving }
    }

    /// Opens the services, and serves them until `stop` completes. Calls then have `grace` to end.
    async fn serve(self, services: Vec<Arc<dyn HttpService>>, stop: impl Future, grace: Duration) -> Result<()> {
        self.listener.services().open(services);
        service_manager::notify(ServiceState::Ready);
        service_manager::keep_alive();
        stop.await;
        logging::emit_stopping("signal", grace);
        service_manager::notify(ServiceState::Stopping);
        self.end().await
    }

    /// Ends what is open, and waits for it.
    pub(super) async fn end(self) -> Result<()> {
        self.stop.cancel();
        self.serving.await.context("the listener ended early")
    }
}

pub(crate) async fn run(arguments: &Arguments, serve: &ServeOptions, faces: Faces<'_>) -> Result<Exit> {
    let app = faces.open_app(arguments)?;
    let config = &app.config;
    let metrics = telemetry::begin_metered(config)?;
    announce(&app, serve, faces.entry_point())?;
    let configured = configured_components(&app, serve).await?;
    let http = faces.listener_options(serve, config)?;
    let options = settings::server_options(serve, config)?;
    let (listening, dashboard) = listen(http, serve, config).await?;
    let tenants = listening.as_ref().map(|listening| listening.listener.tenants());
    // Before anything is loaded: only existing files can be protected from tools.
    let sessions = if faces.has_api() { ServedSessions::read(config)? } else { None };
    let recording = Recording::begin(&serve.recording, config, faces.entry_point(), serve.actor.as_deref()).await?;
    let served_jobs = ServedJobs::open(config, recording.as_ref());
    let own = OwnFiles { recording: recording.as_ref(), jobs: served_jobs.as_ref() };
    let (host, components) = load_components(&app, serve, configured, own).await?;
    let remotes = connect_servers(&app, serve, &options.log_level).await?;
    let usage = open_usage(serve, config, tenants.as_ref()).await?;
    let cell = cell::join(&app, serve, &host, recording.as_ref()).await?;
    depend(recording.as_ref(), cell.as_ref(), listening.as_ref(), metrics.as_deref());
    let queued = cell.as_ref().and_then(|cell| cell.jobs.clone());
    let jobs = served_jobs.map(|served| served.jobs(config, recording.as_ref(), queued)).transpose()?;
    let libraries = remotes.as_ref().map(|remotes| remotes.libraries()).unwrap_or_default();
    let options = ServerOptions { jobs: jobs.clone(), servers: libraries.into(), ..options };
    let sources = Sources { host: &host, cell: cell.map(|cell| cell.tools), remotes: remotes.clone() };
    let offered = offer(serve, config, sources, recording.as_ref(), usage.ledger())?;
    let sessions = sessions.map(|sessions| offered.agents(sessions, &host, recording.as_ref()));
    let running = offered.tools.running().clone();
    if let Some(metrics) = &metrics {
        follow(metrics, &offered.tools);
    }
    faces.follow(&running);
    if let Some(dashboard) = &dashboard {
        let shown = dashboard::Sources {
            tools: offered.behind_code.clone(),
            tenants: tenants.clone(),
            host: &host,
            servers: remotes.as_ref(),
            recording: recording.as_ref(),
        };
        dashboard::open(dashboard, shown, serve, config)?;
    }
    let grace = settings::shutdown_grace(config);
    let mut signals = signals::listen_for_stop()?;
    let watching = CancellationToken::new();
    let triggers = Triggers { files: serve.watch, hangup: listening.is_some(), arrived: None };
    let watch = watch::start(components.with_tenants(tenants), triggers, watching.clone())?;
    let served = match listening {
        Some(listening) => {
            let listener = &listening.listener;
            let (mut services, urls) = services(
                &faces,
                offered.tools,
                options,
                settings::api_options(serve, recording.as_ref(), jobs.clone(), sessions),
                listener,
            )?;
            if let Some(metrics) = metrics.filter(|_| !config.telemetry.no_metrics) {
                // Before the API, whose paths include that of the running calls.
                services.insert(0, metrics_service(serve, config, metrics, running, listener));
            }
            started("at", &urls, &offered.names);
            listening.serve(services, signals.received(), grace).await
        }
        None => serve_stdio(&offered, options, signals.received(), grace).await,
    };
    ServerParts { dashboard, watching, watch, host, jobs, usage, remotes, recording }.close(grace, served).await
}

/// Serves the client at standard input and output, until it leaves or `stop` completes.
async fn serve_stdio(offered: &OfferedTools, options: ServerOptions, stop: impl Future, grace: Duration) -> Result<()> {
    started("over", "standard input and output", &offered.names);
    let tools = offered.tools.of(&Arc::new(Tenant::anyone(ONLY_CLIENT)));
    let served = Server::new(tools, options).serve_stdio(stop).await;
    logging::emit_stopping("the client left, or a signal", grace);
    Ok(served?)
}

/// Connects to the approved MCP servers of the configuration, if that was asked for.
async fn connect_servers(app: &App<'_>, serve: &ServeOptions, log_level: &LogLevel) -> Result<Option<Arc<McpTools>>> {
    if !serve.servers {
        return Ok(None);
    }
    let remotes = Arc::new(servers::connect(&app.config, app.lock()?, log_level).await?);
    list_notices::follow(&remotes, &app.config);
    Ok(Some(remotes))
}

/// Opens the usage of tenants. The gateways of a cell share it if the configuration says so.
async fn open_usage(serve: &ServeOptions, config: &Config, tenants: Option<&Tenants>) -> Result<SavedUsage> {
    let mut usage = SavedUsage::open(config, tenants.is_some())?;
    if let Some(leases) = cell::shared_budgets(serve, config).await? {
        usage.share(&leases, tenants);
    }
    Ok(usage)
}

/// The parts of a server that has stopped serving.
struct ServerParts {
    dashboard: Option<OpenListener>,
    watching: CancellationToken,
    watch: Option<std::thread::JoinHandle<()>>,
    host: Host,
    jobs: Option<Jobs>,
    usage: SavedUsage,
    remotes: Option<Arc<McpTools>>,
    recording: Option<Recording>,
}

impl ServerParts {
    /// Ends the running calls within `grace`, and closes everything in order.
    async fn close(self, grace: Duration, served: Result<()>) -> Result<Exit> {
        if let Some(dashboard) = self.dashboard {
            dashboard.end().await?;
        }
        self.watching.cancel();
        tokio::join!(self.host.shutdown(grace), jobs::close(self.jobs, grace));
        self.usage.close().await;
        if let Some(remotes) = self.remotes {
            remotes.close().await;
        }
        // The token above is cancelled, so this does not wait for changes of files.
        if let Some(watch) = self.watch {
            let _panicked = watch.join();
        }
        if let Some(recording) = self.recording {
            recording.end(if served.is_ok() { "ok" } else { "host" }).await?;
        }
        logging::emit_stopped(served.as_ref().err().map(|error| format!("{error:#}")));
        served.map(|()| Exit::Ok)
    }
}

/// Adds the event log and the cell to the checks of readiness and to the metrics.
fn depend(
    recording: Option<&Recording>,
    cell: Option<&JoinedCell>,
    listening: Option<&OpenListener>,
    metrics: Option<&Metrics>,
) {
    let log = recording.map(|recording| Arc::clone(recording.event_log()) as Arc<dyn Dependency>);
    for dependency in log.into_iter().chain(cell.map(|cell| Arc::clone(&cell.dependency))) {
        if let Some(listening) = listening {
            listening.listener.depend_on(Arc::clone(&dependency));
        }
        if let Some(metrics) = metrics {
            metrics.follow_dependency(dependency);
        }
    }
}

/// Counts the tools and their calls in the metrics.
fn follow(metrics: &Arc<Metrics>, tools: &TenantTools) {
    metrics.follow_tools(&tools.of(&Arc::new(Tenant::anyone(METRICS))));
    tools.running().subscribe(Arc::clone(metrics) as Arc<dyn CallSink>);
}

/// Creates the services of a listener, and the URLs that they have there.
fn services(
    faces: &Faces<'_>,
    tools: TenantTools,
    options: ServerOptions,
    api: ApiOptions,
    listener: &Listener,
) -> Result<(Vec<Arc<dyn HttpService>>, String)> {
    let mut services: Vec<Arc<dyn HttpService>> = Vec::new();
    let mut urls = Vec::new();
    let base = format!("http://{}", listener.address());
    if faces.has_mcp() {
        services.push(Arc::new(McpService::with_tools(tools.clone(), options, listener)));
        urls.push(format!("{base}/mcp"));
    }
    if faces.has_api() {
        let api = Api::with_tools(tools, api, listener);
        services.push(Arc::new(api.context("the system returned no random bytes for ids of calls")?));
        urls.push(format!("{base}/v1"));
    }
    Ok((services, urls.join(" and ")))
}

/// Creates the service of the metrics, for the readers of the configuration.
fn metrics_service(
    serve: &ServeOptions,
    config: &Config,
    metrics: Arc<Metrics>,
    running: RunningCalls,
    listener: &Listener,
) -> Arc<dyn HttpService> {
    let actor = serve.actor.as_deref().map(Arc::from);
    Arc::new(MetricsService::new(metrics, running, config.telemetry.metrics_readers.clone(), actor, listener))
}

/// Binds the addresses of clients and of the dashboard, if there are any. Shows a new token only after that, so that it is one
/// that works.
async fn listen(
    http: Option<(HttpOptions, Option<Token>)>,
    serve: &ServeOptions,
    config: &Config,
) -> Result<(Option<OpenListener>, Option<OpenListener>)> {
    let (http, new_token) = http.unzip();
    let listening = match http {
        Some(http) => Some(OpenListener::start_as_service(http).await?),
        None => None,
    };
    let dashboard = dashboard::listen(serve, config).await?;
    if let Some(token) = new_token.flatten() {
        // Not an event of the log: a collector of lines must not learn it.
        render::note_lines(&format!("bearer token for clients: {}", token.reveal()));
    }
    Ok((listening, dashboard))
}

/// Tells the operator that a service starts, before it loads anything.
fn announce(app: &App<'_>, serve: &ServeOptions, command: EntryPoint) -> Result<()> {
    let log = log_place::place_for(&serve.recording, &app.config)?;
    let starting = Starting {
        command: command.as_str(),
        configuration: app.config.origin.exists().then(|| app.config.origin.display().to_string()),
        isolation: app.arguments.isolation.unwrap_or_default().as_str(),
        event_log: log.map(|place| place.to_string()),
    };
    starting.emit();
    Ok(())
}

/// Tells the operator that these tools are served at an address.
fn started(preposition: &str, address: &str, tools: &[String]) {
    let count = tools.len();
    let noun = if count == 1 { "tool" } else { "tools" };
    let message = format!("serving {count} {noun} {preposition} {address}");
    logging::emit_started(&message, address, tools);
    render::note_of_event(&message);
}

/// Returns the components of the configuration. It is asked for before a token is made and shown.
///
/// # Errors
/// If they cannot be had, or there is nothing to serve.
async fn configured_components(app: &App<'_>, serve: &ServeOptions) -> Result<Vec<ConfiguredComponent>> {
    let config = &app.config;
    if let Some(address) = serve.components.iter().filter_map(|it| it.to_str()?.parse::<SocketAddr>().ok()).next() {
        let message = format!(
            "`{address}` is an address and not a component; write `--dashboard={address}` for the dashboard, or \
             `--listen {address}` for clients"
        );
        return Err(UsageError(message).into());
    }
    let configured = app.components(Version::Pinned).await?;
    let may_appear = serve.watch && config.origin.exists();
    let has_servers = serve.servers && !config.mcp.servers.is_empty();
    if configured.is_empty() && serve.components.is_empty() && !may_appear && !config.has_texts() && !has_servers {
        let servers = if config.mcp.servers.is_empty() { "" } else { ", or serve its MCP servers with `--servers`" };
        let message = format!("nothing to serve; name components, or add [tools] to fumehood.toml{servers}");
        return Err(UsageError(message).into());
    }
    Ok(configured)
}

/// The parts of a server whose files no tool may reach.
#[derive(Clone, Copy)]
struct OwnFiles<'a> {
    recording: Option<&'a Recording>,
    jobs: Option<&'a ServedJobs>,
}

/// Creates a host and loads all components: those of the command line with the powers of the options, those of the
/// configuration with their powers there, as far as they are approved.
async fn load_components(
    app: &App<'_>,
    serve: &ServeOptions,
    configured: Vec<ConfiguredComponent>,
    own: OwnFiles<'_>,
) -> Result<(Host, ServedComponents)> {
    let config = &app.config;
    let typed_files = configured::without_configured(config, &serve.components)?;
    let defaults = config.limits.over(Limits::default());
    let terms = typed_terms(config, serve, &typed_files).await?;
    let limits = limits_over(&terms.limits, defaults, MAX_MEMORY_BYTES)?;
    let max_memory = configured.iter().map(|component| component.limits.memory).max().unwrap_or(0).max(limits.memory);
    let builder =
        if configured.is_empty() && !serve.watch { host::builder(app.arguments) } else { app.host_builder()? };
    let builder = host::with_components(builder, &typed_files);
    let builder = host::with_typed_secrets(builder, &terms.powers);
    let builder = host::with_typed_store(builder, config, &terms.powers, &typed_files)?;
    let mut builder = host::with_secret_file(builder, serve.http.token_file.as_deref());
    if let Some(recording) = own.recording {
        builder = recording.protect(builder);
    }
    if let Some(jobs) = own.jobs {
        builder = jobs.protect(builder);
    }
    if let Some(notes) = &config.agent.memory {
        builder = builder.own_folder(config.path(notes));
    }
    let concurrency = settings::concurrency(serve, config);
    let queue_length = settings::queue_length(serve, config);
    let host =
        builder.concurrency(concurrency).queue(queue_length).limits(limits).memory_ceiling(max_memory).build()?;
    let mut typed = Vec::new();
    let grant = terms.powers.grant_for(&typed_files, "on the command line")?;
    for component in &typed_files {
        let mut component = typed_component(config, component, limits, &grant, serve.powers.strict_imports).await?;
        if let Some(program) = &serve.program {
            let grant = grant_program(grant.clone(), program)?;
            component.load = component.load.grant(grant).describe_with_grant();
        }
        typed.push(component);
    }
    let request = ServeRequest {
        source: app.source.clone().without_asking(),
        config: config.clone(),
        typed,
        configured,
        allow_slow_compile: serve.allow_slow_compile,
        persist: own.recording.map(|recording| recording.persist().clone()).unwrap_or_default(),
    };
    let components = ServedComponents::load(host.clone(), request).await?;
    Ok((host, components))
}

/// The powers and limits of the components on the command line.
struct TypedTerms {
    powers: PowerArguments,
    limits: LimitsSection,
}

/// Returns the powers and limits of the options, and of the wishes that variables answer if the options allow that.
///
/// # Errors
/// If there is not one component whose wishes are meant, or it cannot be read.
async fn typed_terms(config: &Config, serve: &ServeOptions, typed: &[PathBuf]) -> Result<TypedTerms> {
    let mut terms = TypedTerms { powers: serve.powers.clone(), limits: serve.limits.clone() };
    if !serve.wishes_from_env {
        return Ok(terms);
    }
    let [only] = typed else {
        let found = typed.len();
        let message = format!("`--wishes-from-env` takes one component; the command line names {found}");
        return Err(UsageError(message).into());
    };
    let file = host::typed_component(config, only, serve.allow_slow_compile).await?.file;
    let wishes = wishes_of_file(&file)?;
    let mut grants = Grants::typed(&terms.powers.typed, &terms.limits);
    grants.take_answers(&wishes, &|name| std::env::var(name).ok(), Path::new("."));
    let (powers, limits) = grants.into_parts();
    terms.powers.typed = powers;
    terms.limits = limits;
    Ok(terms)
}

/// Prepares a component of the command line, with the powers of the options.
pub(crate) async fn typed_component(
    config: &Config,
    typed: &Path,
    limits: Limits,
    grant: &Grant,
    is_strict: bool,
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
