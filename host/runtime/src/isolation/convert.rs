//! Conversion between the messages of a worker and the types of the host.

use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::files::Access;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::{RawDefinition, ToolDefinition};

use super::message::{CallMessage, Cost, DescribedTool, Failure, GrantedFolder, MAX_BACKTRACE_FRAMES, Part, Refused};
use crate::wasi::Invocation;

/// Exposes text for a message. The receiver wraps it as untrusted again.
fn expose<T>(untrusted: Untrusted<T>) -> T {
    untrusted.expose_raw_owned()
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
        let state = invocation.state.clone().filter(|_| grant.state());
        let invocation = Invocation { state, ..invocation.clone() };
        Self { call, tool, arguments, invocation }
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
    fn from(mut error: CallError) -> Self {
        error.backtrace.truncate(MAX_BACKTRACE_FRAMES);
        Self(error)
    }
}

impl From<Metadata> for Cost {
    fn from(metadata: Metadata) -> Self {
        let refused = metadata.refused.iter().filter_map(|refusal| serde_json::to_string(refusal).ok());
        Self {
            duration: metadata.duration,
            fuel_used: metadata.fuel_used,
            peak_memory: metadata.peak_memory,
            sanitized: metadata.sanitized,
            log_dropped: metadata.log_dropped,
            refused: Refused::truncate_from(refused),
            exhausted: Refused::truncate_from(metadata.exhausted),
            stdout: metadata.stdout,
            stderr: metadata.stderr,
        }
    }
}

impl From<Cost> for Metadata {
    fn from(cost: Cost) -> Self {
        let refused = cost.refused.iter().filter_map(|refusal| serde_json::from_str(refusal).ok()).collect();
        Self::default()
            .duration(cost.duration)
            .fuel_used(cost.fuel_used)
            .peak_memory(cost.peak_memory)
            .sanitized(cost.sanitized)
            .log_dropped(cost.log_dropped)
            .refused(refused)
            .exhausted(cost.exhausted.into_iter().collect())
            .stdout(cost.stdout)
            .stderr(cost.stderr)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn sends_the_state_only_with_a_grant() {
        let invocation = Invocation { state: Some(Arc::from(r#"{"step":1}"#)), ..Invocation::default() };
        let send = |grant: &Grant| CallMessage::new(1, 0, "{}".to_owned(), &invocation, grant).invocation.state;
        assert_eq!(send(&Grant::none()), None);
        assert_eq!(send(&Grant::none().with_state()).as_deref(), Some(r#"{"step":1}"#));
    }
}
