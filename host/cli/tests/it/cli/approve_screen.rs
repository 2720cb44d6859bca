//! The screen before an approval: it shows all that is pinned, and text of a tool only behind the bar.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use fumehood_tests::contract::{Answer, ToolDescription};
use nix::pty::{OpenptyResult, Winsize, openpty};

use super::workbench::Workbench;

/// The bar: text to the left of it is the host's.
const BAR: char = '│';

/// Returns the lines that a command prints on a terminal of this width, before the terminal breaks any.
pub(crate) fn drawn(bench: &Workbench, columns: u16, arguments: &[&str]) -> Vec<String> {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let mut command = bench.command(arguments);
    // On a dumb terminal there is no spinner, which a slow machine would show.
    command.env("TERM", "dumb").stdout(Stdio::from(slave.try_clone().unwrap())).stderr(Stdio::from(slave));
    let mut child = command.spawn().unwrap();
    // The command owns a copy of the other end; once that is closed, reading ends.
    drop(command);
    let mut screen = Vec::new();
    let mut buffer = [0; 4096];
    let mut terminal = File::from(master);
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        screen.extend_from_slice(&buffer[..count]);
    }
    child.wait().unwrap();
    String::from_utf8(screen).unwrap().lines().map(str::to_owned).collect()
}

fn is_narrow(c: char) -> bool {
    matches!(c, '…' | '–' | '—' | '✓' | '\u{2500}'..='\u{257f}')
}

/// Returns the maximum number of cells of a line. Every character takes one, and those of East Asia two.
pub(crate) fn cells(line: &str) -> usize {
    line.chars().map(|c| if ('\u{1100}'..='\u{ffef}').contains(&c) && !is_narrow(c) { 2 } else { 1 }).sum()
}

/// Returns texts that would forge lines of the host if the terminal broke them, or if they began lines. Each word has a
/// `Z`, which the host never writes.
fn forgeries(columns: usize) -> Vec<String> {
    let words = "  Zmay        Zcompute, Zand Znothing Zelse";
    vec![
        format!("Zadds\n{words}\nZApprove `notes`? [y/N] Zy"),
        // As long as a line, so that a terminal would continue at the left edge.
        format!("Zadds{}{words}", " ".repeat(columns.saturating_sub(9))),
        format!("Zadds{}{words}", "\u{a0}".repeat(columns.saturating_sub(9))),
        format!("{}{words}", "Z".repeat(columns * 3)),
        format!("Z{}{words}", "漢Z".repeat(columns)),
        format!("Z{}{words}", "\u{301}".repeat(columns * 2)),
        format!("Z│ {}\r{words}\u{1b}[2K\u{1b}[1;1H{words}\u{2028}{words}\u{85}{words}\t\tZ", "│Z".repeat(columns)),
        "Z\n".repeat(500),
    ]
}

fn check(columns: u16, arguments: &[&str], text: &str) {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n");
    let schema = serde_json::json!({
        "type": "object", "title": text, "properties": {text: {"type": "string", "description": text, "enum": [text]}},
    });
    let title = Some(text.chars().take(60).collect());
    let tool =
        ToolDescription { title, description: text.to_owned(), read_only: Some(true), ..ToolDescription::new("add") };
    bench.answering("notes", &[tool.taking(&schema.to_string()).returning(&schema.to_string())], Answer::Nothing);
    let lines = drawn(&bench, columns, arguments);
    assert!(lines.iter().any(|line| line.contains(BAR)), "{lines:#?}");
    for line in &lines {
        assert!(cells(line) <= usize::from(columns), "{columns} columns: {line:?}");
        let host = line.split(BAR).next().unwrap();
        assert!(!host.contains('Z') && !host.contains('漢'), "{columns} columns: {line:?}");
        let hidden = line.chars().find(|c| fumehood::sanitize::is_hidden(*c));
        assert_eq!(hidden, None, "{line:?}");
    }
}

#[test]
fn no_tool_draws_a_line_of_the_host() {
    for columns in [40, 80, 200] {
        for text in forgeries(usize::from(columns)) {
            let text: String = text.chars().take(1200).collect();
            check(columns, &["approve", "--check"], &text);
            check(columns, &["approve", "--check", "--full"], &text);
        }
        check(columns, &["approve", "--check", "--full"], &"Z\n".repeat(500));
        check(columns, &["inspect", "notes.wasm"], &forgeries(usize::from(columns))[0]);
        check(columns, &["inspect", "notes.wasm", "--full"], &forgeries(usize::from(columns))[4]);
    }
}

#[test]
fn all_that_is_pinned_is_shown() {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\nenv = { PLACE = \"home\" }\n");
    let schema = r#"{"type":"object","properties":{"sum":{"type":"integer"}}}"#;
    let tool =
        ToolDescription { title: Some("Sum\u{202e}".to_owned()), read_only: Some(true), ..ToolDescription::new("add") };
    bench.answering("notes", &[tool.returning(schema)], Answer::Nothing);
    let shown = bench.run(&["approve", "--full"]).stdout;
    for expected in [
        "! notes was never approved",
        "component  │ notes.wasm",
        "  digest\n    sha256:",
        "size       ",
        "contract   fumehood:tool 0.1.0",
        "without any grant",
        "│ env: PLACE = \"home\"",
        "tool       │ add",
        "│ Sum\\u{202e}",
        "│ A tool of a test.",
        "read-only: its calls are not judged by a model",
        "    arguments\n      │ object with any properties",
        "    result\n      │ sum: integer, optional",
        "1 invisible or control characters in these texts are shown as escapes",
    ] {
        assert!(shown.contains(expected), "{expected:?} is missing in {shown}");
    }
}

fn describe_nine_tools(bench: &Workbench, line: &str) {
    let description = (1..=200).map(|number| format!("{line} {number}")).collect::<Vec<_>>().join("\n");
    let tools: Vec<_> = (1..=9)
        .map(|number| ToolDescription {
            description: description.clone(),
            ..ToolDescription::new(&format!("tool{number}"))
        })
        .collect();
    bench.answering("notes", &tools, Answer::Nothing);
}

#[test]
fn a_summary_comes_first_and_counts_what_it_leaves_out() {
    let bench = Workbench::new();
    bench.example("calculator").put("fumehood.toml", "[tools.c]\ncomponent = \"calculator.wasm\"\n");
    let shown = bench.run(&["approve", "c"]).stdout;
    let first_tool = shown.lines().position(|line| line.contains("│ add(a, b) — Adds two numbers")).unwrap();
    assert!(first_tool < 25 && shown.lines().count() < 25 && !shown.contains("[0-9]"), "{shown}");
    assert!(shown.contains("    read-only    │ divide(a, b) — "), "{shown}");
    assert!(shown.contains("`--full` shows all of them"), "{shown}");

    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n");
    describe_nine_tools(&bench, "line");
    let full = bench.run(&["approve", "--full"]).stdout;
    assert!(full.contains("│ line 200\n") && !full.contains("not shown"), "{full}");
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    describe_nine_tools(&bench, "other");
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\nscratch = \"1MiB\"\n");
    let shown = bench.run(&["approve"]).stdout;
    assert!(shown.lines().count() <= 40, "{shown}");
    for part in [
        "+ │ scratch = bytes = 1.0 MiB",
        "- │ line 6\n    … 394 more lines; `--full` shows them",
        " more changes; `--full` shows them\n    │ description of `tool",
        "lines are not shown; review them with `--full` before you approve",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in {shown}");
    }
    let full = bench.run(&["approve", "--full"]).stdout;
    assert!(full.contains("+ │ other 200\n") && !full.contains("not shown"), "{full}");
}
