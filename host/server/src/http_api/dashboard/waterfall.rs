//! Waterfalls: the records of a session as spans over time, each below what caused it. Between the runs of a session people take
//! their time, so that bars are drawn over the time of their own run.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use fumehood_core::text::untrusted::PrintableText;

use super::charts::format_ms;
use super::pages::call_path;
use super::ports::TimelineRecord;

/// Width of the picture of a span.
const WIDTH: u64 = 400;
/// Maximum depth that is indented.
const MAX_DEPTH: usize = 8;

/// A step of a waterfall: a record, with its end if it has one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) tool: Option<PrintableText>,
    /// The id of its call, if that has a page.
    pub(crate) call: Option<String>,
    /// A short form of that id; `None`: there is no log to look in.
    pub(crate) short_call: Option<PrintableText>,
    pub(crate) status: Option<PrintableText>,
    pub(crate) depth: usize,
    /// Time since the beginning, as text.
    pub(crate) after: String,
    /// Duration, as text; empty for a moment.
    pub(crate) took: String,
    /// Position and length of its bar.
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) body: PrintableText,
}

impl Span {
    /// Returns the path of the page of its call.
    pub(crate) fn href(&self) -> Option<String> {
        self.call.as_deref().map(call_path)
    }
}

/// Returns the kind of record that ends what a record of this kind begins.
fn ends(kind: &str) -> &'static [&'static str] {
    match kind {
        "session_started" => &["session_finished"],
        "model_asked" => &["model_answered", "model_failed"],
        "tool_started" => &["tool_finished"],
        _ => &[],
    }
}

/// Returns the spans of records, in the order of their beginnings. The end of a span is part of it, and no step of its own.
pub(crate) fn spans(records: &[TimelineRecord]) -> Vec<Span> {
    let by_id: HashMap<&str, &TimelineRecord> = records.iter().map(|record| (record.id.as_str(), record)).collect();
    let Some(beginning) = records.iter().map(|record| record.at_ms).min() else { return Vec::new() };
    let ranges = ranges(records);
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let mut spans = Vec::new();
    for (at, record) in records.iter().enumerate() {
        if used.contains(&at) {
            continue;
        }
        let mut later = records.iter().enumerate().skip(at + 1);
        let end = later.find(|(at, end)| !used.contains(at) && is_end(record, end));
        used.extend(end.map(|(at, _)| at));
        let end = end.map(|(_, end)| end);
        let duration = end.map(|end| end.at_ms.saturating_sub(record.at_ms));
        let (first, range) = ranges.get(at).copied().unwrap_or((beginning, 1));
        let x = record.at_ms.saturating_sub(first) * WIDTH / range;
        let width = duration.unwrap_or(0) * WIDTH / range;
        spans.push(Span {
            name: record.kind.replace('_', " ").replace(" started", "").replace("model asked", "model"),
            tool: record.tool.clone(),
            call: record.call.clone().filter(|_| matches!(record.kind, "tool_started" | "tool_rejected")),
            short_call: None,
            status: end.and_then(|end| end.status.as_ref()).or(record.status.as_ref()).map(to_words),
            depth: depth(record, &by_id),
            after: format_time(record.at_ms.saturating_sub(beginning)),
            took: duration.map(format_time).unwrap_or_default(),
            x: x.min(WIDTH - 3),
            width: width.max(3),
            body: record.body.clone(),
        });
    }
    spans
}

/// Returns whether a later record ends the span that a record begins.
fn is_end(record: &TimelineRecord, end: &TimelineRecord) -> bool {
    let same_call = record.call.is_some() && end.call == record.call;
    let is_whole = record.kind == "session_started";
    let same_cause = end.parent.as_deref() == Some(&record.id);
    ends(record.kind).contains(&end.kind) && (is_whole || same_call || same_cause)
}

/// Returns the beginning and the duration of each record's run, in milliseconds. A run begins with a record of its own.
fn ranges(records: &[TimelineRecord]) -> Vec<(u64, u64)> {
    let is_in_same_run = |_: &TimelineRecord, next: &TimelineRecord| next.kind != "session_started";
    let runs = records.chunk_by(is_in_same_run).flat_map(|run| {
        let times = || run.iter().filter(|record| record.parent.is_some() || record.kind == "session_started");
        let first = times().map(|record| record.at_ms).min().unwrap_or_default();
        let last = times().map(|record| record.at_ms).max().unwrap_or_default();
        std::iter::repeat_n((first, last.saturating_sub(first).max(1)), run.len())
    });
    runs.collect()
}

fn format_time(millis: u64) -> String {
    format_ms(Duration::from_millis(millis).as_secs_f64() * 1e3)
}

/// Writes a status such as `waiting_for_approval` as words, which wrap.
fn to_words(status: &PrintableText) -> PrintableText {
    status.as_str().replace('_', " ").into()
}

/// Returns the records of calls, and those that led to them.
pub(crate) fn story(records: &[TimelineRecord], is_of_call: impl Fn(&TimelineRecord) -> bool) -> Vec<TimelineRecord> {
    let by_id: HashMap<&str, &TimelineRecord> = records.iter().map(|record| (record.id.as_str(), record)).collect();
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for record in records.iter().filter(|record| is_of_call(record)) {
        let mut next = Some(record);
        // Each id at most once, so that a circle in a forged log ends.
        while let Some(record) = next.filter(|record| wanted.insert(record.id.as_str())) {
            next = record.parent.as_deref().and_then(|parent| by_id.get(parent)).copied();
        }
    }
    records.iter().filter(|record| wanted.contains(record.id.as_str())).cloned().collect()
}

fn depth(record: &TimelineRecord, by_id: &HashMap<&str, &TimelineRecord>) -> usize {
    let mut depth = 0;
    let mut parent = record.parent.as_deref();
    while let Some(above) = parent.and_then(|parent| by_id.get(parent)).filter(|_| depth < MAX_DEPTH) {
        (depth, parent) = (depth + 1, above.parent.as_deref());
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unless_empty(text: &str) -> Option<String> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn record(id: &str, parent: &str, kind: &'static str, at_ms: u64, call: &str) -> TimelineRecord {
        TimelineRecord {
            id: id.to_owned(),
            parent: unless_empty(parent),
            session: "s".to_owned(),
            at_ms,
            kind,
            call: unless_empty(call),
            tool: None,
            status: None,
            body: PrintableText::default(),
        }
    }

    #[test]
    fn ends_are_part_of_their_spans() {
        let records = [
            record("1", "", "session_started", 100, ""),
            record("2", "1", "model_asked", 110, ""),
            record("3", "2", "model_answered", 140, ""),
            record("4", "3", "tool_started", 150, "c"),
            record("5", "4", "tool_finished", 190, "c"),
            record("6", "1", "session_finished", 200, ""),
        ];
        let spans = spans(&records);
        let seen: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.depth, span.took.as_str())).collect();
        assert_eq!(seen, [("session", 0, "100 ms"), ("model", 1, "30 ms"), ("tool", 3, "40 ms")]);
        assert_eq!((spans[2].x, spans[2].width), (200, 160));
    }

    #[test]
    fn bars_are_drawn_over_the_time_of_their_run() {
        let records = [
            record("1", "", "session_started", 0, ""),
            record("2", "1", "tool_started", 50, "c"),
            record("3", "2", "tool_finished", 100, "c"),
            record("4", "", "verdict", 40_000, ""),
            record("5", "", "session_started", 60_000, ""),
            record("6", "5", "tool_started", 60_000, "c"),
            record("7", "6", "tool_finished", 60_010, "c"),
        ];
        let seen: Vec<_> = spans(&records).into_iter().map(|span| (span.after, span.x, span.width)).collect();
        let expected = [("0 ms", 0, 3), ("50 ms", 200, 200), ("40.0 s", 397, 3), ("60.0 s", 0, 3), ("60.0 s", 0, 400)];
        assert_eq!(seen, expected.map(|(after, x, width)| (after.to_owned(), x, width)));
    }

    #[test]
    fn a_story_has_what_led_to_the_call() {
        let records = [
            record("1", "2", "user_message", 1, ""),
            record("2", "1", "model_asked", 2, ""),
            record("3", "2", "verdict", 3, "c"),
            record("4", "3", "tool_started", 4, "c"),
            record("5", "3", "tool_started", 5, "d"),
        ];
        let story = |call: &'static str| story(&records, move |record| record.call.as_deref() == Some(call));
        let ids: Vec<String> = story("c").into_iter().map(|record| record.id).collect();
        assert_eq!(ids, ["1", "2", "3", "4"]);
        assert!(story("x").is_empty());
    }
}
