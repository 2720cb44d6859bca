//! `fumehood demo`: useful tools at work, hostile tools contained, one table.

mod script;

use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, ColumnConstraint, Width};
use fumehood::limits::display_bytes;
use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};
use serde::Serialize;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::host;
use crate::render::{self, paragraph, table};
use script::{Act, Expected, Step};

/// For tools that would never end: little enough that nobody waits long for them.
const SHORT: Duration = Duration::from_millis(250);
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
struct Row {
    what: &'static str,
    call: &'static str,
    as_expected: bool,
    result: CallResult,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit> {
    let host = host::builder(arguments).build()?;
    let components = load(&host).await?;
    let mut results = Vec::new();
    for step in script::STEPS {
        let limits = Limits { deadline: step.deadline(), ..Limits::default() };
        let result = host.call(Call::new(step.tool, step.arguments).with_limits(limits)).await;
        results.push((step, result));
    }
    host.shut_down(Duration::ZERO).await;
    let failed = results.iter().filter(|(step, result)| !step.is_as_expected(result)).count();
    if arguments.json {
        let row = |(step, result): &(&'static Step, CallResult)| Row {
            what: step.what,
            call: step.tool,
            as_expected: step.is_as_expected(result),
            result: result.clone(),
        };
        render::json(&results.iter().map(row).collect::<Vec<_>>())?;
    } else {
        show(&results, components)?;
    }
    if failed > 0 {
        render::note(&format!("{failed} of the calls did not end as they should have"));
        return Ok(Exit::ToolFailed);
    }
    Ok(Exit::Ok)
}

/// Loads everything that the script calls, and says how many components that are.
async fn load(host: &Host) -> Result<usize> {
    for (name, bytes) in script::TOOLS {
        host::load(host, name, Load::bytes(*name, *bytes)).await?;
    }
    for (name, text) in script::HOSTILE {
        let bytes = wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))?;
        host::load(host, name, Load::bytes(*name, bytes)).await?;
    }
    Ok(script::TOOLS.len() + script::HOSTILE.len())
}

fn show(results: &[(&Step, CallResult)], components: usize) -> Result<()> {
    let headings = ["what it tried", "how it ended", "time", "deadline", "fuel", "peak memory"];
    let mut table = table::new(&headings, &[2, 3, 4, 5]);
    if let Some(endings) = table.column_mut(1) {
        // Room for the longest kind of error: descriptions of what was tried wrap better.
        endings.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(19)));
    }
    let acts = [(Act::Useful, "Useful tools"), (Act::Hostile, "Hostile tools")];
    for (act, title) in acts {
        table.add_row(vec![table::heading(title)]);
        for (step, result) in results.iter().filter(|(step, _)| step.act == act) {
            table.add_row(row(step, result));
        }
    }
    render::line(&table.to_string())?;
    let memory = resident().map_or_else(String::new, |bytes| format!(", which holds {}", display_bytes(bytes)));
    render::line(&format!(
        "{} calls of {components} components, each call in a fresh instance, all in this one process{memory}.",
        results.len()
    ))?;
    render::line("Next: `fumehood inspect FILE.wasm`, `fumehood call FILE.wasm TOOL '{…}'`.")
}

fn row(step: &Step, result: &CallResult) -> Vec<Cell> {
    let metadata = &result.metadata;
    let ran = !metadata.deadline.is_zero();
    let figure = |known: bool, text: String| Cell::new(if known { text } else { "–".to_owned() });
    vec![
        Cell::new(step.what),
        table::verdict(&ending(result), step.is_as_expected(result)),
        figure(ran, render::duration(metadata.duration)),
        figure(ran, render::duration(metadata.deadline)),
        figure(metadata.fuel_used > 0, render::count(metadata.fuel_used)),
        figure(metadata.peak_memory > 0, display_bytes(metadata.peak_memory as u64)),
    ]
}

/// The answer, or the kind of error and, where there is room, its first line.
fn ending(result: &CallResult) -> String {
    let is_narrow = paragraph::width().is_some_and(|width| width < ROOMY);
    let text = match result.error() {
        Some(error) if is_narrow => return error.kind.to_string(),
        Some(error) => format!("{}: {}", error.kind, error.message),
        None => result.text().unwrap_or("done").to_owned(),
    };
    let text = paragraph::one_line(text.lines().next().unwrap_or_default());
    let most = if is_narrow { NARROW_ANSWER } else { ANSWER };
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

    fn is_as_expected(&self, result: &CallResult) -> bool {
        match self.expected {
            Expected::Answer(text) => result.text().is_some_and(|answer| answer.contains(text)),
            Expected::Error(kind) => result.error().is_some_and(|error| error.kind == kind),
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
