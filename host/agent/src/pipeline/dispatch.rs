//! Dispatch of one call: checks, hooks, the tool, and the result that the model sees.

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::ToolIntent;
use fumehood_core::persistence::Persistence;
use fumehood_core::record::RecordKind;
use fumehood_core::schema::gate::Repair;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::Stop;
use serde_json::{Map, Value, json};

use super::abort::{Abort, Refusal, printable_name};
use super::batch::Batch;
use super::checks::AuthorizedCall;
use super::config::PipelineConfig;
use super::journal::Journal;
use crate::deferred::DeferredCall;
use crate::execution::{Status, ToolExecution};
use crate::registry::{CallAccount, CallSession, RegisteredTool};
use crate::tool_search::SEARCH_TOOLS;
use crate::truncate::{truncate_result, truncate_text};
use fumehood_core::panic::{catch_panic, catch_panic_sync};

/// Maximum bytes of the arguments of a refused call that are recorded.
pub(super) const MAX_RAW_BYTES: usize = 4096;

/// A call that ran, and its result.
struct CompletedCall {
    authorized: AuthorizedCall,
    result: CallResult,
}

/// The end of a dispatch.
pub(super) enum Dispatched {
    /// The call has a result.
    Ended(Box<ToolExecution>),
    /// The call waits for the answers of people: about itself, or about calls of its program.
    Deferred(Vec<DeferredCall>),
}

/// One call on its way through the pipeline.
///
/// Stages that most calls skip are futures of their own in boxes: a batch moves the future of each call, and all of them
/// together made it several times as large.
pub(super) struct Dispatch<'a> {
    pub(super) config: &'a PipelineConfig,
    pub(super) batch: &'a Batch<'a>,
    pub(super) call: ToolIntent,
    pub(super) journal: Journal<'a>,
    pub(super) notes: Vec<String>,
    pub(super) persist: Persistence,
    /// Repairs of the arguments that the model wrote.
    pub(super) repairs: Vec<Repair>,
    /// The calls of its program that wait for answers.
    pub(super) suspended: Mutex<Vec<DeferredCall>>,
    /// The name in the call, if it is another one than the tool's full name.
    called_as: Option<String>,
    execution: String,
    started_at: Timestamp,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(config: &'a PipelineConfig, batch: &'a Batch<'a>, mut call: ToolIntent) -> Self {
        if call.id.is_empty() {
            call.id = config.ids.next("call");
        }
        let execution = config.ids.next_execution();
        let journal = Journal::new(config, batch.scope, &execution, &call);
        let notes = Vec::new();
        let persist = Persistence::Full;
        let suspended = Mutex::default();
        let started_at = config.clock.now();
        let called_as = None;
        let repairs = Vec::new();
        let mut dispatch =
            Self { config, batch, call, journal, notes, persist, repairs, suspended, called_as, execution, started_at };
        if let Some(name) = dispatch.resolve_alias() {
            dispatch.journal.set_tool(&name, None);
            dispatch.called_as = Some(std::mem::replace(&mut dispatch.call.name, name));
        }
        dispatch
    }
}

impl Dispatch<'_> {
    /// Returns the id of the execution.
    pub(super) fn execution(&self) -> &str {
        &self.execution
    }

    /// Runs every stage of the pipeline.
    ///
    /// It gives its parts to the execution that it returns, so it can run only once.
    pub(super) async fn run(&mut self) -> Result<Dispatched, Stop> {
        match self.run_stages().await {
            Ok((status, result)) => Ok(Dispatched::Ended(Box::new(self.take_execution(status, result)))),
            Err(Abort::Refused(refusal)) => Ok(Dispatched::Ended(Box::new(Box::pin(self.refuse(*refusal)).await))),
            Err(Abort::Deferred(deferred)) => Ok(Dispatched::Deferred(deferred)),
            Err(Abort::Stop(stop)) => {
                let body = json!({"status": "stopped", "reason": stop.reason});
                // The run ends whether or not that can be recorded.
                let _recorded = self.journal.record(RecordKind::Verdict, Some("stop"), || body).await;
                Err(stop)
            }
        }
    }

    /// Returns the execution of a call during which the host itself panicked.
    pub(super) fn fail(&mut self, panic: &str) -> ToolExecution {
        let error = CallError::new(ErrorKind::Host, format!("the host failed during the call: {panic}"));
        let id = self.call.id.clone();
        let tool = printable_name(&self.call.name);
        let result = CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() };
        self.notes.clear();
        self.take_execution(Status::HandlerError, result)
    }

    /// Runs the checks, the tool, and the policies after it.
    async fn run_stages(&mut self) -> Result<(Status, CallResult), Abort> {
        self.check_tenant_fuel()?;
        let CompletedCall { authorized, result } = self.run_once().await?;
        let result = if self.config.checks.decide_on_results(authorized.call.tool()) {
            Box::pin(self.check_result(&authorized, result)).await
        } else {
            result
        };
        Ok(self.finalize(&authorized, result).await)
    }

    /// Runs the policies after the call, and returns the result as they leave it.
    async fn check_result(&mut self, authorized: &AuthorizedCall, result: CallResult) -> CallResult {
        let was_ok = result.is_ok();
        let decided = self.config.checks.after(&authorized.call, &authorized.context, result).await;
        if let (true, Some(error)) = (was_ok, decided.error()) {
            let body = json!({"by": "hook", "reason": error.message});
            // The result is withheld whether or not that can be recorded.
            let _recorded = self.journal.record(RecordKind::Verdict, Some("reject"), || body).await;
        }
        decided
    }

    /// Runs the checks and the tool.
    async fn run_once(&mut self) -> Result<CompletedCall, Abort> {
        let mut authorized = self.check().await?;
        let body = || {
            let arguments =
                catch_panic_sync(|| self.persist.arguments(authorized.call.arguments())).unwrap_or_default();
            let mut body = Map::from_iter([("family".to_owned(), Value::from(authorized.found.kind.as_str()))]);
            body.extend(arguments.map(|arguments| ("arguments".to_owned(), arguments)));
            body.extend(self.called_as.as_deref().map(|name| ("called_as".to_owned(), printable_name(name).into())));
            body.extend((!self.notes.is_empty()).then(|| ("modified".to_owned(), json!(self.notes))));
            body.extend((!self.repairs.is_empty()).then(|| ("repairs".to_owned(), json!(self.repairs))));
            let is_resumed = authorized.found.is_of_pipeline() && self.batch.has_record(&self.call.id);
            body.extend(is_resumed.then(|| ("resumed".to_owned(), Value::from(true))));
            Value::Object(body)
        };
        // Recorded before the tool runs, so that no effect is missing from the log.
        self.journal.record_started(body).await?;
        authorized.context.observer = self.journal.observer(self.persist.is_full());
        self.start_in_history(&authorized.found);
        self.config.checks.hold_back(&authorized.found.tool, &mut authorized.context);
        let started = Instant::now();
        let (result, attempts) = self.run_attempts(&authorized).await;
        let suspended = take(&mut *self.suspended.lock().unwrap_or_else(PoisonError::into_inner));
        if !suspended.is_empty() {
            // It goes on later, which is an execution of its own in the records.
            let _recorded = self.journal.record(RecordKind::ToolFinished, Some("suspended"), || Value::Null).await;
            return Err(Abort::Deferred(suspended));
        }
        let elapsed = started.elapsed();
        let overran = authorized.policy.expected_duration.is_some_and(|expected| elapsed > expected);
        match result {
            Ok(mut result) => {
                // A tool must not answer another call.
                result.id.clone_from(&self.call.id);
                if result.metadata.duration == Duration::ZERO {
                    result.metadata.duration = elapsed;
                }
                if !authorized.found.is_of_pipeline() {
                    self.spend_fuel(result.metadata.fuel_used);
                }
                self.record_finished(&result, attempts, overran).await;
                Ok(CompletedCall { authorized, result })
            }
            Err(stop) => {
                let _recorded = self.journal.record(RecordKind::ToolFinished, Some("stopped"), || Value::Null).await;
                Err(Abort::Stop(stop))
            }
        }
    }

    /// Runs the tool, repeatedly if its policy retries. Also returns the number of attempts.
    async fn run_attempts(&self, authorized: &AuthorizedCall) -> (Result<CallResult, Stop>, u32) {
        let AuthorizedCall { found, call, context, .. } = authorized;
        let annotations = found.tool.definition().annotations;
        let is_idempotent = annotations.idempotent == Some(true) || annotations.read_only == Some(true);
        let mut attempts = 0;
        loop {
            attempts += 1;
            // `call` itself may panic before it returns a future.
            let ended = catch_panic(async {
                if found.is_of_pipeline() {
                    Box::pin(self.run_code_tool(call, context)).await
                } else {
                    let mut account = None;
                    let session = || self.call_session(account.insert(Arc::default()));
                    let ended = found.call(call.clone(), context.clone(), session).await;
                    if let Some(account) = account {
                        let (usage, calls) = account.take();
                        self.batch.add_account(usage, calls);
                    }
                    ended
                }
            });
            let ended = ended.await;
            let result = match ended {
                Ok(Ok(result)) => self.describe_trap(result),
                Ok(Err(stop)) => return (Err(stop), attempts),
                Err(panic) => {
                    let error = CallError::new(ErrorKind::Trap, panic);
                    let id = self.call.id.clone();
                    let tool = found.tool.full_name().to_owned();
                    self.describe_trap(CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() })
                }
            };
            let delay = match (&result.outcome, &authorized.policy.retry) {
                (Err(error), Some(retry)) => retry.delay_after(attempts, is_idempotent, error),
                _ => None,
            };
            match delay {
                Some(Duration::ZERO) => {}
                Some(delay) => tokio::time::sleep(delay).await,
                None => return (Ok(result), attempts),
            }
        }
    }

    /// Returns the session for a tool that has sessions of its own.
    fn call_session(&self, account: &Arc<CallAccount>) -> CallSession {
        let scope = self.batch.scope;
        CallSession {
            id: scope.session.clone(),
            cause: self.journal.last().map(str::to_owned),
            recorder: Arc::clone(&self.config.recorder),
            allowance: scope.allowance.clone(),
            account: Arc::clone(account),
        }
    }

    /// Rewords the message of a tool that crashed, in the wording for channels or for the model.
    fn describe_trap(&self, mut result: CallResult) -> CallResult {
        if let Err(error) = &mut result.outcome
            && error.kind == ErrorKind::Trap
        {
            let name = &result.tool;
            let reason = &error.message;
            let message = if self.batch.is_channel() {
                format!("[error: tool '{name}' threw an exception: {reason}]")
            } else {
                format!("Exception during execution of tool '{name}': {reason}")
            };
            error.message = message.into();
        }
        result
    }

    /// Records that the tool finished, without any of its result: no hook has seen that yet.
    async fn record_finished(&mut self, result: &CallResult, attempts: u32, overran: bool) {
        let body = || {
            let mut body = result.to_usage();
            if let Value::Object(body) = &mut body {
                body.extend([("attempts".to_owned(), json!(attempts)), ("overran".to_owned(), json!(overran))]);
            }
            body
        };
        // The tool has run: its result must not be lost because the log fails.
        let _recorded = self.journal.record(RecordKind::ToolFinished, Some(status_of(result)), body).await;
    }

    /// Adds the call, which starts now, to the history of its session and program.
    fn start_in_history(&self, found: &RegisteredTool) {
        // Programs and searches read nothing themselves.
        if found.is_of_pipeline() || found.tool.full_name() == SEARCH_TOOLS {
            self.batch.scope.history.count()
        } else {
            self.batch.start_call(found.tool.full_name())
        }
    }

    /// Refuses a direct call if the fuel that sessions share has run out since its batch began.
    fn check_tenant_fuel(&self) -> Result<(), Abort> {
        let allowance = self.batch.scope.allowance.as_ref();
        if self.batch.is_program() || allowance.is_none_or(|allowance| allowance.has_tenant_fuel()) {
            return Ok(());
        }
        let error = CallError::new(ErrorKind::BudgetExhausted, "[budget exhausted — no fuel of the tenant left]");
        Err(Abort::refusal(Status::RejectedBudget, error.with_hint("answer with what you have")))
    }

    /// Takes the fuel of a call that has ended from the budgets.
    fn spend_fuel(&self, used: u64) {
        if let Some(allowance) = &self.batch.scope.allowance {
            allowance.spend_fuel(used);
        }
    }

    /// Records a call that did not run, and returns its execution.
    async fn refuse(&mut self, refusal: Refusal) -> ToolExecution {
        let Refusal { status, error } = refusal;
        let result = CallResult {
            id: self.call.id.clone(),
            tool: printable_name(&self.call.name),
            outcome: Err(error),
            metadata: Metadata::default(),
        };
        let seen = truncate_result(&result, MAX_RAW_BYTES);
        let body = json!({
            "status": status,
            "arguments": self.raw_arguments(),
            // The message repeats the arguments, which the policy may exclude from the records.
            "error": if self.persist.is_full() { json!(seen.error()) } else { json!({"kind": status_of(&seen)}) },
        });
        // The model gets the error whether or not that can be recorded.
        let _recorded = self.journal.record(RecordKind::ToolRejected, Some(status_of(&seen)), || body).await;
        self.take_execution(status, seen)
    }

    /// Returns the arguments as the model wrote them, as far as the policy allows. A redacting policy gets them as a
    /// string if they are not JSON.
    fn raw_arguments(&self) -> Option<Value> {
        let raw = &self.call.arguments;
        catch_panic_sync(|| {
            let value = match serde_json::from_str(raw) {
                Ok(value) if raw.len() <= MAX_RAW_BYTES => value,
                _ => Value::from(truncate_text(raw, MAX_RAW_BYTES)),
            };
            self.persist.arguments(&value)
        })
        .unwrap_or_default()
    }

    /// Returns the execution with this status and result, which takes the call and the id of the dispatch.
    fn take_execution(&mut self, status: Status, result: CallResult) -> ToolExecution {
        ToolExecution {
            id: take(&mut self.execution),
            call: ToolIntent {
                id: take(&mut self.call.id),
                name: take(&mut self.call.name),
                arguments: take(&mut self.call.arguments),
            },
            status,
            result,
            started_at: self.started_at,
            completed_at: self.config.clock.now(),
            modified: (!self.notes.is_empty()).then(|| self.notes.join("; ")),
        }
    }
}

/// Returns `ok`, or the kind of the error.
pub(super) fn status_of(result: &CallResult) -> &'static str {
    result.error().map_or("ok", |error| error.kind.as_str())
}
