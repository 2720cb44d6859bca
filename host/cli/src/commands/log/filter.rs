//! Filters as they were typed, as the log takes them.

use fumehood::event_log::Filter;

use crate::args::log::Filters;
use crate::moment;

/// The records that were asked for, as of now.
pub(super) fn of(filters: &Filters) -> Filter {
    let now = moment::now();
    Filter {
        session: filters.session.clone(),
        actor: filters.actor.clone(),
        tool: filters.tool.clone(),
        kind: filters.kind,
        status: filters.status.clone(),
        since: filters.since.map(|moment| moment.resolve(now)),
        until: filters.until.map(|moment| moment.resolve(now)),
        ..Filter::default()
    }
}
