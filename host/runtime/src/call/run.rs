//! The execution of one call: a fresh store with its limits set, the guest, and the metadata of its cost.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use fumehood_core::call::Usage;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::tool::definition::RawDefinition;
use fumehood_core::tool::resource::RawResource;
use tracing::Instrument as _;
use wasmtime::component::{ResourceTableError, Val};
use wasmtime::{Store, UpdateDeadline};

use super::input::{Ended, Input, Output};
use super::outcome::{self, Execution, Phase};
use super::place::{Place, unless_cancelled};
use super::shared::Shared;
use super::tool_call::{Conversion, LargeResults};
use super::{contract, deferred};
use crate::engine::deadline::{Deadline, DeadlinePassed, FIRST_SLICE};
use crate::engine::fuel::{FUEL_UPDATE_INTERVAL, saves_fuel, used_fuel};
use crate::engine::guest_runtime::{FirstSlice, Lost, move_over};
use crate::engine::memory::KeptTooMuch;
use crate::engine::{EngineKind, MAX_TASK_ENTRIES};
use crate::load::dialect::{Callable, command};
use crate::load::surface::Surface;
use crate::wasi::{CallReport, CallState, HostServices, Invocation, OpenFolders, Powers, Removals, guest_output};

/// Memory limit in bytes above which a call never runs on its caller's thread: one bulk instruction over all of it is
/// not interrupted, and takes tens of milliseconds for each 64 MiB.
const FIRST_SLICE_MEMORY: usize = 64 << 20;

/// Time after its deadline from which on a call is answered even if its guest has not stopped. Most stop within a tick or two.
const LATENESS: Duration = Duration::from_millis(4);

/// The reason for which a call has no output.
pub(super) enum CallFailure {
    /// The engine or the guest failed.
    Guest(Phase, wasmtime::Error),
    /// The tool reported a failure, or its arguments or result were not accepted.
    Call(CallError),
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// A linked component that can be instantiated, with its powers. A running call holds nothing else of its sandbox.
#[derive(Clone)]
pub(crate) struct Runnable(Arc<RunnableParts>);

struct RunnableParts {
    shared: Arc<Shared>,
    callable: Arc<Callable>,
    uses_wasi: bool,
    powers: Arc<Powers>,
    folders: Option<Arc<OpenFolders>>,
    large_results: LargeResults,
}

impl Runnable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        callable: Callable,
        surface: &Surface,
        powers: Powers,
        folders: Option<Arc<OpenFolders>>,
    ) -> Self {
        // Host functions of both may wait for timers and threads.
        let uses_wasi = surface
            .imports
            .iter()
            .any(|import| import.starts_with("wasi:") || powers.capabilities.all().provider_of(import).is_some());
        let shared = Arc::clone(shared);
        let callable = Arc::new(callable);
        let powers = Arc::new(powers);
        Self(Arc::new(RunnableParts {
            shared,
            callable,
            uses_wasi,
            powers,
            folders,
            large_results: LargeResults::default(),
        }))
    }

    /// Returns the same compiled component with other powers.
    pub(crate) fn with_powers(&self, powers: Powers, folders: Option<Arc<OpenFolders>>) -> Self {
        let RunnableParts { shared, callable, uses_wasi, .. } = &*self.0;
        let shared = Arc::clone(shared);
        let callable = Arc::clone(callable);
        let powers = Arc::new(powers);
        let large_results = LargeResults::default();
        Self(Arc::new(RunnableParts { shared, callable, uses_wasi: *uses_wasi, powers, folders, large_results }))
    }

    /// Returns the linked component.
    pub(crate) fn callable(&self) -> &Callable {
        &self.0.callable
    }

    /// Calls `describe` of a component of the contract, within the limits of a call.
    pub(crate) async fn describe(&self, limits: Limits) -> Result<Vec<RawDefinition>, CallError> {
        match self.run_unpowered(Input::Describe, limits).await? {
            Output::Described(raw) => Ok(raw),
            Output::Content(_) | Output::Listed(_) => Err(unexpected_output("describe")),
        }
    }

    /// Calls `list` of the interface `resources`, within the limits of a call. Returns none if the component has none.
    pub(crate) async fn list_resources(&self, limits: Limits) -> Result<Vec<RawResource>, CallError> {
        if !matches!(&*self.0.callable, Callable::Contract { resources: Some(_), .. }) {
            return Ok(Vec::new());
        }
        match self.run_unpowered(Input::ListResources, limits).await? {
            Output::Listed(raw) => Ok(raw),
            Output::Content(_) | Output::Described(_) => Err(unexpected_output("list")),
        }
    }

    /// Runs a function with which a component describes itself.
    async fn run_unpowered(&self, input: Input, limits: Limits) -> Result<Output, CallError> {
        let invocation = Arc::new(Invocation { limits, ..Invocation::default() });
        let place = match self.admit(&invocation).await {
            Ok(place) => place,
            Err(refused) => return Err(refused.outcome.err().unwrap_or_else(CallError::cancelled)),
        };
        self.run(place, input, invocation, None).await.outcome
    }

    /// Waits for a place among the running calls.
    ///
    /// # Errors
    /// See [`Place::enter`].
    pub(crate) async fn admit(&self, call: &Invocation) -> Result<Place, Execution> {
        Place::enter(&self.0.shared, None, call).await
    }

    /// Runs a call that has a place to its end.
    ///
    /// `services` replace those among the component's own [`Powers`].
    pub(crate) async fn run(
        &self,
        place: Place,
        input: Input,
        call: Arc<Invocation>,
        services: Option<HostServices>,
    ) -> Ended {
        let limits = call.limits;
        let deadline = Deadline::after(Instant::now(), limits.deadline);
        let report = Arc::new(CallReport::new(limits, deadline, place.queued, FUEL_UPDATE_INTERVAL.min(limits.fuel)));
        let first = match limits.memory {
            more if more > FIRST_SLICE_MEMORY => FirstSlice::Elsewhere,
            _ if self.0.large_results.is_expected() || input.is_large() => FirstSlice::Elsewhere,
            _ if self.0.uses_wasi => FirstSlice::HereWithReactor,
            _ => FirstSlice::Here,
        };
        let execution = execute(self.clone(), place, input, call, services, Arc::clone(&report));
        let running = self.0.shared.runtime.run(first, Box::pin(execution.in_current_span()));
        match self.until_late(deadline, running).await {
            Some(Ok(ended)) => ended,
            Some(Err(lost)) => Ended { outcome: Err(lost_call(lost)), metadata: report.end(), deadline },
            None => Ended { outcome: Err(outcome::deadline(&limits)), metadata: report.end(), deadline },
        }
    }

    /// Waits for a call to end. Returns `None` if it has not ended [`LATENESS`] after its deadline: its guest holds a thread, as
    /// while the engine copies a large result. The guest is then stopped as soon as that is over.
    async fn until_late<F: Future>(&self, deadline: Deadline, running: F) -> Option<F::Output> {
        let mut running = std::pin::pin!(running);
        // A call that ends within its first slice needs no timer.
        let first = std::future::poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
        if let Poll::Ready(ended) = first {
            return Some(ended);
        }
        let mut late = std::pin::pin!(self.0.shared.ticker.wait_until(deadline.at() + LATENESS));
        std::future::poll_fn(|cx| match running.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => late.as_mut().poll(cx).map(|()| None),
        })
        .await
    }
}

/// Runs one call in a fresh store with its limits set, and returns its output with the metadata of its cost.
async fn execute(
    runnable: Runnable,
    place: Place,
    input: Input,
    call: Arc<Invocation>,
    services: Option<HostServices>,
    report: Arc<CallReport>,
) -> Ended {
    let parts = &*runnable.0;
    let limits = call.limits;
    let deadline = report.deadline();
    let _ticking = parts.shared.ticker.run();
    // A component describes itself before anybody has approved it, so it does that without any power.
    let (mut powers, folders) = match input {
        Input::Describe | Input::ListResources if !parts.powers.describe_with_grant => {
            (Arc::new(parts.powers.without_grant()), None)
        }
        _ => (Arc::clone(&parts.powers), parts.folders.clone()),
    };
    if let Some(HostServices { store, outbound, capabilities }) = services {
        let powers = Arc::make_mut(&mut powers);
        if let Some(store) = store {
            powers.store = store;
        }
        powers.outbound = outbound;
        powers.capabilities = capabilities;
    }
    let removals = folders.as_ref().filter(|folders| folders.scratch.is_some()).map(|folders| folders.removals.clone());
    let state = CallState::new(Arc::clone(&call), powers, Arc::clone(&report)).with_folders(folders);
    let mut store = Store::new(&parts.shared.engine, state);
    let outcome = match arm(&mut store, &limits) {
        Ok(()) => match wait_for_removals(removals.as_ref(), deadline, &call).await {
            Ok(()) => until_deadline(parts, &mut store, input, &call).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(CallError::new(ErrorKind::Host, format!("cannot set the limits: {error}"))),
    };
    if outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::Denied) {
        report.refusals().promote_missing();
    }
    let fuel_used = used_fuel(limits.fuel, store.get_fuel().ok(), store.data().is_fuel_saved);
    store.data().update_report(fuel_used);
    // Its cleanup is part of the duration.
    drop(store);
    let metadata = report.end();
    // Kept until here: a guest that does not stop at its deadline keeps its place.
    drop(place);
    Ended { outcome, metadata, deadline }
}

/// Waits until few enough scratch spaces of earlier calls are left: a tool that fills them faster than they can be
/// removed waits for that itself.
async fn wait_for_removals(
    removals: Option<&Removals>,
    deadline: Deadline,
    call: &Invocation,
) -> Result<(), CallError> {
    let Some(removals) = removals.filter(|removals| removals.is_behind()) else { return Ok(()) };
    move_over().await;
    let cancelled = call.cancelled.as_ref();
    match tokio::time::timeout_at(deadline.at().into(), unless_cancelled(cancelled, removals.catch_up())).await {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(CallError::cancelled()),
        Err(_late) => {
            let message = "the scratch spaces of earlier calls of this tool are still being removed";
            Err(CallError::new(ErrorKind::Unavailable, message)
                .with_hint("call again in a moment; tools that leave fewer files need not wait"))
        }
    }
}

/// Sets the limits of a store.
fn arm(store: &mut Store<CallState>, limits: &Limits) -> wasmtime::Result<()> {
    store.limiter(|state| state);
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(FUEL_UPDATE_INTERVAL))?;
    store.set_hostcall_fuel(hostcall_fuel(limits));
    store.set_max_component_handles(outcome::max_handles(limits));
    if let Some(entries) = store.concurrent_resource_table() {
        entries.set_max_capacity(MAX_TASK_ENTRIES);
    }
    store.set_epoch_deadline(FIRST_SLICE);
    // It compares clocks and does not count ticks, because ticks come late on a busy machine.
    let fuel = limits.fuel;
    store.epoch_deadline_callback(move |mut cx| {
        cx.data_mut().is_fuel_saved = false;
        if cx.data().deadline.passed() {
            return Err(DeadlinePassed.into());
        }
        if cx.data().memory.kept_too_much().is_some() {
            return Err(KeptTooMuch.into());
        }
        let remaining = cx.get_fuel().ok();
        cx.data().update_report(used_fuel(fuel, remaining, false));
        if let Some(observer) = cx.data().observer() {
            let used = used_fuel(fuel, remaining, true);
            observer.usage(Usage { fuel: used, peak_memory: cx.data().memory.peak() });
        }
        Ok(UpdateDeadline::Yield(1))
    });
    Ok(())
}

/// Runs the guest until it ends, its deadline passes, or the call is cancelled.
///
/// The timer is set only after the first slice: a guest that is done by then never needed it, and one that spins
/// compares clocks itself.
async fn until_deadline(
    parts: &RunnableParts,
    store: &mut Store<CallState>,
    input: Input,
    call: &Invocation,
) -> Result<Output, CallError> {
    let deadline = store.data().deadline;
    let limits = &call.limits;
    let cancelled = call.cancelled.as_ref();
    let ended = {
        let mut guest = std::pin::pin!(drive(parts, store, input, call));
        match std::future::poll_fn(|cx| Poll::Ready(guest.as_mut().poll(cx))).await {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => {
                move_over().await;
                match tokio::time::timeout_at(deadline.at().into(), unless_cancelled(cancelled, guest)).await {
                    Ok(Some(ended)) => Some(ended),
                    Ok(None) => return Err(CallError::cancelled()),
                    Err(_late) => None,
                }
            }
        }
    };
    if let Some(ended) = &ended {
        store.data_mut().is_fuel_saved = match ended {
            Err(CallFailure::Guest(_, error)) => saves_fuel(error),
            Ok(_) | Err(CallFailure::Call(_)) => true,
        };
    }
    match ended {
        // A single bulk instruction is not interrupted, so a guest may return after its deadline.
        Some(_) if deadline.passed() => Err(outcome::deadline(limits)),
        Some(Ok(output)) => Ok(output),
        Some(Err(CallFailure::Guest(phase, error))) => {
            let error = if error.is::<ResourceTableError>() && parts.shared.engine_kind == EngineKind::Asynchronous {
                outcome::too_many_tasks(limits)
            } else {
                outcome::from_wasmtime(&error, phase, limits, &store.data().memory)
            };
            parts.large_results.note_error(&error);
            Err(error)
        }
        Some(Err(CallFailure::Call(error))) => Err(error),
        None => Err(outcome::deadline(limits)),
    }
}

/// Instantiates the component, calls the export, including its `post-return` function, and converts what it returns.
async fn drive(
    parts: &RunnableParts,
    store: &mut Store<CallState>,
    input: Input,
    call: &Invocation,
) -> Result<Output, CallFailure> {
    let limits = &call.limits;
    let large = &parts.large_results;
    match (&*parts.callable, input) {
        (Callable::Contract { pre, exports, .. }, Input::Describe) => {
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            contract::check_call(store, &guest, exports).map_err(instantiate_error)?;
            let tools = contract::describe(store, &guest, exports).await?;
            Ok(Output::Described(tools.into_iter().map(guest_output::to_raw).collect()))
        }
        (Callable::Contract { pre, resources: Some(resources), .. }, Input::ListResources) => {
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            let guest = resources.load(&mut *store, &guest).map_err(instantiate_error)?;
            let listed = guest.call_list(store).await.map_err(call_error)?;
            Ok(Output::Listed(listed.into_iter().map(guest_output::to_raw_resource).collect()))
        }
        (Callable::Contract { pre, resources: Some(resources), .. }, Input::ReadResource { arguments }) => {
            let uri = arguments.uri()?;
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            let guest = resources.load(&mut *store, &guest).map_err(instantiate_error)?;
            let read = guest.call_read(&mut *store, &uri).await.map_err(call_error)?;
            let returned = read.map(|contents| vec![guest_output::to_part(contents)]);
            Ok(Output::Content(Conversion::new(store, limits, large).returned(returned).await?))
        }
        (Callable::Contract { pre, exports, .. }, Input::Contract { arguments }) => {
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            let returned = contract::call(store, &guest, exports, &arguments, call).await?;
            Ok(Output::Content(Conversion::new(store, limits, large).returned(returned).await?))
        }
        (Callable::Typed { pre, tools }, Input::Typed { tool, arguments }) => {
            let missing = || call_error(wasmtime::Error::msg("the component has no such export"));
            let typed = tools.get(tool).ok_or_else(missing)?;
            let arguments = Conversion::new(store, limits, large).arguments(typed, &arguments)?;
            // The engine lifts the result in one piece, and counts less for some types than they cost.
            store.set_hostcall_fuel(hostcall_fuel(limits) / typed.lift_factor);
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            let function = guest.get_func(&mut *store, typed.export_index).ok_or_else(missing)?;
            let mut results = vec![Val::Bool(false); function.ty(&mut *store).results().len()];
            function.call_async(&mut *store, &arguments, &mut results).await.map_err(call_error)?;
            if let Some(deferred) = typed.deferred {
                deferred::read(store, deferred, &mut results, limits).await.map_err(call_error)?;
            }
            Ok(Output::Content(Conversion::new(store, limits, large).results(typed, &results).await?))
        }
        (Callable::Command { pre, tool }, Input::Command { arguments }) => {
            let input = arguments.command_input()?;
            let success = input.success.clone();
            store.data_mut().set_program(input);
            let guest = pre.instantiate_async(&mut *store).await.map_err(instantiate_error)?;
            let run = guest.get_typed_func(&mut *store, tool.run).map_err(instantiate_error)?;
            let ended = run.call_async(&mut *store, ()).await;
            let code = command::exit_code(ended).map_err(call_error)?;
            if !success.iter().any(|success| i32::from(*success) == code) {
                let failure = store.data().with_output(|stdout, stderr| command::failure(code, stdout, stderr));
                return Err(failure.into());
            }
            let stdout = store.data().take_stdout().map_err(|error| call_error(error.into()))?;
            Ok(Output::Content(Conversion::new(store, limits, large).stdout(stdout)?))
        }
        _ => Err(call_error(wasmtime::Error::msg("the component does not speak this dialect"))),
    }
}

pub(super) fn instantiate_error(error: wasmtime::Error) -> CallFailure {
    CallFailure::Guest(Phase::Instantiate, error)
}

pub(super) fn call_error(error: wasmtime::Error) -> CallFailure {
    CallFailure::Guest(Phase::Call, error)
}

/// Returns the limit on copies out of a guest, in bytes. It is never below the largest result that is accepted.
fn hostcall_fuel(limits: &Limits) -> usize {
    limits.hostcall_bytes.max(limits.output.saturating_mul(2))
}

/// Converts the error of a call whose task did not complete.
pub(crate) fn lost_call(lost: Lost) -> CallError {
    match lost {
        Lost::ShutDown => CallError::new(ErrorKind::Cancelled, "the host shut down while the tool was running"),
        Lost::Panicked(text) => CallError::new(ErrorKind::Host, format!("the host panicked during the call: {text}")),
    }
}

fn unexpected_output(function: &str) -> CallError {
    CallError::new(ErrorKind::Host, format!("`{function}` returned an unexpected value"))
}
