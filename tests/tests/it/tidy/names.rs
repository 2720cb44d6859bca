//! Rules about names of constants and tests.

use fumehood_tests::named::tests;

use super::{all_sources, fail_on};

/// Maximum length of a test's name, in bytes.
const MAX_TEST_NAME: usize = 100;

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

fn is_numbered(name: &str) -> bool {
    let number = name.split('_').next().and_then(|item| item.get(1..)).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}
