//! The `[cell]` section as options of gateways and workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::boxed::BoxFuture;
use fumehood::cell::{
    CellTools, GatewayOptions, JobQueueOptions, KeptValues, LateResult, LimitsOf, NatsCounters, NatsStore, NodeKey,
    NodeOptions, NodePublicKey, ServerOptions, WorkerOptions,
};
use fumehood::listener::{Budget, BudgetCounters, BudgetLeases, JobOptions, Lease};
use fumehood::settings::read_value;
use fumehood::{CallLog, Host, Tool};

use crate::config::Config;
use crate::config::cell::{CellSection, SharedStore};
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
        let message = if config.origin.exists() {
            format!(
                "{file} has no [cell]; add it with `nats`, `name` and `key`, and the public keys of the other nodes"
            )
        } else {
            format!("there is no {file}; name the configuration of this node with --config FILE")
        };
        UsageError(message).into()
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
            format!("`{key}` in [cell] is empty; add NAME = \"ed25519:…\", as `fumehood cell key show` prints it");
        return Err(UsageError(message).into());
    }
    let peers = keys_of(peers)?;
    let server = server_options(config, section)?;
    Ok(NodeOptions { server, key: Arc::new(NodeKey::read(&config.path(&section.key))?), peers })
}

/// Returns the way to the server: the password is read.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn server_options(config: &Config, section: &CellSection) -> Result<ServerOptions> {
    let password = match (&section.user, &section.password) {
        (Some(user), Some(source)) => {
            let password = read_value(source, config.folder());
            let password = password.map_err(|reason| UsageError(format!("[cell] password: {reason}")))?;
            Some((user.clone(), password))
        }
        _ => None,
    };
    let file = |path: &std::path::PathBuf| config.path(path);
    Ok(ServerOptions {
        nats: section.nats.clone(),
        prefix: section.prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
        name: section.name.clone(),
        password,
        tls_roots: section.tls_roots.as_ref().map(file),
        tls_identity: section
            .certificate
            .as_ref()
            .zip(section.certificate_key.as_ref())
            .map(|(a, b)| (file(a), file(b))),
    })
}

/// Returns the store of keys and values that the cell of a configuration shares, if it has one. It connects when it is used.
///
/// # Errors
/// If the password for the server cannot be read.
pub(crate) fn shared_store(config: &Config) -> Result<Option<NatsStore>> {
    match &config.cell {
        Some(section) if section.key_value == Some(SharedStore::Nats) => {
            Ok(Some(NatsStore::new(server_options(config, section)?)))
        }
        _ => Ok(None),
    }
}

/// Checks that the store which the cell shares can be used, and makes it if it is not there yet.
///
/// # Errors
/// If it cannot be used.
async fn check_shared_store(config: &Config) -> Result<()> {
    let Some(store) = shared_store(config)? else { return Ok(()) };
    store.open().await.context("cannot store the data of tools in NATS; check `key_value` in [cell]")
}

/// Returns the budgets of tenants that all gateways share, if the configuration says so.
///
/// # Errors
/// If their counters cannot be used.
pub(crate) async fn shared_budgets(config: &Config) -> Result<Option<BudgetLeases>> {
    let section = section(config)?;
    if section.budgets != Some(SharedStore::Nats) {
        return Ok(None);
    }
    let counters = NatsCounters::new(server_options(config, section)?);
    counters.open().await.context("cannot share budgets of tenants over NATS; check `budgets` in [cell]")?;
    Ok(Some(BudgetLeases::new(Arc::new(CellBudgets(counters)))))
}

/// The counters of a cell, as the listener knows them.
#[derive(Debug)]
struct CellBudgets(NatsCounters);

impl BudgetCounters for CellBudgets {
    fn lease(&self, budget: Budget, at_least: u64) -> BoxFuture<'_, Result<Lease, String>> {
        Box::pin(async move {
            let taken = self.0.take(&budget.tenant, budget.kind.name(), budget.window, budget.max, at_least).await;
            taken.map(|(window, amount)| Lease { window, amount }).map_err(|error| error.to_string())
        })
    }

    fn give_back(&self, budget: Budget, amount: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // What cannot be given back counts as used.
            let _lost = self.0.give_back(&budget.tenant, budget.kind.name(), budget.window, amount).await;
        })
    }
}

/// Returns the name of the store of keys and values that the configuration shares with others, if it has one. A database has the same
/// name where it has the same address.
///
/// # Errors
/// If a secret cannot be read.
fn shared_store_name(config: &Config) -> Result<Option<String>> {
    if let Some(store) = shared_store(config)? {
        return Ok(Some(store.name()));
    }
    #[cfg(feature = "postgres")]
    if let Some(server) = crate::storage_server::of(config)? {
        return Ok(Some(format!("postgres at {}", server.place())));
    }
    Ok(None)
}

/// Returns which tools of a host keep values, and where.
///
/// # Errors
/// Like [`shared_store`].
fn kept_values(config: &Config, host: &Host) -> Result<KeptValues> {
    let host = host.clone();
    let shared_store = shared_store_name(config)?;
    let keeps = move |tool: &Tool| {
        let component = tool.namespace().and_then(|name| host.component(name.as_str()));
        component.is_some_and(|component| component.keeps_values())
    };
    Ok(KeptValues { keeps: Arc::new(keeps), shared_store })
}

/// Returns the options of a worker with the components of a host.
///
/// # Errors
/// If the store that the cell shares cannot be used.
pub(crate) async fn worker_options(config: &Config, host: &Host, places: usize) -> Result<WorkerOptions> {
    check_shared_store(config).await?;
    Ok(WorkerOptions { limits: limits_of(host), kept_values: kept_values(config, host)?, places })
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
    let gateways = keys_of(&section.gateways)?;
    let workers = keys_of(&section.workers)?;
    Ok(Some(JobQueueOptions { gateways, workers, max_queued, keep }))
}

fn keys_of(nodes: &BTreeMap<String, String>) -> Result<BTreeMap<String, NodePublicKey>> {
    nodes.iter().map(|(name, public)| Ok((name.clone(), public.parse()?))).collect()
}

/// Returns the limits of tools as this host loaded them.
fn limits_of(host: &Host) -> LimitsOf {
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
        .context("cannot join the cell; check [cell] and the NATS server")
}

/// Joins the cell as a gateway for the tools of a host.
///
/// # Errors
/// If the section is incomplete, or the server cannot be reached.
pub(crate) async fn join(config: &Config, host: &Host, log: Option<CallLog>) -> Result<CellTools> {
    let section = section(config)?;
    check_shared_store(config).await?;
    let local: BTreeSet<String> = section.local.iter().cloned().collect();
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
    let options = GatewayOptions {
        local,
        retry_repeatable: section.retry_repeatable,
        limits: limits_of(host),
        kept_values: kept_values(config, host)?,
        on_late,
    };
    let cell = CellTools::join(node_options(config, Role::Gateway)?, Arc::new(host.clone()), options)
        .await
        .context("this gateway cannot join its cell; check [cell] and the NATS server")?;
    if !cell.wait_for_workers(FIRST_WORKER).await {
        render::warning("the cell has no running worker yet; start one with `fumehood worker`");
    }
    Ok(cell)
}
