//! Bar and line charts: an image for whoever reads the result, and a page on which clients show it.

mod svg;

use fumehood_guest::schemars::schema_for;
use fumehood_guest::serde_json::{Value, to_value};
use fumehood_guest::{Blob, Content, Definition, Tool, ToolError, resource, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of a label or title in the image, in characters.
const MAX_LABEL_CHARS: usize = 60;

/// The form of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A bar for each value.
    #[default]
    Bar,
    /// A line through all values.
    Line,
}

/// A chart, as it was drawn.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Chart {
    /// The form.
    pub kind: Kind,
    /// The title.
    pub title: String,
    /// The labels, one for each value.
    pub labels: Vec<String>,
    /// The values.
    pub values: Vec<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// Draws a bar or line chart of some numbers. The user sees the chart; you get its values.
#[tool(title = "Draw a chart", read_only, idempotent, destructive = false, open_world = false)]
pub fn draw(
    /// The title above the chart.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// A label for each value, in order.
    #[schemars(length(min = 1, max = 100))]
    labels: Vec<String>,
    /// The values, as many as there are labels.
    #[schemars(length(min = 1, max = 100))]
    values: Vec<f64>,
    /// `bar` for amounts of separate things, `line` for a course over time.
    #[default]
    kind: Kind,
) -> Result<Vec<Content>, ToolError> {
    let chart = Chart::new(kind, &title, &labels, values)?;
    let image = Blob { mime_type: "image/svg+xml".to_owned(), data: svg::image(&chart).into_bytes() };
    Ok(vec![Content::Blob(image), Content::Json(to_value(&chart).map_err(ToolError::failed)?)])
}

impl Chart {
    fn new(kind: Kind, title: &str, labels: &[String], values: Vec<f64>) -> Result<Self, ToolError> {
        if labels.len() != values.len() {
            let why = format!("there are {} labels and {} values; give as many of each", labels.len(), values.len());
            return Err(ToolError::invalid_arguments(why));
        }
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !(max - min).is_finite() {
            return Err(ToolError::invalid_arguments("the values are too far apart to be drawn"));
        }
        let labels = labels.iter().map(|label| cut(label)).collect();
        Ok(Self { kind, title: cut(title), labels, values, min, max })
    }
}

/// Returns at most [`MAX_LABEL_CHARS`] of a text.
fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_LABEL_CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(MAX_LABEL_CHARS - 1).collect();
    format!("{begin}…")
}

/// The tool `draw` with a schema of its values: beside the image, its result has one JSON value.
#[derive(Debug)]
pub struct DrawTool;

impl Tool for DrawTool {
    const NAME: &'static str = <draw as Tool>::NAME;

    fn definition() -> Definition {
        Definition { output_schema: Some(Value::from(schema_for!(Chart))), ..draw::definition() }
    }

    fn call(arguments: &str) -> Result<Vec<Content>, ToolError> {
        draw::call(arguments)
    }
}

/// Shows the chart that `draw` drew.
#[resource(uri = "ui://chart/view", title = "Chart", tools("draw"), prefers_border)]
pub fn view() -> &'static str {
    include_str!("view.html")
}

fumehood_guest::export!(DrawTool; resources: view);

#[cfg(test)]
mod tests {
    use fumehood_guest::serde_json::json;
    use fumehood_guest::{Contents, FailureKind, Resource as _, testing};

    use super::*;

    #[test]
    fn draws_an_image_and_returns_the_values() {
        let arguments = json!({"title": "<b>", "labels": ["a", "b"], "values": [1, -2.5]});
        let parts = testing::call::<DrawTool>(&arguments).unwrap();
        let [Content::Blob(image), Content::Json(values)] = parts.as_slice() else { panic!("{parts:?}") };
        let expected = json!({
            "kind": "bar", "title": "<b>", "labels": ["a", "b"], "values": [1.0, -2.5], "min": -2.5, "max": 1.0
        });
        assert_eq!((values, image.mime_type.as_str()), (&expected, "image/svg+xml"));
        let image = String::from_utf8(image.data.clone()).unwrap();
        assert!(image.contains("&lt;b&gt;") && !image.contains("<b>"), "{image}");
    }

    #[test]
    fn refuses_what_cannot_be_drawn() {
        let refused = |arguments| testing::call::<DrawTool>(&arguments).unwrap_err();
        let error = refused(json!({"title": "t", "labels": ["a"], "values": [1, 2]}));
        assert_eq!(error.kind(), FailureKind::InvalidArguments);
        assert!(error.message().contains("1 labels and 2 values"), "{error}");
        let error = refused(json!({"title": "t", "labels": ["a", "b"], "values": [1e308, -1e308]}));
        assert!(error.message().contains("too far apart"), "{error}");
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!((cut("ä").as_str(), cut(&"ä".repeat(61)).chars().count()), ("ä", 60));
    }

    #[test]
    fn the_page_loads_nothing_and_parses_no_data_as_html() {
        let Contents::Text(page) = testing::read_resource::<view>().unwrap() else { panic!() };
        assert_eq!(view::definition().page.unwrap().tools, [DrawTool::NAME]);
        for part in ["ui/initialize", "ui/notifications/initialized", "ui/notifications/tool-result", "textContent"] {
            assert!(page.contains(part), "the page has no `{part}`");
        }
        for part in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " src=", "@import", "url("]
        {
            assert!(!page.contains(part), "the page has `{part}`");
        }
    }
}
