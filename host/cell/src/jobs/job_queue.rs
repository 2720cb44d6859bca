//! The side of a gateway: puts calls into the queue, and waits for their ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Progress;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::call::{Arguments, Call, CallContext};
use fumehood_core::digest::Digest;
use fumehood_core::job::JobId;
use tokio::time::Instant;

use super::job_stream::{EnqueueError, JobStream, StreamError};
use super::message::{JOBS_VERSION, JobClaim, JobEnd, JobOrder, JobRequest};
use crate::gateway::{CallQueue, QueuedCall, failed_result, result_of};
use crate::identity::Role;
use crate::protocol::{CallLimits, Offer, WireTrace};

/// Minimum time between two looks at the end of a job.
const MIN_POLL: Duration = Duration::from_millis(20);
/// Maximum time between two looks at the end of a job.
const MAX_POLL: Duration = Duration::from_millis(500);
/// Time between two looks at how far a job is.
const CLAIM_POLL: Duration = Duration::from_secs(1);
/// Time between two requests to stop a job.
const CANCEL_AGAIN: Duration = Duration::from_millis(250);
/// The delay after which a call may be made again when the queue is full.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(5);

/// The queue of a cell, for a gateway. Cheap to clone.
#[derive(Clone)]
pub(super) struct JobQueue {
    stream: JobStream,
}

/// The request of a job, as it is in the cell.
struct SubmittedJob {
    id: JobId,
    /// The digest of the signed request.
    request: Digest,
    offer: Offer,
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobQueue").field("stream", &self.stream).finish()
    }
}

fn unavailable(error: &StreamError) -> CallError {
    let message = format!("the tool did not run, because jobs cannot be queued now: {error}");
    CallError::new(ErrorKind::Unavailable, message)
        .with_hint("call again in a moment")
        .with_retry_after(RETRY_WHEN_FULL)
}

fn lost(error: &StreamError) -> CallError {
    let message = format!("the queue of jobs was lost ({error}): the tool may have started");
    CallError::new(ErrorKind::Interrupted, message).with_hint("check its effects before you call again")
}

fn full() -> CallError {
    CallError::new(ErrorKind::Unavailable, "the tool did not run, because the queue of jobs is full")
        .with_hint("call again a little later")
        .with_retry_after(RETRY_WHEN_FULL)
}

impl CallQueue for JobQueue {
    fn run<'a>(&'a self, job: JobId, call: QueuedCall<'a>) -> BoxFuture<'a, CallResult> {
        Box::pin(self.run_to_its_end(job, call))
    }
}

impl JobQueue {
    pub(super) fn new(stream: JobStream) -> Self {
        Self { stream }
    }

    /// Runs a call at whichever worker takes it from the queue. A job that is in the cell already, because another gateway
    /// submitted it, is waited for.
    async fn run_to_its_end(&self, id: JobId, queued: QueuedCall<'_>) -> CallResult {
        let tool = Arc::clone(queued.call.tool());
        let call = queued.context.id.clone();
        let output = queued.limits.output;
        let submitted = match self.submit(id, &queued).await {
            Ok(submitted) => submitted,
            Err(error) => return failed_result(&call, &tool, error),
        };
        match self.wait(&submitted, queued.context).await {
            Ok((worker, body)) => result_of(&body, &call, &tool, &worker, output),
            Err(error) => failed_result(&call, &tool, error),
        }
    }

    async fn submit(&self, id: JobId, queued: &QueuedCall<'_>) -> Result<SubmittedJob, CallError> {
        let text = queued.call.to_text();
        let maximum = self.stream.link().max_body_bytes();
        if text.len() > maximum {
            let message = format!("the arguments have {} bytes; the maximum of NATS is {maximum}", text.len());
            let error = CallError::new(ErrorKind::InvalidArguments, message);
            return Err(error.with_hint("send less; the tool did not run"));
        }
        let request = JobRequest {
            version: JOBS_VERSION,
            job: id,
            call: queued.context.id.clone(),
            tool: queued.call.tool().full_name().to_owned(),
            offer: queued.offer.clone(),
            limits: CallLimits::of(&queued.limits),
            repeatable: queued.repeatable,
            actor: queued.context.actor.as_deref().map(str::to_owned),
            trace: WireTrace::current(),
        };
        let order = JobOrder::Run(Box::new(request));
        let signed = self.stream.seal(Role::JobGateway, order, text.as_bytes());
        let signed = signed.map_err(|error| CallError::new(ErrorKind::Host, error.to_string()))?;
        let submitted = SubmittedJob { id, request: Digest::of(&signed), offer: queued.offer.clone() };
        let is_new = self.stream.create(&JobStream::request_key(id), signed).await;
        if !is_new.map_err(|error| unavailable(&error))? {
            return self.find_submitted(id, queued).await;
        }
        match self.stream.enqueue(&queued.offer, id).await {
            Ok(()) => Ok(submitted),
            Err(EnqueueError::Full) => {
                let _ends_with_its_time = self.stream.remove(&JobStream::request_key(id)).await;
                Err(full())
            }
            // It may be in the queue all the same, and have begun, unless it can be withdrawn.
            Err(EnqueueError::Stream(error)) => {
                if self.cancel(id).await {
                    Err(unavailable(&error))
                } else {
                    Err(lost(&error))
                }
            }
        }
    }

    /// Returns the request of a job that another gateway submitted, if it is one of this call.
    async fn find_submitted(&self, id: JobId, queued: &QueuedCall<'_>) -> Result<SubmittedJob, CallError> {
        let entry = self.stream.get(&JobStream::request_key(id)).await.map_err(|error| unavailable(&error))?;
        let foreign = || CallError::new(ErrorKind::Host, "the cell returned another job");
        let entry = entry.ok_or_else(foreign)?;
        let request = self.read_request(&entry.value).filter(|(request, _)| {
            request.job == id && request.tool == queued.call.tool().full_name() && request.offer == queued.offer
        });
        let (request, _) = request.ok_or_else(foreign)?;
        Ok(SubmittedJob { id, request: Digest::of(&entry.value), offer: request.offer })
    }

    fn read_request(&self, signed: &[u8]) -> Option<(JobRequest, String)> {
        let frame = self.stream.verify::<JobOrder>(signed, Role::JobGateway).ok()?;
        let JobOrder::Run(request) = frame.envelope.message else { return None };
        Some((*request, String::from_utf8(frame.body.to_vec()).ok()?))
    }

    /// Returns the call of a job that was submitted, as its gateway made it.
    pub(super) async fn call_of(&self, id: JobId) -> Option<Call> {
        let entry = self.stream.get(&JobStream::request_key(id)).await.ok()??;
        let (request, arguments) = self.read_request(&entry.value)?;
        let actor = request.actor.as_deref().map(Arc::from);
        let context = CallContext { id: request.call, actor, job: Some(id), ..CallContext::default() };
        Some(Call { tool: request.tool, arguments: Arguments::Text(arguments), context })
    }

    /// Waits for the end of a job. Returns the worker that ended it, and its result.
    async fn wait(&self, job: &SubmittedJob, context: &CallContext) -> Result<(String, Vec<u8>), CallError> {
        let mut pause = MIN_POLL;
        let mut looked_at_claim = Instant::now();
        let mut reported = None;
        loop {
            // Without an answer it is looked at again: the job goes on without the connection of this gateway.
            if let Ok(Some(entry)) = self.stream.get(&JobStream::end_key(job.id)).await {
                return self.read_end(&entry.value, job);
            }
            if looked_at_claim.elapsed() >= CLAIM_POLL {
                looked_at_claim = Instant::now();
                if self.look_at_claim(job, context, &mut reported).await {
                    return Err(CallError::cancelled());
                }
            }
            let was_cancelled = match &context.cancelled {
                Some(token) if token.is_cancelled() => {
                    tokio::time::sleep(CANCEL_AGAIN.min(pause)).await;
                    true
                }
                Some(token) => token.run_until_cancelled(tokio::time::sleep(pause)).await.is_none(),
                None => {
                    tokio::time::sleep(pause).await;
                    false
                }
            };
            if was_cancelled && self.cancel(job.id).await {
                return Err(CallError::cancelled());
            }
            pause = if was_cancelled {
                MIN_POLL
            } else {
                pause.saturating_mul(3).checked_div(2).unwrap_or(pause).min(MAX_POLL)
            };
        }
    }

    /// Stops a job: it is withdrawn if no worker has begun it, and otherwise its worker is told. Returns whether it was
    /// withdrawn.
    pub(super) async fn cancel(&self, id: JobId) -> bool {
        let Ok(withdrawal) = self.stream.seal(Role::JobGateway, JobOrder::Withdraw { job: id }, b"") else {
            return false;
        };
        if let Ok(true) = self.stream.create(&JobStream::claim_key(id), withdrawal).await {
            return true;
        }
        if let Ok(order) = self.stream.seal(Role::JobGateway, JobOrder::Cancel { job: id }, b"") {
            let subject = format!("{}.jobs.cancel", self.stream.link().cell());
            let _told_again = self.stream.link().client().publish(subject, order).await;
        }
        false
    }

    /// Reports how far a job is. Returns whether a gateway has withdrawn it.
    async fn look_at_claim(&self, job: &SubmittedJob, context: &CallContext, reported: &mut Option<String>) -> bool {
        let Ok(Some(entry)) = self.stream.get(&JobStream::claim_key(job.id)).await else { return false };
        if let Ok(frame) = self.stream.verify::<JobOrder>(&entry.value, Role::JobGateway) {
            return matches!(frame.envelope.message, JobOrder::Withdraw { job: withdrawn } if withdrawn == job.id);
        }
        let Ok(frame) = self.stream.verify::<JobClaim>(&entry.value, Role::JobWorker) else { return false };
        let claim = frame.envelope.message;
        if claim.request == job.request && claim.message != *reported {
            reported.clone_from(&claim.message);
            if let Some(message) = claim.message {
                context.report(Progress { fraction: None, message: Some(message.into()), partial: Vec::new() });
            }
        }
        false
    }

    fn read_end(&self, signed: &[u8], job: &SubmittedJob) -> Result<(String, Vec<u8>), CallError> {
        let frame = self.stream.verify::<JobEnd>(signed, Role::JobEnd);
        let frame = frame.map_err(|error| rejected_end(format!("the result of the job was rejected: {error}")))?;
        let JobEnd { job: id, request, offer } = &frame.envelope.message;
        if *id != job.id || *request != job.request || *offer != job.offer {
            let worker = &frame.envelope.from;
            return Err(rejected_end(format!(
                "the result of the worker `{worker}` belongs to another job, and was rejected"
            )));
        }
        Ok((frame.envelope.from, frame.body.to_vec()))
    }
}

fn rejected_end(message: String) -> CallError {
    CallError::new(ErrorKind::Host, message)
        .with_hint("check the tool's effects before you call again; an operator must check the workers")
}
