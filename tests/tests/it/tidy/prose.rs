//! Rules about doc comments, and about names of constants and tests.

use fumehood_tests::named::tests;

use super::{all_sources, fail_on};

/// Words that begin a question instead of a description.
const QUESTIONS: [&str; 9] = ["What", "Which", "Why", "How", "Who", "Whoever", "Whether", "Where", "When"];

/// Maximum length of a test's name, in bytes.
const MAX_TEST_NAME: usize = 100;

/// Returns the text of a doc comment's first line, if this line is one.
fn first_doc_line<'a>(before: Option<&str>, line: &'a str) -> Option<&'a str> {
    let doc = |line: &'a str| line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
    let is_doc = |line: &str| line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
    if before.is_some_and(is_doc) { None } else { doc(line.trim_start()) }
}

#[test]
fn doc_comments_begin_with_no_question_word() {
    let mut broken = Vec::new();
    for (name, text) in all_sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| lines[before]);
            let Some(first) = first_doc_line(before, line) else { continue };
            let word = first.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if QUESTIONS.contains(&word) {
                broken.push(format!("{name}:{}: {first}", at + 1));
            }
        }
    }
    fail_on("doc comments begin with a verb phrase or a noun phrase", &broken);
}

#[test]
fn constants_have_standard_names() {
    let prefixes = ["MOST", "LONGEST", "LARGEST", "USUAL", "FEWEST", "LEAST", "DEEPEST"];
    let mut broken = Vec::new();
    for (name, text) in all_sources() {
        for (at, line) in text.lines().enumerate() {
            let code = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let constant = code.trim_start_matches("pub ").strip_prefix("const ").unwrap_or_default();
            let first = constant.split(['_', ':']).next().unwrap_or_default();
            if prefixes.contains(&first) {
                broken.push(format!("{name}:{}: {constant}", at + 1));
            }
        }
    }
    fail_on("constants begin with MAX_, MIN_ or DEFAULT_", &broken);
}

#[test]
fn tests_are_named_by_behaviour() {
    let is_numbered = |name: &str| {
        let number = name.split('_').next().and_then(|item| item.get(1..)).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut broken = Vec::new();
    for name in tests().unwrap() {
        if is_numbered(&name) {
            broken.push(format!("{name}: numbers of a specification stand in its table"));
        }
        if name.len() > MAX_TEST_NAME {
            broken.push(format!("{name}: {} characters; at most {MAX_TEST_NAME}", name.len()));
        }
    }
    fail_on("tests are named by behaviour", &broken);
}
