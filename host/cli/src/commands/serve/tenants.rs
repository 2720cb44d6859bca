//! The clients of a listener: from the options and the configuration, at the start and when it changes; and what they used.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fumehood::CancellationToken;
use fumehood::listener::{Access, BudgetLeases, DayUsage, Tenant, Tenants, Token, UsageEntry, UsageLedger};
use fumehood::settings::read_value;
use fumehood::usage::{TenantDay, UsageStore};
use tokio::task::JoinHandle;

use crate::args::{Http, ServeOptions};
use crate::config::Config;
use crate::config::tenant::tenants;
use crate::exit::UsageError;
use crate::source::token_of_environment;
use crate::{render, user_folders};

/// Name of the only tenant, where there is one token for all clients.
const ONLY_TENANT: &str = "client";
/// Interval at which usage is written to disk: what a crash may lose.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Returns the clients that may call, and the token of the only one if it was generated: it is to be shown once.
///
/// # Errors
/// If the token cannot be read, or an option contradicts the configuration.
pub(crate) fn access(typed: &ServeOptions, config: &Config) -> Result<(Access, Option<Token>)> {
    let http = &typed.http;
    if !config.tenants.is_empty() {
        let contradicts = [
            ("--no-auth", http.no_auth),
            ("--token-file", http.token_file.is_some()),
            ("--actor", typed.actor.is_some()),
        ];
        if let Some((flag, _)) = contradicts.into_iter().find(|(_, is_typed)| *is_typed) {
            let message = format!("`{flag}` conflicts with [tenants]; leave one of them out");
            return Err(UsageError(message).into());
        }
        return Ok((Access::Tenants(tenants(config)), None));
    }
    if http.no_auth || (config.serve.no_token && http.token_file.is_none()) {
        return Ok((Access::Anyone, None));
    }
    let given = given_token(http, config)?;
    let is_new = given.is_none();
    let token = given.map_or_else(Token::generate, Ok)?;
    let tenant = Tenant::new(ONLY_TENANT, &token);
    let tenant = Tenant { actor: typed.actor.as_deref().map(Arc::from), ..tenant };
    Ok((Access::Tenants(vec![tenant]), is_new.then_some(token)))
}

/// Returns the token that all clients must present, if there is one.
fn given_token(typed: &Http, config: &Config) -> Result<Option<Token>> {
    if let Some(path) = &typed.token_file {
        return Ok(Some(Token::read(path)?));
    }
    if let Some(source) = &config.serve.token {
        let value =
            read_value(source, config.folder()).map_err(|error| UsageError(format!("[serve] `token`: {error}")))?;
        return Ok(Some(Token::parse(&value)?));
    }
    token_of_environment()
}

/// Replaces the clients of a listener by those of a configuration that changed.
///
/// # Errors
/// If one of the configurations has no tenants, so that a token of the start is involved. Nothing is changed then.
pub(super) fn replace(current: &Tenants, before: &Config, after: &Config) -> Result<()> {
    if before.serve.oauth != after.serve.oauth {
        render::warning("[serve.oauth] changed, which needs a restart");
    }
    if before.tenants == after.tenants {
        return Ok(());
    }
    if before.tenants.is_empty() != after.tenants.is_empty() {
        let message = "[tenants] was added or removed, which needs a restart";
        return Err(UsageError(message.to_owned()).into());
    }
    current.replace(tenants(after)).context("[tenants]")?;
    render::note("[tenants] changed and is in force");
    Ok(())
}

/// Usage of tenants that is kept on disk while the server runs.
pub(super) struct SavedUsage {
    ledger: UsageLedger,
    /// Slices of budgets that other gateways have, too.
    leases: Option<BudgetLeases>,
    stop: CancellationToken,
    /// `None` if nothing is kept.
    saving: Option<JoinHandle<()>>,
}

impl SavedUsage {
    /// Goes on with the usage of today, and saves it from now on. Without [tenants] or a listener nothing is
    /// kept.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub(super) fn open(config: &Config, has_listener: bool) -> Result<Self> {
        let ledger = UsageLedger::default();
        let stop = CancellationToken::new();
        if config.tenants.is_empty() || !has_listener {
            return Ok(Self { ledger, leases: None, stop, saving: None });
        }
        let store = UsageStore::open(user_folders::usage_of(config)?)?;
        ledger.restore(store.read(today())?.into_iter().map(|day| UsageEntry {
            tenant: Arc::from(day.tenant),
            day: day.day,
            usage: DayUsage { calls: day.calls, fuel: day.fuel, log_bytes: day.log_bytes },
        }));
        let saving = tokio::spawn(save_until(ledger.clone(), Arc::new(store), stop.clone()));
        Ok(Self { ledger, leases: None, stop, saving: Some(saving) })
    }

    /// Lets the budgets hold over all gateways that share these leases.
    pub(super) fn share(&mut self, leases: &BudgetLeases, tenants: Option<&Tenants>) {
        self.ledger = self.ledger.clone().shared(leases.clone());
        self.leases = Some(leases.clone());
        tenants.into_iter().for_each(|tenants| tenants.share_budgets(leases.clone()));
    }

    /// Returns the ledger to count in.
    pub(super) fn ledger(&self) -> UsageLedger {
        self.ledger.clone()
    }

    /// Saves what was used since the last time.
    pub(super) async fn close(self) {
        self.stop.cancel();
        if let Some(leases) = self.leases {
            leases.close().await;
        }
        if let Some(saving) = self.saving {
            let _panicked = saving.await;
        }
    }
}

/// Saves usage at an interval and at the end. An amount that cannot be saved is tried again.
async fn save_until(ledger: UsageLedger, store: Arc<UsageStore>, stop: CancellationToken) {
    let mut was_saved = true;
    loop {
        let is_last = stop.run_until_cancelled(tokio::time::sleep(SAVE_INTERVAL)).await.is_none();
        let unsaved = ledger.take_unsaved();
        if !unsaved.is_empty() {
            let store = Arc::clone(&store);
            let days = unsaved.iter().map(to_day).collect::<Vec<_>>();
            let saved = tokio::task::spawn_blocking(move || store.add(&days)).await;
            let failed = match saved {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(anyhow::Error::new(error)),
                Err(error) => Some(anyhow::Error::new(error)),
            };
            if let Some(error) = &failed {
                ledger.put_back(unsaved);
                if was_saved {
                    render::warning(&format!("{error:#}; daily budgets are kept only in memory for now"));
                }
            }
            was_saved = failed.is_none();
        }
        if is_last {
            return;
        }
    }
}

fn to_day(entry: &UsageEntry) -> TenantDay {
    let UsageEntry { tenant, day, usage } = entry;
    let &DayUsage { calls, fuel, log_bytes } = usage;
    TenantDay { day: *day, tenant: tenant.to_string(), calls, fuel, log_bytes }
}

fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / SECONDS_PER_DAY
}
