//! Limits on the command line and in the configuration, and the messages for those that are refused.

use expect_test::expect;

use super::arguments::{calculator, check};
use super::workbench::{CommandOutput, Workbench};

#[test]
fn limits_of_zero_or_above_the_ceiling_are_refused() {
    let bench = calculator();
    check(
        &bench,
        &["--timeout", "0s"],
        expect![[r#"
            ── stderr
            error: --timeout: the deadline limit is zero, so no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--timeout", "fast"],
        expect![[r#"
        ── stderr
        error: invalid value 'fast' for '--timeout <TIME>': invalid time `fast`; expected a number with a unit, such as `250ms`, `2s` or `1m 30s`

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--timeout", "100000 years"],
        expect![[r#"
            ── stderr
            error: --timeout: the deadline limit is 100000years, but the maximum of this host is 1day
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--memory", "0"],
        expect![[r#"
            ── stderr
            error: --memory: the memory limit is zero, so no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--memory", "1TiB"],
        expect![[r#"
            ── stderr
            error: --memory: the memory limit is 1.0 TiB, but the maximum of this host is 4.0 GiB
            ── exit 2
        "#]],
    );
}

#[test]
fn limits_that_are_no_amount_are_refused() {
    let bench = calculator();
    check(
        &bench,
        &["--memory", "much"],
        expect![[r#"
        ── stderr
        error: invalid value 'much' for '--memory <BYTES>': invalid size `much`; expected a number with a unit, such as `512KiB` or `64MiB`

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--fuel", "0"],
        expect![[r#"
            ── stderr
            error: --fuel: the fuel limit is zero, so no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--fuel", "-1"],
        expect![[r#"
            ── stderr
            error: invalid value '-1' for '--fuel <COUNT>': invalid count `-1`; expected a whole number, such as `500`, or with `k`, `M` or `G` for thousands, millions or billions

            For more information, try '--help'.
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &["--fuel", "99999999999999999999"],
        expect![[r#"
        ── stderr
        error: invalid value '99999999999999999999' for '--fuel <COUNT>': invalid count `99999999999999999999`; expected a whole number, such as `500`, or with `k`, `M` or `G` for thousands, millions or billions

        For more information, try '--help'.
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["--max-output", "0"],
        expect![[r#"
            ── stderr
            error: --max-output: the output limit is zero, so no call could succeed; leave it out for the default
            ── exit 2
        "#]],
    );
}

fn call_with_long_text(bench: &Workbench, component: &str, more: &[&str]) -> CommandOutput {
    bench.run(&[&["call", component, "statistics", "--args-file", "long.json"], more].concat())
}

fn call_with_limits(bench: &Workbench, limits: &str) -> i32 {
    let tool = "[tools.words]\ncomponent = \"text.wasm\"\napproval = \"off\"\n";
    bench.put("fumehood.toml", format!("[limits]\nstring = \"20KiB\"\n{tool}{limits}"));
    call_with_long_text(bench, "words", &["--trust-config"]).code
}

#[test]
fn the_operator_sets_the_limit_on_a_string() {
    let bench = Workbench::new();
    bench.example("text");
    bench.put("long.json", format!(r#"{{"text": "{}"}}"#, "x".repeat(11_000)));
    let ran = call_with_long_text(&bench, "text.wasm", &[]);
    assert!(ran.code == 3 && ran.stderr.contains("/text: expected a string of at most 10240 bytes"), "{ran:?}");
    assert_eq!(call_with_long_text(&bench, "text.wasm", &["--max-string", "20KiB"]).code, 0);
    let ran = call_with_long_text(&bench, "text.wasm", &["--max-string", "0"]);
    assert!(ran.code == 2 && ran.stderr.contains("--max-string: the string limit is zero"), "{ran:?}");
    assert_eq!(call_with_limits(&bench, ""), 0);
    assert_eq!(call_with_limits(&bench, "limits.string = \"1KiB\"\n"), 3);
}
