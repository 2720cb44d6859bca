//! Bad command lines and bad arguments: each is refused in words that help, before anything runs.

use expect_test::{Expect, expect};

use crate::workbench::Workbench;

fn calculator() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator");
    bench
}

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    let mut all = vec!["call", "calculator.wasm", "add"];
    all.extend(arguments);
    expected.assert_eq(&bench.run(&all).shown());
}

#[test]
fn arguments_that_are_not_an_object_of_json() {
    let bench = calculator();
    check(
        &bench,
        &[],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: at the top: expected the property "a" (number), which is missing
          at the top: expected the property "b" (number), which is missing
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &["three and five"],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: the text is not JSON: expected ident at line 1, column 2, between `t` and `hree and five`; write one JSON value and nothing else
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &[r#"{"a": 1,"#],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: the text is not JSON: the text ends while parsing an object at line 1, column 8, after `{"a": 1,`; write the rest, and close every string and bracket that was opened
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &["[1, 2]"],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: at the top: expected an object, given the array [1,2]
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
}

#[test]
fn arguments_that_do_not_fit_the_schema() {
    let bench = calculator();
    check(
        &bench,
        &[r#"{"a": "1", "b": 2}"#],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: /a: expected a number, given the string "1" (write 1 without quotes)
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &[r#"{"a": 1, "b": 2, "c": 3}"#],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: /c: no such property; the properties are "a", "b"
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &[r#"{"a": 1, "a": 2, "b": 3}"#],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: /a: the name "a" is given twice; give it once
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
    check(
        &bench,
        &[""],
        expect![[r#"
        ── stderr
        error[invalid_arguments]: the text is not JSON: the text ends while parsing a value at line 1, column 0; write one JSON value, `{}` if there are no arguments
          hint: correct the arguments and call again; the tool did not run
        ── exit 3
    "#]],
    );
}

#[test]
fn arguments_of_every_size_and_depth_are_answered() {
    let bench = calculator();
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let wide = format!(r#"{{"a": 1, "b": 2, "c": "{}"}}"#, "x".repeat(5 << 20));
    for text in [&deep, &wide] {
        let ran = bench.run_with_input(&["call", "calculator.wasm", "add", "-"], text.as_str());
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stderr.starts_with("error[invalid_arguments]: "), "{}", ran.stderr);
        assert!(ran.stderr.len() < 2000, "{} bytes of error", ran.stderr.len());
    }
    let endless = "x".repeat(17 << 20);
    let ran = bench.run_with_input(&["call", "calculator.wasm", "add", "-"], endless);
    expect![[r#"
        ── stderr
        error: the arguments from standard input are larger than 16.0 MiB
        ── exit 2
    "#]]
    .assert_eq(&ran.shown());
}

#[test]
fn arguments_come_from_a_file_or_from_stdin() {
    let bench = calculator();
    bench.put("good.json", r#"{"a": 1, "b": 2}"#);
    let from_file = bench.run(&["call", "calculator.wasm", "add", "--args-file", "good.json"]);
    let from_stdin = bench.run_with_input(&["call", "calculator.wasm", "add", "-"], "{\"a\": 1,\n\"b\": 2}\n");
    for ran in [from_file, from_stdin] {
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains('3'), "{ran:?}");
    }
    let ran = bench.run_with_input(&["call", "calculator.wasm", "add", "-"], "");
    assert_eq!(ran.code, 3, "nothing is not an empty object: {ran:?}");
}

#[test]
fn a_file_of_arguments_that_cannot_be_read() {
    let bench = calculator();
    bench.put("latin1.json", b"{\"a\": \"\xe4\"}");
    check(
        &bench,
        &["--args-file", "missing.json"],
        expect![[r#"
        ── stderr
        error: cannot read the arguments from missing.json: No such file or directory (os error 2)
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--args-file", "."],
        expect![[r#"
        ── stderr
        error: cannot read the arguments from .: Is a directory (os error 21)
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--args-file", "latin1.json"],
        expect![[r#"
        ── stderr
        error: the arguments from latin1.json are not UTF-8 text; give a JSON object
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["{}", "--args-file", "latin1.json"],
        expect![[r#"
            ── stderr
            error: the argument '[JSON|NAME=VALUE]...' cannot be used with '--args-file <FILE>'

            Usage: fumehood call [OPTIONS] COMPONENT TOOL [JSON|NAME=VALUE...]

            For more information, try '--help'.
            ── exit 2
        "#]],
    );
}

#[test]
fn limits_that_make_no_sense() {
    let bench = calculator();
    check(
        &bench,
        &["--timeout", "0s"],
        expect![[r#"
            ── stderr
            error: --timeout: the deadline limit is zero, so that no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--timeout", "fast"],
        expect![[r#"
        ── stderr
        error: invalid value 'fast' for '--timeout <TIME>': `fast` is not an amount of time; write a number and a unit, such as `250ms`, `2s` or `1m 30s`

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--timeout", "100000 years"],
        expect![[r#"
            ── stderr
            error: --timeout: the deadline limit is 100000years; this host gives at most 1day
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--memory", "0"],
        expect![[r#"
            ── stderr
            error: --memory: the memory limit is zero, so that no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--memory", "1TiB"],
        expect![[r#"
            ── stderr
            error: --memory: the memory limit is 1.0 TiB; this host gives at most 4.0 GiB
            ── exit 2
        "#]],
    );
}

#[test]
fn limits_that_are_no_amount_or_nothing() {
    let bench = calculator();
    check(
        &bench,
        &["--memory", "much"],
        expect![[r#"
        ── stderr
        error: invalid value 'much' for '--memory <BYTES>': `much` is not an amount of bytes; write a number and a unit, such as `512KiB` or `64MiB`

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--fuel", "0"],
        expect![[r#"
            ── stderr
            error: --fuel: the fuel limit is zero, so that no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--fuel", "-1"],
        expect![[r#"
            ── stderr
            error: invalid value '-1' for '--fuel <COUNT>': `-1` is not a count; write a whole number, with `k`, `M` or `G` for thousands, millions or billions

            For more information, try '--help'.
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--fuel", "99999999999999999999"],
        expect![[r#"
        ── stderr
        error: invalid value '99999999999999999999' for '--fuel <COUNT>': `99999999999999999999` is not a count; write a whole number, with `k`, `M` or `G` for thousands, millions or billions

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--max-output", "0"],
        expect![[r#"
            ── stderr
            error: --max-output: the output limit is zero, so that no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
}

#[test]
fn a_bad_command_line_is_found_before_anything_is_read_or_written() {
    let bench = Workbench::new();
    for arguments in [
        &["call", "missing.wasm", "add", "--timeout", "0s"][..],
        &["call", "missing.wasm", "add", "--args-file", "missing.json"],
        &["call"],
        &["inspect"],
        &["frobnicate"],
        &["inspect", "a", "b"],
        &["completions", "cmd"],
        &["demo", "--fast"],
        &[],
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "");
        assert!(!bench.cache().exists(), "{arguments:?}");
    }
}

#[test]
fn help_says_what_the_exit_codes_mean() {
    let bench = Workbench::new();
    for arguments in [&["--help"][..], &["call", "--help"], &["help", "call"]] {
        let ran = bench.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "130 "] {
            assert!(ran.stdout.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {}", ran.stdout);
        }
    }
    assert!(bench.run(&["--version"]).stdout.starts_with("fumehood "));
}

#[test]
fn a_command_alone_shows_help_whatever_the_environment_sets() {
    let bench = Workbench::new();
    let mut command = bench.command_without_trust(&[]);
    command.env("FUMEHOOD_CONFIG", "/nowhere/fumehood.toml");
    let ran = Workbench::run_command(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("Usage: fumehood") && ran.stderr.contains("selftest"), "{ran:?}");
}

#[test]
fn hidden_commands_are_nowhere_to_be_seen() {
    let bench = Workbench::new();
    let completions = bench.run(&["completions", "bash"]).stdout;
    let pages = bench.run(&["man"]).stdout;
    for hidden in ["compile-component", "run-worker", "end-with-parent"] {
        assert!(!completions.contains(hidden) && !pages.contains(hidden), "{hidden}");
        assert_eq!(bench.run(&["help", hidden]).code, 2, "{hidden}");
        assert_eq!(bench.run(&["--json", hidden]).code, 2, "{hidden}");
    }
}

#[test]
fn options_of_every_command_are_in_one_help() {
    let bench = Workbench::new();
    let help = |arguments: &[&str]| bench.run(arguments).stdout;
    assert!(help(&["--help"]).contains("--cache-size") && help(&["--help"]).contains("--isolation"));
    for arguments in [&["call", "--help"][..], &["log", "verify", "--help"], &["config", "check", "-h"]] {
        let shown = help(arguments);
        assert!(!shown.contains("--cache-size") && shown.contains("see `fumehood --help`"), "{arguments:?}: {shown}");
    }
    assert_eq!(bench.run(&["config", "--color", "never", "schema", "--no-cache"]).code, 0, "they are taken everywhere");
}

#[test]
fn every_command_has_a_manual_page() {
    let bench = Workbench::new();
    assert!(bench.run(&["man"]).stdout.contains(".TH fumehood 1"));
    let ran = bench.run(&["man", "pages"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    let page = std::fs::read_to_string(bench.path("pages/fumehood-log-verify.1")).unwrap();
    assert!(page.contains("without\\-key"), "{page}");
    assert!(bench.path("pages/fumehood-call.1").exists());
}

#[test]
fn every_shell_gets_its_completions() {
    let bench = Workbench::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = bench.run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        for word in ["fumehood", "inspect", "demo", "max-output"] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_cap_on_a_string_is_the_operators() {
    let bench = Workbench::new();
    bench.example("text");
    bench.put("long.json", format!(r#"{{"text": "{}"}}"#, "x".repeat(11_000)));
    let call = |component: &str, more: &[&str]| {
        bench.run(&[&["call", component, "statistics", "--args-file", "long.json"], more].concat())
    };
    let ran = call("text.wasm", &[]);
    assert!(ran.code == 3 && ran.stderr.contains("/text: expected a string of at most 10240 bytes"), "{ran:?}");
    assert_eq!(call("text.wasm", &["--max-string", "20KiB"]).code, 0);
    let ran = call("text.wasm", &["--max-string", "0"]);
    assert!(ran.code == 2 && ran.stderr.contains("--max-string: the string limit is zero"), "{ran:?}");
    let configured = |limits: &str| {
        let tool = "[tools.words]\ncomponent = \"text.wasm\"\napproval = \"off\"\n";
        bench.put("fumehood.toml", format!("[limits]\nstring = \"20KiB\"\n{tool}{limits}"));
        call("words", &["--trust-config"]).code
    };
    assert_eq!(configured(""), 0);
    assert_eq!(configured("limits.string = \"1KiB\"\n"), 3);
}
