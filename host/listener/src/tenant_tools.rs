//! The tools of each tenant: those that exist for it, with its budgets, and a fair share of the places.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext, CancellationToken};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall, unknown_tool};
use tokio_util::sync::{CancellationToken as Cancellation, DropGuard};

use crate::call_places::CallPlaces;
use crate::tenant::Tenant;
use crate::usage::UsageLedger;

/// Puts something in front of the tools of a tenant, such as programs that call them.
type Layer = Arc<dyn Fn(Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> + Send + Sync>;
/// The tools that were made for a tenant.
type Made = (Arc<Tenant>, Arc<dyn ToolProvider>);

/// The tools of each tenant. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct TenantTools {
    tools: Arc<dyn ToolProvider>,
    layer: Option<Layer>,
    places: Option<CallPlaces>,
    usage: UsageLedger,
    made: Arc<RwLock<HashMap<Arc<str>, Made>>>,
}

impl fmt::Debug for TenantTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantTools").finish_non_exhaustive()
    }
}

impl TenantTools {
    /// Creates the tools of all tenants: those of `tools` that their filters allow.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolProvider>) -> Self {
        Self { tools, layer: None, places: None, usage: UsageLedger::default(), made: Arc::default() }
    }

    /// Limits the calls that run at once, of all tenants together. A free place goes to the tenant with the fewest running
    /// calls; at most `max_waiting` calls wait.
    #[must_use]
    pub fn places(self, places: usize, max_waiting: usize) -> Self {
        Self { places: Some(CallPlaces::new(places, max_waiting)), made: Arc::default(), ..self }
    }

    /// Counts calls and fuel in this ledger.
    #[must_use]
    pub fn usage(self, usage: UsageLedger) -> Self {
        Self { usage, made: Arc::default(), ..self }
    }

    /// Puts `layer` in front of the tools of each tenant. What it calls is filtered and counted; so are the calls of tools of
    /// its own.
    #[must_use]
    pub fn layer(self, layer: impl Fn(Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> + Send + Sync + 'static) -> Self {
        Self { layer: Some(Arc::new(layer)), made: Arc::default(), ..self }
    }

    /// Returns the tools of a tenant.
    #[must_use]
    pub fn of(&self, tenant: &Arc<Tenant>) -> Arc<dyn ToolProvider> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, tools)) = made.get(&tenant.name)
            && Arc::ptr_eq(of, tenant)
        {
            return Arc::clone(tools);
        }
        drop(made);
        let tools = self.make(tenant);
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        made.insert(Arc::clone(&tenant.name), (Arc::clone(tenant), Arc::clone(&tools)));
        tools
    }

    fn make(&self, tenant: &Arc<Tenant>) -> Arc<dyn ToolProvider> {
        let metered = |tools, behind: Option<Arc<dyn ToolProvider>>| -> Arc<dyn ToolProvider> {
            let (tenant, usage, places) = (Arc::clone(tenant), self.usage.clone(), self.places.clone());
            Arc::new(MeteredTools { tools, behind, meter: Meter { tenant, usage, places } })
        };
        let own = metered(Arc::clone(&self.tools), None);
        match &self.layer {
            Some(layer) => metered(layer(Arc::clone(&own)), Some(own)),
            None => own,
        }
    }
}

/// The budgets of a tenant, and the places that it shares.
#[derive(Clone)]
struct Meter {
    tenant: Arc<Tenant>,
    usage: UsageLedger,
    places: Option<CallPlaces>,
}

/// The tools of one tenant.
struct MeteredTools {
    tools: Arc<dyn ToolProvider>,
    /// The metered tools behind a layer: calls of these are counted there. `None` without a layer.
    behind: Option<Arc<dyn ToolProvider>>,
    meter: Meter,
}

impl Meter {
    /// Counts a call and waits for a place; then runs it, and counts its fuel.
    ///
    /// # Errors
    /// If the call cannot run: a budget is used up, too many calls wait, or it was cancelled.
    async fn run<T>(
        &self,
        mut context: CallContext,
        run: impl FnOnce(CallContext) -> BoxFuture<'static, T>,
        fuel: fn(&T) -> u64,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
    {
        self.usage.begin(&self.tenant)?;
        let entered = match &self.places {
            None => Some(None),
            Some(places) => {
                let entering = places.enter(&self.tenant.name);
                match &context.cancelled {
                    Some(cancelled) => cancelled.run_until_cancelled(entering).await,
                    None => Some(entering.await),
                }
                .ok_or_else(|| self.give_back(CallError::cancelled()))?
                .map(Some)
            }
        };
        let place = entered.ok_or_else(|| self.give_back(full()))?;
        // The result of a program has the fuel of its calls in it.
        let is_counted_elsewhere = context.program.is_some();
        if is_counted_elsewhere || !self.tenant.limits.has_fuel() {
            let ended = run(context).await;
            drop(place);
            if !is_counted_elsewhere {
                self.usage.charge(&self.tenant, fuel(&ended));
            }
            return Ok(ended);
        }
        // In a task of its own, so that a client that leaves pays for the fuel that was used until then.
        let (cancelled, left) = (CancellationToken::new(), Cancellation::new());
        let _leaving: DropGuard = left.clone().drop_guard();
        let by_caller = context.cancelled.replace(cancelled.clone()).unwrap_or_default();
        let (meter, running) = (self.clone(), run(context));
        let task = tokio::spawn(async move {
            let mut running = running;
            let ended = tokio::select! {
                biased;
                ended = &mut running => ended,
                () = by_caller.cancelled() => { cancelled.cancel(); running.await }
                () = left.cancelled() => { cancelled.cancel(); running.await }
            };
            drop(place);
            meter.usage.charge(&meter.tenant, fuel(&ended));
            ended
        });
        task.await.map_err(|_| CallError::new(ErrorKind::Host, "the call ended early, because the server ends"))
    }

    /// Takes a call back that was not run.
    fn give_back(&self, error: CallError) -> CallError {
        self.usage.give_back(&self.tenant);
        error
    }
}

fn full() -> CallError {
    let error = CallError::new(ErrorKind::Unavailable, "too many calls wait for a place");
    error.with_hint("call again in a second").with_retry_after(std::time::Duration::from_secs(1))
}

fn refused(id: String, tool: String, error: CallError) -> CallResult {
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

impl MeteredTools {
    fn is_allowed(&self, tool: &str) -> bool {
        self.meter.tenant.tools.allows(tool)
    }

    /// Returns whether calls of a tool are counted behind this provider.
    fn is_counted_behind(&self, tool: &str) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.find(tool).is_some())
    }
}

impl ToolProvider for MeteredTools {
    fn kind(&self) -> ProviderKind {
        self.tools.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.tools.tools();
        tools.retain(|tool| self.is_allowed(tool.full_name()));
        tools
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.find(name).filter(|_| self.is_allowed(name))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let name = call.tool().full_name().to_owned();
        if self.is_counted_behind(&name) {
            return self.tools.call(call, context);
        }
        Box::pin(async move {
            let id = context.id.clone();
            if !self.is_allowed(&name) {
                return Ok(refused(id, name, CallError::replaced()));
            }
            let tools = Arc::clone(&self.tools);
            let run = move |context| -> BoxFuture<'static, Result<CallResult, Stop>> {
                Box::pin(async move { tools.call(call, context).await })
            };
            let fuel = |ended: &Result<CallResult, Stop>| ended.as_ref().map_or(0, |result| result.metadata.fuel_used);
            self.meter.run(context, run, fuel).await.unwrap_or_else(|error| Ok(refused(id, name, error)))
        })
    }

    fn changes(&self) -> Changes {
        self.tools.changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        if self.is_counted_behind(&call.tool) {
            return self.tools.dispatch(call);
        }
        Box::pin(async move {
            let Call { tool, arguments, context } = call;
            let (id, name) = (context.id.clone(), tool.clone());
            if self.find(&tool).is_none() {
                let known = self.tools();
                let error = unknown_tool(&tool, known.iter().map(|known| known.full_name()));
                return refused(id, name, error);
            }
            let tools = Arc::clone(&self.tools);
            let run = move |context| -> BoxFuture<'static, CallResult> {
                Box::pin(async move { tools.dispatch(Call { tool, arguments, context }).await })
            };
            let fuel = |ended: &CallResult| ended.metadata.fuel_used;
            self.meter.run(context, run, fuel).await.unwrap_or_else(|error| refused(id, name, error))
        })
    }
}
