//! `fumehood demo`: useful tools at work, hostile tools contained, a model that uses both, one table.

mod blocked;
mod script;
mod session;

use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, ColumnConstraint, Width};
use fumehood::limits::display_bytes;
use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};
use serde::Serialize;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::host;
use crate::hostile_env::HostileEnv;
use crate::isolation::Mode;
use crate::render::{self, paragraph, table};
use blocked::Attempt;
use script::{Act, Expected, Step};
use session::Session;

/// For tools that would never end: little enough that nobody waits long for them.
const SHORT: Duration = Duration::from_millis(100);
/// For all others: enough on a slow machine that is busy with something else.
const LONG: Duration = Duration::from_secs(5);
/// The longest answer that fits in the table.
const ANSWER: usize = 72;
/// On a screen narrower than this the table would be mostly wrapped text, so that it says less.
const ROOMY: usize = 110;
/// The longest answer there.
const NARROW_ANSWER: usize = 20;

/// One line of the demo, for programs.
#[derive(Serialize)]
struct Row<'a> {
    what: &'a str,
    as_expected: bool,
    #[serde(flatten)]
    came: StepOutcome<'a>,
}

/// What came of it.
#[derive(Serialize)]
#[serde(untagged)]
enum StepOutcome<'a> {
    /// A call.
    Call { call: &'a str, result: &'a CallResult },
    /// Something else, in words.
    Words { outcome: String },
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit> {
    let host = host::builder(arguments).resolver(HostileEnv::resolver()).build()?;
    let components = load(&host).await?;
    let mut results = Vec::new();
    for step in script::STEPS {
        let limits = Limits { deadline: step.deadline(), ..Limits::default() };
        let result = host.call(Call::new(step.tool, step.arguments).with_limits(limits)).await;
        results.push((step, result));
    }
    let blocked = blocked::play(&host, LONG).await?;
    let session = session::play(&host, hanging()?, SHORT).await?;
    host.shut_down(Duration::ZERO).await;
    let rows = rows(&results, &blocked, &session);
    if arguments.json {
        render::json(&rows.iter().flat_map(|(_, rows)| rows).collect::<Vec<_>>())?;
    } else {
        let calls = results.len() + blocked.len() + session.calls.len();
        // One component is loaded once more, with a shorter deadline.
        let is_isolated = arguments.isolation != Some(Mode::InProcess);
        show(&rows, calls, components + blocked::COMPONENTS.len() + 1, is_isolated)?;
    }
    let failed = rows.iter().flat_map(|(_, rows)| rows).filter(|row| !row.as_expected).count();
    let missing = session::calls().saturating_sub(session.calls.len());
    if failed + missing > 0 {
        render::note(&format!("{} of these did not end as they should have", failed + missing));
        return Ok(Exit::ToolFailed);
    }
    Ok(Exit::Ok)
}

/// Loads everything that the script calls, and says how many components that are.
async fn load(host: &Host) -> Result<usize> {
    let mut loads: Vec<_> = script::TOOLS.iter().map(|(name, bytes)| (*name, Load::bytes(*name, *bytes))).collect();
    for (name, text) in script::HOSTILE {
        loads.push((*name, Load::bytes(*name, assembled(name, text)?)));
    }
    let count = loads.len();
    host::load_all(host, "the tools", loads).await?;
    Ok(count)
}

fn assembled(name: &str, text: &str) -> Result<Vec<u8>> {
    wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))
}

/// The first hostile tool loops for ever.
fn hanging() -> Result<Vec<u8>> {
    let (name, text) = script::HOSTILE.first().context("the demo has no hostile tools")?;
    assembled(name, text)
}

/// Everything, under its headings.
fn rows<'a>(
    results: &'a [(&Step, CallResult)],
    blocked: &'a [Attempt],
    session: &'a Session,
) -> Vec<(String, Vec<Row<'a>>)> {
    let of = |act: Act| {
        let rows = results.iter().filter(|(step, _)| step.act == act);
        rows.map(|(step, result)| Row::of(step.what, result, step.expected.is_met_by(result))).collect()
    };
    let attempts = blocked.iter().map(|it| Row::of(it.what, &it.result, it.is_blocked)).collect();
    let mut turns: Vec<Row<'_>> =
        session.calls.iter().map(|(what, result, as_expected)| Row::of(what, result, *as_expected)).collect();
    turns.push(Row::told("answer", session.is_right, session.answer.clone()));
    let whole = session.whole.map_or_else(|| "not in order".to_owned(), |rows| format!("{rows} records in order"));
    let found = session.tampered.clone().unwrap_or_else(|| "nothing found".to_owned());
    let log = vec![
        Row::told("check the log of all that", session.whole.is_some(), whole),
        Row::told("make the 16 a 17 in a copy", session.tampered.is_some(), found),
    ];
    vec![
        ("Useful tools".to_owned(), of(Act::Useful)),
        ("Hostile tools".to_owned(), of(Act::Hostile)),
        ("Blocked attempts of tools that were granted a folder, a server and a secret".to_owned(), attempts),
        ("A scripted model: (3 + 5) * 2".to_owned(), turns),
        ("The event log".to_owned(), log),
    ]
}

impl<'a> Row<'a> {
    fn of(what: &'a str, result: &'a CallResult, as_expected: bool) -> Self {
        Self { what, as_expected, came: StepOutcome::Call { call: &result.tool, result } }
    }

    fn told(what: &'a str, as_expected: bool, outcome: String) -> Self {
        Self { what, as_expected, came: StepOutcome::Words { outcome } }
    }
}

fn show(rows: &[(String, Vec<Row<'_>>)], calls: usize, components: usize, is_isolated: bool) -> Result<()> {
    let headings = ["what it tried", "how it ended", "time", "deadline", "fuel", "peak memory"];
    let mut table = table::new(&headings, &[2, 3, 4, 5]);
    if let Some(endings) = table.column_mut(1) {
        // Room for the longest kind of error: descriptions of what was tried wrap better.
        endings.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(19)));
    }
    for (title, rows) in rows {
        table.add_row(vec![table::heading(title)]);
        for row in rows {
            table.add_row(cells(row));
        }
    }
    render::line(&table.to_string())?;
    let process = if is_isolated { "a process of its own" } else { "this process" };
    let memory = resident().map_or_else(String::new, |bytes| format!("; this process holds {}", display_bytes(bytes)));
    render::line(&format!(
        "{calls} calls of {components} components, each call in a fresh instance, each component in {process}{memory}."
    ))?;
    render::line("Next: `fumehood inspect FILE.wasm`, `fumehood call FILE.wasm TOOL '{…}'`, `fumehood run \"TASK\"`.")
}

fn cells(row: &Row<'_>) -> Vec<Cell> {
    let result = match &row.came {
        StepOutcome::Call { result, .. } => result,
        StepOutcome::Words { outcome } => {
            return vec![Cell::new(row.what), table::verdict(&within(outcome), row.as_expected)];
        }
    };
    let metadata = &result.metadata;
    let ran = !metadata.deadline.is_zero();
    let figure = |known: bool, text: String| Cell::new(if known { text } else { "–".to_owned() });
    vec![
        Cell::new(row.what),
        table::verdict(&ending(result), row.as_expected),
        figure(ran, render::duration(metadata.duration)),
        figure(ran, render::duration(metadata.deadline)),
        figure(metadata.fuel_used > 0, render::count(metadata.fuel_used)),
        figure(metadata.peak_memory > 0, display_bytes(metadata.peak_memory as u64)),
    ]
}

/// The answer, or the kind of error and, where there is room, its first line.
fn ending(result: &CallResult) -> String {
    match result.error() {
        Some(error) if is_narrow() => error.kind.to_string(),
        Some(error) => {
            // What the loop says before the schema gate's own words is the same each time.
            let message = blocked::by(result).unwrap_or(&error.message);
            let message = message.strip_prefix("arguments did not match schema\n").unwrap_or(message);
            within(&format!("{}: {message}", error.kind))
        }
        None => within(&result.text().unwrap_or("done".into())),
    }
}

fn is_narrow() -> bool {
    paragraph::width().is_some_and(|width| width < ROOMY)
}

/// As much of the first line as there is room for.
fn within(text: &str) -> String {
    let text = paragraph::one_line(text.lines().next().unwrap_or_default());
    let most = if is_narrow() { NARROW_ANSWER } else { ANSWER };
    match text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)) {
        // Between words, if there are any.
        Some(start) => format!("{} …", start.rsplit_once(' ').map_or(start, |(words, _)| words)),
        None => text,
    }
}

impl Step {
    const fn deadline(&self) -> Duration {
        match self.expected {
            Expected::Error(ErrorKind::Deadline) => SHORT,
            Expected::Answer(_) | Expected::Error(_) => LONG,
        }
    }
}

/// Bytes of memory that this process holds right now, where the system says so.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
