//! `fumehood log verify`: is the log what was written?

use anyhow::Result;
use fumehood::event_log::{Reader, Report};
use serde::Serialize;

use crate::args::log::Verify;
use crate::exit::Exit;
use crate::render::{self, BAD, GOOD, styled};

/// What was found, for programs.
#[derive(Serialize)]
struct Verified<'a> {
    status: &'static str,
    #[serde(flatten)]
    report: &'a Report,
    message: Option<String>,
    mark: Option<String>,
}

pub(super) fn run(reader: &Reader, verify: &Verify, json: bool) -> Result<Exit> {
    let mark = reader.last()?.map(|mark| format!("{}:{}", mark.seq, mark.hash));
    let report = reader.verify(verify.mark)?;
    let message = report.finding.as_ref().map(ToString::to_string);
    let is_whole = message.is_none();
    if json {
        let status = if is_whole { "ok" } else { "tampered" };
        render::json(&Verified { status, report: &report, message, mark: mark.filter(|_| is_whole) })?;
    } else {
        show(&report, message.as_deref(), mark.as_deref())?;
    }
    Ok(if is_whole { Exit::Ok } else { Exit::Tampered })
}

fn show(report: &Report, message: Option<&str>, mark: Option<&str>) -> Result<()> {
    match message {
        Some(message) => {
            render::line(&format!("{} {}", styled(BAD, "not in order:"), render::paragraph::one_line(message)))?;
            render::line(&format!("{} rows before it are in order", report.rows))?;
        }
        None => render::line(&format!("{} {} rows", styled(GOOD, "in order:"), report.rows))?,
    }
    if report.pruned_up_to > 0 {
        render::line(&format!("rows up to {} were removed because they were old", report.pruned_up_to))?;
    }
    if report.seals_checked {
        render::line(&format!("sealed up to row {}", report.sealed_up_to))?;
    } else {
        render::warning("the seals were not checked, because the key beside the log cannot be read");
    }
    match (message, mark) {
        (None, Some(mark)) => render::line(&format!("mark to keep elsewhere: {mark}")),
        _ => Ok(()),
    }
}
