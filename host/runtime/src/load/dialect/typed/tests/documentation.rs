//! Documentation of functions and types in the definitions.

use super::*;

fn docs(version: u8, docs: &Value) -> String {
    let text = docs.to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#"(@custom "package-docs" "\{version:02x}{text}")"#)
}

#[test]
fn docs_become_descriptions() {
    let documented = json!({
        "docs": "The package.",
        "worlds": {"greeter": {"func_exports": {"add": {"docs": "  Adds two numbers.\n\nExactly. "}}}},
        "interfaces": {"api": {
            "docs": "Greets people.",
            "funcs": {"greet": {"docs": "Says \"hello\".", "stability": {"stable": {"since": "0.1.0"}}}},
            "types": {"person": {"docs": "A person.", "items": {"name": "Given name.", "none": "No such field."}}},
        }},
        "from the future": [1],
    });
    let with_docs = |version| find(&component(&format!("{ADD} {API} {}", docs(version, &documented)))).unwrap();
    let found = with_docs(1);
    assert_eq!(tool(&found, "add").definition.description, "Adds two numbers.\n\nExactly.");
    let greet = &tool(&found, "api_greet").definition;
    assert_eq!(greet.description, "Says \"hello\".");
    let schema = greet.input_schema.to_sanitized();
    let who = &schema["properties"]["who"];
    assert_eq!(who["description"], "A person.");
    assert_eq!(who["properties"]["name"]["description"], "Given name.");
    assert_eq!(who["properties"]["age"].get("description"), None);
    assert_eq!(greet.output_schema, None);
    // A section of an unknown version is ignored.
    assert!(tool(&with_docs(2), "add").definition.description.to_sanitized().starts_with("Calls `add("));
}

#[test]
fn supports_version_0_of_the_docs() {
    let documented = json!({
        "worlds": {"greeter": {"funcs": {"add": "Adds."}, "interfaces": {"plain": {"funcs": {"run": "Runs."}}}}},
    });
    let items = format!("{NONE} {ADD} {} {}", instance("plain", "run"), docs(0, &documented));
    let found = find(&component(&items)).unwrap();
    assert_eq!(tool(&found, "add").definition.description, "Adds.");
    assert_eq!(tool(&found, "plain_run").definition.description, "Runs.");
}

#[test]
fn finds_docs_in_a_nested_component() {
    let section = docs(1, &json!({"worlds": {"w": {"func_exports": {"add": {"docs": "From within."}}}}}));
    let found = find(&component(&format!("{ADD} (component {section})"))).unwrap();
    assert_eq!(tool(&found, "add").definition.description, "From within.");
    let own = docs(1, &json!({"worlds": {"w": {"func_exports": {"add": {"docs": "Its own."}}}}}));
    let found = find(&component(&format!("{ADD} (component {section}) {own}"))).unwrap();
    assert_eq!(tool(&found, "add").definition.description, "Its own.");
}

#[test]
fn ignores_malformed_docs() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for section in ["", "\\01", "\\01{", "\\01[]", "\\01{\\22worlds\\22:5}", "\\01\\ff\\ff", &format!("\\01{deep}")] {
        let found = find(&component(&format!(r#"{ADD} (@custom "package-docs" "{section}")"#))).unwrap();
        let expected = "Calls `add(a: u64, b: s32) -> u64`.";
        assert_eq!(tool(&found, "add").definition.description, expected, "{section:.20}");
    }
}

#[test]
fn truncates_long_docs_and_keeps_the_tool() {
    let long = "ä".repeat(9_000);
    let item = "ä".repeat(600);
    let items: serde_json::Map<_, _> = (0..70).map(|at| (format!("f{at}"), json!(item))).collect();
    let fields: Vec<_> = (0..70).map(|at| format!(r#"(field "f{at}" bool)"#)).collect();
    let documented = json!({"worlds": {"w": {
        "func_exports": {"many": {"docs": long}},
        "types": {"flat": {"docs": long, "items": items}},
    }}});
    let wat = component(&format!(
        r#"(type $flat' (record {})) (export $flat "flat" (type $flat'))
        (func (export "many") (param "p" $flat) (canon lift (core func $i "one") (memory $memory) (realloc $realloc)))
        {}"#,
        fields.join(" "),
        docs(1, &documented),
    ));
    let definition = find(&wat).unwrap().tools.remove(0).definition;
    assert!(definition.description.len() <= DefinitionLimits::default().description_bytes);
    assert!(definition.description.to_sanitized().ends_with("ä…"));
    // 70 texts of 1 KiB are more than a schema may have, so it does without.
    assert!(!definition.input_schema.to_sanitized().to_string().contains('ä'));
}
