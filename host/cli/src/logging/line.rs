//! An event as one line of text, one line of JSON, or one entry of the journal.
//!
//! Names of servers, messages of other programs and paths of requests come from outside. Every text is bounded and
//! sanitized here, so no event can draw a line of its own, control a terminal, or hide a character.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use anstyle::{AnsiColor, Style};
use fumehood::sanitize::{printable, printable_json, truncate_str};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// Maximum size of a field's text, in bytes.
const MAX_FIELD_BYTES: usize = 2 << 10;
/// Maximum number of fields of a line.
const MAX_FIELDS: usize = 24;
/// Mark of a text that was cut off.
const CUT: char = '…';
/// Members that every line of JSON has, and the name of an event. A field of the same name gets a prefix.
const MEMBERS: [&str; 5] = ["timestamp", "level", "target", "event", "message"];
/// Prefix of the names of events that have none, as `tracing` makes them.
const UNNAMED: &str = "event ";
const FAINT: Style = Style::new().dimmed();

/// One line of the log.
#[derive(Debug)]
pub(super) struct Line {
    time: SystemTime,
    level: Level,
    target: String,
    /// The name of the event, if it has one.
    event: Option<&'static str>,
    message: String,
    fields: Vec<(String, Value)>,
}

impl Line {
    /// Creates the line of an event.
    pub(super) fn new(event: &Event<'_>, time: SystemTime) -> Self {
        let metadata = event.metadata();
        let name = metadata.name();
        let mut line = Self {
            time,
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            event: (!name.starts_with(UNNAMED)).then_some(name),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        line
    }

    /// Creates the line about lines that could not be written.
    pub(super) fn lost(count: u64, time: SystemTime) -> Self {
        let fields = vec![("lines".to_owned(), count.into())];
        let message = "lines of this log were lost, because they were not read in time".to_owned();
        let target = fumehood::log::SERVE.to_owned();
        Self { time, level: Level::WARN, target, event: Some("log.lost"), message, fields }
    }

    /// Adds the number of lines from the same place of the code that were suppressed.
    pub(super) fn suppressed(mut self, count: u64) -> Self {
        if count > 0 {
            self.fields.push(("suppressed".to_owned(), count.into()));
        }
        self
    }

    fn add(&mut self, field: &Field, value: Value) {
        if self.fields.len() < MAX_FIELDS {
            self.fields.push((field.name().to_owned(), value));
        }
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        if field.name() == "message" {
            self.message = cut(text, MAX_MESSAGE_BYTES);
        } else {
            self.add(field, Value::String(cut(text, MAX_FIELD_BYTES)));
        }
    }

    fn timestamp(&self) -> String {
        humantime::format_rfc3339_micros(self.time).to_string()
    }

    /// Returns the line for people, with styles.
    pub(super) fn to_pretty(&self) -> String {
        let style = match self.level {
            Level::ERROR => AnsiColor::Red.on_default(),
            Level::WARN => AnsiColor::Yellow.on_default(),
            Level::INFO => AnsiColor::Green.on_default(),
            _ => FAINT,
        };
        let time = self.timestamp();
        let level = self.level;
        let target = escape(&self.target);
        format!("{FAINT}{time}{FAINT:#} {style}{level:>5}{style:#} {FAINT}{target}:{FAINT:#} {}", self.text())
    }

    /// Returns the message and the fields.
    fn text(&self) -> String {
        let mut text = escape(&self.message);
        for (name, value) in &self.fields {
            // Writing to a string does not fail.
            let _ = write!(text, " {}=", escape(name));
            match value {
                Value::String(value) => push_value(&mut text, value),
                other => text.push_str(&other.to_string()),
            }
        }
        text
    }

    /// Returns the line as one JSON object.
    pub(super) fn to_json(&self) -> String {
        let mut members = Map::new();
        members.insert("timestamp".to_owned(), self.timestamp().into());
        members.insert("level".to_owned(), self.level.as_str().into());
        members.insert("target".to_owned(), self.target.clone().into());
        if let Some(event) = self.event {
            members.insert("event".to_owned(), event.into());
        }
        members.insert("message".to_owned(), self.message.clone().into());
        for (name, value) in &self.fields {
            let is_member = MEMBERS.contains(&name.as_str());
            members.insert(if is_member { format!("field.{name}") } else { name.clone() }, value.clone());
        }
        printable_json(&Value::Object(members).to_string()).into_owned()
    }

    /// Returns the line in the native protocol of the systemd journal.
    pub(super) fn to_journal_entry(&self) -> Vec<u8> {
        // syslog(3): error, warning, notice for what is usually shown, and debug.
        let priority = match self.level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            _ => "7",
        };
        let mut entry = Vec::new();
        push_journal_field(&mut entry, "MESSAGE", &self.text());
        push_journal_field(&mut entry, "PRIORITY", priority);
        push_journal_field(&mut entry, "SYSLOG_IDENTIFIER", "fumehood");
        push_journal_field(&mut entry, "FUMEHOOD_TARGET", &escape(&self.target));
        if let Some(event) = self.event {
            push_journal_field(&mut entry, "FUMEHOOD_EVENT", event);
        }
        for (name, value) in &self.fields {
            let name: String = name.chars().filter_map(to_journal_name_char).collect();
            let value = value.as_str().map_or_else(|| value.to_string(), escape);
            push_journal_field(&mut entry, &format!("FUMEHOOD_{name}"), &value);
        }
        entry
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, &format!("{value:?}"));
    }
}

fn cut(text: &str, max_bytes: usize) -> String {
    let kept = truncate_str(text, max_bytes);
    let mut kept_text = kept.to_owned();
    if kept.len() < text.len() {
        kept_text.push(CUT);
    }
    kept_text
}

/// Returns the text on one line, with every hidden character escaped.
fn escape(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Appends a value: quoted if it has characters that end a value.
fn push_value(out: &mut String, value: &str) {
    let is_word = |c: char| c.is_alphanumeric() || "-_.:/@+%~,;".contains(c);
    if !value.is_empty() && value.chars().all(is_word) {
        out.push_str(&escape(value));
        return;
    }
    out.push('"');
    out.push_str(&escape(&value.replace('\\', "\\\\").replace('"', "\\\"")));
    out.push('"');
}

/// Returns a character as names of the journal have it: capital letters, digits and underscores.
fn to_journal_name_char(c: char) -> Option<char> {
    match c {
        'a'..='z' => Some(c.to_ascii_uppercase()),
        'A'..='Z' | '0'..='9' => Some(c),
        '.' | '_' => Some('_'),
        _ => None,
    }
}

/// Appends a field. Values are on one line, so that the short form of the protocol is enough.
fn push_journal_field(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'=');
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use expect_test::expect;
    use tracing::Subscriber;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    /// A layer that keeps lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Line>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(Line::new(event, SystemTime::UNIX_EPOCH));
        }
    }

    /// Returns the line of the only event.
    fn line_of(emit: impl FnOnce()) -> Line {
        let lines = Lines::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), emit);
        lines.0.lock().unwrap().pop().unwrap()
    }

    fn hostile() -> Line {
        line_of(|| {
            let reason = "a\nb\u{1b}[2J \"c\" \u{202e}d\\";
            tracing::warn!(
                name: "worker.died", target: "fumehood::worker",
                { component = "notes", pid = 7_u32, reason, level = "no level" }, "a worker died\n{}", "\u{7}"
            );
        })
    }

    #[test]
    fn text_of_others_cannot_leave_its_line() {
        let pretty = anstream::adapter::strip_str(&hostile().to_pretty()).to_string();
        expect![[r#"1970-01-01T00:00:00.000000Z  WARN fumehood::worker: a worker died\n\u{7} component=notes pid=7 reason="a\nb\u{1b}[2J \"c\" \u{202e}d\\" level="no level""#]]
            .assert_eq(&pretty);
        let json = hostile().to_json();
        expect![[r#"{"timestamp":"1970-01-01T00:00:00.000000Z","level":"WARN","target":"fumehood::worker","event":"worker.died","message":"a worker died\n\u0007","component":"notes","pid":7,"reason":"a\nb\u001b[2J \"c\" \u202ed\\","field.level":"no level"}"#]]
            .assert_eq(&json);
        let entry = String::from_utf8(hostile().to_journal_entry()).unwrap();
        expect![[r#"
            MESSAGE=a worker died\n\u{7} component=notes pid=7 reason="a\nb\u{1b}[2J \"c\" \u{202e}d\\" level="no level"
            PRIORITY=4
            SYSLOG_IDENTIFIER=fumehood
            FUMEHOOD_TARGET=fumehood::worker
            FUMEHOOD_EVENT=worker.died
            FUMEHOOD_COMPONENT=notes
            FUMEHOOD_PID=7
            FUMEHOOD_REASON=a\nb\u{1b}[2J "c" \u{202e}d\
            FUMEHOOD_LEVEL=no level
        "#]]
        .assert_eq(&entry);
    }

    #[test]
    fn values_keep_their_types_and_are_bounded() {
        let long = "é".repeat(MAX_FIELD_BYTES);
        let line = line_of(|| {
            tracing::info!(number = -3, share = 0.5, yes = true, none = None::<&str>, text = long, "counted");
        });
        let line = line.suppressed(4);
        let json: Value = serde_json::from_str(&line.to_json()).unwrap();
        assert_eq!((&json["number"], &json["share"], &json["yes"]), (&(-3).into(), &0.5.into(), &true.into()));
        assert_eq!((&json["suppressed"], json.get("none"), json.get("event")), (&4.into(), None, None));
        let text = json["text"].as_str().unwrap();
        assert!(text.len() <= MAX_FIELD_BYTES + CUT.len_utf8() && text.ends_with("é…"), "{}", text.len());
    }
}
