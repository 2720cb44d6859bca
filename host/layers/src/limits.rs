//! The tools of each tenant: those that exist for it, with its budgets, and a fair share of the places.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::history::CallHistories;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{CallContext, CancellationToken};
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider, unknown_tool};
use tracing::Instrument as _;

use crate::call_places::CallPlaces;
use crate::log_budget::LogBudget;
use crate::program_places::ProgramPlaces;
use crate::running_calls::RunningCalls;
use crate::tenant::Tenant;
use crate::track::TrackedCall;
use crate::usage::{DayUsage, UsageLedger};

/// Puts something in front of the tools of a tenant, such as programs that call them.
type Layer = Arc<dyn Fn(Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> + Send + Sync>;
/// The calls of clients without sessions, by the tenant's name and the actor.
type Histories = CallHistories<(Arc<str>, Option<Arc<str>>)>;
/// The tools that were made for a tenant.
type CachedTools = (Arc<Tenant>, Arc<dyn ToolProvider>);

/// The tools of each tenant. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct TenantTools {
    tools: Arc<dyn ToolProvider>,
    layer: Option<Layer>,
    places: Option<CallPlaces>,
    programs: ProgramPlaces,
    usage: UsageLedger,
    log: Option<LogBudget>,
    running: RunningCalls,
    histories: Arc<Histories>,
    made: Arc<RwLock<HashMap<Arc<str>, CachedTools>>>,
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
        let usage = UsageLedger::default();
        let running = RunningCalls::default();
        let programs = ProgramPlaces::default();
        let histories = Arc::default();
        let made = Arc::default();
        Self { tools, layer: None, places: None, programs, usage, log: None, running, histories, made }
    }

    /// Returns other tools for the same tenants, which share the places, the usage and the running calls with these.
    #[must_use]
    pub fn around(self, tools: Arc<dyn ToolProvider>) -> Self {
        Self { tools, layer: None, made: Arc::default(), ..self }
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

    /// Counts what calls write to this event log. Without it, tenants have no limit there.
    #[must_use]
    pub fn log(self, log: LogBudget) -> Self {
        Self { log: Some(log), made: Arc::default(), ..self }
    }

    /// Keeps the calls among those of this set.
    #[must_use]
    pub fn running_calls(self, running: RunningCalls) -> Self {
        Self { running, made: Arc::default(), ..self }
    }

    /// Puts `layer` in front of the tools of each tenant. What it calls is filtered and counted; so are the calls of tools of
    /// its own.
    #[must_use]
    pub fn layer(self, layer: impl Fn(Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> + Send + Sync + 'static) -> Self {
        Self { layer: Some(Arc::new(layer)), made: Arc::default(), ..self }
    }

    /// Returns the calls that have not ended, of all tenants.
    #[must_use]
    pub fn running(&self) -> &RunningCalls {
        &self.running
    }

    /// Returns the calls and the fuel that a tenant has used today.
    #[must_use]
    pub fn used_today(&self, tenant: &str) -> DayUsage {
        self.usage.today(tenant)
    }

    /// Returns the number of places, and the maximum number of calls that wait for one; `None` if places are not limited.
    #[must_use]
    pub fn capacity(&self) -> Option<(usize, usize)> {
        self.places.as_ref().map(CallPlaces::capacity)
    }

    /// Returns the tools of all tenants, without limits.
    #[must_use]
    pub fn all(&self) -> &Arc<dyn ToolProvider> {
        &self.tools
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
        let own = self.limit(tenant, Arc::clone(&self.tools), None);
        match &self.layer {
            Some(layer) => self.limit(tenant, layer(Arc::clone(&own)), Some(own)),
            None => own,
        }
    }

    fn limit(
        &self,
        tenant: &Arc<Tenant>,
        tools: Arc<dyn ToolProvider>,
        behind: Option<Arc<dyn ToolProvider>>,
    ) -> Arc<dyn ToolProvider> {
        Arc::new(LimitedTools {
            tools,
            behind,
            tenant: Arc::clone(tenant),
            usage: self.usage.clone(),
            log: self.log.clone(),
            places: self.places.clone(),
            programs: self.programs.clone(),
            running: self.running.clone(),
            histories: Arc::clone(&self.histories),
        })
    }
}

/// The tools of one tenant, within its limits.
struct LimitedTools {
    tools: Arc<dyn ToolProvider>,
    /// The limited tools behind a layer: calls of these are counted there. `None` without a layer.
    behind: Option<Arc<dyn ToolProvider>>,
    tenant: Arc<Tenant>,
    usage: UsageLedger,
    places: Option<CallPlaces>,
    programs: ProgramPlaces,
    log: Option<LogBudget>,
    running: RunningCalls,
    histories: Arc<Histories>,
}

/// The place of a running call; `None` if places are not limited, or counted elsewhere. Dropping it gives it to the next
/// one.
type HeldPlace = Option<Box<dyn Send>>;

/// Stops a call whose caller has left.
struct CancelOnDrop(Option<CancellationToken>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(CancellationToken::cancel);
    }
}

impl LimitedTools {
    /// Waits for a place; then runs a call, and counts its fuel.
    async fn run(&self, call: PendingCall, tracked: &TrackedCall) -> Result<CallResult, Stop> {
        let arrived = Instant::now();
        let place = match self.enter(call.context()).await {
            Ok(place) => place,
            Err(error) => return Ok(call.refuse(error)),
        };
        let waited = arrived.elapsed();
        tracked.place();
        let log = self.log.as_ref();
        log.iter().for_each(|log| self.usage.charge_log(&self.tenant, log.bytes_of_call(&call)));
        // The result of a program has the fuel of its calls in it.
        let is_counted_elsewhere = call.context().program.is_some();
        let ended = if !is_counted_elsewhere && self.tenant.limits.has_fuel() {
            self.run_to_the_end(call, place).await
        } else {
            let ended = call.run(self.inner()).await;
            drop(place);
            if !is_counted_elsewhere {
                self.usage.charge(&self.tenant, fuel(&ended));
            }
            ended
        };
        ended.map(|mut result| {
            log.iter().for_each(|log| self.usage.charge_log(&self.tenant, log.bytes_of_result(&result)));
            result.metadata.queued = result.metadata.queued.saturating_add(waited);
            result
        })
    }

    /// Runs a call in a task of its own, so that a client that leaves pays for the fuel that was used until then.
    async fn run_to_the_end(&self, call: PendingCall, place: HeldPlace) -> Result<CallResult, Stop> {
        let _leaving = CancelOnDrop(call.context().cancelled.clone());
        let id = call.context().id.clone();
        let tool = call.tool_name().to_owned();
        let tools = Arc::clone(&self.tools);
        let usage = self.usage.clone();
        let tenant = Arc::clone(&self.tenant);
        let running = async move {
            let ended = call.run(&*tools).await;
            drop(place);
            usage.charge(&tenant, fuel(&ended));
            ended
        };
        tokio::spawn(running.in_current_span()).await.unwrap_or_else(|_| {
            let error = CallError::new(ErrorKind::Host, "the call ended early, because the server is shutting down");
            Ok(CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() })
        })
    }

    /// Counts a call, and waits for a place. A job in a queue of the provider needs none here.
    ///
    /// # Errors
    /// If the call cannot run: a budget is used up, too many calls wait, or it was cancelled.
    async fn enter(&self, context: &CallContext) -> Result<HeldPlace, CallError> {
        if self.log.as_ref().is_some_and(LogBudget::is_scarce) {
            self.usage.spare_log(&self.tenant)?;
        }
        self.usage.admit(&self.tenant).await?;
        let Some(places) = self.places.as_ref().filter(|_| context.job.is_none()) else {
            return Ok(None);
        };
        let tenant = &self.tenant.name;
        let entering = async {
            match &context.program {
                Some(program) => Ok(Box::new(self.programs.enter(program, places, tenant).await) as Box<dyn Send>),
                None => places.enter(tenant).await.map(|place| Box::new(place) as _).ok_or_else(full),
            }
        };
        let entered = match &context.cancelled {
            Some(cancelled) => cancelled.run_until_cancelled(entering).await.ok_or_else(CallError::cancelled),
            None => Ok(entering.await),
        };
        entered.flatten().map(Some).inspect_err(|_| self.usage.give_back(&self.tenant))
    }

    /// Returns the error of a call of a tool that does not exist for the tenant.
    fn missing(&self, call: &PendingCall) -> CallError {
        match call {
            PendingCall::Validated(..) => CallError::replaced(),
            PendingCall::Unchecked(call) => {
                let known = self.tools();
                unknown_tool(&call.tool, known.iter().map(|known| known.full_name()))
            }
        }
    }
}

fn full() -> CallError {
    let error = CallError::new(ErrorKind::Unavailable, "too many calls are waiting");
    error.with_hint("call again in a second").with_retry_after(Duration::from_secs(1))
}

fn fuel(ended: &Result<CallResult, Stop>) -> u64 {
    ended.as_ref().map_or(0, |result| result.metadata.fuel_used)
}

impl ToolLayer for LimitedTools {
    fn inner(&self) -> &dyn ToolProvider {
        &*self.tools
    }

    fn offers(&self, tool: &str) -> bool {
        self.tenant.tools.allows(tool)
    }

    async fn handle(&self, mut call: PendingCall) -> Result<CallResult, Stop> {
        let context = call.context_mut();
        if context.history.is_none() {
            let history = self.histories.of((Arc::clone(&self.tenant.name), context.actor.clone()));
            context.history = Some(history);
        }
        if self.behind.as_ref().is_some_and(|behind| behind.find(call.tool_name()).is_some()) {
            return call.run(self.inner()).await;
        }
        let tool = self.find(call.tool_name());
        let is_missing = tool.is_none();
        let tracked = TrackedCall::begin(&self.running, tool, Some(Arc::clone(&self.tenant.name)), call.context_mut());
        let ended = if is_missing {
            let error = self.missing(&call);
            Ok(call.refuse(error))
        } else {
            self.run(call, &tracked).await
        };
        tracked.finish(ended)
    }
}
