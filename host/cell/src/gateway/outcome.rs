//! The ends of attempts as results of calls, in words for people and models.

use std::borrow::Cow;
use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::tool::Tool;

use crate::protocol::{Conclusion, GuestStart, NoWorker, RefusalReason};

/// The delay after which a call may be made again when all places are taken.
const RETRY_WHEN_FULL: Duration = Duration::from_millis(250);
/// The delay after which a call may be made again when there is no worker.
const RETRY_WHEN_ABSENT: Duration = Duration::from_secs(1);

/// Returns the error of a call that no worker can take. Nothing has run.
pub(super) fn no_worker(reason: NoWorker, tool: &str) -> CallError {
    match reason {
        NoWorker::Disconnected => unavailable_error("the tool did not run, because the gateway does not reach NATS")
            .with_hint("call again a little later; an operator must check NATS")
            .with_retry_after(RETRY_WHEN_ABSENT),
        NoWorker::Absent => unavailable_error("the tool did not run, because the cell has no running worker")
            .with_hint("an operator must start one with `fumehood worker`, or check NATS")
            .with_retry_after(RETRY_WHEN_ABSENT),
        NoWorker::NotOffered => unavailable_error(format!(
            "the tool did not run, because no worker has this version of `{tool}` with these powers"
        ))
        .with_hint("an operator must give the workers the same component and the same section of the configuration")
        .with_retry_after(RETRY_WHEN_ABSENT),
        NoWorker::Full => unavailable_error("the tool did not run, because all workers with it are busy")
            .with_hint("call again a little later")
            .with_retry_after(RETRY_WHEN_FULL),
    }
}

fn unavailable_error(message: impl Into<String>) -> CallError {
    CallError::new(ErrorKind::Unavailable, message.into())
}

/// Returns the error of an attempt that ended without the word of a guest.
pub(super) fn error_of<T>(conclusion: &Conclusion<T>, worker: &str, tool: &str) -> CallError {
    match conclusion {
        Conclusion::Interrupted(begun) => {
            let message = format!("the worker `{worker}` was lost: {}", begun_text(*begun));
            CallError::new(ErrorKind::Interrupted, message).with_hint(begun_hint(*begun))
        }
        Conclusion::Deadline(begun) => {
            let message =
                format!("the deadline passed, and the worker `{worker}` did not answer: {}", begun_text(*begun));
            CallError::new(ErrorKind::Deadline, message).with_hint(begun_hint(*begun))
        }
        Conclusion::Cancelled(_) => CallError::cancelled(),
        Conclusion::Mismatched => {
            let message =
                format!("the worker `{worker}` ran a different component than requested, so its result was rejected");
            CallError::new(ErrorKind::Host, message).with_hint("an operator must check this worker")
        }
        Conclusion::Refused(RefusalReason::NotOffered) => no_worker(NoWorker::NotOffered, tool),
        Conclusion::Finished(_) | Conclusion::Refused(_) => no_worker(NoWorker::Full, tool),
    }
}

/// Reads the result that a worker sent, and checks it as one of this call.
pub(crate) fn result_of(body: &[u8], id: &str, tool: &Tool, worker: &str, max_bytes: usize) -> CallResult {
    let tool_name = tool.full_name().to_owned();
    let (outcome, metadata) = match serde_json::from_slice::<CallResult>(body) {
        Ok(CallResult { outcome, metadata, .. }) => (outcome, metadata),
        Err(error) => {
            let message = format!("cannot read the result of the worker `{worker}`: {error}");
            (Err(CallError::new(ErrorKind::Host, message)), Metadata::default())
        }
    };
    // The worker has checked it; whoever has taken over a worker has not.
    let outcome = outcome.and_then(|parts| {
        let bytes: usize = parts.iter().map(fumehood_core::call::content::Content::bytes).sum();
        if bytes > max_bytes {
            let message = format!("the result of the worker `{worker}` has {bytes} bytes; the maximum is {max_bytes}");
            return Err(CallError::new(ErrorKind::OutputTooLarge, message));
        }
        tool.check_result(&parts).map(|()| parts)
    });
    // Whatever the worker says of itself.
    let metadata = metadata.worker(Some(Cow::Owned(worker.to_owned())));
    CallResult { id: id.to_owned(), tool: tool_name, outcome, metadata }
}

/// Returns the result of a call that no worker answered.
pub(crate) fn failed_result(id: &str, tool: &Tool, error: CallError) -> CallResult {
    let id = id.to_owned();
    let tool = tool.full_name().to_owned();
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

/// Returns the result of a call that was sent to a worker in vain.
pub(super) fn failed_at(worker: &str, id: &str, tool: &Tool, error: CallError) -> CallResult {
    let mut result = failed_result(id, tool, error);
    result.metadata.worker = Some(Cow::Owned(worker.to_owned()));
    result
}

fn begun_text(begun: GuestStart) -> &'static str {
    match begun {
        GuestStart::No => "the tool had not started",
        GuestStart::Perhaps => "the tool may have started",
        GuestStart::Yes => "the tool had started",
    }
}

fn begun_hint(begun: GuestStart) -> &'static str {
    match begun {
        GuestStart::No => "call again",
        GuestStart::Perhaps | GuestStart::Yes => "check its effects before you call again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_says_whether_it_had_begun() {
        for (begun, part) in
            [(GuestStart::No, "had not started"), (GuestStart::Perhaps, "may have"), (GuestStart::Yes, "had started")]
        {
            let error = error_of(&Conclusion::<()>::Interrupted(begun), "w1", "a__b");
            assert_eq!(error.kind, ErrorKind::Interrupted);
            assert!(error.to_string().contains(part) && error.to_string().contains("`w1`"), "{error}");
        }
    }

    #[test]
    fn a_call_without_a_worker_may_be_made_again() {
        for reason in [NoWorker::Disconnected, NoWorker::Absent, NoWorker::NotOffered, NoWorker::Full] {
            let error = no_worker(reason, "a__b");
            assert_eq!(error.kind, ErrorKind::Unavailable);
            assert!(error.retry_after.is_some() && error.message.to_string().contains("did not run"), "{error}");
        }
    }
}
