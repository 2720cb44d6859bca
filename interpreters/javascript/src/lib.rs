//! QuickJS as a component: runs a program in JavaScript that calls tools.
//!
//! The engine is set up before the component is encoded, and what it left in memory becomes part of the component: a
//! program begins at once. Nothing is imported but the calls of tools and the console.

#![allow(unsafe_code, reason = "the symbols that the C library and the pre-initializer look for are exported by name")]

#[rustfmt::skip]
mod bindings;
mod clock;
mod compile;
mod console;
mod engine;
mod eraser;
mod erasure;
mod exception;
mod execution;
mod source;
mod types;

use bindings::exports::fumehood::code::interpreter::{Exception, Guest, Program};

struct Interpreter;

impl Guest for Interpreter {
    fn run(program: Program) -> Result<Option<String>, Exception> {
        execution::run(program)
    }
}

bindings::export!(Interpreter with_types_in bindings);

/// Sets up the engine. Called once, when the component is built.
#[unsafe(export_name = "wizer-initialize")]
extern "C" fn initialize() {
    engine::set_up();
}
