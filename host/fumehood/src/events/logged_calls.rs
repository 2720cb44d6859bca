//! Calls of the event log for clients of the HTTP API.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::digest::Digest;
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::text::sanitize::{printable, printable_value};
use fumehood_server::http_api::{CallDetail, CallList, CallQuery, CallStore, CallSummary, PortError, RUNNING_STATUS};
use fumehood_storage::event_log::{EventLog, Filter, Order, ReadError, StoredRecord};
use serde_json::Value;

/// Number of records that are read at once.
const BATCH_RECORDS: usize = 500;
/// Maximum number of batches of one query.
const MAX_BATCHES: usize = 20;

/// The calls of an event log that came through these entry points.
///
/// A client sees the calls of its own actor. Clients without one see the calls of all that have none.
#[derive(Clone)]
pub struct LoggedCalls {
    log: Arc<EventLog>,
    /// `None`: all calls, of all actors.
    entry_points: Option<Arc<[String]>>,
    /// Positions as clients see them. They are the same in all processes with this log.
    positions: Arc<OnceLock<OpaqueNumbers>>,
}

impl fmt::Debug for LoggedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedCalls").field("entry_points", &self.entry_points).finish_non_exhaustive()
    }
}

impl LoggedCalls {
    /// Creates a store of the calls of this log. `entry_points` are those of [`CallLogOptions`](crate::CallLogOptions)
    /// whose calls clients may see.
    #[must_use]
    pub fn new(log: Arc<EventLog>, entry_points: &[&str]) -> Self {
        let entry_points = Some(entry_points.iter().map(|name| (*name).to_owned()).collect());
        Self { log, entry_points, positions: Arc::default() }
    }

    /// Creates a store of all calls of this log, whoever made them: for its operator. The actor of a query only restricts
    /// it.
    #[must_use]
    pub fn for_operator(log: Arc<EventLog>) -> Self {
        Self { log, entry_points: None, positions: Arc::default() }
    }

    fn is_visible(&self, record: &Record, actor: Option<&str>) -> bool {
        let Some(entry_points) = &self.entry_points else { return true };
        let entry_point = record.body.get("entry_point").and_then(Value::as_str);
        record.actor.as_deref() == actor && entry_points.iter().any(|visible| Some(visible.as_str()) == entry_point)
    }

    /// Returns the permutation of rows that hides how many records others have.
    fn positions(&self) -> Result<&OpaqueNumbers, ReadError> {
        if let Some(positions) = self.positions.get() {
            return Ok(positions);
        }
        let id = self.log.reader().log_id()?;
        let key = Digest::of(format!("positions of calls in {id}").as_bytes());
        Ok(self.positions.get_or_init(|| OpaqueNumbers::with_key(*key.as_bytes())))
    }

    fn read_list(&self, query: &CallQuery) -> Result<CallList, ReadError> {
        let positions = self.positions()?;
        let mut filter = Filter {
            actor: query.actor.clone(),
            tool: query.tool.clone(),
            model_call: query.model_call.clone(),
            since: query.since,
            after_seq: query.before.map(|position| positions.decode(position)),
            limit: Some(BATCH_RECORDS),
            order: Order::Descending,
            ..Filter::default()
        };
        let mut calls = Vec::new();
        let mut ends = HashMap::new();
        for _ in 0..MAX_BATCHES {
            let rows = self.log.reader().query(&filter)?;
            let is_last = rows.len() < BATCH_RECORDS;
            filter.after_seq = rows.last().map(|row| row.seq).or(filter.after_seq);
            for row in rows.into_iter().filter(|row| self.is_visible(&row.record, query.actor.as_deref())) {
                let Some(summary) = self.summarize(row, &mut ends)? else { continue };
                if query.status.as_ref().is_none_or(|status| *status == summary.status) {
                    calls.push(summary);
                }
                if calls.len() == query.limit {
                    let next = calls.last().map(|last| positions.encode(last.position));
                    return Ok(CallList { calls, next });
                }
            }
            if is_last {
                return Ok(CallList { calls, next: None });
            }
        }
        // Older records were not searched.
        Ok(CallList { calls, next: filter.after_seq.map(|row| positions.encode(row)) })
    }

    /// Returns the call that began with this record, or keeps the record in `ends` if it is the end of one. Ends come
    /// before the beginnings, because the newest records are read first.
    fn summarize(
        &self,
        row: StoredRecord,
        ends: &mut HashMap<String, StoredRecord>,
    ) -> Result<Option<CallSummary>, ReadError> {
        let Some(call) = row.record.call.clone() else { return Ok(None) };
        match row.record.kind {
            RecordKind::ToolFinished => {
                ends.insert(call, row);
                Ok(None)
            }
            RecordKind::ToolRejected => Ok(Some(summary(&row, Some(&row)))),
            RecordKind::ToolStarted => {
                // It may be on the page before.
                let end = match ends.remove(&call) {
                    Some(end) => Some(end),
                    None => self.end_of(&call, row.seq)?,
                };
                Ok(Some(summary(&row, end.as_ref())))
            }
            _ => Ok(None),
        }
    }

    fn end_of(&self, call: &str, after: u64) -> Result<Option<StoredRecord>, ReadError> {
        let filter = Filter {
            call: Some(call.to_owned()),
            kind: Some(RecordKind::ToolFinished),
            after_seq: Some(after),
            limit: Some(1),
            ..Filter::default()
        };
        Ok(self.log.reader().query(&filter)?.into_iter().next())
    }

    fn read_call(&self, id: &str, actor: Option<&str>) -> Result<Option<CallDetail>, ReadError> {
        let filter = Filter { call: Some(id.to_owned()), limit: Some(BATCH_RECORDS), ..Filter::default() };
        let mut rows = self.log.reader().query(&filter)?;
        rows.retain(|row| self.is_visible(&row.record, actor));
        let find = |kind: RecordKind| rows.iter().find(|row| row.record.kind == kind);
        let rejected = find(RecordKind::ToolRejected);
        let started = find(RecordKind::ToolStarted);
        let finished = find(RecordKind::ToolFinished);
        let result = find(RecordKind::ToolResult);
        let Some(first) = started.or(rejected) else { return Ok(None) };
        let usage = finished.map(|row| {
            let mut usage = row.record.body.clone();
            if let Value::Object(usage) = &mut usage {
                usage.retain(|name, _| !matches!(name.as_str(), "client" | "entry_point" | "model_call"));
                // The machines of a cell are its operator's.
                if self.entry_points.is_some() {
                    usage.remove("worker");
                }
            }
            printable_value(&usage).0.into_owned()
        });
        Ok(Some(CallDetail {
            summary: summary(first, finished.or(rejected)),
            arguments: printable_field(Some(first), "arguments"),
            result: printable_field(result, "result"),
            error: printable_field(rejected, "error"),
            usage,
        }))
    }

    /// Runs a query away from the thread that serves connections.
    async fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, PortError> {
        let calls = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&calls)).await;
        read.map_err(call_store_error)?.map_err(call_store_error)
    }
}

impl CallStore for LoggedCalls {
    fn list(&self, query: CallQuery) -> BoxFuture<'_, Result<CallList, PortError>> {
        Box::pin(self.query(move |calls| calls.read_list(&query)))
    }

    fn abbreviate(&self, ids: Vec<String>) -> BoxFuture<'_, Result<Vec<String>, PortError>> {
        Box::pin(self.query(move |calls| {
            let reader = calls.log.reader();
            ids.iter().map(|id| reader.abbreviate_call(id).map(str::to_owned)).collect()
        }))
    }

    fn find(&self, id: String, actor: Option<String>) -> BoxFuture<'_, Result<Option<CallDetail>, PortError>> {
        Box::pin(self.query(move |calls| calls.read_call(&id, actor.as_deref())))
    }
}

/// Converts an error of the log or of the thread that reads it.
pub(super) fn call_store_error(error: impl fmt::Display) -> PortError {
    PortError(printable(&error.to_string()).into_owned())
}

fn printable_field(row: Option<&StoredRecord>, name: &str) -> Option<Value> {
    row.and_then(|row| row.record.body.get(name)).map(|value| printable_value(value).0.into_owned())
}

fn summary(first: &StoredRecord, end: Option<&StoredRecord>) -> CallSummary {
    let text =
        |field: &str| first.record.body.get(field).and_then(Value::as_str).map(|text| printable(text).into_owned());
    let status = end.map_or(RUNNING_STATUS, |end| end.record.status.as_deref().unwrap_or_default());
    CallSummary {
        id: first.record.call.clone().unwrap_or_default(),
        model_call: text("model_call"),
        tool: first.record.tool.clone().unwrap_or_default(),
        status: status.to_owned(),
        started_at_ms: first.record.at.0,
        duration_ms: end.and_then(|end| end.record.body.get("duration_ms")).and_then(Value::as_f64),
        actor: first.record.actor.clone(),
        client: text("client"),
        position: first.seq,
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::record::{Durability, Recorder as _};
    use fumehood_core::time::Timestamp;
    use fumehood_storage::event_log::Options;
    use serde_json::json;

    use super::*;

    fn record(number: u64, status: &str) -> Record {
        Record {
            id: format!("r{number}"),
            parent: None,
            session: "s".to_owned(),
            at: Timestamp(number),
            kind: RecordKind::ToolRejected,
            actor: None,
            tool: Some("a__b".to_owned()),
            digest: None,
            call: Some(format!("c{number}")),
            status: Some(status.to_owned()),
            body: json!({ "entry_point": "serve" }),
        }
    }

    #[tokio::test]
    async fn a_query_goes_on_where_its_search_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(EventLog::open(folder.path().join("events.db"), &Options::default()).unwrap());
        let searched = (BATCH_RECORDS * MAX_BATCHES) as u64;
        drop(log.record(record(0, "denied"), Durability::Queued));
        for number in 1..=searched {
            let _queued = log.record(record(number, "ok"), Durability::Queued).await;
        }
        log.flush().await.unwrap();
        let calls = LoggedCalls::new(log, &["serve"]);
        let query = CallQuery { status: Some("denied".to_owned()), limit: 50, ..CallQuery::default() };
        let first = calls.list(query.clone()).await.unwrap();
        assert_eq!((first.calls.len(), first.next.is_some()), (0, true));
        let second = calls.list(CallQuery { before: first.next, ..query }).await.unwrap();
        let ids: Vec<&str> = second.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!((ids, second.next), (vec!["c0"], None));
    }

    #[tokio::test]
    async fn a_full_page_goes_on_after_its_last_call() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(EventLog::open(folder.path().join("events.db"), &Options::default()).unwrap());
        for number in 0..3 {
            let _queued = log.record(record(number, "ok"), Durability::Queued).await;
        }
        log.flush().await.unwrap();
        let calls = LoggedCalls::for_operator(log);
        let query = CallQuery { limit: 2, ..CallQuery::default() };
        let first = calls.list(query.clone()).await.unwrap();
        assert_eq!((first.calls.len(), first.next.is_some()), (2, true));
        assert_ne!(first.next, Some(first.calls[1].position), "rows are not shown");
        let second = calls.list(CallQuery { before: first.next, ..query }).await.unwrap();
        assert_eq!((second.calls[0].id.as_str(), second.next), ("c0", None));
    }

    #[tokio::test]
    async fn an_id_of_a_model_stands_for_all_its_calls() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(EventLog::open(folder.path().join("events.db"), &Options::default()).unwrap());
        let body = |model_call: &str| json!({ "entry_point": "serve", "model_call": model_call });
        // The third call has the execution of the first as the id that the model chose.
        for (number, model_call) in [(1, "call_1"), (2, "call_1"), (3, "c1")] {
            let record = Record { body: body(model_call), ..record(number, "ok") };
            let _queued = log.record(record, Durability::Queued).await;
        }
        log.flush().await.unwrap();
        let calls = LoggedCalls::new(log, &["serve"]);
        let query = CallQuery { model_call: Some("call_1".to_owned()), limit: 9, ..CallQuery::default() };
        let listed = calls.list(query).await.unwrap().calls;
        let ids: Vec<_> = listed.iter().map(|call| (call.id.as_str(), call.model_call.as_deref())).collect();
        assert_eq!(ids, [("c2", Some("call_1")), ("c1", Some("call_1"))]);
        let first = calls.find("c1".to_owned(), None).await.unwrap().unwrap();
        assert_eq!((first.summary.id.as_str(), first.summary.started_at_ms), ("c1", 1));
        assert_eq!(calls.find("call_1".to_owned(), None).await.unwrap(), None);
        assert_eq!(calls.abbreviate(vec!["c2".to_owned()]).await.unwrap(), ["c2"]);
    }
}
