//! `fumehood selftest`: hostile tools are tried on this machine, next to an honest one, and how each of them ended is told.

mod cases;
mod course;
mod loads;
mod neighbour;
mod process;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use comfy_table::Cell;
use fumehood::limits::display_bytes;
use fumehood::{Call, Host, JailReport, Limits, Load};
use serde::Serialize;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::host;
use crate::hostile_env::HostileEnv;
use crate::isolation::Mode;
use crate::render::{self, table};
use course::Finding;
use neighbour::{Neighbour, p99};

const CALCULATOR: &[u8] = include_bytes!("../../../../../example-tools/dist/calculator.wasm");
/// Calls of the honest tool with nobody around.
const ALONE: u32 = 200;
/// The time to end in, with guests that would go on.
const END: Duration = Duration::from_secs(2);
/// How many of them.
const ENDLESS: usize = 4;
/// What may be there afterwards that was not there before: what is kept for the next host, once for all.
const LEFT: usize = 8;
/// How long the threads of a host that was dropped take to end.
const SETTLING: Duration = Duration::from_millis(100);
/// What is on its way out is given this time.
const LEAVING: Duration = Duration::from_secs(2);

/// All that was found, in every mode of isolation.
#[derive(Serialize)]
struct Report {
    modes: Vec<ModeReport>,
}

/// All that was found in one mode.
#[derive(Serialize)]
struct ModeReport {
    /// As `--isolation` names it.
    isolation: &'static str,
    /// The layers of the jail of worker processes that the kernel lacks; empty if none, or if there are no workers.
    jail_lacks: &'static str,
    cases: Vec<Finding>,
    summary: Summary,
}

/// What was found of all of them together.
#[derive(Serialize)]
struct Summary {
    contained: usize,
    cases: usize,
    attempts: usize,
    overshoot_p99_ms: f64,
    overshoot_max_ms: f64,
    /// The most that one case added to what the process held, in bytes.
    growth_max: u64,
    /// Calls of the honest tool while the others ran.
    honest_calls: usize,
    honest_wrong: usize,
    honest_p99_ms: f64,
    honest_alone_p99_ms: f64,
    ended_in_ms: f64,
    /// What is there after the host is gone and was not there before it.
    descriptors_left: usize,
    threads_left: usize,
    /// What is wrong, apart from the cases.
    wrong: Vec<String>,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit> {
    let modes = arguments.isolation.map_or_else(|| vec![Mode::InProcess, Mode::Process], |mode| vec![mode]);
    let mut report = Report { modes: Vec::new() };
    for mode in modes {
        let found = attack(arguments, mode).await?;
        if !arguments.json {
            show(&found)?;
        }
        report.modes.push(found);
    }
    if arguments.json {
        render::json(&report)?;
    }
    Ok(if report.modes.iter().all(ModeReport::is_contained) { Exit::Ok } else { Exit::ToolFailed })
}

/// Tries every case in one mode.
async fn attack(arguments: &Arguments, mode: Mode) -> Result<ModeReport> {
    let before = held_by_the_engine(arguments).await?;
    let grounds = HostileEnv::prepare().await?;
    let host = Arc::new(host::isolated_builder(arguments, mode).resolver(HostileEnv::resolver()).build()?);
    let jail = load(&host, &grounds).await?;
    let alone = neighbour::alone(&host, ALONE).await;
    let neighbour = Neighbour::start(&host);
    let cases = findings(&host, &grounds).await?;
    let record = neighbour.stop().await?;
    let answers = neighbour::alone(&host, 1).await.wrong == 0;
    let ended = end(host).await;
    drop(grounds);
    let left = left(before).await;
    let summary = summary(&cases, &alone, &record, (ended, answers), left);
    let jail_lacks = jail.map_or("", JailReport::missing);
    Ok(ModeReport { isolation: mode.as_str(), jail_lacks, cases, summary })
}

impl ModeReport {
    fn is_contained(&self) -> bool {
        self.summary.contained == self.summary.cases && self.summary.wrong.is_empty()
    }
}

/// Loads the honest tool and the hostile ones. Returns the jail that they are in, if they run in worker processes.
async fn load(host: &Host, grounds: &HostileEnv) -> Result<Option<JailReport>> {
    let neighbour = host::load(host, "neighbour", Load::bytes("neighbour", CALCULATOR)).await?;
    for (name, text, powers) in cases::COMPONENTS {
        let bytes = wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))?;
        host::load(host, name, Load::bytes(*name, bytes).with_grant(grounds.grant(*powers)?)).await?;
    }
    Ok(neighbour.jail())
}

/// Every case, in the order of the rows.
async fn findings(host: &Arc<Host>, grounds: &HostileEnv) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for case in cases::all() {
        findings.push(course::call(host, grounds, case).await?);
    }
    for refused in loads::ALL {
        findings.push(course::load(host, refused).await?);
    }
    findings.sort_by_key(|finding| finding.row);
    Ok(findings)
}

/// Ends the host in the middle of calls that would go on for a long time, and says how long that took.
async fn end(host: Arc<Host>) -> Duration {
    let limits = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..ENDLESS {
        let host = Arc::clone(&host);
        running.spawn(async move { host.call(Call::new("spin__run", "{}").with_limits(limits)).await });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    host.shut_down(Duration::from_millis(200)).await;
    while running.join_next().await.is_some() {}
    drop(host);
    started.elapsed()
}

/// What the process holds once there was a host: the engine opens a file or two once and keeps them.
async fn held_by_the_engine(arguments: &Arguments) -> Result<process::ResourceUsage> {
    let host = host::builder(arguments).build()?;
    host.shut_down(Duration::ZERO).await;
    drop(host);
    tokio::time::sleep(SETTLING).await;
    Ok(process::held())
}

/// What is still there that was not there before, in descriptors and threads.
async fn left(before: process::ResourceUsage) -> (usize, usize) {
    let patience = Instant::now() + LEAVING;
    loop {
        let now = process::held();
        let left = (now.descriptors.saturating_sub(before.descriptors), now.threads.saturating_sub(before.threads));
        if left == (0, 0) || Instant::now() > patience {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn summary(
    cases: &[Finding],
    alone: &neighbour::Record,
    record: &neighbour::Record,
    (ended, answers): (Duration, bool),
    (descriptors_left, threads_left): (usize, usize),
) -> Summary {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let overshoots: Vec<Duration> = cases.iter().flat_map(|finding| finding.overshoots.iter().copied()).collect();
    let complaints = [
        (record.wrong + alone.wrong > 0, "the honest tool was wrong"),
        (record.times.is_empty(), "the honest tool was never called"),
        (!answers, "the host did not answer afterwards"),
        (ended > END, "the host did not end in time"),
        (descriptors_left > LEFT, "files or sockets were left open"),
        (threads_left > LEFT, "threads were left running"),
    ];
    Summary {
        contained: cases.iter().filter(|finding| finding.contained).count(),
        cases: cases.len(),
        attempts: cases.iter().map(|finding| finding.attempts).sum(),
        overshoot_p99_ms: ms(p99(&overshoots)),
        overshoot_max_ms: ms(overshoots.iter().max().copied().unwrap_or_default()),
        growth_max: cases.iter().map(|finding| finding.growth).max().unwrap_or_default(),
        honest_calls: record.times.len(),
        honest_wrong: record.wrong + alone.wrong,
        honest_p99_ms: ms(record.p99()),
        honest_alone_p99_ms: ms(alone.p99()),
        ended_in_ms: ms(ended),
        descriptors_left,
        threads_left,
        wrong: complaints.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()).collect(),
    }
}

fn show(report: &ModeReport) -> Result<()> {
    let jail = match (report.isolation, report.jail_lacks) {
        ("in-process", _) => "in this process".to_owned(),
        (_, "") => "each component in a process of its own, with Landlock and seccomp".to_owned(),
        (_, lacks) => format!("each component in a process of its own; this kernel has no {lacks}"),
    };
    render::line(&format!("Isolation: {} ({jail})", report.isolation))?;
    let headings =
        ["row", "what it tries", "tries", "", "how it ended", "late by", "guest memory", "process grew", "left"];
    let mut table = table::new(&headings, &[0, 2, 5, 6, 7, 8]);
    for finding in &report.cases {
        table.add_row(cells(finding));
    }
    render::line(&table.to_string())?;
    let it = &report.summary;
    render::line(&format!("{} of {} contained, in {} attempts.", it.contained, it.cases, it.attempts))?;
    render::line(&format!(
        "Deadlines were passed by {:.1} ms at the most, p99 {:.1} ms. One case added {} to the process at the most.",
        it.overshoot_max_ms,
        it.overshoot_p99_ms,
        display_bytes(it.growth_max)
    ))?;
    render::line(&format!(
        "An honest tool was called {} times meanwhile: {} wrong, p99 {:.2} ms (alone {:.2} ms).",
        it.honest_calls, it.honest_wrong, it.honest_p99_ms, it.honest_alone_p99_ms
    ))?;
    render::line(&format!(
        "The host ended {:.0} ms after it was told, {ENDLESS} endless calls running; {} files and {} threads were left.",
        it.ended_in_ms, it.descriptors_left, it.threads_left
    ))?;
    it.wrong.iter().for_each(|wrong| render::note(wrong));
    Ok(())
}

fn cells(finding: &Finding) -> Vec<Cell> {
    let late = finding.overshoots.iter().max().map_or_else(|| "–".to_owned(), |time| render::duration(*time));
    let bytes = |bytes: u64| if bytes == 0 { "–".to_owned() } else { display_bytes(bytes) };
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
        Cell::new(bytes(finding.peak_memory as u64)),
        Cell::new(bytes(finding.growth)),
        Cell::new(left),
    ]
}
