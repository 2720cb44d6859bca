//! Progress, log lines and requests of one running call, queued for JavaScript.

use std::sync::{Arc, Mutex, PoisonError};

use fumehood::{Level, Observer, Progress, RequestReport};
use napi::Status;
use napi::bindgen_prelude::Unknown;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use serde_json::{Value, json};

/// A function of JavaScript that is called from any thread, and does not keep the process running.
pub(crate) type NotifyFunction = ThreadsafeFunction<(), Unknown<'static>, (), Status, false, true>;

/// The events of one call that JavaScript has not taken yet. Their number is bounded by the call's own limits.
#[napi]
#[derive(Debug, Default)]
pub struct Events(Arc<Mutex<Vec<String>>>);

/// The observer of one call, which wakes JavaScript when there are events.
struct Queue {
    waiting: Arc<Mutex<Vec<String>>>,
    notify: NotifyFunction,
}

impl Queue {
    fn push(&self, kind: &str, mut event: Value) {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("type".to_owned(), kind.into());
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(event.to_string());
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            // An environment that is gone takes no more calls, and nobody waits for the events.
            let _ = self.notify.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

impl Observer for Queue {
    fn log(&self, level: Level, message: &str) {
        self.push("log", json!({"level": level.as_str(), "message": message}));
    }

    fn progress(&self, progress: Progress) {
        self.push("progress", serde_json::to_value(progress).unwrap_or_default());
    }

    fn request(&self, request: RequestReport) {
        self.push("request", serde_json::to_value(request).unwrap_or_default());
    }
}

impl Events {
    /// Creates the observer of the call, which calls `notify` when there are events after there were none.
    pub(crate) fn observer(&self, notify: NotifyFunction) -> Arc<dyn Observer> {
        Arc::new(Queue { waiting: Arc::clone(&self.0), notify })
    }
}

#[napi]
impl Events {
    /// Creates an empty queue.
    #[napi(constructor)]
    #[allow(
        clippy::new_without_default,
        reason = "the default is the same, and the macro wants a constructor of its own"
    )]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the events that came since the last time, each as JSON with its `type`.
    #[napi]
    pub fn drain(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
