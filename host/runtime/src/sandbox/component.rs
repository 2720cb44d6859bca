//! A loaded component and its tools.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::call::CallContext;
use fumehood_core::call::content::{self, Content};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::command_template::CommandTemplate;
use fumehood_core::tool::definition::ToolDefinition;
use fumehood_core::tool::resource::ResourceDefinition;
use fumehood_core::tool::{MAX_INLINE_STEPS, Tool, ValidatedCall};
use tracing::Instrument as _;

use crate::call::input::Arguments;
use crate::call::outcome::{self, Execution};
use crate::call::run::{Runnable, lost_call};
use crate::call::shared::Shared;
use crate::engine::guest_runtime::{Elapsed, FirstSlice};
use crate::isolation::{Worker, WorkerCall};
use crate::jail::JailReport;
use crate::load::LoadReport;
use crate::load::dialect::{Dialect, Skipped, command};
use crate::load::imports::{Import, Ungranted};
use crate::load::statements::Statements;
use crate::wasi::Invocation;

/// A loaded component and the definitions of its tools. Cheap to clone.
///
/// It runs only calls that have passed the gate of their tool, which is the [`ValidatedCall`]'s.
#[derive(Clone)]
pub struct Component(Arc<ComponentParts>);

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component").field("digest", &self.digest()).finish_non_exhaustive()
    }
}

pub(crate) struct ComponentParts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) backend: Backend,
    /// Removes the tool's secrets from its output, if it has any.
    pub(crate) redactor: Option<Arc<Redactor>>,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    pub(crate) dialect: Dialect,
    pub(crate) definitions: Vec<ToolDefinition>,
    /// The named arguments of a program, if it has them.
    pub(crate) command: Option<Arc<CommandTemplate>>,
    pub(crate) resources: Vec<ResourceDefinition>,
    pub(crate) imports: Vec<Import>,
    pub(crate) ungranted: Vec<Ungranted>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) statements: Statements,
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

    pub(super) fn parts(&self) -> &ComponentParts {
        &self.0
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

    /// Returns the definitions of its tools. [`Component::call`] takes an index into this list.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.0.definitions
    }

    /// Returns the definitions of its resources. [`Component::call`] reads one if the tool of the call is called
    /// [`READ_RESOURCE`](fumehood_core::tool::resource::READ_RESOURCE), whatever the index.
    #[must_use]
    pub fn resources(&self) -> &[ResourceDefinition] {
        &self.0.resources
    }

    /// Returns the named arguments of a program, if it was loaded with them.
    #[must_use]
    pub fn command(&self) -> Option<&CommandTemplate> {
        self.0.command.as_deref()
    }

    /// Returns everything that it imports.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.0.imports
    }

    /// Returns the imports whose power is not granted. Using one fails with an error of the interface.
    #[must_use]
    pub fn ungranted(&self) -> &[Ungranted] {
        &self.0.ungranted
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
        &self.0.statements.producers
    }

    /// Returns the wishes of its author: JSON, as its section has it. They may be malformed, and grant nothing.
    #[must_use]
    pub fn wishes(&self) -> Option<&Untrusted<String>> {
        self.0.statements.wishes.as_ref()
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

    /// Returns the ids of its worker processes that are alive. There are several where actors have workers of their own: see
    /// [`Isolation`](crate::Isolation).
    #[must_use]
    pub fn worker_ids(&self) -> Vec<u32> {
        match &self.0.backend {
            Backend::InProcess(_) => Vec::new(),
            Backend::Process(worker) => worker.process_ids(),
        }
    }

    /// Returns the id of its worker process; `None` if there is none, or it has died and was not restarted yet. Of several, it is
    /// the one that actors share.
    #[must_use]
    pub fn worker_id(&self) -> Option<u32> {
        match &self.0.backend {
            Backend::InProcess(_) => None,
            Backend::Process(worker) => worker.process_id(),
        }
    }

    /// Runs a call of the tool at `index` of [`Component::definitions`] in a fresh instance: waits for a place, runs the
    /// guest in this process or in its worker, and settles the outcome. Dropping the future stops the guest.
    ///
    /// `limits` must have passed [`Limits::check`]; those of the context are not used.
    pub fn call(
        &self,
        index: usize,
        call: ValidatedCall,
        limits: Limits,
        context: CallContext,
    ) -> impl Future<Output = Execution> + Send + '_ {
        // Outside the future, which is moved several times: it would hold the context twice.
        let tool = Arc::clone(call.tool());
        let invocation = Arc::new(Invocation::new(tool.definition().name.as_str(), limits, context));
        async move {
            let arguments = match self.arguments(call) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let refused = Execution::failed(error, Duration::ZERO, &limits);
                    return self.clone().finish(tool, refused, limits).await;
                }
            };
            let (execution, deadline) = match &self.0.backend {
                Backend::InProcess(runnable) => match runnable.admit(&invocation).await {
                    Ok(place) => {
                        invocation.report_admission();
                        runnable.call(place, index, arguments, invocation, None).await
                    }
                    Err(refused) => return self.clone().finish(tool, refused, limits).await,
                },
                Backend::Process(worker) => match worker.admit(&invocation).await {
                    // Boxed, because it is several times as large as the future of a call in this process.
                    Ok(place) => {
                        invocation.report_admission();
                        let annotations = &tool.definition().annotations;
                        let is_repeatable = annotations.read_only == Some(true) || annotations.idempotent == Some(true);
                        let call =
                            WorkerCall { tool: index, arguments: arguments.to_text().into_owned(), is_repeatable };
                        Box::pin(worker.call(place, call, &invocation)).await
                    }
                    Err(refused) => return self.clone().finish(tool, refused, limits).await,
                },
            };
            let mut execution = if is_large(&execution) {
                Box::pin(self.finish_elsewhere(tool, execution, limits)).await
            } else {
                self.clone().finish(tool, execution, limits).await
            };
            // Last of all, so that no result is late.
            if execution.outcome.is_ok() && deadline.passed() {
                execution.outcome = Err(outcome::deadline(&limits));
                let metadata = &mut execution.metadata;
                (metadata.bytes, metadata.mime) = (0, None);
                metadata.duration = metadata.duration.max(deadline.armed().elapsed());
            }
            execution
        }
    }

    /// Returns what the component gets as arguments.
    ///
    /// # Errors
    /// If they make no command line of a program.
    fn arguments(&self, call: ValidatedCall) -> Result<Arguments, CallError> {
        match &self.0.command {
            Some(command) => Ok(Arguments::Text(command.render(call.arguments())?.to_string())),
            None => Ok(Arguments::Validated(call)),
        }
    }

    /// Settles the outcome of a call, and checks its result.
    async fn finish(self, tool: Arc<Tool>, mut execution: Execution, limits: Limits) -> Execution {
        self.settle(&mut execution, &limits);
        self.check_result(&tool, &mut execution, &limits).await;
        execution
    }

    /// Like [`Self::finish`], on the guest threads: on the caller's, a large result would hold up others.
    async fn finish_elsewhere(&self, tool: Arc<Tool>, execution: Execution, limits: Limits) -> Execution {
        let queued = execution.metadata.queued;
        let started = Instant::now();
        let before = execution.metadata.duration;
        let finishing = Box::pin(self.clone().finish(tool, execution, limits).in_current_span());
        match self.0.shared.runtime.run(FirstSlice::Elsewhere, finishing).await {
            Ok(mut execution) => {
                execution.metadata.duration = before + started.elapsed();
                execution
            }
            Err(lost) => Execution::failed(lost_call(lost), queued, &limits),
        }
    }

    /// Applies the limit on results, explains failures, redacts secrets, and measures what is left.
    fn settle(&self, execution: &mut Execution, limits: &Limits) {
        let Execution { outcome, metadata } = execution;
        // Whoever ran the call compares this too; a worker process may have been taken over.
        if let Ok(parts) = outcome
            && let Err(error) = outcome::check_size(parts.len(), parts.iter().map(Content::bytes).sum(), limits)
        {
            *outcome = Err(error);
        }
        if self.0.command.as_ref().is_some_and(|command| command.is_json())
            && let Ok(parts) = outcome
        {
            *outcome = command::to_json(std::mem::take(parts)).map(|value| vec![value]);
        }
        if let Err(error) = outcome {
            outcome::explain(error, metadata);
            if self.0.dialect.is_typed() {
                outcome::hint_at_exceptions(error, metadata);
            }
        }
        if let Some(redactor) = &self.0.redactor {
            match outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.redact_content(part)),
                Err(error) => redactor.redact_error(error),
            }
            redactor.redact_metadata(metadata);
        }
        if let Ok(parts) = outcome {
            metadata.bytes = parts.iter().map(Content::bytes).sum();
            metadata.mime = mime(parts);
            metadata.sanitized += parts.iter().map(Content::hidden_chars).sum::<u64>();
        }
    }

    /// Checks the result against the tool's output schema, on another thread if that may take long. There it counts
    /// towards the deadline.
    async fn check_result(&self, tool: &Arc<Tool>, execution: &mut Execution, limits: &Limits) {
        let Execution { outcome, metadata } = execution;
        let Ok(parts) = outcome else { return };
        if tool.result_steps(parts) <= MAX_INLINE_STEPS {
            if let Err(error) = tool.check_result(parts) {
                *outcome = Err(error);
            }
            return;
        }
        let parts = std::mem::take(parts);
        let tool = Arc::clone(tool);
        let started = Instant::now();
        let left = limits.deadline.saturating_sub(metadata.duration);
        let check = move || tool.check_result(&parts).map(|()| parts);
        let checked = Box::pin(self.0.shared.runtime.block_within(left, check)).await;
        metadata.duration += started.elapsed();
        *outcome = match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(_lost)) => Err(CallError::new(
                ErrorKind::Host,
                "the host stopped during a check: it is shutting down, or it panicked",
            )),
            Err(Elapsed) => Err(outcome::unchecked_at_deadline()),
        };
    }
}

/// Returns whether a result is so large that settling it takes longer than handing it to another thread.
fn is_large(execution: &Execution) -> bool {
    const MAX_INLINE_BYTES: usize = 64 << 10;
    let Execution { outcome, metadata } = execution;
    let streams = metadata.stdout.text.len() + metadata.stderr.text.len();
    streams > MAX_INLINE_BYTES || outcome.as_deref().is_ok_and(content::is_large)
}

fn mime(parts: &[Content]) -> Option<Cow<'static, str>> {
    match parts {
        [] => None,
        [only] => Some(only.mime()),
        _ => Some(Cow::Borrowed("multipart/mixed")),
    }
}
