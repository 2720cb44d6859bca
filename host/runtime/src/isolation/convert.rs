//! Conversion between the messages of a worker and the types of the host.

use std::sync::Arc;

use fumehood_core::call::content::Content;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, CapturedStream, Metadata};
use fumehood_core::policy::permission::files::{Access, Quota, QuotaError};
use fumehood_core::policy::permission::{ClockStep, CommandLine, Environment, Grant, KeyValueQuota, Seed};
use fumehood_core::text::untrusted::{PrintableText, Untrusted};
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, RawDefinition, ToolDefinition};
use fumehood_core::tool::resource::{RawPage, RawResource};

use super::bounded_list::{BoundedList, ListTooLong};
use super::message::{
    CallLimits, CallMessage, Cost, Definition, DefinitionCaps, Failure, FolderQuota, GrantedFolder, Page, Part, Powers,
    Refused, Resource,
};
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

impl From<&DefinitionLimits> for DefinitionCaps {
    fn from(limits: &DefinitionLimits) -> Self {
        Self {
            tools: limits.tools as u64,
            title_bytes: limits.title_bytes as u64,
            description_bytes: limits.description_bytes as u64,
            descriptions_bytes: limits.descriptions_bytes as u64,
            schema_bytes: limits.schema_bytes as u64,
        }
    }
}

impl From<DefinitionCaps> for DefinitionLimits {
    fn from(caps: DefinitionCaps) -> Self {
        Self {
            tools: to_usize(caps.tools),
            title_bytes: to_usize(caps.title_bytes),
            description_bytes: to_usize(caps.description_bytes),
            descriptions_bytes: to_usize(caps.descriptions_bytes),
            schema_bytes: to_usize(caps.schema_bytes),
        }
    }
}

impl From<Quota> for FolderQuota {
    fn from(quota: Quota) -> Self {
        Self { bytes: quota.bytes(), entries: quota.entries() }
    }
}

impl TryFrom<FolderQuota> for Quota {
    type Error = QuotaError;

    fn try_from(quota: FolderQuota) -> Result<Self, QuotaError> {
        Self::new(quota.bytes, quota.entries)
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
        scratch: grant.scratch().map(FolderQuota::from),
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
            Access::Write(quota) => Some(quota.into()),
        },
        write_line: folder.write_line(),
    };
    grant.folders().iter().map(folder).collect()
}

impl From<ToolDefinition> for Definition {
    fn from(definition: ToolDefinition) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world } = definition.annotations;
        Self {
            name: definition.name.to_string(),
            export: definition.export.map(expose),
            title: definition.title.map(expose),
            description: expose(definition.description),
            input_schema: expose(definition.input_schema).to_string(),
            output_schema: definition.output_schema.map(|schema| expose(schema).to_string()),
            annotations: [read_only, destructive, idempotent, open_world],
        }
    }
}

impl From<RawDefinition> for Definition {
    fn from(raw: RawDefinition) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world } = raw.annotations;
        Self {
            name: raw.name,
            export: None,
            title: raw.title,
            description: raw.description,
            input_schema: raw.input_schema,
            output_schema: raw.output_schema,
            annotations: [read_only, destructive, idempotent, open_world],
        }
    }
}

impl From<Definition> for RawDefinition {
    fn from(definition: Definition) -> Self {
        let [read_only, destructive, idempotent, open_world] = definition.annotations;
        Self {
            name: definition.name,
            title: definition.title,
            description: definition.description,
            input_schema: definition.input_schema,
            output_schema: definition.output_schema,
            annotations: Annotations { read_only, destructive, idempotent, open_world },
        }
    }
}

impl TryFrom<RawResource> for Resource {
    type Error = ListTooLong;

    fn try_from(raw: RawResource) -> Result<Self, ListTooLong> {
        let RawResource { uri, name, title, description, mime_type, page } = raw;
        Ok(Self { uri, name, title, description, mime_type, page: page.map(Page::try_from).transpose()? })
    }
}

impl TryFrom<RawPage> for Page {
    type Error = ListTooLong;

    fn try_from(raw: RawPage) -> Result<Self, ListTooLong> {
        let origins = [
            raw.connect_domains.try_into()?,
            raw.resource_domains.try_into()?,
            raw.frame_domains.try_into()?,
            raw.base_uri_domains.try_into()?,
        ];
        Ok(Self { tools: raw.tools.try_into()?, origins, prefers_border: raw.prefers_border })
    }
}

impl From<Resource> for RawResource {
    fn from(resource: Resource) -> Self {
        let Resource { uri, name, title, description, mime_type, page } = resource;
        Self { uri, name, title, description, mime_type, page: page.map(RawPage::from) }
    }
}

impl From<Page> for RawPage {
    fn from(page: Page) -> Self {
        let [connect_domains, resource_domains, frame_domains, base_uri_domains] =
            page.origins.map(|origins| origins.into_iter().collect());
        let tools = page.tools.into_iter().collect();
        let prefers_border = page.prefers_border;
        Self { tools, connect_domains, resource_domains, frame_domains, base_uri_domains, prefers_border }
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
