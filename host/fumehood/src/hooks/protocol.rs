//! Conversion of calls, results and decisions to the JSON form of the types of `wit/hooks`, and back.

use std::convert::Infallible;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::policy::call::{Decision, Outcome};
use fumehood_core::text::base64::decode_base64;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ValidatedCall;
use fumehood_core::tool::definition::Annotations;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum size of a reason, a question or a message of a hook, in bytes. The rest is left out.
const MAX_REASON_BYTES: usize = 2048;

/// Converts a call.
pub(super) fn to_call(call: &ValidatedCall, context: &CallContext, now: Timestamp) -> Value {
    let Annotations { read_only, destructive, idempotent, open_world } = call.tool().definition().annotations;
    json!({
        "id": context.id,
        "tool": call.tool().full_name(),
        "arguments": call.to_text(),
        "actor": context.actor.as_deref(),
        "session": context.step.as_ref().map(|step| &*step.session),
        "client": context.client,
        "annotations": {
            "read-only": read_only, "destructive": destructive, "idempotent": idempotent, "open-world": open_world,
        },
        "time-ms": now.0,
    })
}

/// Converts the outcome of a call.
pub(super) fn to_outcome(outcome: &Result<Vec<Content>, CallError>) -> Value {
    match outcome {
        Ok(parts) => json!({"ok": parts.iter().map(to_part).collect::<Vec<_>>()}),
        // As the caller would see it, hint included: it may have what a hook removes.
        Err(error) => {
            let message = match &error.hint {
                Some(hint) => format!("{} ({hint})", error.message),
                None => error.message.to_string(),
            };
            json!({"err": {"kind": error.kind.as_str(), "message": message}})
        }
    }
}

fn to_part(content: &Content) -> Value {
    // Raw, because a hook has to find what is written in it.
    match content {
        Content::Text { text } => json!({"tag": "text", "val": text.expose_raw()}),
        Content::Json { value } => json!({"tag": "json", "val": value.expose_raw()}),
        Content::Blob { mime_type, data } => {
            json!({"tag": "blob", "val": {"mime-type": mime_type.expose_raw(), "data": BASE64_STANDARD.encode(data)}})
        }
        Content::Link { uri, title, mime_type } => {
            let title = title.as_ref().map(Untrusted::expose_raw);
            let mime_type = mime_type.as_ref().map(Untrusted::expose_raw);
            json!({"tag": "link", "val": {"uri": uri.expose_raw(), "title": title, "mime-type": mime_type}})
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "tag", content = "val", rename_all = "kebab-case", deny_unknown_fields)]
enum AuthorizationForm {
    Allow,
    Deny(String),
}

#[derive(Deserialize)]
#[serde(tag = "tag", content = "val", rename_all = "kebab-case", deny_unknown_fields)]
enum BeforeForm {
    Allow,
    Modify(String),
    Deny(String),
    Ask(String),
}

#[derive(Deserialize)]
#[serde(tag = "tag", content = "val", rename_all = "kebab-case", deny_unknown_fields)]
enum AfterForm {
    Keep,
    Replace(OutcomeForm),
    Reject(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutcomeForm {
    Ok(Vec<PartForm>),
    Err(FailureForm),
}

#[derive(Deserialize)]
#[serde(tag = "tag", content = "val", rename_all = "kebab-case", deny_unknown_fields)]
enum PartForm {
    Text(String),
    Json(String),
    Blob(BlobForm),
    Link(LinkForm),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BlobForm {
    mime_type: String,
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LinkForm {
    uri: String,
    title: Option<String>,
    mime_type: Option<String>,
}

#[derive(Deserialize)]
struct FailureForm {
    message: String,
}

/// Reads the decision of `authorize`.
///
/// # Errors
/// If it is none.
pub(super) fn read_authorization(text: &str) -> Result<Decision<Infallible>, CallError> {
    Ok(match parse(text)? {
        AuthorizationForm::Allow => Decision::Allow,
        AuthorizationForm::Deny(reason) => Decision::deny(cut(&reason)),
    })
}

/// Reads the decision of `before`.
///
/// # Errors
/// If it is none.
pub(super) fn read_before(text: &str) -> Result<Decision<Arguments>, CallError> {
    Ok(match parse(text)? {
        BeforeForm::Allow => Decision::Allow,
        BeforeForm::Modify(arguments) => Decision::Rewrite { to: Arguments::Text(arguments), note: None },
        BeforeForm::Deny(reason) => Decision::deny(cut(&reason)),
        BeforeForm::Ask(question) => Decision::ask(cut(&question)),
    })
}

/// Reads the decision of `after`.
///
/// # Errors
/// If it is none.
pub(super) fn read_after(text: &str) -> Result<Decision<Outcome>, CallError> {
    Ok(match parse(text)? {
        AfterForm::Keep => Decision::Allow,
        AfterForm::Reject(reason) => Decision::deny(cut(&reason)),
        AfterForm::Replace(OutcomeForm::Err(failure)) => {
            Decision::Rewrite { to: Err(cut(&failure.message)), note: None }
        }
        AfterForm::Replace(OutcomeForm::Ok(parts)) => {
            let parts = parts.into_iter().map(read_part).collect::<Result<_, _>>()?;
            Decision::Rewrite { to: Ok(parts), note: None }
        }
    })
}

fn read_part(part: PartForm) -> Result<Content, CallError> {
    Ok(match part {
        PartForm::Text(text) => Content::text(text),
        PartForm::Json(text) => {
            Content::json(text).map_err(|error| bad(format!("a `json` part of its result is not JSON: {error}")))?
        }
        PartForm::Blob(BlobForm { mime_type, data }) => {
            let data = decode_base64(&data);
            let data = data.map_err(|error| bad(format!("a `blob` part of its result is not base64: {error}")))?;
            Content::Blob { mime_type: Untrusted::new(mime_type), data }
        }
        PartForm::Link(LinkForm { uri, title, mime_type }) => {
            let title = title.map(Untrusted::new);
            let mime_type = mime_type.map(Untrusted::new);
            Content::Link { uri: Untrusted::new(uri), title, mime_type }
        }
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, CallError> {
    // The engine has checked the types: only a worker process that was taken over sends anything else.
    serde_json::from_str(text).map_err(|error| bad(format!("its decision is malformed: {error}")))
}

fn bad(message: String) -> CallError {
    CallError::new(ErrorKind::BadResult, message)
}

fn cut(reason: &str) -> String {
    truncate_str(reason, MAX_REASON_BYTES).to_owned()
}
