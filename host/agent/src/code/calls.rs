//! The calls of one program: their limits, their concurrency, and the calls that they become.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::chat::ToolIntent;
use fumehood_core::program::{FinishedCall, ProgramCalls, ProgramClock};
use fumehood_core::tool::Stop;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::call_maker::{CallMaker, Called};
use super::limits::ProgramLimits;
use super::replay::{Replay, Reservation};
use super::value::to_json;
use crate::deferred::DeferredCall;

/// Number of refused calls of one program after which it is ended. Their errors take memory of the host.
const MAX_REFUSED_CALLS: u32 = 1000;

/// The resources that the calls of a program have used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) calls: u32,
    pub(crate) fuel: u64,
    argument_bytes: usize,
    result_bytes: usize,
}

/// The reason to end a program from outside.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A call ended the whole run.
    Run(Stop),
    /// The program makes calls without end although they are refused, or other ones than are recorded of it.
    Program(CallError),
    /// It waits for nothing but the answers of people.
    Suspended(Vec<DeferredCall>),
}

type CallFuture<'a> = BoxFuture<'a, (u32, Result<Called, Stop>)>;

/// The calls of one program. Calls run while the program waits for them.
pub(crate) struct InnerCalls<'a> {
    maker: &'a dyn CallMaker,
    /// Full names of tools, by their names in the program.
    names: HashMap<String, String>,
    limits: ProgramLimits,
    /// Prefix of the ids of its calls.
    id: &'a str,
    running: FuturesUnordered<CallFuture<'a>>,
    waiting: VecDeque<(u32, ToolIntent)>,
    finished: Vec<FinishedCall>,
    deferred: Vec<DeferredCall>,
    /// Calls that had begun when the program was stopped.
    lost: VecDeque<u32>,
    replay: Replay<'a>,
    spent: Spent,
    last_id: u32,
    refused: u32,
    turns: Arc<Turns>,
    end: Option<oneshot::Sender<Ended>>,
}

/// The turns of a program's calls, which may all be ready at once: after each slice others have theirs, before the next call
/// begins.
struct Turns(Mutex<Instant>);

impl Turns {
    /// Time for which calls of one program begin without a turn of others.
    const SLICE: Duration = Duration::from_millis(2);

    /// Yields to others if the slice is over. The first call after that begins the next slice.
    async fn take(&self) {
        let mut yielded_at = None;
        std::future::poll_fn(|cx| {
            let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if since.elapsed() < Self::SLICE {
                return Poll::Ready(());
            }
            let now = Instant::now();
            if yielded_at.is_some_and(|yielded_at| *since < yielded_at) {
                *since = now;
                return Poll::Ready(());
            }
            yielded_at = Some(now);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl<'a> InnerCalls<'a> {
    /// Creates the calls of a program, and the receiver of the reason to end it.
    pub(crate) fn new(
        maker: &'a dyn CallMaker,
        names: HashMap<String, String>,
        limits: ProgramLimits,
        id: &'a str,
        replay: Replay<'a>,
    ) -> (Self, oneshot::Receiver<Ended>) {
        let (end, ended) = oneshot::channel();
        let calls = Self {
            maker,
            names,
            limits,
            id,
            running: FuturesUnordered::new(),
            waiting: VecDeque::new(),
            finished: Vec::new(),
            deferred: Vec::new(),
            lost: VecDeque::new(),
            replay,
            spent: Spent::default(),
            last_id: 0,
            refused: 0,
            turns: Arc::new(Turns(Mutex::new(Instant::now()))),
            end: Some(end),
        };
        (calls, ended)
    }

    /// Returns the resources that the calls have used.
    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    /// Returns the error of a program that ended earlier than its record.
    pub(crate) fn unused_results(&self) -> Option<CallError> {
        self.replay.unused_results()
    }

    /// Returns the number of calls that have not finished.
    pub(crate) fn unfinished(&self) -> usize {
        self.running.len() + self.waiting.len() + self.deferred.len()
    }

    /// Checks the limits of the program, and counts the call.
    fn admit(&mut self, name: &str, arguments: String) -> Result<ToolIntent, CallError> {
        let limits = &self.limits;
        if self.spent.calls >= limits.calls {
            return Err(quota_error(format!("the program has made all of its {} calls", limits.calls)));
        }
        if self.spent.fuel >= limits.call_fuel {
            return Err(quota_error(format!(
                "the calls of the program have used up their {} units of fuel",
                limits.call_fuel
            )));
        }
        let bytes = self.spent.argument_bytes.saturating_add(arguments.len());
        if bytes > limits.argument_bytes {
            let limit = display_bytes(limits.argument_bytes as u64);
            return Err(quota_error(format!("the arguments of the program's calls have more than {limit} together")));
        }
        match self.replay.reservation(self.last_id) {
            Reservation::New => self.maker.reserve()?,
            Reservation::Uncounted => self.maker.count_again(),
            Reservation::Counted => {}
        }
        self.spent.calls += 1;
        self.spent.argument_bytes = bytes;
        // A name that no tool has gets the refusal of such a call.
        let name = self.names.get(name).map_or(name, String::as_str).to_owned();
        Ok(ToolIntent { id: format!("{}.{}", self.id, self.last_id), name, arguments })
    }

    /// Starts waiting calls, up to the limit of those that run at a time. That they begin is recorded first.
    async fn start_waiting(&mut self) -> Result<(), CallError> {
        let room = self.limits.concurrency.get().saturating_sub(self.running.len());
        let next = self.waiting.drain(..room.min(self.waiting.len()));
        let (lost, next): (Vec<_>, Vec<_>) =
            next.partition(|(id, intent)| self.replay.is_lost(*id, intent) && !self.maker.is_denied(&intent.id));
        lost.iter().for_each(|(_, intent)| self.maker.add_past_call(&intent.name));
        self.lost.extend(lost.into_iter().map(|(id, _)| id));
        next.iter().for_each(|(id, _)| self.replay.note_begun(*id));
        self.replay.flush().await?;
        for (id, intent) in next {
            let maker = self.maker;
            let turns = Arc::clone(&self.turns);
            self.running.push(Box::pin(async move {
                turns.take().await;
                (id, maker.call(intent).await)
            }));
        }
        Ok(())
    }

    fn end(&mut self, reason: Ended) {
        if let Some(sender) = self.end.take() {
            // Nobody receives it if the program has ended already.
            let _received = sender.send(reason);
        }
    }

    /// Counts the cost of a call that has finished, and returns its result for the program.
    fn finish(&mut self, id: u32, result: CallResult) -> FinishedCall {
        self.spent.fuel = self.spent.fuel.saturating_add(result.metadata.fuel_used);
        let result = result.outcome.and_then(|parts| to_json(&parts));
        let result = result.and_then(|json| {
            self.spent.result_bytes = self.spent.result_bytes.saturating_add(json.len());
            if self.spent.result_bytes <= self.limits.result_bytes {
                return Ok(json);
            }
            let limit = display_bytes(self.limits.result_bytes as u64);
            let message = format!("the results of the program's calls have more than {limit} together");
            Err(CallError::new(ErrorKind::Quota, message).with_hint("ask for less, or use several programs"))
        });
        FinishedCall { id, result }
    }

    /// Waits for the next call that finishes. The deadline is paused while a person is asked.
    async fn next_finished(&mut self, clock: &dyn ProgramClock) -> Option<(u32, Result<Called, Stop>)> {
        let mut pause = None;
        let questions = self.maker.questions();
        let next = std::future::poll_fn(|cx| {
            let polled = self.running.poll_next_unpin(cx);
            // Questions are opened and answered only while the calls are polled.
            match (questions.has_any(), &pause) {
                (true, None) => pause = Some(clock.pause()),
                (false, Some(_)) => pause = None,
                _ => {}
            }
            Poll::Ready(ready!(polled))
        });
        next.await
    }

    /// Gives the program the next result that is recorded, if there is one.
    fn take_recorded(&mut self) -> Result<bool, CallError> {
        let Some((finished, fuel)) = self.replay.next_result()? else { return Ok(false) };
        self.spent.fuel = self.spent.fuel.saturating_add(fuel);
        let bytes = finished.result.as_ref().map_or(0, String::len);
        self.spent.result_bytes = self.spent.result_bytes.saturating_add(bytes);
        self.finished.push(finished);
        Ok(true)
    }

    /// Gives a result to the program, which can do nothing with it but compute. So it is recorded together with what the
    /// program does next, before that takes effect.
    fn give(&mut self, finished: FinishedCall, fuel: u64) {
        self.replay.note_finished(&finished, fuel);
        self.finished.push(finished);
    }

    /// Waits until the program can be given a result, or has to be ended. Results are given one by one, as they are
    /// recorded.
    async fn advance(&mut self, clock: &dyn ProgramClock) -> Result<(), CallError> {
        if !self.finished.is_empty() {
            return self.replay.flush().await;
        }
        // What is recorded comes first: until then nothing runs.
        if self.take_recorded()? {
            return Ok(());
        }
        loop {
            self.start_waiting().await?;
            if let Some(id) = self.lost.pop_front() {
                self.give(FinishedCall { id, result: Err(interruption_error()) }, 0);
                return Ok(());
            }
            match self.next_finished(clock).await {
                Some((id, Ok(Called::Finished(result)))) => {
                    let fuel = result.metadata.fuel_used;
                    let finished = self.finish(id, result);
                    self.give(finished, fuel);
                    return Ok(());
                }
                Some((id, Ok(Called::Deferred(call)))) => {
                    self.deferred.push(call);
                    self.replay.note_deferred(id);
                    self.replay.flush().await?;
                }
                Some((_, Err(stop))) => {
                    self.end(Ended::Run(stop));
                    return Ok(());
                }
                None if self.deferred.is_empty() => return Ok(()),
                None => {
                    let deferred = std::mem::take(&mut self.deferred);
                    self.end(Ended::Suspended(deferred));
                    return Ok(());
                }
            }
        }
    }
}

fn quota_error(message: String) -> CallError {
    CallError::new(ErrorKind::Quota, message).with_hint("return the partial results, and continue in another program")
}

/// Returns the result of a call that had begun when the program stopped.
fn interruption_error() -> CallError {
    let message = "interrupted: the program stopped during the call, which may have had an effect";
    CallError::new(ErrorKind::Cancelled, message).with_hint("check the current state before you repeat it")
}

impl ProgramCalls for InnerCalls<'_> {
    fn start(&mut self, name: String, arguments: String) -> u32 {
        self.last_id = self.last_id.saturating_add(1);
        let id = self.last_id;
        let recorded = match self.replay.start(id, &name, &arguments) {
            Ok(recorded) => recorded,
            Err(error) => {
                self.end(Ended::Program(error));
                return id;
            }
        };
        let admitted = match recorded {
            Some(refused) => Err(refused),
            None => self.admit(&name, arguments),
        };
        match admitted {
            Ok(intent) if self.replay.has_result(id) => self.maker.add_past_call(&intent.name),
            Ok(intent) => self.waiting.push_back((id, intent)),
            Err(error) => {
                self.refused = self.refused.saturating_add(1);
                if self.refused > MAX_REFUSED_CALLS {
                    let message = format!("the program keeps making calls after {MAX_REFUSED_CALLS} were refused");
                    self.end(Ended::Program(CallError::new(error.kind, message)));
                } else {
                    self.replay.note_refused(id, &error);
                    self.finished.push(FinishedCall { id, result: Err(error) });
                }
            }
        }
        id
    }

    fn wait<'b>(&'b mut self, clock: &'b dyn ProgramClock) -> BoxFuture<'b, Vec<FinishedCall>> {
        Box::pin(async move {
            if let Err(error) = self.advance(clock).await {
                self.end(Ended::Program(error));
            }
            if self.end.is_none() {
                // The receiver ends the program.
                return std::future::pending().await;
            }
            std::mem::take(&mut self.finished)
        })
    }
}
