//! The side of a worker: takes jobs from the queue as places are free.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{AckKind, Message};
use fumehood_core::call::CancellationToken;
use fumehood_core::job::JobId;
use fumehood_core::tool::ToolProvider;
use futures_util::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::claimed_job::ClaimedJob;
use super::job_stream::{JobQueueOptions, JobStream};
use super::message::{JobOrder, JobRequest};
use crate::error::CellError;
use crate::identity::Role;
use crate::protocol::Offer;
use crate::worker::{Worker, WorkerOptions};

/// Maximum time between two looks at the queue.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time between two looks at the queue after one that failed.
const LOOK_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Delay after which a job is delivered again that this worker cannot run at present.
const NOT_NOW: Duration = Duration::from_secs(2);

/// Runs jobs of the queue of a cell. Cheap to clone.
#[derive(Clone)]
pub struct JobRunner {
    pub(super) inner: Arc<RunnerInner>,
}

pub(super) struct RunnerInner {
    pub(super) stream: JobStream,
    pub(super) tools: Arc<dyn ToolProvider>,
    pub(super) options: WorkerOptions,
    pub(super) run: u64,
    places: Arc<Semaphore>,
    size: usize,
    running: Mutex<HashMap<JobId, CancellationToken>>,
    /// Cancelled when the time of the worker is over.
    pub(super) stopped: CancellationToken,
}

impl fmt::Debug for JobRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRunner").field("places", &self.inner.size).finish_non_exhaustive()
    }
}

impl RunnerInner {
    fn running(&self) -> MutexGuard<'_, HashMap<JobId, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobRunner {
    /// Opens the queue of the cell for a worker, with so many places for jobs besides those for calls.
    ///
    /// # Errors
    /// If the server has no JetStream.
    pub async fn open(worker: &Worker, options: JobQueueOptions, size: usize) -> Result<Self, CellError> {
        let run = getrandom::u64().map_err(CellError::Random)?;
        let stream = JobStream::open(worker.link(), options, false).await?;
        let (tools, worker_options) = worker.tools();
        let places = Arc::new(Semaphore::new(size));
        let running = Mutex::default();
        let stopped = CancellationToken::new();
        let options = worker_options;
        Ok(Self { inner: Arc::new(RunnerInner { stream, tools, options, run, places, size, running, stopped }) })
    }

    /// Runs jobs until `stop` is cancelled. Then takes no more, lets the running ones end for `grace` at most, and ends the
    /// rest as interrupted.
    pub async fn serve(&self, stop: CancellationToken, grace: Duration) {
        let orders = {
            let runner = self.clone();
            tokio::spawn(async move { runner.follow_orders().await })
        };
        let _stopped = stop.run_until_cancelled(self.take_jobs()).await;
        let all = u32::try_from(self.inner.size).unwrap_or(u32::MAX);
        if tokio::time::timeout(grace, self.inner.places.acquire_many(all)).await.is_err() {
            self.inner.stopped.cancel();
            let _guests_hang = tokio::time::timeout(Duration::from_secs(5), self.inner.places.acquire_many(all)).await;
        }
        orders.abort();
    }

    /// Stops the jobs that gateways cancel.
    async fn follow_orders(&self) {
        loop {
            let subject = format!("{}.jobs.cancel", self.inner.stream.link().cell());
            let Ok(mut orders) = self.inner.stream.link().client().subscribe(subject).await else { return };
            while let Some(order) = orders.next().await {
                match self.inner.stream.verify::<JobOrder>(&order.payload, Role::JobGateway) {
                    Ok(frame) => {
                        if let JobOrder::Cancel { job } = frame.envelope.message {
                            self.inner.running().get(&job).inspect(|token| token.cancel());
                        }
                    }
                    Err(error) => tracing::warn!(target: "fumehood::cell", "ignored {error}"),
                }
            }
            tokio::time::sleep(LOOK_AFTER_FAILURE).await;
        }
    }

    async fn take_jobs(&self) {
        let hint = format!("{}.jobs.hint", self.inner.stream.link().cell());
        let Ok(mut hints) = self.inner.stream.link().client().subscribe(hint).await else { return };
        let mut consumers: HashMap<Offer, PullConsumer> = HashMap::new();
        let mut pause = Duration::ZERO;
        loop {
            let _hinted = tokio::time::timeout(pause, hints.next()).await;
            let Ok(place) = Arc::clone(&self.inner.places).acquire_owned().await else { return };
            let mut place = Some(place);
            pause = LOOK_EVERY;
            for offer in self.inner.options.offers(&*self.inner.tools) {
                let message = match self.next_job(&mut consumers, &offer).await {
                    Ok(message) => message,
                    Err(error) => {
                        tracing::debug!(target: "fumehood::cell", "cannot read the queue of jobs: {error}");
                        consumers.remove(&offer);
                        pause = LOOK_AFTER_FAILURE;
                        continue;
                    }
                };
                let Some(message) = message else { continue };
                let runner = self.clone();
                let taken = place.take();
                tokio::spawn(async move {
                    runner.run(message).await;
                    drop(taken);
                });
                // There may be more.
                pause = Duration::ZERO;
                break;
            }
        }
    }

    async fn next_job(
        &self,
        consumers: &mut HashMap<Offer, PullConsumer>,
        offer: &Offer,
    ) -> Result<Option<Message>, String> {
        let consumer = match consumers.get(offer) {
            Some(consumer) => consumer,
            None => {
                let made = self.inner.stream.consumer(offer).await.map_err(|error| error.to_string())?;
                consumers.entry(offer.clone()).or_insert(made)
            }
        };
        let fetch = consumer.fetch().max_messages(1).messages().await;
        let mut batch = fetch.map_err(|error| error.to_string())?;
        match batch.next().await {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(error)) => Err(error.to_string()),
        }
    }

    /// Deals with one message of the queue.
    async fn run(&self, message: Message) {
        let text = std::str::from_utf8(&message.payload).unwrap_or_default();
        let Some(id) = JobId::parse(text) else {
            tracing::warn!(target: "fumehood::cell", "ignored an entry of the queue that is not a job");
            return answer(&message, AckKind::Term).await;
        };
        let signed = match self.inner.stream.get(&JobStream::request_key(id)).await {
            Ok(Some(entry)) => entry.value,
            // Its gateway told its caller that it does not run.
            Ok(None) => return answer(&message, AckKind::Ack).await,
            Err(_) => return answer(&message, AckKind::Nak(Some(NOT_NOW))).await,
        };
        let (request, arguments) = match self.read_request(&signed, id) {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(target: "fumehood::cell", job = %id, "ignored a job: {error}");
                return answer(&message, AckKind::Term).await;
            }
        };
        let tool = self.inner.tools.find(&request.tool);
        let offer = Some(&request.offer);
        let Some(tool) = tool.filter(|tool| self.inner.options.kept_values.offer_of(tool).as_ref() == offer) else {
            return answer(&message, AckKind::Nak(Some(NOT_NOW))).await;
        };
        let token = self.inner.stopped.child_token();
        self.inner.running().insert(id, token.clone());
        let job = ClaimedJob { inner: Arc::clone(&self.inner), message, signed, request, tool, token };
        job.run(arguments).await;
        self.inner.running().remove(&id);
    }

    fn read_request(&self, signed: &[u8], id: JobId) -> Result<(JobRequest, String), String> {
        let frame =
            self.inner.stream.verify::<JobOrder>(signed, Role::JobGateway).map_err(|error| error.to_string())?;
        let JobOrder::Run(request) = frame.envelope.message else { return Err("it is not a request".to_owned()) };
        if request.job != id {
            return Err("it belongs to another job".to_owned());
        }
        if request.version.abs_diff(super::message::JOBS_VERSION) > 1 {
            return Err(format!("it has version {}; versions may differ by one", request.version));
        }
        let arguments = String::from_utf8(frame.body.to_vec()).map_err(|error| error.to_string())?;
        Ok((*request, arguments))
    }
}

/// Answers a message of the queue. Without an answer it is delivered again.
pub(super) async fn answer(message: &Message, kind: AckKind) {
    let began = Instant::now();
    if let Err(error) = message.ack_with(kind).await {
        tracing::debug!(target: "fumehood::cell", "the queue did not confirm within {:?}: {error}", began.elapsed());
    }
}
