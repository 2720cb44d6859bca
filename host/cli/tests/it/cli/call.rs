//! `fumehood call`: the outcomes of calls in words, in JSON and as exit codes.

use expect_test::{Expect, expect};

use super::workbench::Workbench;

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    let mut all = vec!["call"];
    all.extend(arguments);
    expected.assert_eq(&bench.run(&all).shown());
}

#[test]
fn the_result_is_on_stdout_and_the_cost_on_stderr() {
    let bench = Workbench::new();
    bench.example("calculator");
    let ran = bench.run(&["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#]);
    assert_eq!(ran.code, 0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["result"], 8.0);
    assert!(ran.stderr.contains("fuel") && ran.stderr.lines().count() == 1, "{ran:?}");
}

#[test]
fn a_failing_tool_is_reported() {
    let bench = Workbench::new();
    bench.example("calculator");
    check(
        &bench,
        &["calculator.wasm", "divide", r#"{"a": 1, "b": 0}"#],
        expect![[r#"
            ── stderr
            error[tool_failed]: │ Division by zero
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 1
        "#]],
    );
    check(
        &bench,
        &["calculator.wasm", "evaluate", r#"{"expression": "1 + * 2"}"#],
        expect![[r#"
            ── stderr
            error[invalid_arguments]: │ at character 5: expected a number, a function or `(`, not `*`
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 1
        "#]],
    );
}

#[test]
fn without_a_tool_the_tools_are_listed() {
    let bench = Workbench::new();
    bench.example("calculator");
    check(
        &bench,
        &["calculator.wasm"],
        expect![[r#"
            ── stderr
            error: missing TOOL; calculator.wasm has: add, subtract, multiply, divide, evaluate
                Call one like this: `fumehood call calculator.wasm add '{…}'`; `fumehood inspect calculator.wasm` shows their arguments
            ── exit 2
        "#]],
    );
}

#[test]
fn an_unknown_tool_is_refused_with_those_that_there_are() {
    let bench = Workbench::new();
    bench.example("calculator");
    check(
        &bench,
        &["calculator.wasm", "launch"],
        expect![[r#"
        ── stderr
        error[unknown_tool]: unknown tool `launch`
          hint: the tools are: add, divide, evaluate, multiply, subtract
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &["calculator.wasm", ""],
        expect![[r#"
        ── stderr
        error[unknown_tool]: unknown tool ``
          hint: the tools are: add, divide, evaluate, multiply, subtract
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &["calculator.wasm", "calculator__launch"],
        expect![[r#"
        ── stderr
        error[unknown_tool]: unknown tool `launch`
          hint: the tools are: add, divide, evaluate, multiply, subtract
        ── exit 3
    "#]],
    );
}

#[test]
fn a_tool_is_found_by_its_own_name_and_by_its_full_name() {
    let bench = Workbench::new();
    bench.example("typed-greeter");
    let greeting = r#"{"name": "Ada", "formality": "casual"}"#;
    for name in ["greetings_greet", "typed-greeter__greetings_greet"] {
        let ran = bench.run(&["call", "typed-greeter.wasm", name, greeting]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Hi, Ada!\n"), "{ran:?}");
    }
}

#[test]
fn a_tool_whose_name_begins_like_its_component_is_found_too() {
    use fumehood_tests::contract::{Answer, ToolDescription};
    let bench = Workbench::new();
    bench.answering("a", &[ToolDescription::new("a__b"), ToolDescription::new("_c_")], Answer::Text(b"found"));
    for name in ["a__b", "a__a__b", "_c_", "a___c_"] {
        let ran = bench.run(&["call", "a.wasm", name]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "found\n"), "{name}: {ran:?}");
    }
}

#[test]
fn a_component_may_have_any_file_name() {
    let bench = Workbench::new();
    bench.example("calculator");
    for name in ["My Tool_v2 (1).wasm", "日本.wasm", "-.wasm", "a__b.wasm", "no-extension", "__.wasm"] {
        std::fs::copy(bench.path("calculator.wasm"), bench.path(name)).unwrap();
        let path = format!("./{name}");
        let ran = bench.run(&["call", &path, "add", r#"{"a": 1, "b": 2}"#]);
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        let ran = bench.run(&["call", &path, "nothing"]);
        assert!(ran.stderr.contains("the tools are: add, "), "{name}: {ran:?}");
    }
}

#[test]
fn progress_is_shown_on_stderr() {
    let bench = Workbench::new();
    bench.example("countdown");
    check(
        &bench,
        &["countdown.wasm", "countdown", r#"{"from": 2, "step_ms": 1}"#],
        expect![[r#"
            ── stdout
            {"from":2,"waited_ms":2}
            ── stderr
              50 % │ 1 of 2
                   │ 2
             100 % │ 2 of 2
                   │ 1
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 0
        "#]],
    );
}

#[test]
fn limits_stop_a_call() {
    let bench = Workbench::new();
    for name in ["spin", "sleep", "memory-bomb", "huge-result"] {
        bench.program(name);
    }
    check(
        &bench,
        &["spin.wasm", "run", "--timeout", "100ms"],
        expect![[r#"
            ── stderr
            error[deadline]: the tool did not finish within 100 ms and was stopped
              hint: ask for less work, or allow a longer deadline; raise the limit with `--timeout`
            [time] of 100.0 ms, [fuel] fuel, [memory] peak memory
            ── exit 4
        "#]],
    );
    check(
        &bench,
        &["sleep.wasm", "run", "--timeout", "100ms"],
        expect![[r#"
            ── stderr
            error[deadline]: the tool did not finish within 100 ms and was stopped
              hint: ask for less work, or allow a longer deadline; raise the limit with `--timeout`
            [time] of 100.0 ms, [fuel] fuel, [memory] peak memory
            ── exit 4
        "#]],
    );
    check(
        &bench,
        &["spin.wasm", "run", "--fuel", "1M"],
        expect![[r#"
            ── stderr
            error[fuel]: the tool used up its 1000000 units of fuel and was stopped
              hint: ask for less work, or allow more fuel; raise the limit with `--fuel`
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 4
        "#]],
    );
    check(
        &bench,
        &["memory-bomb.wasm", "run", "--memory", "1MiB"],
        expect![[r#"
            ── stderr
            error[memory]: the tool needs more than its 1.0 MiB of memory
              hint: ask for less, or allow more memory; raise the limit with `--memory`
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 4
        "#]],
    );
    check(
        &bench,
        &["huge-result.wasm", "run", "--max-output", "1KiB"],
        expect![[r#"
            ── stderr
            error[output_too_large]: the result is larger than 1.0 KiB, the maximum
              hint: ask for a smaller part of it; raise the limit with `--max-output`
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 4
        "#]],
    );
}

#[test]
fn small_limits_stop_the_call_and_not_the_description_before_it() {
    let bench = Workbench::new();
    bench.example("calculator");
    let add =
        |limit: [&str; 2]| bench.run(&["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#, limit[0], limit[1]]);
    for (limit, kind) in
        [(["--fuel", "10"], "fuel"), (["--memory", "64KiB"], "memory"), (["--max-output", "1B"], "output_too_large")]
    {
        let ran = add(limit);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error[{kind}]: ")), "{ran:?}");
    }
    assert_eq!(add(["--memory", "2GiB"]).code, 0);
}

#[test]
fn crashes_have_an_exit_code_of_their_own() {
    let bench = Workbench::new();
    bench.program("traps").program("recurse").program("exit");
    check(
        &bench,
        &["traps.wasm", "unreachable"],
        expect![[r#"
            ── stderr
            error[trap]: the tool crashed: it aborted (`unreachable`, which is how a panic ends)
                at │ abort
              hint: uncaught exceptions of a tool also end like this; its author should return an error instead
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 5
        "#]],
    );
    check(
        &bench,
        &["traps.wasm", "divide-by-zero"],
        expect![[r#"
            ── stderr
            error[trap]: the tool crashed: it divided an integer by zero
                at │ function 1
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 5
        "#]],
    );
    check(
        &bench,
        &["exit.wasm", "run", r#"{"fail": true}"#],
        expect![[r#"
            ── stderr
            error[trap]: the tool ended itself with exit code 1 instead of returning a result
            [time] of 10.00 s, [fuel] fuel, [memory] peak memory
            ── exit 5
        "#]],
    );
    assert_eq!(bench.run(&["call", "recurse.wasm", "run"]).code, 5);
}

#[test]
fn output_of_a_guest_is_not_its_result() {
    let bench = Workbench::new();
    bench.program("stdout-flood");
    let ran = bench.run(&["call", "stdout-flood.wasm", "run", "--timeout", "50ms", "--max-log", "100B"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{ran:?}");
    assert!(ran.stderr.starts_with(r#"stdout│ {"jsonrpc""#), "{ran:?}");
    assert!(ran.stderr.contains("more bytes were dropped"), "{ran:?}");
}

fn assert_record(bench: &Workbench, arguments: &[&str], code: i32, kind: Option<&str>) {
    let mut all = vec!["call", "--json"];
    all.extend(arguments);
    let ran = bench.run(&all);
    assert_eq!(ran.code, code, "{ran:?}");
    assert_eq!(ran.stderr, "", "with --json everything is in the record");
    assert_eq!(ran.stdout.lines().count(), 1, "one line, for a pipe");
    let record = ran.json();
    for field in ["id", "tool", "status", "content", "metadata"] {
        assert!(record.get(field).is_some(), "{field}: {record}");
    }
    for field in ["bytes", "truncated", "duration_ms", "deadline_ms", "fuel_used", "peak_memory"] {
        assert!(record["metadata"].get(field).is_some(), "{field}: {record}");
    }
    assert_eq!(record["status"], if kind.is_some() { "error" } else { "ok" });
    assert_eq!(record["error"]["kind"].as_str(), kind, "{record}");
}

#[test]
fn a_record_in_json_has_the_same_shape_however_the_call_ended() {
    let bench = Workbench::new();
    bench.example("calculator").program("spin").program("traps");
    assert_record(&bench, &["calculator.wasm", "add", r#"{"a": 3, "b": 5}"#], 0, None);
    assert_record(&bench, &["calculator.wasm", "divide", r#"{"a": 3, "b": 0}"#], 1, Some("tool_failed"));
    assert_record(&bench, &["calculator.wasm", "add"], 3, Some("invalid_arguments"));
    assert_record(&bench, &["calculator.wasm", "launch"], 3, Some("unknown_tool"));
    assert_record(&bench, &["spin.wasm", "run", "--timeout", "50ms"], 4, Some("deadline"));
    assert_record(&bench, &["traps.wasm", "unreachable"], 5, Some("trap"));
}

fn assert_error_record(bench: &Workbench, arguments: &[&str], code: i32, kind: &str, words: &str) {
    let ran = bench.run(&[&["call", "--json"], arguments].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (code, ""), "{ran:?}");
    let record = ran.json();
    for field in ["id", "tool", "status", "content", "metadata"] {
        assert!(record.get(field).is_some(), "{field}: {record}");
    }
    assert_eq!((&record["id"], &record["status"]), (&"call-1".into(), &"error".into()), "{record}");
    assert_eq!((&record["error"]["kind"], &record["metadata"]["fuel_used"]), (&kind.into(), &0.into()), "{record}");
    assert!(record["error"]["message"].as_str().unwrap().contains(words), "{record}");
}

#[test]
fn every_outcome_has_one_shape_in_json() {
    let bench = Workbench::new();
    bench.example("calculator").put("notes.txt", "Dear diary");
    assert_error_record(&bench, &["notes.txt", "run"], 6, "not_loaded", "cannot load notes.txt");
    assert_error_record(&bench, &["absent.wasm", "run"], 6, "not_loaded", "absent.wasm");
    assert_error_record(&bench, &["calculator.wasm"], 2, "usage", "missing TOOL");
    assert_error_record(
        &bench,
        &["calculator.wasm", "add", "--timeout", "0s"],
        2,
        "usage",
        "the deadline limit is zero",
    );
    assert_error_record(&bench, &["calculator.wasm", "add", "--timeout", "5"], 2, "usage", "invalid time `5`");
    assert_error_record(
        &bench,
        &["calculator.wasm", "add", "--memory", "64"],
        2,
        "usage",
        "`64` has no unit; expected, for example, `64MiB`, or `64B`",
    );
    assert_error_record(
        &bench,
        &["calculator.wasm", "add", "--frobnicate"],
        2,
        "usage",
        "unexpected argument '--frobnicate'",
    );
    assert_error_record(&bench, &["nothing", "run"], 2, "usage", "unknown component `nothing`");
    assert_error_record(&bench, &["calculator.wasm", "add", "a=1", "{}"], 2, "usage", "invalid argument `{}`");
}

#[test]
fn usage_errors_of_every_command_are_json_if_json_was_asked_for() {
    let bench = Workbench::new();
    for arguments in [&["--json", "frobnicate"][..], &["inspect", "--json"], &["run", "x", "--json", "--wall", "soon"]]
    {
        let ran = bench.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (2, ""), "{arguments:?} {ran:?}");
        let told = ran.json();
        assert_eq!((&told["status"], &told["error"]["kind"]), (&"error".into(), &"usage".into()), "{told}");
        assert!(!told["error"]["message"].as_str().unwrap().contains("Usage:"), "{told}");
    }
    let ran = bench.run(&["serve", "mcp", "--json", "--calls", "0"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "standard output is the protocol's: {ran:?}");
}

#[test]
fn arguments_may_be_a_word_each() {
    let bench = Workbench::new();
    bench.example("calculator").example("typed-greeter");
    let ran = bench.run(&["call", "calculator.wasm", "add", "a=3", "b=5"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"result\":8}\n"), "{ran:?}");
    let ran = bench.run(&["call", "typed-greeter.wasm", "greetings_greet", "name=42", "formality=casual"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Hi, 42!\n"), "a text stays one: {ran:?}");
    let ran = bench.run(&["call", "calculator.wasm", "add", "a=three", "b=5"]);
    assert_eq!(ran.code, 3, "the gate has the last word: {ran:?}");
}

#[test]
fn a_configured_tool_has_one_name() {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.put("fumehood.toml", "[tools.sums]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n");
    for arguments in
        [&["sums__add", r#"{"a": 3, "b": 5}"#][..], &["sums__add", "a=3", "b=5"], &["sums", "sums__add", "a=3", "b=5"]]
    {
        let ran = bench.run(&[&["call"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"result\":8}\n"), "{arguments:?}: {ran:?}");
    }
    let ran = bench.run(&["call", "other__add"]);
    assert!(ran.code == 2 && ran.stderr.contains("has no component `other`; it has: sums"), "{ran:?}");
}
