//! Plots in SVG, alone or in a page of HTML: bars by name, in panels one below the other.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, ChartBuilder, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle, SVGBackend,
    Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of a plot, in pixels.
const WIDTH: u32 = 1_000;
/// Height of a bar with its gap, in pixels.
const BAR_HEIGHT: u32 = 22;
/// Height of the title and the axis of a panel, in pixels.
const PANEL_FRAME_HEIGHT: u32 = 90;
/// Width of the names, in pixels.
const NAME_WIDTH: u32 = 330;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 48;
/// Colour of what went well: blue, which people who cannot tell red from green see as well.
const GOOD: RGBColor = RGBColor(0x2b, 0x6c, 0xb0);
/// Colour of what did not.
const BAD: RGBColor = RGBColor(0xc0, 0x56, 0x21);

/// A file for a plot, with the format that its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlotFile {
    path: PathBuf,
    is_page: bool,
}

/// Parses the name of a file for a plot.
///
/// # Errors
/// If it ends neither with `.svg` nor with `.html`.
pub(crate) fn parse_plot_file(text: &str) -> Result<PlotFile, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(PlotFile { path, is_page: false }),
        Some("html") => Ok(PlotFile { path, is_page: true }),
        _ => Err("expected a name that ends with .svg or .html".to_owned()),
    }
}

/// A bar: its name, its length, and whether it stands for something good.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) is_good: bool,
}

/// A panel of bars of one unit.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// Description of the axis, with the unit.
    pub(crate) axis: String,
    /// Number of digits after the point.
    pub(crate) digits: usize,
    pub(crate) bars: Vec<Bar>,
}

/// Writes panels to a file, which is replaced as a whole. Panels without bars are left out.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(file: &PlotFile, title: &str, panels: &[Panel]) -> Result<()> {
    let svg = draw(panels)?;
    let text = if file.is_page {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>body {{ font-family: sans-serif; max-width: {WIDTH}px; margin: 2em auto; background: white; color: black }}</style>\n\
             <h1>{title}</h1>\n{svg}\n</html>\n"
        )
    } else {
        svg
    };
    let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || format!("cannot write the plot {}", file.path.display());
    let mut written = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    written.write_all(text.as_bytes()).with_context(failed)?;
    written.persist(&file.path).with_context(failed)?;
    Ok(())
}

/// Draws panels one below the other.
fn draw(panels: &[Panel]) -> Result<String> {
    let panels: Vec<&Panel> = panels.iter().filter(|panel| !panel.bars.is_empty()).collect();
    let heights: Vec<u32> = panels.iter().map(|panel| panel.height()).collect();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, heights.iter().sum::<u32>().max(1))).into_drawing_area();
        root.fill(&WHITE)?;
        let mut rest = root.clone();
        for (panel, height) in panels.iter().zip(heights) {
            let (area, below) = rest.split_vertically(height);
            draw_panel(panel, &area)?;
            rest = below;
        }
        root.present()?;
    }
    Ok(svg)
}

impl Panel {
    fn height(&self) -> u32 {
        u32::try_from(self.bars.len()).unwrap_or(u32::MAX).saturating_mul(BAR_HEIGHT).saturating_add(PANEL_FRAME_HEIGHT)
    }
}

fn draw_panel(panel: &Panel, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
    let longest = panel.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    // Room for the numbers after the bars; an axis of no length cannot be drawn.
    let end = if longest > 0.0 { longest * 1.15 } else { 1.0 };
    // The first bar is the uppermost.
    let bars: Vec<(f64, &Bar)> = (0_u32..).map(f64::from).zip(panel.bars.iter().rev()).collect();
    let top = bars.last().map_or(1.0, |(bottom, _)| bottom + 1.0);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(NAME_WIDTH)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_desc(&panel.axis)
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .light_line_style(WHITE)
        .axis_style(BLACK.mix(0.4))
        .draw()?;
    chart.draw_series(bars.iter().map(|(bottom, bar)| {
        let ends = [(0.0, bottom + 0.1), (bar.value, bottom + 0.9)];
        Rectangle::new(ends, if bar.is_good { GOOD } else { BAD }.filled())
    }))?;
    let style = ("sans-serif", 12).into_font().color(&BLACK);
    let value_style = style.pos(Pos::new(HPos::Left, VPos::Center));
    let name_style = style.pos(Pos::new(HPos::Right, VPos::Center));
    let digits = panel.digits;
    let (left, above) = area.get_base_pixel();
    for (bottom, bar) in bars {
        // Names stand outside of the coordinates of the chart.
        let (begin, middle) = chart.backend_coord(&(0.0, bottom + 0.5));
        let (end, _) = chart.backend_coord(&(bar.value, bottom + 0.5));
        let height = middle - above;
        area.draw(&Text::new(shorten(&bar.name), (begin - left - 8, height), name_style.clone()))?;
        let value = format!("{:.digits$}", bar.value);
        area.draw(&Text::new(value, (end - left + 4, height), value_style.clone()))?;
    }
    Ok(())
}

fn shorten(name: &str) -> String {
    if name.chars().count() > MAX_NAME_CHARS {
        name.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(names: &[(&str, f64)]) -> Panel {
        let bars = names.iter().map(|(name, value)| Bar { name: (*name).to_owned(), value: *value, is_good: true });
        Panel { title: "A title".to_owned(), axis: "ms".to_owned(), digits: 1, bars: bars.collect() }
    }

    #[test]
    fn names_and_values_are_drawn() {
        let svg = draw(&[panel(&[("one", 1.5), ("<two>", 0.0)]), panel(&[])]).unwrap();
        for part in ["A title", "one", "1.5", "&lt;two&gt;"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("<two>"));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_picture() {
        assert!(draw(&[]).unwrap().starts_with("<svg"));
        assert!(draw(&[panel(&[("zero", 0.0)])]).unwrap().contains("zero"));
    }

    #[test]
    fn the_name_of_the_file_says_the_format() {
        assert!(parse_plot_file("a.svg").is_ok() && parse_plot_file("b/a.html").is_ok());
        assert!(parse_plot_file("a.png").unwrap_err().contains(".svg"));
    }

    #[test]
    fn a_page_is_written_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.html");
        let file = parse_plot_file(path.to_str().unwrap()).unwrap();
        write(&file, "Title", &[panel(&[("one", 1.0)])]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<!doctype html>") && text.contains("<svg"), "{text}");
        let missing = parse_plot_file(folder.path().join("none/plot.svg").to_str().unwrap()).unwrap();
        assert!(write(&missing, "Title", &[]).unwrap_err().to_string().contains("cannot write the plot"));
    }
}
