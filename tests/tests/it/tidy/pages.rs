//! Rules about the README and the pages of the book.

use std::collections::BTreeMap;

use fumehood_tests::prose::Prose;

use super::{fail_on, read, root};

/// Maximum number of words of the README.
const MAX_README_WORDS: usize = 700;
/// Minimum length of a text that may not stand in two pages, in bytes.
const MIN_REPEATED_BYTES: usize = 60;

/// Returns the pages of the book with their names, the README first.
fn pages() -> Vec<(String, String)> {
    let mut files = vec![root().join("README.md")];
    let pages = ["SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md"];
    files.extend(pages.map(|page| root().join(page)));
    files.extend(std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md") && !file.ends_with("SUMMARY.md"));
    files.iter().map(|file| (file.file_name().unwrap().display().to_string(), read(file))).collect()
}

/// Returns the text without blocks of code.
fn without_blocks(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Returns whether a paragraph is long enough to be a repetition. Pages on two languages may share a row of a table.
fn is_long(paragraph: &str) -> bool {
    paragraph.len() >= MIN_REPEATED_BYTES && !paragraph.starts_with('|')
}

/// Returns the paragraphs, list items and table rows of a text, each on one line.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in without_blocks(text).lines().map(str::trim) {
        is_new |= line.is_empty() || line.starts_with(['|', '#']) || line.starts_with("- ");
        match found.last_mut().filter(|_| !is_new) {
            Some(paragraph) => paragraph.extend([" ", line]),
            None => found.push(line.to_owned()),
        }
        is_new = line.is_empty() || line.starts_with('#');
    }
    found
}

#[test]
fn the_readme_is_one_page() {
    let words = read(&root().join("README.md")).split_whitespace().count();
    assert!(words <= MAX_README_WORDS, "the README has {words} words; at most {MAX_README_WORDS}: move some to docs/");
}

#[test]
fn pages_are_written_in_the_words_of_the_field() {
    let mut broken = Vec::new();
    let mut all = 0;
    let mut all_private = 0;
    for (name, text) in pages() {
        let prose = Prose::new(&without_blocks(&text));
        let words = prose.word_count();
        let turns = prose.private_turns();
        all += words;
        all_private += turns.len();
        let limit = if name == "README.md" { 0 } else { words.div_ceil(500) };
        if turns.len() > limit {
            broken.push(format!("{name}: {} private turns in {words} words, at most {limit}: {turns:?}", turns.len()));
        }
    }
    assert!(all_private * 1000 <= all, "{all_private} private turns in {all} words of all pages");
    fail_on("pages name people and things, not `that of`, `what is` or `nobody`", &broken);
}

#[test]
fn nothing_is_said_in_two_pages() {
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    let mut broken = Vec::new();
    for (name, text) in pages() {
        for paragraph in paragraphs(&text).into_iter().filter(|paragraph| is_long(paragraph)) {
            match said.get(&paragraph).filter(|page| **page != name) {
                Some(page) => broken.push(format!("{page} and {name}: {paragraph}")),
                None => drop(said.insert(paragraph, name.clone())),
            }
        }
    }
    fail_on("one page says it, and others link to it", &broken);
}
