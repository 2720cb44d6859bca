//! Tests of tools, with an environment that a test sets and inspects.
//!
//! A tool is an ordinary function, and its tests can simply call it. A test that sets the [`context`](crate::context),
//! or inspects the [`store`](crate::store), the [`log`](crate::log) or the [`progress`](crate::progress), runs the call
//! inside [`Call::run`]. The environment is local to the thread.
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
//!
//! The clock advances only by [`clock::sleep`](crate::clock::sleep) and [`advance`], and so does the remaining time of
//! the call.

mod gate;
mod store;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::log::Level;
use crate::progress::Update;
use crate::{AsyncTool, Content, Contents, Resource, Tool, ToolError};
use store::MemoryStore;

/// The default time of day at which calls start, since 1970.
const START: Duration = Duration::from_secs(1_800_000_000);

/// The environment of one call.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `.run(…)`"]
pub struct Call {
    id: String,
    tool: String,
    now: SystemTime,
    remaining: Duration,
    actor: Option<String>,
    state: Option<Value>,
    secrets: BTreeSet<String>,
    store: MemoryStore,
}

/// The outcome of one call.
#[derive(Clone, Debug)]
pub struct Run<R> {
    /// The value that the function returned.
    pub returned: R,
    /// The log lines, in order.
    pub lines: Vec<(Level, String)>,
    /// The progress updates, in order.
    pub updates: Vec<Update>,
    /// The parts of the result that were sent early, in order.
    pub parts: Vec<Content>,
    /// The time by which the clock was advanced.
    pub elapsed: Duration,
    /// The entries of the store at the end.
    pub stored: BTreeMap<String, Vec<u8>>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            id: String::new(),
            tool: String::new(),
            now: SystemTime::UNIX_EPOCH + START,
            remaining: Duration::from_secs(3600),
            actor: None,
            state: None,
            secrets: BTreeSet::new(),
            store: MemoryStore::default(),
        }
    }
}

impl Call {
    /// Creates a call with an empty id and name at 2027-01-15T08:00:00Z, with one hour left, no actor, no state, and an
    /// empty store with a quota of 1 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the name of the called tool.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.tool = name.into();
        self
    }

    /// Sets the time of day at which the call starts.
    pub fn starting_at(mut self, now: SystemTime) -> Self {
        self.now = now;
        self
    }

    /// Sets the time that is left when the call starts. It decreases only as the clock is advanced.
    pub fn remaining(mut self, remaining: Duration) -> Self {
        self.remaining = remaining;
        self
    }

    /// Sets the actor on whose behalf the call runs.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Sets the agent's state.
    pub fn state(mut self, state: Value) -> Self {
        self.state = Some(state);
        self
    }

    /// Grants a secret with this name.
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.insert(name.into());
        self
    }

    /// Adds an entry to the store before the call.
    pub fn stored(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.store.entries.insert(key.into(), value.into());
        self
    }

    /// Sets the quota of the store, in bytes.
    pub fn store_quota(mut self, bytes: usize) -> Self {
        self.store.quota = Some(bytes);
        self
    }

    /// Removes the store, like a host that granted none.
    pub fn without_store(mut self) -> Self {
        self.store.quota = None;
        self
    }

    /// Runs `call` in this environment. A nested run hides the outer environment.
    pub fn run<R>(self, call: impl FnOnce() -> R) -> Run<R> {
        let outer = ENVIRONMENT.replace(Environment { call: self, ..Environment::default() });
        // Restores the outer environment even if `call` panics, as a test may expect.
        let restore = RestoreGuard(Some(outer));
        let returned = call();
        let Environment { call, elapsed, lines, updates, parts } = ENVIRONMENT.take();
        drop(restore);
        Run { returned, lines, updates, parts, elapsed, stored: call.store.entries }
    }
}

/// Calls a tool like a host: validates the arguments against its input schema, with the same code and the same limits,
/// and the result against its output schema.
///
/// # Errors
///
/// - those of the tool;
/// - `invalid-arguments` with the host's message if the arguments do not match the schema: the tool does not run;
/// - `failed` if a host would not load a tool with this definition, or would reject the result.
pub fn call<T: Tool>(arguments: &Value) -> Result<Vec<Content>, ToolError> {
    gate::check_arguments::<T>(arguments)?;
    let parts = <T as Tool>::call(&arguments.to_string())?;
    gate::check_parts::<T>(&parts)?;
    Ok(parts)
}

/// Calls an asynchronous tool like [`call`]: returns the parts that it sent early and those that it returned.
///
/// # Errors
///
/// See [`call`].
pub async fn call_async<T: AsyncTool>(arguments: &Value) -> Result<Vec<Content>, ToolError> {
    let sent_before = ENVIRONMENT.with_borrow(|environment| environment.parts.len());
    gate::check_arguments::<T>(arguments)?;
    let returned = T::call(&arguments.to_string()).await?;
    let sent = ENVIRONMENT.with_borrow(|environment| environment.parts.iter().skip(sent_before).cloned().collect());
    let parts = [sent, returned].concat();
    gate::check_parts::<T>(&parts)?;
    Ok(parts)
}

/// Reads a resource like a host: validates its definition, with the same code.
///
/// # Errors
///
/// - those of the resource;
/// - `failed` if a host would not load a component with this definition.
pub fn read_resource<R: Resource>() -> Result<Contents, ToolError> {
    gate::check_resource::<R>()?;
    R::read()
}

/// Advances the clock of the call that runs on this thread.
pub fn advance(duration: Duration) {
    ENVIRONMENT.with_borrow_mut(|environment| environment.elapsed = environment.elapsed.saturating_add(duration));
}

#[derive(Default)]
struct Environment {
    call: Call,
    elapsed: Duration,
    lines: Vec<(Level, String)>,
    updates: Vec<Update>,
    parts: Vec<Content>,
}

thread_local! {
    static ENVIRONMENT: RefCell<Environment> = RefCell::default();
}

struct RestoreGuard(Option<Environment>);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            ENVIRONMENT.set(outer);
        }
    }
}

fn read<R>(part: impl FnOnce(&Call) -> R) -> R {
    ENVIRONMENT.with_borrow(|environment| part(&environment.call))
}

fn with_store<R>(step: impl FnOnce(&mut MemoryStore) -> R) -> R {
    ENVIRONMENT.with_borrow_mut(|environment| step(&mut environment.call.store))
}

/// The functions of the contract, as they are available inside a component.
pub(crate) mod host {
    use std::time::{Duration, SystemTime};

    #[cfg(feature = "async")]
    use super::Content;
    use super::{ENVIRONMENT, Level, Update, advance, read, with_store};
    use crate::store::{Page, StoreError};

    pub(crate) fn call_id() -> String {
        read(|call| call.id.clone())
    }

    pub(crate) fn tool_name() -> String {
        read(|call| call.tool.clone())
    }

    pub(crate) fn remaining_ms() -> u64 {
        let remaining =
            ENVIRONMENT.with_borrow(|environment| environment.call.remaining.saturating_sub(environment.elapsed));
        u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn now() -> SystemTime {
        ENVIRONMENT.with_borrow(|environment| {
            let now = environment.call.now.checked_add(environment.elapsed);
            now.unwrap_or(environment.call.now)
        })
    }

    pub(crate) fn sleep(duration: Duration) {
        advance(duration);
    }

    pub(crate) fn actor() -> Option<String> {
        read(|call| call.actor.clone())
    }

    pub(crate) fn state() -> Option<String> {
        read(|call| call.state.as_ref().map(ToString::to_string))
    }

    pub(crate) fn secret_exists(name: &str) -> bool {
        read(|call| call.secrets.contains(name))
    }

    pub(crate) fn log(level: Level, message: String) {
        ENVIRONMENT.with_borrow_mut(|environment| environment.lines.push((level, message)));
    }

    pub(crate) fn report(update: Update) {
        ENVIRONMENT.with_borrow_mut(|environment| environment.updates.push(update));
    }

    #[cfg(feature = "async")]
    pub(crate) async fn send_part(part: Content) {
        ENVIRONMENT.with_borrow_mut(|environment| environment.parts.push(part));
    }

    pub(crate) fn get(key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        with_store(|store| store.get(key))
    }

    pub(crate) fn set(key: &str, value: &[u8]) -> Result<(), StoreError> {
        with_store(|store| store.set(key, value))
    }

    pub(crate) fn delete(key: &str) -> Result<bool, StoreError> {
        with_store(|store| store.delete(key))
    }

    pub(crate) fn list(prefix: &str, cursor: Option<&str>, limit: u32) -> Result<Page, StoreError> {
        with_store(|store| store.list(prefix, cursor, limit))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Page, StoreError};
    use crate::{clock, context, log, progress, secret, store};

    #[test]
    fn run_uses_the_environment_and_collects_output() {
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
    fn clock_advances_only_on_demand() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        let call = Call::new().starting_at(start).remaining(Duration::from_secs(10));
        let run = call.run(|| {
            let before = (clock::now(), context::remaining());
            clock::sleep(Duration::from_secs(4));
            advance(Duration::from_secs(3));
            let between = (clock::now(), context::remaining());
            advance(Duration::from_secs(60));
            (before, between, context::remaining())
        });
        let seconds = Duration::from_secs;
        assert_eq!(run.returned, ((start, seconds(10)), (start + seconds(7), seconds(3)), Duration::ZERO));
        assert_eq!(run.elapsed, seconds(67));
    }

    #[test]
    fn only_a_granted_secret_exists() {
        let run = Call::new().secret("api").run(|| (secret::exists("api"), secret::exists("other")));
        assert_eq!(run.returned, (true, false));
        assert!(!secret::exists("api"));
    }

    #[test]
    fn store_follows_the_rules_of_the_real_one() {
        let run = Call::new().stored("a", "1").store_quota(300).run(|| {
            assert_eq!(store::get("a"), Ok(Some(b"1".to_vec())));
            assert_eq!(store::get(""), Err(StoreError::InvalidKey));
            assert_eq!(store::get("a\n"), Err(StoreError::InvalidKey));
            assert_eq!(store::set(&"k".repeat(257), ""), Err(StoreError::InvalidKey));
            assert_eq!(store::set("a", vec![0; (64 << 10) + 1]), Err(StoreError::TooLarge));
            assert_eq!(store::set("b", vec![0; 300]), Err(StoreError::Full));
            assert_eq!(store::set("b/1", "x"), Ok(()));
            assert_eq!(store::set("b/2", "y"), Ok(()));
            let first = store::page("b/", None, 1);
            assert_eq!(first, Ok(Page { keys: vec!["b/1".to_owned()], next: Some("b/1".to_owned()) }));
            let second = store::page("b/", Some("b/1"), 1);
            assert_eq!(second, Ok(Page { keys: vec!["b/2".to_owned()], next: None }));
            assert_eq!((store::delete("a"), store::delete("a")), (Ok(true), Ok(false)));
        });
        assert_eq!(run.stored.keys().collect::<Vec<_>>(), ["b/1", "b/2"]);
        let denied = Call::new().stored("a", "1").without_store().run(|| store::keys("").next());
        assert_eq!(denied.returned, Some(Err(StoreError::Denied)));
        let kind = |error: StoreError| ToolError::from(error).kind();
        assert_eq!(kind(StoreError::Denied), crate::FailureKind::Denied);
        assert_eq!(kind(StoreError::Unavailable), crate::FailureKind::Unavailable);
    }

    #[test]
    fn keys_iterates_over_all_pages() {
        let call = (0..2500).fold(Call::new(), |call, number| call.stored(format!("k{number:04}"), ""));
        let run = call.run(|| store::keys("k").collect::<Result<Vec<_>, _>>());
        let keys = run.returned.unwrap();
        assert_eq!((keys.len(), keys.is_sorted()), (2500, true));
    }

    #[test]
    fn run_restores_the_outer_environment() {
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
