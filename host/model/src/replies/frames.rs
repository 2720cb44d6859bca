//! Framing of events: server-sent events, or one JSON value on each line.

use std::borrow::Cow;

use serde_json::Value;

/// The framing of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    ServerSent,
    /// One JSON value on each line.
    Lines,
}

/// An event of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// The name; empty if there is none.
    pub(super) name: &'a str,
    pub(super) data: Cow<'a, str>,
}

/// Calls `take` with each event of a text that ends where an event does.
pub(super) fn for_each_event(framing: Framing, text: &str, mut take: impl FnMut(&Event<'_>)) {
    if framing == Framing::Lines {
        // A gateway may frame each line as a server-sent event.
        let lines = text.split(['\n', '\r']).map(|line| strip_field(line, "data:"));
        for line in lines.filter(|line| !line.trim().is_empty() && !is_other_field(line)) {
            take(&Event { name: "", data: Cow::Borrowed(line) });
        }
        return;
    }
    // Lines end with CR, LF or CRLF (HTML Standard, section 9.2.5). JSON has none of these within a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    };
    for block in text.split("\n\n") {
        if let Some(event) = parse_block(block) {
            take(&event);
        }
    }
}

/// Returns a text without the name of a field at its beginning.
fn strip_field<'a>(text: &'a str, field: &str) -> &'a str {
    text.trim_start().strip_prefix(field).map_or(text, str::trim)
}

/// Returns whether a line of a server-sent event has no data.
fn is_other_field(line: &str) -> bool {
    ["event:", "id:", "retry:", ":"].iter().any(|field| line.trim_start().starts_with(field))
}

/// Parses the lines of one event. A block of JSON alone is an event too: the whole reply, or an error, of a server that does
/// not stream.
fn parse_block(block: &str) -> Option<Event<'_>> {
    let mut name = "";
    let mut data: Option<Cow<'_, str>> = None;
    for line in block.lines() {
        let field = |field: &str| line.strip_prefix(field).map(str::trim);
        if let Some(found) = field("event:") {
            name = found;
        } else if let Some(more) = field("data:").map(|more| strip_field(more, "data:")) {
            data = Some(match data {
                None => Cow::Borrowed(more),
                Some(before) => Cow::Owned(format!("{before}\n{more}")),
            });
        }
    }
    let bare = || Some(Cow::Borrowed(block.trim())).filter(|block| block.starts_with(['{', '[']));
    let data = data.or_else(bare).filter(|data| !data.is_empty())?;
    Some(Event { name, data })
}

/// The events for the library.
#[derive(Debug)]
pub(super) struct Output {
    framing: Framing,
    text: String,
}

impl Output {
    /// Creates an output without events.
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, text: String::new() }
    }

    /// Writes an event whose data is JSON.
    pub(super) fn write_json(&mut self, name: &str, value: &Value) {
        self.write(name, &value.to_string());
    }

    /// Writes an event. An empty name is left out.
    pub(super) fn write(&mut self, name: &str, data: &str) {
        if self.framing == Framing::Lines {
            self.text.extend([data, "\n"]);
            return;
        }
        if !name.is_empty() {
            self.text.extend(["event: ", name, "\n"]);
        }
        for line in data.lines() {
            self.text.extend(["data: ", line, "\n"]);
        }
        self.text.push('\n');
    }

    /// Returns the bytes of all events.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(framing: Framing, text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for_each_event(framing, text, |event| found.push((event.name.to_owned(), event.data.clone().into_owned())));
        found
    }

    #[test]
    fn reads_events_with_any_ends_of_lines() {
        let expected = vec![(String::new(), "{}".to_owned()), ("ping".to_owned(), "{\n}".to_owned())];
        let text = ": wait\n\nid: 1\ndata:{}\n\nevent: ping\ndata: {\ndata: }\n\n";
        for end in ["\n", "\r\n", "\r"] {
            assert_eq!(events(Framing::ServerSent, &text.replace('\n', end)), expected, "{end:?}");
        }
        assert_eq!(events(Framing::ServerSent, "\u{feff}data: 1\n"), [(String::new(), "1".to_owned())]);
    }

    #[test]
    fn takes_json_without_a_frame_and_nothing_else() {
        let whole = vec![(String::new(), "{\n\"a\": 1}".to_owned())];
        assert_eq!(events(Framing::ServerSent, "\n\n{\n\"a\": 1}\n"), whole);
        assert_eq!(events(Framing::ServerSent, "<html>\n</html>\n\n"), []);
        let lines = vec![(String::new(), "{}".to_owned()), (String::new(), "x".to_owned())];
        assert_eq!(events(Framing::Lines, "{}\r\n\nx\n"), lines);
        assert_eq!(events(Framing::Lines, ": wait\nevent: x\ndata: {}\n\ndata:x\n\n"), lines);
        assert_eq!(events(Framing::ServerSent, "data: data: {}\n\ndata:data:x\n\n"), lines);
    }
}
