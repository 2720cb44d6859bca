//! Records of the event log for the dashboard.

use std::fmt;
use std::sync::Arc;

use super::logged_calls::call_store_error;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::text::sanitize::printable_value;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_server::http_api::PortError;
use fumehood_server::http_api::dashboard::ports::{TimelineRecord, Timelines};
use fumehood_storage::event_log::{EventLog, Filter, ReadError, StoredRecord};

/// Maximum number of records of one timeline.
const MAX_RECORDS: usize = 4000;

/// The records of an event log, whoever they are of: for its operator.
#[derive(Clone)]
pub struct LoggedTimelines {
    log: Arc<EventLog>,
}

impl fmt::Debug for LoggedTimelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedTimelines").finish_non_exhaustive()
    }
}

impl LoggedTimelines {
    /// Creates the timelines of this log.
    #[must_use]
    pub fn new(log: Arc<EventLog>) -> Self {
        Self { log }
    }

    fn query(&self, filter: Filter) -> Result<Vec<StoredRecord>, ReadError> {
        self.log.reader().query(&Filter { limit: Some(MAX_RECORDS), ..filter })
    }

    fn read_session(&self, session: String) -> Result<Vec<TimelineRecord>, ReadError> {
        let rows = self.query(Filter { session: Some(session), ..Filter::default() })?;
        Ok(rows.into_iter().map(to_timeline).collect())
    }

    /// Reads the session of a call, or the records of the call alone where the session has too many to reach it.
    fn read_call(&self, call: String) -> Result<Vec<TimelineRecord>, ReadError> {
        let rows = self.query(Filter { call: Some(call.clone()), ..Filter::default() })?;
        let Some(session) = rows.first().map(|row| row.record.session.clone()) else { return Ok(Vec::new()) };
        let whole = self.read_session(session)?;
        let has_call = whole.iter().any(|record| record.call.as_ref() == Some(&call));
        Ok(if has_call { whole } else { rows.into_iter().map(to_timeline).collect() })
    }

    /// Runs a query away from the thread that serves connections.
    async fn read(
        &self,
        read: impl FnOnce(&Self) -> Result<Vec<TimelineRecord>, ReadError> + Send + 'static,
    ) -> Result<Vec<TimelineRecord>, PortError> {
        let timelines = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&timelines)).await;
        read.map_err(call_store_error)?.map_err(call_store_error)
    }
}

impl Timelines for LoggedTimelines {
    fn of_session(&self, session: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>> {
        Box::pin(self.read(move |timelines| timelines.read_session(session)))
    }

    fn of_call(&self, call: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>> {
        Box::pin(self.read(move |timelines| timelines.read_call(call)))
    }
}

fn to_timeline(row: StoredRecord) -> TimelineRecord {
    let record = row.record;
    let body = serde_json::to_string_pretty(&printable_value(&record.body).0).unwrap_or_default();
    TimelineRecord {
        id: record.id,
        parent: record.parent,
        session: record.session,
        at_ms: record.at.0,
        kind: record.kind.as_str(),
        call: record.call,
        tool: record.tool.map(PrintableText::from),
        status: record.status.map(PrintableText::from),
        body: body.into(),
    }
}
