//! Plots of a self-test: how late attacks were stopped, how an honest tool fared meanwhile, and what was contained.

use super::{Finding, ModeReport};
use crate::plot::{Bar, Panel};

/// Returns the panels of all modes.
pub(super) fn panels(modes: &[ModeReport]) -> Vec<Panel> {
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
