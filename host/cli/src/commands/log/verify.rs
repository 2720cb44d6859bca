//! `fumehood log verify`: verifies the integrity of the event log. What cannot be checked counts as not verified.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fumehood::event_log::{Checkpoint, Continuity, JoinReport, Reader, Report};
use serde::Serialize;

use crate::args::log::Verify;
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::log_place::{self, LogPlace};
use crate::moment;
use crate::render::{self, BAD, GOOD, styled};

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
    place: &LogPlace,
    key: Option<&Path>,
    config: &Config,
    json: bool,
) -> Result<Exit> {
    if reader.has_writers() {
        return verify_writers(reader, verify, config, json);
    }
    if !verify.writer_key.is_empty() {
        let message = "`--writer-key` works only for logs in PostgreSQL; the key of a log file is `--log-key`";
        return Err(UsageError(message.to_owned()).into());
    }
    let report = match &verify.since {
        Some(kept) if kept.all.is_empty() => return Err(joined_head_of_others()),
        Some(kept) => reader.verify_since(&kept.all)?,
        None => reader.verify(verify.mark)?,
    };
    let unchecked = unchecked_parts(reader, verify, &report);
    let exit = exit_of(&report, &unchecked);
    let checkpoint = reader.checkpoint(moment::now())?;
    let is_whole = exit == Exit::Ok;
    let verified = Verification {
        status: if is_whole { "ok" } else { exit.kind() },
        message: report.finding.as_ref().map(ToString::to_string),
        unchecked,
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
            warn_about_key(place, verify);
        }
    }
    Ok(exit)
}

fn joined_head_of_others() -> anyhow::Error {
    let message = "expected a checkpoint, got the joined head of a log in PostgreSQL; use the line that `fumehood log \
                   head` prints for this log";
    UsageError(message.to_owned()).into()
}

/// Describes the checks that could not be made and were not waived.
fn unchecked_parts(reader: &Reader, verify: &Verify, report: &Report) -> Vec<String> {
    let mut unchecked = Vec::new();
    if !report.seals_checked && !verify.without_key {
        let why = reader.key_error().map(ToString::to_string);
        let (why, flag) = match (reader.has_writers(), why) {
            (true, _) => ("the key of this writer was not given".to_owned(), "--writer-key FILE"),
            (false, why) => (why.unwrap_or_default(), "--log-key FILE"),
        };
        unchecked.push(format!(
            "the seals were not checked: {why}; name the key with `{flag}`, or accept unchecked seals with \
             `--without-key`"
        ));
    }
    let others =
        verify.since.iter().flat_map(|kept| &kept.all).filter(|checkpoint| checkpoint.log != report.log).count();
    // Of several writers, those of all are there, and one that is missing is found.
    if others > 0 && report.finding.is_none() && !reader.has_writers() {
        unchecked.push(format!(
            "{others} checkpoints of another log could not be compared. This also happens if the log was replaced. \
             Keep the checkpoints of each log in a separate file"
        ));
    }
    if report.continuity == Some(Continuity::Removed) {
        let row = marked_row(verify, report).unwrap_or(0);
        let cut = report.pruned_up_to;
        unchecked.push(format!(
            "retention removed row {row} of the checkpoint, with all rows up to {cut}, so it could not be compared; \
             use a checkpoint after row {cut}"
        ));
    }
    unchecked
}

/// Returns the row of the mark or checkpoint that this log was compared with.
fn marked_row(verify: &Verify, report: &Report) -> Option<u64> {
    let kept = verify.since.as_ref().and_then(|kept| kept.highest_row_of(report.log));
    kept.or(verify.mark.map(|mark| mark.seq))
}

/// The result of verifying the chains of several writers, for `--json`.
#[derive(Serialize)]
struct Verifications<'a> {
    status: &'static str,
    writers: Vec<Verification<'a>>,
    joined: Vec<JoinVerification<'a>>,
}

/// The comparison with a joined head, for `--json`.
#[derive(Serialize)]
struct JoinVerification<'a> {
    status: &'static str,
    #[serde(flatten)]
    report: &'a JoinReport,
    message: String,
}

/// Verifies the chain of every writer, with the checkpoint of each that was kept.
fn verify_writers(reader: &Reader, verify: &Verify, config: &Config, json: bool) -> Result<Exit> {
    if verify.mark.is_some() {
        let message = "`--mark` does not name one of the writers; use a checkpoint with `--since`";
        return Err(UsageError(message.to_owned()).into());
    }
    let reader = reader.clone().with_key_files(verify.writer_key.iter().map(PathBuf::as_path))?;
    let kept = verify.since.as_ref().map(|checkpoints| checkpoints.all.as_slice()).unwrap_or_default();
    let checkpoints = reader.checkpoints(moment::now())?;
    let joined = reader.joined_head(moment::now())?;
    let reports = reader.verify_all(kept)?;
    let joins = verify_joined(&reader, verify)?;
    let verified = |report| {
        let unchecked = unchecked_parts(&reader, verify, report);
        let exit = exit_of(report, &unchecked);
        let checkpoint = checkpoints.iter().find(|checkpoint| checkpoint.log == report.log && exit == Exit::Ok);
        Verification {
            status: if exit == Exit::Ok { "ok" } else { exit.kind() },
            message: report.finding.as_ref().map(ToString::to_string),
            unchecked,
            key_beside_log: false,
            mark: None,
            checkpoint: checkpoint.copied(),
            report,
        }
    };
    let writers: Vec<Verification<'_>> = reports.iter().map(verified).collect();
    let of_writers = writers.iter().map(|writer| exit_of(writer.report, &writer.unchecked));
    let exits: Vec<Exit> = of_writers.chain(joins.iter().map(join_exit)).collect();
    let worst = [Exit::Tampered, Exit::Unverified].into_iter().find(|exit| exits.contains(exit));
    let exit = worst.unwrap_or(Exit::Ok);
    if json {
        let status = if exit == Exit::Ok { "ok" } else { exit.kind() };
        let joined = joins.iter().map(|report| {
            let exit = join_exit(report);
            let status = if exit == Exit::Ok { "ok" } else { exit.kind() };
            JoinVerification { status, report, message: report.to_string() }
        });
        render::json(&Verifications { status, writers, joined: joined.collect() })?;
        return Ok(exit);
    }
    if writers.is_empty() {
        render::note("this log is empty");
    }
    for writer in &writers {
        render::line(&format!("writer {}", styled(render::STRONG, &writer.report.log.to_string())))?;
        print_report(writer, verify, config)?;
    }
    for report in &joins {
        let message = render::quotation::one_line(&report.to_string());
        match join_exit(report) {
            // It compares the ends of the chains only, and rows before an end are missing or changed.
            Exit::Ok if exit == Exit::Tampered => render::line("the ends of all chains match the joined head")?,
            Exit::Ok => render::line(&message)?,
            Exit::Tampered => render::line(&format!("{} {message}", styled(BAD, "not in order:")))?,
            _ => render::line(&format!("{} {message}", styled(BAD, "not verified:")))?,
        }
    }
    match joined {
        Some(joined) if exit == Exit::Ok => render::line(&format!("joined head to keep elsewhere: {joined}"))?,
        _ => {}
    }
    Ok(exit)
}

/// Compares the log with the joined heads that were kept. Returns those with a finding, and the newest.
fn verify_joined(reader: &Reader, verify: &Verify) -> Result<Vec<JoinReport>> {
    let kept = verify.since.as_ref().map(|kept| kept.joined.as_slice()).unwrap_or_default();
    let newest = kept.iter().max_by_key(|joined| joined.position);
    let mut reports = Vec::new();
    for joined in kept {
        let report = reader.verify_joined(joined)?;
        reports.extend(report.filter(|report| report.finding.is_some() || Some(joined) == newest));
    }
    Ok(reports)
}

fn join_exit(report: &JoinReport) -> Exit {
    match (report.finding, report.continuity) {
        (Some(_), _) => Exit::Tampered,
        (None, Some(Continuity::Proven)) => Exit::Ok,
        (None, _) => Exit::Unverified,
    }
}

fn exit_of(report: &Report, unchecked: &[String]) -> Exit {
    match &report.finding {
        Some(_) => Exit::Tampered,
        None if unchecked.is_empty() => Exit::Ok,
        None => Exit::Unverified,
    }
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
            let what = format!("{rows} rows are in order; nothing else could be verified");
            render::line(&format!("{} {what}", styled(BAD, "not verified:")))?;
        }
    }
    unchecked.iter().try_for_each(|what| render::line(&render::quotation::one_line(what)))?;
    if report.pruned_up_to > 0 {
        render::line(&format!("retention removed rows up to {}", report.pruned_up_to))?;
        if log_place::retention(config, moment::now()).is_empty() {
            render::warning("the configuration keeps all records, but old records were removed with other settings");
        }
    }
    if report.seals_checked {
        render::line(&format!("sealed up to row {}", report.sealed_up_to))?;
        if report.sealed_up_to < report.last && message.is_none() {
            let first = report.sealed_up_to.saturating_add(1);
            let last = report.last;
            render::line(&format!(
                "rows {first} to {last} have no seal yet: anyone who can write to the log can change them"
            ))?;
        }
    } else if verify.without_key && message.is_none() {
        render::warning(
            "the seals were not checked (`--without-key`): rows and their hashes may have been rewritten, or old rows \
             removed",
        );
    }
    match (report.continuity, marked_row(verify, report)) {
        (Some(Continuity::Proven), Some(row)) if message.is_none() && verify.since.is_some() => {
            render::line(&format!("consistent with the checkpoint: nothing up to row {row} was changed or removed"))?;
        }
        _ => {}
    }
    checkpoint.map_or(Ok(()), |checkpoint| render::line(&format!("checkpoint to keep elsewhere: {checkpoint}")))
}

/// Warns that the key lies beside the log: seals protect only against those who cannot read the key.
fn warn_about_key(place: &LogPlace, verify: &Verify) {
    let key = format!("{place}.key");
    let advice = match verify.since {
        Some(_) => "only a checkpoint, such as the given one, reveals that",
        None => "keep checkpoints elsewhere (`fumehood log head`), and verify against them (`--since`)",
    };
    render::warning(&render::quotation::one_line(&format!(
        "the key {key} is next to the log: anyone who can write to both can rewrite and reseal the log. Keep the key \
         where tools and other users cannot write ([log] `key`, or `--log-key FILE`); {advice}"
    )));
}
