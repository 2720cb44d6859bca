//! The compiler process: it reads one component from standard input and writes its compiled code to standard output.
//!
//! It enters the [jail](crate::jail) before it reads the first byte of the component. After that it cannot open files
//! or start processes, and has nothing of the host but three pipes.

use std::io::{self, BufRead as _, Read, Write};
use std::process::ExitCode;

use fumehood_platform::process;
use wasmtime::Engine;

use super::wire::{self, CompileFailure, Request, describe_malformed, is_out_of_memory};
use crate::engine::{self, EngineKind, EngineSettings};
use crate::jail::{self, Profile, Reachable, Resources};

/// Address space besides writable memory: the program itself, and what allocators reserve.
const EXTRA_ADDRESS_SPACE_BYTES: u64 = 1 << 30;
/// Maximum number of descriptors: the three pipes, and a few for the system libraries.
const MAX_DESCRIPTORS: u64 = 16;

/// Serves one request, and returns the exit code: the whole `main` of a compiler process.
///
/// [`crate::Compiler::Child`] starts it. It needs no setup, and is cheapest if it is the first thing that a program
/// does.
#[must_use]
pub fn serve_compiler() -> ExitCode {
    let served = jail::leave_inherited_descriptors().map_err(|error| CompileFailure::Unfit(error.to_string()));
    match served.and_then(|()| serve(io::stdin().lock(), io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(said) => {
            let line = serde_json::to_string(&said).unwrap_or_default();
            // If nobody reads it, the exit code still reports the failure.
            let _ = writeln!(io::stderr().lock(), "{line}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut input: impl io::BufRead, mut output: impl Write) -> Result<(), CompileFailure> {
    let request = read_request(&mut input)?;
    let engine = engine(&request.engine)?;
    enter_jail(&request).map_err(|error| CompileFailure::Unfit(format!("cannot limit the compiler: {error}")))?;
    let mut component = Vec::new();
    let length = usize::try_from(request.bytes).unwrap_or(usize::MAX);
    component.try_reserve_exact(length).map_err(|_| CompileFailure::Memory)?;
    let read = input.take(request.bytes).read_to_end(&mut component);
    if read.is_err() || component.len() != length {
        return Err(CompileFailure::Unfit("the compiler received an incomplete component".to_owned()));
    }
    let code = engine.precompile_component(&component).map_err(|error| {
        if is_out_of_memory(&error) {
            CompileFailure::Memory
        } else {
            CompileFailure::Malformed(describe_malformed(&error))
        }
    })?;
    let head = wire::encode_header(code.len() as u64);
    output
        .write_all(&head)
        .and_then(|()| output.write_all(&code))
        .and_then(|()| output.flush())
        .map_err(|error| CompileFailure::Unfit(format!("cannot return the compiled code: {error}")))
}

fn read_request(input: &mut impl io::BufRead) -> Result<Request, CompileFailure> {
    let mut line = String::new();
    let read = input.take(wire::MAX_LINE_BYTES).read_line(&mut line);
    read.map_err(|_| misuse_failure())?;
    serde_json::from_str(&line).map_err(|_| misuse_failure())
}

fn misuse_failure() -> CompileFailure {
    let message = "this command is for internal use: a fumehood host sends it a component on standard input";
    CompileFailure::Unfit(message.to_owned())
}

/// Builds the engine of the host with this [`wire::engine_id`], except for the allocation of instances, of which there are none.
fn engine(expected: &str) -> Result<Engine, CompileFailure> {
    for kind in EngineKind::ALL {
        let engine = engine::build(&EngineSettings::only_compiling(kind));
        let engine = engine.map_err(|error| CompileFailure::Unfit(error.to_string()))?;
        if wire::engine_id(&engine) == expected {
            return Ok(engine);
        }
    }
    Err(CompileFailure::Unfit("the compiler and the host are different builds; use the same build".to_owned()))
}

/// Enters the jail, and ties this process to its host. Where the kernel lacks a layer of the jail, the rest is in
/// force.
fn enter_jail(request: &Request) -> Result<(), String> {
    // A compiler whose host is gone has no reader.
    process::end_with_parent().map_err(|error| error.to_string())?;
    let resources = Resources {
        data: request.memory,
        address_space: Some(request.memory.saturating_add(EXTRA_ADDRESS_SPACE_BYTES)),
        cpu_seconds: Some(request.cpu_seconds),
        file_size: Some(0),
        descriptors: MAX_DESCRIPTORS,
    };
    jail::enter(&mut Reachable::default(), &resources, Profile::Compiler).map(|_layers| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_input_that_is_not_a_request() {
        for input in ["", "hello\n", "{}\n"] {
            let served = serve(input.as_bytes(), io::sink());
            assert!(matches!(served, Err(CompileFailure::Unfit(text)) if text.contains("for internal use")));
        }
    }
}
