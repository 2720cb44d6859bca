//! The `[cell]` section as options of gateways and workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::cell::{
    CellTools, GatewayOptions, JobQueueOptions, LateResult, LimitsOf, NodeKey, NodeOptions, NodePublicKey,
};
use fumehood::listener::JobOptions;
use fumehood::{CallLog, Host, Tool};

use crate::config::Config;
use crate::config::cell::CellSection;
use crate::exit::UsageError;
use crate::render;

/// The first part of subjects, unless the configuration has another.
const DEFAULT_PREFIX: &str = "fumehood";
/// Maximum number of jobs that wait or run, unless the configuration has another.
const DEFAULT_QUEUED_JOBS: u32 = 1024;
/// Time for which a gateway waits for the first worker before it serves.
const FIRST_WORKER: Duration = Duration::from_secs(2);

/// The role in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends calls to workers.
    Gateway,
    /// Runs calls for gateways.
    Worker,
}

/// Returns the section of a configuration.
///
/// # Errors
/// If there is none.
pub(crate) fn section(config: &Config) -> Result<&CellSection> {
    config.cell.as_ref().ok_or_else(|| {
        let file = config.origin.display();
        UsageError(format!("{file} has no [cell]; add `nats`, `name` and `key` there, and the keys of the others"))
            .into()
    })
}

/// Returns the options of this node: its key is read, and so is its password.
///
/// # Errors
/// If one of them cannot be read, or the section names nobody to work with.
pub(crate) fn node_options(config: &Config, role: Role) -> Result<NodeOptions> {
    let section = section(config)?;
    let (peers, key) = match role {
        Role::Gateway => (&section.workers, "workers"),
        Role::Worker => (&section.gateways, "gateways"),
    };
    if peers.is_empty() {
        let message =
            format!("[cell] names nobody in `{key}`; add NAME = \"ed25519:…\", as `fumehood cell key show` prints it");
        return Err(UsageError(message).into());
    }
    let peers = keys_of(peers)?;
    let read = |source: &fumehood::settings::ValueSource| {
        source.value(config.folder()).map_err(|reason| UsageError(format!("[cell] password: {reason}")))
    };
    let password = match (&section.user, &section.password) {
        (Some(user), Some(source)) => Some((user.clone(), read(source)?)),
        _ => None,
    };
    let file = |path: &std::path::PathBuf| config.path(path);
    Ok(NodeOptions {
        nats: section.nats.clone(),
        prefix: section.prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
        name: section.name.clone(),
        key: Arc::new(NodeKey::read(&config.path(&section.key))?),
        peers,
        password,
        tls_roots: section.tls_roots.as_ref().map(file),
        tls_identity: section
            .certificate
            .as_ref()
            .zip(section.certificate_key.as_ref())
            .map(|(a, b)| (file(a), file(b))),
    })
}

/// Returns the options of the queue of jobs; `None` if there is none.
///
/// # Errors
/// If the key of a node is malformed.
pub(crate) fn queue_options(config: &Config) -> Result<Option<JobQueueOptions>> {
    let section = section(config)?;
    if !section.jobs || config.jobs.off {
        return Ok(None);
    }
    let keep = config.jobs.keep.map_or_else(|| JobOptions::default().ttl, |time| time.0);
    let max_queued = section.queue.unwrap_or(DEFAULT_QUEUED_JOBS);
    let (gateways, workers) = (keys_of(&section.gateways)?, keys_of(&section.workers)?);
    Ok(Some(JobQueueOptions { gateways, workers, max_queued, keep }))
}

fn keys_of(nodes: &BTreeMap<String, String>) -> Result<BTreeMap<String, NodePublicKey>> {
    nodes.iter().map(|(name, public)| Ok((name.clone(), public.parse()?))).collect()
}

/// Returns the limits of tools as this host loaded them.
pub(crate) fn limits_of(host: &Host) -> LimitsOf {
    let host = host.clone();
    Arc::new(move |tool: &Tool| {
        let component = tool.namespace().and_then(|name| host.component(name.as_str()));
        component.map_or(*host.limits(), |component| *component.limits())
    })
}

/// Joins the cell as a gateway without tools, to talk to workers.
///
/// # Errors
/// If the section is incomplete, or the server cannot be reached.
pub(crate) async fn join_without_tools(config: &Config) -> Result<CellTools> {
    CellTools::join_without_tools(node_options(config, Role::Gateway)?)
        .await
        .context("the cell cannot be joined; look at [cell] and at the NATS server")
}

/// Joins the cell as a gateway for the tools of a host.
///
/// # Errors
/// If the section is incomplete, or the server cannot be reached.
pub(crate) async fn join(
    config: &Config,
    host: &Host,
    has_typed_store: bool,
    log: Option<CallLog>,
) -> Result<CellTools> {
    let section = section(config)?;
    let mut local: BTreeSet<String> = section.local.iter().cloned().collect();
    // What a tool keeps has one owner: this gateway.
    local.extend(config.tools.iter().filter(|(_, tool)| tool.key_value.is_some()).map(|(name, _)| name.clone()));
    if has_typed_store {
        let namespaces = host.tools().into_iter().filter_map(|tool| tool.namespace().map(ToString::to_string));
        local.extend(namespaces.filter(|name| !config.tools.contains_key(name)));
    }
    let runtime = tokio::runtime::Handle::current();
    let on_late = Arc::new(move |late: LateResult| {
        let log = log.clone();
        render::warning(&format!("a result of the worker `{}` arrived after its call had ended", late.worker));
        runtime.spawn(async move {
            if let (Some(log), Some(result)) = (log, late.result) {
                // The log itself tells the next call if it cannot record.
                let _recorded = log.record_late(&late.worker, &result).await;
            }
        });
    });
    let options =
        GatewayOptions { local, retry_repeatable: section.retry_repeatable, limits: limits_of(host), on_late };
    let cell = CellTools::join(node_options(config, Role::Gateway)?, Arc::new(host.clone()), options)
        .await
        .context("this gateway cannot join its cell; look at [cell] and at the NATS server")?;
    if !cell.wait_for_workers(FIRST_WORKER).await {
        render::warning("no worker of the cell announces itself yet; start one with `fumehood worker`");
    }
    Ok(cell)
}
