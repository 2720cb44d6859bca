//! `fumehood log import` and `fumehood log export --to`: whole logs from a file to PostgreSQL, and the other way.

use std::path::Path;

use anyhow::{Context as _, Result};
use fumehood::event_log::{LogId, Options, Reader, TransferReport};
use serde::Serialize;

use crate::args::log::Import;
use crate::exit::{Exit, UsageError};
use crate::log_place::{self, LogPlace};
use crate::render;

/// A copied log, for `--json`.
#[derive(Serialize)]
struct CopyReport {
    log: String,
    copied: u64,
    row: u64,
    hash: String,
    seals_checked: bool,
}

impl From<&TransferReport> for CopyReport {
    fn from(report: &TransferReport) -> Self {
        let TransferReport { log, copied, last, seals_checked } = report;
        let log = log.to_string();
        let hash = last.hash.to_string();
        Self { log, copied: *copied, row: last.seq, hash, seals_checked: *seals_checked }
    }
}

/// Copies a log in a file to the server of the configuration.
pub(super) fn import(place: &LogPlace, import: &Import, json: bool) -> Result<Exit> {
    let LogPlace::Server(server) = place else {
        let message = "the log is a file, but logs can be copied only to PostgreSQL; set `url` in [storage], and \
                       leave `--log` out";
        return Err(UsageError(message.to_owned()).into());
    };
    let options = Options { key_file: import.from_key.clone(), ..Options::default() };
    let reader = log_place::open_read_only(&LogPlace::File(import.from.clone()), &options)?;
    let reports = reader.copy_to_postgres(server).with_context(|| format!("cannot copy {}", import.from.display()))?;
    print(&reports, json)
}

/// Copies the log of one writer to a new file.
pub(super) fn export(reader: &Reader, file: &Path, writer: Option<LogId>, json: bool) -> Result<Exit> {
    let report = reader.copy_to_file(writer, file).context("cannot copy the log")?;
    print(&[report], json)
}

fn print(reports: &[TransferReport], json: bool) -> Result<Exit> {
    if json {
        render::json(&reports.iter().map(CopyReport::from).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for TransferReport { log, copied, last, seals_checked } in reports {
        let seals =
            if *seals_checked { "its seals, too" } else { "its seals were not checked, because its key is unknown" };
        render::line(&format!(
            "copied {copied} rows of the log {log}, up to row {}; both were verified, {seals}",
            last.seq
        ))?;
    }
    Ok(Exit::Ok)
}
