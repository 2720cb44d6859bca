//! Compositions: components that call each other, as `wac plug` joins them. The engine generates an adapter for each call
//! between two of them, which copies values from one memory to the other.
//!
//! Most parts here are the same module: a value is passed by pointer, since it has padding of more than 16 values, so
//! returning the pointer returns the value, whatever its type is.

use std::time::Duration;

use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};
use fumehood_tests::{StringEncoding, component_of};
use serde_json::{Value, json};
use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, plug};

const ENCODINGS: [StringEncoding; 3] = [StringEncoding::UTF8, StringEncoding::UTF16, StringEncoding::CompactUTF16];

/// A memory, and an allocator that gives the next aligned bytes, as libraries of languages do.
const MEMORY: &str = r#"
  (memory (export "memory") 4)
  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $place i32)
    (local.set $place
      (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
               (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $place) (local.get $size)))
    (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
      (then (if (i32.eq (memory.grow (i32.const 64)) (i32.const -1)) (then unreachable))))
    (memory.copy (local.get $place) (local.get $old)
      (select (local.get $old-size) (local.get $size) (i32.lt_u (local.get $old-size) (local.get $size))))
    (local.get $place))"#;

/// The types that cross, with values of each.
fn types() -> Vec<(&'static str, Value)> {
    let texts = json!(["", "plain", "déjà vu", "日本語", "🦀 and \u{0}", "x".repeat(3000), "é日".repeat(700)]);
    vec![
        ("bool", json!([true, false])),
        ("u8", json!([0, 255])),
        ("u16", json!([0, 65_535])),
        ("u32", json!([0, 4_294_967_295_u32])),
        ("u64", json!([0, 9_007_199_254_740_991_u64])),
        ("s8", json!([-128, 127])),
        ("s16", json!([-32_768, 32_767])),
        ("s32", json!([-2_147_483_648, 2_147_483_647])),
        ("s64", json!([-9_007_199_254_740_991_i64])),
        ("f32", json!([0.5, -1024.25])),
        ("f64", json!([0.1, -1e300])),
        ("char", json!(["a", "ß", "日", "🦀"])),
        ("string", texts.clone()),
        ("list<string>", json!([texts, []])),
        ("list<u8>", json!([[], [0, 1, 255]])),
        ("list<list<u16>>", json!([[[1, 2], [], [65_535]]])),
        ("tuple<u8, string, u64>", json!([[1, "zwei", 3]])),
        ("option<string>", json!([null, "some"])),
        ("option<point>", json!([null, {"label": "o", "x": 1, "y": -2.5}])),
        ("list<point>", json!([[{"label": "ä", "x": 7, "y": 0.25}, {"label": "", "x": 0, "y": 0.5}]])),
        ("color", json!(["red", "green"])),
        ("rights", json!([[], ["read"], ["read", "execute"]])),
        ("many", json!([["f0", "f8", "f16"], []])),
        ("result<string, u32>", json!([{"ok": "fine"}, {"err": 7}])),
        (
            "shape",
            json!([
                {"tag": "empty"},
                {"tag": "circle", "val": 1.5},
                {"tag": "named", "val": "□"},
                {"tag": "corners", "val": [{"label": "l", "x": 1, "y": 2.5}]}
            ]),
        ),
    ]
}

/// Returns the package of the parts. The interface of the tool has types of its own, since those of a plugged interface
/// are not visible outside.
fn wit(of: &str) -> String {
    let many: Vec<String> = (0..17).map(|index| format!("f{index}")).collect();
    let types = format!(
        "record point {{ label: string, x: u32, y: f64 }}
        enum color {{ red, green }}
        flags rights {{ read, write, execute }}
        flags many {{ {} }}
        variant shape {{ empty, circle(f32), named(string), corners(list<point>) }}
        type padding = tuple<u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8>;
        record holder {{ value: {of}, padding: padding }}",
        many.join(", ")
    );
    format!(
        "package test:parts;
        interface echo {{ {types} echo: func(holder: holder) -> holder; }}
        interface tools {{ {types} run: func(holder: holder) -> holder; }}
        world provider {{ export echo; }}
        world middle {{ import echo; export echo; }}
        world tool {{ import echo; export tools; }}"
    )
}

fn provider(wit: &str, encoding: StringEncoding) -> Vec<u8> {
    let module = format!(
        r#"(module {MEMORY}
          (func (export "test:parts/echo#echo") (param i32) (result i32) (local.get 0)))"#
    );
    component_of(&module, "provider", wit, encoding).unwrap()
}

/// Returns a component that exports a function under this name, and passes its calls on.
fn passing_on(world: &str, export: &str, wit: &str, encoding: StringEncoding) -> Vec<u8> {
    let module = format!(
        r#"(module (import "test:parts/echo" "echo" (func $echo (param i32 i32))) {MEMORY}
          (func (export "{export}") (param i32) (result i32)
            (call $echo (local.get 0) (i32.const 1024))
            (i32.const 1024)))"#
    );
    component_of(&module, world, wit, encoding).unwrap()
}

/// Plugs the exports of one component into the imports of another.
fn compose(plugged: Vec<u8>, socket: Vec<u8>) -> Vec<u8> {
    let mut graph = CompositionGraph::new();
    let plugged = Package::from_bytes("test:plugged", None, plugged, graph.types_mut()).unwrap();
    let socket = Package::from_bytes("test:socket", None, socket, graph.types_mut()).unwrap();
    let plugged = graph.register_package(plugged).unwrap();
    let socket = graph.register_package(socket).unwrap();
    plug(&mut graph, vec![plugged], socket).unwrap();
    graph.encode(EncodeOptions::default()).unwrap()
}

async fn load(component: Vec<u8>) -> Host {
    let host = Host::builder().build().unwrap();
    host.load(Load::bytes("it", component)).await.unwrap();
    host
}

async fn check_values(of: &str, values: &Value, component: Vec<u8>, what: &str) {
    let host = load(component).await;
    for value in values.as_array().unwrap() {
        let holder = json!({"value": value, "padding": vec![7; 17]});
        let result = host.call(Call::new("it__tools_run", json!({ "holder": holder }))).await;
        let mut expected = holder;
        if value.is_null() {
            expected.as_object_mut().unwrap().remove("value");
        }
        assert_eq!(result.json::<Value>().unwrap(), expected, "{of}, {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_crosses_between_two_components_in_each_encoding() {
    for (of, values) in types() {
        let wit = wit(of);
        let has_text = values.to_string().contains('"');
        for of_provider in ENCODINGS {
            for of_tool in ENCODINGS {
                if !has_text && (of_provider, of_tool) != (StringEncoding::UTF8, StringEncoding::UTF8) {
                    continue;
                }
                let tool = passing_on("tool", "test:parts/tools#run", &wit, of_tool);
                let component = compose(provider(&wit, of_provider), tool);
                check_values(of, &values, component, &format!("{of_tool} calls {of_provider}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_crosses_between_three_components_of_different_encodings() {
    for (of, values) in types() {
        let wit = wit(of);
        let middle = passing_on("middle", "test:parts/echo#echo", &wit, StringEncoding::UTF16);
        let middle = compose(provider(&wit, StringEncoding::CompactUTF16), middle);
        let component = compose(middle, passing_on("tool", "test:parts/tools#run", &wit, StringEncoding::UTF8));
        check_values(of, &values, component, "three components").await;
    }
}

const COUNTERS: &str = "package test:parts;
    interface counters {
        resource counter { constructor(start: u32); add: func(more: u32) -> u32; }
        dropped: func() -> u32;
    }
    world provider { export counters; }
    world tool { import counters; export run: func(start: u32, more: u32) -> tuple<u32, u32>; }";

#[tokio::test]
async fn resources_of_one_component_are_used_and_dropped_by_another() {
    let provider = r#"(module
        (import "[export]test:parts/counters" "[resource-new]counter" (func $new (param i32) (result i32)))
        (memory (export "memory") 1)
        (global $count (mut i32) (i32.const 0))
        (global $dropped (mut i32) (i32.const 0))
        (func (export "test:parts/counters#[constructor]counter") (param i32) (result i32)
          (global.set $count (local.get 0))
          (call $new (i32.const 1)))
        (func (export "test:parts/counters#[method]counter.add") (param i32 i32) (result i32)
          (global.set $count (i32.add (global.get $count) (local.get 1)))
          (global.get $count))
        (func (export "test:parts/counters#dropped") (result i32) (global.get $dropped))
        (func (export "test:parts/counters#[dtor]counter") (param i32)
          (global.set $dropped (i32.add (global.get $dropped) (i32.const 1)))))"#;
    let tool = r#"(module
        (import "test:parts/counters" "[constructor]counter" (func $counter (param i32) (result i32)))
        (import "test:parts/counters" "[method]counter.add" (func $add (param i32 i32) (result i32)))
        (import "test:parts/counters" "[resource-drop]counter" (func $drop (param i32)))
        (import "test:parts/counters" "dropped" (func $dropped (result i32)))
        (memory (export "memory") 1)
        (func (export "run") (param i32 i32) (result i32)
          (local $own i32)
          (local.set $own (call $counter (local.get 0)))
          (i32.store (i32.const 1024) (call $add (local.get $own) (local.get 1)))
          (call $drop (local.get $own))
          (i32.store (i32.const 1028) (call $dropped))
          (i32.const 1024)))"#;
    let provider = component_of(provider, "provider", COUNTERS, StringEncoding::UTF8).unwrap();
    let tool = component_of(tool, "tool", COUNTERS, StringEncoding::UTF8).unwrap();
    let host = load(compose(provider, tool)).await;
    let result = host.call(Call::new("it__run", json!({"start": 40, "more": 2}))).await;
    assert_eq!(result.json::<Value>().unwrap(), json!([42, 1]));
}

const WORK: &str = "package test:parts;
    interface work { work: func(amount: u32) -> u32; }
    world provider { export work; }
    world tool { import work; export run: func(amount: u32) -> u32; }";

/// Calls a composition, both of whose parts have this function, before the tool calls the other one.
async fn call_workers(function: &str, amount: u32, limits: Limits) -> CallResult {
    let provider = format!(
        r#"(module (memory (export "memory") 1)
          (func $work (export "test:parts/work#work") (param i32) (result i32) {function}))"#
    );
    let tool = format!(
        r#"(module (import "test:parts/work" "work" (func $other (param i32) (result i32)))
          (memory (export "memory") 1)
          (func $own (param i32) (result i32) {function})
          (func (export "run") (param i32) (result i32)
            (i32.add (call $own (local.get 0)) (call $other (local.get 0)))))"#
    );
    let provider = component_of(&provider, "provider", WORK, StringEncoding::UTF8).unwrap();
    let tool = component_of(&tool, "tool", WORK, StringEncoding::UTF8).unwrap();
    let host = load(compose(provider, tool)).await;
    host.call(Call::new("it__run", json!({"amount": amount})).limits(limits)).await
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error().map(|error| error.kind)
}

#[tokio::test]
async fn memories_of_all_parts_share_the_limit_of_a_call() {
    let grow = "(memory.grow (local.get 0))";
    let limits = Limits::default().memory(64 << 20);
    let result = call_workers(grow, 400, limits).await;
    assert_eq!(result.json::<Value>().unwrap(), json!(2), "{result:?}");
    assert!(result.metadata.peak_memory >= 800 << 16, "{:?}", result.metadata);
    let result = call_workers(grow, 600, limits).await;
    assert_eq!(result.json::<Value>().unwrap(), json!(0), "the second one is refused: {result:?}");
    assert!(result.metadata.peak_memory < 1000 << 16, "{:?}", result.metadata);
}

#[tokio::test]
async fn fuel_and_deadline_count_for_the_called_component_too() {
    // Spins that often.
    let spin =
        "(loop $again (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $again (local.get 0))) (local.get 0)";
    let one = call_workers(spin, 1000, Limits::default()).await.metadata.fuel_used;
    assert!(one > 2 * 4000, "{one}");
    let limits = Limits::default().fuel(one * 3 / 4);
    assert_eq!(kind(&call_workers(spin, 1000, limits).await), Some(ErrorKind::Fuel));
    let limits = Limits::default().deadline(Duration::from_millis(50)).fuel(u64::MAX);
    assert_eq!(kind(&call_workers(spin, 0, limits).await), Some(ErrorKind::Deadline));
}

#[tokio::test]
async fn a_crash_of_the_called_component_is_a_trap_of_the_call() {
    let result = call_workers("unreachable", 0, Limits::default()).await;
    assert_eq!(kind(&result), Some(ErrorKind::Trap), "{result:?}");
}
