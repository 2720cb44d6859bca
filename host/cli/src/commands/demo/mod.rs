//! `fumehood demo`: calls useful and hostile tools, runs a scripted model with both, and prints one table.

mod blocked;
mod script;
mod session;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::Cell;
use fumehood::limits::display_bytes;
use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};
use serde::Serialize;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::host;
use crate::hostile_env::HostileEnv;
use crate::isolation::Mode;
use crate::render::{self, quotation, table};
use blocked::Attempt;
use script::{Expectation, Section, Step};
use session::SessionReport;

/// Deadline for tools that would never end, short so that the demo is.
const SHORT_DEADLINE: Duration = Duration::from_millis(100);
/// Deadline for all others, enough on a slow machine that is busy with something else.
const LONG_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum length of an answer in the table, in characters.
const MAX_ANSWER_CHARS: usize = 72;
/// Minimum width of a screen for the whole table, in cells. On a narrower one it would be mostly wrapped text, and
/// answers are cut shorter.
const MIN_WIDE_CELLS: usize = 110;
/// Maximum length of an answer on a narrow screen, in characters.
const MAX_NARROW_ANSWER_CHARS: usize = 20;

/// Places of a component that the last lines use, if it is there.
const EXAMPLES: [&str; 2] = ["calculator.wasm", "example-tools/dist/calculator.wasm"];

/// A row of the demo, also for `--json`.
#[derive(Serialize)]
struct Row<'a> {
    what: &'a str,
    as_expected: bool,
    #[serde(flatten)]
    outcome: StepOutcome<'a>,
}

/// The outcome of a row.
#[derive(Serialize)]
#[serde(untagged)]
enum StepOutcome<'a> {
    Call {
        call: &'a str,
        result: &'a CallResult,
    },
    /// Any other outcome, as text.
    Words {
        outcome: String,
    },
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit> {
    let host = host::builder(arguments).resolver(HostileEnv::resolver()).build()?;
    let components = load_components(&host).await?;
    let mut results = Vec::new();
    for step in script::STEPS {
        let limits = Limits::default().deadline(step.deadline());
        let result = host.call(Call::new(step.tool, step.arguments).limits(limits)).await;
        results.push((step, result));
    }
    let blocked = blocked::run_attempts(&host, LONG_DEADLINE).await?;
    let session = session::run_session(&host, endless_component()?, SHORT_DEADLINE).await?;
    host.shutdown(Duration::ZERO).await;
    let rows = rows(&results, &blocked, &session);
    if arguments.json {
        render::json(&rows.iter().flat_map(|(_, rows)| rows).collect::<Vec<_>>())?;
    } else {
        let calls = results.len() + blocked.len() + session.calls.len();
        // One component is loaded once more, with a shorter deadline.
        let is_isolated = arguments.isolation != Some(Mode::InProcess);
        print_table(&rows, calls, components + blocked::COMPONENTS.len() + 1, is_isolated)?;
    }
    let failed = rows.iter().flat_map(|(_, rows)| rows).filter(|row| !row.as_expected).count();
    let missing = session::expected_calls().saturating_sub(session.calls.len());
    if failed + missing > 0 {
        render::note(&format!("{} of these did not end as expected", failed + missing));
        return Ok(Exit::ToolFailed);
    }
    Ok(Exit::Ok)
}

/// Loads the components of the script, and returns their number.
async fn load_components(host: &Host) -> Result<usize> {
    let mut loads: Vec<_> = script::TOOLS.iter().map(|(name, bytes)| (*name, Load::bytes(*name, *bytes))).collect();
    for (name, text) in script::HOSTILE {
        loads.push((*name, Load::bytes(*name, parse_wat(name, text)?)));
    }
    let count = loads.len();
    host::load_all(host, "the tools", loads).await?;
    Ok(count)
}

fn parse_wat(name: &str, text: &str) -> Result<Vec<u8>> {
    wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))
}

/// Returns the first hostile component, which loops for ever.
fn endless_component() -> Result<Vec<u8>> {
    let (name, text) = script::HOSTILE.first().context("the demo has no hostile tools")?;
    parse_wat(name, text)
}

fn rows_of<'a>(section: Section, results: &'a [(&Step, CallResult)]) -> Vec<Row<'a>> {
    let rows = results.iter().filter(|(step, _)| step.section == section);
    rows.map(|(step, result)| Row::from_call(step.what, result, step.expected.is_met_by(result))).collect()
}

/// Returns all rows under their headings.
fn rows<'a>(
    results: &'a [(&Step, CallResult)],
    blocked: &'a [Attempt],
    session: &'a SessionReport,
) -> Vec<(String, Vec<Row<'a>>)> {
    let attempts = blocked.iter().map(|it| Row::from_call(it.what, &it.result, it.is_blocked)).collect();
    let mut turns: Vec<Row<'_>> =
        session.calls.iter().map(|(what, result, as_expected)| Row::from_call(what, result, *as_expected)).collect();
    turns.push(Row::from_text("answer", session.is_right, session.answer.clone()));
    let whole =
        session.verified_rows.map_or_else(|| "not in order".to_owned(), |rows| format!("{rows} records in order"));
    let found = session.finding.clone().unwrap_or_else(|| "nothing found".to_owned());
    let log = vec![
        Row::from_text("verify the log", session.verified_rows.is_some(), whole),
        Row::from_text("change the 16 to 17 in a copy", session.finding.is_some(), found),
    ];
    vec![
        ("Useful tools".to_owned(), rows_of(Section::Useful, results)),
        ("Hostile tools".to_owned(), rows_of(Section::Hostile, results)),
        ("Attempts beyond the grants".to_owned(), attempts),
        ("A scripted model: (3 + 5) * 2".to_owned(), turns),
        ("The event log".to_owned(), log),
    ]
}

impl<'a> Row<'a> {
    fn from_call(what: &'a str, result: &'a CallResult, as_expected: bool) -> Self {
        Self { what, as_expected, outcome: StepOutcome::Call { call: &result.tool, result } }
    }

    fn from_text(what: &'a str, as_expected: bool, outcome: String) -> Self {
        Self { what, as_expected, outcome: StepOutcome::Words { outcome } }
    }
}

fn print_table(rows: &[(String, Vec<Row<'_>>)], calls: usize, components: usize, is_isolated: bool) -> Result<()> {
    let headings = ["call", "outcome", "time", "deadline", "fuel", "peak memory"];
    let mut table = table::new(&headings, &[2, 3, 4, 5]);
    for (title, rows) in rows {
        table.add_row(vec![table::heading(title)]);
        for row in rows {
            table.add_row(row_cells(row));
        }
    }
    table::print(table, 0, &[3, 4, 5])?;
    let process = if is_isolated { "a separate process" } else { "this process" };
    let memory =
        resident_bytes().map_or_else(String::new, |bytes| format!("; this process uses {}", display_bytes(bytes)));
    render::footer(&format!(
        "{calls} calls of {components} components; each call in a fresh instance, each component in {process}{memory}."
    ))?;
    render::line("Next:")?;
    next_commands().iter().try_for_each(|command| render::line(&format!("  {command}")))
}

/// Returns three commands that work in this folder, for this program as it was started.
fn next_commands() -> [String; 3] {
    let started = std::env::args().next().filter(|program| program.contains('/') && !program.contains(' '));
    let program = started.unwrap_or_else(|| "fumehood".to_owned());
    match EXAMPLES.iter().find(|file| Path::new(file).exists()) {
        Some(file) => [
            format!("{program} inspect {file}"),
            format!("{program} call {file} add a=3 b=5"),
            format!("{program} selftest"),
        ],
        None => [format!("{program} selftest"), format!("{program} new hello"), format!("{program} --help")],
    }
}

fn row_cells(row: &Row<'_>) -> Vec<Cell> {
    let result = match &row.outcome {
        StepOutcome::Call { result, .. } => result,
        StepOutcome::Words { outcome } => {
            return vec![Cell::new(row.what), table::verdict(&truncate_line(outcome), row.as_expected)];
        }
    };
    let metadata = &result.metadata;
    let ran = !metadata.deadline.is_zero();
    vec![
        Cell::new(row.what),
        table::verdict(&describe_outcome(result), row.as_expected),
        figure(ran, render::format_duration(metadata.duration)),
        figure(ran, render::format_duration(metadata.deadline)),
        figure(metadata.fuel_used > 0, fumehood::limits::display_count(metadata.fuel_used)),
        figure(metadata.peak_memory > 0, display_bytes(metadata.peak_memory as u64)),
    ]
}

fn figure(is_known: bool, text: String) -> Cell {
    Cell::new(if is_known { text } else { "–".to_owned() })
}

/// Returns the answer, or the kind of error and, on a wide screen, its first line.
fn describe_outcome(result: &CallResult) -> String {
    match result.error() {
        Some(error) if is_narrow() => error.kind.to_string(),
        Some(error) => {
            // Every schema error begins with the same line, which is left out.
            let message = blocked::refusal_reason(result).unwrap_or(&error.message);
            let message = message.strip_prefix("arguments did not match schema\n").unwrap_or(message);
            truncate_line(&format!("{}: {message}", error.kind))
        }
        None => truncate_line(&result.text().unwrap_or("done".into())),
    }
}

fn is_narrow() -> bool {
    quotation::screen_width().is_some_and(|width| width < MIN_WIDE_CELLS)
}

/// Truncates a text to the part of its first line that fits in the table.
fn truncate_line(text: &str) -> String {
    let text = quotation::one_line(text.lines().next().unwrap_or_default());
    let max_chars = if is_narrow() { MAX_NARROW_ANSWER_CHARS } else { MAX_ANSWER_CHARS };
    match text.char_indices().nth(max_chars).and_then(|(end, _)| text.get(..end)) {
        // Between words if possible.
        Some(start) => format!("{} …", start.rsplit_once(' ').map_or(start, |(words, _)| words)),
        None => text,
    }
}

impl Step {
    const fn deadline(&self) -> Duration {
        match self.expected {
            Expectation::Error(ErrorKind::Deadline) => SHORT_DEADLINE,
            Expectation::Answer(_) | Expectation::Error(_) => LONG_DEADLINE,
        }
    }
}

/// Returns the resident memory of this process, in bytes; `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
