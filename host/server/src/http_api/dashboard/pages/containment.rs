//! *Containment*: runs of hostile tools, how each attack ended, and by how much deadlines were passed.

use askama::Template;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::text::untrusted::PrintableText;
use http::StatusCode;

use super::super::charts::{self, LineChart, LinePoint, StripChart, format_ms};
use super::super::containment::{ModeReport, Run};
use super::super::routes::redirect;
use super::{Layout, Visit, format_time, html, not_found};
use crate::http_api::response::Response;

/// A run in the list.
struct RunView {
    number: u64,
    at: String,
    took: String,
    is_good: bool,
    result: PrintableText,
    unstored: Option<PrintableText>,
    contained: String,
    latest: String,
    is_shown: bool,
}

/// An attack, as the page shows it.
struct CaseView {
    row: u32,
    what: PrintableText,
    attempts: u64,
    contained: bool,
    ended: PrintableText,
    late: String,
    memory: String,
}

/// A mode of isolation.
struct ModeView {
    report: ModeReport,
    overshoot_p99: String,
    honest_p99: String,
    chart: Option<StripChart>,
    cases: Vec<CaseView>,
}

#[derive(Template)]
#[template(path = "dashboard/containment.html")]
struct ContainmentPage {
    layout: Layout,
    csrf: String,
    is_available: bool,
    running_since: Option<String>,
    runs: Vec<RunView>,
    history: Option<LineChart>,
    modes: Vec<ModeView>,
}

impl RunView {
    fn new(run: &Run, shown: Option<u64>) -> Self {
        let took = format_ms(run.duration.as_secs_f64() * 1e3);
        let modes = run.outcome.as_ref().map(|report| report.modes.as_slice()).unwrap_or_default();
        let sum = |of: fn(&ModeReport) -> u64| modes.iter().map(of).fold(0, u64::saturating_add);
        let latest = modes.iter().map(|mode| mode.summary.overshoot_max_ms).fold(0.0, f64::max);
        let is_good = run.outcome.is_ok() && modes.iter().all(ModeReport::is_contained);
        Self {
            number: run.number,
            at: format_time(run.at),
            took,
            is_good,
            result: match &run.outcome {
                Ok(_) if is_good => "contained".into(),
                Ok(_) => "NOT contained".into(),
                Err(problem) => problem.as_str().into(),
            },
            unstored: run.unstored.as_deref().map(PrintableText::from),
            contained: format!("{} of {}", sum(|mode| mode.summary.contained), sum(|mode| mode.summary.cases)),
            latest: format_ms(latest),
            is_shown: shown == Some(run.number),
        }
    }
}

impl ModeView {
    fn new(report: &ModeReport) -> Self {
        let case = |case: &super::super::containment::Finding| CaseView {
            row: case.row,
            what: case.what.clone(),
            attempts: case.attempts,
            contained: case.contained,
            ended: case.ended.clone(),
            late: case.overshoot_ms.iter().copied().reduce(f64::max).map(format_ms).unwrap_or_default(),
            memory: if case.peak_memory == 0 { String::new() } else { display_bytes(case.peak_memory) },
        };
        Self {
            overshoot_p99: format_ms(report.summary.overshoot_p99_ms),
            honest_p99: format_ms(report.summary.honest_p99_ms),
            chart: charts::strips(&report.overshoots()),
            cases: report.cases.iter().map(case).collect(),
            report: report.clone(),
        }
    }
}

/// Creates the chart of the times after deadlines, run by run, the oldest first; `None` for less than two reports.
fn history(runs: &[Run]) -> Option<LineChart> {
    let reports: Vec<_> = runs.iter().rev().filter_map(|run| Some((run, run.outcome.as_ref().ok()?))).collect();
    let [(first, _), .., (last, _)] = reports.as_slice() else { return None };
    // At equal distances: runs are days or minutes apart.
    let points = (0_u64..).zip(&reports).map(|(at, (_, report))| LinePoint {
        at,
        lower: find_max(&report.modes, |mode| mode.summary.overshoot_p99_ms),
        upper: find_max(&report.modes, |mode| mode.summary.overshoot_max_ms),
    });
    charts::lines(&points.collect::<Vec<_>>(), format_time(first.at), format_time(last.at))
}

fn find_max(modes: &[ModeReport], of: fn(&ModeReport) -> f64) -> f64 {
    modes.iter().map(of).fold(0.0, f64::max)
}

/// Shows the runs, and the report of one of them: that of this number, or else the newest.
pub(crate) fn show(visit: &Visit, wanted: &str) -> Response {
    let (running, runs) = visit.shared.runs.list();
    let wanted: Option<u64> = wanted.parse().ok();
    let shown = runs.iter().find(|run| wanted.is_none_or(|wanted| wanted == run.number));
    let report = shown.and_then(|run| run.outcome.as_ref().ok());
    let number = shown.map(|run| run.number);
    let page = ContainmentPage {
        layout: Layout { reloads_always: running.is_some(), ..visit.layout("containment", "Containment") },
        csrf: visit.csrf.clone(),
        is_available: visit.shared.options.containment.is_some(),
        running_since: running.map(|since| format_ms(since.as_secs_f64() * 1e3)),
        runs: runs.iter().map(|run| RunView::new(run, number)).collect(),
        history: history(&runs),
        modes: report.iter().flat_map(|report| &report.modes).map(ModeView::new).collect(),
    };
    html(StatusCode::OK, &page)
}

/// Starts a run, unless one is running.
pub(crate) fn start(visit: &Visit) -> Response {
    if !visit.shared.runs.start(visit.shared.stopped.clone()) {
        return not_found(visit, "This server cannot run the self-test; run `fumehood selftest`.");
    }
    redirect("/dashboard/containment")
}
