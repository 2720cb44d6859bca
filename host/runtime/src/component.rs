//! A loaded component and its tools.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::compact;
use fumehood_core::content::Content;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::digest::Digest;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::limits::Limits;
use fumehood_core::result::{CallError, Metadata};
use fumehood_core::sanitize::hidden;
use serde_json::Value;

use crate::cache::CacheReport;
use crate::dialect::typed::TypedOutcome;
use crate::dialect::{Dialect, Skipped};
use crate::imports::Import;
use crate::invocation::{Invocation, Terms};
use crate::outcome::{self, Execution};
use crate::run::{Input, Output, Runnable};

/// How long loading took, and whether the code was there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// What became of the compiled code.
    pub cache: CacheReport,
    /// From the first byte to the last check.
    pub time: Duration,
}

/// A loaded component: what it is and what it says. Cheap to clone.
///
/// Calls go through whoever holds the sandbox, so that nobody passes by the gate with one of these.
#[derive(Clone)]
pub struct Component(Arc<ComponentParts>);

pub(crate) struct ComponentParts {
    pub(crate) runnable: Runnable,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    pub(crate) dialect: Dialect,
    pub(crate) definitions: Vec<ToolDefinition>,
    pub(crate) imports: Vec<Import>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) producers: Vec<(String, Vec<String>)>,
    pub(crate) report: LoadReport,
}

impl Component {
    pub(crate) fn new(parts: ComponentParts) -> Self {
        Self(Arc::new(parts))
    }

    /// What it is known by: the SHA-256 of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// How its tools are called.
    #[must_use]
    pub fn dialect(&self) -> &Dialect {
        &self.0.dialect
    }

    /// Its tools. [`crate::Sandbox::call`] takes a position in this list.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.0.definitions
    }

    /// Everything that it imports.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.0.imports
    }

    /// Exports that are not tools, and why.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.0.skipped
    }

    /// What it says it was made with: field, values.
    #[must_use]
    pub fn producers(&self) -> &[(String, Vec<String>)] {
        &self.0.producers
    }

    /// How long loading took, and whether the compiled code was there already.
    #[must_use]
    pub fn report(&self) -> &LoadReport {
        &self.0.report
    }

    /// See [`crate::Sandbox::call`].
    pub(crate) async fn call(&self, tool: usize, arguments: &Value, invocation: Invocation, terms: Terms) -> Execution {
        let limits = terms.limits;
        let input = match self.input(tool, arguments) {
            Ok(input) => input,
            Err(error) => {
                return Execution { outcome: Err(error), metadata: Metadata::default() };
            }
        };
        let (output, mut metadata) = self.0.runnable.run(input, invocation, terms).await;
        if let Ok(Output::Contract(Err(failure))) = &output {
            metadata.sanitized += hidden(&failure.message);
        }
        let outcome = output.and_then(|output| self.content(output)).and_then(|parts| within_cap(parts, &limits));
        let mut outcome = outcome.map_err(|error| outcome::explained(error, &metadata));
        if let Some(redactor) = self.0.runnable.redactor() {
            match &mut outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.in_content(part)),
                Err(error) => redactor.in_error(error),
            }
            redactor.in_metadata(&mut metadata);
        }
        if let Ok(parts) = &outcome {
            metadata.bytes = parts.iter().map(Content::bytes).sum();
            metadata.mime = mime(parts);
            metadata.sanitized += parts.iter().map(Content::hidden).sum::<u64>();
        }
        Execution { outcome, metadata }
    }

    fn input(&self, tool: usize, arguments: &Value) -> Result<Input, CallError> {
        let refused = |message: String| CallError::new(ErrorKind::InvalidArguments, message);
        match self.0.runnable.typed() {
            None => Ok(Input::Contract { arguments: compact::to_text(arguments) }),
            Some(typed) => {
                let found = typed.get(tool).ok_or_else(|| CallError::new(ErrorKind::UnknownTool, "no such tool"))?;
                let arguments = found.arguments(arguments).map_err(|error| refused(error.to_string()))?;
                Ok(Input::Typed { tool, arguments })
            }
        }
    }

    fn content(&self, output: Output) -> Result<Vec<Content>, CallError> {
        let bad = |message: String| CallError::new(ErrorKind::BadResult, message);
        match output {
            Output::Described(_) => Err(bad("the tool described itself instead of answering".to_owned())),
            Output::Contract(Ok(parts)) => parts.into_iter().map(outcome::to_content).collect(),
            Output::Contract(Err(failure)) => Err(outcome::from_failure(failure)),
            Output::Typed { tool, results } => {
                let typed = self.0.runnable.typed().and_then(|typed| typed.get(tool));
                let typed = typed.ok_or_else(|| bad("an unknown tool answered".to_owned()))?;
                match typed.outcome(&results).map_err(|error| bad(error.to_string()))? {
                    TypedOutcome::Nothing => Ok(Vec::new()),
                    TypedOutcome::Text(text) => Ok(vec![Content::Text { text }]),
                    TypedOutcome::Json(text) => Ok(vec![outcome::json(text)?]),
                    TypedOutcome::Failed(message) => Err(CallError::new(ErrorKind::ToolFailed, outcome::cut(&message))),
                }
            }
        }
    }
}

fn within_cap(parts: Vec<Content>, limits: &Limits) -> Result<Vec<Content>, CallError> {
    let bytes = parts.iter().map(Content::bytes).sum::<usize>();
    if bytes > limits.output { Err(outcome::output_too_large(Some(bytes), limits)) } else { Ok(parts) }
}

fn mime(parts: &[Content]) -> Option<Cow<'static, str>> {
    match parts {
        [] => None,
        [only] => Some(only.mime()),
        _ => Some(Cow::Borrowed("multipart/mixed")),
    }
}
