//! Results of calls as clients see them: hidden characters of guests are escaped.

use std::borrow::Cow;

use fumehood_core::call::content::{Content, JsonText};
use fumehood_core::call::result::{CallError, CallResult, CapturedStream, Metadata};
use fumehood_core::text::sanitize::{printable_json, printable_value};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// The record of a call that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResultRecord<'a> {
    /// The id of the call.
    pub(crate) id: &'a str,
    /// The full name of the tool.
    tool: &'a str,
    /// `ok` or `error`.
    status: &'static str,
    /// The parts of the result: text, JSON values, bytes in base64, and links. None if the call failed.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Part<'a>>,
    /// The JSON value of the result, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    value: Option<CleanJson<'a>>,
    /// The failure: its `kind`, a `message`, and perhaps a `hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Cow<'a, CallError>>,
    /// The cost of the call: `fuel_used`, `peak_memory` in bytes, `duration_ms`, and observations about its result.
    #[schema(value_type = Object)]
    metadata: Cow<'a, Metadata>,
}

impl<'a> ResultRecord<'a> {
    pub(crate) fn new(result: &'a CallResult) -> Self {
        let json = result.content().iter().find_map(|part| match part {
            Content::Json { value } => Some(CleanJson(value)),
            _ => None,
        });
        Self {
            id: &result.id,
            tool: &result.tool,
            status: if result.is_ok() { "ok" } else { "error" },
            content: result.content().iter().map(Part::new).collect(),
            value: json,
            error: result.error().map(public_error),
            metadata: public_metadata(&result.metadata),
        }
    }
}

/// Returns the metadata without what is for the operator: the worker, and what the guest wrote to its standard streams; and
/// without members for clients of MCP.
fn public_metadata(metadata: &Metadata) -> Cow<'_, Metadata> {
    let is_silent = metadata.stdout.is_empty() && metadata.stderr.is_empty();
    if is_silent && metadata.members.is_none() && metadata.worker.is_none() {
        return Cow::Borrowed(metadata);
    }
    let stdout = CapturedStream::default();
    let stderr = CapturedStream::default();
    Cow::Owned(metadata.clone().stdout(stdout).stderr(stderr).members(None).worker(None))
}

/// Returns the failure without what is for clients of MCP.
fn public_error(error: &CallError) -> Cow<'_, CallError> {
    if error.details.is_none() {
        return Cow::Borrowed(error);
    }
    Cow::Owned(error.clone().without_details())
}

/// One part of a result.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Json {
        value: CleanJson<'a>,
    },
    Blob {
        mime_type: Cow<'a, str>,
        #[serde(serialize_with = "to_base64")]
        data: &'a [u8],
    },
    Link {
        uri: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<Cow<'a, str>>,
    },
}

impl<'a> Part<'a> {
    pub(crate) fn new(part: &'a Content) -> Self {
        match part {
            Content::Text { text } => Self::Text { text: text.to_sanitized() },
            Content::Json { value } => Self::Json { value: CleanJson(value) },
            Content::Blob { mime_type, data } => Self::Blob { mime_type: mime_type.to_sanitized(), data },
            Content::Link { uri, title, mime_type } => Self::Link {
                uri: uri.to_sanitized_uri(),
                title: title.as_ref().map(|title| title.to_sanitized()),
                mime_type: mime_type.as_ref().map(|mime| mime.to_sanitized()),
            },
        }
    }
}

/// JSON of a guest with every hidden character escaped in all strings and names. An escape of JSON alone would become
/// the character again in the client's parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanJson<'a>(&'a JsonText);

impl Serialize for CleanJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.hidden_chars() == 0 {
            // Borrowed unless something is escaped, and nothing is.
            return match self.0.to_sanitized() {
                Cow::Borrowed(text) => {
                    serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer)
                }
                Cow::Owned(text) => RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer),
            };
        }
        let value: Value = self.0.read().map_err(S::Error::custom)?;
        printable_value(&value).0.serialize(serializer)
    }
}

fn to_base64<S: Serializer>(data: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    use base64::Engine as _;
    serializer.serialize_str(&base64::prelude::BASE64_STANDARD.encode(data))
}

/// Writes a value as JSON on one line, with characters that would end a line escaped.
pub(crate) fn to_line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    printable_json(&text).into_owned()
}
