//! Powers on the command line: what was typed is granted, and nothing else.

use expect_test::{Expect, expect};

use crate::workbench::Workbench;

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

#[test]
fn a_tool_sees_the_variables_and_arguments_that_were_typed() {
    let bench = Workbench::new();
    bench.program("env-dump");
    let given = bench.run(&["call", "env-dump.wasm", "variables", "--env", "A=1=2", "--env", "B="]);
    let nothing = bench.run(&["call", "env-dump.wasm", "variables"]);
    assert!(given.stdout.contains("1=2") && !nothing.stdout.contains("1=2"), "{given:?} {nothing:?}");
}

#[test]
fn what_cannot_be_granted_is_refused_before_anything_is_loaded() {
    let bench = Workbench::new();
    bench.program("count");
    let call = ["call", "count.wasm", "count"];
    let with = |flags: &[&'static str]| [&call, flags].concat();
    check(&bench, &with(&["--allow-read", "./docs", "--allow-http", "GET https://*/**", "--clock", "0s"]), expect![]);
    check(&bench, &with(&["--allow-read", "./docs:/docs"]), expect![]);
    check(&bench, &with(&["--env", "A"]), expect![]);
    check(
        &bench,
        &with(&["--secret", "name='t', from={env='FUMEHOOD_ABSENT'}, for='https://a.example/**', header='X-Key'"]),
        expect![],
    );
    check(&bench, &with(&["--allow-private", "10.0.0.1"]), expect![]);
    check(&bench, &with(&["--key-value-store", "a.db"]), expect![]);
}

#[test]
fn the_configuration_itself_is_out_of_reach() {
    let bench = Workbench::new();
    bench.program("count").put("fumehood.toml", "[tools.a]\ncomponent = \"count.wasm\"\nread = [\".:/all\"]\n");
    let refused = bench.run(&["call", "a", "count"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("where the host keeps its own files"), "{refused:?}");
}

#[test]
fn strict_imports_refuse_a_component_that_asks_for_more() {
    let bench = Workbench::new();
    bench.program("request").program("count");
    check(&bench, &["call", "request.wasm", "get", "--strict-imports"], expect![]);
    assert_eq!(bench.run(&["call", "count.wasm", "count", "--strict-imports"]).code, 0);
}

#[test]
fn what_a_tool_keeps_is_kept_where_it_was_said() {
    let bench = Workbench::new();
    bench.put("it.wasm", fumehood_tests::contract("act-in-describe").unwrap());
    let look =
        |flags: &[&'static str]| bench.run(&[&["call", "it.wasm", "look", "--key-value", "64KiB"], flags].concat());
    let said = |flags: &[&'static str]| look(flags).stdout.trim().to_owned();
    assert_eq!((said(&[]).as_str(), said(&[]).as_str()), ("new", "new"), "gone after the call");
    let kept = ["--key-value-store", "it.db"];
    assert_eq!((said(&kept).as_str(), said(&kept).as_str()), ("new", "kept"));
}

#[test]
fn a_configured_component_has_its_powers_from_there_alone() {
    let bench = Workbench::new();
    bench.put("it.wasm", fumehood_tests::contract("act-in-describe").unwrap());
    let configuration = "key_value_store = \"kept.db\"\n[tools.it]\ncomponent = \"it.wasm\"\nkey_value = \"64KiB\"\n";
    bench.put("fumehood.toml", configuration);
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "it", "look"]).stdout.trim(), "new");
    assert_eq!(bench.run(&["call", "it", "look"]).stdout.trim(), "kept");
    check(&bench, &["call", "it", "look", "--env", "A=1"], expect![]);
}
