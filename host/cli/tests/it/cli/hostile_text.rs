//! Text of a guest never reaches a terminal raw, wherever it is printed.

use fumehood_tests::contract::{Answer, ToolDescription};

use super::workbench::{CommandOutput, Workbench};

/// Colours, a window title, the clipboard, a carriage return, C1 controls, right-to-left override, zero width.
const EVIL: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\u{1b}]52;c;aGk=\u{7}\rover\u{9b}31m\u{202e}txt\u{200b}\u{8}";

fn assert_clean(ran: &CommandOutput) {
    for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        let raw = text
            .chars()
            .find(|c| (c.is_control() && !['\n', '\t'].contains(c)) || ['\u{202e}', '\u{200b}', '\u{9b}'].contains(c));
        assert_eq!(raw, None, "{name}: {text:?}");
    }
}

/// Runs a command, and again with `--json`.
fn check(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    let plain = bench.run(arguments);
    assert_clean(&plain);
    let mut json = vec!["--json"];
    json.extend(arguments);
    let json = bench.run(&json);
    assert_clean(&json);
    json.json();
    assert_eq!(plain.code, json.code);
    plain
}

#[test]
fn in_a_result() {
    let bench = Workbench::new();
    bench.answering("text", &[ToolDescription::new("run")], Answer::Text(EVIL.as_bytes()));
    let ran = check(&bench, &["call", "text.wasm", "run"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("\\u{1b}[31mred"), "{ran:?}");
    bench.answering("bytes", &[ToolDescription::new("run")], Answer::Text(b"\xff\x1b[31m"));
    check(&bench, &["call", "bytes.wasm", "run"]);
}

#[test]
fn in_a_json_result_which_stays_json() {
    let bench = Workbench::new();
    bench.answering(
        "json",
        &[ToolDescription::new("run")],
        Answer::Json("{\r\"a\": \"\u{9b}31m\u{202e}\"}".as_bytes()),
    );
    let ran = check(&bench, &["call", "json.wasm", "run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["a"], "\u{9b}31m\u{202e}");
    bench.answering("bad", &[ToolDescription::new("run")], Answer::Json("{\"a\": \"\u{1b}[31m\"}".as_bytes()));
    assert_eq!(check(&bench, &["call", "bad.wasm", "run"]).code, 1);
}

#[test]
fn in_an_error() {
    let bench = Workbench::new();
    for kind in 0..4 {
        let message = format!("{EVIL}\nerror: forged");
        bench.answering("fails", &[ToolDescription::new("run")], Answer::Failure(kind, &message));
        let ran = check(&bench, &["call", "fails.wasm", "run"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(!ran.stderr.contains("\nerror:"), "a guest begins no line of ours: {ran:?}");
    }
}

#[test]
fn in_a_description() {
    let bench = Workbench::new();
    let schema = serde_json::json!({
        "type": "object",
        "description": EVIL,
        "properties": {
            EVIL: {"type": "string", "description": EVIL, "default": EVIL},
            "of": {"enum": [EVIL]},
            "is": {"const": EVIL},
        },
        "required": [EVIL],
    });
    let tool = ToolDescription { description: format!("{EVIL}\n\n{EVIL}"), ..ToolDescription::new("run") };
    let tool = tool.taking(&schema.to_string()).returning(&schema.to_string());
    bench.answering("described", &[tool], Answer::Nothing);
    let inspected = check(&bench, &["inspect", "described.wasm"]);
    assert_eq!(inspected.code, 0);
    let hidden = fumehood::sanitize::count_hidden(EVIL);
    // Twice in the description, and in each of the two schemas seven times: twice as a name and in `required`.
    let all = hidden * (2 + 2 * 7);
    let said = format!("{all} invisible or control characters in these texts are shown as escapes");
    assert!(inspected.stdout.contains(&said), "{said}: {}", inspected.stdout);
    assert_eq!(bench.run(&["--json", "inspect", "described.wasm"]).json()["sanitized"], all);
    // The message about invalid arguments names the properties.
    assert_eq!(check(&bench, &["call", "described.wasm", "run", r#"{"x": 1}"#]).code, 3);
}

#[test]
fn in_a_name_or_a_schema_that_is_refused() {
    let bench = Workbench::new();
    bench.answering("name", &[ToolDescription::new(EVIL)], Answer::Nothing);
    assert_eq!(check(&bench, &["inspect", "name.wasm"]).code, 6);
    let schema = serde_json::json!({"type": EVIL, "$ref": EVIL}).to_string();
    bench.answering("schema", &[ToolDescription::new("run").taking(&schema)], Answer::Nothing);
    assert_eq!(check(&bench, &["inspect", "schema.wasm"]).code, 6);
}

#[test]
fn in_the_names_of_its_producers() {
    let bench = Workbench::new();
    let mut component = fumehood_tests::component("count").unwrap();
    component.extend(producers(EVIL));
    bench.put("made.wasm", component);
    let ran = check(&bench, &["inspect", "made.wasm"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("language"), "{ran:?}");
}

/// Returns a custom section `producers` with this language.
fn producers(language: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    let body = [text("producers"), vec![1], text("language"), vec![1], text(language), text("1\u{1b}[0m")].concat();
    assert!(body.len() < 128, "its length is one byte");
    [&[0, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

#[test]
fn in_arguments_of_the_command_line() {
    let bench = Workbench::new();
    bench.example("calculator");
    let file = format!("evil{}.wasm", EVIL.replace('/', ""));
    std::fs::copy(bench.path("calculator.wasm"), bench.path(&file)).unwrap();
    assert_eq!(check(&bench, &["inspect", &file]).code, 0);
    assert_eq!(check(&bench, &["call", &file]).code, 2);
    assert_eq!(check(&bench, &["call", "calculator.wasm", EVIL]).code, 3);
    assert_eq!(check(&bench, &["call", "calculator.wasm", "add", EVIL]).code, 2);
    assert_eq!(check(&bench, &["inspect", EVIL]).code, 6);
    assert_eq!(check(&bench, &["call", "calculator.wasm", "add", "--args-file", EVIL]).code, 2);
}

fn call_failing_server(bench: &Workbench, variable: &str, more: &[&str]) -> CommandOutput {
    bench.run(&[&["mcp", "call", "--no-log", "--env", variable], more, &["t", "--", "sh", "server.sh"]].concat())
}

#[test]
fn in_a_failure_of_a_server() {
    let bench = Workbench::new();
    bench.put("server.sh", fumehood_tests::fake_server::SCRIPT);
    for on_call in [
        r#"answer '{"isError":true,"content":[{"type":"text","text":"a\u200b\nerror: forged \u001b[2J"}]}'"#,
        r#"fail -32000 'a\u200b\nerror: forged \u001b[2J'"#,
    ] {
        let variable = format!("ON_CALL={on_call}");
        let ran = call_failing_server(&bench, &variable, &[]);
        assert_clean(&ran);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("error[tool_failed]: │ "), "{ran:?}");
        assert!(ran.stderr.contains("│ error: forged"), "it stands behind the bar: {ran:?}");
        assert!(ran.stderr.contains("2 invisible or control characters from the tool are shown as escapes"), "{ran:?}");
        assert_eq!(call_failing_server(&bench, &variable, &["--json"]).json()["metadata"]["sanitized"], 2);
    }
}

#[test]
fn in_log_lines_and_output() {
    let bench = Workbench::new();
    bench.program("stdout-flood");
    let ran = bench.run(&["call", "stdout-flood.wasm", "run", "--timeout", "50ms", "--max-log", "300B"]);
    assert_clean(&ran);
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.contains("jsonrpc")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("stdout│ ")), "{ran:?}");
}
