//! An asynchronous tool, whose result arrives in parts.

use fumehood_guest::{ToolError, parts, tool};

/// Splits a Markdown text into its sections, and returns each section as a part of the result. Use it to read a long text piece
/// by piece.
#[tool(title = "Split into sections", read_only, idempotent, destructive = false, open_world = false)]
pub async fn sections(
    /// The Markdown text.
    text: String,
) -> Result<(), ToolError> {
    let mut section = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            send(&section).await;
            section.clear();
        }
        section.push_str(line);
        section.push('\n');
    }
    if !section.starts_with('#') {
        return Err(ToolError::invalid_arguments("the text has no heading; a heading starts with `#`"));
    }
    send(&section).await;
    Ok(())
}

async fn send(section: &str) {
    let section = section.trim();
    if !section.is_empty() {
        parts::send(section).await;
    }
}

fumehood_guest::export_async!(sections);

#[cfg(test)]
mod tests {
    use fumehood_guest::serde_json::json;
    use fumehood_guest::{Content, FailureKind, testing};
    use futures_executor::block_on;

    use super::sections;

    #[test]
    fn returns_each_section() {
        let arguments = json!({"text": "before\n# One\nFirst.\n\n# Two\nSecond."});
        let returned = block_on(testing::call_async::<sections>(&arguments));
        assert_eq!(returned, Ok(["before", "# One\nFirst.", "# Two\nSecond."].map(Content::text).to_vec()));
    }

    #[test]
    fn rejects_a_text_without_a_heading() {
        let error = block_on(testing::call_async::<sections>(&json!({"text": "plain"}))).unwrap_err();
        assert_eq!(error.kind(), FailureKind::InvalidArguments);
    }
}
