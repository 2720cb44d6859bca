//! `fumehood log` and `fumehood log list`: list the newest calls, sessions or records.

use std::collections::HashSet;

use anyhow::Result;
use comfy_table::Cell;
use fumehood::event_log::{Filter, Order, ReadError, Reader, StoredRecord};
use fumehood::record::RecordKind;
use serde::Serialize;
use serde_json::Value;

use super::to_filter;
use crate::args::log::{List, ListKind};
use crate::exit::{Exit, UsageError};
use crate::moment;
use crate::render::quotation::one_line;
use crate::render::{self, table};

/// Maximum length of a message in a table, in characters.
const MAX_MESSAGE_CHARS: usize = 48;

/// A call with its outcome.
#[derive(Debug, Serialize)]
pub(super) struct CallRow {
    at: u64,
    session: String,
    call: String,
    /// Id that the model gave the call. Models reuse them, so it need not be unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_call: Option<String>,
    pub(super) tool: String,
    /// Status of the call; `running` if its end is not recorded, because it still runs or its host was killed.
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// Entry point of the call: `call`, `serve mcp`, `mcp call`, or `agent`.
    entry_point: String,
    /// Name that the MCP client gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip)]
    seq: u64,
}

/// A session with its outcome.
#[derive(Debug, Serialize)]
struct SessionRow {
    at: u64,
    session: String,
    /// Status of its last run; `open` if its end is not recorded.
    status: String,
    calls: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    message: String,
}

pub(super) fn run(reader: &Reader, list: &List, json: bool) -> Result<Exit> {
    let filter = to_filter(&list.filters);
    let limit = usize::try_from(list.limit).unwrap_or(usize::MAX);
    let listed = list.of.unwrap_or(if filter.kind.is_some() { ListKind::Records } else { ListKind::Calls });
    if listed != ListKind::Records && filter.kind.is_some() {
        return Err(UsageError("`--kind` selects records; add `--of records`".to_owned()).into());
    }
    match listed {
        ListKind::Records => list_records(reader, filter, limit, json)?,
        ListKind::Calls => {
            let rows = query_calls(reader, &filter, limit)?;
            if json { render::json(&rows)? } else { print_calls(reader, &rows)? }
        }
        ListKind::Sessions if filter.tool.is_some() => {
            return Err(UsageError(
                "sessions cannot be selected by tool; leave `--tool` out, or list calls".to_owned(),
            )
            .into());
        }
        ListKind::Sessions => {
            let rows = query_sessions(reader, &filter, limit)?;
            if json { render::json(&rows)? } else { print_sessions(&rows)? }
        }
    }
    Ok(Exit::Ok)
}

fn query_newest(
    reader: &Reader,
    filter: &Filter,
    kind: RecordKind,
    limit: usize,
) -> Result<Vec<StoredRecord>, ReadError> {
    let filter = Filter { kind: Some(kind), limit: Some(limit), order: Order::Descending, ..filter.clone() };
    reader.query(&filter)
}

fn list_records(reader: &Reader, filter: Filter, limit: usize, json: bool) -> Result<()> {
    let newest = Filter { order: Order::Descending, limit: Some(limit), ..filter };
    let mut rows = reader.query(&newest)?;
    rows.reverse();
    if json {
        return render::json(&rows);
    }
    if rows.is_empty() {
        return report_no_records();
    }
    rows.iter().try_for_each(|row| render::line(&render::record::to_line(row)))
}

fn report_no_records() -> Result<()> {
    render::note("no matching records");
    Ok(())
}

/// Returns the newest calls that match, the newest first.
pub(super) fn query_calls(reader: &Reader, filter: &Filter, limit: usize) -> Result<Vec<CallRow>> {
    let mut ended = query_newest(reader, filter, RecordKind::ToolFinished, limit)?;
    ended.extend(query_newest(reader, filter, RecordKind::ToolRejected, limit)?);
    ended.sort_by_key(|row| std::cmp::Reverse(row.seq));
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for row in &ended {
        if seen.insert((row.record.session.clone(), row.record.call.clone())) {
            rows.push(call_row(row, None));
        }
    }
    // A call that was stopped in the middle has two ends: its own, and one that the session recorded for it.
    rows.dedup_by(|next, row| {
        next.model_call.is_some()
            && next.model_call == row.model_call
            && next.session == row.session
            && next.status == row.status
    });
    for row in query_newest(reader, filter, RecordKind::ToolStarted, limit)? {
        if !has_end(reader, &row)? {
            rows.push(call_row(&row, Some("running")));
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.seq));
    rows.truncate(limit);
    Ok(rows)
}

fn has_end(reader: &Reader, started: &StoredRecord) -> Result<bool, ReadError> {
    let end = Filter {
        session: Some(started.record.session.clone()),
        call: started.record.call.clone(),
        kind: Some(RecordKind::ToolFinished),
        after_seq: Some(started.seq),
        limit: Some(1),
        ..Filter::default()
    };
    Ok(!reader.query(&end)?.is_empty())
}

fn call_row(row: &StoredRecord, status: Option<&str>) -> CallRow {
    let record = &row.record;
    let text = |field: &str| record.body.get(field).and_then(Value::as_str).map(str::to_owned);
    CallRow {
        at: record.at.0,
        session: record.session.clone(),
        call: record.call.clone().unwrap_or_default(),
        model_call: text("model_call"),
        tool: record.tool.clone().unwrap_or_default(),
        status: status.map(str::to_owned).or_else(|| record.status.clone()).unwrap_or_else(|| "?".to_owned()),
        duration_ms: record.body.get("duration_ms").and_then(Value::as_f64),
        actor: record.actor.clone(),
        entry_point: text("entry_point").unwrap_or_else(|| "agent".to_owned()),
        client: text("client"),
        seq: row.seq,
    }
}

/// Returns the newest sessions that match, the newest first.
fn query_sessions(reader: &Reader, filter: &Filter, limit: usize) -> Result<Vec<SessionRow>> {
    // The status of a session is in its last record, which need not match the other filters.
    let wanted = filter.status.as_deref();
    let started = Filter { status: None, ..filter.clone() };
    let max_rows = if wanted.is_some() { Filter::DEFAULT_LIMIT } else { limit };
    let mut rows = Vec::new();
    for start in query_newest(reader, &started, RecordKind::SessionStarted, max_rows)? {
        let row = session_row(reader, &start)?;
        if wanted.is_none_or(|wanted| wanted == row.status) {
            rows.push(row);
        }
        if rows.len() == limit {
            break;
        }
    }
    Ok(rows)
}

fn session_row(reader: &Reader, start: &StoredRecord) -> Result<SessionRow, ReadError> {
    let session = &start.record.session;
    let of_session = Filter { session: Some(session.clone()), ..Filter::default() };
    let last = query_newest(reader, &of_session, RecordKind::SessionFinished, 1)?;
    let first = Filter { kind: Some(RecordKind::UserMessage), limit: Some(1), ..of_session.clone() };
    let first = reader.query(&first)?;
    let message = first.first().and_then(|row| row.record.body.get("text")).and_then(Value::as_str);
    let finished = query_newest(reader, &of_session, RecordKind::ToolFinished, Filter::DEFAULT_LIMIT)?.len();
    let rejected = query_newest(reader, &of_session, RecordKind::ToolRejected, Filter::DEFAULT_LIMIT)?.len();
    let status = last.first().map_or("open", |row| row.record.status.as_deref().unwrap_or("?"));
    Ok(SessionRow {
        at: start.record.at.0,
        session: session.clone(),
        status: status.to_owned(),
        calls: finished.saturating_add(rejected),
        actor: start.record.actor.clone(),
        message: message.unwrap_or_default().to_owned(),
    })
}

fn print_calls(reader: &Reader, rows: &[CallRow]) -> Result<()> {
    if rows.is_empty() {
        return report_no_records();
    }
    let mut table = table::new(&["when (UTC)", "session", "call", "tool", "outcome", "time", "actor", "from"], &[5]);
    for row in rows {
        let from = row.client.iter().fold(row.entry_point.clone(), |from, client| format!("{from}: {client}"));
        let time = render::record::duration_of(&serde_json::json!({ "duration_ms": row.duration_ms }));
        table.add_row(vec![
            time_cell(row.at),
            Cell::new(one_line(&row.session)),
            Cell::new(one_line(reader.abbreviate_call(&row.call)?)),
            Cell::new(one_line(&row.tool)),
            table::verdict(&one_line(&row.status), row.status == "ok"),
            Cell::new(time.map_or_else(|| "–".to_owned(), render::format_duration)),
            actor_cell(row.actor.as_deref()),
            Cell::new(one_line(&from)),
        ]);
    }
    table::print(table, 7, &[1, 6, 7, 5])?;
    render::hint("`fumehood log show CALL` shows one call with its history");
    Ok(())
}

fn print_sessions(rows: &[SessionRow]) -> Result<()> {
    if rows.is_empty() {
        return report_no_records();
    }
    let mut table = table::new(&["when (UTC)", "session", "outcome", "calls", "actor", "message"], &[3]);
    for row in rows {
        table.add_row(vec![
            time_cell(row.at),
            Cell::new(one_line(&row.session)),
            table::verdict(&one_line(&row.status), row.status == "answered"),
            Cell::new(row.calls),
            actor_cell(row.actor.as_deref()),
            Cell::new(render::record::truncate(&row.message, MAX_MESSAGE_CHARS)),
        ]);
    }
    table::print(table, 5, &[4, 3])
}

fn time_cell(at: u64) -> Cell {
    Cell::new(moment::format_second(fumehood::time::Timestamp(at)))
}

fn actor_cell(actor: Option<&str>) -> Cell {
    Cell::new(actor.map_or_else(|| "–".to_owned(), one_line))
}
