//! `fumehood log`: what was recorded.

mod export;
mod filter;
mod follow;
mod list;
mod show;
mod verify;

use anyhow::Result;

use crate::args::Arguments;
use crate::args::log::{Log, LogAction};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::log_file;

pub(crate) async fn run(arguments: &Arguments, log: &Log) -> Result<Exit> {
    if log.action.is_some() && !log.list.is_untouched() {
        let message = "filters are written after the action, as in `fumehood log export --tool NAME`";
        return Err(UsageError(message.to_owned()).into());
    }
    let config = Config::find(arguments.config.as_deref())?;
    let path = log_file::place(log.file.as_deref(), &config)?;
    let reader = log_file::read(&path, &log_file::options(&config)?)?;
    match &log.action {
        None => list::run(&reader, &log.list, arguments.json),
        Some(LogAction::List(list)) => list::run(&reader, list, arguments.json),
        Some(LogAction::Show(show)) => show::run(&reader, show, arguments.json),
        Some(LogAction::Follow(follow)) => follow::run(reader, follow, arguments.json).await,
        Some(LogAction::Export(export)) => export::run(&reader, export),
        Some(LogAction::Verify(verify)) => verify::run(&reader, verify, arguments.json),
    }
}
