//! Everything that is printed. What a guest made is made printable first; colours go to terminals only.

mod inspection;
pub(crate) mod paragraph;
pub(crate) mod record;
mod result;
mod schema;
mod standing;
pub(crate) mod table;

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, Result};
use fumehood::sanitize::is_hidden;
use serde::Serialize;

pub(crate) use inspection::{Report, inspection};
pub(crate) use result::{count, duration, event, result};
pub(crate) use standing::standing;

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

/// The same JSON, with what steers a terminal or hides from a reader escaped. Such characters can only be in strings,
/// but for line ends of a kind that JSON knows as white space.
pub(crate) fn printable_json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push(' '),
            c if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A line on standard error. There is nobody to tell if that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Something that a person should know and that changes nothing.
pub(crate) fn warning(text: &str) {
    note(&format!("{} {}", styled(CAUTION, "warning:"), fumehood::sanitize::printable(text)));
}

/// Why a command did not do what it was asked: the whole chain of causes, outermost first.
pub(crate) fn failure(error: &anyhow::Error, as_json: bool, exit: Exit) -> ExitCode {
    let (message, because) = causes(error);
    // If standard output is what broke, JSON cannot be printed either.
    let is_told = as_json && {
        let error = Cause { kind: exit.kind(), message: &message, because: &because };
        json(&Failure { status: "error", error }).is_ok()
    };
    if !is_told {
        note(&format!("{} {message}", styled(BAD, "error:")));
        for cause in because {
            note(&format!("  because: {cause}"));
        }
    }
    exit.into()
}

/// What went wrong, and why. Some errors repeat their cause; this says everything once.
fn causes(error: &anyhow::Error) -> (String, Vec<String>) {
    let mut causes = error.chain().map(|cause| paragraph::set_in(&cause.to_string(), "    "));
    let outermost = causes.next().unwrap_or_default();
    let mut because: Vec<String> = Vec::new();
    for cause in causes {
        if !outermost.ends_with(&cause) && because.last() != Some(&cause) {
            because.push(cause);
        }
    }
    (outermost, because)
}

/// What `--json` prints if there is no result at all.
#[derive(Serialize)]
struct Failure<'a> {
    status: &'static str,
    error: Cause<'a>,
}

#[derive(Serialize)]
struct Cause<'a> {
    kind: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    because: &'a [String],
}

/// Whoever reads may have seen enough: `fumehood inspect … | head` is no failure.
fn written(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_in_json_are_escaped_and_it_stays_the_same_value() {
        let check = |text: &str, expected: &str| {
            assert_eq!(printable_json(text), expected);
            let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(text), value(expected));
        };
        check("{\r\n\"a\": 1}", "{ \n\"a\": 1}");
        check("\"\u{9b}31m\"", r#""\u009b31m""#);
        check("\"\u{e0041}\"", r#""\udb40\udc41""#);
        check("\"plain ä\"", "\"plain ä\"");
    }
}
