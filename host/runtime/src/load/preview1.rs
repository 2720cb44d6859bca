//! Programs for WASI preview 1: core modules, which become components of `wasi:cli/command`.
//!
//! The component around a program is always the same, with the adapter of wasmtime in it, so it is kept without the
//! program, in two files. A program is put between them as it is: nothing but the compiler process, which has it anyway, reads
//! its code. The test `the_wrapper_of_programs_is_current` makes the files, and routes `proc_exit` so that exit codes are kept.

use std::collections::HashSet;

use wasm_encoder::{ComponentSection as _, ComponentSectionId, RawSection};
use wasmparser::{ExternalKind, Parser, Payload};

use super::compile::malformed_error;
use super::error::LoadError;
use crate::wasi::guest_output::cut;

const BEFORE: &[u8] = include_bytes!("preview1/before.bin");
const AFTER: &[u8] = include_bytes!("preview1/after.bin");

/// Maximum number of imports that are compared with each other: WASI preview 1 has 46 functions.
const MAX_NAMES: usize = 256;

/// The module that a program may import functions of.
const WASI: &str = "wasi_snapshot_preview1";
/// The export that a host calls to run a program.
const START: &str = "_start";
/// The export with the memory of a program, which the host reads and writes.
const MEMORY: &str = "memory";

/// Returns the component of a program.
///
/// # Errors
/// If the module is malformed, or no program for WASI preview 1.
pub(crate) fn adapt(module: &[u8]) -> Result<Vec<u8>, LoadError> {
    check(module)?;
    let mut component = Vec::with_capacity(BEFORE.len() + module.len() + AFTER.len() + 8);
    component.extend_from_slice(BEFORE);
    RawSection { id: ComponentSectionId::CoreModule.into(), data: module }.append_to_component(&mut component);
    component.extend_from_slice(AFTER);
    Ok(component)
}

/// Checks the names that a program imports and exports. Their types are left to the engine.
fn check(module: &[u8]) -> Result<(), LoadError> {
    let mut foreign = None;
    let mut names = HashSet::new();
    let mut has_start = false;
    let mut has_memory = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(malformed_error)? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(malformed_error)?;
                    if import.module != WASI {
                        foreign.get_or_insert((import.module, import.name));
                    } else if names.len() < MAX_NAMES && !names.insert(import.name) {
                        return Err(LoadError::RepeatedImport(cut(&format!("{WASI}.{}", import.name))));
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(malformed_error)?;
                    has_start |= export.kind == ExternalKind::Func && export.name == START;
                    has_memory |= export.kind == ExternalKind::Memory && export.name == MEMORY;
                }
            }
            _ => {}
        }
    }
    match foreign {
        _ if !has_start => Err(LoadError::CoreModule),
        Some((module, name)) => Err(LoadError::NotPreview1(cut(&format!("imports `{module}.{name}`")))),
        None if !has_memory => Err(LoadError::NotPreview1(format!("does not export its `{MEMORY}`"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;
    use crate::engine::{self, EngineKind, EngineSettings};

    fn error_of(module: &str) -> String {
        adapt(&wat::parse_str(module).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn puts_a_program_into_a_component_that_compiles() {
        let module = wat::parse_str(
            r#"(module
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (memory (export "memory") 1)
                (func (export "_start") (call $exit (i32.const 7))))"#,
        )
        .unwrap();
        let component = adapt(&module).unwrap();
        let engine = engine::build(&EngineSettings::only_compiling(EngineKind::Synchronous)).unwrap();
        Component::from_binary(&engine, &component).unwrap();
    }

    #[test]
    fn names_the_reason_why_a_module_is_no_program() {
        let other =
            error_of(r#"(module (import "env" "f" (func)) (memory (export "memory") 1) (func (export "_start")))"#);
        assert!(other.contains("imports `env.f`"), "{other}");
        let twice = error_of(
            r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
                (import "wasi_snapshot_preview1" "sched_yield" (func (result i32))))"#,
        );
        assert!(twice.contains("imports `wasi_snapshot_preview1.sched_yield` twice"), "{twice}");
        assert!(error_of(r#"(module (func (export "_start")))"#).contains("does not export its `memory`"));
        assert!(error_of(r#"(module (memory (export "memory") 1))"#).contains("core WebAssembly module"));
        assert!(error_of(r#"(module (memory (export "_start") 1))"#).contains("core WebAssembly module"));
        assert!(adapt(b"\0asm\x01\0\0\0\x02\xff").is_err());
    }
}
