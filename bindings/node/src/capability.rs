//! Capabilities whose functions are written in JavaScript: calls that wait for the thread of JavaScript, and the way of their outcomes back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood::boxed::BoxFuture;
use fumehood::capability::CapabilityContext;
use fumehood::settings::{
    FunctionCall, FunctionCaller, FunctionCapability, FunctionError, PlainValue, SettingsError, read_plain_json,
    write_plain_json,
};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::events::NotifyFunction;
use crate::fault::{Code, Fault};

/// A capability as JavaScript describes it: name, description, WIT, and the names of its functions.
pub(crate) type Description = (String, String, String, Vec<String>);

/// The calls of functions that have not ended.
#[napi]
#[derive(Default)]
pub struct FunctionCalls(Arc<Mutex<Calls>>);

impl fmt::Debug for FunctionCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionCalls").finish_non_exhaustive()
    }
}

/// The calls, and what JavaScript has not taken yet. A tool waits for the one function that it calls, so that running tools bound both.
#[derive(Default)]
struct Calls {
    next: u32,
    running: HashMap<u32, Running>,
    waiting: Vec<Notice>,
}

struct Running {
    sender: oneshot::Sender<Result<PlainValue, FunctionError>>,
    context: CapabilityContext,
}

/// What JavaScript is told.
enum Notice {
    Call(u32, Value),
    /// The tool has stopped, and so is the function to.
    Stop(u32),
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the functions of one capability.
struct Caller {
    /// The position of the capability in the host.
    number: usize,
    calls: Arc<Mutex<Calls>>,
    notify: Arc<NotifyFunction>,
}

impl Caller {
    fn push(&self, id: u32, call: FunctionCall, sender: oneshot::Sender<Result<PlainValue, FunctionError>>) {
        let FunctionCall { function, arguments, grant, context } = call;
        let arguments: Vec<Value> = arguments.into_iter().map(write_plain_json).collect();
        let call = json!({
            "id": id,
            "capability": self.number,
            "function": function,
            "arguments": arguments,
            "grant": &*grant,
            "component": context.component.as_ref().map(ToString::to_string),
            "tool": context.tool,
            "callId": context.call_id,
            "actor": context.actor.as_deref(),
        });
        let mut calls = lock(&self.calls);
        calls.running.insert(id, Running { sender, context });
        calls.waiting.push(Notice::Call(id, call));
    }
}

fn wake(notify: &NotifyFunction) {
    // An environment that is gone takes no more calls, and its tools stop at their deadlines.
    let _ = notify.call((), ThreadsafeFunctionCallMode::NonBlocking);
}

impl FunctionCaller for Caller {
    fn call(&self, call: FunctionCall) -> BoxFuture<'static, Result<PlainValue, FunctionError>> {
        let (sender, outcome) = oneshot::channel();
        let id = {
            let mut calls = lock(&self.calls);
            calls.next = calls.next.wrapping_add(1);
            calls.next
        };
        self.push(id, call, sender);
        wake(&self.notify);
        let guard = StopGuard { id, calls: Arc::clone(&self.calls), notify: Arc::clone(&self.notify) };
        Box::pin(async move {
            let guard = guard;
            let ended = outcome.await;
            drop(guard);
            ended.unwrap_or_else(|_| Err(FunctionError::Unavailable("it was dropped without an outcome".to_owned())))
        })
    }
}

/// Tells the function that its tool has stopped, when the future of the call is dropped.
struct StopGuard {
    id: u32,
    calls: Arc<Mutex<Calls>>,
    notify: Arc<NotifyFunction>,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        let mut calls = lock(&self.calls);
        if calls.running.remove(&self.id).is_none() {
            return;
        }
        let is_call = |notice: &Notice| matches!(notice, Notice::Call(id, _) if *id == self.id);
        match calls.waiting.iter().position(is_call) {
            // JavaScript has not begun it.
            Some(at) => drop(calls.waiting.remove(at)),
            None => {
                calls.waiting.push(Notice::Stop(self.id));
                drop(calls);
                wake(&self.notify);
            }
        }
    }
}

impl FunctionCalls {
    /// Creates the capabilities of a host. `notify` is called when there are calls to take.
    ///
    /// # Errors
    /// If one cannot be used.
    pub(crate) fn capabilities(
        &self,
        descriptions: Vec<Description>,
        notify: NotifyFunction,
    ) -> Result<Vec<FunctionCapability>, SettingsError> {
        let notify = Arc::new(notify);
        let create = |(number, (name, description, wit, functions)): (usize, Description)| {
            let caller = Caller { number, calls: Arc::clone(&self.0), notify: Arc::clone(&notify) };
            FunctionCapability::new(&name, &description, &wit, &functions, Arc::new(caller))
        };
        descriptions.into_iter().enumerate().map(create).collect()
    }

    fn end(&self, id: u32, outcome: Result<PlainValue, FunctionError>) {
        let running = lock(&self.0).running.remove(&id);
        if let Some(Running { sender, .. }) = running {
            // It fails if the tool has just stopped.
            let _ = sender.send(outcome);
        }
    }
}

#[napi]
impl FunctionCalls {
    /// Creates an empty set.
    #[napi(constructor)]
    #[allow(
        clippy::new_without_default,
        reason = "the default is the same, and the macro wants a constructor of its own"
    )]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the calls that have come since the last time, each as JSON, and those whose tool has stopped, as `{"stop": id}`.
    #[napi]
    pub fn take(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut lock(&self.0).waiting);
        let write = |notice| match notice {
            Notice::Call(_, call) => call.to_string(),
            Notice::Stop(id) => json!({"stop": id}).to_string(),
        };
        waiting.into_iter().map(write).collect()
    }

    /// Ends a call with the value that the function returned, as JSON.
    #[napi]
    pub fn finish(&self, id: u32, value: String) {
        self.end(id, Ok(read_value(&value)));
    }

    /// Ends a call with a failure: an `err` with its payload as JSON, or `denied` or `failed` with a message.
    #[napi]
    pub fn fail(&self, id: u32, kind: String, value: String) -> Result<(), Fault> {
        let error = match kind.as_str() {
            "err" => FunctionError::Err(read_value(&value)),
            "denied" => FunctionError::Denied(value),
            "failed" => FunctionError::Failed(value),
            _ => return Err(Fault::new(Code::Host, "expected `err`, `denied` or `failed`")),
        };
        self.end(id, Err(error));
        Ok(())
    }

    /// Returns the time until the deadline of the call of the tool, in milliseconds. It is 0 after the end.
    #[napi]
    pub fn time_left(&self, id: u32) -> f64 {
        let context = lock(&self.0).running.get(&id).map(|running| running.context.clone());
        context.map_or(0.0, |context| (context.time_left)().as_secs_f64() * 1e3)
    }

    /// Records that the tool tried something that its grant does not cover.
    #[napi]
    pub fn refuse(&self, id: u32, tried: String, because: String) {
        let context = lock(&self.0).running.get(&id).map(|running| running.context.clone());
        if let Some(context) = context {
            context.refuse(tried, because);
        }
    }
}

fn read_value(json: &str) -> PlainValue {
    serde_json::from_str(json).map_or_else(|error| PlainValue::Other(format!("no JSON: {error}")), read_plain_json)
}
