//! `fumehood log stats`: outcomes and durations of recorded calls, by tool.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::Cell;
use fumehood::event_log::Reader;
use serde::Serialize;

use super::list::{CallRow, query_calls};
use super::to_filter;
use crate::args::log::Stats;
use crate::exit::Exit;
use crate::plot::{self, Bar, Panel};
use crate::render::quotation::one_line;
use crate::render::{self, table};

/// Maximum number of tools in a plot, those with the most calls.
const MAX_PLOTTED_TOOLS: usize = 30;

/// The calls of one tool.
#[derive(Debug, Default, PartialEq, Serialize)]
struct ToolStats {
    tool: String,
    calls: usize,
    /// Numbers of calls by outcome.
    outcomes: BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<f64>,
}

pub(super) fn run(reader: &Reader, stats: &Stats, json: bool) -> Result<Exit> {
    let limit = usize::try_from(stats.limit).unwrap_or(usize::MAX);
    let found = by_tool(&query_calls(reader, &to_filter(&stats.filters), limit)?);
    if json {
        render::json(&found)?;
    } else {
        print(&found)?;
    }
    if let Some(file) = &stats.plot {
        plot::write(file, "Calls of tools", &panels(&found))?;
    }
    Ok(Exit::Ok)
}

/// Sums calls up by tool, those with the most calls first.
fn by_tool(rows: &[CallRow]) -> Vec<ToolStats> {
    let mut tools: BTreeMap<&str, (ToolStats, Vec<f64>)> = BTreeMap::new();
    for row in rows {
        let (stats, durations) = tools.entry(&row.tool).or_default();
        stats.calls += 1;
        *stats.outcomes.entry(row.status.clone()).or_default() += 1;
        durations.extend(row.duration_ms);
    }
    let mut tools: Vec<ToolStats> = tools
        .into_iter()
        .map(|(tool, (stats, mut durations))| {
            durations.sort_by(f64::total_cmp);
            let [p50_ms, p99_ms, max_ms] = [50, 99, 100].map(|percent| percentile(&durations, percent));
            ToolStats { tool: tool.to_owned(), p50_ms, p99_ms, max_ms, ..stats }
        })
        .collect();
    tools.sort_by_key(|stats| std::cmp::Reverse(stats.calls));
    tools
}

/// Returns the smallest value that this share of the sorted values does not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn print(tools: &[ToolStats]) -> Result<()> {
    if tools.is_empty() {
        render::note("no matching records");
        return Ok(());
    }
    let mut table = table::new(&["tool", "calls", "outcomes", "p50", "p99", "longest"], &[1, 3, 4, 5]);
    for stats in tools {
        let outcomes: Vec<String> =
            stats.outcomes.iter().map(|(outcome, count)| format!("{} {count}", one_line(outcome))).collect();
        table.add_row(vec![
            Cell::new(one_line(&stats.tool)),
            Cell::new(stats.calls),
            Cell::new(outcomes.join(", ")),
            time_cell(stats.p50_ms),
            time_cell(stats.p99_ms),
            time_cell(stats.max_ms),
        ]);
    }
    table::print(table, 2, &[5, 3])
}

fn time_cell(millis: Option<f64>) -> Cell {
    Cell::new(millis.map_or_else(|| "–".to_owned(), |millis| format!("{millis:.1} ms")))
}

#[allow(clippy::cast_precision_loss, reason = "a plot needs no more than 52 bits")]
fn panels(tools: &[ToolStats]) -> Vec<Panel> {
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for (outcome, count) in tools.iter().flat_map(|stats| &stats.outcomes) {
        *outcomes.entry(outcome).or_default() += count;
    }
    let shown = || tools.iter().take(MAX_PLOTTED_TOOLS);
    let counts = outcomes.iter().map(|(outcome, count)| bar(outcome, *count as f64, *outcome == "ok")).collect();
    let calls = shown().map(|stats| bar(&stats.tool, stats.calls as f64, true)).collect();
    let p50 = shown().filter_map(|stats| Some(bar(&stats.tool, stats.p50_ms?, true))).collect();
    let p99 = shown().filter_map(|stats| Some(bar(&stats.tool, stats.p99_ms?, true))).collect();
    vec![
        panel("Outcomes", "calls", 0, counts),
        panel("Calls by tool", "calls", 0, calls),
        panel("Duration, median", "milliseconds", 2, p50),
        panel("Duration, 99th percentile", "milliseconds", 2, p99),
    ]
}

fn panel(title: &str, axis: &str, digits: usize, bars: Vec<Bar>) -> Panel {
    Panel { title: title.to_owned(), axis: axis.to_owned(), digits, bars }
}

fn bar(name: &str, value: f64, is_good: bool) -> Bar {
    Bar { name: one_line(name), value, is_good }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&sorted, percent)), [Some(50.0), Some(99.0), Some(100.0)]);
        assert_eq!(percentile(&[7.0], 50), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
