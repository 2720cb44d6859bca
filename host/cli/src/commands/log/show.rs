//! `fumehood log show`: shows one call with its causal chain.

use anyhow::Result;
use fumehood::event_log::{CallHistory, Reader, StoredRecord};
use fumehood::record::{Record, RecordKind};
use serde_json::Value;

use crate::args::log::Show;
use crate::exit::{Exit, UsageError};
use crate::moment;
use crate::render::quotation::one_line;
use crate::render::{self, FAINT, STRONG, line, styled};

/// Maximum number of calls in the message about a prefix that several ids begin with.
const MAX_LISTED_CALLS: usize = 20;

pub(super) fn run(reader: &Reader, show: &Show, json: bool) -> Result<Exit> {
    let calls = find(reader, &show.call, show.session.as_deref())?;
    if calls.is_empty() {
        let suffix = show.session.as_ref().map_or(String::new(), |session| format!(" in the session `{session}`"));
        let message = format!("unknown call `{}`{suffix}; `fumehood log` lists calls with their ids", show.call);
        return Err(UsageError(message).into());
    }
    if json {
        render::json(&calls)?;
        return Ok(Exit::Ok);
    }
    // A call that waited for a person is tried again under the same id of the model, in the same session.
    let is_one_session = calls.windows(2).all(|pair| matches!(pair, [one, next] if one.session == next.session));
    if !is_one_session {
        return Err(ambiguous_id(reader, &show.call, &calls)?.into());
    }
    // The newest is the first.
    for (index, call) in calls.iter().rev().enumerate() {
        if index > 0 {
            line("")?;
        }
        match call_id(call) {
            "" => print_section(reader, "Answer", &call.call)?,
            _ => print_history(reader, call)?,
        }
    }
    Ok(Exit::Ok)
}

/// Finds the call with an id, the calls to which a model gave it, or else the call whose id begins with it.
///
/// # Errors
/// If several ids begin with it; the message lists them.
fn find(reader: &Reader, typed: &str, session: Option<&str>) -> Result<Vec<CallHistory>> {
    let calls = reader.show(typed, session)?;
    if !calls.is_empty() || typed.is_empty() {
        return Ok(calls);
    }
    let ids = reader.calls_with_prefix(typed, MAX_LISTED_CALLS.saturating_add(1))?;
    let mut found = Vec::new();
    for id in ids.iter().take(MAX_LISTED_CALLS) {
        found.extend(reader.show(id, session)?);
    }
    let calls_found = found.chunk_by(|one, next| call_id(one) == call_id(next)).count();
    if calls_found < 2 {
        return Ok(found);
    }
    let more = if ids.len() > MAX_LISTED_CALLS { ", and more" } else { "" };
    let message =
        format!("{calls_found} calls{more} have ids that start with `{}`; type more characters:\n", one_line(typed));
    Err(UsageError(message + &list_calls(reader, &found)?).into())
}

/// Returns the error for an id that a model gave to several calls.
fn ambiguous_id(reader: &Reader, id: &str, calls: &[CallHistory]) -> Result<UsageError> {
    let message =
        format!("the id `{}` from a model belongs to {} calls; show one of them:\n", one_line(id), calls.len());
    Ok(UsageError(message + &list_calls(reader, calls)?))
}

/// Lists calls in lines: the short id, the time, the tool and the session.
fn list_calls(reader: &Reader, calls: &[CallHistory]) -> Result<String> {
    let mut lines = Vec::new();
    for call in calls {
        let first = call.call.first().map(|row| &row.record);
        let at = first.map(|record| moment::format_second(record.at)).unwrap_or_default();
        let tool = first.and_then(|record| record.tool.as_deref()).unwrap_or("?");
        let short = one_line(reader.abbreviate_call(call_id(call))?);
        lines.push(format!("  {short}  {at}  {}  in the session {}", one_line(tool), one_line(&call.session)));
    }
    Ok(lines.join("\n"))
}

fn call_id(history: &CallHistory) -> &str {
    history.call.iter().find_map(|row| row.record.call.as_deref()).unwrap_or_default()
}

fn print_history(reader: &Reader, history: &CallHistory) -> Result<()> {
    let id = call_id(history);
    let tool = history.call.iter().find_map(|row| row.record.tool.as_deref()).unwrap_or("?");
    line(&styled(STRONG, &format!("{}  {}", one_line(reader.abbreviate_call(id)?), one_line(tool))))?;
    print_facts(history)?;
    print_section(reader, "Before the call", &history.before)?;
    print_section(reader, "The call", &history.call)?;
    print_section(reader, "After the call", &history.after)
}

fn print_facts(history: &CallHistory) -> Result<()> {
    let records = || history.call.iter().map(|row| &row.record);
    let from = |get: fn(&Record) -> Option<&str>| records().find_map(get).map(str::to_owned);
    let body = |kind: RecordKind, field: &str| last_value(history, kind, field);
    let ended = records().rev().find(|it| matches!(it.kind, RecordKind::ToolFinished | RecordKind::ToolRejected));
    let arguments = body(RecordKind::ToolStarted, "arguments").or_else(|| body(RecordKind::ToolRejected, "arguments"));
    let result = body(RecordKind::ToolResult, "result").map(render::record::result_text);
    let text = |field: &str| records().find_map(|record| record.body.get(field)?.as_str().map(str::to_owned));
    let refusal = || body(RecordKind::ToolRejected, "error")?.get("message")?.as_str().map(str::to_owned);
    // It says which power was refused, and how to grant it.
    let hint = body(RecordKind::ToolResult, "result")
        .and_then(|result| result.pointer("/error/hint"))
        .or_else(|| body(RecordKind::ToolRejected, "error")?.get("hint"));
    let hint = hint.and_then(Value::as_str).map(str::to_owned);
    let request = |kind: RecordKind| history.before.iter().rev().map(|row| &row.record).find(|it| it.kind == kind);
    let facts = [
        ("id", Some(call_id(history).to_owned())),
        ("session", Some(history.session.clone())),
        ("alias", text("model_call")),
        ("asked", request(RecordKind::ModelAsked).map(|asked| render::record::describe_request(&asked.body))),
        (
            "answered",
            request(RecordKind::ModelAnswered).map(|answered| render::record::describe_answer(&answered.body)),
        ),
        ("actor", from(|record| record.actor.as_deref())),
        ("from", text("entry_point")),
        ("client", text("client")),
        ("worker", text("worker")),
        ("digest", from(|record| record.digest.as_deref())),
        ("outcome", ended.map(|record| record.status.clone().unwrap_or_else(|| "?".to_owned()))),
        ("arguments", arguments.map(Value::to_string)),
        ("changed", body(RecordKind::ToolStarted, "modified").map(Value::to_string)),
        ("result", result.or_else(refusal)),
        ("hint", hint),
        ("usage", describe_usage(ended)),
    ];
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        line(&format!("  {name:<widest$}  {}", one_line(value)))?;
    }
    Ok(())
}

/// Returns a value of the last record of this kind; `None` for `null`.
fn last_value<'a>(history: &'a CallHistory, kind: RecordKind, field: &str) -> Option<&'a Value> {
    let record = history.call.iter().rev().map(|row| &row.record).find(|record| record.kind == kind)?;
    record.body.get(field).filter(|value| !value.is_null())
}

fn describe_usage(ended: Option<&Record>) -> Option<String> {
    let body = &ended.filter(|record| record.kind == RecordKind::ToolFinished)?.body;
    let number = |field: &str| body.get(field).and_then(Value::as_u64);
    let mut parts = Vec::new();
    if let Some(took) = render::record::duration_of(body) {
        parts.push(render::format_duration(took));
    }
    parts.extend(number("fuel_used").map(|fuel| format!("{} fuel", fumehood::limits::display_count(fuel))));
    parts.extend(number("peak_memory").map(|bytes| format!("{} peak memory", fumehood::limits::display_bytes(bytes))));
    parts.extend(number("bytes").map(|bytes| format!("{} result", fumehood::limits::display_bytes(bytes))));
    parts.extend(number("attempts").filter(|tries| *tries > 1).map(|tries| format!("{tries} attempts")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn print_section(reader: &Reader, title: &str, records: &[StoredRecord]) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    line(&styled(STRONG, title))?;
    for row in records {
        let prefix = styled(FAINT, &format!("{:>6}  {}", row.seq, moment::format_time_of_day(row.record.at)));
        let call = row.record.call.as_deref().map(|call| reader.abbreviate_call(call)).transpose()?;
        let record = Record { call: call.map(str::to_owned), ..row.record.clone() };
        line(&format!("{prefix}  {}", render::record::describe(&record)))?;
    }
    Ok(())
}
