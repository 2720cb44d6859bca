//! Options of a worker: the limits of its calls, and what its tools keep.

use std::fmt;
use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::tool::{Tool, ToolProvider};

use crate::protocol::Offer;

/// A function that returns the limits of a tool's calls in this process.
pub type LimitsOf = Arc<dyn Fn(&Tool) -> Limits + Send + Sync>;

/// The values that tools keep, and their store. A tool that keeps values runs only where all its calls find the same ones.
#[derive(Clone)]
pub struct KeptValues {
    /// Returns whether a tool of this process keeps values.
    pub keeps: Arc<dyn Fn(&Tool) -> bool + Send + Sync>,
    /// The name of the store, if it is one that the whole cell shares. Calls go only to workers that name the same one.
    pub shared_store: Option<String>,
}

impl fmt::Debug for KeptValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptValues").field("shared_store", &self.shared_store).finish_non_exhaustive()
    }
}

impl KeptValues {
    /// Returns that no tool keeps anything.
    #[must_use]
    pub fn none() -> Self {
        Self { keeps: Arc::new(|_| false), shared_store: None }
    }

    /// Returns what a worker needs to run the calls of a tool. `None` if only this process can: the tool is not one of a
    /// component, not approved, or keeps values in a store of this process.
    pub(crate) fn offer_of(&self, tool: &Tool) -> Option<Offer> {
        let component = tool.digest()?;
        let powers = tool.powers_digest()?;
        let powers = match (&self.shared_store, (self.keeps)(tool)) {
            (_, false) => powers,
            (None, true) => return None,
            (Some(store), true) => Digest::of(format!("{powers} in {store}").as_bytes()),
        };
        tool.is_approved().then_some(Offer { component, powers })
    }
}

/// Options of a worker.
#[derive(Clone)]
pub struct WorkerOptions {
    /// Returns the limits of a tool's calls.
    pub limits: LimitsOf,
    /// The values that its tools keep.
    pub kept_values: KeptValues,
    /// The number of calls that run at the same time.
    pub places: usize,
}

impl WorkerOptions {
    /// Returns what a worker with these tools offers, sorted.
    pub(crate) fn offers(&self, tools: &dyn ToolProvider) -> Vec<Offer> {
        let mut offers: Vec<Offer> = tools.tools().iter().filter_map(|tool| self.kept_values.offer_of(tool)).collect();
        offers.sort_unstable();
        offers.dedup();
        offers
    }
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits: _, kept_values, places } = self;
        let mut debug = f.debug_struct("WorkerOptions");
        debug.field("kept_values", kept_values).field("places", places).finish_non_exhaustive()
    }
}
