//! A loaded component and its tools.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::content::Content;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::digest::Digest;
use fumehood_core::json;
use fumehood_core::limits::Limits;
use fumehood_core::redact::Redactor;
use fumehood_core::result::CallError;
use serde_json::Value;

use crate::cache::CacheReport;
use crate::dialect::{Dialect, Skipped};
use crate::imports::Import;
use crate::invocation::{Invocation, Terms};
use crate::isolation::Worker;
use crate::jail::JailReport;
use crate::outcome::{self, Execution};
use crate::run::Runnable;
use crate::tool_call::Arguments;

/// The duration of loading a component, and its use of the code cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The use of the code cache.
    pub cache: CacheReport,
    /// The time from the first byte to the last check.
    pub time: Duration,
}

/// A loaded component and the definitions of its tools. Cheap to clone.
///
/// It has no method to call a tool: calls go through [`Sandbox::call`](crate::Sandbox::call), so that the
/// owner of the sandbox can check them first.
#[derive(Clone)]
pub struct Component(Arc<ComponentParts>);

pub(crate) struct ComponentParts {
    pub(crate) backend: Backend,
    /// Removes the tool's secrets from its output, if it has any.
    pub(crate) redactor: Option<Arc<Redactor>>,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    pub(crate) dialect: Dialect,
    pub(crate) definitions: Vec<ToolDefinition>,
    pub(crate) imports: Vec<Import>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) producers: Vec<(String, Vec<String>)>,
    pub(crate) report: LoadReport,
}

/// The process that runs the calls of a component.
pub(crate) enum Backend {
    InProcess(Runnable),
    Process(Worker),
}

impl Component {
    pub(crate) fn new(parts: ComponentParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns the SHA-256 digest of its bytes, which identifies it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Returns the calling convention of its tools.
    #[must_use]
    pub fn dialect(&self) -> &Dialect {
        &self.0.dialect
    }

    /// Returns the definitions of its tools. [`crate::Sandbox::call`] takes an index into this list.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.0.definitions
    }

    /// Returns everything that it imports.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.0.imports
    }

    /// Returns the exports that are not tools, each with the reason.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.0.skipped
    }

    /// Returns the fields of its `producers` section with their values: the languages and tools that it was built with,
    /// as it states them.
    #[must_use]
    pub fn producers(&self) -> &[(String, Vec<String>)] {
        &self.0.producers
    }

    /// Returns the duration of loading it, and its use of the code cache.
    #[must_use]
    pub fn report(&self) -> &LoadReport {
        &self.0.report
    }

    /// Returns whether its calls run in a worker process.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        matches!(self.0.backend, Backend::Process(_))
    }

    /// Returns the restrictions of its worker process; `None` if its calls run in this process.
    #[must_use]
    pub fn jail(&self) -> Option<JailReport> {
        match &self.0.backend {
            Backend::InProcess(_) => None,
            Backend::Process(worker) => Some(worker.jail()),
        }
    }

    /// Returns the id of its worker process; `None` if there is none, or it has died and was not restarted yet.
    #[must_use]
    pub fn worker_id(&self) -> Option<u32> {
        match &self.0.backend {
            Backend::InProcess(_) => None,
            Backend::Process(worker) => worker.process_id(),
        }
    }

    /// Implements [`crate::Sandbox::call`].
    pub(crate) async fn call(&self, tool: usize, arguments: &Value, invocation: Invocation, terms: Terms) -> Execution {
        let limits = terms.limits;
        let Execution { outcome, mut metadata } = match &self.0.backend {
            Backend::InProcess(runnable) => {
                runnable.call(tool, Arguments::Value(arguments), invocation, terms, None).await
            }
            Backend::Process(worker) => worker.call(tool, json::to_compact_text(arguments), invocation, terms).await,
        };
        let outcome = outcome.and_then(|parts| within_cap(parts, &limits));
        let mut outcome = outcome.map_err(|error| outcome::explained(error, &metadata));
        if let (Err(error), Dialect::Typed) = (&mut outcome, &self.0.dialect) {
            outcome::hint_at_exceptions(error, &metadata);
        }
        if let Some(redactor) = &self.0.redactor {
            match &mut outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.redact_content(part)),
                Err(error) => redactor.redact_error(error),
            }
            redactor.redact_metadata(&mut metadata);
        }
        if let Ok(parts) = &outcome {
            metadata.bytes = parts.iter().map(Content::bytes).sum();
            metadata.mime = mime(parts);
            metadata.sanitized += parts.iter().map(Content::hidden_chars).sum::<u64>();
        }
        Execution { outcome, metadata }
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
