//! The metrics of single tools, and which tools have any: a bounded number of them, those that are loaded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwap;
use fumehood_core::tool::ToolProvider;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::histograms::{Histogram, Histograms, Labels};
use crate::labels::{LabelValues, OTHER};

/// Maximum number of tools with metrics of their own.
pub(crate) const MAX_TOOLS: usize = 200;
/// Maximum number of actors, and of tenants, with counters of their own.
const MAX_CLIENTS: usize = 50;
/// Maximum number of counters of calls: combinations of tool, outcome, actor and tenant.
const MAX_CALL_SERIES: usize = 5_000;
/// A revision that no set of tools has.
const NO_REVISION: u64 = u64::MAX;

/// The families of the metrics of tools.
pub(crate) struct ToolFamilies {
    pub(crate) calls: Family<Labels, Counter>,
    pub(crate) duration: Histograms,
    pub(crate) queue: Histograms,
    pub(crate) fuel: Histograms,
    pub(crate) memory: Histograms,
    pub(crate) requests: Histograms,
}

/// The metrics of one tool.
pub(crate) struct ToolMetrics {
    pub(crate) label: Arc<str>,
    pub(crate) duration: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) fuel: Histogram,
    pub(crate) memory: Histogram,
    pub(crate) requests: Histogram,
    /// Sorted by their keys.
    calls: ArcSwap<Vec<CallSeries>>,
}

/// The counter of the calls of a tool with one outcome, for one client.
#[derive(Clone)]
struct CallSeries {
    outcome: &'static str,
    actor: Arc<str>,
    tenant: Arc<str>,
    counter: Counter,
}

/// The metrics of all tools. Those that were seen before are found without a lock.
pub(crate) struct ToolTable {
    families: ToolFamilies,
    tools: ArcSwap<HashMap<Arc<str>, Arc<ToolMetrics>>>,
    /// The metrics of all tools without any of their own.
    other: OnceLock<Arc<ToolMetrics>>,
    actors: LabelValues,
    tenants: LabelValues,
    /// Number of counters of calls.
    series: AtomicUsize,
    /// The tools that are loaded.
    loaded: OnceLock<Weak<dyn ToolProvider>>,
    /// The revision of the loaded tools at which there was no room for another one.
    full_at: AtomicU64,
    /// Held while metrics are added or removed.
    changing: Mutex<()>,
}

impl CallSeries {
    fn key(&self) -> (&'static str, &str, &str) {
        (self.outcome, &self.actor, &self.tenant)
    }
}

impl ToolFamilies {
    fn create(&self, tool: &Arc<str>) -> ToolMetrics {
        let labels = vec![("tool", tool.to_string())];
        let create = |family: &Histograms| family.get_or_create_owned(&labels);
        ToolMetrics {
            label: Arc::clone(tool),
            duration: create(&self.duration),
            queue: create(&self.queue),
            fuel: create(&self.fuel),
            memory: create(&self.memory),
            requests: create(&self.requests),
            calls: ArcSwap::default(),
        }
    }

    fn remove(&self, tool: &ToolMetrics) {
        let labels = vec![("tool", tool.label.to_string())];
        for family in [&self.duration, &self.queue, &self.fuel, &self.memory, &self.requests] {
            family.remove(&labels);
        }
        for series in tool.calls.load().iter() {
            self.calls.remove(&call_labels(&tool.label, series.outcome, &series.actor, &series.tenant));
        }
    }
}

impl ToolTable {
    pub(crate) fn new(families: ToolFamilies) -> Self {
        Self {
            families,
            tools: ArcSwap::default(),
            other: OnceLock::new(),
            actors: LabelValues::new(MAX_CLIENTS),
            tenants: LabelValues::new(MAX_CLIENTS),
            series: AtomicUsize::new(0),
            loaded: OnceLock::new(),
            full_at: AtomicU64::new(NO_REVISION),
            changing: Mutex::default(),
        }
    }

    /// Takes the place of tools that `loaded` does not have any more for others. Does nothing the second time.
    pub(crate) fn follow(&self, loaded: &Arc<dyn ToolProvider>) {
        let _set_before = self.loaded.set(Arc::downgrade(loaded));
    }

    /// Returns the metrics of a tool; `None` for a name that is not one of a loaded tool.
    pub(crate) fn get(&self, name: Option<&str>) -> Arc<ToolMetrics> {
        let Some(name) = name else { return self.other() };
        match self.tools.load().get(name) {
            Some(found) => Arc::clone(found),
            None => self.add(name),
        }
    }

    /// Counts a call.
    pub(crate) fn count(&self, tool: &ToolMetrics, outcome: &'static str, actor: Option<&str>, tenant: Option<&str>) {
        let actor = self.actors.admit(actor);
        let tenant = self.tenants.admit(tenant);
        let series = tool.calls.load();
        let found = series.binary_search_by(|series| series.key().cmp(&(outcome, &*actor, &*tenant)));
        match found.ok().and_then(|at| series.get(at)) {
            Some(series) => series.counter.inc(),
            None => self.add_series(tool, outcome, actor, tenant).inc(),
        };
    }

    fn other(&self) -> Arc<ToolMetrics> {
        Arc::clone(self.other.get_or_init(|| Arc::new(self.families.create(&Arc::from(OTHER)))))
    }

    fn add(&self, name: &str) -> Arc<ToolMetrics> {
        let revision = self.revision();
        if self.tools.load().len() >= MAX_TOOLS && self.full_at.load(Ordering::Relaxed) == revision {
            return self.other();
        }
        let _changing = self.lock();
        let mut tools = HashMap::clone(&self.tools.load());
        if let Some(found) = tools.get(name) {
            return Arc::clone(found);
        }
        if tools.len() >= MAX_TOOLS {
            self.remove_unloaded(&mut tools);
        }
        let added = if tools.len() < MAX_TOOLS {
            let name = Arc::from(name);
            let added = Arc::new(self.families.create(&name));
            tools.insert(name, Arc::clone(&added));
            added
        } else {
            self.full_at.store(revision, Ordering::Relaxed);
            self.other()
        };
        self.tools.store(Arc::new(tools));
        added
    }

    /// Removes the metrics of tools that are not loaded any more.
    fn remove_unloaded(&self, tools: &mut HashMap<Arc<str>, Arc<ToolMetrics>>) {
        let Some(loaded) = self.loaded.get().and_then(Weak::upgrade) else { return };
        tools.retain(|name, tool| {
            let is_loaded = loaded.find(name).is_some();
            if !is_loaded {
                self.families.remove(tool);
                self.series.fetch_sub(tool.calls.load().len(), Ordering::Relaxed);
            }
            is_loaded
        });
    }

    fn add_series(&self, tool: &ToolMetrics, outcome: &'static str, actor: Arc<str>, tenant: Arc<str>) -> Counter {
        if self.series.load(Ordering::Relaxed) >= MAX_CALL_SERIES {
            return self.families.calls.get_or_create_owned(&call_labels(OTHER, outcome, OTHER, OTHER));
        }
        let _changing = self.lock();
        let mut series = Vec::clone(&tool.calls.load());
        match series.binary_search_by(|series| series.key().cmp(&(outcome, &*actor, &*tenant))) {
            Ok(at) => series.get(at).map(|series| series.counter.clone()).unwrap_or_default(),
            Err(at) => {
                let labels = call_labels(&tool.label, outcome, &actor, &tenant);
                let counter = self.families.calls.get_or_create_owned(&labels);
                series.insert(at, CallSeries { outcome, actor, tenant, counter: counter.clone() });
                tool.calls.store(Arc::new(series));
                self.series.fetch_add(1, Ordering::Relaxed);
                counter
            }
        }
    }

    fn revision(&self) -> u64 {
        self.loaded.get().and_then(Weak::upgrade).map_or(0, |loaded| loaded.changes().revision())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // No code that holds the lock can panic half-way.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn call_labels(tool: &str, outcome: &str, actor: &str, tenant: &str) -> Labels {
    [("tool", tool), ("outcome", outcome), ("actor", actor), ("tenant", tenant)]
        .map(|(name, value)| (name, value.to_owned()))
        .into()
}
