//! Rules about the README and the pages of the book.

use std::collections::BTreeMap;

use super::{fail_on, read, root};

/// Maximum number of words of the README.
const MAX_README_WORDS: usize = 700;
/// Turns that send a reader back to find out what is meant; CONTRIBUTING.md says what to write.
const PRIVATE: [&str; 16] = [
    "that of",
    "those of",
    "that which",
    "those which",
    "those that",
    "what is",
    "one that",
    "nobody",
    "whoever",
    "of its own",
    "of their own",
    "the same holds for",
    "all the same",
    "other than that",
    "for want of",
    "once more",
];
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

/// Returns the words of a text in lower case, with `x` in place of code.
fn words(text: &str) -> Vec<String> {
    let prose: String = text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
    let is_word = |c: char| c.is_alphabetic() || c == '\'';
    prose.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the number of private turns in a text.
fn count_private(words: &[String]) -> usize {
    let text = format!(" {} ", words.join(" "));
    PRIVATE.iter().map(|turn| text.matches(&format!(" {turn} ")).count()).sum()
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
        let words = words(&without_blocks(&text));
        let private = count_private(&words);
        all += words.len();
        all_private += private;
        let limit = if name == "README.md" { 0 } else { words.len().div_ceil(500) };
        if private > limit {
            broken.push(format!("{name}: {private} private turns in {} words; at most {limit}", words.len()));
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
