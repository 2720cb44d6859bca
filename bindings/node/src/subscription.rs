//! The events of a host, taken by JavaScript in batches: it is woken when there are some.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood::settings::HostEvents;
use fumehood::{Event, Observed};
use napi::bindgen_prelude::Either;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::events::NotifyFunction;
use crate::result::NativeResult;

/// A subscription to the events of a host.
#[napi]
pub struct Subscription {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    events: Mutex<HostEvents>,
    taken: Notify,
}

impl Shared {
    fn events(&self) -> MutexGuard<'_, HostEvents> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscription {
    /// Begins to wait for events: `notify` is called when there are some after there were none.
    pub(crate) fn new(runtime: &Runtime, events: HostEvents, notify: NotifyFunction) -> Self {
        let shared = Arc::new(Shared { events: Mutex::new(events), taken: Notify::new() });
        let waiting = Arc::clone(&shared);
        let task = runtime.spawn(async move {
            loop {
                tokio::select! {
                    // Whoever takes events is woken for the next one in place of this task, which therefore polls again.
                    () = waiting.taken.notified() => continue,
                    () = poll_fn(|context| waiting.events().poll_ready(context)) => {}
                }
                // An environment that is gone takes no more calls, and nobody waits for the events.
                let _ = notify.call((), ThreadsafeFunctionCallMode::NonBlocking);
                waiting.taken.notified().await;
            }
        });
        Self { shared, task: task.abort_handle() }
    }
}

#[napi]
impl Subscription {
    /// Returns the events that are there: results of calls, and the others as JSON with a `type`.
    #[napi]
    pub fn take(&self) -> Vec<Either<NativeResult, String>> {
        let batch = self.shared.events().take();
        self.shared.taken.notify_one();
        batch.into_iter().filter_map(write).collect()
    }

    /// Returns whether the host was shut down, so that no more events come.
    #[napi]
    pub fn has_ended(&self) -> bool {
        self.shared.events().has_ended()
    }

    /// Ends the subscription.
    #[napi]
    pub fn close(&self) {
        self.task.abort();
    }
}

/// Writes an event; `None` for one that this version does not know.
fn write(observed: Observed) -> Option<Either<NativeResult, String>> {
    let event = match observed {
        Observed::Lost(count) => return Some(Either::B(json!({"type": "lost", "count": count}).to_string())),
        Observed::Event(Event::Finished { result }) => return Some(Either::A((*result).clone().into())),
        Observed::Event(event) => event,
    };
    let mut event = serde_json::to_value(event).ok()?;
    let fields = event.as_object_mut()?;
    let name = fields.remove("event")?;
    fields.insert("type".to_owned(), name);
    Some(Either::B(event.to_string()))
}
