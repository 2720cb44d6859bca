//! One call on its way: what it is, and what is known of it so far.

use fumehood_core::chat::ToolIntent;
use fumehood_core::time::Timestamp;

use super::abort::legible;
use super::batch::Batch;
use super::journal::Journal;
use super::parts::Parts;
use crate::persist::Persist;

/// One call.
pub(super) struct Dispatch<'a> {
    pub(super) parts: &'a Parts,
    pub(super) batch: &'a Batch<'a>,
    pub(super) call: ToolIntent,
    pub(super) journal: Journal<'a>,
    pub(super) notes: Vec<String>,
    pub(super) persist: Persist,
    pub(super) execution: String,
    pub(super) started_at: Timestamp,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(parts: &'a Parts, batch: &'a Batch<'a>, mut call: ToolIntent) -> Self {
        if call.id.is_empty() {
            call.id = parts.ids.next("call");
        }
        let execution = parts.ids.next("exec");
        let journal = Journal::new(parts, batch.scope, execution.clone(), call.id.clone(), legible(&call.name));
        let (notes, persist) = (Vec::new(), Persist::Full);
        Self { parts, batch, call, journal, notes, persist, execution, started_at: parts.clock.now() }
    }
}
