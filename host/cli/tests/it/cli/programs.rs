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
