//! *Health*: calls by outcome, their latency, and the server itself.

use askama::Template;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use http::StatusCode;

use super::super::charts::{self, Bar, LineChart, LinePoint, format_ms};
use super::super::statistics::SeriesPoint;
use super::{Layout, Visit, format_time, html};
use crate::http_api::response::Response;
use crate::now;

#[derive(Template)]
#[template(path = "dashboard/health.html")]
struct HealthPage {
    layout: Layout,
    figures: Vec<(&'static str, PrintableText)>,
    bars: Vec<Bar>,
    latency: Option<LineChart>,
}

/// Shows the statistics since the start.
pub(crate) fn show(visit: &Visit) -> Response {
    let tools = visit.shared.tools.tools();
    let withheld = tools.iter().filter(|tool| !tool.is_approved()).count();
    let (running, waiting) = visit.shared.served.running().counts();
    let (outcomes, percentiles, series) = {
        let statistics = visit.shared.statistics.lock();
        (statistics.outcomes(), statistics.percentiles(), statistics.series(now()))
    };
    let ended: u64 = outcomes.iter().map(|(_, count)| count).fold(0, |sum, count| sum.saturating_add(*count));
    let figures: Vec<(&'static str, PrintableText)> = vec![
        ("Uptime", format_ms(visit.shared.statistics.uptime().as_secs_f64() * 1e3).into()),
        ("Tools", (tools.len() - withheld).to_string().into()),
        ("Withheld", withheld.to_string().into()),
        ("Running calls", running.to_string().into()),
        ("Waiting calls", waiting.to_string().into()),
        ("Ended calls", ended.to_string().into()),
        ("Median", time_or_dash(percentiles.map(|(p50, _)| p50)).into()),
        ("99th percentile", time_or_dash(percentiles.map(|(_, p99)| p99)).into()),
    ];
    let page = HealthPage {
        layout: visit.layout("health", "Health"),
        figures,
        bars: charts::bars(&outcomes),
        latency: latency(&series),
    };
    html(StatusCode::OK, &page)
}

/// Formats a time in milliseconds; one of no call is a dash.
fn time_or_dash(millis: Option<f64>) -> String {
    millis.map_or_else(|| "–".to_owned(), format_ms)
}

/// Creates the chart of the latency over time.
fn latency(series: &[SeriesPoint]) -> Option<LineChart> {
    let points = series.iter().map(|point| LinePoint { at: point.at.0, lower: point.p50_ms, upper: point.p99_ms });
    let from = time_of_day(series.first());
    let until = time_of_day(series.last());
    charts::lines(&points.collect::<Vec<_>>(), from, until)
}

fn time_of_day(point: Option<&SeriesPoint>) -> String {
    let at = format_time(point.map_or(Timestamp(0), |point| point.at));
    at.split(' ').next_back().unwrap_or_default().to_owned()
}
