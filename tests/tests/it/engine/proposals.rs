//! A construct for each part of wasmtime that is not compiled in and that a guest could require.

use fumehood_runtime::LoadError;

use super::fixture::{Fixture, component_of};

/// Cargo features of wasmtime that are off in the workspace and that code of a guest could require; a module or a
/// component that would need them; and the proposal for which it is refused.
///
/// `gc` is compiled in, because function types with supertypes would reach code that it leaves out, but none of the
/// collectors is. The other features that are off change no meaning of a guest's code: profiling, caching, debugging,
/// other compilers.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("gc-copying gc-drc gc-null", "(module (type (struct)))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (type (array i8)))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (global externref (ref.null extern)))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (func (local anyref)))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (func (drop (ref.null none))))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (table 1 externref))", "garbage collection"),
    ("gc-copying gc-drc gc-null", "(module (func (drop (ref.i31 (i32.const 1)))))", "garbage collection"),
    ("gc", "(module (type (sub (func))))", "garbage collection"),
    ("gc", "(module (rec (type (func))))", "garbage collection"),
    ("gc", "(module (rec (type (func)) (type (func))))", "garbage collection"),
    ("gc", "(component (core type (sub (func))))", "garbage collection"),
    ("gc", "(component (core type (module (type (sub (func))))))", "garbage collection"),
    ("gc", "(component (type (component (core type (module (type (sub (func))))))))", "garbage collection"),
    ("gc", "(module (tag))", "exception handling"),
    ("gc", "(module (func (param exnref)))", "exception handling"),
    ("gc", "(module (func (try_table)))", "exception handling"),
    ("gc", "(module (import \"a\" \"b\" (tag)))", "exception handling"),
    ("gc", "(component (core type (module (import \"a\" \"b\" (tag)) (type (func)))))", "exception handling"),
    ("gc", "(module (type (func)) (func (param (ref 0))))", "function references"),
    ("gc", "(module (type (func)) (func (param (ref null 0))))", "function references"),
    ("gc", "(module (func (param (ref func))))", "function references"),
    ("gc", "(module (func) (table 1 1 (ref func) (ref.func 0)))", "function references"),
    ("gc", "(module (func (block (drop (ref.as_non_null (ref.null func))))))", "function references"),
    ("threads", "(module (memory 1 1 shared))", "threads"),
    ("threads", "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))", "threads"),
    ("threads", "(module (func atomic.fence))", "threads"),
    ("threads", "(module (import \"a\" \"b\" (memory 1 1 shared)))", "threads"),
    ("threads", "(component (core type (module (import \"a\" \"b\" (memory 1 1 shared)))))", "threads"),
    ("stack-switching", "(module (type (func)) (type (cont 0)))", "stack switching"),
    ("stack-switching", "(module (func (param (ref null cont))))", "stack switching"),
    ("component-model", "(component (core func (canon error-context.drop)))", "component model error context"),
    ("component-model", "(component (type (list error-context)))", "component model error context"),
    ("component-model", "(component (core func (canon thread.index)))", "component model threading"),
    ("gc", "(module (import \"a\" \"b\" (func (exact (type 0)))) (type (func)))", "custom descriptors"),
    ("component-model", "(component (type (list u8 4)))", "component model fixed-length lists"),
    ("component-model", "(component (type (map string u8)))", "component model maps"),
    ("component-model", "(component (import \"a\" (value string)))", "component model values"),
    ("component-model", "(component (core func (canon thread.available_parallelism)))", "shared-everything threads"),
];

#[test]
fn what_is_not_compiled_in_is_refused_by_name() {
    let fixture = Fixture::new();
    let mut wrong = Vec::new();
    for (feature, text, expected) in LEFT_OUT {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let component = if text.starts_with("(module") { component_of(&bytes) } else { bytes.clone() };
        match fixture.load(component.clone()) {
            Err(LoadError::Proposal { proposal, .. }) if proposal == *expected => {}
            other => wrong.push(format!("{feature}: {text}: {:?}", other.err().map(|error| error.to_string()))),
        }
        // The engine refuses it even without the scan.
        let engine = fixture.engine();
        if wasmtime::component::Component::new(engine, &component).is_ok() {
            wrong.push(format!("{feature}: {text}: the engine compiles it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constructs of asynchronous components, which the engine of this process does not know.
const ASYNCHRONOUS: &[&str] = &[
    "(component (type (stream u8)))",
    "(component (type (future)))",
    "(component (type (func async)))",
    "(component (type (instance (type (stream u8)))))",
    "(component (core func (canon backpressure.inc)))",
    "(component (core func (canon task.cancel)))",
    "(component (core func (canon waitable-set.new)))",
    "(component (core func (canon context.get i32 0)))",
];

#[test]
fn asynchronous_constructs_are_refused_in_this_process() {
    let fixture = Fixture::new();
    for text in ASYNCHRONOUS {
        let component = wat::parse_str(text).unwrap();
        let refused = fixture.load(component.clone()).err();
        assert!(matches!(refused, Some(LoadError::NeedsWorker)), "{text}: {refused:?}");
        assert!(wasmtime::component::Component::new(fixture.engine(), &component).is_err(), "{text}");
    }
}

/// `sub final` without a supertype means a plain function type, but no toolchain without garbage collection writes it.
#[test]
fn an_unusual_spelling_of_a_plain_type_is_refused() {
    let module = |types: &[u8]| [b"\0asm\x01\0\0\0\x01", &[u8::try_from(types.len()).unwrap()][..], types].concat();
    let fixture = Fixture::new();
    let check = |types: &[u8]| fixture.disabled_proposal(&module(types));
    assert_eq!(check(&[1, 0x60, 0, 0]), None);
    assert_eq!(check(&[1, 0x4f, 0, 0x60, 0, 0]), Some("garbage collection"));
    assert_eq!(check(&[1, 0x50, 0, 0x60, 0, 0]), Some("garbage collection"));
    assert_eq!(check(&[1, 0x4e, 1, 0x60, 0, 0]), Some("garbage collection"));
    assert_eq!(check(&[1, 0x65, 0x60, 0, 0]), Some("shared-everything threads"));
}

/// Nested types of components take three bytes for each level, and the parser would follow them by recursion.
#[test]
fn deeply_nested_types_of_components_are_refused() {
    const LEVELS: usize = 300_000;
    let mut types = vec![1];
    types.extend([0x41, 1, 1].repeat(LEVELS));
    types.extend([0x41, 0]);
    let mut component = wasm_encoder::Component::new();
    component.section(&wasm_encoder::RawSection { id: 7, data: &types });
    match Fixture::new().load(component.finish()) {
        Err(LoadError::TooComplex { what, .. }) => assert_eq!(what, "types of components inside of each other"),
        other => panic!("{:?}", other.err().map(|error| error.to_string())),
    }
}
