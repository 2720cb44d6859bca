//! Programs that models write, and the port through which they call tools.

use std::fmt;
use std::sync::Arc;

use crate::boxed::BoxFuture;
use crate::call::content::Content;
use crate::call::event::Level;
use crate::call::limits::Limits;
use crate::call::result::{CallError, Metadata};
use crate::call::{CancellationToken, FuelAccount};
use crate::text::untrusted::{PrintableText, Untrusted};

/// A program that a model wrote, and everything that it may depend on, apart from the results of its calls.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The source text.
    pub code: String,
    /// The names of the tools that it can call, each `component__tool`.
    pub tools: Vec<String>,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The time at which its logical clock starts, in milliseconds since 1970-01-01T00:00:00Z.
    pub start_time_ms: u64,
    /// The limits of the interpreter, which must have passed [`Limits::check`]. `output` is that of the returned value, `log` that
    /// of the console. Limits on handles, randomness and strings have no effect on a program.
    pub limits: Limits,
    /// A token that ends the program with the kind `cancelled`, and with the metadata of its cost until then.
    pub cancelled: Option<CancellationToken>,
    /// An account that an interpreter may take its fuel from while it runs, about once a millisecond. It ends the program with
    /// the kind `fuel` once the account is empty.
    pub account: Option<Arc<dyn FuelAccount>>,
}

/// The outcome of a program, with what it printed and its cost.
#[derive(Debug, Clone)]
pub struct ProgramExecution {
    /// The value that it returned, a JSON part, or `None` if it returned nothing; or the reason that there is none.
    pub outcome: Result<Option<Content>, ProgramError>,
    /// Everything that it printed until then.
    pub console: Vec<ConsoleLine>,
    /// The cost of the interpreter, without that of the calls. `log_dropped` counts the bytes that were printed beyond the limit.
    pub metadata: Metadata,
}

/// The failure of a program.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It did not catch an exception.
    #[error("{0}")]
    Exception(Exception),
    /// It was not started, was stopped, or crashed its interpreter.
    #[error("{}", .0.message)]
    Failed(CallError),
}

impl From<CallError> for ProgramError {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

/// An exception that a program did not catch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The class, for example `TypeError`.
    pub name: PrintableText,
    /// The message.
    pub message: PrintableText,
    /// The line of the program, starting at 1, if it is known.
    pub line: Option<u32>,
    /// The column in that line, starting at 1.
    pub column: Option<u32>,
    /// The kind of the failed call, if it comes from one.
    pub kind: Option<PrintableText>,
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)?;
        if let Some(kind) = &self.kind {
            write!(f, " [{kind}]")?;
        }
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, " (line {line}, column {column})"),
            (Some(line), None) => write!(f, " (line {line})"),
            _ => Ok(()),
        }
    }
}

/// One message that a program printed. It may have several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleLine {
    /// The severity.
    pub level: Level,
    /// The text.
    pub text: Untrusted<String>,
}

/// A call of a program that has finished.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// The id that [`ProgramCalls::start`] returned.
    pub id: u32,
    /// The result, as JSON text, or the error.
    pub result: Result<String, CallError>,
}

/// A handle that pauses the deadline of a running program.
pub trait ProgramClock: Send + Sync {
    /// Pauses the deadline until the returned guard is dropped. Pauses may overlap.
    fn pause(&self) -> Box<dyn Send>;
}

/// The calls that a program makes: everything that it does outside of itself.
///
/// Implementations check every call as if the model had made it directly. They are polled in the task that awaits the
/// interpreter. A program may end while calls run; implementations decide what happens to those.
pub trait ProgramCalls: Send {
    /// Starts a call of a tool, and returns its id, unique within the program. A call that is refused is finished at
    /// once.
    fn start(&mut self, name: String, arguments: String) -> u32;

    /// Waits until a call has finished, and returns all that have since the last time. Returns nothing if none runs.
    ///
    /// The time counts towards the deadline of the program, except while that is paused.
    fn wait<'a>(&'a mut self, clock: &'a dyn ProgramClock) -> BoxFuture<'a, Vec<FinishedCall>>;
}
