//! Everything that is printed. What a guest made is made printable first; colours go to terminals only.

mod annotations;
mod failure;
mod grants;
mod imports;
mod inspection;
pub(crate) mod paragraph;
pub(crate) mod quotation;
pub(crate) mod record;
mod result;
mod schema;
mod schema_rest;
mod standing;
pub(crate) mod table;

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, Result};
use fumehood::sanitize::printable_json;
use serde::Serialize;

pub(crate) use failure::{CALL_ID, FailureForm, failure};
pub(crate) use grants::readable as readable_grant;
pub(crate) use inspection::{Report, inspection};
pub(crate) use result::{count, duration, event, result};
pub(crate) use standing::{Origin, entry, standing};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();
const CAUTION: Style = AnsiColor::Yellow.on_default();

/// The text in this style.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A line on standard output.
pub(crate) fn line(text: &str) -> Result<()> {
    written(writeln!(anstream::stdout().lock(), "{text}"))
}

/// A piece of text on standard output, at once: more of its line may follow.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    let text = fumehood::sanitize::printable(text);
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// The beginning of a line on standard error that a person ends by typing.
pub(crate) fn prompt(text: &str) {
    let mut stderr = anstream::stderr().lock();
    // There is nobody to tell if that fails.
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Bytes on standard output, as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// A value as JSON on standard output: indented for a terminal, one line for a pipe.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// A value as one line of JSON on standard output, wherever that goes.
pub(crate) fn json_line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    bytes(format!("{}\n", printable_json(&text)).as_bytes())
}

/// A line on standard error. There is nobody to tell if that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Something that a person should know and that changes nothing.
pub(crate) fn warning(text: &str) {
    note(&format!("{} {}", styled(CAUTION, "warning:"), quotation::unbroken(&fumehood::sanitize::printable(text), 9)));
}

/// Whoever reads may have seen enough: `fumehood inspect … | head` is no failure.
fn written(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
