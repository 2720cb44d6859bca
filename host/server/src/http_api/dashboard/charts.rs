//! Charts as SVG: their geometry, in whole units of the picture. The templates draw it.

/// Width of the plotted part of every chart.
pub(crate) const WIDTH: f64 = 640.0;
/// Height of a line chart.
const LINE_HEIGHT: f64 = 160.0;
/// Minimum of the largest value of an axis, so that one call of nothing does not divide by it.
const MIN_RANGE: f64 = 1e-3;

/// A bar with its label and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: u64,
    /// Offset of the bar from the top.
    pub(crate) y: usize,
    /// Length of the bar.
    pub(crate) width: usize,
    pub(crate) is_good: bool,
}

/// A tick of an axis: its position and its label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: usize,
    pub(crate) label: String,
}

/// A point of a line chart: two values in milliseconds, such as a median and a percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinePoint {
    /// Its position on the axis.
    pub(crate) at: u64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// A line chart of two values over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineChart {
    /// Points of the lower values, for `polyline`.
    pub(crate) lower: String,
    /// Points of the upper values.
    pub(crate) upper: String,
    /// Positions of each point: across, of its lower and of its upper value.
    pub(crate) dots: Vec<(usize, usize, usize)>,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) from: String,
    pub(crate) until: String,
}

/// A row of a strip chart: a dot for each value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StripRow {
    pub(crate) label: String,
    pub(crate) y: usize,
    pub(crate) dots: Vec<usize>,
}

/// A strip chart: values of several rows on one axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StripChart {
    pub(crate) rows: Vec<StripRow>,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) height: usize,
}

/// Height of a row of bars or of a strip.
pub(crate) const ROW_HEIGHT: usize = 22;

/// Creates the bars of counts by name. `ok` is the good one.
pub(crate) fn bars(counts: &[(&'static str, u64)]) -> Vec<Bar> {
    let largest = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let bars = counts.iter().enumerate().map(|(at, (name, value))| Bar {
        label: (*name).to_owned(),
        value: *value,
        y: at * ROW_HEIGHT,
        // One call in a million is seen as well.
        width: ((*value as f64 / largest as f64 * 420.0) as usize).max(2),
        is_good: *name == "ok",
    });
    bars.collect()
}

/// Creates the chart of a series, with labels of its ends; `None` of an empty one.
pub(crate) fn lines(series: &[LinePoint], from: String, until: String) -> Option<LineChart> {
    let first = series.first()?;
    let last = series.last()?;
    let range = (last.at.saturating_sub(first.at) as f64).max(1.0);
    let largest = series.iter().map(|point| point.upper).fold(MIN_RANGE, f64::max);
    let top = round_up(largest);
    // A single point is in the middle.
    let left = if series.len() == 1 { WIDTH / 2.0 } else { 0.0 };
    let x = |point: &LinePoint| (left + point.at.saturating_sub(first.at) as f64 / range * WIDTH) as usize;
    let y = |value: f64| (LINE_HEIGHT - value.clamp(0.0, top) / top * LINE_HEIGHT) as usize;
    let tick = |part: f64| Tick { at: y(top * part), label: format_ms(top * part) };
    Some(LineChart {
        lower: join_points(series.iter().map(|point| (x(point), y(point.lower)))),
        upper: join_points(series.iter().map(|point| (x(point), y(point.upper)))),
        dots: series.iter().map(|point| (x(point), y(point.lower), y(point.upper))).collect(),
        ticks: vec![tick(0.0), tick(0.5), tick(1.0)],
        from,
        until,
    })
}

/// Writes points as SVG does in a polyline.
fn join_points(points: impl Iterator<Item = (usize, usize)>) -> String {
    points.map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// Creates a chart with a row for each label; `None` without rows.
pub(crate) fn strips(rows: &[(String, Vec<f64>)]) -> Option<StripChart> {
    let largest = rows.iter().flat_map(|(_, values)| values).copied().fold(MIN_RANGE, f64::max);
    let top = round_up(largest);
    let x = |value: f64| (value.clamp(0.0, top) / top * WIDTH) as usize;
    let strips = rows.iter().enumerate().map(|(at, (label, values))| StripRow {
        label: label.clone(),
        y: at * ROW_HEIGHT + ROW_HEIGHT / 2,
        dots: values.iter().map(|value| x(*value)).collect(),
    });
    let tick = |part: f64| Tick { at: x(top * part), label: format_ms(top * part) };
    (!rows.is_empty()).then(|| StripChart {
        rows: strips.collect(),
        ticks: vec![tick(0.0), tick(0.25), tick(0.5), tick(0.75), tick(1.0)],
        height: rows.len() * ROW_HEIGHT,
    })
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= value).unwrap_or(10.0);
    step * power
}

/// Formats a time: `0.25 ms`, `12 ms`, `3.5 s`.
pub(crate) fn format_ms(millis: f64) -> String {
    match millis {
        0.0 => "0 ms".to_owned(),
        millis if millis < 1.0 => format!("{millis:.2} ms"),
        millis if millis < 10.0 => format!("{millis:.1} ms"),
        millis if millis < 1000.0 => format!("{millis:.0} ms"),
        millis if millis < 120_000.0 => format!("{:.1} s", millis / 1e3),
        millis if millis < 7_200_000.0 => format!("{:.0} min", millis / 6e4),
        millis => format!("{:.1} h", millis / 3.6e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_rounded(value: f64, expected: f64) {
        assert!((round_up(value) - expected).abs() < expected * 1e-9, "{value}")
    }

    #[test]
    fn axes_end_at_round_values() {
        check_rounded(0.001, 0.001);
        check_rounded(0.3, 0.5);
        check_rounded(1.0, 1.0);
        check_rounded(5.1, 10.0);
        check_rounded(1234.0, 2000.0);
    }

    fn point(at: u64, lower: f64, upper: f64) -> LinePoint {
        LinePoint { at, lower, upper }
    }

    #[test]
    fn charts_stay_in_their_pictures() {
        assert_eq!(lines(&[], String::new(), String::new()), None);
        for series in [vec![point(5, 0.0, 0.0)], vec![point(0, 1.0, 1000.0), point(9, 0.1, 3.0)]] {
            let chart = lines(&series, String::new(), String::new()).unwrap();
            assert!(chart.dots.iter().all(|(x, one, two)| *x <= 640 && *one <= 160 && *two <= 160), "{chart:?}");
        }
        let chart = strips(&[("a".to_owned(), vec![0.0, 7.0]), ("b".to_owned(), vec![])]).unwrap();
        assert_eq!((chart.rows[0].dots.as_slice(), chart.height), (&[0, 448][..], 44));
        assert_eq!(bars(&[("ok", 4), ("trap", 0)]).iter().map(|bar| bar.width).collect::<Vec<_>>(), [420, 2]);
    }
}
