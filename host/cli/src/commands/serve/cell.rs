//! Joining a cell, in programs that were built with cells.

use std::sync::Arc;

use anyhow::Result;
use fumehood::listener::BudgetLeases;
use fumehood::{Host, ToolProvider};

use crate::args::{Arguments, ServeOptions};
use crate::config::Config;
use crate::recording::Recording;
#[cfg(feature = "cell")]
use crate::trust::ConfigSource;

/// Joins the cell, if that was asked for. Returns the tools of the host, with their calls at its workers.
#[cfg(feature = "cell")]
pub(super) async fn join(
    arguments: &Arguments,
    serve: &ServeOptions,
    config: &Config,
    host: &Host,
    recording: Option<&Recording>,
) -> Result<Option<Arc<dyn ToolProvider>>> {
    if !serve.cell {
        return Ok(None);
    }
    crate::pushed_components::push(config, ConfigSource::from_arguments(arguments).without_asking()).await?;
    let log = recording.map(|recording| recording.calls().clone());
    Ok(Some(Arc::new(crate::cell::join(config, host, log).await?)))
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
pub(super) async fn join(
    _: &Arguments,
    _: &ServeOptions,
    _: &Config,
    _: &Host,
    _: Option<&Recording>,
) -> Result<Option<Arc<dyn ToolProvider>>> {
    Ok(None)
}
