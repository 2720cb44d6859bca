//! Conversion between the messages of a worker and the types of the host.

use std::sync::Arc;

use fumehood_core::bounded_list::BoundedList;
use fumehood_core::call::content::Content;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, CapturedStream, Metadata};
use fumehood_core::policy::permission::files::Access;
use fumehood_core::policy::permission::{ClockStep, CommandLine, Environment, Grant, KeyValueQuota, Seed};
use fumehood_core::text::untrusted::{PrintableText, Untrusted};
use fumehood_core::tool::definition::{RawDefinition, ToolDefinition};

use super::message::{CallLimits, CallMessage, Cost, DescribedTool, Failure, GrantedFolder, Part, Powers, Refused};
use crate::wasi::Invocation;

/// Exposes text for a message. The receiver wraps it as untrusted again.
fn expose<T>(untrusted: Untrusted<T>) -> T {
    untrusted.expose_raw_owned()
}

/// Converts a number that was a `usize` in the sender, which is the same program.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl From<&Limits> for CallLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            deadline: limits.deadline,
            fuel: limits.fuel,
            memory: limits.memory as u64,
            output: limits.output as u64,
            log: limits.log as u64,
            handles: limits.handles as u64,
            hostcall_bytes: limits.hostcall_bytes as u64,
            random_bytes: limits.random_bytes,
        }
    }
}

impl From<CallLimits> for Limits {
    fn from(limits: CallLimits) -> Self {
        Self {
            deadline: limits.deadline,
            fuel: limits.fuel,
            memory: to_usize(limits.memory),
            output: to_usize(limits.output),
            log: to_usize(limits.log),
            handles: to_usize(limits.handles),
            hostcall_bytes: to_usize(limits.hostcall_bytes),
            random_bytes: limits.random_bytes,
            // The host checks arguments before it sends them to a worker.
            string: None,
        }
    }
}

/// Returns the powers that a worker enforces itself, and the names of secrets.
pub(super) fn to_powers(grant: &Grant) -> Powers {
    Powers {
        state: grant.state(),
        environment: grant.environment().variables().to_vec(),
        command_line: grant.command_line().arguments().to_vec(),
        clock: grant.clock().duration(),
        fixed_time: grant.fixed_time(),
        seed: grant.seed().map(|seed| *seed.bytes()),
        key_value_bytes: grant.key_value().map(KeyValueQuota::bytes),
        scratch: grant.scratch(),
        may_request: grant.http().is_some(),
        secrets: grant.secrets().iter().map(|secret| secret.name().to_owned()).collect(),
    }
}

/// Creates the grant of a worker. It has no folders and no rules for requests: folders are passed as open descriptors,
/// and requests go to the host.
///
/// # Errors
/// If a value of the grant is invalid.
pub(super) fn to_grant(powers: &Powers) -> Result<Grant, String> {
    let mut environment = Environment::none();
    for (name, value) in &powers.environment {
        environment = environment.with(name, value).map_err(|error| error.to_string())?;
    }
    let command_line = CommandLine::new(&powers.command_line).map_err(|error| error.to_string())?;
    let clock = ClockStep::new(powers.clock).map_err(|error| error.to_string())?;
    let mut grant = Grant::none().with_environment(environment).with_command_line(command_line).with_clock(clock);
    if powers.state {
        grant = grant.with_state();
    }
    if let Some(time) = powers.fixed_time {
        grant = grant.with_fixed_time(time);
    }
    if let Some(seed) = powers.seed {
        grant = grant.with_seed(Seed::from(seed));
    }
    if let Some(bytes) = powers.key_value_bytes {
        grant = grant.with_key_value(KeyValueQuota::new(bytes).map_err(|error| error.to_string())?);
    }
    Ok(grant)
}

/// Returns the granted folders, in their order.
pub(super) fn to_granted_folders(grant: &Grant) -> Vec<GrantedFolder> {
    let folder = |folder: &fumehood_core::policy::permission::files::Folder| GrantedFolder {
        guest: folder.guest().to_owned(),
        quota: match folder.access() {
            Access::Read => None,
            Access::Write(quota) => Some(quota),
        },
        write_line: folder.write_line(),
    };
    grant.folders().iter().map(folder).collect()
}

impl From<ToolDefinition> for DescribedTool {
    fn from(definition: ToolDefinition) -> Self {
        let export = definition.export.map(expose);
        let definition = RawDefinition {
            name: definition.name.to_string(),
            title: definition.title.map(expose),
            description: expose(definition.description),
            input_schema: expose(definition.input_schema).to_string(),
            output_schema: definition.output_schema.map(|schema| expose(schema).to_string()),
            annotations: definition.annotations,
        };
        Self { definition, export }
    }
}

impl From<RawDefinition> for DescribedTool {
    fn from(definition: RawDefinition) -> Self {
        Self { definition, export: None }
    }
}

impl CallMessage {
    /// Creates the message of a call. A worker may be taken over, so it gets the agent's state only with a grant.
    pub(super) fn new(call: u64, tool: usize, arguments: String, invocation: &Invocation, grant: &Grant) -> Self {
        let state = invocation.state.as_deref().filter(|_| grant.state());
        Self {
            call,
            tool: u32::try_from(tool).unwrap_or(u32::MAX),
            arguments,
            id: invocation.id.clone(),
            name: invocation.tool.clone(),
            actor: invocation.actor.as_deref().map(str::to_owned),
            state: state.map(str::to_owned),
            limits: (&invocation.limits).into(),
        }
    }

    pub(super) fn invocation(&self) -> Invocation {
        Invocation {
            id: self.id.clone(),
            tool: self.name.clone(),
            actor: self.actor.as_deref().map(Arc::from),
            state: self.state.as_deref().map(Arc::from),
            limits: self.limits.into(),
            observer: None,
            cancelled: None,
        }
    }
}

impl Part {
    /// Returns the size of its texts and data, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Blob { mime_type, data } => mime_type.len() + data.len(),
            Self::Link { uri, title, mime_type } => {
                uri.len() + [title, mime_type].into_iter().flatten().map(String::len).sum::<usize>()
            }
        }
    }
}

impl From<Content> for Part {
    fn from(content: Content) -> Self {
        match content {
            Content::Text { text } => Self::Text(expose(text)),
            Content::Json { value } => Self::Json(value.expose_raw().to_owned()),
            Content::Blob { mime_type, data } => Self::Blob { mime_type: expose(mime_type), data },
            Content::Link { uri, title, mime_type } => {
                Self::Link { uri: expose(uri), title: title.map(expose), mime_type: mime_type.map(expose) }
            }
        }
    }
}

impl TryFrom<Part> for Content {
    type Error = CallError;

    fn try_from(part: Part) -> Result<Self, CallError> {
        Ok(match part {
            Part::Text(text) => Self::Text { text: text.into() },
            Part::Json(text) => crate::wasi::guest_output::json(text)?,
            Part::Blob { mime_type, data } => Self::Blob { mime_type: mime_type.into(), data },
            Part::Link { uri, title, mime_type } => {
                Self::Link { uri: uri.into(), title: title.map(Into::into), mime_type: mime_type.map(Into::into) }
            }
        })
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let CallError { kind, message, hint, retry_after, backtrace, details: _ } = error;
        let backtrace = BoundedList::truncate_from(backtrace.into_iter().map(to_text));
        Self { kind, message: to_text(message), hint: hint.map(to_text), retry_after, backtrace }
    }
}

fn to_text(text: PrintableText) -> String {
    text.as_str().to_owned()
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, hint, retry_after, backtrace } = failure;
        let backtrace = backtrace.into_iter().map(PrintableText::from).collect();
        Self { kind, message: message.into(), hint: hint.map(Into::into), retry_after, backtrace, details: None }
    }
}

impl From<Metadata> for Cost {
    fn from(metadata: Metadata) -> Self {
        let refused = metadata.refused.iter().filter_map(|refusal| serde_json::to_string(refusal).ok());
        Self {
            duration: metadata.duration,
            fuel_used: metadata.fuel_used,
            peak_memory: metadata.peak_memory as u64,
            sanitized: metadata.sanitized,
            log_dropped: metadata.log_dropped,
            refused: Refused::truncate_from(refused),
            exhausted: Refused::truncate_from(metadata.exhausted),
            stdout: (expose(metadata.stdout.text), metadata.stdout.dropped),
            stderr: (expose(metadata.stderr.text), metadata.stderr.dropped),
        }
    }
}

impl From<Cost> for Metadata {
    fn from(cost: Cost) -> Self {
        let (stdout, stdout_dropped) = cost.stdout;
        let (stderr, stderr_dropped) = cost.stderr;
        Self {
            duration: cost.duration,
            fuel_used: cost.fuel_used,
            peak_memory: to_usize(cost.peak_memory),
            sanitized: cost.sanitized,
            log_dropped: cost.log_dropped,
            refused: cost.refused.iter().filter_map(|refusal| serde_json::from_str(refusal).ok()).collect(),
            exhausted: cost.exhausted.into_iter().collect(),
            stdout: CapturedStream { text: stdout.into(), dropped: stdout_dropped },
            stderr: CapturedStream { text: stderr.into(), dropped: stderr_dropped },
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_the_state_only_with_a_grant() {
        let invocation = Invocation { state: Some(Arc::from(r#"{"step":1}"#)), ..Invocation::default() };
        let send = |grant: &Grant| CallMessage::new(1, 0, "{}".to_owned(), &invocation, grant).state;
        assert_eq!(send(&Grant::none()), None);
        assert_eq!(send(&Grant::none().with_state()).as_deref(), Some(r#"{"step":1}"#));
    }
}
