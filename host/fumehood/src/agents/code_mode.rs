//! Code mode for agents over the tools of a host: programs in JavaScript, run in the host's sandbox.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::code::{self, CodeMode, ProgramCalls, ProgramClock};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_runtime::{ConsoleLevel, FinishedCall, LoadError, Program, ProgramDeadline};

use super::builder::AgentBuilder;
use crate::host::Host;

/// An interpreter of JavaScript in the sandbox of a host: QuickJS as a component, without any power.
///
/// It is loaded with the first program: its code is taken from the cache, or compiled.
#[derive(Clone)]
pub struct JavaScript {
    host: Host,
}

impl fmt::Debug for JavaScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JavaScript").finish_non_exhaustive()
    }
}

impl Host {
    /// Returns the interpreter of JavaScript in the sandbox of this host, for code mode.
    #[must_use]
    pub fn javascript(&self) -> JavaScript {
        JavaScript { host: self.clone() }
    }
}

impl AgentBuilder {
    /// Gives the model two tools, `run_code` and `search_tools`, for programs in JavaScript that call tools.
    ///
    /// Programs run in the sandbox without any power, and each of their calls is checked, approved, recorded and counted
    /// towards the budgets as if the model had made it directly. [`Budget::calls`](fumehood_agent::budget::Budget::calls) limits them too.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::agent::code::CodeMode;
    /// use fumehood::model::{ScriptedModel, ScriptedReply};
    /// use fumehood::{Host, Load};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
    /// let host = Host::builder().build()?;
    /// host.load(Load::path(path)).await?;
    ///
    /// let code = "let all = 0; for (const n of [1, 2, 3]) { \
    ///             all = (await tools.calculator.add({a: all, b: n})).result } return all";
    /// let model = ScriptedModel::new(vec![
    ///     ScriptedReply::call("run_code", serde_json::json!({"code": code}).to_string()),
    ///     ScriptedReply::text("It is 6.").expect_text(r#"{"result":6}"#),
    /// ]);
    /// let mut agent = host.agent(Arc::new(model)).allow_everything().code(CodeMode::only()).build()?;
    /// assert_eq!(agent.run("What is 1 + 2 + 3?").await?.text(), "It is 6.");
    /// # host.shutdown(std::time::Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn code(self, mode: CodeMode) -> Self {
        let interpreter = Arc::new(self.host.javascript());
        self.pipeline(move |pipeline| pipeline.code(interpreter, mode))
    }
}

impl code::Interpreter for JavaScript {
    fn run<'a>(
        &'a self,
        program: code::Program,
        calls: &'a mut dyn ProgramCalls,
    ) -> BoxFuture<'a, code::ProgramExecution> {
        Box::pin(async move {
            let interpreter = match self.host.interpreter().await {
                Ok(interpreter) => interpreter,
                Err(error) => return load_failure(&error),
            };
            let code::Program { code, tools, seed, start_time_ms, mut limits, cancelled, account } = program;
            limits.memory = limits.memory.min(self.host.sandbox().memory_ceiling());
            let program = Program { code, tools, seed, start_time_ms, limits, cancelled: Some(cancelled), account };
            let execution = interpreter.run(program, &mut Calls(calls)).await;
            code::ProgramExecution {
                outcome: execution.outcome.map_err(to_error),
                console: execution.console.into_iter().map(to_line).collect(),
                metadata: execution.metadata,
            }
        })
    }

    fn drive(&self, program: BoxFuture<'static, ()>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A program that did not complete has no end, which its caller sees.
            let _has_completed = self.host.sandbox().drive(program).await;
        })
    }
}

fn load_failure(error: &LoadError) -> code::ProgramExecution {
    let error = CallError::new(ErrorKind::Host, format!("cannot load the interpreter of programs: {error}"));
    let outcome = Err(code::ProgramError::Failed(error.with_hint("call tools directly")));
    code::ProgramExecution { outcome, console: Vec::new(), metadata: Metadata::default() }
}

fn to_error(error: fumehood_runtime::ProgramError) -> code::ProgramError {
    match error {
        fumehood_runtime::ProgramError::Failed(error) => code::ProgramError::Failed(error),
        fumehood_runtime::ProgramError::Exception(fumehood_runtime::Exception {
            name,
            message,
            line,
            column,
            kind,
        }) => code::ProgramError::Exception(code::Exception { name, message, line, column, kind }),
        other => code::ProgramError::Failed(CallError::new(ErrorKind::Host, format!("the program failed: {other}"))),
    }
}

fn to_line(line: fumehood_runtime::ConsoleLine) -> code::ConsoleLine {
    let level = match line.level {
        ConsoleLevel::Debug => Level::Debug,
        ConsoleLevel::Info => Level::Info,
        ConsoleLevel::Warn => Level::Warn,
        ConsoleLevel::Error => Level::Error,
    };
    code::ConsoleLine { level, text: line.text }
}

/// The calls of a program, as the sandbox makes them.
struct Calls<'a>(&'a mut dyn ProgramCalls);

impl fumehood_runtime::ProgramCalls for Calls<'_> {
    fn start(&mut self, name: String, arguments: String) -> BoxFuture<'_, u32> {
        Box::pin(std::future::ready(self.0.start(name, arguments)))
    }

    fn wait<'a>(&'a mut self, deadline: &'a ProgramDeadline) -> BoxFuture<'a, Vec<FinishedCall>> {
        Box::pin(async move {
            let clock = Clock(deadline.clone());
            let finished = self.0.wait(&clock).await;
            finished.into_iter().map(|code::FinishedCall { id, result }| FinishedCall { id, result }).collect()
        })
    }
}

/// The deadline of a program, as code mode pauses it.
struct Clock(ProgramDeadline);

impl ProgramClock for Clock {
    fn pause(&self) -> Box<dyn Send> {
        Box::new(self.0.pause())
    }
}
