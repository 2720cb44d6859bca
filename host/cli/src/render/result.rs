//! Results and events of a call: the result on standard output, everything else on standard error.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;
use fumehood::limits::{display_bytes, display_count};
use fumehood::{
    CallError, CallResult, CapturedStream, Content, ErrorKind, Event, Level, Metadata, RequestReport, ResultForm,
};

use super::quotation::{Quotation, indent_continuations, one_line, wrap_for_stderr};
use super::{BAD, FAINT, GOOD, STRONG, bytes, line, lines, note, note_lines, styled};

/// Prints the result of a call: the parts that a model reads of it.
pub(crate) fn result(result: &CallResult, form: ResultForm) -> Result<()> {
    match result.outcome.as_ref().ok().and_then(|parts| form.for_model(parts)) {
        Some(parts) => print_result(&CallResult { outcome: Ok(parts), ..result.clone() }),
        None => print_result(result),
    }
}

fn print_result(result: &CallResult) -> Result<()> {
    print_captured("stdout", &result.metadata.stdout)?;
    print_captured("stderr", &result.metadata.stderr)?;
    if result.metadata.log_dropped > 0 {
        note(&styled(FAINT, &format!("{} bytes of log lines and progress were dropped", result.metadata.log_dropped)));
    }
    match &result.outcome {
        Ok(parts) => parts.iter().try_for_each(print_part)?,
        Err(failed) => print_error(failed, &result.metadata)?,
    }
    if result.metadata.sanitized > 0 {
        let count = result.metadata.sanitized;
        note(&styled(FAINT, &format!("{count} invisible or control characters from the tool are shown as escapes")));
    }
    // A call that was refused before it ran has no deadline and no cost.
    if !result.metadata.deadline.is_zero() {
        note(&styled(FAINT, &format_cost(&result.metadata)));
    }
    Ok(())
}

/// Prints on standard error that a call of a client has ended, with what its tool wrote and why it failed.
pub(crate) fn ended_call(result: &CallResult, elapsed: Duration) {
    let outcome = if result.is_ok() { styled(GOOD, "ok") } else { styled(BAD, "failed") };
    let cost = format!("{}, {} fuel", format_duration(elapsed), display_count(result.metadata.fuel_used));
    note(&format!("{} {outcome}  {}", one_line(&result.tool), styled(FAINT, &cost)));
    // There is nowhere to report a failure of standard error.
    let _ = print_captured("stdout", &result.metadata.stdout);
    let _ = print_captured("stderr", &result.metadata.stderr);
    if let Some(error) = result.error() {
        let _ = print_error(error, &result.metadata);
    }
}

/// Formats the duration, fuel and memory of a call.
fn format_cost(metadata: &Metadata) -> String {
    let time = format!("{} of {}", format_duration(metadata.duration), format_duration(metadata.deadline));
    // A tool of an MCP server runs outside of the sandbox, where neither is counted.
    if metadata.fuel_used == 0 && metadata.peak_memory == 0 {
        return time;
    }
    format!(
        "{time}, {} fuel, {} peak memory",
        display_count(metadata.fuel_used),
        display_bytes(metadata.peak_memory as u64)
    )
}

fn print_part(part: &Content) -> Result<()> {
    match part {
        Content::Text { text } => lines(&text.to_sanitized()),
        Content::Json { value } => lines(&value.to_sanitized()),
        Content::Blob { mime_type, data } if std::io::stdout().is_terminal() => {
            let size = display_bytes(data.len() as u64);
            line(&format!(
                "[{size} of {}; redirect standard output to a file to save them]",
                one_line(&mime_type.to_sanitized())
            ))
        }
        Content::Blob { data, .. } => bytes(data),
        Content::Link { uri, title, .. } => match title {
            Some(title) => line(&format!("{}: {}", one_line(&title.to_sanitized()), uri.to_sanitized_uri())),
            None => line(&uri.to_sanitized_uri()),
        },
    }
}

fn print_error(error: &CallError, metadata: &Metadata) -> Result<()> {
    let label = format!("error[{}]:", error.kind);
    let mut quotation = Quotation::for_stderr();
    if is_foreign(error, metadata) {
        quotation.write_styled(&format!("{label} "), BAD, &error.message)?
    } else {
        let message = wrap_for_stderr(&indent_continuations(&error.message, "  "), label.len() + 1);
        note_lines(&format!("{} {message}", styled(BAD, &label)));
    }
    error.backtrace.iter().try_for_each(|frame| quotation.write_styled("    at ", FAINT, &one_line(frame)))?;
    if let Some(hint) = &error.hint {
        note_lines(&format!("  hint: {}", wrap_for_stderr(&indent_continuations(hint, "    "), 8)));
    }
    if let Some(after) = error.retry_after {
        note(&format!("  hint: the tool suggests to retry after {}", format_duration(after)));
    }
    Ok(())
}

/// Returns whether an error message is, or may repeat, text of a tool or a server.
fn is_foreign(error: &CallError, metadata: &Metadata) -> bool {
    match error.kind {
        ErrorKind::ToolFailed | ErrorKind::Unavailable | ErrorKind::BadResult => true,
        // The host refuses before a tool runs; once it has used fuel, the message is the tool's.
        ErrorKind::InvalidArguments | ErrorKind::Denied | ErrorKind::Unauthorized | ErrorKind::Quota => {
            metadata.fuel_used > 0
        }
        _ => false,
    }
}

fn print_captured(name: &str, captured: &CapturedStream) -> Result<()> {
    let mut quotation = Quotation::for_stderr();
    if !captured.text.is_empty() {
        quotation.write_repeated(name, FAINT, &captured.text.to_sanitized())?;
    }
    if captured.dropped > 0 {
        note(&styled(FAINT, &format!("{name}: {} more bytes were dropped", captured.dropped)));
    }
    Ok(())
}

/// Prints a log line, progress or a request of a running call.
pub(crate) fn event(event: &Event) {
    // There is nowhere to report a failure of standard error.
    let _ = print_event(event, &mut Quotation::for_stderr());
}

fn print_event(event: &Event, quotation: &mut Quotation) -> Result<()> {
    match event {
        Event::Log { level, message, .. } => {
            let style = if *level >= Level::Warn { BAD } else { FAINT };
            quotation.write_styled(&format!("{}: ", level.as_str()), style, message)
        }
        Event::Progress { progress, .. } => {
            let percent =
                progress.fraction.map_or_else(|| " ".repeat(7), |fraction| format!("{:>4.0} % ", fraction * 100.0));
            // Parts of a result that arrive early have neither.
            if progress.fraction.is_some() || progress.message.is_some() {
                quotation.write_styled(&percent, STRONG, progress.message.as_deref().unwrap_or_default())?;
            }
            for part in &progress.partial {
                if let Content::Text { text } = part {
                    quotation.write_block(7, &text.to_sanitized())?;
                }
            }
            Ok(())
        }
        Event::Request { request, .. } => {
            let status = request.status.map_or_else(String::new, |status| format!(" {status}"));
            let reason = request.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
            let is_connection = request.method == RequestReport::CONNECTION;
            let method = if is_connection { String::new() } else { format!("{} ", request.method) };
            let label = if is_connection { "tcp:" } else { "http:" };
            let went = format!("{method}{}{status}{reason}", request.host);
            note_lines(&format!("{} {}", styled(FAINT, label), wrap_for_stderr(&one_line(&went), 6)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Formats a duration: `850 µs`, `12.3 ms`, `2.50 s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_formatted(micros: u64, expected: &str) {
        assert_eq!(format_duration(Duration::from_micros(micros)), expected)
    }

    #[test]
    fn formats_durations() {
        assert_formatted(7, "7 µs");
        assert_formatted(12_345, "12.3 ms");
        assert_formatted(2_500_000, "2.50 s");
    }
}
