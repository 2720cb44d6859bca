//! The port to the interpreter of programs.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::program::{Program, ProgramCalls, ProgramExecution};

/// An interpreter of programs, without any power of its own.
pub trait Interpreter: Send + Sync {
    /// Runs a program in a fresh instance, and serves its calls with `calls`, polled in the task of the caller. Dropping
    /// the future stops the program.
    fn run<'a>(&'a self, program: Program, calls: &'a mut dyn ProgramCalls) -> BoxFuture<'a, ProgramExecution>;

    /// Completes the run of a program together with its calls: up to the first time that it waits in the task of the
    /// caller, and the rest where programs do not hold up others. Dropping the returned future drops it.
    ///
    /// The default is the task of the caller for all of it.
    fn drive(&self, program: BoxFuture<'static, ()>) -> BoxFuture<'_, ()> {
        program
    }
}
