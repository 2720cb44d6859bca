//! Everything that is printed. What a guest made is made printable first; colours go to terminals only.

mod inspection;
mod result;
mod schema;
pub(crate) mod table;

use std::io::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;

pub(crate) use inspection::inspection;
pub(crate) use result::{count, duration, event, result};

use crate::exit::Exit;

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
    ignore_closed_pipe(writeln!(anstream::stdout().lock(), "{text}"))
}

/// Bytes on standard output, as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    ignore_closed_pipe(std::io::stdout().lock().write_all(bytes))
}

/// A value as JSON on standard output: indented for a terminal, one line for a pipe.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    ignore_closed_pipe(writeln!(std::io::stdout().lock(), "{text}"))
}

/// A line on standard error. There is nobody to tell if that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Something that a person should know and that changes nothing.
pub(crate) fn warning(text: &str) {
    note(&format!(
        "{} {}",
        styled(CAUTION, "warning:"),
        fumehood::sanitize::printable(text)
    ));
}

/// Why a command did not do what it was asked: the whole chain of causes, outermost first.
pub(crate) fn failure(error: &anyhow::Error, as_json: bool, exit: Exit) -> ExitCode {
    let mut causes = error
        .chain()
        .map(|cause| fumehood::sanitize::printable(&cause.to_string()).into_owned());
    let outermost = causes.next().unwrap_or_default();
    let mut because: Vec<String> = Vec::new();
    for cause in causes {
        // Some errors repeat their cause; say everything once.
        if !outermost.ends_with(&cause) && because.last() != Some(&cause) {
            because.push(cause);
        }
    }
    if as_json {
        let printed = json(&json!({"status": "error", "error": {"message": outermost, "causes": because}}));
        // The exit code says it too.
        drop(printed);
    } else {
        note(&format!("{} {outermost}", styled(BAD, "error:")));
        for cause in because {
            note(&format!("  because: {cause}"));
        }
    }
    exit.into()
}

/// Whoever reads may have seen enough: `fumehood inspect … | head` is no failure.
fn ignore_closed_pipe(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
