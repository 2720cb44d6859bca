//! The page *Quick start*, followed word by word: its commands give the outputs that it shows.

use fumehood_tests::fake_server;
use fumehood_tests::markdown::{Block, blocks};
use regex::Regex;

use super::author::root;
use super::author_languages::{skipped, toolchain};
use super::published::unwrapped;
use super::shell::{BlockOutcome, Shell};
use super::workbench::Workbench;

const PAGE: &str = "docs/quick-start.md";
/// The section that `release/test-packages` runs.
const INSTALL: &str = "1. Install";
/// Questions of the block that trusts and approves: one for the file, one for the component, two for the server.
const QUESTIONS: usize = 4;
/// Lines that are refused, and their exit codes.
const REFUSED: [(&str, i32); 2] =
    [("fumehood call calculator.wasm add a=three b=5", 3), ("fumehood call files.wasm read path=/docs/rules.txt", 1)];
/// The tools of the server that the page uses.
const TIME_TOOLS: &str = r#"TOOLS='[{"name":"convert_time","description":"Convert time between timezones","inputSchema":{"type":"object"}},{"name":"get_current_time","description":"Get current time in a specific timezone","inputSchema":{"type":"object"}}]'"#;

/// Returns a text without values that differ between runs and machines, and without breaks of lines.
fn steady(text: &str) -> String {
    let replacements = [
        (r"[0-9a-f]{6,}…?", "N"),
        (r"\d[\d.,:]*", "N"),
        (r"N *(µs|ms|s)\b", "T"),
        (r"N *([kMG]) fuel", "N fuel"),
        (r"fuel N [kMG]\b", "fuel N"),
        (r"N *([KMG]i)?B\b", "N B"),
        ("…", " … "),
    ];
    let text = replacements.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    });
    unwrapped(&text)
}

/// Checks that the page shows lines that were printed. `…` stands for anything.
fn check_output(block: &Block, printed: &BlockOutcome) {
    let printed = steady(&printed.output);
    for line in block.text.lines().map(steady) {
        let parts: Vec<String> = line.split('…').map(regex::escape).collect();
        let is_printed = Regex::new(&parts.join(".*")).unwrap().is_match(&printed);
        assert!(is_printed, "{}: {line:?} is not in {printed:?}", block.place());
    }
}

/// Returns the entry for a client that a text has, without the folders of its paths.
fn entry(text: &str) -> String {
    let (_, entry) = text.split_once('{').unwrap();
    let (entry, _) = entry.rsplit_once('}').unwrap();
    let entry: serde_json::Value = serde_json::from_str(&format!("{{{entry}}}")).unwrap();
    Regex::new(r#""/[^"]*/"#).unwrap().replace_all(&entry.to_string(), "\"").into_owned()
}

#[test]
fn the_quick_start_is_followed_word_by_word() {
    let folder = match toolchain("python") {
        Ok(folder) => folder,
        Err(why) => return skipped("Python", &why),
    };
    let bench = Workbench::new();
    let mut shell = Shell::new(&bench, &[]);
    shell.put_program("mcp-server-time", &format!("{TIME_TOOLS}\n{}", fake_server::SCRIPT));
    // A Python that makes environments in which the compiler is installed already.
    let compiler = folder.join("bin/componentize-py");
    shell.put_program(
        "python3",
        &format!("mkdir -p .venv/bin && ln -s {compiler:?} .venv/bin/ && ln -s \"$0-pip\" .venv/bin/pip\n"),
    );
    shell.put_program("python3-pip", "[ \"$1 ${2%%=*}\" = 'install componentize-py' ]\n");
    let mut printed = None;
    for block in blocks(PAGE).unwrap().iter().filter(|block| block.heading != INSTALL) {
        match block.language.as_str() {
            "sh" => {
                let text = block.text.replace("CHECKOUT", root().to_str().unwrap());
                let typed = shell.type_in(&text, if text.contains("fumehood approve\n") { QUESTIONS } else { 0 });
                let code =
                    |line: &str| REFUSED.iter().find(|(refused, _)| *refused == line).map_or(0, |(_, code)| *code);
                assert_eq!(typed.codes, text.lines().map(code).collect::<Vec<_>>(), "{}: {typed:#?}", block.place());
                printed = Some(typed);
            }
            "toml" => std::fs::write(shell.path("fumehood.toml"), &block.text).unwrap(),
            "json" => assert_eq!(entry(&printed.as_ref().unwrap().output), entry(&block.text), "{}", block.place()),
            "text" => check_output(block, printed.as_ref().unwrap()),
            other => panic!("{}: nothing runs {other:?}", block.place()),
        }
    }
}
