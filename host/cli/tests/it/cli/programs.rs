//! Programs of `wasi:cli/command` and of WASI preview 1 on the command line, and in worker processes.

use expect_test::expect;
use fumehood::{Call, CallResult, Content, ErrorKind, Limits};
use serde_json::json;

use super::isolation::{PATIENCE, host, load, runtime};
use super::workbench::Workbench;

#[test]
fn programs_are_called_with_a_command_line() {
    let bench = Workbench::new();
    bench.program("preview1").program("command");
    for isolation in ["in-process", "process"] {
        let call = |arguments: &[&str]| bench.run(&[&["call", "--isolation", isolation], arguments].concat());
        let ran = call(&["preview1.wasm", "run", r#"args=["a", "--b c"]"#]);
        assert_eq!((ran.code, ran.stdout.trim_end()), (0, "preview1\na\n--b c"), "{ran:?}");
        let ran = call(&["preview1.wasm", "run", r#"{"args": ["c"], "stdin": "in"}"#]);
        assert_eq!((ran.code, ran.stdout.trim_end()), (0, "in"), "{ran:?}");
        let ran = call(&["preview1.wasm", "run", r#"args=["x42"]"#]);
        assert!(ran.code == 1 && ran.stderr.contains("the program ended with exit code 42: flood"), "{ran:?}");
        let ran = call(&["command.wasm", "run", "args=[]"]);
        assert!(ran.code == 1 && ran.stderr.contains("the program ended with exit code 1: it is closed"), "{ran:?}");
    }
}

#[test]
fn inspect_shows_a_program_and_its_schema() {
    let bench = Workbench::new();
    bench.program("preview1");
    let ran = bench.run(&["inspect", "preview1.wasm"]);
    let dialect = ran.stdout.lines().find(|line| line.contains("dialect")).unwrap_or_default();
    expect!["  dialect  a program of wasi:cli/command 0.2.12; its tool runs a command line"].assert_eq(dialect);
    assert!(ran.stdout.contains("wasi:cli/run@0.2.12#run") && ran.stdout.contains("args"), "{ran:?}");
    assert!(!ran.stdout.contains("wasi:sockets"), "{ran:?}");
}

/// The section of a program with named arguments. The program prints its arguments, or copies its input if the first is `c`.
fn named(approval: &str, line: &str, more: &str) -> String {
    format!(
        "[tools.program]\ncomponent = \"preview1.wasm\"\n{approval}[tools.program.command]\nname = \"print\"\n\
         description = \"Prints.\"\nline = {line}\n{more}\
         [tools.program.command.arguments.properties]\n\
         words = {{ type = \"array\", items = {{ type = \"string\" }} }}\nloud = {{ type = \"boolean\" }}\n\
         input = {{ type = \"object\" }}\n"
    )
}

#[test]
fn programs_have_named_arguments() {
    let bench = Workbench::new();
    bench.program("preview1");
    let line = r#"["a", { when = "loud", args = ["--loud"] }, "{words}"]"#;
    bench.put("fumehood.toml", named("approval = \"off\"\n", line, ""));
    for isolation in ["in-process", "process"] {
        let call = |arguments: &str| bench.run(&["call", "--isolation", isolation, "program", "print", arguments]);
        let ran = call(r#"{"words": ["a b", "c"], "loud": true}"#);
        assert_eq!((ran.code, ran.stdout.trim_end()), (0, "program\na\n--loud\na b\nc"), "{ran:?}");
        let ran = call(r#"{"words": ["a", "--b"]}"#);
        assert!(ran.code != 0 && ran.stderr.contains("`words` may not begin with `-`"), "{ran:?}");
        let ran = call(r#"{"args": ["a"]}"#);
        assert!(ran.code != 0 && ran.stderr.contains("args"), "{ran:?}");
    }
}

#[test]
fn the_output_of_a_program_is_json_with_a_schema() {
    let bench = Workbench::new();
    bench.program("preview1");
    let json = "stdin = \"{input}\"\noutput = \"json\"\noutput_schema = { required = [\"a\"] }\n";
    bench.put("fumehood.toml", named("approval = \"off\"\n", r#"["c"]"#, json));
    for isolation in ["in-process", "process"] {
        let call = |input: &str| {
            let arguments = format!(r#"{{"input": {input}}}"#);
            bench.run(&["--json", "call", "--isolation", isolation, "program", "print", &arguments])
        };
        let ran = call(r#"{"a": [1]}"#);
        assert!(ran.code == 0 && ran.stdout.contains(r#"{"type":"json","value":{"a":[1]}}"#), "{ran:?}");
        assert!(call(r#"{"b": 1}"#).stdout.contains(r#""kind":"bad_result""#));
    }
    let ran = bench.run(&["call", "program", "print", "{}"]);
    assert!(ran.code != 0 && ran.stderr.contains("is not one JSON value: it is empty"), "{ran:?}");
}

#[test]
fn exit_codes_that_are_no_failure_are_configured() {
    let bench = Workbench::new();
    bench.program("preview1");
    for isolation in ["in-process", "process"] {
        let call = |code: &str, success: &str| {
            bench.put("fumehood.toml", named("approval = \"off\"\n", &format!("[\"x{code}\"]"), success));
            bench.run(&["call", "--isolation", isolation, "program", "print", "{}"])
        };
        assert_eq!(call("3", "success = [0, 3]\n").code, 0);
        let ran = call("0", "success = [3]\n");
        assert!(ran.code == 1 && ran.stderr.contains("the program ended with exit code 0"), "{ran:?}");
        assert_eq!(call("4", "success = [0, 3]\n").code, 1);
    }
}

#[test]
fn an_approval_pins_the_command_line_of_a_program() {
    let bench = Workbench::new();
    bench.program("preview1");
    bench.put("fumehood.toml", named("", r#"["a"]"#, ""));
    let approved = bench.run(&["approve", "program", "--yes"]);
    assert!(approved.code == 0 && approved.stdout.contains(r#"command: ["a"]"#), "{approved:?}");
    assert_eq!(bench.run(&["call", "program", "print", "{}"]).code, 0);
    bench.put("fumehood.toml", named("", r#"["b"]"#, ""));
    let refused = bench.run(&["call", "program", "print", "{}"]);
    assert!(refused.code != 0 && refused.stderr.contains("approve"), "{refused:?}");
}

#[test]
fn a_malformed_command_line_is_reported_with_its_place() {
    let bench = Workbench::new();
    bench.program("preview1");
    bench.put("fumehood.toml", named("", r#"["{word}"]"#, ""));
    let ran = bench.run(&["config", "check"]);
    assert!(ran.stderr.contains("fumehood.toml:6:8: `{word}` names the parameter `word`"), "{ran:?}");
    bench.example("calculator");
    bench.put("fumehood.toml", named("", "[]", "").replace("preview1.wasm", "calculator.wasm"));
    let ran = bench.run(&["config", "check"]);
    assert!(ran.code != 0 && ran.stderr.contains("the component is no program"), "{ran:?}");
}

#[test]
fn programs_run_in_workers_as_in_the_host() {
    runtime().block_on(async {
        let host = host();
        let component = load(&host, "preview1").await;
        assert!(component.is_isolated());
        let limits = Limits::default().deadline(PATIENCE);
        let run = async |argument: &str| -> CallResult {
            host.call(Call::new("preview1__run", json!({"args": [argument], "stdin": "in"})).limits(limits)).await
        };
        assert_eq!(run("c").await.text().as_deref(), Some("in"));
        assert!(matches!(&run("n").await.outcome.unwrap()[..], [Content::Blob { .. }]));
        for (argument, kind) in [
            ("x7", ErrorKind::ToolFailed),
            ("o", ErrorKind::OutputTooLarge),
            ("m", ErrorKind::Memory),
            ("t", ErrorKind::Trap),
        ] {
            let result = run(argument).await;
            assert_eq!(result.error().map(|error| error.kind), Some(kind), "{result:?}");
        }
        let limits = limits.deadline(std::time::Duration::from_millis(200));
        for argument in ["s", "r", "e"] {
            let call = Call::new("preview1__run", json!({"args": [argument]})).limits(limits);
            let result = host.call(call).await;
            assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline), "{result:?}");
        }
        assert_eq!(run("c").await.text().as_deref(), Some("in"));
    });
}
