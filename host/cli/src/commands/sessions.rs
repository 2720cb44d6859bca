//! `fumehood sessions`: the saved sessions, in the event log.

use anyhow::{Context as _, Result};
use comfy_table::Cell;
use fumehood::agent::session::transcript::{Run, Transcript, WaitingCall};
use fumehood::agent::session::{PendingCall, Session};
use fumehood::chat::ToolIntent;
use fumehood::event_log::Reader;
use fumehood::limits::display_bytes;
use serde::Serialize;

use crate::agent::saved;
use crate::app::App;
use crate::args::Arguments;
use crate::args::sessions::{Sessions, SessionsAction};
use crate::config::Config;
use crate::exit::Exit;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, FAINT, STRONG, styled, table};
use crate::{log_place, moment};

/// A session in the list, for `--json`.
#[derive(Serialize)]
struct Row<'a> {
    session: &'a str,
    entries: u64,
    bytes: u64,
    began_at: u64,
    changed_at: u64,
    #[serde(flatten)]
    state: State,
}

/// The place at which a session stands.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    /// It waits for a message.
    Ready,
    /// A run is under way.
    Running,
    /// Calls of a run wait for the answers of a person.
    WaitingForApproval { waiting: Vec<WaitingCall> },
    /// It cannot be read.
    Unreadable { reason: String },
}

impl State {
    fn of(reader: &Reader, id: &str) -> Self {
        let session = match saved::restore(reader, id) {
            Ok(Some(restored)) => restored.session,
            // Removed in the meantime.
            Ok(None) => return Self::Unreadable { reason: "it is gone".to_owned() },
            Err(error) => return Self::Unreadable { reason: format!("{error:#}") },
        };
        let waiting: Vec<_> = unanswered(&session).map(PendingCall::to_waiting).collect();
        match (waiting.is_empty(), session.current_run()) {
            (false, _) => Self::WaitingForApproval { waiting },
            (true, Some(_)) => Self::Running,
            (true, None) => Self::Ready,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Ready => "ready".to_owned(),
            Self::Running => "under way".to_owned(),
            Self::WaitingForApproval { waiting } => {
                let calls: Vec<String> =
                    waiting.iter().map(|call| format!("{} {}", call.id, one_line(&call.tool))).collect();
                format!("is waiting for approval: {}", calls.join(", "))
            }
            Self::Unreadable { .. } => "unreadable".to_owned(),
        }
    }
}

/// Returns the calls of a session that wait for an answer.
fn unanswered(session: &Session) -> impl Iterator<Item = &PendingCall> {
    session.waiting_calls().iter().filter(|call| call.answer.is_none())
}

/// A session as a whole, for `--json`.
#[derive(Serialize)]
struct SessionView<'a> {
    session: &'a str,
    driver: &'a str,
    actor: Option<&'a str>,
    transcript: &'a Transcript,
    /// The run that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<&'a Run>,
    /// The calls that had begun and did not end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interrupted: Vec<&'a str>,
    /// The calls that wait for the answer of a person, or have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingCall>,
}

pub(crate) async fn run(arguments: &Arguments, sessions: &Sessions) -> Result<Exit> {
    let uses = |config: &Config| log_place::is_configured(sessions.file.as_deref(), config);
    let config = App::open_where(arguments, uses)?.config;
    let place = log_place::locate(sessions.file.as_deref(), &config)?;
    let options = log_place::options(&place, sessions.log_key.as_deref(), &config)?;
    let reader = log_place::open_read_only(&place, &options)?;
    match &sessions.action {
        SessionsAction::List => list(arguments, &reader),
        SessionsAction::Show { id } => show(arguments, &reader, id),
        SessionsAction::Rm { id } => {
            drop(reader);
            let log = log_place::open(&place, &options)?;
            let was_there = log.remove_session(id).await.with_context(|| format!("{id} was not removed"))?;
            log.close()?;
            if !was_there {
                return Err(saved::missing(id).into());
            }
            render::note(&format!("removed the session `{id}`; its records stay in {place}"));
            Ok(Exit::Ok)
        }
    }
}

fn list(arguments: &Arguments, reader: &Reader) -> Result<Exit> {
    let listed = reader.saved_sessions()?;
    if arguments.json {
        let rows = listed.iter().map(|info| Row {
            session: &info.session,
            entries: info.entries,
            bytes: info.bytes,
            began_at: info.began_at.0,
            changed_at: info.changed_at.0,
            state: State::of(reader, &info.session),
        });
        render::json(&rows.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    if listed.is_empty() {
        render::note(
            "no saved sessions; save one with `fumehood chat --session NAME` or `fumehood run --session NAME`",
        );
        return Ok(Exit::Ok);
    }
    let mut table = table::new(&["SESSION", "SIZE", "BEGAN", "CHANGED", "STATE"], &[1]);
    for info in &listed {
        table.add_row([
            Cell::new(one_line(&info.session)),
            Cell::new(display_bytes(info.bytes)),
            Cell::new(moment::format_second(info.began_at)),
            Cell::new(moment::format_second(info.changed_at)),
            Cell::new(State::of(reader, &info.session).describe()),
        ]);
    }
    table::print(table, 4, &[2, 1])?;
    Ok(Exit::Ok)
}

fn show(arguments: &Arguments, reader: &Reader, id: &str) -> Result<Exit> {
    let saved = saved::find(reader, id)?.ok_or_else(|| saved::missing(id))?;
    let driver = saved.driver().to_owned();
    let actor = saved.actor().map(str::to_owned);
    let session = saved::restore(reader, id)?.ok_or_else(|| saved::missing(id))?.session;
    let pending = session.pending_calls();
    if arguments.json {
        render::json(&SessionView {
            session: id,
            driver: &driver,
            actor: actor.as_deref(),
            transcript: session.transcript(),
            current: session.current_run(),
            interrupted: pending.iter().map(|call| call.name.as_str()).collect(),
            waiting: session.waiting_calls().iter().map(PendingCall::to_waiting).collect(),
        })?;
        return Ok(Exit::Ok);
    }
    let mut quotation = Quotation::new(true);
    let runs = session.transcript().runs.iter().map(AsRef::as_ref).chain(session.current_run());
    runs.into_iter().try_for_each(|run| print_run(run, &mut quotation))?;
    render::line(&styled(FAINT, &describe_state(&session, &pending, id)))?;
    Ok(Exit::Ok)
}

fn print_run(run: &Run, quotation: &mut Quotation) -> Result<()> {
    render::line(&styled(STRONG, "message"))?;
    quotation.write_block(2, &run.message.content)?;
    for execution in run.executions() {
        let outcome = execution.error().map_or("ok", |error| error.kind.as_str());
        render::line(&format!("  {}  {outcome}", one_line(execution.name())))?;
    }
    match &run.ending {
        Some(ending) => {
            render::line(&styled(STRONG, ending.as_str()))?;
            ending.text().map_or(Ok(()), |text| quotation.write_block(2, text))
        }
        None => Ok(()),
    }
}

/// Returns where a session stands, for a person.
fn describe_state(session: &Session, pending: &[ToolIntent], id: &str) -> String {
    if session.current_run().is_none() {
        return format!("continue with `fumehood chat --session {id}`");
    }
    let resume = format!("resume with `fumehood run --resume {id}`");
    let waiting: Vec<_> =
        unanswered(session).map(|call| format!("{} {}", call.id, one_line(&call.deferred.tool))).collect();
    if !waiting.is_empty() {
        return format!("waiting for approval of {}; answer with `fumehood approve-call ID`", waiting.join(", "));
    }
    if !session.waiting_calls().is_empty() {
        return format!("all waiting calls are answered; {resume}");
    }
    if pending.is_empty() {
        return format!("a run is active or was interrupted; {resume}");
    }
    let names: Vec<_> = pending.iter().map(|call| one_line(&call.name)).collect();
    format!("a run is active or was interrupted, with calls of {}; {resume}", names.join(", "))
}
