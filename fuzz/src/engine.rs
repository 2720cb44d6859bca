//! Generated modules and components with any proposals: those that the loader or the engine accepts reach no code that
//! was compiled out, and the loader rejects those that the engine rejects, with the name of the proposal.

use std::sync::OnceLock;

use arbitrary::Unstructured;
use fumehood_runtime::{EngineProfile, LoadError, LoadOptions, Sandbox, SandboxConfig};
use tokio::runtime::Runtime;
use wasm_smith::{Component, Config, Module};
use wasmparser::{Validator, WasmFeatures};
use wasmtime::{Instance, Store, Val};

/// Fuel of one function call.
const FUEL: u64 = 100_000;
/// Maximum number of functions of one module that are called.
const MAX_CALLS: usize = 8;

/// The outcome of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing could be generated, or the result is invalid with any proposals.
    Nothing,
    /// The loader rejected it because of this proposal.
    Refused(&'static str),
    /// It was compiled, and this number of its functions was called.
    Ran(usize),
}

fn sandbox() -> &'static (Sandbox, Runtime) {
    static SANDBOX: OnceLock<(Sandbox, Runtime)> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let config = SandboxConfig {
            profile: EngineProfile::Automatic,
            concurrency: 2,
            memory_ceiling: 64 << 20,
            ..SandboxConfig::default()
        };
        let sandbox = Sandbox::new(config).expect("a sandbox");
        (sandbox, tokio::runtime::Builder::new_current_thread().build().expect("a runtime"))
    })
}

/// Generates a module or a component from the bytes, and loads it. The first two bytes select the proposals.
pub fn run(data: &[u8]) -> Verdict {
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return Verdict::Nothing };
    let bits = u16::from_le_bytes(*head);
    let mut raw = Unstructured::new(rest);
    if bits & 1 == 0 {
        let Ok(module) = Module::new(config(bits, 0), &mut raw) else { return Verdict::Nothing };
        run_module(&module.to_bytes())
    } else {
        let Ok(component) = Component::new(config(bits, 4), &mut raw) else { return Verdict::Nothing };
        match load(component.to_bytes()) {
            Err(LoadError::Proposal { proposal, .. }) => Verdict::Refused(proposal),
            Err(LoadError::Host(reason)) => panic!("{reason}"),
            Err(LoadError::Malformed(_)) => Verdict::Nothing,
            _ => Verdict::Ran(0),
        }
    }
}

/// Returns the configuration of the generator. Bits 1 and 2 together enable all proposals, and each other bit one of
/// them, so that some modules use just one. Bit 14 disables segments, which are mostly out of bounds and prevent
/// instantiation.
fn config(bits: u16, max_imports: usize) -> Config {
    let all = bits & 0b110 == 0b110;
    let on = |bit: u16| all || bits >> bit & 1 == 1;
    Config {
        gc_enabled: on(3),
        exceptions_enabled: on(4),
        reference_types_enabled: true,
        memory64_enabled: on(5),
        relaxed_simd_enabled: on(6),
        tail_call_enabled: on(7),
        threads_enabled: on(8),
        shared_everything_threads_enabled: on(9),
        custom_descriptors_enabled: on(10),
        custom_page_sizes_enabled: on(11),
        wide_arithmetic_enabled: on(12),
        max_memories: if on(13) { 3 } else { 1 },
        max_memory32_bytes: 1 << 20,
        max_table_elements: 1000,
        max_imports,
        export_everything: max_imports == 0,
        min_funcs: 1,
        max_data_segments: if bits >> 14 & 1 == 1 { 0 } else { 8 },
        max_element_segments: if bits >> 14 & 1 == 1 { 0 } else { 8 },
        ..Config::default()
    }
}

fn load(component: Vec<u8>) -> Result<(), LoadError> {
    let (sandbox, runtime) = sandbox();
    runtime.block_on(sandbox.load(component, LoadOptions::default())).map(drop)
}

fn run_module(bytes: &[u8]) -> Verdict {
    let (sandbox, _) = sandbox();
    let mut component = wasm_encoder::ComponentBuilder::default();
    component.core_module_raw(None, bytes);
    let proposal = match load(component.finish()) {
        Err(LoadError::Proposal { proposal, .. }) => Some(proposal),
        _ => None,
    };
    match (wasmtime::Module::new(sandbox.engine(), bytes), proposal) {
        (Ok(module), None) => Verdict::Ran(call_exports(&module)),
        (Ok(_), Some(proposal)) => panic!("the loader takes for {proposal} what the engine compiles"),
        (Err(_), Some(proposal)) => Verdict::Refused(proposal),
        (Err(error), None) => {
            let is_limit = format!("{error:?}").contains("exceeds the limit");
            let is_valid = Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok();
            assert!(is_limit || !is_valid, "refused, and the loader names no proposal: {error:?}");
            Verdict::Nothing
        }
    }
}

/// Instantiates a module and calls its exported functions. Traps, out of fuel and results are all accepted.
fn call_exports(module: &wasmtime::Module) -> usize {
    let mut store = Store::new(module.engine(), ());
    store.set_fuel(FUEL).expect("fuel is on");
    store.set_epoch_deadline(1 << 40);
    let Ok(instance) = Instance::new(&mut store, module, &[]) else { return 0 };
    let functions: Vec<_> = instance.exports(&mut store).filter_map(|export| export.into_func()).collect();
    let mut calls = 0;
    for function in functions.into_iter().take(MAX_CALLS) {
        let ty = function.ty(&store);
        let arguments = ty.params().map(|ty| Val::default_for_ty(&ty)).collect::<Option<Vec<_>>>();
        let Some(arguments) = arguments else { continue };
        let mut results = vec![Val::I32(0); ty.results().len()];
        store.set_fuel(FUEL).expect("fuel is on");
        let _ended = function.call(&mut store, &arguments, &mut results);
        calls += 1;
    }
    calls
}
