//! `fumehood log`: the records of the event log.

mod export;
mod follow;
mod list;
mod show;
mod stats;
mod verify;

use anyhow::Result;
use fumehood::event_log::{Checkpoint, Filter, Reader};
use serde::Serialize;

use crate::args::Arguments;
use crate::args::log::{Filters, Log, LogAction};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::trust::ConfigSource;
use crate::{log_file, moment, render};

/// Runs one action on the log, `list` if none is named.
pub(crate) async fn run(arguments: &Arguments, log: &Log) -> Result<Exit> {
    if log.action.is_some() && !log.list.is_untouched() {
        let message = "filters are written after the action, as in `fumehood log export --tool NAME`";
        return Err(UsageError(message.to_owned()).into());
    }
    let uses = |config: &Config| config.log.key.is_some() || (log.file.is_none() && config.log.path.is_some());
    let config = ConfigSource::from_arguments(arguments).open_if(uses)?;
    let path = log_file::locate(log.file.as_deref(), &config)?;
    let key = log.log_key.as_deref();
    let reader = log_file::open_read_only(&path, &log_file::options(key, &config)?)?;
    match &log.action {
        None => list::run(&reader, &log.list, arguments.json),
        Some(LogAction::List(list)) => list::run(&reader, list, arguments.json),
        Some(LogAction::Stats(stats)) => stats::run(&reader, stats, arguments.json),
        Some(LogAction::Show(show)) => show::run(&reader, show, arguments.json),
        Some(LogAction::Follow(follow)) => follow::run(reader, follow, arguments.json).await,
        Some(LogAction::Export(export)) => export::run(&reader, export),
        Some(LogAction::Verify(verify)) => verify::run(&reader, verify, (&path, key), &config, arguments.json),
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

/// Prints a checkpoint to keep elsewhere.
fn print_head(reader: &Reader, json: bool) -> Result<Exit> {
    let checkpoint = reader.checkpoint(moment::now())?;
    if json {
        let Checkpoint { log, mark, at } = checkpoint;
        let (log, hash) = (log.to_string(), mark.hash.to_string());
        render::json(&Head { checkpoint, log, row: mark.seq, hash, at: at.0 })?;
    } else {
        render::line(&checkpoint.to_string())?;
    }
    Ok(Exit::Ok)
}
