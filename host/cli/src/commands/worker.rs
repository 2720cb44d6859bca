//! `fumehood worker`: runs the calls of the gateways of a cell.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::cell::Worker;
use fumehood::{Host, Limits};

use crate::args::{Arguments, Worker as WorkerArguments};
use crate::cell::{self, Role};
use crate::config::Config;
use crate::configured::{self, Version};
use crate::exit::{Exit, UsageError};
use crate::service_manager::{self, ServiceState};
use crate::trust::ConfigSource;
use crate::{host, render, signals};

/// Default time that running calls have to end.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// Places for each processor, unless the configuration has a number.
const PLACES_PER_PROCESSOR: u32 = 2;
/// Places of the host beyond those of the worker: one is free again only when its guest is gone, after its result was sent.
const SPARE_PLACES: u32 = 8;

/// Runs the command.
pub(crate) async fn run(arguments: &Arguments, worker: &WorkerArguments) -> Result<Exit> {
    let config = ConfigSource::from_arguments(arguments).open()?;
    let options = cell::node_options(&config, Role::Worker)?;
    let name = options.name.clone();
    let processors = available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    let default = processors.saturating_mul(PLACES_PER_PROCESSOR);
    let places = cell::section(&config)?.places.unwrap_or(default);
    let host = load(arguments, &config, worker, places).await?;
    let count = host.tools().iter().filter(|tool| tool.is_approved()).count();
    if count == 0 {
        let message = "this worker has no tool that may be called; name components, or approve those of [tools]";
        return Err(UsageError(message.to_owned()).into());
    }
    let mut signals = signals::listen_for_stop()?;
    let size = usize::try_from(places).unwrap_or(usize::MAX);
    let joined = Worker::join(options, Arc::new(host.clone()), cell::limits_of(&host), size)
        .await
        .context("this worker cannot join its cell; look at [cell] and at the NATS server")?;
    service_manager::notify(ServiceState::Ready);
    service_manager::keep_alive();
    render::note(&format!("the worker `{name}` runs {count} tools, {places} calls at the same time"));
    let stop = async {
        signals.received().await;
        service_manager::notify(ServiceState::Stopping);
        render::note("this worker takes no more calls, and ends with the last of those that run");
    };
    let served = joined.serve(stop, worker.grace.unwrap_or(DEFAULT_GRACE)).await;
    host.shutdown(Duration::ZERO).await;
    served?;
    Ok(Exit::Ok)
}

/// Loads the components of the command line, without powers, and those of the configuration with theirs.
async fn load(arguments: &Arguments, config: &Config, worker: &WorkerArguments, places: u32) -> Result<Host> {
    let configured = configured::all(config, &configured::open_lock(config)?, Version::Pinned).await?;
    let limits = config.limits.over(Limits::default());
    let max_memory = configured.iter().map(|component| component.limits.memory).max().unwrap_or(0).max(limits.memory);
    let builder = host::with_components(host::builder_for(arguments, config)?, &worker.components);
    let concurrency = places.saturating_add(SPARE_PLACES);
    let host = builder.concurrency(concurrency).limits(limits).memory_ceiling(max_memory).build()?;
    for file in &worker.components {
        let typed = host::typed_component(config, file, false).await?;
        host::load(&host, &typed.label, typed.load).await?;
    }
    for component in configured {
        host::load(&host, &component.label, component.load).await?;
    }
    Ok(host)
}
