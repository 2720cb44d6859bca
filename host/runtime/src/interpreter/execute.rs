//! The execution of one program: a fresh store with its limits set, the interpreter, and the metadata of its cost.

use std::time::{Duration, Instant};

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::{Limits, display_bytes};
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::program::{ConsoleLine, Exception, Program, ProgramError, ProgramExecution};
use wasmtime::{Store, UpdateDeadline};

use super::bindings::exports::fumehood::code::interpreter as guest;
use super::deadline::ProgramDeadline;
use super::mailbox::{Mailbox, Stop};
use super::state::ProgramState;
use super::{Interpreter, ProgramPlace};
use crate::call::outcome::{self, Phase};
use crate::engine::deadline::FIRST_SLICE;
use crate::engine::fuel::{FUEL_UPDATE_INTERVAL, saves_fuel, used_fuel};
use crate::wasi::guest_output;

/// The MIME type of a returned value.
const JSON: &str = "application/json";

/// Runs a program in a fresh store, and returns its outcome with what it printed and its cost.
pub(super) async fn execute(
    interpreter: Interpreter,
    program: Program,
    place: ProgramPlace,
    mailbox: Mailbox,
    deadline: ProgramDeadline,
    queued: Duration,
) -> ProgramExecution {
    let parts = &*interpreter.0;
    let limits = program.limits;
    let started = Instant::now();
    let _ticking = parts.shared.ticker.run();
    let state = ProgramState::new(&limits, mailbox, deadline, program.cancelled.clone(), program.account.clone());
    let mut store = Store::new(&parts.shared.engine, state);
    let outcome = match arm(&mut store, &limits) {
        Ok(()) => run(&interpreter, &mut store, program).await,
        Err(error) => Err(CallError::new(ErrorKind::Host, format!("cannot set the limits: {error}")).into()),
    };
    let outcome = match store.data().stop() {
        // A single bulk instruction is not interrupted, so a program may return after its deadline.
        Some(Stop::Deadline) => Err(ProgramError::Failed(deadline_error(&limits))),
        _ => outcome,
    };
    let fuel_used = used_fuel(limits.fuel, store.get_fuel().ok(), store.data().is_fuel_saved);
    store.data_mut().charge(fuel_used);
    let ProgramState { console, dropped, memory, .. } = store.into_data();
    drop(place);
    let value = outcome.as_ref().ok().and_then(Option::as_ref);
    let hidden = |line: &ConsoleLine| line.text.hidden_chars();
    let metadata = Metadata::default()
        .bytes(value.map_or(0, Content::bytes))
        .mime(value.map(|_| JSON.into()))
        .sanitized(console.iter().map(hidden).sum::<u64>() + value.map_or(0, Content::hidden_chars))
        .log_dropped(dropped)
        .duration(started.elapsed())
        .peak_memory(memory.peak())
        .deadline(limits.deadline)
        .queued(queued)
        .fuel_used(fuel_used);
    ProgramExecution { outcome, console, metadata }
}

/// Sets the limits of a store.
fn arm(store: &mut Store<ProgramState>, limits: &Limits) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.memory);
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(FUEL_UPDATE_INTERVAL))?;
    store.set_hostcall_fuel(limits.hostcall_bytes.max(limits.output.saturating_mul(2)));
    store.set_epoch_deadline(FIRST_SLICE);
    let fuel = limits.fuel;
    store.epoch_deadline_callback(move |mut cx| {
        cx.data_mut().is_fuel_saved = false;
        let used = fuel.saturating_sub(cx.get_fuel().unwrap_or(fuel));
        if !cx.data_mut().charge(used) {
            return Err(Stop::Account.into());
        }
        if let Some(stop) = cx.data().stop() {
            return Err(stop.into());
        }
        // The epoch advanced while the guest waited for a call: its slice begins now.
        Ok(if cx.data_mut().take_resumed() { UpdateDeadline::Continue(FIRST_SLICE) } else { UpdateDeadline::Yield(1) })
    });
    Ok(())
}

async fn run(
    interpreter: &Interpreter,
    store: &mut Store<ProgramState>,
    program: Program,
) -> Result<Option<Content>, ProgramError> {
    let Program { code, tools, seed, start_time_ms, limits, .. } = program;
    let program = guest::Program {
        code,
        tools,
        seed,
        start_time_ms,
        limits: guest::Limits {
            memory: limits.memory as u64,
            console: saturate(limits.log),
            output: saturate(limits.output),
        },
    };
    let code = interpreter.0.pre.instantiate_async(&mut *store).await;
    let code = code.map_err(|error| to_program_error(&error, Phase::Instantiate, &limits, store))?;
    let returned = code.fumehood_code_interpreter().call_run(&mut *store, &program).await;
    // A program is stopped while it runs, or while it waits.
    if returned.as_ref().err().is_none_or(|error| !error.is::<Stop>()) {
        store.data_mut().is_fuel_saved = returned.as_ref().err().is_none_or(saves_fuel);
    }
    match returned.map_err(|error| to_program_error(&error, Phase::Call, &limits, store))? {
        Ok(None) => Ok(None),
        Ok(Some(value)) if value.len() > limits.output => {
            Err(outcome::output_too_large(Some(value.len()), &limits).into())
        }
        Ok(Some(value)) => Content::json(value).map(Some).map_err(|error| {
            CallError::new(ErrorKind::BadResult, format!("the interpreter returned a value that is not JSON: {error}"))
                .into()
        }),
        Err(exception) => Err(ProgramError::Exception(to_exception(&exception))),
    }
}

fn saturate(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn to_exception(exception: &guest::Exception) -> Exception {
    Exception {
        name: guest_output::message(&exception.name),
        message: guest_output::message(&exception.message),
        line: exception.line,
        column: exception.column,
        kind: exception.kind.as_deref().map(guest_output::message),
    }
}

/// Converts the error that ended the guest.
fn to_program_error(
    error: &wasmtime::Error,
    phase: Phase,
    limits: &Limits,
    store: &Store<ProgramState>,
) -> ProgramError {
    match error.downcast_ref::<Stop>() {
        Some(Stop::Deadline) => return deadline_error(limits).into(),
        Some(Stop::Cancelled) => {
            let message = "the caller stopped waiting, so the program was stopped";
            return CallError::new(ErrorKind::Cancelled, message).into();
        }
        Some(Stop::Account) => {
            let message = "the program used up the remaining fuel and was stopped";
            return CallError::new(ErrorKind::Fuel, message).with_hint("check for an endless loop").into();
        }
        _ => {}
    }
    let general = outcome::from_wasmtime(error, phase, limits, &store.data().memory);
    let specific = |message: String, hint: &'static str| CallError::new(general.kind, message).with_hint(hint);
    match general.kind {
        ErrorKind::Fuel => specific(
            format!("the program used up its {} units of fuel and was stopped", limits.fuel),
            "do less, or check for an endless loop",
        ),
        ErrorKind::Memory => specific(
            format!("the program needs more than its {} of memory", display_bytes(limits.memory as u64)),
            "keep less data in memory",
        ),
        _ => general,
    }
    .into()
}

fn deadline_error(limits: &Limits) -> CallError {
    let budget = outcome::display_duration(limits.deadline);
    CallError::new(ErrorKind::Deadline, format!("the program did not finish within {budget} and was stopped"))
        .with_hint("do less, or check for an endless loop")
}
