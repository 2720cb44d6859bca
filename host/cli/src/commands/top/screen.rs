//! The screen of `fumehood top`: totals, outcomes of the last minute, and a row for each call.

use std::fmt::Write as _;

use fumehood::PrintableLine;
use fumehood::abbreviation::abbreviate;
use fumehood::limits::{display_bytes, display_count};
use fumehood::telemetry::{CallPhase, LiveCall, LiveSnapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, TableState};

/// Number of cells of a bar of the time until the deadline.
const BAR_CELLS: u16 = 20;

/// The columns: heading, width, and the width of a screen from which they are shown.
const COLUMNS: [(&str, Constraint, u16); 9] = [
    ("call", Constraint::Length(7), 90),
    ("tool", Constraint::Fill(3), 0),
    ("tenant", Constraint::Fill(1), 110),
    ("actor", Constraint::Fill(1), 110),
    ("phase", Constraint::Length(8), 0),
    ("until deadline", Constraint::Length(BAR_CELLS), 100),
    ("time", Constraint::Length(18), 0),
    ("fuel", Constraint::Length(9), 60),
    ("memory", Constraint::Length(10), 70),
];

/// The state of the screen.
pub(super) struct Screen {
    url: String,
    snapshot: LiveSnapshot,
    /// The text of the last line instead of the keys.
    message: Option<Message>,
    /// The reason why the snapshot is old.
    failure: Option<String>,
    /// The position of the selected call.
    selected: usize,
}

/// The text of the last line, until `y`, `n` or another question.
enum Message {
    /// Something that is to be known.
    Note(String),
    /// The question whether to stop a call.
    Question { id: String, tool: String },
}

impl Screen {
    pub(super) fn new(url: &str, snapshot: LiveSnapshot) -> Self {
        Self { url: PrintableLine::from(url).into(), snapshot, message: None, failure: None, selected: 0 }
    }

    /// Shows another state. The selected call stays selected, and a question about it stays.
    pub(super) fn update(&mut self, snapshot: LiveSnapshot) {
        let selected = self.snapshot.calls.get(self.selected).map(|call| call.id.as_str());
        let position = snapshot.calls.iter().position(|call| Some(call.id.as_str()) == selected);
        self.selected = position.unwrap_or(self.selected);
        (self.snapshot, self.failure) = (snapshot, None);
        self.select(0);
    }

    /// Says that the state is old.
    pub(super) fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Says something until the next key.
    pub(super) fn say(&mut self, what: String) {
        self.message = Some(Message::Note(what));
    }

    /// Moves the selection by some calls.
    pub(super) fn select(&mut self, by: isize) {
        let last = self.snapshot.calls.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Asks whether to stop the selected call.
    pub(super) fn ask(&mut self) {
        let selected = self.snapshot.calls.get(self.selected);
        self.message = selected.map(|call| Message::Question { id: call.id.clone(), tool: call.tool.clone() });
    }

    /// Takes back what the last line says. Returns the id of the call that it asks about, if it does.
    pub(super) fn take_question(&mut self) -> Option<String> {
        match self.message.take() {
            Some(Message::Question { id, .. }) => Some(id),
            Some(Message::Note(_)) | None => None,
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let areas: [_; 4] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [head, outcomes, list, foot] = areas;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(totals(&self.snapshot)).style(bold), head);
        frame.render_widget(Paragraph::new(outcomes_line(&self.snapshot)), outcomes);
        let width = frame.area().width;
        let rows = self.snapshot.calls.iter().map(|call| to_row(call, &self.snapshot, width));
        let columns = || COLUMNS.iter().filter(|(.., from)| width >= *from);
        let header = Row::new(columns().map(|(heading, ..)| *heading)).style(bold);
        let table = Table::new(rows, columns().map(|(_, width, _)| *width)).header(header);
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let selected = (!self.snapshot.calls.is_empty()).then_some(self.selected);
        frame.render_stateful_widget(table, list, &mut TableState::new().with_selected(selected));
        let red = Style::new().fg(Color::Red);
        let foot_line = match (&self.message, &self.failure) {
            (Some(Message::Question { id, tool }), _) => Line::styled(
                format!("stop {} ({})? y/n", PrintableLine::from(tool), short_id(id, &self.snapshot)),
                bold,
            ),
            (Some(Message::Note(text)), _) | (None, Some(text)) => {
                Line::styled(String::from(PrintableLine::from(text)), red)
            }
            (None, None) => Line::from(format!("{}   q quits, ↑ ↓ select, x stops the selected call", self.url)),
        };
        frame.render_widget(foot_line, foot);
    }
}

/// Formats a state as text, for a pipe.
pub(super) fn to_text(snapshot: &LiveSnapshot) -> String {
    let mut text = format!("{}\n{}", totals(snapshot), outcomes_line(snapshot));
    for call in &snapshot.calls {
        let cells = cells(call, snapshot);
        // Writing to a string does not fail.
        let _written = write!(text, "\n{}", cells.join("  "));
    }
    text
}

fn totals(snapshot: &LiveSnapshot) -> String {
    format!("{} running, {} waiting", snapshot.running, snapshot.waiting)
}

fn outcomes_line(snapshot: &LiveSnapshot) -> String {
    let outcomes: Vec<String> =
        snapshot.outcomes.iter().map(|(outcome, count)| format!("{} {count}", PrintableLine::from(outcome))).collect();
    let outcomes = if outcomes.is_empty() { "none".to_owned() } else { outcomes.join(", ") };
    format!("ended in the last minute: {outcomes}")
}

fn to_row(call: &LiveCall, snapshot: &LiveSnapshot, width: u16) -> Row<'static> {
    let is_late =
        call.deadline_ms.is_some_and(|deadline| call.elapsed_ms.saturating_mul(5) > deadline.saturating_mul(4));
    let colour = match call.phase {
        CallPhase::Waiting => Color::DarkGray,
        CallPhase::Running if is_late => Color::Yellow,
        CallPhase::Running => Color::Reset,
    };
    let cells = cells(call, snapshot).into_iter().zip(COLUMNS).filter(|(_, (.., from))| width >= *from);
    Row::new(cells.map(|(text, _)| text)).style(Style::new().fg(colour))
}

/// Returns the shortest prefix of an id of a call by which it differs from those of the others, made printable.
fn short_id(id: &str, snapshot: &LiveSnapshot) -> String {
    PrintableLine::from(abbreviate(id, snapshot.calls.iter().map(|call| call.id.as_str()))).into()
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}

/// Returns the cells of a call. Its names are those of a server, so they are made printable.
fn cells(call: &LiveCall, snapshot: &LiveSnapshot) -> [String; 9] {
    let unknown = || "–".to_owned();
    let (phase, time) = match (call.phase, call.deadline_ms) {
        (CallPhase::Waiting, _) => ("waiting", seconds(call.elapsed_ms)),
        (CallPhase::Running, Some(deadline)) => {
            ("running", format!("{} of {}", seconds(call.elapsed_ms), seconds(deadline)))
        }
        (CallPhase::Running, None) => ("running", seconds(call.elapsed_ms)),
    };
    [
        short_id(&call.id, snapshot),
        PrintableLine::from(&call.tool).into(),
        call.tenant.as_deref().map_or_else(unknown, |tenant| PrintableLine::from(tenant).into()),
        call.actor.as_deref().map_or_else(unknown, |actor| PrintableLine::from(actor).into()),
        phase.to_owned(),
        call.deadline_ms.map_or_else(String::new, |deadline| bar(call.elapsed_ms, deadline)),
        time,
        call.fuel.map_or_else(unknown, display_count),
        call.peak_memory.map_or_else(unknown, display_bytes),
    ]
}

/// Draws the part of the time until a deadline that has passed.
fn bar(elapsed: u64, deadline: u64) -> String {
    let whole = u64::from(BAR_CELLS);
    let filled = elapsed.saturating_mul(whole).checked_div(deadline).unwrap_or(whole).min(whole);
    repeat("█", filled) + &repeat("░", whole - filled)
}

fn repeat(symbol: &str, count: u64) -> String {
    symbol.repeat(usize::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn call(tool: &str, phase: CallPhase) -> LiveCall {
        let (deadline_ms, fuel, peak_memory) = match phase {
            CallPhase::Running => (Some(10_000), Some(123), Some(65_536)),
            CallPhase::Waiting => (None, None, None),
        };
        LiveCall {
            id: format!("h-{tool}"),
            model_call: None,
            tool: tool.to_owned(),
            tenant: Some("acme".to_owned()),
            actor: None,
            phase,
            elapsed_ms: 5_000,
            deadline_ms,
            fuel,
            peak_memory,
        }
    }

    fn snapshot(calls: Vec<LiveCall>) -> LiveSnapshot {
        let outcomes = BTreeMap::from([("ok".to_owned(), 12), ("deadline".to_owned(), 1)]);
        LiveSnapshot { calls, running: 1, waiting: 1, outcomes }
    }

    fn drawn(screen: &Screen) -> String {
        drawn_at(screen, 120)
    }

    fn drawn_at(screen: &Screen, columns: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, 8)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn shows_calls_with_bars_and_costs() {
        let calls = vec![call("spin__run", CallPhase::Running), call("echo__echo", CallPhase::Waiting)];
        let text = drawn(&Screen::new("http://127.0.0.1:1", snapshot(calls)));
        let totals = "1 running, 1 waiting";
        let outcomes = "deadline 1, ok 12";
        for part in [totals, outcomes, "spin__run", "acme", "5.0 s of 10.0 s", "123", "waiting", "q quits"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.contains(&("█".repeat(10) + &"░".repeat(10))), "{text}");
    }

    #[test]
    fn narrow_screens_have_fewer_columns_and_whole_names() {
        let screen = Screen::new("http://127.0.0.1:1", snapshot(vec![call("github-issues__list", CallPhase::Running)]));
        for (columns, bar, tenant) in [(60, false, false), (80, false, false), (100, true, false), (120, true, true)] {
            let text = drawn_at(&screen, columns);
            assert!(text.contains("github-issues__list") && text.contains("5.0 s of 10.0 s"), "{columns}:\n{text}");
            assert_eq!((text.contains('█'), text.contains("acme")), (bar, tenant), "{columns}:\n{text}");
        }
    }

    #[test]
    fn shows_a_failure_and_scrolls_to_the_selected_call() {
        let calls = (0..9).map(|number| call(&format!("a{number}__a"), CallPhase::Running)).collect();
        let mut screen = Screen::new("http://127.0.0.1:1", snapshot(calls));
        screen.fail("it is gone".to_owned());
        assert!(screen.take_question().is_none());
        screen.select(20);
        let text = drawn(&screen);
        assert!(text.contains("it is gone") && text.contains("a8__a") && !text.contains("a0__a"), "{text}");
        screen.update(snapshot(Vec::new()));
        assert!(!drawn(&screen).contains("it is gone"));
        screen.ask();
        assert!(screen.take_question().is_none(), "there is no call");
    }

    #[test]
    fn asks_about_the_selected_call_even_if_others_end() {
        let a = call("a__a", CallPhase::Running);
        let b = call("b__b", CallPhase::Running);
        let mut screen = Screen::new("http://127.0.0.1:1", snapshot(vec![a, b.clone()]));
        screen.select(1);
        screen.ask();
        screen.update(snapshot(vec![b]));
        assert!(drawn(&screen).contains("stop b__b (h-b__b)? y/n"), "{}", drawn(&screen));
        assert_eq!(screen.take_question().as_deref(), Some("h-b__b"));
        assert!(drawn(&screen).contains("q quits") && screen.take_question().is_none());
        screen.ask();
        assert_eq!(screen.take_question().as_deref(), Some("h-b__b"));
    }

    #[test]
    fn text_of_a_server_neither_controls_the_terminal_nor_draws_lines() {
        let evil = "a\u{1b}[2J\nb__b  running\r\u{2028}c";
        let mut hostile = call(evil, CallPhase::Running);
        (hostile.tenant, hostile.actor) = (Some(evil.to_owned()), Some(evil.to_owned()));
        let mut state = snapshot(vec![hostile]);
        state.outcomes.insert(evil.to_owned(), 1);
        let text = to_text(&state);
        assert!(!text.contains(['\u{1b}', '\r', '\u{2028}']), "{text}");
        assert_eq!(text.lines().count(), 3, "two lines of totals, and one of the call: {text}");
        let mut screen = Screen::new(evil, state);
        screen.fail(evil.to_owned());
        // The columns of tenant and actor are narrower than their texts.
        assert_eq!(drawn(&screen).matches("b__b").count(), 3, "each is in its cell: {}", drawn(&screen));
    }

    #[test]
    fn bars_are_never_longer_than_their_room() {
        for (elapsed, deadline) in [(0, 0), (5, 0), (20, 10), (u64::MAX, 1)] {
            assert_eq!(bar(elapsed, deadline).chars().count(), 20);
        }
    }
}
