//! Tools of whole components.

mod documentation;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::engine::features::ENABLED;

fn find(wat: &str) -> Result<TypedTools, String> {
    let engine = engine();
    let bytes = wat::parse_str(wat).unwrap();
    let component = Component::new(&engine, &bytes).unwrap();
    discover(&component, &PackageDocs::read(&bytes), &engine, &DefinitionLimits::default())
        .map_err(|error| error.to_string())
}

fn tool<'a>(tools: &'a TypedTools, name: &str) -> &'a TypedTool {
    tools.tools.iter().find(|tool| tool.definition.name.as_str() == name).unwrap()
}

/// Creates an engine with the features that guests may use, without fuel and epochs.
fn engine() -> Engine {
    let mut config = wasmtime::Config::new();
    config.wasm_features(wasmparser::WasmFeatures::all(), false).wasm_features(ENABLED, true);
    Engine::new(&config).unwrap()
}

fn export(definition: &ToolDefinition) -> String {
    definition.export.as_ref().map_or_else(|| "?".to_owned(), |export| export.to_sanitized().into_owned())
}

/// Compares one line for each tool and each skipped export.
fn check(wat: &str, expected: &Expect) {
    let text = match find(wat) {
        Ok(found) => {
            let tools = found.tools.iter().map(|TypedTool { definition: it, .. }| {
                format!("{} = {}: {}\n", it.name, export(it), it.description.to_sanitized())
            });
            let skipped = found.skipped.iter().map(|it| format!("not {}: {}\n", it.export, it.why));
            tools.chain(skipped).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&text);
}

/// Returns a component with core functions of a few shapes, to be lifted by `items`.
fn component(items: &str) -> String {
    format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
                (func (export "none"))
                (func (export "one") (param i32))
                (func (export "add") (param i64 i32) (result i64)
                    (i64.add (local.get 0) (i64.extend_i32_s (local.get 1))))
                (func (export "greet") (param i32 i32 i32 i32) (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (alias core export $i "memory" (core memory $memory))
            (alias core export $i "realloc" (core func $realloc))
            {items}
        )"#
    )
}

const NONE: &str = r#"(func $none (canon lift (core func $i "none")))"#;

/// Returns an instance of that name with one function, which takes and returns nothing.
fn instance(name: &str, function: &str) -> String {
    format!(r#"(instance (export "{name}") (export "{function}" (func $none)))"#)
}

const ADD: &str = r#"
    (func (export "add") (param "a" u64) (param "b" s32) (result u64) (canon lift (core func $i "add")))"#;

/// The interface `api` with a record, as a language's toolchain writes it.
const API: &str = r#"
    (type $person (record (field "name" string) (field "age" (option u32))))
    (func $greet (param "who" $person) (result (result string (error string)))
        (canon lift (core func $i "greet") (memory $memory) (realloc $realloc)))
    (component $shim
        (type $person' (record (field "name" string) (field "age" (option u32))))
        (import "import-type-person" (type $person (eq $person')))
        (import "import-func-greet" (func $greet (param "who" $person) (result (result string (error string)))))
        (export $exported "person" (type $person))
        (export "greet" (func $greet) (func (param "who" $exported) (result (result string (error string))))))
    (instance $api (instantiate $shim
        (with "import-type-person" (type $person)) (with "import-func-greet" (func $greet))))
    (export "example:greeter/api@0.1.0" (instance $api))"#;

#[test]
fn functions_at_top_level_and_in_interfaces_are_tools() {
    check(
        &component(&format!("{ADD} {API}")),
        &expect![[r#"
        api_greet = example:greeter/api@0.1.0#greet: Calls `greet(who: record) -> result<string, string>` of `example:greeter/api@0.1.0`.
        add = add: Calls `add(a: u64, b: s32) -> u64`.
    "#]],
    );
}

#[test]
fn names_are_made_of_the_interface_and_the_function() {
    let instances = [
        instance("plain", "run"),
        instance("ns:pkg/some-api@1.0.0-rc.1", "do-it"),
        instance("ns:pkg/other", "parse-HTTP"),
        instance("wasi:cli/run@0.2.3", "run"),
        instance("fumehood:tool/extra@0.9.0", "x"),
        instance("exports", "init"),
        instance(&format!("long-{}", "x".repeat(60)), "x"),
    ];
    check(
        &component(&format!("{NONE} {}", instances.join("\n"))),
        &expect![[r#"
        plain_run = plain#run: Calls `run()` of `plain`.
        some-api_do-it = ns:pkg/some-api@1.0.0-rc.1#do-it: Calls `do-it()` of `ns:pkg/some-api@1.0.0-rc.1`.
        other_parse-http = ns:pkg/other#parse-HTTP: Calls `parse-HTTP()` of `ns:pkg/other`.
        exports_init = exports#init: Calls `init()` of `exports`.
        not wasi:cli/run@0.2.3: it belongs to WASI, and is called by hosts
        not fumehood:tool/extra@0.9.0: it belongs to Fumehood's contract, and is not a typed function
        not long-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx#x: the name `long-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` is too long: 67 bytes, at most 64
    "#]],
    );
}

#[test]
fn skips_exports_that_are_not_for_callers() {
    let setup = r#"
        (func $init (param "app-name" u32) (canon lift (core func $i "one")))
        (instance (export "exports") (export "init" (func $init)))"#;
    check(
        &component(&format!("{setup} {ADD}")),
        &expect![[r#"
        add = add: Calls `add(a: u64, b: s32) -> u64`.
        not exports: componentize-py calls it to initialize Python
    "#]],
    );
    check(
        &component(setup),
        &expect![[r#"
        the component exports no function that can be a tool: `exports` is ignored: componentize-py calls it to initialize Python; export a function, or implement `fumehood:tool`
    "#]],
    );
    check(
        "(component)",
        &expect![[r#"
        the component exports no function that can be a tool; export a function, or implement `fumehood:tool`
    "#]],
    );
    let many: Vec<_> = (0..12).map(|at| instance(&format!("wasi:p{at}/i"), "f")).collect();
    check(
        &component(&format!("{NONE} {}", many.join("\n"))),
        &expect![[r#"
        the component exports no function that can be a tool: `wasi:p0/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p1/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p2/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p3/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p4/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p5/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p6/i` is ignored: it belongs to WASI, and is called by hosts; `wasi:p7/i` is ignored: it belongs to WASI, and is called by hosts; and 4 more; export a function, or implement `fumehood:tool`
    "#]],
    );
}

#[test]
fn skips_types_without_a_json_form_with_a_reason() {
    let resource = r#"
        (type $file' (resource (rep i32)))
        (export $file "file" (type $file'))
        (func (export "read") (param "from" (list (own $file)))
            (canon lift (core func $i "pair") (memory $memory) (realloc $realloc)))
        (func (export "[method]file.size") (param "self" (borrow $file)) (canon lift (core func $i "one")))"#;
    let pair = r#"(func (export "pair") (param i32 i32)) (func (export "one")"#;
    let wat = component(&format!("{resource} {ADD}")).replace(r#"(func (export "one")"#, pair);
    check(
        &wat,
        &expect![[r#"
        add = add: Calls `add(a: u64, b: s32) -> u64`.
        not [method]file.size: it belongs to a resource, which exists only during one call
        not read: its parameter `from` holds a resource; a resource exists only during one call; pass an identifier instead
    "#]],
    );
}

#[test]
fn skips_types_that_grow_without_bound() {
    // 2^12 parts from a dozen lines: nothing may be written out before it is counted.
    let mut types = r#"(type $t0 (tuple u8 u8))"#.to_owned();
    for at in 1..12 {
        types.push_str(&format!("(type $t{at} (tuple $t{} $t{}))", at - 1, at - 1));
    }
    let wide = format!(
        r#"{types} (func (export "wide") (param "p" $t11)
            (canon lift (core func $i "one") (memory $memory) (realloc $realloc)))"#
    );
    let deep = (0..20).fold("u8".to_owned(), |inner, _| format!("(list {inner})"));
    let deep = format!(
        r#"(func (export "deep") (param "p" {deep})
            (canon lift (core func $i "pair") (memory $memory) (realloc $realloc)))"#
    );
    let pair = r#"(func (export "pair") (param i32 i32)) (func (export "one")"#;
    let wat = component(&format!("{wide} {deep} {ADD}")).replace(r#"(func (export "one")"#, pair);
    check(
        &wat,
        &expect![[r#"
        add = add: Calls `add(a: u64, b: s32) -> u64`.
        not wide: its types have more than 1000 parts once they are written out; take and return less at once
        not deep: its types are nested more than 16 deep; make them flatter
    "#]],
    );
}

#[test]
fn a_schema_that_the_gate_refuses_skips_only_its_tool() {
    let options = (0..10).fold("u8".to_owned(), |inner, _| format!("(option {inner})"));
    let nested = format!(
        r#"(func (export "nested") (param "p" (list {options}))
            (canon lift (core func $i "pair") (memory $memory) (realloc $realloc)))"#
    );
    let pair = r#"(func (export "pair") (param i32 i32)) (func (export "one")"#;
    let wat = component(&format!("{nested} {ADD}")).replace(r#"(func (export "one")"#, pair);
    check(
        &wat,
        &expect![[r#"
        add = add: Calls `add(a: u64, b: s32) -> u64`.
        not nested: the schema of its arguments is not supported; use flatter or smaller types: at #/properties/p/items/anyOf/0/properties/some/anyOf/0/properties/some/anyOf/0/properties/some/anyOf/0/properties/some/anyOf/0/properties/some/anyOf/0/properties/some/anyOf/0/properties/some/anyOf the schema has 33 levels of nesting; at most 32 are accepted
    "#]],
    );
}

#[test]
fn two_exports_of_one_name_are_an_error() {
    let instances = [instance("a:b/api@1.0.0", "run"), instance("a:b/api@2.0.0", "run")];
    check(
        &component(&format!("{NONE} {}", instances.join("\n"))),
        &expect![[r#"
            the exports `a:b/api@1.0.0#run` and `a:b/api@2.0.0#run` would both be the tool `api_run`; rename one, or export only one
        "#]],
    );
    let many: Vec<_> = (0..65).map(|at| format!(r#"(export "f{at}" (func $none))"#)).collect();
    check(
        &component(&format!("{NONE} {}", many.join("\n"))),
        &expect![[r#"
        the component describes 65 tools; at most 64 are accepted
    "#]],
    );
    let many: Vec<_> = (0..1_100).map(|at| format!(r#"(export "f{at}" (func $none))"#)).collect();
    check(
        &component(&format!("{NONE} {}", many.join("\n"))),
        &expect![[r#"
        the component exports more than 1024 functions; export fewer
    "#]],
    );
}

#[test]
fn calls_convert_arguments_and_results() {
    let engine = engine();
    let bytes = wat::parse_str(component(ADD)).unwrap();
    let component = Component::new(&engine, &bytes).unwrap();
    let found = discover(&component, &PackageDocs::read(&bytes), &engine, &DefinitionLimits::default()).unwrap();
    let tool = tool(&found, "add");
    let mut store = wasmtime::Store::new(&engine, ());
    let guest = wasmtime::component::Linker::new(&engine).instantiate(&mut store, &component).unwrap();
    let function = guest.get_func(&mut store, tool.export_index).unwrap();
    let read = |arguments: Value| tool.arguments(&arguments, &mut JsonReader::new(None));
    let mut call = |arguments: Value| {
        let mut results = [Val::Bool(false)];
        function.call(&mut store, &read(arguments).unwrap(), &mut results).unwrap();
        outcome(tool, &results)
    };
    assert_eq!(call(json!({"a": 40, "b": 2})), "value 42");
    assert_eq!(call(json!({"a": "18446744073709551615", "b": -1})), "value \"18446744073709551614\"");
    assert!(read(json!({"a": 1})).is_err());
    assert!(read(json!({"a": 1, "b": 2, "c": 3})).is_err());
    assert!(read(json!([1, 2])).is_err());
}

/// Returns the outcome of a call with these results, with its kind.
fn outcome(tool: &TypedTool, results: &[Val]) -> String {
    let written = |value, shape| {
        let mut writer = JsonWriter::new(value, shape, usize::MAX);
        while writer.advance(1).unwrap().is_some() {}
        writer.into_text()
    };
    match tool.outcome(results) {
        Ok(TypedOutcome::Nothing) => "nothing".to_owned(),
        Ok(TypedOutcome::Text(text)) => format!("text {text}"),
        Ok(TypedOutcome::Value(value, shape)) => format!("value {}", written(value, shape)),
        Ok(TypedOutcome::Failed(text)) => format!("failed: {text}"),
        Ok(TypedOutcome::FailedValue(value, shape)) => format!("failed: {}", written(value, shape)),
        Err(error) => error.to_string(),
    }
}

fn outcome_as(greet: &TypedTool, result: Option<Ty>, values: &[Val]) -> String {
    let definition = greet.definition.clone();
    let export_index = greet.export_index;
    let shape = result.as_ref().map(Shape::from);
    let function = TypedFunction { params: vec![], result };
    let tool =
        TypedTool { definition, export_index, function, lift_factor: 1, deferred: None, params: vec![], result: shape };
    outcome(&tool, values)
}

fn string_value(text: &str) -> Option<Box<Val>> {
    Some(Box::new(Val::String(text.to_owned())))
}

#[test]
fn a_top_level_result_is_success_or_failure() {
    let greet = find(&component(API)).unwrap();
    let greet = tool(&greet, "api_greet");
    assert_eq!(outcome(greet, &[Val::Result(Ok(string_value("hi")))]), "text hi");
    assert_eq!(outcome(greet, &[Val::Result(Err(string_value("no such person")))]), "failed: no such person");
    assert_eq!(outcome(greet, &[Val::Result(Err(string_value(" ")))]), "failed: the tool failed without a reason");
    assert!(greet.outcome(&[]).is_err());
    assert!(greet.outcome(&[Val::Result(Ok(None))]).is_err());
    // Found when it is written.
    let Ok(TypedOutcome::Value(value, shape)) = greet.outcome(&[Val::Bool(true)]) else { panic!("a value") };
    assert!(JsonWriter::new(value, shape, usize::MAX).advance(9).is_err());
    let plain = Ty::Result { ok: None, err: Some(Box::new(Ty::Enum(vec!["gone".to_owned()]))) };
    assert_eq!(outcome_as(greet, None, &[]), "nothing");
    assert_eq!(outcome_as(greet, Some(plain.clone()), &[Val::Result(Ok(None))]), "nothing");
    let gone = Val::Result(Err(Some(Box::new(Val::Enum("gone".to_owned())))));
    assert_eq!(outcome_as(greet, Some(plain), &[gone]), "failed: \"gone\"");
    assert_eq!(outcome_as(greet, Some(Ty::Char), &[Val::Char('c')]), "value \"c\"");
}
