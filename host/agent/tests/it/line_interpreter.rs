//! An interpreter of programs for tests, without a sandbox.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fumehood_agent::code::Interpreter;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CancellationToken;
use fumehood_core::call::content::Content;
use fumehood_core::call::event::Level;
use fumehood_core::call::result::Metadata;
use fumehood_core::program::{
    ConsoleLine, Exception, FinishedCall, Program, ProgramCalls, ProgramClock, ProgramError, ProgramExecution,
};
use serde_json::{Value, json};

/// An interpreter of a language of its own: each line is a call, `NAME ARGUMENTS`. Lines of one paragraph run at once.
///
/// The value is a list of the results; an error is a list of its kind and its message. `end` ends the program, and what
/// runs is not awaited.
#[derive(Default)]
pub(crate) struct Lines {
    /// Number of the pauses of deadlines.
    pub(crate) pauses: Arc<AtomicUsize>,
    /// The inputs of programs that do the tasks of skills.
    pub(crate) inputs: Mutex<Vec<Value>>,
}

struct CountingClock(Arc<AtomicUsize>);

impl ProgramClock for CountingClock {
    fn pause(&self) -> Box<dyn Send> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::new(())
    }
}

impl Interpreter for Lines {
    fn run<'a>(&'a self, program: Program, calls: &'a mut dyn ProgramCalls) -> BoxFuture<'a, ProgramExecution> {
        Box::pin(async move {
            let clock = CountingClock(Arc::clone(&self.pauses));
            let metadata = Metadata::default().fuel_used(5);
            let mut values = Vec::new();
            let code = match program.code.strip_prefix("const input = JSON.parse(") {
                None => program.code.as_str(),
                Some(rest) => {
                    let (text, code) = rest.split_once("); ").unwrap();
                    let text: String = serde_json::from_str(text).unwrap();
                    self.inputs.lock().unwrap().push(serde_json::from_str(&text).unwrap());
                    code
                }
            };
            for paragraph in code.split("\n\n") {
                let mut started = BTreeMap::new();
                for line in paragraph.lines() {
                    if line == "end" {
                        let outcome = Ok(None);
                        return ProgramExecution { outcome, console: Vec::new(), metadata };
                    }
                    if let Some(message) = line.strip_prefix("throw ") {
                        let line = Some(2);
                        let kind = None;
                        let column = None;
                        let exception = Exception { name: "Error".into(), message: message.into(), line, column, kind };
                        let outcome = Err(ProgramError::Exception(exception));
                        let console = vec![ConsoleLine { level: Level::Warn, text: "printed".into() }];
                        return ProgramExecution { outcome, console, metadata };
                    }
                    let (name, arguments) = line.split_once(' ').unwrap_or((line, "{}"));
                    started.insert(calls.start(name.to_owned(), arguments.to_owned()), Value::Null);
                }
                let mut left = started.len();
                while left > 0 && !program.cancelled.as_ref().is_some_and(CancellationToken::is_cancelled) {
                    for FinishedCall { id, result } in calls.wait(&clock).await {
                        left -= 1;
                        started.insert(
                            id,
                            match result {
                                Ok(text) => serde_json::from_str(&text).unwrap(),
                                Err(error) => json!([error.kind.as_str(), error.message.as_str()]),
                            },
                        );
                    }
                }
                values.extend(started.into_values());
            }
            let outcome = Ok(Some(Content::json(Value::from(values).to_string()).unwrap()));
            ProgramExecution { outcome, console: Vec::new(), metadata }
        })
    }
}
