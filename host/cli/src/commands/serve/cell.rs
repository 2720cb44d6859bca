//! Joining a cell, in programs that were built with cells.

use std::sync::Arc;

use anyhow::Result;
use fumehood::dependency::Dependency;
use fumehood::job::JobStore;
use fumehood::listener::BudgetLeases;
use fumehood::{Host, ToolProvider};

use crate::app::App;
use crate::args::ServeOptions;
use crate::config::Config;
use crate::recording::Recording;

/// A cell, as its gateway needs it.
#[cfg_attr(not(feature = "cell"), allow(dead_code, reason = "nothing makes one without cells"))]
pub(super) struct JoinedCell {
    /// The tools of the host, with their calls at the workers of the cell.
    pub(super) tools: Arc<dyn ToolProvider>,
    /// The same, as a part of the service that can be lost.
    pub(super) dependency: Arc<dyn Dependency>,
    pub(super) jobs: Option<QueuedJobs>,
}

/// The jobs that all gateways of a cell share.
#[cfg_attr(not(feature = "cell"), allow(dead_code, reason = "nothing makes one without cells"))]
#[derive(Clone)]
pub(super) struct QueuedJobs {
    pub(super) store: Arc<dyn JobStore>,
    /// Returns whether the calls of a tool run at workers.
    pub(super) is_remote: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Joins the cell, if that was asked for.
#[cfg(feature = "cell")]
pub(super) async fn join(
    app: &App<'_>,
    serve: &ServeOptions,
    host: &Host,
    recording: Option<&Recording>,
) -> Result<Option<JoinedCell>> {
    use anyhow::Context as _;
    use fumehood::cell::CellJobs;

    if !serve.cell {
        return Ok(None);
    }
    let config = &app.config;
    crate::pushed_components::push(config, app.source.clone().without_asking()).await?;
    let log = recording.map(|recording| recording.calls().clone());
    let tools = Arc::new(crate::cell::join(config, host, log).await?);
    let jobs = match crate::cell::queue_options(config)? {
        None => None,
        Some(options) => {
            let store = CellJobs::open(&tools, options).await;
            let store = Arc::new(store.context("the jobs of the cell; check [cell] and the NATS server")?);
            let remote = Arc::clone(&tools);
            Some(QueuedJobs { store, is_remote: Arc::new(move |tool| remote.is_remote(tool)) })
        }
    };
    let dependency = Arc::clone(&tools) as Arc<dyn Dependency>;
    Ok(Some(JoinedCell { tools, dependency, jobs }))
}

/// Returns the budgets of tenants that the gateways of the cell share, if that was asked for.
#[cfg(feature = "cell")]
pub(super) async fn shared_budgets(serve: &ServeOptions, config: &Config) -> Result<Option<BudgetLeases>> {
    if !serve.cell {
        return Ok(None);
    }
    crate::cell::shared_budgets(config).await
}

/// Returns nothing: this program was built without cells.
#[cfg(not(feature = "cell"))]
pub(super) async fn shared_budgets(_: &ServeOptions, _: &Config) -> Result<Option<BudgetLeases>> {
    Ok(None)
}

/// Returns nothing: this program was built without cells.
#[cfg(not(feature = "cell"))]
pub(super) async fn join(_: &App<'_>, _: &ServeOptions, _: &Host, _: Option<&Recording>) -> Result<Option<JoinedCell>> {
    Ok(None)
}
