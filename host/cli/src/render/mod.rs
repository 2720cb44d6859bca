//! Output for people and programs. Functions are named after their output.
//!
//! Text of guests is made printable first; colours go to terminals only.

mod approval;
mod component;
mod failure;
mod inspection;
mod manifest;
pub(crate) mod quotation;
pub(crate) mod record;
mod result;
mod schema;
mod styled_line;
pub(crate) mod table;
mod wishes;

use std::io::Write as _;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, Result};
use fumehood::sanitize::printable_json;
use serde::Serialize;

use crate::logging;

pub(crate) use approval::{Origin, approval, server_entry};
pub(crate) use component::{format_grant, powers};
pub(crate) use failure::{CALL_ID, FailureForm, failure};
pub(crate) use inspection::{Report, inspection};
pub(crate) use result::{ended_call, event, format_duration, result};
pub(crate) use schema::describe_schema;
pub(crate) use wishes::WishReport;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();
const CAUTION: Style = AnsiColor::Yellow.on_default();

/// All of them.
const STYLES: [Style; 5] = [GOOD, BAD, FAINT, STRONG, CAUTION];

/// Returns the text in this style.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line on standard output. What would end the line or control the terminal is written out.
pub(crate) fn line(text: &str) -> Result<()> {
    lines(&styled_line::to_line(text))
}

/// Prints a sentence below a table on standard output, wrapped between words if that is a terminal.
pub(crate) fn footer(text: &str) -> Result<()> {
    match fumehood_platform::terminal::stdout_columns() {
        Some(columns) => quotation::wrap(text, columns).iter().try_for_each(|row| line(row)),
        None => line(text),
    }
}

/// Prints text of one or several lines on standard output. The caller has made it printable.
pub(crate) fn lines(text: &str) -> Result<()> {
    ignore_broken_pipe(writeln!(anstream::stdout().lock(), "{text}"))
}

/// Prints a piece of text on standard output and flushes it: more of its line may follow.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    let text = fumehood::sanitize::printable(text);
    ignore_broken_pipe(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints a prompt on standard error. A failure is ignored, because there is nowhere to report it.
pub(crate) fn prompt(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Writes bytes to standard output as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    ignore_broken_pipe(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a value as JSON on standard output: indented for a terminal, one line for a pipe.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// Prints a value as one line of JSON on standard output, also on a terminal.
pub(crate) fn json_line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// Prints a line on standard error. What would end the line or control the terminal is written out. A failure is ignored,
/// because there is nowhere to report it.
///
/// In the log of a service that programs read, it is an event instead, so that every line has the same form.
pub(crate) fn note(text: &str) {
    if !logging::replaces_notices() {
        return note_lines(&styled_line::to_line(text));
    }
    let message = strip_str(text).to_string();
    if !message.is_empty() {
        tracing::info!(target: logging::NOTICE, "{message}");
    }
}

/// Like [`note`], unless the log of a service is read by programs: an event has told them.
pub(crate) fn note_of_event(text: &str) {
    if !logging::replaces_notices() {
        note(text);
    }
}

/// Prints a hint on standard error, wrapped between words if that is a terminal.
pub(crate) fn hint(text: &str) {
    match fumehood_platform::terminal::stderr_columns() {
        Some(columns) => quotation::wrap(text, columns).iter().for_each(|row| note(row)),
        None => note(text),
    }
}

/// Prints text of one or several lines on standard error. The caller has made it printable.
pub(crate) fn note_lines(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints a warning on standard error, about something that does not stop the command.
pub(crate) fn warning(text: &str) {
    if logging::replaces_notices() {
        let message = strip_str(text).to_string();
        return tracing::warn!(target: logging::NOTICE, "{message}");
    }
    note_lines(&format!(
        "{} {}",
        styled(CAUTION, "warning:"),
        quotation::wrap_for_stderr(&fumehood::sanitize::printable(text), 9)
    ));
}

/// Like [`warning`], unless the log of a service is read by programs: an event has told them.
pub(crate) fn warning_of_event(text: &str) {
    if !logging::replaces_notices() {
        warning(text);
    }
}

/// Ignores a broken pipe: in `fumehood inspect … | head`, the reader has seen enough, and that is no failure.
fn ignore_broken_pipe(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
