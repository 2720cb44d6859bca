//! The way of a call, from what a model wrote to what it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::content::Content;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordKind;
use fumehood_core::result::{CallError, CallResult, Metadata};
use serde_json::{Map, Value, json};

use super::abort::{Abort, Refusal, legible};
use super::call_state::Dispatch;
use super::checks::{AuthorizedCall, RawArguments};
use crate::catch_panic::{catch_panic, catch_panic_sync};
use crate::execution::{Status, ToolExecution};
use crate::memory::Episode;
use crate::persist::Persist;
use crate::registry::{Purpose, Stop};
use crate::retry::{Fault, Remedy, escalated};
use crate::truncate::{shown, within};

/// Bytes of arguments that no tool will see and that are recorded all the same.
const RAW_BYTES: usize = 4096;

/// A call that ran: with which arguments, and what it gave.
struct Ran {
    authorized: AuthorizedCall,
    result: CallResult,
}

impl Dispatch<'_> {
    /// Goes all the way.
    pub(super) async fn take(mut self) -> Result<ToolExecution, Stop> {
        match self.walk().await {
            Ok((status, result)) => Ok(self.execution(status, result)),
            Err(Abort::Refused(refusal)) => Ok(self.refused(*refusal).await),
            Err(Abort::Stop(stop)) => {
                let body = json!({"status": "stopped", "reason": stop.reason});
                // The run ends whether or not that can be recorded.
                let _recorded = self.journal.put(RecordKind::Verdict, Some("stop"), || body).await;
                Err(stop)
            }
        }
    }

    async fn walk(&mut self) -> Result<(Status, CallResult), Abort> {
        let given = RawArguments::Text(self.call.arguments.clone());
        let mut ran = self.run_once(given).await?;
        if let (Err(error), Remedy::Fix(fix)) = (&ran.result.outcome, ran.authorized.policy.remedy(Fault::Execution))
            && let Some(fixed) = catch_panic_sync(|| fix(&self.call.arguments, error)).ok().flatten()
        {
            ran = self.run_once(RawArguments::Value(fixed)).await?;
        }
        let Ran { authorized, mut result } = ran;
        if let Err(error) = &mut result.outcome {
            match authorized.policy.remedy(Fault::Execution) {
                Remedy::Escalate { severity, advice } => *error = escalated(error.clone(), *severity, advice),
                Remedy::Stop => return Err(Abort::Stop(Stop::new(error.message.clone()))),
                Remedy::Tell | Remedy::Retry(_) | Remedy::Fix(_) => {}
            }
        }
        let result = self.after(&authorized, result).await?;
        Ok(self.finalize(&authorized, result).await)
    }

    /// Checks, hooks, and the tool itself.
    async fn run_once(&mut self, given: RawArguments) -> Result<Ran, Abort> {
        let name = self.call.name.clone();
        let authorized = self.clear(&name, given).await?;
        let mut authorized = self.before(authorized).await?;
        let body = || {
            let kept =
                catch_panic_sync(|| self.persist.arguments(&authorized.invocation.arguments)).unwrap_or_default();
            let mut body = Map::from_iter([("family".to_owned(), Value::from(authorized.family.as_str()))]);
            body.extend(kept.map(|kept| ("arguments".to_owned(), kept)));
            body.extend((!self.notes.is_empty()).then(|| ("modified".to_owned(), json!(self.notes))));
            Value::Object(body)
        };
        self.journal.started(body).await?;
        Arc::make_mut(&mut authorized.invocation).partials = self.journal.partials(self.persist.is_full());
        let began = Instant::now();
        let (result, attempts) = self.attempts(&authorized).await;
        let elapsed = began.elapsed();
        let overran = authorized.policy.expected_duration.is_some_and(|expected| elapsed > expected);
        match result {
            Ok(mut result) => {
                // Another id would answer another call.
                result.id.clone_from(&self.call.id);
                if result.metadata.duration == Duration::ZERO {
                    result.metadata.duration = elapsed;
                }
                self.finished(&result, attempts, overran).await;
                Ok(Ran { authorized, result })
            }
            Err(stop) => {
                let _recorded = self.journal.put(RecordKind::ToolFinished, Some("stopped"), || Value::Null).await;
                Err(Abort::Stop(stop))
            }
        }
    }

    /// Runs the tool, again where its remedy says so.
    async fn attempts(&self, authorized: &AuthorizedCall) -> (Result<CallResult, Stop>, u32) {
        let annotations = authorized.tool.contract().spec().annotations;
        let idempotent = annotations.idempotent == Some(true) || annotations.read_only == Some(true);
        let invocation = &authorized.invocation;
        let mut made = 0;
        loop {
            made += 1;
            // The call itself may panic before there is a future.
            let ended = catch_panic(async { authorized.tool.call(Arc::clone(invocation)).await }).await;
            let result = match ended {
                Ok(Ok(result)) => self.wrapped(result),
                Ok(Err(stop)) => return (Err(stop), made),
                Err(said) => {
                    let error = CallError::new(ErrorKind::Trap, said);
                    let (id, tool) = (self.call.id.clone(), invocation.tool.clone());
                    self.wrapped(CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() })
                }
            };
            let wait = match (&result.outcome, authorized.policy.remedy(Fault::Execution)) {
                (Err(error), Remedy::Retry(attempts)) => attempts.next(made, idempotent, error),
                _ => None,
            };
            match wait {
                Some(Duration::ZERO) => {}
                Some(wait) => tokio::time::sleep(wait).await,
                None => return (Ok(result), made),
            }
        }
    }

    /// A tool that crashed is said to have, in the words that the caller's side uses.
    fn wrapped(&self, mut result: CallResult) -> CallResult {
        if let Err(error) = &mut result.outcome
            && error.kind == ErrorKind::Trap
        {
            let (name, said) = (&result.tool, &error.message);
            let message = if self.batch.is_channel() {
                format!("[error: tool '{name}' threw an exception: {said}]")
            } else {
                format!("Exception during execution of tool '{name}': {said}")
            };
            error.message = message.into();
        }
        result
    }

    /// That it ended and how, without anything of the result: no hook has seen that yet.
    async fn finished(&mut self, result: &CallResult, attempts: u32, overran: bool) {
        let Metadata { duration, fuel_used, peak_memory, requests, .. } = &result.metadata;
        let body = || {
            let mut body = json!({
                "duration_ms": u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) as f64 / 1000.0,
                "fuel_used": fuel_used,
                "peak_memory": peak_memory,
                "bytes": result.content().iter().map(Content::bytes).sum::<usize>(),
                "attempts": attempts,
                "overran": overran,
            });
            if let (false, Value::Object(body)) = (requests.is_empty(), &mut body) {
                // Method, host, status and sizes, and nothing of what was asked or answered.
                body.insert("requests".to_owned(), json!(requests));
            }
            body
        };
        // The tool has run; its result is not lost because the log fails now.
        let _recorded = self.journal.put(RecordKind::ToolFinished, Some(status_of(result)), body).await;
    }

    /// Makes of the result what the model sees, keeps what may be kept, and tells those who look on.
    async fn finalize(&mut self, authorized: &AuthorizedCall, result: CallResult) -> (Status, CallResult) {
        let arguments = &authorized.invocation.arguments;
        let seen = shown(&result, authorized.policy.result_bytes.unwrap_or(usize::MAX));
        let status = if result.is_ok() { Status::Ok } else { Status::HandlerError };
        let word = status_of(&result);
        // A function that cannot say what may be kept keeps nothing.
        let keep = || catch_panic_sync(|| self.persist.result(arguments, &result, &seen)).unwrap_or_default();
        let kept = if self.parts.recorder.is_enabled() { keep() } else { None };
        if let Some(kept) = kept {
            let body = || json!({"result": kept, "truncated": seen.metadata.truncated});
            let _recorded = self.journal.put(RecordKind::ToolResult, Some(word), body).await;
        }
        if result.is_ok() && authorized.tool.purpose() == Purpose::Knowledge {
            let _recorded = self.journal.put(RecordKind::KnowledgeUsed, None, || Value::Null).await;
        }
        self.observed(authorized, &result);
        self.record_episode(&authorized.invocation.tool, arguments, word, &seen);
        (status, seen)
    }

    fn observed(&self, authorized: &AuthorizedCall, result: &CallResult) {
        if !result.is_ok() {
            return;
        }
        let observers = &self.parts.observers;
        let name = &authorized.invocation.tool;
        // What an onlooker does is its own affair, panics included.
        let _watched = catch_panic_sync(|| match authorized.tool.purpose() {
            Purpose::Action => {
                observers.on_tool_use.iter().for_each(|see| see(name, &authorized.invocation.arguments, result));
            }
            Purpose::Knowledge => {
                observers.on_knowledge_used.iter().for_each(|see| see(name, &result.text().unwrap_or_default()));
            }
        });
    }

    /// Nothing that may not be kept gets into the account.
    fn record_episode(&self, tool: &str, arguments: &Value, status: &str, seen: &CallResult) {
        let Some(episodes) = &self.parts.episodes else { return };
        let kept = self.persist.is_full();
        let result = match &seen.outcome {
            Ok(_) => seen.text().unwrap_or_default(),
            Err(error) => error.message.as_str().into(),
        };
        let scope = self.batch.scope;
        let episode = Episode {
            execution: scope.execution.clone(),
            step: scope.step,
            tool: tool.to_owned(),
            arguments: if kept { arguments.to_string() } else { String::new() },
            status: status.to_owned(),
            result: if kept { result.into_owned() } else { String::new() },
        };
        episodes.add(&scope.session, episode);
    }

    /// The result of a call that did not run.
    async fn refused(mut self, refusal: Refusal) -> ToolExecution {
        let Refusal { status, error } = refusal;
        let result = CallResult {
            id: self.call.id.clone(),
            tool: legible(&self.call.name),
            outcome: Err(error),
            metadata: Metadata::default(),
        };
        let seen = shown(&result, RAW_BYTES);
        let body = json!({
            "status": status,
            "arguments": self.raw_arguments(),
            // The message repeats what was given, which may be what the tool keeps to itself.
            "error": if self.persist.is_full() { json!(seen.error()) } else { json!({"kind": status_of(&seen)}) },
        });
        // The model is told whether or not that can be recorded.
        let _recorded = self.journal.put(RecordKind::ToolRejected, Some(status_of(&seen)), || body).await;
        if matches!(status, Status::RejectedAllowlist | Status::RejectedNotFound) {
            // The account is for the model: it must not depend on what a tool out of reach keeps to itself.
            self.persist = Persist::Nothing;
        }
        self.record_episode(&result.tool, &Value::from(self.call.arguments.as_str()), status_of(&seen), &seen);
        self.execution(status, seen)
    }

    /// As the model wrote them, unless the tool keeps less: then they are shown to what decides that, as a string if
    /// they are not JSON.
    fn raw_arguments(&self) -> Option<Value> {
        let raw = &self.call.arguments;
        let value = || match serde_json::from_str(raw) {
            Ok(value) if raw.len() <= RAW_BYTES => value,
            _ => Value::from(within(raw, RAW_BYTES)),
        };
        catch_panic_sync(|| self.persist.arguments(&value())).unwrap_or_default()
    }

    fn execution(self, status: Status, result: CallResult) -> ToolExecution {
        ToolExecution {
            id: self.execution.clone(),
            call: self.call.clone(),
            status,
            result,
            started_at: self.started_at,
            completed_at: self.parts.clock.now(),
            modified: (!self.notes.is_empty()).then(|| self.notes.join("; ")),
        }
    }
}

fn status_of(result: &CallResult) -> &'static str {
    result.error().map_or("ok", |error| error.kind.as_str())
}
