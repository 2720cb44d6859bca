//! A tool of a host: its definition, the gates of its arguments and results, and its component.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fumehood_core::call::Arguments;
use fumehood_core::content::Content;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::{Gate, Violations};
use fumehood_core::limits::Limits;
use fumehood_core::name::{Namespace, QualifiedName};
use fumehood_core::result::CallError;
use fumehood_core::sanitize::printable;
use fumehood_runtime::{Component, Elapsed, Execution, Invocation, Sandbox, Terms};
use serde_json::Value;

use crate::approval_check::ApprovalCheck;

/// Maximum number of validation steps that run on the caller's thread, about 5 ms. For fewer steps, another thread
/// would cost more than it saves.
const QUICK: u64 = 100_000;

/// Maximum number of known names in the answer to an unknown one.
const MAX_SUGGESTIONS: usize = 20;
/// Maximum length of an unknown name that an error repeats, in characters: that of the longest full name.
const MAX_NAME_CHARS: usize = 130;

/// A tool that can be called. Shared by all calls of it.
pub struct Tool {
    full_name: String,
    definition: ToolDefinition,
    component: Component,
    index: usize,
    arguments: Arc<Gate>,
    results: Option<Gate>,
    limits: Limits,
    pinned: Option<Arc<ApprovalCheck>>,
    powers: Arc<[String]>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").finish_non_exhaustive()
    }
}

impl Tool {
    pub(crate) fn new(
        namespace: &Namespace,
        definition: &ToolDefinition,
        component: Component,
        index: usize,
        arguments: Gate,
        results: Option<Gate>,
        limits: Limits,
    ) -> Self {
        let name = QualifiedName { namespace: namespace.clone(), tool: definition.name.clone() };
        let (full_name, definition) = (name.to_string(), definition.clone());
        let arguments = Arc::new(arguments);
        Self {
            full_name,
            definition,
            component,
            index,
            arguments,
            results,
            limits,
            pinned: None,
            powers: Arc::default(),
        }
    }

    pub(crate) fn pinned(self, pinned: Option<Arc<ApprovalCheck>>) -> Self {
        Self { pinned, ..self }
    }

    /// Sets the powers of its component, one phrase for each.
    pub(crate) fn with_powers(self, powers: Arc<[String]>) -> Self {
        Self { powers, ..self }
    }

    /// Returns its powers beyond computing, one phrase for each.
    #[must_use]
    pub fn powers(&self) -> &[String] {
        &self.powers
    }

    /// Returns the comparison of its component with what was approved; `None` if it needs no approval.
    #[must_use]
    pub fn approval(&self) -> Option<&ApprovalCheck> {
        self.pinned.as_deref()
    }

    /// Returns whether it may be called, as far as approvals are concerned. If not, no part of its own description
    /// should reach a model.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approval().is_none_or(|pinned| pinned.standing().is_approved())
    }

    /// Returns the error for every call if its component is not what was approved.
    pub(crate) fn quarantine(&self) -> Option<CallError> {
        let component = self.full_name.split("__").next().unwrap_or_default();
        self.approval().and_then(|pinned| pinned.refusal(component))
    }

    /// Returns the full name: `component__tool`.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.full_name
    }

    /// Returns the definition, validated.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the component that contains it.
    #[must_use]
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Returns the gate that its arguments have to pass.
    #[cfg(feature = "agent")]
    pub(crate) fn arguments_gate(&self) -> Arc<Gate> {
        Arc::clone(&self.arguments)
    }

    /// Returns the limits of calls without limits of their own.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the arguments if they match the schema, or an error with everything that does not match.
    ///
    /// A check that may take long runs on another thread.
    pub(crate) async fn admit(self: &Arc<Self>, arguments: Arguments, sandbox: &Sandbox) -> Result<Value, CallError> {
        let steps = match &arguments {
            Arguments::Text(text) => self.arguments.max_steps(text.len()),
            Arguments::Value(value) => self.arguments.max_steps_for_value(value),
        };
        if steps <= QUICK {
            return self.check(arguments);
        }
        let tool = Arc::clone(self);
        sandbox.off_thread(move || tool.check(arguments)).await.unwrap_or_else(|| Err(lost()))
    }

    fn check(&self, arguments: Arguments) -> Result<Value, CallError> {
        let admitted = match arguments {
            Arguments::Text(text) => self.arguments.parse(&text),
            Arguments::Value(value) => self.arguments.check(&value).map(|()| value),
        };
        admitted.map_err(|violations| refused(&violations))
    }

    /// Runs the tool, and checks the result against its output schema. A check that runs on another thread counts
    /// towards the deadline.
    pub(crate) async fn run(
        self: &Arc<Self>,
        sandbox: &Sandbox,
        arguments: &Value,
        invocation: Invocation,
        terms: Terms,
    ) -> Execution {
        let deadline = terms.limits.deadline;
        let Execution { outcome, mut metadata } =
            sandbox.call(&self.component, self.index, arguments, invocation, terms).await;
        let (Some(gate), Ok(parts)) = (&self.results, &outcome) else {
            return Execution { outcome, metadata };
        };
        let bytes = parts.iter().map(Content::bytes).sum();
        if gate.max_steps(bytes) <= QUICK {
            let fits = matches(gate, parts);
            return Execution { outcome: fits.and(outcome), metadata };
        }
        let (tool, started) = (Arc::clone(self), Instant::now());
        let left = deadline.saturating_sub(metadata.duration);
        let checked = sandbox.off_thread_within(left, move || tool.checked(outcome)).await;
        metadata.duration += started.elapsed();
        let outcome = match checked {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(lost()),
            Err(Elapsed) => Err(CallError::new(
                ErrorKind::Deadline,
                "the tool answered, and its deadline passed before the result was checked against its output schema",
            )
            .with_hint("ask for less at once, or allow it a longer deadline")),
        };
        Execution { outcome, metadata }
    }

    fn checked(&self, outcome: Result<Vec<Content>, CallError>) -> Result<Vec<Content>, CallError> {
        let parts = outcome?;
        self.results.as_ref().map_or(Ok(()), |gate| matches(gate, &parts))?;
        Ok(parts)
    }
}

fn lost() -> CallError {
    CallError::new(ErrorKind::Host, "the host stopped in the middle of a check: it is shutting down, or it panicked")
}

fn refused(violations: &Violations) -> CallError {
    CallError::new(ErrorKind::InvalidArguments, violations.to_string())
        .with_hint("correct the arguments and call again; the tool did not run")
}

/// Checks that the result has exactly one JSON part, which fits the schema.
fn matches(gate: &Gate, parts: &[Content]) -> Result<(), CallError> {
    let bad = |message: String| CallError::new(ErrorKind::BadResult, message);
    let mut values = parts.iter().filter_map(|part| match part {
        Content::Json { value } => Some(value.expose_raw()),
        Content::Text { .. } | Content::Blob { .. } | Content::Link { .. } => None,
    });
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(bad("the tool has an output schema, so its result needs exactly one `json` part".to_owned()));
    };
    match gate.parse(value) {
        Ok(_) => Ok(()),
        Err(violations) => Err(bad(format!("the result does not match the tool's own output schema:\n{violations}"))),
    }
}

/// Returns the error for an unknown name, with some of the known names.
pub(crate) fn unknown_tool<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> CallError {
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    let hint = match known.get(..MAX_SUGGESTIONS) {
        _ if known.is_empty() => "no tools are loaded".to_owned(),
        None => format!("the tools are: {}", known.join(", ")),
        Some(first) => format!("some of the {} tools are: {}", known.len(), first.join(", ")),
    };
    let name: String = printable(name).chars().take(MAX_NAME_CHARS).collect();
    CallError::new(ErrorKind::UnknownTool, format!("there is no tool `{name}`")).with_hint(hint)
}
