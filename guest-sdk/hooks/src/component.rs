//! The exports of the contract, inside a component.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::bindings::exports::fumehood::hooks::hook as guest;
use crate::{AfterDecision, Annotations, Authorization, BeforeDecision, Content, Failure, Hook, Outcome, ToolCall};

/// Implements the export `authorize`.
#[must_use]
pub fn authorize<H: Hook>(call: guest::ToolCall) -> guest::Authorization {
    match H::authorize(from_call(call)) {
        Authorization::Allow => guest::Authorization::Allow,
        Authorization::Deny(reason) => guest::Authorization::Deny(reason),
    }
}

/// Implements the export `before`.
#[must_use]
pub fn before<H: Hook>(call: guest::ToolCall) -> guest::BeforeDecision {
    match H::before(from_call(call)) {
        BeforeDecision::Allow => guest::BeforeDecision::Allow,
        BeforeDecision::Modify(arguments) => guest::BeforeDecision::Modify(arguments),
        BeforeDecision::Deny(reason) => guest::BeforeDecision::Deny(reason),
        BeforeDecision::Ask(question) => guest::BeforeDecision::Ask(question),
    }
}

/// Implements the export `after`.
#[must_use]
pub fn after<H: Hook>(call: guest::ToolCall, outcome: guest::Outcome) -> guest::AfterDecision {
    let outcome = match outcome.map(|parts| parts.into_iter().map(from_content).collect::<Option<Vec<_>>>()) {
        Ok(Some(parts)) => Ok(parts),
        // The host encodes what it hands over.
        Ok(None) => return guest::AfterDecision::Reject("a part of it is not base64".to_owned()),
        Err(guest::Failure { kind, message }) => Err(Failure { kind, message }),
    };
    match H::after(from_call(call), outcome) {
        AfterDecision::Keep => guest::AfterDecision::Keep,
        AfterDecision::Replace(outcome) => guest::AfterDecision::Replace(to_outcome(outcome)),
        AfterDecision::Reject(reason) => guest::AfterDecision::Reject(reason),
    }
}

fn from_call(call: guest::ToolCall) -> ToolCall {
    let guest::Annotations { read_only, destructive, idempotent, open_world } = call.annotations;
    ToolCall {
        id: call.id,
        tool: call.tool,
        arguments: call.arguments,
        actor: call.actor,
        session: call.session,
        client: call.client,
        annotations: Annotations { read_only, destructive, idempotent, open_world },
        time_ms: call.time_ms,
    }
}

fn from_content(content: guest::Content) -> Option<Content> {
    Some(match content {
        guest::Content::Text(text) => Content::Text(text),
        guest::Content::Json(value) => Content::Json(value),
        guest::Content::Blob(guest::Blob { mime_type, data }) => {
            Content::Blob { mime_type, data: BASE64_STANDARD.decode(data).ok()? }
        }
        guest::Content::Link(guest::Link { uri, title, mime_type }) => Content::Link { uri, title, mime_type },
    })
}

fn to_outcome(outcome: Outcome) -> guest::Outcome {
    match outcome {
        Ok(parts) => Ok(parts.into_iter().map(to_content).collect()),
        Err(Failure { kind, message }) => Err(guest::Failure { kind, message }),
    }
}

fn to_content(content: Content) -> guest::Content {
    match content {
        Content::Text(text) => guest::Content::Text(text),
        Content::Json(value) => guest::Content::Json(value),
        Content::Blob { mime_type, data } => {
            guest::Content::Blob(guest::Blob { mime_type, data: BASE64_STANDARD.encode(data) })
        }
        Content::Link { uri, title, mime_type } => guest::Content::Link(guest::Link { uri, title, mime_type }),
    }
}

/// Defines the component's exports. Only for `export!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_component {
    ($hook:ty) => {
        struct Component;

        impl $crate::bindings::exports::fumehood::hooks::hook::Guest for Component {
            fn authorize(
                call: $crate::bindings::exports::fumehood::hooks::hook::ToolCall,
            ) -> $crate::bindings::exports::fumehood::hooks::hook::Authorization {
                $crate::component::authorize::<$hook>(call)
            }

            fn before(
                call: $crate::bindings::exports::fumehood::hooks::hook::ToolCall,
            ) -> $crate::bindings::exports::fumehood::hooks::hook::BeforeDecision {
                $crate::component::before::<$hook>(call)
            }

            fn after(
                call: $crate::bindings::exports::fumehood::hooks::hook::ToolCall,
                outcome: $crate::bindings::exports::fumehood::hooks::hook::Outcome,
            ) -> $crate::bindings::exports::fumehood::hooks::hook::AfterDecision {
                $crate::component::after::<$hook>(call, outcome)
            }
        }

        $crate::bindings::export!(Component with_types_in $crate::bindings);
    };
}
