//! The image of a chart.

use std::fmt::Write as _;

use crate::{Chart, Kind};

/// Size of the image, in pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room around the plot: for the title, and for labels.
const MARGIN: f64 = 48.0;

/// Draws a chart as an SVG image.
pub(crate) fn image(chart: &Chart) -> String {
    let mut image = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\">\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"18\">{}</text>",
        escape(&chart.title)
    );
    let scale = Scale::new(chart);
    let zero = scale.y(0.0);
    let right = WIDTH - MARGIN;
    // Writing to a string does not fail.
    let _ = write!(image, "<path d=\"M{MARGIN} {zero:.1}H{right}\" stroke=\"#888\"/>");
    match chart.kind {
        Kind::Bar => bars(&mut image, chart, &scale),
        Kind::Line => line(&mut image, chart, &scale),
    }
    for (at, label) in chart.labels.iter().enumerate() {
        let x = scale.x(at);
        let y = HEIGHT - MARGIN / 2.0;
        let label = escape(label);
        let _ = write!(image, "<text x=\"{x:.1}\" y=\"{y}\" font-size=\"11\" text-anchor=\"middle\">{label}</text>");
    }
    image.push_str("</svg>");
    image
}

fn bars(image: &mut String, chart: &Chart, scale: &Scale) {
    let width = scale.step * 0.7;
    let zero = scale.y(0.0);
    for (at, value) in chart.values.iter().enumerate() {
        let left = scale.x(at) - width / 2.0;
        let top = scale.y(*value).min(zero);
        let height = (scale.y(*value) - zero).abs();
        let _ = write!(
            image,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#3b6ea8\"/>"
        );
    }
}

fn line(image: &mut String, chart: &Chart, scale: &Scale) {
    image.push_str("<polyline fill=\"none\" stroke=\"#3b6ea8\" stroke-width=\"2\" points=\"");
    for (at, value) in chart.values.iter().enumerate() {
        let _ = write!(image, "{:.1},{:.1} ", scale.x(at), scale.y(*value));
    }
    image.push_str("\"/>");
}

/// The places of values in the image.
struct Scale {
    /// The lowest value of the plot: zero is always in it.
    low: f64,
    /// The range of values. Never zero.
    range: f64,
    /// The distance between two values, in pixels.
    step: f64,
}

impl Scale {
    fn new(chart: &Chart) -> Self {
        let low = chart.min.min(0.0);
        let range = chart.max.max(0.0) - low;
        let count = u32::try_from(chart.values.len().max(1)).unwrap_or(u32::MAX);
        Self { low, range: if range > 0.0 { range } else { 1.0 }, step: (WIDTH - 2.0 * MARGIN) / f64::from(count) }
    }

    fn x(&self, at: usize) -> f64 {
        MARGIN + self.step * (f64::from(u32::try_from(at).unwrap_or(u32::MAX)) + 0.5)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - MARGIN - (value - self.low) / self.range * (HEIGHT - 2.0 * MARGIN)
    }
}

/// Returns a text as XML has it, without characters that XML does not allow.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_control()) {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: Kind, values: &[f64]) -> String {
        let labels: Vec<String> = values.iter().map(|value| format!("{value}&")).collect();
        image(&Chart::new(kind, "t\u{0}", &labels, values.to_vec()).unwrap())
    }

    #[test]
    fn bars_begin_at_zero() {
        let image = chart(Kind::Bar, &[2.0, -2.0]);
        assert_eq!(image.matches("<rect").count(), 3);
        assert!(image.contains("y=\"48.0\" width=\"190.4\" height=\"132.0\""), "{image}");
        assert!(image.contains("y=\"180.0\" width=\"190.4\" height=\"132.0\""), "{image}");
        assert!(image.contains("2&amp;") && !image.contains('\u{0}'), "{image}");
    }

    #[test]
    fn a_line_goes_through_all_values() {
        assert!(chart(Kind::Line, &[0.0, 1.0]).contains("points=\"184.0,312.0 456.0,48.0 \""));
        assert!(chart(Kind::Line, &[0.0]).contains("points=\"320.0,312.0 \""));
    }
}
