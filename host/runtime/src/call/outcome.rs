//! The outcome of a call, and the mapping from wasmtime's errors to [`CallError`].

use std::time::Duration;

use fumehood_core::call::content::{self, Content};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::{Limits, display_bytes};
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::capability::CapabilityError;
use fumehood_core::text::untrusted::PrintableText;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::deferred::StreamTooLarge;
use super::exception::UncaughtException;
use crate::engine::MAX_TASK_ENTRIES;
use crate::engine::deadline::DeadlinePassed;
use crate::engine::memory::MemoryLimiter;
use crate::wasi::HostFailure;
use crate::wasi::bindings::fumehood::tool::types;
use crate::wasi::guest_output::{cut, message};
use crate::wasi::stdio::StdoutTooLarge;

/// The reason for a trap that the guest's own code asked for.
const ABORTED: &str = "it aborted (`unreachable`, which is how a panic ends)";
/// Maximum number of backtrace frames in an error.
pub(crate) const MAX_BACKTRACE_FRAMES: usize = 12;
/// Maximum number of parts of a result.
pub(crate) const MAX_PARTS: usize = 131_072;

/// The result of one call, with its metadata.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The content that the tool returned, or the error of the call.
    pub outcome: Result<Vec<Content>, CallError>,
    /// The cost of the call.
    pub metadata: Metadata,
}

impl Execution {
    /// Creates the end of a call whose guest did not run, or did not answer.
    pub(crate) fn failed(error: CallError, queued: Duration, limits: &Limits) -> Self {
        Self { outcome: Err(error), metadata: Metadata::default().queued(queued).deadline(limits.deadline) }
    }

    /// Converts the execution to the result of this call.
    #[must_use]
    pub fn into_result(self, id: String, tool: &str) -> CallResult {
        CallResult { id, tool: tool.to_owned(), outcome: self.outcome, metadata: self.metadata }
    }
}

/// The phase of a call in which an error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Instantiate,
    Call,
}

/// Returns the maximum number of handles of a call. Those of a guest's own resources are kept by the engine, and count
/// toward no memory limit: there are not more of them than would fit.
pub(crate) fn max_handles(limits: &Limits) -> usize {
    const ENGINE_HANDLE_BYTES: usize = 64;
    limits.handles.min(limits.memory / ENGINE_HANDLE_BYTES)
}

/// Returns the error of a call whose deadline has passed.
pub(crate) fn deadline(limits: &Limits) -> CallError {
    let budget = display_duration(limits.deadline);
    CallError::new(ErrorKind::Deadline, format!("the tool did not finish within {budget} and was stopped"))
        .with_hint("ask for less work, or allow a longer deadline")
}

/// Returns the error of a call whose result could not be checked before its deadline.
pub(crate) fn unchecked_at_deadline() -> CallError {
    CallError::new(
        ErrorKind::Deadline,
        "the deadline passed before the result of the tool was checked against its output schema",
    )
    .with_hint("ask for less, or allow a longer deadline")
}

/// Attributes a tool's failure to the power that was refused to it, or to the allowance that it used up, if there was
/// one.
///
/// The tool's own message stays, and the hint names the grant that is missing. A trap after an uncaught exception in
/// stderr becomes a failure of the tool, with the message of the exception.
pub(crate) fn explain(error: &mut CallError, metadata: &Metadata) {
    // The language runtime wrote the reason for its abort to stderr: that is a failure of the tool, not a crash.
    if error.kind == ErrorKind::Trap
        && let Some(UncaughtException { message, hint }) = UncaughtException::find(&metadata.stderr.text.to_sanitized())
    {
        *error = CallError::new(ErrorKind::ToolFailed, cut(&message)).with_hint(hint);
    }
    // A tool may report `Denied` for a quota as well, because it cannot distinguish the two.
    let by_itself =
        matches!(error.kind, ErrorKind::ToolFailed | ErrorKind::Unavailable | ErrorKind::Trap | ErrorKind::Denied);
    if !by_itself {
        return;
    }
    if let Some(first) = metadata.refused.first() {
        error.kind = ErrorKind::Denied;
        error.hint = Some(first.to_string().into());
    } else if let Some(first) = metadata.exhausted.first() {
        error.kind = ErrorKind::Quota;
        error.hint = Some(first.into());
    }
}

/// Adds a hint about uncaught exceptions to an abort without any output, for a component whose language may have
/// exceptions.
pub(crate) fn hint_at_exceptions(error: &mut CallError, metadata: &Metadata) {
    if error.kind == ErrorKind::Trap && error.message.as_str().contains(ABORTED) && metadata.stderr.is_empty() {
        let hint = "uncaught exceptions of a tool also end like this; its author should return an error instead";
        error.hint = Some(hint.into());
    }
}

/// Converts an error of wasmtime.
pub(crate) fn from_wasmtime(
    error: &wasmtime::Error,
    phase: Phase,
    limits: &Limits,
    memory: &MemoryLimiter,
) -> CallError {
    if error.is::<DeadlinePassed>() {
        return deadline(limits);
    }
    if let Some(kept) = memory.kept_too_much() {
        return kept_memory_error(kept, limits);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CallError::new(ErrorKind::Unavailable, "the host has no free slot for this tool's memories or stacks")
            .with_hint("call again in a moment");
    }
    if error.is::<ResourceTableError>() || root_cause(error).contains("store handle limit exceeded") {
        let max = max_handles(limits);
        return CallError::new(ErrorKind::Quota, format!("the tool held more than {max} handles"));
    }
    if error.is::<StdoutTooLarge>() || error.is::<StreamTooLarge>() {
        return output_too_large(None, limits);
    }
    if let Some(error) = error.downcast_ref::<CapabilityError>() {
        return CallError::new(error.kind(), message(&error.to_string()));
    }
    if let Some(error) = error.downcast_ref::<HostFailure>() {
        return CallError::new(ErrorKind::Host, error.to_string());
    }
    let trap = error.downcast_ref::<Trap>().copied();
    match trap {
        Some(Trap::OutOfFuel) => return out_of_fuel(limits),
        // A refused growth shows up as a failed instantiation, or as the abort of an allocator that got nothing.
        None if phase == Phase::Instantiate && memory.has_refused() => return memory_error(limits),
        Some(Trap::UnreachableCodeReached) if memory.has_refused() => return memory_error(limits),
        _ => {}
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let message = format!("the tool ended itself with exit code {} instead of returning a result", exit.0);
        return CallError::new(ErrorKind::Trap, message);
    }
    if let Some(limited) = copy_limit_error(error, limits) {
        return limited;
    }
    if trap.is_none() && phase == Phase::Call && !error.is::<WasmBacktrace>() && !is_about_arguments(error) {
        let message = format!("the tool's result is malformed: {}", root_cause(error));
        return CallError::new(ErrorKind::BadResult, message);
    }
    trap_error(error, trap)
}

/// Returns the error of a call that has used up its fuel.
pub(crate) fn out_of_fuel(limits: &Limits) -> CallError {
    let message = format!("the tool used up its {} units of fuel and was stopped", limits.fuel);
    CallError::new(ErrorKind::Fuel, message).with_hint("ask for less work, or allow more fuel")
}

/// Returns the error of an asynchronous call with more handles, or more tasks, than it may have.
pub(crate) fn too_many_tasks(limits: &Limits) -> CallError {
    let message = format!(
        "the tool held more than {} handles, or more than {MAX_TASK_ENTRIES} tasks, sets of events and ends of streams",
        max_handles(limits)
    );
    CallError::new(ErrorKind::Quota, message).with_hint("its author can drop them sooner")
}

fn memory_error(limits: &Limits) -> CallError {
    let cap = display_bytes(limits.memory as u64);
    CallError::new(ErrorKind::Memory, format!("the tool needs more than its {cap} of memory"))
        .with_hint("ask for less, or allow more memory")
}

/// Returns the error for a guest for which the host kept too much.
pub(crate) fn kept_memory_error(kept: usize, limits: &Limits) -> CallError {
    let cap = display_bytes(limits.memory as u64);
    let kept = display_bytes(kept as u64);
    let message = format!(
        "the tool needs more than its {cap} of memory: the host uses {kept} of it for the tool's requests, headers, \
         bodies, streams and other handles"
    );
    CallError::new(ErrorKind::Memory, message)
        .with_hint("ask for less, or allow more memory; its author can drop handles sooner")
}

/// Returns the error for a value that is too large to be copied out of a guest.
///
/// wasmtime bounds the host's allocations for such copies, and reports the limit only in its message. If guest code was
/// on the stack, a host call asked for the copy; otherwise it was the result.
fn copy_limit_error(error: &wasmtime::Error, limits: &Limits) -> Option<CallError> {
    if !root_cause(error).contains("fuel allocated for hostcalls") {
        return None;
    }
    if error.is::<WasmBacktrace>() {
        let max = display_bytes(limits.hostcall_bytes as u64);
        let message = format!("the tool passed more than {max} to the host in one call");
        return Some(CallError::new(ErrorKind::Quota, message));
    }
    Some(output_too_large(None, limits))
}

/// Checks the number of the parts of a result, and their size in bytes.
///
/// # Errors
/// If they exceed [`MAX_PARTS`], or the limit of the call.
pub(crate) fn check_size(parts: usize, bytes: usize, limits: &Limits) -> Result<(), CallError> {
    if parts > MAX_PARTS {
        let message = format!("the result has {parts} parts; the maximum is {MAX_PARTS}");
        return Err(CallError::new(ErrorKind::OutputTooLarge, message).with_hint("ask for a smaller part of it"));
    }
    let bytes = bytes.saturating_add(content::overhead_bytes(parts));
    if bytes > limits.output { Err(output_too_large(Some(bytes), limits)) } else { Ok(()) }
}

/// Returns the error for a result above its limit.
pub(crate) fn output_too_large(found: Option<usize>, limits: &Limits) -> CallError {
    let cap = display_bytes(limits.output as u64);
    let message = match found {
        Some(found) => format!("the result has {}; the maximum is {cap}", display_bytes(found as u64)),
        None => format!("the result is larger than {cap}, the maximum"),
    };
    CallError::new(ErrorKind::OutputTooLarge, message).with_hint("ask for a smaller part of it")
}

fn trap_error(error: &wasmtime::Error, trap: Option<Trap>) -> CallError {
    let reason = match trap {
        Some(Trap::StackOverflow) => "its call stack overflowed (the recursion is too deep)".to_owned(),
        Some(Trap::UnreachableCodeReached) => ABORTED.to_owned(),
        Some(Trap::MemoryOutOfBounds) => "it used memory out of bounds".to_owned(),
        Some(Trap::IntegerDivisionByZero) => "it divided an integer by zero".to_owned(),
        Some(Trap::AsyncDeadlock) => "all of its tasks wait for what can never happen (a deadlock)".to_owned(),
        Some(Trap::CannotEnterComponent) => "it was entered again while it was running".to_owned(),
        Some(other) => other.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => root_cause(error),
    };
    let mut crashed = CallError::new(ErrorKind::Trap, cut(&format!("the tool crashed: {reason}")));
    crashed.backtrace = backtrace(error).into_iter().map(PrintableText::from).collect();
    crashed
}

/// Returns whether copying the arguments into the guest failed, because of what its allocator returned.
///
/// Without guest code on the stack, only this and reading the result can fail, and wasmtime distinguishes them only in
/// its message.
fn is_about_arguments(error: &wasmtime::Error) -> bool {
    root_cause(error).contains("realloc")
}

/// Returns wasmtime's own message. Only this is searched for text: the context around it, such as a backtrace, contains
/// names that the guest chose.
fn root_cause(error: &wasmtime::Error) -> String {
    let cause = error.chain().last().map_or_else(String::new, ToString::to_string);
    cut(&cause)
}

/// Returns the innermost frames, demangled, without the hashes and offsets that change with every build.
fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    trace.frames().iter().take(MAX_BACKTRACE_FRAMES).map(function_name).collect()
}

/// Returns the name of a frame's function, without the hash that rustc appends to a path.
fn function_name(frame: &wasmtime::FrameInfo) -> String {
    let symbol = frame.symbols().first().and_then(|symbol| symbol.name());
    let name = match symbol.or(frame.func_name()) {
        Some(name) => name.to_owned(),
        None => format!("function {}", frame.func_index()),
    };
    let short = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name.as_str(), |(path, _)| path);
    cut(short)
}

/// Converts a failure that the tool itself reports.
pub(crate) fn from_failure(failure: types::Failure) -> CallError {
    let kind = match failure.kind {
        types::FailureKind::InvalidArguments => ErrorKind::InvalidArguments,
        types::FailureKind::Failed => ErrorKind::ToolFailed,
        types::FailureKind::Unavailable => ErrorKind::Unavailable,
        types::FailureKind::Denied => ErrorKind::Denied,
    };
    let mut error = CallError::new(kind, message(&failure.message));
    error.retry_after = failure.retry_after_ms.map(Duration::from_millis);
    error
}

pub(crate) fn display_duration(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", duration.as_secs_f64())
    }
}
