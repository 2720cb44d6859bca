//! Loading of bytes: random ones, damaged components, and valid but meaningless components and modules.

use std::path::Path;

use arbitrary::Unstructured;
use wasm_encoder::{ComponentBuilder, ComponentExportKind, ComponentValType, ExportKind, PrimitiveValType};
use wasm_smith::{Component, Config, Module};
use wasmparser::{ExternalKind, FuncType, Parser, Payload, ValType};

use super::cases::{Random, run};
use super::guests::Guests;

/// Maximum size of an input, small so that a run tries many.
const MAX_BYTES: usize = 4096;
/// Maximum number of functions of a module that become tools.
const TOOLS: usize = 6;

pub(crate) fn config() -> Config {
    Config {
        // One check refuses all that is off in the host; the generated code should reach what is on.
        gc_enabled: false,
        exceptions_enabled: false,
        // References to values of the host need a garbage collector.
        reference_types_enabled: false,
        memory64_enabled: false,
        relaxed_simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        max_memories: 1,
        // A module that requests more at its start is refused.
        max_memory32_bytes: 1 << 20,
        max_table_elements: 1000,
        ..Config::default()
    }
}

#[test]
fn made_up_and_damaged_bytes() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist/typed-greeter.wasm");
    let real = [
        std::fs::read(dist).unwrap(),
        fumehood_tests::component("count").unwrap(),
        fumehood_tests::component("look-around").unwrap(),
        fumehood_tests::contract("echo").unwrap(),
    ];
    let mut guests = Guests::new();
    run("made up and damaged bytes", |random| {
        let bytes = if random.below(3) == 0 { made_up(random) } else { damaged(random, &real) };
        guests.try_one(bytes, random);
    });
    guests.end();
}

fn made_up(random: &mut Random) -> Vec<u8> {
    let heads: [&[u8]; 4] = [b"", b"\0asm", b"\0asm\x0d\0\x01\0", b"\0asm\x0d\0\x01\0\x01\x40\0asm\x01\0\0\0"];
    let head = *random.pick(&heads);
    let length = random.below(MAX_BYTES);
    [head, &random.bytes(length)].concat()
}

fn damaged(random: &mut Random, real: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.pick(real).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.number().to_le_bytes()[0],
            2 => bytes.truncate(at.max(1)),
            3 => drop(bytes.drain(at..(at + random.below(64)).min(bytes.len()))),
            4 => {
                let from = random.pick(real);
                let start = random.below(from.len());
                let end = (start + random.below(256)).min(from.len());
                bytes.splice(at..at, from[start..end].iter().copied());
            }
            // Lengths beyond the end of the input.
            _ => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

#[test]
fn senseless_components() {
    let mut guests = Guests::new();
    run("senseless components", |random| {
        let length = random.below(MAX_BYTES);
        let raw = random.bytes(length);
        if let Ok(component) = Component::new(config(), &mut Unstructured::new(&raw)) {
            guests.try_one(component.to_bytes(), random);
        }
    });
    guests.end();
}

#[test]
fn senseless_functions() {
    let mut guests = Guests::new();
    run("senseless functions", |random| {
        let length = random.below(MAX_BYTES);
        let raw = random.bytes(length);
        let config = Config { max_imports: 0, export_everything: true, min_funcs: 1, ..config() };
        if let Ok(module) = Module::new(config, &mut Unstructured::new(&raw)) {
            guests.try_one(wrapped(&module.to_bytes()), random);
        }
    });
    guests.end();
}

/// Returns a component whose tools are the exported functions of a module with numbers as parameters and results.
fn wrapped(module: &[u8]) -> Vec<u8> {
    let mut component = ComponentBuilder::default();
    let index = component.core_module_raw(None, module);
    let instance = component.core_instantiate(None, index, []);
    for (at, (name, ty)) in liftable(module).into_iter().take(TOOLS).enumerate() {
        let function = component.core_alias_export(None, instance, &name, ExportKind::Func);
        let names: Vec<String> = (0..ty.params().len()).map(|at| format!("p{at}")).collect();
        let (index, mut encoder) = component.type_function(None);
        encoder.params(names.iter().map(String::as_str).zip(ty.params().iter().map(|ty| lifted(*ty))));
        encoder.result(ty.results().first().map(|ty| ComponentValType::Primitive(lifted(*ty))));
        let function = component.lift_func(None, function, index, []);
        component.export(format!("f{at}").as_str(), ComponentExportKind::Func, function, None);
    }
    component.finish()
}

fn lifted(ty: ValType) -> PrimitiveValType {
    match ty {
        ValType::I32 => PrimitiveValType::S32,
        ValType::I64 => PrimitiveValType::U64,
        ValType::F32 => PrimitiveValType::F32,
        _ => PrimitiveValType::F64,
    }
}

fn liftable(module: &[u8]) -> Vec<(String, FuncType)> {
    let mut types = Vec::new();
    let mut functions = Vec::new();
    let mut exports = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::TypeSection(section) => types.extend(section.into_iter_err_on_gc_types().map(Result::unwrap)),
            Payload::FunctionSection(section) => functions.extend(section.into_iter().map(Result::unwrap)),
            Payload::ExportSection(section) => exports.extend(section.into_iter().map(Result::unwrap)),
            _ => {}
        }
    }
    let functions_only = exports.into_iter().filter(|export| export.kind == ExternalKind::Func);
    let typed = functions_only.map(|export| {
        let ty: FuncType = types[functions[export.index as usize] as usize].clone();
        (export.name.to_owned(), ty)
    });
    typed
        .filter(|(_, ty)| {
            are_numbers(ty.params()) && are_numbers(ty.results()) && ty.results().len() <= 1 && ty.params().len() <= 16
        })
        .collect()
}

fn are_numbers(types: &[ValType]) -> bool {
    types.iter().all(|ty| matches!(ty, ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64))
}
