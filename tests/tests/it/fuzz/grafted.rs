//! Meaningless modules that implement the contract: the required exports are added to each. Its own functions run when
//! a tool is called, sometimes while it describes itself, and sometimes decide where the result lies.

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use fumehood_tests::wrap_module;
use wasm_encoder::{Encode as _, Function, Instruction, MemArg, ValType};
use wasm_smith::{Config, Module};
use wasmparser::{FuncType, Parser, Payload};

use super::bytes::config;
use super::cases::{Random, run};
use super::guests::Guests;

const MAX_BYTES: usize = 4096;
/// Maximum number of functions of the module that one call runs.
const CALLED: usize = 6;
/// Maximum number of steps of code that has to end, so that there is a result.
const STEPS: u32 = 10_000;
/// Minimum and maximum pages of every memory. The added data lies in the second page.
const PAGES: (u8, u8) = (16, 63);
const ADDED_AT: u32 = 0x1_0000;

/// The ids of the sections of a module, in their required order.
const SECTIONS: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11];
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const EXPORTS: u8 = 7;
const DATA_COUNT: u8 = 12;
const CODE: u8 = 10;
const DATA: u8 = 11;

#[test]
fn senseless_tools_of_the_contract() {
    let mut guests = Guests::new();
    run("senseless tools of the contract", |random| {
        let length = 64 + random.below(MAX_BYTES);
        let raw = random.bytes(length);
        let starts = random.below(4) == 0;
        let config = Config { max_imports: 0, min_memories: 1, min_funcs: 1, allow_start_export: starts, ..config() };
        let Ok(mut module) = Module::new(config, &mut Unstructured::new(&raw)) else { return };
        if random.below(3) > 0 && module.ensure_termination(STEPS).is_err() {
            return;
        }
        let Ok(component) = wrap_module(grafted(&module.to_bytes(), random)) else { return };
        guests.try_one(component, random);
    });
    let calls = guests.end();
    assert!(std::env::var_os("FUMEHOOD_FUZZ_CASE").is_some() || calls > 0, "nothing was ever called");
}

/// A function of the module whose parameters are numbers.
struct Callable {
    index: u32,
    ty: FuncType,
}

/// Returns the module with the exports of the contract.
fn grafted(module: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut sections, types, functions) = read(module);
    let added_type = u32_of(types.len());
    let added_function = u32_of(functions.len());
    let callable: Vec<Callable> = functions
        .iter()
        .zip(0..)
        .map(|(ty, index)| Callable { index, ty: types[*ty as usize].clone() })
        .filter(|function| function.ty.params().iter().all(is_number))
        .collect();
    let i32s = |count: usize| [vec![0x60, u8::try_from(count).unwrap()], vec![0x7f; count], vec![1, 0x7f]].concat();
    append(&mut sections, TYPES, &[i32s(0), i32s(6), i32s(4)]);
    append(&mut sections, FUNCTIONS, &[leb(added_type), leb(added_type + 1), leb(added_type + 2)]);
    // One memory, large enough for the added data, and small enough that some cases exhaust it.
    let (least, most) = PAGES;
    sections.insert(MEMORIES, vec![1, 1, least, most]);
    let export =
        |name: &str, kind: u8, index: u32| [leb(u32_of(name.len())), name.into(), vec![kind], leb(index)].concat();
    let exports = [
        export("fumehood:tool/tools@0.1.0#describe", 0, added_function),
        export("fumehood:tool/tools@0.1.0#call", 0, added_function + 1),
        export("cabi_realloc", 0, added_function + 2),
        export("memory", 2, 0),
    ];
    append(&mut sections, EXPORTS, &exports);
    let describe = describe(&callable, random);
    let call = call(&callable, random);
    append(&mut sections, CODE, &[encoded(&describe), encoded(&call), encoded(&realloc(random))]);
    let data = definition();
    let head = [&[0, 0x41][..], &signed(i64::from(ADDED_AT)), &[0x0b], &leb(u32_of(data.len()))].concat();
    append(&mut sections, DATA, &[[head, data].concat()]);
    if let Some(count) = sections.remove(&DATA_COUNT) {
        sections.insert(DATA_COUNT, leb(unleb(&count).0 + 1));
    }
    written(&sections)
}

fn is_number(ty: &wasmparser::ValType) -> bool {
    use wasmparser::ValType::{F32, F64, I32, I64};
    matches!(ty, I32 | I64 | F32 | F64)
}

type Sections = BTreeMap<u8, Vec<u8>>;

/// Returns the sections, the types, and the type index of each function.
fn read(module: &[u8]) -> (Sections, Vec<FuncType>, Vec<u32>) {
    let mut sections = Sections::new();
    let mut types = Vec::new();
    let mut functions = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.unwrap();
        if let Some((id, range)) = payload.as_section() {
            sections.insert(id, module[range].to_vec());
        }
        match payload {
            Payload::TypeSection(section) => types.extend(section.into_iter_err_on_gc_types().map(Result::unwrap)),
            Payload::FunctionSection(section) => functions.extend(section.into_iter().map(Result::unwrap)),
            _ => {}
        }
    }
    (sections, types, functions)
}

fn written(sections: &Sections) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for id in SECTIONS {
        if let Some(section) = sections.get(&id) {
            module.extend([&[id][..], &leb(u32_of(section.len())), section].concat());
        }
    }
    module
}

/// Appends entries to a section, which begins with their number.
fn append(sections: &mut Sections, id: u8, entries: &[Vec<u8>]) {
    let before = sections.remove(&id).unwrap_or_else(|| vec![0]);
    let (count, at) = unleb(&before);
    let after = [leb(count + u32_of(entries.len())), before[at..].to_vec(), entries.concat()].concat();
    sections.insert(id, after);
}

fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

fn leb(number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.encode(&mut bytes);
    bytes
}

fn signed(number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.encode(&mut bytes);
    bytes
}

/// Decodes a LEB128 number. Returns it and its length in bytes.
fn unleb(bytes: &[u8]) -> (u32, usize) {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate() {
        number |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return (number, at + 1);
        }
    }
    panic!("a number that does not end: {bytes:?}");
}

fn encoded(function: &Function) -> Vec<u8> {
    let mut bytes = Vec::new();
    function.encode(&mut bytes);
    bytes
}

/// Calls a function with meaningless numbers. Its results are dropped, except for a last `i32`, which is kept in the
/// local `keep`.
fn call_one(function: &mut Function, called: &Callable, keep: Option<u32>, random: &mut Random) {
    for ty in called.ty.params() {
        let number = random.number();
        let small = random.below(2) == 0;
        function.instruction(&match ty {
            wasmparser::ValType::I32 => {
                Instruction::I32Const(if small { (number & 0xff) as i32 } else { number as i32 })
            }
            wasmparser::ValType::I64 => {
                Instruction::I64Const(if small { (number & 0xff) as i64 } else { number as i64 })
            }
            wasmparser::ValType::F32 => Instruction::F32Const(wasm_encoder::Ieee32::new(number as u32)),
            _ => Instruction::F64Const(wasm_encoder::Ieee64::new(number)),
        });
    }
    function.instruction(&Instruction::Call(called.index));
    for (at, ty) in called.ty.results().iter().rev().enumerate() {
        function.instruction(&match keep {
            Some(local) if at == 0 && *ty == wasmparser::ValType::I32 => Instruction::LocalSet(local),
            _ => Instruction::Drop,
        });
    }
}

/// Returns `describe`, which returns the address of the list of the only tool. A function that it runs first may have
/// overwritten that list.
fn describe(callable: &[Callable], random: &mut Random) -> Function {
    let mut function = Function::new([]);
    if random.below(4) == 0 && !callable.is_empty() {
        call_one(&mut function, random.pick(callable), None, random);
    }
    function.instruction(&Instruction::I32Const(ADDED_AT as i32));
    function.instruction(&Instruction::End);
    function
}

/// Returns `call`, which runs some functions and returns mostly a text from memory, and sometimes whatever lies at an
/// address that a function returned.
fn call(callable: &[Callable], random: &mut Random) -> Function {
    const KEPT: u32 = 6;
    let at = ADDED_AT + 0x400;
    let mut function = Function::new([(1, ValType::I32)]);
    let wild = random.below(3) == 0;
    function.instruction(&Instruction::I32Const(at as i32));
    function.instruction(&Instruction::LocalSet(KEPT));
    for _ in 0..=random.below(CALLED) {
        if !callable.is_empty() {
            call_one(&mut function, random.pick(callable), wild.then_some(KEPT), random);
        }
    }
    // A list of one part, a text or JSON of meaningless bytes, mostly short.
    let length = if random.below(4) == 0 { random.number() as u32 } else { random.number() as u32 & 0xff };
    let from = (random.number() as u32) & 0x3_ffff;
    let part = at + 0x40;
    for (offset, value) in
        [(at, 0), (at + 8, part), (at + 12, 1), (part, u32_of(random.below(2))), (part + 4, from), (part + 8, length)]
    {
        function.instruction(&Instruction::I32Const(offset as i32));
        function.instruction(&Instruction::I32Const(value as i32));
        function.instruction(&Instruction::I32Store(MemArg { offset: 0, align: 2, memory_index: 0 }));
    }
    function.instruction(&Instruction::LocalGet(KEPT));
    function.instruction(&Instruction::End);
    function
}

/// Returns `realloc`, which mostly returns an address at which arguments fit.
fn realloc(random: &mut Random) -> Function {
    let at = if random.below(8) == 0 { random.number() as i32 } else { 0x2_0000 };
    let mut function = Function::new([]);
    function.instruction(&Instruction::I32Const(at));
    function.instruction(&Instruction::End);
    function
}

/// Returns the list of one tool, the tool, and its texts, from [`ADDED_AT`] on.
fn definition() -> Vec<u8> {
    let schema = r#"{"type":"object","additionalProperties":true}"#;
    let texts = ADDED_AT + 0x80;
    let [name, description, input] = [(texts, 3), (texts + 3, 1), (texts + 4, u32_of(schema.len()))];
    let fields = [name.0, name.1, 0, 0, 0, description.0, description.1, input.0, input.1, 0, 0, 0, 0, 0];
    let mut data: Vec<u8> = [ADDED_AT + 8, 1].iter().chain(&fields).flat_map(|word| word.to_le_bytes()).collect();
    data.resize(0x80, 0);
    [&data[..], b"run?", schema.as_bytes()].concat()
}
