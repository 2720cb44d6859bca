//! The fenced blocks of the README and the pages of the book, for the tests that run them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The page, relative to the root of the repository.
    pub page: String,
    /// Number of the line with the fence that opens it.
    pub line: usize,
    /// The nearest heading before it, without `#`.
    pub heading: String,
    /// The language behind the fence, or an empty text.
    pub language: String,
    /// The lines between the fences, without the indentation of the fence.
    pub text: String,
}

impl Block {
    /// Returns page and line, for messages.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

/// Returns the root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the blocks of a page, in order.
///
/// # Errors
/// If the page cannot be read, or a fence is not closed.
pub fn blocks(page: &str) -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(root().join(page)).with_context(|| format!("cannot read {page}"))?;
    parse(page, &text)
}

/// Returns the blocks of the README, of the pages in `docs`, and of the pages in the root that users read.
///
/// # Errors
/// If a page cannot be read, or a fence is not closed.
pub fn all_blocks() -> Result<Vec<Block>> {
    let mut pages = vec!["README.md".to_owned(), "SECURITY.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    let blocks: Result<Vec<Vec<Block>>> = pages.iter().map(|page| blocks(page)).collect();
    Ok(blocks?.concat())
}

fn parse(page: &str, text: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut heading = "";
    let mut open: Option<(Block, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let indentation = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
                    page: page.to_owned(),
                    line: at + 1,
                    heading: heading.to_owned(),
                    language: language.trim().to_owned(),
                    text: String::new(),
                };
                open = Some((block, indentation));
            }
            (Some(_), Some(_)) => found.extend(open.take().map(|(block, _)| block)),
            (Some((block, indentation)), None) => {
                block.text.push_str(line.get(*indentation..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, None) if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "{page}: a fence is not closed");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_blocks_with_their_headings() {
        let text = "# A\n\n## B\n\n```sh\na\n\nb\n```\n\n1. c:\n\n   ```toml\n   [d]\n     e = 1\n   ```\n";
        let blocks = parse("p.md", text).unwrap();
        let parts: Vec<_> = blocks.iter().map(|it| (it.place(), &*it.heading, &*it.language, &*it.text)).collect();
        let expected = [("p.md:5".into(), "B", "sh", "a\n\nb\n"), ("p.md:13".into(), "B", "toml", "[d]\n  e = 1\n")];
        assert_eq!(parts, expected);
        assert!(parse("p.md", "```\n").is_err());
    }
}
