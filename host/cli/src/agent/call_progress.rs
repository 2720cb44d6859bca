//! Progress of calls. At a terminal, each running call has a line with a clock that counts until the call has ended;
//! elsewhere, a line is printed at its start and one at its end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood::limits::display_bytes;
use fumehood::record::Record;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::Value;

use crate::logging;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, BAD, FAINT, GOOD, record, styled};

/// Interval at which clocks are drawn.
const TICK: Duration = Duration::from_millis(100);
/// Maximum length of arguments, and of the message of a running call, in characters.
const MAX_TEXT_CHARS: usize = 60;

/// The running calls. Clones share their state.
#[derive(Clone)]
pub(crate) struct CallProgress {
    bars: MultiProgress,
    live: bool,
    running: Arc<Mutex<BTreeMap<String, RunningCall>>>,
}

struct RunningCall {
    label: String,
    since: Instant,
    bar: Option<ProgressBar>,
}

/// A guard that suspends drawing, while a person types.
pub(crate) struct PausedDrawing<'a>(&'a CallProgress);

impl Drop for PausedDrawing<'_> {
    fn drop(&mut self) {
        if self.0.live {
            self.0.bars.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl CallProgress {
    /// Creates a display on standard error.
    pub(crate) fn new() -> Self {
        let live = std::io::stderr().is_terminal();
        let progress = Self::with_target(ProgressDrawTarget::stderr(), live);
        if live {
            logging::lift_many_bars(&progress.bars);
        }
        progress
    }

    fn with_target(target: ProgressDrawTarget, live: bool) -> Self {
        Self { bars: MultiProgress::with_draw_target(target), live, running: Arc::default() }
    }

    /// Adds a call that has started.
    pub(crate) fn add(&self, record: &Record, deadline: Duration) {
        let arguments = record.body.get("arguments").map(|given| record::truncate(&given.to_string(), MAX_TEXT_CHARS));
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        let label = arguments.map_or_else(|| tool.clone(), |arguments| format!("{tool} {arguments}"));
        let bar = self.live.then(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            bar.set_style(style(deadline));
            bar.set_prefix(label.clone());
            bar.enable_steady_tick(TICK);
            bar
        });
        if !self.live {
            render::note(&format!("{} {label}", styled(FAINT, "→")));
        }
        self.lock().insert(key(record), RunningCall { label, since: Instant::now(), bar });
    }

    /// Shows the progress of a running call.
    pub(crate) fn update(&self, record: &Record) {
        let message =
            record.body.get("message").and_then(Value::as_str).map(|text| record::truncate(text, MAX_TEXT_CHARS));
        let fraction = record.body.get("fraction").and_then(Value::as_f64);
        let percent = fraction.map(|fraction| format!("{:.0} %", fraction * 100.0));
        let news = [percent, message].into_iter().flatten().collect::<Vec<_>>().join(" ");
        match self.lock().get(&key(record)) {
            Some(RunningCall { bar: Some(bar), .. }) => bar.set_message(format!("  {news}")),
            Some(RunningCall { bar: None, label, .. }) if !news.is_empty() => {
                // A failure cannot be reported.
                let _ = Quotation::for_stderr().write_styled(&format!("  {label}: "), FAINT, &news);
            }
            _ => {}
        }
    }

    /// Ends a call, successful or not. Its line stays, with its duration.
    pub(crate) fn finish(&self, record: &Record) {
        let call = self.lock().remove(&key(record));
        let Some(RunningCall { label, since, bar }) = call else { return };
        if let Some(bar) = bar {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
        let duration = record::duration_of(&record.body).unwrap_or_else(|| since.elapsed());
        let status = record.status.as_deref().unwrap_or("?");
        let (sign, style) = if status == "ok" { ("✓", GOOD) } else { ("✗", BAD) };
        let outcome = if status == "ok" { size(&record.body) } else { one_line(status) };
        let figures = styled(FAINT, &format!("  {}", render::format_duration(duration)));
        self.print(&format!("{} {label} → {outcome}{figures}", styled(style, sign)));
    }

    /// Prints a line of the host above the lines of running calls, and below it text from outside, quoted behind the
    /// bar.
    pub(crate) fn print_quoted(&self, line: &str, text: &str) {
        self.bars.suspend(|| {
            render::note(line);
            // A failure cannot be reported.
            let _ = Quotation::for_stderr().write_block(4, text);
        });
    }

    /// Prints a line above the lines of running calls.
    pub(crate) fn print(&self, line: &str) {
        self.bars.suspend(|| render::note(line));
    }

    #[cfg(test)]
    fn running(&self) -> Vec<String> {
        self.lock().values().map(|call| call.label.clone()).collect()
    }

    /// Suspends drawing until the guard is dropped.
    pub(crate) fn pause(&self) -> PausedDrawing<'_> {
        if self.live {
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        PausedDrawing(self)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, RunningCall>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(record: &Record) -> String {
    record.call.clone().unwrap_or_default()
}

fn size(body: &Value) -> String {
    let bytes = body.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    format!("ok, {}", display_bytes(bytes))
}

fn style(deadline: Duration) -> ProgressStyle {
    let total = render::format_duration(deadline);
    let clock = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _unreportable = write!(out, "{:.1} s of {total}", state.elapsed().as_secs_f64());
    };
    ProgressStyle::with_template("{spinner} {prefix}  {clock}{msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .with_key("clock", clock)
}

#[cfg(test)]
mod tests {
    use fumehood::record::RecordKind;
    use fumehood::time::Timestamp;
    use serde_json::json;

    use super::*;

    /// A terminal that records everything that is drawn.
    #[derive(Debug, Clone, Default)]
    struct RecordingTerm(Arc<Mutex<String>>);

    impl indicatif::TermLike for RecordingTerm {
        fn width(&self) -> u16 {
            120
        }

        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            self.0.lock().unwrap().push('\n');
            Ok(())
        }

        fn clear_line(&self) -> std::io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn record(kind: RecordKind, body: Value) -> Record {
        Record {
            id: "r".to_owned(),
            parent: None,
            session: "s".to_owned(),
            at: Timestamp(0),
            kind,
            actor: None,
            tool: Some("slow__run".to_owned()),
            digest: None,
            call: Some("c".to_owned()),
            status: Some("ok".to_owned()),
            body,
        }
    }

    #[test]
    fn a_clock_counts_while_a_call_runs_and_is_gone_when_it_has_ended() {
        let term = RecordingTerm::default();
        let drawn = || term.0.lock().unwrap().clone();
        let progress = CallProgress::with_target(ProgressDrawTarget::term_like(Box::new(term.clone())), true);
        let started = record(RecordKind::ToolStarted, json!({"arguments": {"a": 1}}));
        progress.add(&started, Duration::from_secs(10));
        let begun = Instant::now();
        while !drawn().contains("0.3 s of 10.00 s") {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", drawn());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(drawn().contains("slow__run {\"a\":1}"), "{}", drawn());
        assert!(drawn().contains("0.1 s of 10.00 s"), "it counts: {}", drawn());
        progress.update(&record(RecordKind::ToolPartial, json!({"fraction": 0.5, "message": "half\u{1b}"})));
        while !drawn().contains("50 % half\\u{1b}") {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", drawn());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(progress.running(), ["slow__run {\"a\":1}"]);
        progress.finish(&record(RecordKind::ToolFinished, json!({"duration_ms": 300.0, "bytes": 3})));
        assert_eq!(progress.running(), [] as [String; 0]);
        let before = drawn().len();
        std::thread::sleep(TICK * 4);
        assert_eq!(drawn().len(), before, "nothing counts any more: {}", drawn());
    }
}
