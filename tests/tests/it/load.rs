//! Components that cannot be loaded are refused with a helpful message, and those that were loaded before stay.

use std::time::{Duration, Instant};

use fumehood::{Call, CodeCache, ComponentError, Host, Limits, Load, LoadError};
use fumehood_tests::contract::{Answer, ToolDescription, module};
use fumehood_tests::{answering, component, wrap};
use serde_json::json;

fn host() -> Host {
    let limits = Limits::default().deadline(Duration::from_millis(100));
    Host::builder().limits(limits).concurrency(4).build().unwrap()
}

fn whole(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

async fn check(bytes: impl Into<Vec<u8>>, says: &str) {
    let host = host();
    let started = Instant::now();
    let error = host.load(Load::bytes("it", bytes)).await.err().unwrap_or_else(|| panic!("refused for: {says}"));
    let text = whole(&error);
    assert!(text.contains(says), "{says:?} is not in: {text}");
    assert!(host.tools().is_empty());
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn what_is_not_a_component_is_told_apart() {
    let good = component("spin").unwrap();
    check(Vec::new(), "0 bytes").await;
    check("(component)", "WebAssembly text").await;
    check("just some text", "not WebAssembly").await;
    check(wat::parse_str("(module)").unwrap(), "core WebAssembly module").await;
    check("!<arch>\n/               0", "`crate-type = [\"cdylib\"]` under `[lib]`").await;
    check(*b"\x7fELF\x02\x01\x01", "program or library for this machine").await;
    check(&good[..6], "its header is incomplete").await;
    check(&good[..good.len() - 7], "malformed").await;
    check([&good[..], b"garbage"].concat(), "malformed").await;
    check(*b"\0asm\x0e\0\x01\0", "unknown version").await;
    check(wat::parse_str("(component)").unwrap(), "exports no function").await;
}

#[tokio::test]
async fn machine_code_is_never_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CodeCache::open(folder.path().join("cache")).unwrap();
    let host = Host::builder().concurrency(2).code_cache(cache).build().unwrap();
    host.load(Load::bytes("it", component("spin").unwrap())).await.unwrap();
    let entries = std::fs::read_dir(folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().path());
    let compiled = entries.into_iter().find(|path| path.extension().is_some_and(|found| found == "cwasm")).unwrap();
    check(std::fs::read(compiled).unwrap(), "which is refused").await;
}

#[tokio::test]
async fn files_are_looked_at_before_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |name: &str, says: &str| {
        let error = host().load(Load::path(folder.path().join(name))).await.err().unwrap();
        assert!(whole(&error).contains(says), "{}", whole(&error));
    };
    check("missing.wasm", "cannot read").await;
    std::fs::create_dir(folder.path().join("folder.wasm")).unwrap();
    check("folder.wasm", "not a regular file").await;
    let large = std::fs::File::create(folder.path().join("large.wasm")).unwrap();
    large.set_len(1 << 30).unwrap();
    let started = Instant::now();
    check("large.wasm", "1.0 GiB; the maximum is 256.0 MiB").await;
    assert!(started.elapsed() < Duration::from_secs(1), "a file over the cap is not read");
    std::fs::write(folder.path().join("….wasm"), "").unwrap();
    check("….wasm", "needs a name").await;
}

#[tokio::test]
async fn proposals_that_are_off_are_refused_by_name() {
    for (program, says) in [
        ("memory64", "memory64"),
        ("threads", "threads"),
        ("gc", "garbage collection"),
        ("function-subtyping-test", "garbage collection"),
        ("function-subtyping-cast", "garbage collection"),
        ("function-subtyping-call", "garbage collection"),
        ("rec-group", "garbage collection"),
        ("external-references", "garbage collection"),
        ("function-references", "function references"),
        ("exceptions", "exception handling"),
        ("legacy-exceptions", "legacy exception handling"),
        ("stack-switching", "stack switching"),
        ("tail-call", "tail calls"),
        ("multi-memory", "multiple memories"),
        ("relaxed-simd", "relaxed SIMD"),
        ("wide-arithmetic", "wide arithmetic"),
        ("custom-page-sizes", "custom page sizes"),
        ("shared-everything-threads", "shared-everything threads"),
        ("component-async-builtins", "component model async, more built-ins"),
        ("component-async-stackful", "component model async, stackful"),
        ("component-error-context", "component model error context"),
        ("component-threading", "component model threading"),
        ("component-subtyping", "garbage collection"),
    ] {
        let bytes = component(&format!("proposals/{program}")).unwrap();
        let host = host();
        let error = host.load(Load::bytes("it", bytes)).await.err().unwrap_or_else(|| panic!("{program} is refused"));
        assert!(whole(&error).contains(&format!("\"{says}\"")), "{program}: {}", whole(&error));
        assert!(host.load(Load::bytes("next", component("count").unwrap())).await.is_ok(), "{program}");
    }
}

#[tokio::test]
async fn more_instances_than_a_component_may_have_are_refused() {
    let instances: String = (0..900).map(|_| "(core instance (instantiate $m))").collect();
    let text = format!(
        r#"(component (core module $m (memory 1) (func (export "run"))) {instances}
        (core instance $i (instantiate $m)) (func (export "run") (canon lift (core func $i "run"))))"#
    );
    check(wat::parse_str(text).unwrap(), "instances").await;
}

#[tokio::test]
async fn imports_and_contract_versions_are_named() {
    check(component("unknown-import").unwrap(), "acme:database/sql@1.0.0").await;
    check(component("other-contract").unwrap(), "0.3.0").await;
    check(component("other-contract").unwrap(), "accepts 0.1.x and 0.2.x").await;
    // Of version 0.2 in name only.
    let text = std::fs::read_to_string(fumehood_tests::folder().join("other-contract.wat")).unwrap();
    check(wat::parse_str(text.replace("0.3.0", "0.2.0")).unwrap(), "exports no function `call`").await;
    let import = r#"(component (import "fumehood:tool/log@0.2.0" (instance)))"#;
    check(wat::parse_str(import).unwrap(), "fumehood:tool/log@0.2.0").await;
}

/// A component whose function takes a type of an interface that it imports, as a world with `use types.{city}` does.
const IMPORTS_TYPES: &str = r#"(component
    (type $types (instance
        (type $record (record (field "name" string)))
        (export "city" (type (eq $record)))))
    (import "demo:geo/types@0.1.0" (instance $geo (type $types)))
    (alias export $geo "city" (type $alias))
    (import "city" (type $city (eq $alias)))
    (core module $m
        (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
        (func (export "length") (param i32 i32) (result i32) (local.get 1)))
    (core instance $i (instantiate $m))
    (func $length (param "city" $city) (result u32)
        (canon lift (core func $i "length") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc"))))
    (export "name-length" (func $length)))"#;

#[tokio::test]
async fn imports_of_types_alone_ask_nothing_of_the_host() {
    let host = host();
    let component = host.load(Load::bytes("geo", wat::parse_str(IMPORTS_TYPES).unwrap())).await.unwrap();
    let imports = component.imports().iter().map(|import| (import.name.as_str(), import.power)).collect::<Vec<_>>();
    assert_eq!(imports, [("demo:geo/types@0.1.0", None), ("city", None)]);
    let result = host.call(Call::new("geo__name-length", json!({"city": {"name": "Ulm"}}))).await;
    assert_eq!(json!(result)["content"][0]["value"], json!(3), "{result:?}");
}

#[tokio::test]
async fn what_a_component_says_about_itself_is_checked() {
    let one = |tool: ToolDescription| answering(&[tool], Answer::Nothing).unwrap();
    check(answering(&[], Answer::Nothing).unwrap(), "no tools").await;
    let many: Vec<_> = (0..65).map(|n| ToolDescription::new(&format!("t{n}"))).collect();
    check(answering(&many, Answer::Nothing).unwrap(), "65 tools").await;
    let twins = [ToolDescription::new("read-file"), ToolDescription::new("read_file")];
    check(answering(&twins, Answer::Nothing).unwrap(), "same name").await;
    check(one(ToolDescription::new("Read")), "'R'").await;
    check(one(ToolDescription::new("rеad")), "'е'").await;
    check(one(ToolDescription { description: "d".repeat(17_000), ..ToolDescription::new("a") }), "has 17000 bytes")
        .await;
    check(one(ToolDescription::new("a").taking("{")), "not JSON").await;
    check(one(ToolDescription::new("a").taking(&" ".repeat(70_000))), "has 70000 bytes").await;
    check(one(ToolDescription::new("a").taking("17")), "input schema").await;
    check(one(ToolDescription::new("a").returning(r#"{"type": "nothing"}"#)), "output schema").await;
}

#[tokio::test]
async fn schemas_that_reach_out_or_cost_too_much_are_refused() {
    let one = |schema: &str| answering(&[ToolDescription::new("a").taking(schema)], Answer::Nothing).unwrap();
    let in_object = |schema: &str| format!(r#"{{"type":"object","properties":{{"x":{schema}}}}}"#);
    for reference in ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "other.json"] {
        check(one(&in_object(&format!(r#"{{"$ref":"{reference}"}}"#))), "input schema").await;
    }
    let levels: Vec<String> = (0..30)
        .map(|n| format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, n + 1))
        .collect();
    let bomb = format!(
        r##"{{"type":"object","properties":{{"x":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d30":{{"type":"string"}}}}}}"##,
        levels.join(",")
    );
    check(one(&bomb), "input schema").await;
    let pattern = format!(r#"{{"type":"string","pattern":"{}"}}"#, "(a{1,500}){1,500}");
    check(one(&in_object(&pattern)), "input schema").await;
    check(one(&"[".repeat(200)), "not JSON").await;
    let deep = format!("{}{}", r#"{"not":"#.repeat(50), "true".to_owned() + &"}".repeat(50));
    check(one(&in_object(&deep)), "input schema").await;
}

#[tokio::test]
async fn a_component_that_misbehaves_while_it_describes_itself_is_not_loaded() {
    let described = |body: &str| {
        let text = module(&[ToolDescription::new("a")], Answer::Nothing);
        let (before, after) = text.split_once("describe\") (result i32) ").unwrap();
        let (_, after) = after.split_once("))").unwrap();
        wrap(&format!("{before}describe\") (result i32) {body}){after}")).unwrap()
    };
    check(described("(loop (br 0)) (unreachable)"), "did not finish within 100 ms").await;
    check(described("(unreachable)"), "could not describe its tools").await;
    check(described("(i32.const 0x7fffffff)"), "could not describe its tools").await;
}

#[tokio::test]
async fn one_name_is_one_component() {
    let host = host();
    host.load(Load::bytes("my-tools", component("spin").unwrap())).await.unwrap();
    for name in ["my-tools", "my_tools"] {
        let error = host.load(Load::bytes(name, component("counter").unwrap())).await.err().unwrap();
        assert!(matches!(error, LoadError::NameTaken(_)), "{error}");
    }
    assert_eq!(host.tools().len(), 1);
    assert!(host.unload("my-tools"));
    assert!(host.tools().is_empty());
    host.load(Load::bytes("my_tools", component("counter").unwrap())).await.unwrap();
}

#[tokio::test]
async fn a_large_component_is_compiled_only_if_that_is_allowed() {
    // A custom section costs nothing to compile, but counts for the size.
    let mut bytes = component("counter").unwrap();
    let size: u32 = 33 << 20;
    bytes.push(0);
    let mut left = size;
    while left >= 0x80 {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.push(1);
    bytes.push(b'x');
    bytes.resize(bytes.len() + size as usize - 2, 0);
    let host = host();
    let error = host.load(Load::bytes("it", bytes.clone())).await.err().unwrap();
    let LoadError::Component { source, .. } = &error else { panic!("{error}") };
    assert!(matches!(**source, ComponentError::SlowCompile(_)), "{source}");
    host.load(Load::bytes("it", bytes).allow_slow_compile()).await.unwrap();
}
