//! `fumehood log verify`: verifies the integrity of the event log. What cannot be checked counts as not verified.

use std::path::Path;

use anyhow::Result;
use fumehood::event_log::{Checkpoint, Continuity, Reader, Report};
use serde::Serialize;

use crate::args::log::Verify;
use crate::config::Config;
use crate::exit::Exit;
use crate::render::{self, BAD, GOOD, styled};
use crate::{log_file, moment};

/// The result of a verification, for `--json`.
#[derive(Serialize)]
struct Verification<'a> {
    status: &'static str,
    #[serde(flatten)]
    report: &'a Report,
    /// Description of the finding.
    message: Option<String>,
    /// Checks that could not be made and were not waived.
    unchecked: Vec<String>,
    /// True if the key lies beside the log, so that a process that can write both can forge the log.
    key_beside_log: bool,
    mark: Option<String>,
    checkpoint: Option<Checkpoint>,
}

pub(super) fn run(
    reader: &Reader,
    verify: &Verify,
    (path, key): (&Path, Option<&Path>),
    config: &Config,
    json: bool,
) -> Result<Exit> {
    let report = match &verify.since {
        Some(checkpoint) => reader.verify_since(checkpoint)?,
        None => reader.verify(verify.mark)?,
    };
    let exit = match &report.finding {
        Some(_) => Exit::Tampered,
        None if unchecked_parts(reader, verify, &report).is_empty() => Exit::Ok,
        None => Exit::Unverified,
    };
    let checkpoint = reader.checkpoint(moment::now())?;
    let is_whole = exit == Exit::Ok;
    let verified = Verification {
        status: if is_whole { "ok" } else { exit.kind() },
        message: report.finding.as_ref().map(ToString::to_string),
        unchecked: unchecked_parts(reader, verify, &report),
        key_beside_log: report.seals_checked && key.is_none() && config.log.key.is_none(),
        mark: is_whole.then(|| format!("{}:{}", checkpoint.mark.seq, checkpoint.mark.hash)),
        checkpoint: is_whole.then_some(checkpoint),
        report: &report,
    };
    if json {
        render::json(&verified)?;
    } else {
        print_report(&verified, verify, config)?;
        if verified.key_beside_log && report.finding.is_none() {
            warn_about_key(path, verify);
        }
    }
    Ok(exit)
}

/// Describes the checks that could not be made and were not waived.
fn unchecked_parts(reader: &Reader, verify: &Verify, report: &Report) -> Vec<String> {
    let mut unchecked = Vec::new();
    if !report.seals_checked && !verify.without_key {
        let why = reader.key_error().map(ToString::to_string).unwrap_or_default();
        unchecked.push(format!(
            "the seals were not checked: {why}; `--log-key FILE` names the key, `--without-key` accepts a log whose \
             seals are not checked"
        ));
    }
    if report.continuity == Some(Continuity::Removed) {
        let (row, cut) = (verify.since.map(|since| since.mark).or(verify.mark), report.pruned_up_to);
        let row = row.map_or(0, |mark| mark.seq);
        unchecked.push(format!(
            "row {row} of the checkpoint was removed because it was old, with all up to row {cut}, so nothing could be \
             compared with it; compare with a checkpoint that was taken after row {cut}"
        ));
    }
    unchecked
}

fn print_report(verified: &Verification<'_>, verify: &Verify, config: &Config) -> Result<()> {
    let Verification { report, message, unchecked, checkpoint, .. } = verified;
    let rows = report.rows;
    match message {
        Some(message) => {
            render::line(&format!("{} {}", styled(BAD, "not in order:"), render::quotation::one_line(message)))?;
            render::line(&format!("{rows} rows before it are in order"))?;
        }
        None if unchecked.is_empty() => render::line(&format!("{} {rows} rows", styled(GOOD, "in order:")))?,
        None => {
            let what = format!("{rows} rows follow each other, and that is all that was found out");
            render::line(&format!("{} {what}", styled(BAD, "not verified:")))?;
        }
    }
    unchecked.iter().try_for_each(|what| render::line(&render::quotation::one_line(what)))?;
    if report.pruned_up_to > 0 {
        render::line(&format!("rows up to {} were removed because they were old", report.pruned_up_to))?;
        if log_file::retention(config, moment::now()).is_empty() {
            render::warning("the configuration keeps all records; somebody removed old ones with other settings");
        }
    }
    if report.seals_checked {
        render::line(&format!("sealed up to row {}", report.sealed_up_to))?;
        if report.sealed_up_to < report.last && message.is_none() {
            let first = report.sealed_up_to.saturating_add(1);
            let last = report.last;
            render::line(&format!(
                "rows {first} to {last} have no seal yet: whoever can write the log can change them"
            ))?;
        }
    } else if verify.without_key && message.is_none() {
        render::warning(
            "the seals were not checked, as asked: somebody may have rewritten rows and their hashes, or removed old ones",
        );
    }
    match (report.continuity, &verify.since) {
        (Some(Continuity::Proven), Some(since)) if message.is_none() => {
            let row = since.mark.seq;
            render::line(&format!("it leads to the checkpoint: nothing up to row {row} was changed or has vanished"))?;
        }
        _ => {}
    }
    checkpoint.map_or(Ok(()), |checkpoint| render::line(&format!("checkpoint to keep elsewhere: {checkpoint}")))
}

/// Warns that the key lies beside the log: seals protect only against those who cannot read the key.
fn warn_about_key(path: &Path, verify: &Verify) {
    let key = format!("{}.key", path.display());
    let advice = match verify.since {
        Some(_) => "a checkpoint, as given, is what shows that",
        None => "keep checkpoints elsewhere (`fumehood log head`), and compare with them (`--since`)",
    };
    render::warning(&render::quotation::one_line(&format!(
        "the key {key} lies beside the log: whoever can write both can rewrite the log and seal it anew. Keep it where \
         tools and other users cannot write ([log] `key`, or `--log-key FILE`); {advice}"
    )));
}
