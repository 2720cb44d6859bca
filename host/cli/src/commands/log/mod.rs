//! `fumehood log`: the records of the event log.

#[cfg(feature = "postgres")]
mod copy;
mod export;
mod follow;
mod list;
mod show;
mod stats;
mod verify;

use anyhow::Result;
use fumehood::event_log::{Checkpoint, Filter, JoinedHead, Reader};
use serde::Serialize;

use crate::app::App;
use crate::args::Arguments;
#[cfg(feature = "postgres")]
use crate::args::log::Export;
use crate::args::log::{Filters, Log, LogAction};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::{log_place, moment, render};

/// Runs one action on the log, `list` if none is named.
pub(crate) async fn run(arguments: &Arguments, log: &Log) -> Result<Exit> {
    if log.action.is_some() && !log.list.is_untouched() {
        let message = "write filters after the action, as in `fumehood log export --tool NAME`";
        return Err(UsageError(message.to_owned()).into());
    }
    let uses = |config: &Config| log_place::is_configured(log.file.as_deref(), config);
    let config = App::open_where(arguments, uses)?.config;
    let place = log_place::locate(log.file.as_deref(), &config)?;
    let key = log.log_key.as_deref();
    #[cfg(feature = "postgres")]
    if let Some(LogAction::Import(import)) = &log.action {
        return copy::import(&place, import, arguments.json);
    }
    let reader = log_place::open_read_only(&place, &log_place::options(&place, key, &config)?)?;
    match &log.action {
        None => list::run(&reader, &log.list, arguments.json),
        Some(LogAction::List(list)) => list::run(&reader, list, arguments.json),
        Some(LogAction::Stats(stats)) => stats::run(&reader, stats, arguments.json),
        Some(LogAction::Show(show)) => show::run(&reader, show, arguments.json),
        Some(LogAction::Follow(follow)) => follow::run(reader, follow, arguments.json).await,
        #[cfg(feature = "postgres")]
        Some(LogAction::Export(Export { to: Some(file), writer, .. })) => {
            copy::export(&reader, file, *writer, arguments.json)
        }
        Some(LogAction::Export(export)) => export::run(&reader, export),
        // Answered before the log was opened, since nothing is there before the first import.
        #[cfg(feature = "postgres")]
        Some(LogAction::Import(import)) => copy::import(&place, import, arguments.json),
        Some(LogAction::Verify(verify)) => verify::run(&reader, verify, &place, key, &config, arguments.json),
        Some(LogAction::Head) => print_head(&reader, arguments.json),
    }
}

/// Converts filters as they were typed; relative times count from now.
fn to_filter(filters: &Filters) -> Filter {
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

/// A checkpoint for `--json`: the whole line, and its fields.
#[derive(Serialize)]
struct Head {
    checkpoint: Checkpoint,
    log: String,
    row: u64,
    hash: String,
    at: u64,
}

impl From<Checkpoint> for Head {
    fn from(checkpoint: Checkpoint) -> Self {
        let Checkpoint { log, mark, at } = checkpoint;
        Self { checkpoint, log: log.to_string(), row: mark.seq, hash: mark.hash.to_string(), at: at.0 }
    }
}

/// The checkpoints of all writers for `--json`.
#[derive(Serialize)]
struct WriterHeads {
    writers: Vec<Head>,
    joined: JoinedHead,
}

/// Prints a checkpoint to keep elsewhere, or one of each writer and the line for all of them.
fn print_head(reader: &Reader, json: bool) -> Result<Exit> {
    let now = moment::now();
    let Some(joined) = reader.joined_head(now)? else {
        let checkpoint = reader.checkpoint(now)?;
        if json {
            render::json(&Head::from(checkpoint))?
        } else {
            render::line(&checkpoint.to_string())?
        }
        return Ok(Exit::Ok);
    };
    let checkpoints = reader.checkpoints(now)?;
    if json {
        render::json(&WriterHeads { writers: checkpoints.into_iter().map(Head::from).collect(), joined })?;
    } else {
        checkpoints.iter().try_for_each(|checkpoint| render::line(&checkpoint.to_string()))?;
        render::line(&joined.to_string())?;
    }
    Ok(Exit::Ok)
}
