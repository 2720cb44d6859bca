//! A call on its way to becoming a job.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext, CancellationToken, Observer};
use fumehood_core::job::{Job, JobId, JobKey, JobState, JobStoreError};
use fumehood_core::tool::ToolProvider;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};

use super::{Inner, RunningJob, observe};
use crate::parse_queue::ParseQueue;
use fumehood_layers::now;

/// Maximum time that a call waits for the store to create its job.
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay after which a call that must be a job may be made again.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// That delay if another process has created the job of the same key.
const RETRY_WHEN_TAKEN: Duration = Duration::from_secs(1);

/// A call that may become a job.
pub struct JobCall {
    /// The principal that it belongs to.
    pub owner: Arc<str>,
    /// The full name of the tool.
    pub tool: String,
    /// The token that cancels the call, and the job that it becomes.
    pub cancelled: CancellationToken,
    /// The time after which it becomes a job, in place of [`JobOptions::after`](super::JobOptions::after); zero is before it runs.
    pub after: Option<Duration>,
    /// The key by which [`Jobs::find_by_key`](super::Jobs::find_by_key) finds the job. That of a tool whose results may not be stored is not kept.
    /// Of several processes that call at the same moment, one runs the call, if it is a job before it runs; otherwise all may.
    pub key: Option<JobKey>,
    /// The observer of the call.
    pub observer: Option<Arc<dyn Observer>>,
    /// Starts the call.
    pub start: StartCall,
}

/// The function that starts a call.
type StartCall = Box<dyn FnOnce(StartedCall) -> BoxFuture<'static, CallResult> + Send>;

impl JobCall {
    /// Creates a call of these tools for an owner, in the current span. `held` is kept until the call has ended, such as the
    /// memory of its request.
    pub fn new(owner: Arc<str>, tools: Arc<dyn ToolProvider>, call: Call, held: impl Send + 'static) -> Self {
        let tool = call.tool.clone();
        let observer = call.context.observer.clone();
        let span = Span::current();
        let cancelled = call.context.cancelled.clone().unwrap_or_default();
        let start = move |started: StartedCall| -> BoxFuture<'static, CallResult> {
            let StartedCall { job, observer, cancelled } = started;
            let id = call.context.id.clone();
            let context = CallContext { job, observer: Some(observer), cancelled: Some(cancelled), ..call.context };
            let running = async move {
                let result = tools.dispatch(Call { context, ..call }).await;
                drop(held);
                // A layer may have named the call itself; its caller knows it by the id that it chose.
                if id.is_empty() { result } else { CallResult { id, ..result } }
            };
            Box::pin(running.instrument(span))
        };
        Self { owner, tool, cancelled, after: None, key: None, observer, start: Box::new(start) }
    }
}

impl JobCall {
    /// Begins the call in this queue, in the turn of its tenant, because its arguments are large: they are parsed and checked there.
    #[must_use]
    pub fn begin_in(self, queue: ParseQueue, turn: Arc<Semaphore>) -> Self {
        let start = self.start;
        let tool = self.tool.clone();
        let begin = move |started: StartedCall| -> BoxFuture<'static, CallResult> {
            let running = start(started);
            Box::pin(async move {
                let stopped = || failure(&tool, CallError::new(ErrorKind::Host, "the server is shutting down"));
                queue.start(turn, running).await.unwrap_or_else(stopped)
            })
        };
        Self { start: Box::new(begin), ..self }
    }
}

impl fmt::Debug for JobCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobCall").field("owner", &self.owner).field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// The parts of the context that a call gets which may become a job.
pub struct StartedCall {
    /// The id of the job, if the call is one before it runs, and waits in a queue of the provider.
    pub job: Option<JobId>,
    /// The observer of the call.
    pub observer: Arc<dyn Observer>,
    /// The token that stops the call.
    pub cancelled: CancellationToken,
}

impl fmt::Debug for StartedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedCall").field("job", &self.job).finish_non_exhaustive()
    }
}

/// The answer to a call that may become a job.
#[derive(Debug)]
pub enum CallOrJob {
    /// It has ended.
    Ended(Box<CallResult>),
    /// It has become a job.
    Job(Box<Job>),
}

/// Returns the state of a job whose result the store must not have, for when that result is lost.
pub(super) fn unstored() -> JobState {
    let message =
        "the call has ended, but its result was lost with the server, because results of this tool are not saved";
    JobState::Failed(
        CallError::new(ErrorKind::Interrupted, message).with_hint("check its effects before you call again"),
    )
}

/// Runs a call until it ends, or becomes a job, in a task of its own.
pub(super) async fn run(inner: &Arc<Inner>, call: JobCall) -> CallOrJob {
    let Ok(bits) = random_bits() else {
        let error = CallError::new(ErrorKind::Host, "the system returned no random bytes for a job id");
        return ended(&call.tool, error);
    };
    let tool = call.tool.clone();
    let at_once = call.after.is_some_and(|after| after.is_zero()) || (inner.options.at_once)(&tool);
    let after = call.after.unwrap_or(inner.options.after);
    let progress = observe(call.observer);
    // A digest of arguments says something about them.
    let key = call.key.filter(|_| (inner.options.is_stored)(&tool));
    let job = Job::begin(JobId::from_bits(bits), call.owner, call.tool, now(), inner.options.ttl);
    let job = Job { key, ..job };
    let running = RunningJob { job, cancelled: call.cancelled, progress, ended: CancellationToken::new() };
    let (tell, told) = oneshot::channel();
    let task = JobTask { inner: Arc::clone(inner), running, after, tell };
    tokio::spawn(task.run(call.start, at_once));
    told.await.unwrap_or_else(|_| ended(&tool, CallError::new(ErrorKind::Host, "the server is shutting down")))
}

struct JobTask {
    inner: Arc<Inner>,
    running: RunningJob,
    /// The time after which the call becomes a job.
    after: Duration,
    /// Tells the caller, for as long as it waits.
    tell: oneshot::Sender<CallOrJob>,
}

impl JobTask {
    async fn run(self, start: StartCall, at_once: bool) {
        let tool = self.running.job.tool.clone();
        let cancelled = self.running.cancelled.clone();
        let observer = Arc::clone(&self.running.progress) as Arc<dyn Observer>;
        let job = (at_once && (self.inner.options.is_queued)(&tool)).then_some(self.running.job.id);
        let started_in_queue = job.is_some();
        let started = StartedCall { job, observer, cancelled: cancelled.clone() };
        if at_once {
            match self.create().await {
                Ok(job) if self.tell.is_closed() => {
                    // Its caller has left, and nothing has run.
                    self.inner.forget(&job.owner, job.id).await;
                    self.inner.leave(job.id);
                }
                Ok(job) => {
                    // Spawned only now: nothing runs that its owner cannot find.
                    let call = tokio::spawn(start(started));
                    self.hand_over(job, call, started_in_queue).await;
                }
                Err(error) => {
                    let _gone = self.tell.send(ended(&tool, refusal(&error)));
                }
            }
            return;
        }
        let call = tokio::spawn(start(started));
        self.run_for_a_while(call, &tool, &cancelled).await;
    }

    /// Waits for the end of a call; then makes it a job.
    async fn run_for_a_while(mut self, mut call: JoinHandle<CallResult>, tool: &str, cancelled: &CancellationToken) {
        tokio::select! {
            biased;
            result = &mut call => {
                let _gone = self.tell.send(CallOrJob::Ended(Box::new(result_of(result, tool))));
                return;
            }
            () = self.tell.closed() => {
                cancelled.cancel();
                let _nobody_waits = call.await;
                return;
            }
            () = tokio::time::sleep(self.after) => {}
        }
        match self.create().await {
            Ok(job) => self.hand_over(job, call, false).await,
            // It stays a call like any other.
            Err(_full_or_unavailable) => {
                let result = tokio::select! {
                    result = &mut call => result,
                    () = self.tell.closed() => {
                        cancelled.cancel();
                        call.await
                    }
                };
                let _gone = self.tell.send(CallOrJob::Ended(Box::new(result_of(result, tool))));
            }
        }
    }

    /// Creates the job, within [`CREATE_TIMEOUT`]. A store that is slower may create it all the same, and then the job, which has
    /// no call, is removed.
    async fn create(&self) -> Result<Job, JobStoreError> {
        let inner = Arc::clone(&self.inner);
        let running = self.running.clone();
        let (tell, mut told) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(Ok(job)) = tell.send(inner.create(running).await) {
                inner.forget(&job.owner, job.id).await;
                inner.leave(job.id);
            }
        });
        if let Ok(Ok(created)) = tokio::time::timeout(CREATE_TIMEOUT, &mut told).await {
            return created;
        }
        told.close();
        // It may have been created in the meantime.
        let late = told.try_recv().ok();
        late.unwrap_or_else(|| Err(JobStoreError::Unavailable("the store does not answer".to_owned())))
    }

    /// Tells the caller of the job, waits for the end of the call, and saves it.
    async fn hand_over(self, job: Job, call: JoinHandle<CallResult>, is_queued: bool) {
        let Self { inner, running: RunningJob { job: Job { id, owner, tool, key, .. }, cancelled, .. }, tell, .. } =
            self;
        let is_known = tell.send(CallOrJob::Job(Box::new(job))).is_ok();
        if !is_known {
            cancelled.cancel();
        }
        let result = tokio::select! {
            biased;
            result = call => result_of(result, &tool),
            // It goes on, and another process ends it.
            () = inner.closing.cancelled(), if is_queued => return inner.leave(id),
        };
        let was_stopped = result.error().is_some_and(|error| error.kind == ErrorKind::Cancelled);
        // Another process may have cancelled a job that is queued.
        let was_cancelled = cancelled.is_cancelled() || is_queued;
        let state = if was_stopped && !cancelled.is_cancelled() && inner.closing.is_cancelled() {
            JobState::interrupted()
        } else {
            JobState::of_result(result, was_cancelled)
        };
        inner.end(id, state).await;
        // The job of a key stays, so that a call which may have had effects is not made again.
        if !is_known && key.is_none() {
            inner.forget(&owner, id).await;
        }
    }
}

/// Ends a job of another process with the end that its call has had, in a task of its own.
pub(super) fn adopt(inner: &Arc<Inner>, job: Job, call: Call, tools: Arc<dyn ToolProvider>) {
    let cancelled = CancellationToken::new();
    let progress = observe(None);
    let observer = Some(Arc::clone(&progress) as Arc<dyn Observer>);
    let context = CallContext { observer, cancelled: Some(cancelled.clone()), ..call.context };
    let call = Call { context, ..call };
    let running = RunningJob { job: job.clone(), cancelled, progress, ended: CancellationToken::new() };
    inner.running().insert(job.id, running);
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let ended = tokio::spawn(async move { tools.dispatch(call).await }).await;
        inner.end(job.id, JobState::of_result(result_of(ended, &job.tool), true)).await;
    });
}

/// Returns the result of a call that has ended, also if its task panicked.
fn result_of(ended: Result<CallResult, tokio::task::JoinError>, tool: &str) -> CallResult {
    ended.unwrap_or_else(|_| failure(tool, CallError::new(ErrorKind::Host, "the server failed while the tool ran")))
}

fn ended(tool: &str, error: CallError) -> CallOrJob {
    CallOrJob::Ended(Box::new(failure(tool, error)))
}

fn failure(tool: &str, error: CallError) -> CallResult {
    CallResult { id: String::new(), tool: tool.to_owned(), outcome: Err(error), metadata: Metadata::default() }
}

/// Returns the error of a call that has to be a job, and cannot become one. Nothing has run.
fn refusal(error: &JobStoreError) -> CallError {
    let message = match error {
        JobStoreError::KeyTaken => {
            "another process started the call with this key; it was not started again".to_owned()
        }
        _ => format!("the tool did not run: {error}"),
    };
    let (hint, retry_after) = match error {
        JobStoreError::KeyTaken => ("repeat the same request to get its job", RETRY_WHEN_TAKEN),
        _ => (
            "call again when the time of a job is over, or after `DELETE /v1/jobs/{id}` of one that has ended",
            RETRY_AFTER,
        ),
    };
    CallError::new(ErrorKind::Unavailable, message).with_hint(hint).with_retry_after(retry_after)
}

fn random_bits() -> Result<u128, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}
