//! The calls of one program: their limits, their concurrency, and the calls that they become.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::chat::ToolIntent;
use fumehood_core::tool::Stop;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::limits::ProgramLimits;
use super::program::{FinishedCall, ProgramCalls, ProgramClock};
use super::value::to_json;

/// Number of refused calls of one program after which it is ended. Their errors take memory of the host.
const MAX_REFUSED_CALLS: u32 = 1000;

/// The number of questions about calls of a program that a person has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions(AtomicUsize);

/// A question that is open until this is dropped.
pub(crate) struct OpenQuestion<'a>(&'a OpenQuestions);

impl OpenQuestions {
    pub(crate) fn open(&self) -> OpenQuestion<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        OpenQuestion(self)
    }

    fn has_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The way in which calls of a program are made: with every check of a call that a model makes directly.
pub(crate) trait CallMaker: Sync {
    /// Counts a call towards the budgets of the session.
    ///
    /// # Errors
    /// If a budget is used up.
    fn reserve(&self) -> Result<(), CallError>;

    /// Makes a call.
    ///
    /// # Errors
    /// Only to end the whole run.
    fn call(&self, intent: ToolIntent) -> BoxFuture<'_, Result<CallResult, Stop>>;

    /// Returns the questions that are open.
    fn questions(&self) -> &OpenQuestions;
}

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
    /// The program makes calls without end, although they are refused.
    Program(CallError),
}

type Running<'a> = BoxFuture<'a, (u32, Result<CallResult, Stop>)>;

/// The calls of one program. Calls run while the program waits for them.
pub(crate) struct InnerCalls<'a> {
    maker: &'a dyn CallMaker,
    /// Full names of tools, by their names in the program.
    names: HashMap<String, String>,
    limits: ProgramLimits,
    /// Prefix of the ids of its calls.
    id: &'a str,
    running: FuturesUnordered<Running<'a>>,
    waiting: VecDeque<(u32, ToolIntent)>,
    finished: Vec<FinishedCall>,
    spent: Spent,
    last_id: u32,
    refused: u32,
    end: Option<oneshot::Sender<Ended>>,
}

impl<'a> InnerCalls<'a> {
    /// Creates the calls of a program, and the receiver of the reason to end it.
    pub(crate) fn new(
        maker: &'a dyn CallMaker,
        names: HashMap<String, String>,
        limits: ProgramLimits,
        id: &'a str,
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
            spent: Spent::default(),
            last_id: 0,
            refused: 0,
            end: Some(end),
        };
        (calls, ended)
    }

    /// Returns the resources that the calls have used.
    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    /// Returns the number of calls that have not finished.
    pub(crate) fn unfinished(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// Checks the limits of the program, and counts the call.
    fn admit(&mut self, name: &str, arguments: String) -> Result<ToolIntent, CallError> {
        let limits = &self.limits;
        let quota = |message: String| {
            Err(CallError::new(ErrorKind::Quota, message)
                .with_hint("return what there is, and go on in another program"))
        };
        if self.spent.calls >= limits.calls {
            return quota(format!("the program has made all of its {} calls", limits.calls));
        }
        if self.spent.fuel >= limits.call_fuel {
            return quota(format!("the calls of the program have used up their {} units of fuel", limits.call_fuel));
        }
        let bytes = self.spent.argument_bytes.saturating_add(arguments.len());
        if bytes > limits.argument_bytes {
            let limit = display_bytes(limits.argument_bytes as u64);
            return quota(format!("the arguments of the program's calls have more than {limit} together"));
        }
        self.maker.reserve()?;
        self.spent.calls += 1;
        self.spent.argument_bytes = bytes;
        // A name that no tool has gets the refusal of such a call.
        let name = self.names.get(name).map_or(name, String::as_str).to_owned();
        Ok(ToolIntent { id: format!("{}.{}", self.id, self.last_id), name, arguments })
    }

    /// Starts waiting calls, up to the limit of those that run at a time.
    fn start_waiting(&mut self) {
        while self.running.len() < self.limits.concurrency.get() {
            let Some((id, intent)) = self.waiting.pop_front() else { return };
            let maker = self.maker;
            self.running.push(Box::pin(async move { (id, maker.call(intent).await) }));
        }
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
    async fn next_finished(&mut self, clock: &dyn ProgramClock) -> Option<Result<FinishedCall, Stop>> {
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
        let (id, result) = next.await?;
        Some(result.map(|result| self.finish(id, result)))
    }
}

impl ProgramCalls for InnerCalls<'_> {
    fn start(&mut self, name: String, arguments: String) -> u32 {
        self.last_id = self.last_id.saturating_add(1);
        let id = self.last_id;
        match self.admit(&name, arguments) {
            Ok(intent) => self.waiting.push_back((id, intent)),
            Err(error) => {
                self.refused = self.refused.saturating_add(1);
                if self.refused > MAX_REFUSED_CALLS {
                    let message = format!("the program goes on making calls after {MAX_REFUSED_CALLS} were refused");
                    self.end(Ended::Program(CallError::new(error.kind, message)));
                } else {
                    self.finished.push(FinishedCall { id, result: Err(error) });
                }
            }
        }
        id
    }

    fn wait<'b>(&'b mut self, clock: &'b dyn ProgramClock) -> BoxFuture<'b, Vec<FinishedCall>> {
        Box::pin(async move {
            self.start_waiting();
            if self.finished.is_empty() {
                match self.next_finished(clock).await {
                    Some(Ok(finished)) => self.finished.push(finished),
                    Some(Err(stop)) => self.end(Ended::Run(stop)),
                    None => {}
                }
            }
            if self.end.is_none() {
                // The receiver ends the program.
                return std::future::pending().await;
            }
            std::mem::take(&mut self.finished)
        })
    }
}
