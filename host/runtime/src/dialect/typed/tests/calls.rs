//! Conversion of arguments and results of a call.

use serde_json::{Value, json};

use super::*;

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
    let mut call = |arguments: Value| {
        let mut results = [Val::Bool(false)];
        function.call(&mut store, &tool.arguments(&arguments).unwrap(), &mut results).unwrap();
        tool.outcome(&results).unwrap()
    };
    assert_eq!(call(json!({"a": 40, "b": 2})), TypedOutcome::Json("42".to_owned()));
    let sum = call(json!({"a": "18446744073709551615", "b": -1}));
    assert_eq!(sum, TypedOutcome::Json("\"18446744073709551614\"".to_owned()));
    assert!(tool.arguments(&json!({"a": 1})).is_err());
    assert!(tool.arguments(&json!({"a": 1, "b": 2, "c": 3})).is_err());
    assert!(tool.arguments(&json!([1, 2])).is_err());
}

#[test]
fn a_top_level_result_is_success_or_failure() {
    let greet = find(&component(API)).unwrap();
    let greet = tool(&greet, "api_greet");
    let text = |text: &str| Some(Box::new(Val::String(text.to_owned())));
    let failed = |text: &str| Ok(TypedOutcome::Failed(text.to_owned()));
    assert_eq!(greet.outcome(&[Val::Result(Ok(text("hi")))]), Ok(TypedOutcome::Text("hi".to_owned())));
    assert_eq!(greet.outcome(&[Val::Result(Err(text("no such person")))]), failed("no such person"));
    assert_eq!(greet.outcome(&[Val::Result(Err(text(" ")))]), failed("the tool says that it failed, and not why"));
    assert!(greet.outcome(&[]).is_err());
    assert!(greet.outcome(&[Val::Result(Ok(None))]).is_err());
    assert!(greet.outcome(&[Val::Bool(true)]).is_err());
    let outcome = |result: Option<Ty>, values: &[Val]| {
        let (definition, export_index) = (greet.definition.clone(), greet.export_index);
        TypedTool { definition, export_index, function: TypedFunction { params: vec![], result } }.outcome(values)
    };
    let plain = Ty::Result { ok: None, err: Some(Box::new(Ty::Enum(vec!["gone".to_owned()]))) };
    assert_eq!(outcome(None, &[]), Ok(TypedOutcome::Nothing));
    assert_eq!(outcome(Some(plain.clone()), &[Val::Result(Ok(None))]), Ok(TypedOutcome::Nothing));
    let gone = Val::Result(Err(Some(Box::new(Val::Enum("gone".to_owned())))));
    assert_eq!(outcome(Some(plain), &[gone]), failed("\"gone\""));
    assert_eq!(outcome(Some(Ty::Char), &[Val::Char('c')]), Ok(TypedOutcome::Json("\"c\"".to_owned())));
}
