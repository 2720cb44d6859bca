//! Bad command lines and bad arguments of calls: each is refused with a hint, before anything runs.

use expect_test::{Expect, expect};

use super::workbench::Workbench;

pub(crate) fn calculator() -> Workbench {
    let bench = Workbench::with_own_cache();
    bench.example("calculator");
    bench
}

pub(crate) fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    let mut all = vec!["call", "calculator.wasm", "add"];
    all.extend(arguments);
    expected.assert_eq(&bench.run(&all).shown());
}

#[test]
fn arguments_that_are_no_json_object_are_refused() {
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
        error: invalid argument `three and five`; expected NAME=VALUE pairs, or one JSON object
        ── exit 2
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
fn arguments_that_do_not_fit_the_schema_are_refused() {
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
            error[invalid_arguments]: /a: the name "a" is given twice
              hint: correct the arguments and call again; the tool did not run
            ── exit 3
        "#]],
    );
    check(
        &bench,
        &[""],
        expect![[r#"
        ── stderr
        error: invalid argument ``; expected NAME=VALUE pairs, or one JSON object
        ── exit 2
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
fn an_unreadable_file_of_arguments_is_refused() {
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
        error: the arguments from latin1.json are not UTF-8 text; expected a JSON object
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
fn a_bad_command_line_is_refused_before_any_file_is_touched() {
    let bench = Workbench::with_own_cache();
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
fn misspelt_options_and_files_are_suggested() {
    let bench = calculator();
    let ran = bench.run(&["call", "calculator.wasm", "add", "--alow-read", "./docs:/docs"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("'--allow-read'") && !ran.stderr.contains("without dashes"),
        "{ran:?}"
    );
    let ran = bench.run(&["inspect", "calculater.wasm"]);
    assert!(ran.code == 6 && ran.stderr.contains("; did you mean `calculator.wasm`?"), "{ran:?}");
}
