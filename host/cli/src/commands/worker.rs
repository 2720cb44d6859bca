//! `fumehood worker`: runs the calls of the gateways of a cell, or tells a worker to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::cell::{DrainState, JobRunner, Worker};
use fumehood::{CancellationToken, Grant, Host, Limits};

use crate::app::App;
use crate::args::{Arguments, Worker as WorkerArguments, WorkerAction};
use crate::cell::{self, Role};
use crate::commands::serve::served_components::{ServeRequest, ServedComponents};
use crate::commands::serve::server::typed_component;
use crate::commands::serve::watch::{self, Triggers};
use crate::configured::Version;
use crate::exit::{Exit, UsageError};
use crate::logging::{self, Starting};
use crate::persist_rules::PersistRules;
use crate::service_manager::{self, ServiceState};
use crate::{host, pushed_components, render, signals, telemetry};

/// Default time that running calls have to end.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// Default time that a worker which was told to end has for it: its own grace, and more.
const DEFAULT_DRAIN_TIME: Duration = Duration::from_secs(60);
/// Places for each processor, unless the configuration has a number.
const PLACES_PER_PROCESSOR: u32 = 2;
/// Places of the host beyond those of the worker: one is free again only when its guest is gone, after its result was sent.
const SPARE_PLACES: u32 = 8;

pub(crate) async fn run(arguments: &Arguments, worker: &WorkerArguments) -> Result<Exit> {
    match &worker.action {
        Some(WorkerAction::Drain { name, timeout }) => {
            drain(arguments, name, timeout.unwrap_or(DEFAULT_DRAIN_TIME)).await
        }
        None => serve(arguments, worker).await,
    }
}

/// Returns the number of calls that run at the same time, unless the configuration has another.
pub(crate) fn default_places() -> u32 {
    let processors = available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    processors.saturating_mul(PLACES_PER_PROCESSOR)
}

async fn serve(arguments: &Arguments, worker: &WorkerArguments) -> Result<Exit> {
    let app = App::open(arguments)?;
    let config = &app.config;
    telemetry::begin(config)?;
    let options = cell::node_options(config, Role::Worker)?;
    let name = options.server.name.clone();
    announce(&app);
    let places = cell::section(config)?.places.unwrap_or_else(default_places);
    let arrived = pushed_components::fetch(config, app.source.clone().without_asking()).await?;
    let queue = cell::queue_options(config)?;
    let for_jobs = if queue.is_some() { places } else { 0 };
    let concurrency = places.saturating_add(for_jobs);
    let (host, components) = load(&app, &worker.components, concurrency).await?;
    let count = host.tools().iter().filter(|tool| tool.is_approved()).count();
    if count == 0 && arrived.is_none() {
        let message =
            "this worker has no tools that may be called; name components, or approve the components of [tools]";
        return Err(UsageError(message.to_owned()).into());
    }
    let mut signals = signals::listen_for_stop()?;
    let watching = CancellationToken::new();
    // Announcements name what the host has at their time, so that gateways know of a change at once.
    let watch = watch::start(components, Triggers { files: false, hangup: true, arrived }, watching.clone())?;
    let size = usize::try_from(places).unwrap_or(usize::MAX);
    let unusable = "this worker cannot join its cell; check [cell] and the NATS server";
    let worker_options = cell::worker_options(config, &host, size).await?;
    let joined = Worker::join(options, Arc::new(host.clone()), worker_options).await.context(unusable)?;
    let runner = match queue {
        Some(queue) => Some(JobRunner::open(&joined, queue, size).await.context(unusable)?),
        None => None,
    };
    let grace = worker.grace.unwrap_or(DEFAULT_GRACE);
    let ending = CancellationToken::new();
    let jobs = runner.map(|runner| {
        let ending = ending.clone();
        tokio::spawn(async move { runner.serve(ending, grace).await })
    });
    service_manager::notify(ServiceState::Ready);
    service_manager::keep_alive();
    let callable = host.tools().into_iter().filter(|tool| tool.is_approved());
    let callable: Vec<String> = callable.map(|tool| tool.full_name().to_owned()).collect();
    let message = format!("the worker `{name}` runs {count} tools, up to {places} calls at a time");
    logging::emit_started(&message, &name, &callable);
    render::note_of_event(&message);
    let drained = joined.clone();
    let stop = async {
        let reason = tokio::select! {
            () = signals.received() => "",
            () = drained.told_to_drain() => ", as a gateway requested",
        };
        ending.cancel();
        service_manager::notify(ServiceState::Stopping);
        logging::emit_stopping(if reason.is_empty() { "signal" } else { "a gateway requested it" }, grace);
        render::note(&format!("draining: this worker accepts no more calls and exits after its running calls{reason}"));
    };
    let served = joined.serve(stop, grace).await;
    if let Some(jobs) = jobs {
        let _panicked = jobs.await;
    }
    watching.cancel();
    host.shutdown(Duration::ZERO).await;
    // The token above is cancelled, so this does not wait for a signal.
    if let Some(watch) = watch {
        let _panicked = watch.join();
    }
    logging::emit_stopped(served.as_ref().err().map(ToString::to_string));
    served?;
    Ok(Exit::Ok)
}

/// Tells the operator that a worker starts, before it loads anything.
fn announce(app: &App<'_>) {
    let starting = Starting {
        command: "worker",
        configuration: Some(app.config.origin.display().to_string()),
        isolation: app.arguments.isolation.unwrap_or_default().as_str(),
        event_log: None,
    };
    starting.emit();
}

/// Tells a worker to end, in the name of the gateway of the configuration.
async fn drain(arguments: &Arguments, worker: &str, time: Duration) -> Result<Exit> {
    let config = App::open(arguments)?.config;
    if !cell::section(&config)?.workers.contains_key(worker) {
        return Err(UsageError(format!("unknown worker `{worker}`; [cell.workers] does not have it")).into());
    }
    let cell = cell::join_without_tools(&config).await?;
    let mut told = None;
    cell.drain(worker, time, |state| {
        if told.replace(state) != Some(state) {
            match state {
                DrainState::Running(count) => {
                    render::note(&format!("`{worker}` is draining; {count} calls are running"))
                }
                _ => render::note(&format!("`{worker}` has exited")),
            }
        }
    })
    .await?;
    Ok(Exit::Ok)
}

/// Loads these components, without powers, and those of the configuration with theirs.
pub(crate) async fn load(app: &App<'_>, components: &[PathBuf], places: u32) -> Result<(Host, ServedComponents)> {
    let config = &app.config;
    let lock = app.lock()?;
    let mut configured = app.components(Version::Pinned).await?;
    let limits = config.limits.over(Limits::default());
    let max_memory = configured.iter().map(|component| component.limits.memory).max().unwrap_or(0).max(limits.memory);
    // What is still to be fetched is loaded when it arrives.
    configured.retain(|component| !pushed_components::is_awaited(config, lock, component));
    let builder = host::with_components(app.host_builder()?, components);
    let concurrency = places.saturating_add(SPARE_PLACES);
    let host = builder.concurrency(concurrency).limits(limits).memory_ceiling(max_memory).build()?;
    let mut typed = Vec::new();
    for component in components {
        typed.push(typed_component(config, component, limits, &Grant::default(), false).await?);
    }
    let request = ServeRequest {
        source: app.source.clone().without_asking(),
        config: config.clone(),
        typed,
        configured,
        allow_slow_compile: false,
        persist: PersistRules::default(),
    };
    let components = ServedComponents::load(host.clone(), request).await?;
    Ok((host, components))
}
