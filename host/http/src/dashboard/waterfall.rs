//! Waterfalls: the records of a session as spans over time, each below what caused it.

use std::collections::{BTreeSet, HashMap};

use fumehood_core::text::untrusted::PrintableText;

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
    /// The id of its call.
    pub(crate) call: Option<String>,
    pub(crate) status: Option<PrintableText>,
    pub(crate) depth: usize,
    /// Time since the beginning, in milliseconds.
    pub(crate) after_ms: u64,
    /// Duration, in milliseconds; `None` of a moment.
    pub(crate) duration_ms: Option<u64>,
    /// Position and length of its bar.
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) body: PrintableText,
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
    let (Some(first), Some(last)) =
        (records.iter().map(|record| record.at_ms).min(), records.iter().map(|record| record.at_ms).max())
    else {
        return Vec::new();
    };
    let range = last.saturating_sub(first).max(1);
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let mut spans = Vec::new();
    for (at, record) in records.iter().enumerate() {
        if used.contains(&at) {
            continue;
        }
        let is_end = |(_, end): &(usize, &TimelineRecord)| {
            let same_call = record.call.is_some() && end.call == record.call;
            let is_whole = record.kind == "session_started";
            let same_cause = end.parent.as_deref() == Some(&record.id);
            ends(record.kind).contains(&end.kind) && (is_whole || same_call || same_cause)
        };
        let end = records.iter().enumerate().skip(at + 1).find(|(at, end)| !used.contains(at) && is_end(&(*at, end)));
        used.extend(end.map(|(at, _)| at));
        let end = end.map(|(_, end)| end);
        let duration = end.map(|end| end.at_ms.saturating_sub(record.at_ms));
        let after = record.at_ms.saturating_sub(first);
        let (x, width) = (after * WIDTH / range, duration.unwrap_or(0) * WIDTH / range);
        spans.push(Span {
            name: record.kind.replace('_', " ").replace(" started", "").replace("model asked", "model"),
            tool: record.tool.clone(),
            call: record.call.clone(),
            status: end.and_then(|end| end.status.clone()).or_else(|| record.status.clone()),
            depth: depth(record, &by_id),
            after_ms: after,
            duration_ms: duration,
            x: x.min(WIDTH - 3),
            width: width.max(3),
            body: record.body.clone(),
        });
    }
    spans
}

/// Returns the records of a call, and those that led to it.
pub(crate) fn story(records: &[TimelineRecord], call: &str) -> Vec<TimelineRecord> {
    let by_id: HashMap<&str, &TimelineRecord> = records.iter().map(|record| (record.id.as_str(), record)).collect();
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for record in records.iter().filter(|record| record.call.as_deref() == Some(call)) {
        let mut next = Some(record);
        // Each id at most once, so that a circle in a forged log ends.
        while let Some(record) = next.filter(|record| wanted.insert(record.id.as_str())) {
            next = record.parent.as_deref().and_then(|parent| by_id.get(parent)).copied();
        }
    }
    records.iter().filter(|record| wanted.contains(record.id.as_str())).cloned().collect()
}

fn depth(record: &TimelineRecord, by_id: &HashMap<&str, &TimelineRecord>) -> usize {
    let (mut depth, mut parent) = (0, record.parent.as_deref());
    while let Some(above) = parent.and_then(|parent| by_id.get(parent)).filter(|_| depth < MAX_DEPTH) {
        (depth, parent) = (depth + 1, above.parent.as_deref());
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, parent: &str, kind: &'static str, at_ms: u64, call: &str) -> TimelineRecord {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        TimelineRecord {
            id: id.to_owned(),
            parent: some(parent),
            session: "s".to_owned(),
            at_ms,
            kind,
            call: some(call),
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
        let seen: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.depth, span.duration_ms)).collect();
        assert_eq!(seen, [("session", 0, Some(100)), ("model", 1, Some(30)), ("tool", 3, Some(40))]);
        assert_eq!((spans[2].x, spans[2].width), (200, 160));
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
        let ids: Vec<String> = story(&records, "c").into_iter().map(|record| record.id).collect();
        assert_eq!(ids, ["1", "2", "3", "4"]);
        assert!(story(&records, "x").is_empty());
    }
}
