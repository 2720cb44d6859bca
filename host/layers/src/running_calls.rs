//! The calls that have not ended, of all tenants and protocols: their phase and their cost, and the way to stop each.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::{CallResult, RequestReport};
use fumehood_core::call::{CallContext, CancellationToken, Observer, Usage};
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::Tool;

use crate::usage::now;

/// Maximum length of the last line of a call that is kept, in bytes.
const MAX_LINE_BYTES: usize = 200;
/// Name of a tool that there is not. Names that clients make up are not kept.
pub(crate) const UNKNOWN_TOOL: &str = "unknown tool";

/// A call that has ended, for those who count.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// The id that no other call has.
    pub execution: &'a str,
    /// The full name of the tool; `None` if there is no such tool.
    pub tool: Option<&'a str>,
    /// The actor on whose behalf it ran.
    pub actor: Option<&'a str>,
    /// The name of the tenant that made it; `None` if there are no tenants.
    pub tenant: Option<&'a Arc<str>>,
    /// The time from the request until the result, with the wait for a place.
    pub elapsed: Duration,
    /// The result. A call that was dropped by its caller has the kind `cancelled` and no cost.
    pub result: &'a CallResult,
}

/// A subscriber to the ends of calls.
pub trait CallSink: Send + Sync {
    /// Takes the end of a call, on the task of the call. It must not block.
    fn record(&self, call: &EndedCall<'_>);
}

/// The phase of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPhase {
    /// It waits for a place.
    Waiting,
    /// It has a place.
    Running,
}

/// A call that has not ended, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningCall {
    /// Its number, which grows with every call of the process. Clients do not see it.
    pub number: u64,
    /// The id that no other call has, also in records.
    pub id: String,
    /// The id that a client or a model chose for it, if it is another one. Several calls may have the same.
    pub model_call: Option<PrintableText>,
    /// The full name of the tool.
    pub tool: PrintableText,
    /// The name of the tenant that makes it; `None` if there are no tenants.
    pub tenant: Option<Arc<str>>,
    /// The actor on whose behalf it runs.
    pub actor: Option<PrintableText>,
    /// The name that the client gives itself.
    pub client: Option<PrintableText>,
    /// Its phase.
    pub phase: CallPhase,
    /// The time at which it came.
    pub started_at: Timestamp,
    /// The time since it got its place, or since it came while it waits for one.
    pub elapsed: Duration,
    /// Its deadline, from the moment at which it got its place.
    pub deadline: Option<Duration>,
    /// Fuel that it used so far, if its sandbox reports it.
    pub fuel: Option<u64>,
    /// Peak size of its memories and tables so far, in bytes, if its sandbox reports it.
    pub peak_memory: Option<u64>,
    /// The part of its work that it reports as done, 0.0 to 1.0.
    pub fraction: Option<f64>,
    /// Its last log line or message of progress.
    pub last_line: Option<PrintableText>,
    /// True if an operator stopped it.
    pub was_stopped: bool,
}

/// The calls that have not ended. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct RunningCalls(Arc<Inner>);

struct Inner {
    /// Sets the ids of this process apart from those of others.
    prefix: u64,
    next: AtomicU64,
    /// Numbers as ids have them, so that a tenant does not learn how many calls others make.
    numbers: OpaqueNumbers,
    calls: Mutex<BTreeMap<u64, Arc<Entry>>>,
    sinks: RwLock<Vec<Arc<dyn CallSink>>>,
}

impl Default for Inner {
    fn default() -> Self {
        // Seeded by the system: ids need to differ, and not to be secret.
        let prefix = RandomState::new().hash_one(0);
        let numbers = OpaqueNumbers::default();
        Self { prefix, next: AtomicU64::default(), numbers, calls: Mutex::default(), sinks: RwLock::default() }
    }
}

impl fmt::Debug for RunningCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCalls").finish_non_exhaustive()
    }
}

/// A call, and the observer that its sandbox reports to.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) execution: Arc<str>,
    pub(crate) tool: Option<Arc<Tool>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) actor: Option<Arc<str>>,
    client: Option<String>,
    started_at: Timestamp,
    pub(crate) began: Instant,
    pub(crate) placed: OnceLock<(Instant, Option<Duration>)>,
    /// Fuel and peak memory plus one each; zero before the first report.
    fuel: AtomicU64,
    peak_memory: AtomicU64,
    said: Mutex<LastReports>,
    cancelled: CancellationToken,
    pub(crate) was_stopped: AtomicBool,
    /// The observer of the caller, which gets everything, too.
    next: Option<Arc<dyn Observer>>,
}

/// The last reports of a call about itself.
#[derive(Default)]
struct LastReports {
    fraction: Option<f64>,
    line: Option<PrintableText>,
}

impl RunningCalls {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends the ends of calls to `sink` from now on.
    pub fn subscribe(&self, sink: Arc<dyn CallSink>) {
        self.0.sinks.write().unwrap_or_else(PoisonError::into_inner).push(sink);
    }

    /// Returns a new id of a call. The part that differs comes first, so that a short prefix identifies it.
    #[must_use]
    pub fn next_id(&self) -> String {
        self.id_of(self.next_number())
    }

    /// Returns the calls that `select` takes, given tenant and actor; at most `max`, the oldest first.
    #[must_use]
    pub fn list(&self, max: usize, select: impl Fn(Option<&str>, Option<&str>) -> bool) -> Vec<RunningCall> {
        let calls = lock(&self.0.calls);
        let selected = calls.iter().filter(|(_, entry)| select(entry.tenant.as_deref(), entry.actor.as_deref()));
        let selected: Vec<_> = selected.take(max).map(|(number, entry)| (*number, Arc::clone(entry))).collect();
        // Described without the lock, for which calls that begin and end wait.
        drop(calls);
        selected.into_iter().map(|(number, entry)| self.describe(number, &entry)).collect()
    }

    /// Returns the call of a tenant with this id. If there is none, returns its calls for which a client or a model chose this
    /// id, the oldest first.
    #[must_use]
    pub fn find(&self, tenant: &str, id: &str) -> Vec<RunningCall> {
        let mut found = self.select(tenant, |entry| *entry.execution == *id);
        if found.is_empty() && !id.is_empty() {
            found = self.select(tenant, |entry| entry.id == id);
        }
        found.into_iter().map(|(number, entry)| self.describe(number, &entry)).collect()
    }

    fn select(&self, tenant: &str, has_id: impl Fn(&Entry) -> bool) -> Vec<(u64, Arc<Entry>)> {
        let calls = lock(&self.0.calls);
        let own = calls.iter().filter(|(_, entry)| entry.tenant.as_deref() == Some(tenant) && has_id(entry));
        own.map(|(number, entry)| (*number, Arc::clone(entry))).collect()
    }

    /// Returns the position of a call in lists of running calls, as clients see it; and the number of a position.
    #[must_use]
    pub fn positions(&self) -> &OpaqueNumbers {
        &self.0.numbers
    }

    /// Returns the numbers of calls that run and that wait.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.count(|_| true)
    }

    /// Returns the numbers of calls of a tenant that run and that wait.
    #[must_use]
    pub fn counts_of(&self, tenant: &str) -> (usize, usize) {
        self.count(|entry| entry.tenant.as_deref() == Some(tenant))
    }

    /// Cancels a call, without a word about it in its result. Returns whether there is one of this number.
    pub fn cancel(&self, number: u64) -> bool {
        let found = lock(&self.0.calls).get(&number).cloned();
        found.inspect(|entry| entry.cancelled.cancel()).is_some()
    }

    /// Stops a call on behalf of the operator, which its result says. Returns whether there is one of this number.
    pub fn stop(&self, number: u64) -> bool {
        let Some(entry) = lock(&self.0.calls).get(&number).cloned() else { return false };
        entry.was_stopped.store(true, Ordering::Relaxed);
        entry.cancelled.cancel();
        true
    }

    /// Adds a call under a number that no other one has.
    pub(crate) fn insert(&self, number: u64, call: Arc<Entry>) {
        lock(&self.0.calls).insert(number, call);
    }

    /// Removes a call.
    pub(crate) fn remove(&self, number: u64) {
        lock(&self.0.calls).remove(&number);
    }

    /// Sends the end of a call to the subscribers.
    pub(crate) fn publish(&self, ended: &EndedCall<'_>) {
        let sinks = self.0.sinks.read().unwrap_or_else(PoisonError::into_inner);
        sinks.iter().for_each(|sink| sink.record(ended));
    }

    fn count(&self, select: impl Fn(&Entry) -> bool) -> (usize, usize) {
        let calls = lock(&self.0.calls);
        let selected = calls.values().filter(|entry| select(entry));
        selected.fold((0, 0), |(running, waiting), entry| match entry.placed.get() {
            Some(_) => (running + 1, waiting),
            None => (running, waiting + 1),
        })
    }

    fn describe(&self, number: u64, entry: &Entry) -> RunningCall {
        let placed = entry.placed.get();
        let said = lock(&entry.said);
        RunningCall {
            number,
            id: (*entry.execution).to_owned(),
            model_call: Some(&entry.id)
                .filter(|id| !id.is_empty() && **id != *entry.execution)
                .map(PrintableText::from),
            tool: entry.tool.as_deref().map_or(UNKNOWN_TOOL, Tool::full_name).into(),
            tenant: entry.tenant.clone(),
            actor: entry.actor.as_deref().map(PrintableText::from),
            client: entry.client.as_deref().map(PrintableText::from),
            phase: if placed.is_some() { CallPhase::Running } else { CallPhase::Waiting },
            started_at: entry.started_at,
            elapsed: placed.map_or(entry.began, |(at, _)| *at).elapsed(),
            deadline: placed.and_then(|(_, deadline)| *deadline),
            fuel: read_reported(&entry.fuel),
            peak_memory: read_reported(&entry.peak_memory),
            fraction: said.fraction,
            last_line: said.line.clone(),
            was_stopped: entry.was_stopped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Returns the id of the call with this number, if it does not come with an id.
    pub(crate) fn id_of(&self, number: u64) -> String {
        format!("{:016x}-h{:016x}", self.0.numbers.encode(number), self.0.prefix)
    }
}

/// Reads a value that is stored plus one, so that zero means that nothing was reported.
fn read_reported(value: &AtomicU64) -> Option<u64> {
    value.load(Ordering::Relaxed).checked_sub(1)
}

impl Entry {
    /// Creates a call of a tool, and changes the context that it is to be run in, so that the call can be stopped, and reports to
    /// the entry.
    pub(crate) fn new(
        execution: Arc<str>,
        tool: Option<Arc<Tool>>,
        tenant: Option<Arc<str>>,
        context: &mut CallContext,
    ) -> Arc<Self> {
        // A token of its own, because that of the caller may be for several calls.
        let cancelled = context.cancelled.as_ref().map(CancellationToken::child_token).unwrap_or_default();
        context.cancelled = Some(cancelled.clone());
        let entry = Arc::new(Self {
            id: context.id.clone(),
            execution,
            tool,
            tenant,
            actor: context.actor.clone(),
            client: context.client.clone(),
            started_at: now(),
            began: Instant::now(),
            placed: OnceLock::new(),
            fuel: AtomicU64::new(0),
            peak_memory: AtomicU64::new(0),
            said: Mutex::default(),
            cancelled,
            was_stopped: AtomicBool::new(false),
            next: context.observer.take(),
        });
        context.observer = Some(Arc::clone(&entry) as Arc<dyn Observer>);
        entry
    }

    fn set_line(&self, line: &str) {
        lock(&self.said).line = Some(truncate_str(line, MAX_LINE_BYTES).into());
    }
}

impl Observer for Entry {
    fn log(&self, level: Level, message: &str) {
        self.set_line(message);
        self.next.iter().for_each(|next| next.log(level, message));
    }

    fn progress(&self, progress: Progress) {
        if progress.fraction.is_some() {
            lock(&self.said).fraction = progress.fraction;
        }
        progress.message.iter().for_each(|message| self.set_line(message));
        self.next.iter().for_each(|next| next.progress(progress.clone()));
    }

    fn request(&self, request: RequestReport) {
        self.next.iter().for_each(|next| next.request(request.clone()));
    }

    fn admitted(&self, deadline: Duration) {
        let _reported_before = self.placed.set((Instant::now(), Some(deadline)));
        self.next.iter().for_each(|next| next.admitted(deadline));
    }

    fn usage(&self, usage: Usage) {
        self.fuel.store(usage.fuel.saturating_add(1), Ordering::Relaxed);
        let peak = u64::try_from(usage.peak_memory).unwrap_or(u64::MAX);
        self.peak_memory.store(peak.saturating_add(1), Ordering::Relaxed);
        self.next.iter().for_each(|next| next.usage(usage));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds a lock can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
