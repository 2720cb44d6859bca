//! A job that a worker claims, runs and ends.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Progress;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Arguments, CallContext, CancellationToken, Observer};
use fumehood_core::digest::Digest;
use fumehood_core::tool::Tool;
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::job_runner::{RunnerInner, answer};
use super::job_stream::{JobEntry, JobStream, StreamError};
use super::message::{JobClaim, JobEnd, JobOrder, JobRequest};
use crate::identity::Role;
use crate::worker::{validate, worker_span};

/// Time between two signs of life of a job.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Time without a sign of life after which the worker of a job is lost.
const LOST_AFTER: Duration = Duration::from_millis(2500);
/// Time between two looks at the claim of another worker.
const LOOK_AT_CLAIM: Duration = Duration::from_millis(250);
/// Delay after which a job is delivered again whose worker lives.
const STILL_RUNS: Duration = Duration::from_secs(10);
/// Time between two attempts to write an entry.
const WRITE_AGAIN: Duration = Duration::from_millis(500);
/// Maximum length of a report, in bytes.
const MAX_MESSAGE_BYTES: usize = 512;

/// A job that was taken from the queue.
pub(super) struct ClaimedJob {
    pub(super) inner: Arc<RunnerInner>,
    pub(super) message: Message,
    /// The signed request.
    pub(super) signed: Bytes,
    pub(super) request: JobRequest,
    pub(super) tool: Arc<Tool>,
    pub(super) token: CancellationToken,
}

/// The last report of the tool of a job.
#[derive(Default)]
struct LastReport(Mutex<Option<String>>);

impl Observer for LastReport {
    fn progress(&self, progress: Progress) {
        let text = match (progress.fraction, &progress.message) {
            (_, Some(message)) => message.to_string(),
            (Some(fraction), None) => format!("{:.0} %", fraction * 100.0),
            (None, None) => return,
        };
        let text = fumehood_core::text::sanitize::truncate_str(&text, MAX_MESSAGE_BYTES).to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

impl LastReport {
    fn text(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outcome of a look at the claim of another worker.
enum Claimant {
    /// A gateway has withdrawn the job.
    Withdrawn,
    /// The worker gives signs of life.
    Alive,
    /// The worker gives none. The entry is its last claim, if that could be read.
    Lost(JobEntry, Option<(String, JobClaim)>),
    /// NATS does not answer, or the claim is gone.
    Unknown,
}

impl ClaimedJob {
    /// Runs the job unless another worker has begun it, and answers the queue.
    pub(super) async fn run(&self, arguments: String) {
        let claim = self.claim(1, false, None);
        let Ok(sealed) = self.inner.stream.seal(Role::JobWorker, claim, b"") else { return };
        match self.inner.stream.create(&self.claim_key(), sealed).await {
            Ok(true) => self.run_claimed(arguments, 1).await,
            Ok(false) => self.run_after_another(arguments).await,
            Err(_) => answer(&self.message, AckKind::Nak(Some(WRITE_AGAIN))).await,
        }
    }

    fn claim_key(&self) -> String {
        JobStream::claim_key(self.request.job)
    }

    fn claim(&self, attempt: u32, begun: bool, message: Option<String>) -> JobClaim {
        let job = self.request.job;
        let request = Digest::of(&self.signed);
        let run = self.inner.run;
        JobClaim { job, request, run, attempt, begun, message }
    }

    /// Decides on a job that was claimed before it came here.
    async fn run_after_another(&self, arguments: String) {
        if let Ok(Some(_)) = self.inner.stream.get(&JobStream::end_key(self.request.job)).await {
            return answer(&self.message, AckKind::Ack).await;
        }
        match self.watch_claimant().await {
            Claimant::Withdrawn => answer(&self.message, AckKind::Ack).await,
            Claimant::Alive => answer(&self.message, AckKind::Nak(Some(STILL_RUNS))).await,
            Claimant::Unknown => answer(&self.message, AckKind::Nak(Some(WRITE_AGAIN))).await,
            Claimant::Lost(entry, claim) => {
                let is_first = claim.as_ref().is_some_and(|(_, claim)| claim.attempt == 1);
                if is_first && self.request.repeatable && self.take_over(&entry).await {
                    return self.run_claimed(arguments, 2).await;
                }
                self.end(&self.interrupted(claim.as_ref())).await;
            }
        }
    }

    /// Claims a job that may be begun once more. Returns whether no other worker did.
    async fn take_over(&self, entry: &JobEntry) -> bool {
        let Ok(sealed) = self.inner.stream.seal(Role::JobWorker, self.claim(2, false, None), b"") else { return false };
        matches!(self.inner.stream.replace(&self.claim_key(), sealed, entry.revision).await, Ok(Some(_)))
    }

    /// Watches the claim of another worker for as long as a sign of life may take.
    async fn watch_claimant(&self) -> Claimant {
        let mut first: Option<JobEntry> = None;
        let mut since = Instant::now();
        loop {
            answer(&self.message, AckKind::Progress).await;
            let entry = match self.inner.stream.get(&self.claim_key()).await {
                Ok(Some(entry)) => entry,
                Ok(None) | Err(_) => return Claimant::Unknown,
            };
            if let Ok(frame) = self.inner.stream.verify::<JobOrder>(&entry.value, Role::JobGateway)
                && matches!(frame.envelope.message, JobOrder::Withdraw { job } if job == self.request.job)
            {
                return Claimant::Withdrawn;
            }
            match &first {
                None => (first, since) = (Some(entry), Instant::now()),
                Some(first) if first.revision != entry.revision => return Claimant::Alive,
                Some(_) if since.elapsed() >= LOST_AFTER => {
                    let claim = self.inner.stream.verify::<JobClaim>(&entry.value, Role::JobWorker);
                    let claim = claim.ok().map(|frame| (frame.envelope.from, frame.envelope.message));
                    return Claimant::Lost(entry, claim.filter(|(_, claim)| claim.job == self.request.job));
                }
                Some(_) => {}
            }
            tokio::time::sleep(LOOK_AT_CLAIM).await;
        }
    }

    fn interrupted(&self, claim: Option<&(String, JobClaim)>) -> CallResult {
        let worker = claim.map_or_else(|| "another worker".to_owned(), |(name, _)| format!("the worker `{name}`"));
        let begun = if claim.is_some_and(|(_, claim)| claim.begun) { "had begun" } else { "may have started" };
        let error = CallError::new(ErrorKind::Interrupted, format!("{worker} was lost: the tool {begun}"));
        self.failure(error.with_hint("check its effects before you call again"))
    }

    /// Runs the call, gives signs of life, and writes its end.
    async fn run_claimed(&self, arguments: String, attempt: u32) {
        let report = Arc::new(LastReport::default());
        let has_ended = AtomicBool::new(false);
        let living = self.give_signs_of_life(attempt, &report, &has_ended);
        let calling = async {
            let ended = AssertUnwindSafe(self.call(arguments, Arc::clone(&report))).catch_unwind().await;
            let failed = |_| self.failure(CallError::new(ErrorKind::Host, "the worker failed while the tool ran"));
            let mut result = ended.unwrap_or_else(failed);
            if self.inner.stopped.is_cancelled()
                && result.error().is_some_and(|error| error.kind == ErrorKind::Cancelled)
            {
                let message = "the worker was stopped while the tool ran; it may have had its effect";
                result.outcome = Err(CallError::new(ErrorKind::Interrupted, message));
            }
            self.end(&result).await;
            has_ended.store(true, Ordering::Relaxed);
        };
        tokio::select! {
            () = calling => {}
            () = living => {}
        }
    }

    /// Writes the claim again and extends the time of the message, until the job has ended.
    async fn give_signs_of_life(&self, attempt: u32, report: &LastReport, has_ended: &AtomicBool) {
        let mut revision = None;
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            if has_ended.load(Ordering::Relaxed) {
                // The other branch is about to end both.
                std::future::pending::<()>().await;
            }
            answer(&self.message, AckKind::Progress).await;
            if revision.is_none() {
                revision = self.own_claim(attempt).await;
            }
            let claim = self.claim(attempt, true, report.text());
            if let (Some(last), Ok(sealed)) = (revision, self.inner.stream.seal(Role::JobWorker, claim, b"")) {
                // A claim that another node has replaced stays as it is.
                revision = self.inner.stream.replace(&self.claim_key(), sealed, last).await.ok().flatten();
            }
        }
    }

    /// Returns the revision of the claim, if it is still the one of this worker.
    async fn own_claim(&self, attempt: u32) -> Option<u64> {
        let entry = self.inner.stream.get(&self.claim_key()).await.ok()??;
        let frame = self.inner.stream.verify::<JobClaim>(&entry.value, Role::JobWorker).ok()?;
        let JobClaim { run, attempt: claimed, .. } = frame.envelope.message;
        let is_own =
            frame.envelope.from == self.inner.stream.link().name() && (run, claimed) == (self.inner.run, attempt);
        is_own.then_some(entry.revision)
    }

    async fn call(&self, arguments: String, observer: Arc<LastReport>) -> CallResult {
        let call = match validate(&self.tool, Arguments::Text(arguments)).await {
            Ok(call) => call,
            Err(error) => return self.failure(error),
        };
        let context = CallContext {
            id: self.request.call.clone(),
            actor: self.request.actor.as_deref().map(Arc::from),
            limits: Some(self.request.limits.within(&(self.inner.options.limits)(&self.tool))),
            observer: Some(observer),
            cancelled: Some(self.token.clone()),
            ..CallContext::default()
        };
        let span = worker_span(&self.tool, &self.request.call, self.request.trace.as_ref());
        match self.inner.tools.call(call, context).instrument(span).await {
            Ok(result) => result,
            Err(stop) => self.failure(CallError::new(ErrorKind::ToolFailed, stop.reason)),
        }
    }

    /// Writes the end of the job, unless it has one, and takes it from the queue.
    async fn end(&self, result: &CallResult) {
        let end =
            JobEnd { job: self.request.job, request: Digest::of(&self.signed), offer: self.request.offer.clone() };
        let body = serde_json::to_vec(result).unwrap_or_default();
        let Some(sealed) = self.seal_end(end, &body) else { return };
        let key = JobStream::end_key(self.request.job);
        // For as long as NATS is gone: the result is nowhere else.
        let is_first = loop {
            match self.inner.stream.create(&key, sealed.clone()).await {
                Ok(is_first) => break is_first,
                Err(StreamError(error)) => {
                    tracing::debug!(target: "fumehood::cell", job = %self.request.job, "not written yet: {error}");
                    tokio::time::sleep(WRITE_AGAIN).await;
                }
            }
        };
        if !is_first {
            let job = self.request.job;
            tracing::warn!(target: "fumehood::cell", %job, "the job was marked as interrupted before its result \
                                                            arrived");
        }
        answer(&self.message, AckKind::Ack).await;
    }

    fn seal_end(&self, end: JobEnd, body: &[u8]) -> Option<Bytes> {
        let maximum = self.inner.stream.link().max_body_bytes();
        if body.len() <= maximum {
            return self.inner.stream.seal(Role::JobEnd, end, body).ok();
        }
        let message = format!("the result of the worker has {} bytes; the maximum of NATS is {maximum}", body.len());
        let error = CallError::new(ErrorKind::OutputTooLarge, message)
            .with_hint("ask for less, or raise `max_payload` of the NATS server");
        let body = serde_json::to_vec(&self.failure(error)).unwrap_or_default();
        self.inner.stream.seal(Role::JobEnd, end, &body).ok()
    }

    fn failure(&self, error: CallError) -> CallResult {
        let id = self.request.call.clone();
        let tool = self.tool.full_name().to_owned();
        CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
    }
}
