//! An agent and its runs, as JavaScript sees them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood::settings::{AgentReport, EmbeddedAgent, Questions};
use napi::Env;
use napi::bindgen_prelude::Object;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::events::NotifyFunction;
use crate::fault::{Code, Fault, error_chain, host_fault, settings_fault};
use crate::outcome::{Outcome, Promise};
use crate::result::NativeResult;
use crate::stop::Stop;

/// A conversation of a model of the program with the tools of a host.
#[napi]
pub struct NativeAgent {
    agent: EmbeddedAgent,
    runtime: Handle,
}

impl fmt::Debug for NativeAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeAgent").finish_non_exhaustive()
    }
}

impl NativeAgent {
    pub(crate) fn new(agent: EmbeddedAgent, runtime: Handle) -> Self {
        Self { agent, runtime }
    }
}

#[napi]
impl NativeAgent {
    /// Creates a run. `notify` is called when it has questions after it had none.
    #[napi]
    pub fn begin(&self, notify: NotifyFunction) -> AgentRun {
        let questions = Questions::new(move || {
            // An environment that is gone takes no more calls, and nobody answers.
            let _ = notify.call((), ThreadsafeFunctionCallMode::NonBlocking);
        });
        let report = Arc::new(Mutex::new(None));
        AgentRun { agent: self.agent.clone(), runtime: self.runtime.clone(), questions, report, task: Mutex::new(None) }
    }
}

/// A run, with its questions and its report.
#[napi]
pub struct AgentRun {
    agent: EmbeddedAgent,
    runtime: Handle,
    questions: Arc<Questions>,
    report: Arc<Mutex<Option<AgentReport>>>,
    task: Mutex<Option<AbortHandle>>,
}

impl fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRun").finish_non_exhaustive()
    }
}

#[napi]
impl AgentRun {
    /// Runs a message to its end. The report is there once the promise is resolved.
    #[napi]
    pub fn start<'env>(&self, env: &'env Env, message: String, stop: Option<&Stop>) -> Result<Object<'env>, Fault> {
        let (promise, object) = Promise::create(env).map_err(|error| host_fault(error.reason.clone()))?;
        let running = self.agent.run(message, Arc::clone(&self.questions));
        let report = Arc::clone(&self.report);
        let task = self.runtime.spawn(async move {
            let outcome = match running.await {
                Ok(ended) => {
                    *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                    Outcome::Ran
                }
                Err(error) => Outcome::Fault(Code::Host, error_chain(&error)),
            };
            promise.settle(outcome);
        });
        if let Some(stop) = stop {
            stop.set(task.abort_handle());
        }
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(object)
    }

    /// Stops the run; its guests stop within milliseconds.
    #[napi]
    pub fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }

    /// Returns the questions since the last time, each as JSON.
    #[napi]
    pub fn drain(&self) -> Vec<String> {
        self.questions.drain()
    }

    /// Answers a question, as JSON.
    #[napi]
    pub fn answer(&self, id: u32, json: String) -> Result<(), Fault> {
        self.questions.answer(id, &json).map_err(|error| settings_fault(&error.into()))
    }

    /// Ends a question without an answer, and returns whether it was open.
    #[napi]
    pub fn fail(&self, id: u32, reason: String) -> bool {
        self.questions.fail(id, &reason)
    }

    /// Returns the report as JSON, without the results of its calls.
    #[napi]
    pub fn report(&self) -> Option<String> {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let AgentReport { text, status, reason, turns, usage, calls } = report.as_ref()?;
        let calls: Vec<_> = calls
            .iter()
            .map(|call| {
                let status = call.status.as_str();
                json!({"id": call.id, "tool": call.tool, "arguments": call.arguments, "status": status})
            })
            .collect();
        let usage = json!({
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_creation": usage.cache_creation,
        });
        let report = json!({
            "ok": reason.is_none(),
            "text": text,
            "status": status,
            "reason": reason,
            "turns": turns,
            "usage": usage,
            "calls": calls,
        });
        Some(report.to_string())
    }

    /// Takes the results of the calls, in their order.
    #[napi]
    pub fn take_results(&self) -> Vec<NativeResult> {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).take();
        let calls = report.map(|report| report.calls).unwrap_or_default();
        calls.into_iter().map(|call| NativeResult::from(call.result)).collect()
    }
}
