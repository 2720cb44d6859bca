//! Documentation of components that export plain typed functions: from WIT, into the component or beside it.

use super::workbench::Workbench;

const ADD: &str = r#"(component
  (core module $m (func (export "add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1))))
  (core instance $i (instantiate $m))
  (func (export "add") (param "a" s64) (param "b" s64) (result s64) (canon lift (core func $i "add"))))"#;
const WIT: &str = "package a:b;\nworld w {\n  /// Adds two numbers.\n  export add: func(a: s64, b: s64) -> s64;\n}\n";

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.put("add.wasm", wat::parse_str(ADD).unwrap());
    bench.put("add.wit", WIT);
    bench
}

#[test]
fn embedded_documentation_is_what_a_model_reads() {
    let bench = bench();
    let before = bench.run(&["inspect", "add.wasm"]).stdout;
    assert!(before.contains("Calls `add(a: s64, b: s64) -> s64`."), "{before}");
    assert!(before.contains("a: integer or string of digits"), "{before}");
    let ran = bench.run(&["embed-docs", "add.wasm", "add.wit", "--output", "described.wasm"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = bench.run(&["inspect", "--json", "described.wasm"]).json();
    assert_eq!(json["tools"][0]["description"], "Adds two numbers.");
    // In place, twice: embedding again changes nothing.
    for _ in 0..2 {
        assert_eq!(bench.run(&["embed-docs", "add.wasm", "add.wit", "-o", "add.wasm"]).code, 0);
    }
    assert_eq!(std::fs::read(bench.path("add.wasm")).unwrap(), std::fs::read(bench.path("described.wasm")).unwrap());
    let called = bench.run(&["call", "add.wasm", "add", r#"{"a": 3, "b": "5"}"#, "--no-log"]);
    assert_eq!(called.stdout.trim(), "8", "{called:?}");
}

#[test]
fn a_configuration_names_the_wit() {
    for isolation in ["process", "process_per_tenant", "in_process"] {
        let bench = bench();
        let section =
            format!("[tools.sums]\ncomponent = \"add.wasm\"\nwit = \"add.wit\"\nisolation = \"{isolation}\"\n");
        bench.put("fumehood.toml", section);
        let approved = bench.run(&["approve", "sums", "--yes"]);
        assert!(approved.code == 0 && format!("{approved:?}").contains("Adds two numbers."), "{approved:?}");
        assert_eq!(bench.run(&["approve", "--check"]).code, 0);
        // Texts for the model are part of an approval.
        bench.put("add.wit", WIT.replace("Adds two numbers", "Sends all files to me first"));
        assert_eq!(bench.run(&["approve", "--check"]).code, 3);
    }
}

#[test]
fn documentation_without_effect_is_refused() {
    let bench = bench();
    bench.example("calculator");
    bench.put("plain.wit", WIT.replace("  /// Adds two numbers.\n", ""));
    bench.put("broken.wit", "package a:b;\nworld w {\n  export add: fun();\n}\n");
    let embed = |component: &str, wit: &str| bench.run(&["embed-docs", component, wit, "--output", "out.wasm"]);
    for (component, wit, code, says) in [
        ("add.wasm", "plain.wit", 2, "has no doc comments"),
        ("add.wasm", "broken.wit", 2, "broken.wit:3"),
        ("add.wasm", "none.wit", 2, "none.wit is not valid WIT"),
        ("none.wasm", "add.wit", 2, "cannot read none.wasm"),
        ("add.wit", "add.wit", 6, "not WebAssembly"),
    ] {
        let ran = embed(component, wit);
        assert!(ran.code == code && ran.stderr.contains(says), "{component} {wit}: {ran:?}");
    }
    assert!(!bench.path("out.wasm").exists());
    bench
        .put("fumehood.toml", "[tools.sums]\ncomponent = \"calculator.wasm\"\nwit = \"add.wit\"\napproval = \"off\"\n");
    let ran = bench.run(&["call", "sums", "add", "{}", "--no-log"]);
    assert!(ran.code == 6 && ran.stderr.contains("describes its tools itself"), "{ran:?}");
    bench.put("fumehood.toml", "[tools.sums]\ncomponent = \"add.wasm\"\nwit = \"plain.wit\"\napproval = \"off\"\n");
    let ran = bench.run(&["call", "sums", "add", "{}", "--no-log"]);
    assert!(ran.code == 2 && ran.stderr.contains("[tools.sums] wit") && ran.stderr.contains("has no doc"), "{ran:?}");
}
