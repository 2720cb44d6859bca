//! What a tool's tests may see and set: natively, a call's surroundings are a thread-local of this module.
//!
//! A tool is an ordinary function and its tests may simply call it. Where a test cares about what the tool reads from
//! [`context`](crate::context) or tells through [`log`](crate::log) and [`progress`](crate::progress), it runs the call
//! inside [`Call::run`]. Both see only their own thread.
//!
//! ```
//! use std::time::Duration;
//!
//! use fumehood_guest::{context, progress, testing};
//!
//! fn work() -> bool {
//!     progress::report(0.5).send();
//!     context::remaining() > Duration::from_secs(1)
//! }
//!
//! let run = testing::Call::new().remaining(Duration::from_millis(10)).run(work);
//! assert_eq!(run.returned, false);
//! assert_eq!(run.updates, [progress::report(0.5)]);
//! ```

use std::cell::RefCell;
use std::time::Duration;

use serde_json::Value;

use crate::log::Level;
use crate::progress::Update;
use crate::{Content, Tool, ToolError};

/// The surroundings of one call.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `.run(…)`"]
pub struct Call {
    id: String,
    tool: String,
    remaining: Duration,
    actor: Option<String>,
    state: Option<Value>,
}

/// What happened during one call.
#[derive(Clone, Debug)]
pub struct Run<R> {
    /// What the function returned.
    pub returned: R,
    /// What it logged, in order.
    pub lines: Vec<(Level, String)>,
    /// What it reported, in order.
    pub updates: Vec<Update>,
}

impl Default for Call {
    fn default() -> Self {
        Self { id: String::new(), tool: String::new(), remaining: Duration::from_secs(3600), actor: None, state: None }
    }
}

impl Call {
    /// A call with an empty id and name, an hour left, no actor and no state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the name of the tool that is called.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.tool = name.into();
        self
    }

    /// Sets how long is left. It stays the same during the call: no clock runs.
    pub fn remaining(mut self, remaining: Duration) -> Self {
        self.remaining = remaining;
        self
    }

    /// Sets on whose behalf the call runs.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Sets the agent's state.
    pub fn state(mut self, state: Value) -> Self {
        self.state = Some(state);
        self
    }

    /// Runs `call` in these surroundings. One run inside another hides the outer one.
    pub fn run<R>(self, call: impl FnOnce() -> R) -> Run<R> {
        let outer = SURROUNDINGS.replace(Surroundings { call: self, lines: Vec::new(), updates: Vec::new() });
        // Puts the outer ones back even if `call` panics, as a test may expect it to.
        let restore = Restore(Some(outer));
        let returned = call();
        let Surroundings { lines, updates, .. } = SURROUNDINGS.take();
        drop(restore);
        Run { returned, lines, updates }
    }
}

/// Calls a tool as a host would: with JSON arguments, and with parts of content as its result.
///
/// # Errors
///
/// Those of the tool, and `invalid-arguments` where the arguments do not fit its types.
pub fn call<T: Tool>(arguments: &Value) -> Result<Vec<Content>, ToolError> {
    T::call(&arguments.to_string())
}

#[derive(Default)]
struct Surroundings {
    call: Call,
    lines: Vec<(Level, String)>,
    updates: Vec<Update>,
}

thread_local! {
    static SURROUNDINGS: RefCell<Surroundings> = RefCell::default();
}

struct Restore(Option<Surroundings>);

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            SURROUNDINGS.set(outer);
        }
    }
}

fn read<R>(part: impl FnOnce(&Call) -> R) -> R {
    SURROUNDINGS.with_borrow(|surroundings| part(&surroundings.call))
}

/// The same functions that the contract offers inside a component.
pub(crate) mod host {
    use super::{Level, SURROUNDINGS, Update, read};

    pub(crate) fn call_id() -> String {
        read(|call| call.id.clone())
    }

    pub(crate) fn tool_name() -> String {
        read(|call| call.tool.clone())
    }

    pub(crate) fn remaining_ms() -> u64 {
        read(|call| u64::try_from(call.remaining.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn actor() -> Option<String> {
        read(|call| call.actor.clone())
    }

    pub(crate) fn state() -> Option<String> {
        read(|call| call.state.as_ref().map(ToString::to_string))
    }

    pub(crate) fn log(level: Level, message: String) {
        SURROUNDINGS.with_borrow_mut(|surroundings| surroundings.lines.push((level, message)));
    }

    pub(crate) fn report(update: Update) {
        SURROUNDINGS.with_borrow_mut(|surroundings| surroundings.updates.push(update));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{context, log, progress};

    #[test]
    fn a_run_sees_what_was_set_and_tells_what_was_said() {
        let call = Call::new().id("c1").tool_name("t").actor("ada").state(json!({"n": 1}));
        let run = call.remaining(Duration::from_micros(2500)).run(|| {
            log::info("hello");
            progress::report(1.0).message("done").partial("x").send();
            (context::call_id(), context::tool_name(), context::remaining(), context::actor(), context::state())
        });
        let (id, tool, remaining, actor, state) = run.returned;
        assert_eq!((id.as_str(), tool.as_str(), actor.as_deref()), ("c1", "t", Some("ada")));
        assert_eq!((remaining, state), (Duration::from_millis(2), Some(json!({"n": 1}))));
        assert_eq!(run.lines, [(Level::Info, "hello".to_owned())]);
        assert_eq!(run.updates, [progress::report(1.0).message("done").partial("x")]);
    }

    #[test]
    fn nothing_of_a_run_is_left() {
        let outer = Call::new().id("outer").run(|| {
            let inner = Call::new().id("inner").run(|| log::info("inner"));
            log::info("outer");
            (inner.lines.len(), context::call_id())
        });
        assert_eq!(outer.returned, (1, "outer".to_owned()));
        assert_eq!(outer.lines.len(), 1);
        assert_eq!(context::call_id(), "");
    }
}
