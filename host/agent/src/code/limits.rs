//! Limits of one program with its calls, and how code mode is offered to a model.

use std::num::NonZeroUsize;
use std::time::Duration;

use fumehood_core::call::limits::Limits;

/// Limits of one program and of its calls together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Maximum size of the source text, in bytes. Default: 64 KiB.
    pub code: usize,
    /// Maximum wall time. Time in which a person is asked about a call is not counted. Default: 60 s.
    pub wall_time: Duration,
    /// Maximum fuel of the program itself. Default: 10 billion.
    pub fuel: u64,
    /// Maximum fuel of all its calls. Known only after a call ended, so the last ones may exceed it. Default: 100 billion.
    pub call_fuel: u64,
    /// Maximum memory of the program itself, in bytes. Default: 64 MiB.
    pub memory: usize,
    /// Maximum number of calls, including those that are refused. Default: 100.
    pub calls: u32,
    /// Maximum number of calls that run at a time; others wait. Default: 16.
    pub concurrency: NonZeroUsize,
    /// Maximum size of the arguments of all calls together, in bytes. Default: 8 MiB.
    pub argument_bytes: usize,
    /// Maximum size of the results of all calls together, in bytes. Default: 32 MiB.
    pub result_bytes: usize,
    /// Maximum size of the value that it returns, in bytes of JSON. Default: 16 KiB.
    pub output: usize,
    /// Maximum size of everything that it prints, in bytes. Default: 4 KiB.
    pub console: usize,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self {
            code: 64 << 10,
            wall_time: Duration::from_secs(60),
            fuel: 10_000_000_000,
            call_fuel: 100_000_000_000,
            memory: 64 << 20,
            calls: 100,
            concurrency: NonZeroUsize::MIN.saturating_add(15),
            argument_bytes: 8 << 20,
            result_bytes: 32 << 20,
            output: 16 << 10,
            console: 4 << 10,
        }
    }
}

impl ProgramLimits {
    /// Returns the limits of the interpreter.
    pub(super) fn of_interpreter(&self) -> Limits {
        Limits::default()
            .deadline(self.wall_time)
            .fuel(self.fuel)
            .memory(self.memory)
            .output(self.output)
            .log(self.console)
    }

    /// Returns the maximum size of what a model gets from a program: value, console, and what surrounds them.
    pub(super) fn report_bytes(&self) -> usize {
        self.output.saturating_add(self.console.saturating_mul(2)).saturating_add(1 << 10)
    }
}

/// The offer of code mode to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeMode {
    /// True if tools can be called by programs only, and not directly.
    pub only: bool,
    /// The limits of each program.
    pub limits: ProgramLimits,
}

impl CodeMode {
    /// Programs beside direct calls.
    #[must_use]
    pub fn beside_direct_calls() -> Self {
        Self::default()
    }

    /// Programs as the only way to call tools.
    #[must_use]
    pub fn only() -> Self {
        Self { only: true, ..Self::default() }
    }

    /// Sets the limits of each program.
    #[must_use]
    pub fn limits(mut self, limits: ProgramLimits) -> Self {
        self.limits = limits;
        self
    }
}
