//! `fumehood approve-call`: answers to calls of saved sessions that wait for a person.

use anyhow::{Context as _, Result};
use fumehood::agent::agent::{AnswerCallError, answer_saved};
use fumehood::agent::deferred::GivenAnswer;
use fumehood::agent::session::{AnswerError, PendingCall, RestoredSession};
use fumehood::event_log::{EventLog, Reader};
use fumehood::time::Timestamp;
use serde::Serialize;

use crate::agent::saved;
use crate::app::App;
use crate::args::Arguments;
use crate::args::sessions::ApproveCall;
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::log_place;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, FAINT, STRONG, styled};
use crate::{moment, question};

/// Maximum length of a reason or a name, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// A call that waits, for `--json`.
#[derive(Serialize)]
struct Row<'a> {
    session: &'a str,
    #[serde(flatten)]
    call: &'a PendingCall,
}

/// An answer that was stored, for `--json`.
#[derive(Serialize)]
struct StoredAnswer<'a> {
    id: &'a str,
    answer: &'static str,
    session: &'a str,
    /// True if no other call of the session waits for an answer.
    is_complete: bool,
}

/// A session with calls that wait.
struct WaitingSession {
    session: String,
    restored: RestoredSession,
}

pub(crate) async fn run(arguments: &Arguments, typed: &ApproveCall) -> Result<Exit> {
    for (flag, text) in [("--reason", &typed.reason), ("--by", &typed.by)] {
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
            return Err(UsageError(format!("`{flag}` has more than {MAX_TEXT_BYTES} bytes; shorten it")).into());
        }
    }
    let uses = |config: &Config| log_place::is_configured(typed.file.as_deref(), config);
    let config = App::open_where(arguments, uses)?.config;
    let place = log_place::locate(typed.file.as_deref(), &config)?;
    let options = log_place::options(&place, typed.log_key.as_deref(), &config)?;
    let reader = log_place::open_read_only(&place, &options)?;
    let Some(id) = typed.id.as_deref() else { return list(arguments, &reader) };
    let waiting = find(&reader, id)?;
    drop(reader);
    let call = waiting.restored.session.check_answer(id).map_err(|error| refuse(&error))?;
    let yes = match (typed.yes, typed.no) {
        (true, _) => true,
        (_, true) => false,
        _ => {
            show(arguments, &waiting.session, call)?;
            if arguments.json || !question::can_ask() {
                render::note("it is waiting; answer with `--yes` or `--no`");
                return Ok(Exit::Waiting);
            }
            question::ask(&format!("May {} run?", one_line(&call.deferred.tool)))?
        }
    };
    let log = log_place::open(&place, &options)?;
    store(arguments, typed, log, waiting, id, yes).await
}

/// Stores an answer.
async fn store(
    arguments: &Arguments,
    typed: &ApproveCall,
    log: EventLog,
    waiting: WaitingSession,
    id: &str,
    yes: bool,
) -> Result<Exit> {
    let WaitingSession { session, restored } = waiting;
    let others = restored.session.waiting_calls().iter().filter(|call| call.id != id && call.answer.is_none()).count();
    let answer = GivenAnswer { yes, reason: typed.reason.clone().unwrap_or_default(), by: typed.by.clone() };
    match answer_saved(&log, restored, id, answer, moment::now()).await {
        Ok(()) => log.close()?,
        Err(AnswerCallError::Record(error)) => {
            // Another answer may have been first, or the session went on.
            let now = find(log.reader(), id)?;
            now.restored.session.check_answer(id).map_err(|error| refuse(&error))?;
            return Err(error).context("the answer was not saved");
        }
        Err(error) => return Err(error.into()),
    }
    let answer = if yes { "yes" } else { "no" };
    if arguments.json {
        render::json(&StoredAnswer { id, answer, session: &session, is_complete: others == 0 })?;
        return Ok(Exit::Ok);
    }
    render::note(&format!("answered `{id}` with {answer}; resume the session with `fumehood run --resume {session}`"));
    if others > 0 {
        render::note(&format!(
            "{others} more calls of the session are waiting; list them with `fumehood approve-call`"
        ));
    }
    Ok(Exit::Ok)
}

/// Restores the session that a call is part of.
fn find(reader: &Reader, id: &str) -> Result<WaitingSession> {
    let session = id.rsplit_once(':').map_or(id, |(session, _)| session);
    let restored = saved::restore(reader, session)?;
    match restored {
        Some(restored) => Ok(WaitingSession { session: session.to_owned(), restored }),
        None => {
            let ids: Vec<String> = all(reader)?
                .iter()
                .flat_map(|waiting| waiting.restored.session.waiting_calls())
                .filter(|call| call.answer.is_none())
                .map(|call| call.id.clone())
                .collect();
            let waiting = if ids.is_empty() { "none waits".to_owned() } else { format!("waiting: {}", ids.join(", ")) };
            Err(UsageError(format!("no call `{}` is waiting for approval; {waiting}", one_line(id))).into())
        }
    }
}

/// Restores every session with calls that wait. Those that cannot be read are left out with a warning.
fn all(reader: &Reader) -> Result<Vec<WaitingSession>> {
    let mut found = Vec::new();
    for info in reader.saved_sessions()? {
        match saved::restore(reader, &info.session) {
            Ok(Some(restored)) if !restored.session.waiting_calls().is_empty() => {
                found.push(WaitingSession { session: info.session, restored });
            }
            Ok(_) => {}
            Err(error) => render::warning(&format!("{error:#}")),
        }
    }
    Ok(found)
}

fn list(arguments: &Arguments, reader: &Reader) -> Result<Exit> {
    let found = all(reader)?;
    let calls = found.iter().flat_map(|waiting| {
        let calls = waiting.restored.session.waiting_calls().iter().filter(|call| call.answer.is_none());
        calls.map(|call| (waiting.session.as_str(), call))
    });
    if arguments.json {
        render::json(&calls.map(|(session, call)| Row { session, call }).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let mut is_empty = true;
    for (session, call) in calls {
        is_empty = false;
        print(session, call)?;
    }
    render::note(if is_empty {
        "no calls are waiting for approval"
    } else {
        "answer with `fumehood approve-call ID --yes` or `--no`"
    });
    Ok(Exit::Ok)
}

fn show(arguments: &Arguments, session: &str, call: &PendingCall) -> Result<()> {
    if arguments.json { render::json(&Row { session, call }) } else { print(session, call) }
}

/// Prints a call in full, because an approval allows all of it. Text of a model, a judge or a tool is quoted.
fn print(session: &str, call: &PendingCall) -> Result<()> {
    let deferred = &call.deferred;
    render::line(&format!(
        "{}  {}",
        styled(STRONG, &call.id),
        styled(FAINT, &format!("session {session}, since {}", moment::format_second(call.asked_at)))
    ))?;
    let mut quotation = Quotation::new(true);
    quotation.write_block(2, &format!("{} {}", one_line(&deferred.tool), deferred.arguments))?;
    quotation.write_block(2, &format!("{}: {}", one_line(&deferred.from), deferred.question))
}

/// Says why a call cannot be answered.
fn refuse(error: &AnswerError) -> anyhow::Error {
    let message = match error {
        AnswerError::Answered { id, yes, at_ms } => {
            let answer = if *yes { "yes" } else { "no" };
            let at = moment::format_second(Timestamp(*at_ms));
            format!("the call `{id}` was already answered with {answer} at {at}; answers cannot be changed")
        }
        error => format!("{error}; `fumehood approve-call` lists the waiting calls"),
    };
    UsageError(message).into()
}
