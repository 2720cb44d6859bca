//! Code mode for agents over the tools of a host: programs in JavaScript, run in the host's sandbox.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::code::{CodeMode, Interpreter};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::program::{Program, ProgramCalls, ProgramExecution};
use fumehood_runtime::LoadError;

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

impl Interpreter for JavaScript {
    fn run<'a>(&'a self, program: Program, calls: &'a mut dyn ProgramCalls) -> BoxFuture<'a, ProgramExecution> {
        Box::pin(async move {
            let interpreter = match self.host.interpreter().await {
                Ok(interpreter) => interpreter,
                Err(error) => return load_failure(&error),
            };
            let memory = program.limits.memory.min(self.host.sandbox().memory_ceiling());
            let limits = program.limits.memory(memory);
            interpreter.run(Program { limits, ..program }, calls).await
        })
    }

    fn drive(&self, program: BoxFuture<'static, ()>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A program that did not complete has no end, which its caller sees.
            let _has_completed = self.host.sandbox().drive(program).await;
        })
    }
}

fn load_failure(error: &LoadError) -> ProgramExecution {
    let error = CallError::new(ErrorKind::Host, format!("cannot load the interpreter of programs: {error}"));
    let outcome = Err(error.with_hint("call tools directly").into());
    ProgramExecution { outcome, console: Vec::new(), metadata: Metadata::default() }
}
