//! The execution of one program: its jobs, its calls and its timers, until it ends.

use rquickjs::{Function, Object};

use crate::bindings::exports::fumehood::code::interpreter::{Exception, Limits, Program};
use crate::bindings::fumehood::code::calls::{self, CallError};
use crate::compile::compile;
use crate::engine::{self, End, Engine};
use crate::exception::{self, catch};
use crate::{clock, console};

/// Memory of the component that is not the program's, in bytes: its data, its stack, and copies of results.
const OVERHEAD_BYTES: u64 = 4 << 20;

/// Runs a program to its end.
pub(crate) fn run(program: Program) -> Result<Option<String>, Exception> {
    clock::set(program.start_time_ms);
    engine::seed(program.seed);
    console::set_limit(program.limits.console as usize);
    engine::with(|engine| run_in(engine, &program))
        .unwrap_or_else(|| Err(exception::new("InternalError", "the interpreter could not be set up")))
}

fn run_in(engine: &Engine, program: &Program) -> Result<Option<String>, Exception> {
    let Program { code, tools, limits, .. } = program;
    engine.context.runtime().set_memory_limit(program_memory(limits));
    engine.context.with(|ctx| {
        let prelude = engine.prelude.clone().restore(&ctx);
        let prelude = prelude.map_err(|error| exception::new("InternalError", &error.to_string()))?;
        catch(&ctx, &prelude, begin(&prelude, tools), code)?;
        let main = compile(&ctx, &prelude, code)?;
        let started = prelude.get::<_, Function<'_>>("run").and_then(|run| run.call::<_, ()>((main,)));
        catch(&ctx, &prelude, started, code)?;
        loop {
            while ctx.execute_pending_job() {}
            if let Some(end) = engine::take_end() {
                return finish(end, code, limits);
            }
            let advanced = advance(&prelude);
            if !catch(&ctx, &prelude, advanced, code)? {
                let message = "the program waits for a promise that nothing settles";
                return Err(exception::new("Error", message));
            }
        }
    })
}

/// Returns the part of the component's memory that the program may use, in bytes.
fn program_memory(limits: &Limits) -> usize {
    // A quarter is for what the allocator cannot use, and for values on their way in and out.
    let bytes = limits.memory.saturating_sub(OVERHEAD_BYTES) / 4 * 3;
    usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
}

fn begin<'js>(prelude: &Object<'js>, tools: &[String]) -> rquickjs::Result<()> {
    prelude.get::<_, Function<'js>>("begin")?.call((tools,))
}

/// Waits for calls, or fires a timer. Returns false if there is neither.
fn advance<'js>(prelude: &Object<'js>) -> rquickjs::Result<bool> {
    if !prelude.get::<_, Function<'js>>("hasPending")?.call::<_, bool>(())? {
        return prelude.get::<_, Function<'js>>("fireTimer")?.call(());
    }
    let finished = calls::wait();
    let deliver = prelude.get::<_, Function<'js>>("deliver")?;
    let has_finished = !finished.is_empty();
    for (id, result) in finished {
        match result {
            Ok(value) => deliver.call::<_, ()>((id, value))?,
            Err(CallError { kind, message, retryable }) => {
                deliver.call::<_, ()>((id, (), kind, message, retryable))?;
            }
        }
    }
    Ok(has_finished)
}

fn finish(end: End, code: &str, limits: &Limits) -> Result<Option<String>, Exception> {
    match end {
        End::Returned(Some(value)) if value.len() > limits.output as usize => {
            let message = format!(
                "the returned value has {} bytes as JSON, where at most {} are accepted; return less, such as a summary",
                value.len(),
                limits.output
            );
            Err(exception::new("RangeError", &message))
        }
        End::Returned(value) => Ok(value),
        End::Threw(parts) => Err(parts.locate(code)),
    }
}
