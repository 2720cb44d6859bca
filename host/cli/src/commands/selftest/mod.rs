//! `fumehood selftest`: runs hostile tools beside an honest one on this machine, and reports whether each was
//! contained.

mod cases;
mod hooks;
mod neighbour;
mod programs;
mod rejected_components;
mod runner;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use comfy_table::Cell;
use fumehood::limits::display_bytes;
use fumehood::{Call, Host, Isolation, JailReport, Limits, Load};
use serde::Serialize;

use crate::args::{Arguments, Selftest};
use crate::exit::Exit;
use crate::host;
use crate::hostile_env::HostileEnv;
use crate::isolation::Mode;
use crate::plot::{self, Bar, Panel};
use crate::render::{self, table};
use neighbour::{CallStats, Neighbour, p99};
use runner::{Finding, ResourceUsage};

const CALCULATOR: &[u8] = include_bytes!("../../../../../example-tools/dist/calculator.wasm");
/// Number of calls of the honest tool without attacks.
const BASELINE_CALLS: u32 = 200;
/// Maximum duration of a shutdown with endless calls.
const MAX_SHUTDOWN_TIME: Duration = Duration::from_secs(2);
/// Number of endless calls during the shutdown.
const ENDLESS_CALLS: usize = 4;
/// Maximum number of descriptors, and of threads, that may be left: some are kept once for the next host.
const MAX_LEFTOVERS: usize = 8;
/// Time for the threads of a dropped host to end.
const THREAD_EXIT_TIME: Duration = Duration::from_millis(100);
/// Maximum time for descriptors and threads to be released.
const MAX_RELEASE_TIME: Duration = Duration::from_secs(2);

/// The report of all modes of isolation, for `--json`.
#[derive(Serialize)]
struct Report {
    modes: Vec<ModeReport>,
}

/// The report of one mode of isolation.
#[derive(Serialize)]
struct ModeReport {
    /// Name of the mode, as in `--isolation`.
    isolation: &'static str,
    /// Layers of the jail that the kernel lacks; empty if none, or if there are no worker processes.
    jail_lacks: &'static str,
    cases: Vec<Finding>,
    summary: Summary,
}

/// The totals of all cases of a mode.
#[derive(Serialize)]
struct Summary {
    contained: usize,
    cases: usize,
    attempts: usize,
    overshoot_p99_ms: f64,
    overshoot_max_ms: f64,
    /// Maximum growth of this process during one case, in bytes.
    growth_max: u64,
    /// Number of calls of the honest tool during the attacks.
    honest_calls: usize,
    honest_wrong: usize,
    honest_p99_ms: f64,
    honest_alone_p99_ms: f64,
    ended_in_ms: f64,
    /// Number of descriptors that were left open after the host was dropped.
    descriptors_left: usize,
    /// Number of threads that were left running.
    threads_left: usize,
    /// Violations apart from those of the cases.
    wrong: Vec<String>,
}

pub(crate) async fn run(arguments: &Arguments, selftest: &Selftest) -> Result<Exit> {
    let modes = arguments.isolation.map_or_else(|| vec![Mode::InProcess, Mode::Process], |mode| vec![mode]);
    let mut report = Report { modes: Vec::new() };
    for mode in modes {
        let found = run_mode(arguments, mode).await?;
        if !arguments.json {
            print_report(&found)?;
        }
        report.modes.push(found);
    }
    if arguments.json {
        render::json(&report)?;
    }
    if let Some(file) = &selftest.plot {
        plot::write(file, "Containment on this machine", &panels(&report.modes))?;
    }
    Ok(if report.modes.iter().all(ModeReport::is_contained) { Exit::Ok } else { Exit::ToolFailed })
}

/// Runs every case in one mode.
async fn run_mode(arguments: &Arguments, mode: Mode) -> Result<ModeReport> {
    let before = baseline_usage(arguments).await?;
    let env = HostileEnv::prepare().await?;
    let host = Arc::new(host::isolated_builder(arguments, mode).resolver(HostileEnv::resolver()).build()?);
    let jail = load_components(&host, &env).await?;
    let alone = neighbour::call_alone(&host, BASELINE_CALLS).await;
    let neighbour = Neighbour::start(&host);
    let mut cases = run_cases(&host, &env).await?;
    if mode != Mode::InProcess {
        cases.extend(programs::run_cases().await?);
        cases.sort_by_key(|finding| finding.row);
    }
    let attacked = neighbour.stop().await?;
    let answers = neighbour::call_alone(&host, 1).await.wrong == 0;
    let shutdown = measure_shutdown(host).await;
    drop(env);
    let aftermath = Aftermath { answers, shutdown, left: count_leftovers(before).await };
    let summary = summarize(&cases, &alone, &attacked, &aftermath);
    let jail_lacks = jail.map_or("", JailReport::missing);
    Ok(ModeReport { isolation: mode.as_str(), jail_lacks, cases, summary })
}

impl ModeReport {
    fn is_contained(&self) -> bool {
        self.summary.contained == self.summary.cases && self.summary.wrong.is_empty()
    }
}

/// Loads the honest tool and the hostile ones. Returns the jail that they are in, if they run in worker processes.
async fn load_components(host: &Host, env: &HostileEnv) -> Result<Option<JailReport>> {
    let neighbour = host::load(host, "neighbour", Load::bytes("neighbour", CALCULATOR)).await?;
    for (name, text, powers) in cases::COMPONENTS {
        let bytes = wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))?;
        host::load(host, name, Load::bytes(*name, bytes).grant(env.grant(*powers)?)).await?;
    }
    for (name, text, powers) in cases::ASYNCHRONOUS {
        let bytes = wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))?;
        let load = Load::bytes(*name, bytes).grant(env.grant(*powers)?).isolation(Isolation::Process);
        host::load(host, name, load).await?;
    }
    Ok(neighbour.jail())
}

/// Runs every case, and returns the findings in the order of the rows.
async fn run_cases(host: &Arc<Host>, env: &HostileEnv) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    runner::load_interpreter(host).await;
    for case in cases::all() {
        findings.push(runner::run_case(host, env, case).await?);
    }
    for rejected in rejected_components::ALL {
        findings.push(runner::try_load(host, rejected).await?);
    }
    findings.extend(hooks::run_cases(host).await?);
    findings.sort_by_key(|finding| finding.row);
    Ok(findings)
}

/// Shuts the host down during endless calls, and returns the duration.
async fn measure_shutdown(host: Arc<Host>) -> Duration {
    let limits = Limits::default().deadline(Duration::from_secs(60));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..ENDLESS_CALLS {
        let host = Arc::clone(&host);
        running.spawn(async move { host.call(Call::new("spin__run", "{}").limits(limits)).await });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    host.shutdown(Duration::from_millis(200)).await;
    while running.join_next().await.is_some() {}
    drop(host);
    started.elapsed()
}

/// Measures this process after a first host was dropped: the engine opens a file or two once and keeps them.
async fn baseline_usage(arguments: &Arguments) -> Result<ResourceUsage> {
    let host = host::builder(arguments).build()?;
    host.shutdown(Duration::ZERO).await;
    drop(host);
    tokio::time::sleep(THREAD_EXIT_TIME).await;
    Ok(ResourceUsage::now())
}

/// The state after the attacks.
struct Aftermath {
    /// True if the harmless tool still answered correctly.
    answers: bool,
    shutdown: Duration,
    left: Leftovers,
}

/// Numbers of descriptors and threads that the host left behind.
#[derive(PartialEq, Eq)]
struct Leftovers {
    descriptors: usize,
    threads: usize,
}

impl Leftovers {
    const NONE: Self = Self { descriptors: 0, threads: 0 };

    fn since(before: &ResourceUsage) -> Self {
        let now = ResourceUsage::now();
        Self {
            descriptors: now.descriptors.saturating_sub(before.descriptors),
            threads: now.threads.saturating_sub(before.threads),
        }
    }
}

/// Waits for leftovers to be released, and returns those that remain.
async fn count_leftovers(before: ResourceUsage) -> Leftovers {
    let deadline = Instant::now() + MAX_RELEASE_TIME;
    loop {
        let left = Leftovers::since(&before);
        if left == Leftovers::NONE || Instant::now() > deadline {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn summarize(cases: &[Finding], alone: &CallStats, attacked: &CallStats, aftermath: &Aftermath) -> Summary {
    let Aftermath { answers, shutdown, left } = aftermath;
    let overshoots: Vec<Duration> = cases.iter().flat_map(|finding| finding.overshoots.iter().copied()).collect();
    let complaints = [
        (attacked.wrong + alone.wrong > 0, "the harmless tool returned a wrong result"),
        (attacked.durations.is_empty(), "the harmless tool was never called"),
        (!answers, "the host did not answer afterwards"),
        (*shutdown > MAX_SHUTDOWN_TIME, "the host did not end in time"),
        (left.descriptors > MAX_LEFTOVERS, "files or sockets were left open"),
        (left.threads > MAX_LEFTOVERS, "threads were left running"),
    ];
    Summary {
        contained: cases.iter().filter(|finding| finding.contained).count(),
        cases: cases.len(),
        attempts: cases.iter().map(|finding| finding.attempts).sum(),
        overshoot_p99_ms: to_millis(p99(&overshoots)),
        overshoot_max_ms: to_millis(overshoots.iter().max().copied().unwrap_or_default()),
        growth_max: cases.iter().map(|finding| finding.growth).max().unwrap_or_default(),
        honest_calls: attacked.durations.len(),
        honest_wrong: attacked.wrong + alone.wrong,
        honest_p99_ms: to_millis(attacked.p99()),
        honest_alone_p99_ms: to_millis(alone.p99()),
        ended_in_ms: to_millis(*shutdown),
        descriptors_left: left.descriptors,
        threads_left: left.threads,
        wrong: complaints.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()).collect(),
    }
}

fn to_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn print_report(report: &ModeReport) -> Result<()> {
    let jail = match (report.isolation, report.jail_lacks) {
        ("in-process", _) => "in this process".to_owned(),
        (_, "") => "each component in a separate process, with Landlock and seccomp".to_owned(),
        (_, lacks) => format!("each component in a separate process; this kernel does not support {lacks}"),
    };
    render::footer(&format!("Isolation: {} ({jail})", report.isolation))?;
    let headings = ["row", "attack", "tries", "", "outcome", "late by", "guest memory", "process grew", "left"];
    let mut table = table::new(&headings, &[0, 2, 5, 6, 7, 8]);
    for finding in &report.cases {
        table.add_row(cells(finding));
    }
    table::print(table, 1, &[8, 7, 2, 6, 5])?;
    let it = &report.summary;
    render::footer(&format!("{} of {} contained, in {} attempts.", it.contained, it.cases, it.attempts))?;
    render::footer(&format!(
        "Calls ended at most {:.1} ms after their deadlines, p99 {:.1} ms. The process grew by at most {} per case.",
        it.overshoot_max_ms,
        it.overshoot_p99_ms,
        display_bytes(it.growth_max)
    ))?;
    render::footer(&format!(
        "A harmless tool was called {} times meanwhile: {} wrong, p99 {:.2} ms (alone {:.2} ms).",
        it.honest_calls, it.honest_wrong, it.honest_p99_ms, it.honest_alone_p99_ms
    ))?;
    render::footer(&format!(
        "With {ENDLESS_CALLS} endless calls running, the host shut down in {:.0} ms and left {} files and {} threads.",
        it.ended_in_ms, it.descriptors_left, it.threads_left
    ))?;
    it.wrong.iter().for_each(|wrong| render::note(wrong));
    Ok(())
}

fn display_amount(bytes: u64) -> String {
    if bytes == 0 { "–".to_owned() } else { display_bytes(bytes) }
}

fn cells(finding: &Finding) -> Vec<Cell> {
    let late = finding.overshoots.iter().max().map_or_else(|| "–".to_owned(), |time| render::format_duration(*time));
    let left = match (finding.descriptors, finding.threads) {
        (0, 0) => "–".to_owned(),
        (descriptors, threads) => format!("{descriptors} files, {threads} threads"),
    };
    vec![
        Cell::new(finding.row),
        Cell::new(finding.what),
        Cell::new(finding.attempts),
        table::verdict(if finding.contained { "contained" } else { "NOT contained" }, finding.contained),
        Cell::new(&finding.ended),
        Cell::new(late),
        Cell::new(display_amount(finding.peak_memory as u64)),
        Cell::new(display_amount(finding.growth)),
        Cell::new(left),
    ]
}

/// Returns the panels of all modes.
fn panels(modes: &[ModeReport]) -> Vec<Panel> {
    modes.iter().flat_map(panels_of).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a plot needs no more than 52 bits")]
fn panels_of(mode: &ModeReport) -> Vec<Panel> {
    let it = &mode.summary;
    let title = |what: &str| format!("{what} ({})", mode.isolation);
    let escaped = it.cases.saturating_sub(it.contained);
    let outcomes = vec![bar("contained", it.contained as f64, true), bar("not contained", escaped as f64, false)];
    let honest = vec![
        bar("alone, p99", it.honest_alone_p99_ms, true),
        bar("during the attacks, p99", it.honest_p99_ms, it.honest_wrong == 0),
    ];
    vec![
        panel(title("Outcomes"), "cases", 0, outcomes),
        panel(
            title("Time after the deadline, longest per case"),
            "milliseconds",
            1,
            mode.cases.iter().filter_map(overshoot_bar).collect(),
        ),
        panel(title("A call of a harmless tool"), "milliseconds", 2, honest),
    ]
}

fn panel(title: String, axis: &str, digits: usize, bars: Vec<Bar>) -> Panel {
    Panel { title, axis: axis.to_owned(), digits, bars }
}

fn bar(name: &str, value: f64, is_good: bool) -> Bar {
    Bar { name: name.to_owned(), value, is_good }
}

/// Creates the bar of a case that has attempts with a deadline.
fn overshoot_bar(finding: &Finding) -> Option<Bar> {
    let longest = finding.overshoots.iter().max()?;
    let name = format!("{} {}", finding.row, finding.what);
    Some(bar(&name, longest.as_secs_f64() * 1e3, finding.contained))
}
