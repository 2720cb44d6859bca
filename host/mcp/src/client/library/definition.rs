//! Definitions of resources, templates and prompts, read one by one.

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{LibraryItem, LibraryKind};
use fumehood_core::text::sanitize::{count_hidden, printable_value};
use rmcp::model::{ClientRequest, Prompt, Resource, ResourceTemplate};
use rmcp::service::ServiceError;
use serde_json::{Map, Value, json};

use super::{MAX_DEFINITION_BYTES, result};
use crate::client::connection::Connection;
use crate::client::metadata::{retain_passed_metadata, retain_safe_icons};
use crate::client::remote_options::RemoteOptions;
use crate::client::tool_notice::ToolNotice;

/// Members of a definition that may be left out.
const OPTIONAL_MEMBERS: [&str; 8] =
    ["title", "description", "mimeType", "size", "annotations", "icons", "arguments", "_meta"];
/// Maximum length of a URI or a name, in bytes.
const MAX_KEY_BYTES: usize = 2048;

/// A definition as it is passed on, and what identifies it.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// The URI, the template or the name, as the server wrote it.
    pub(super) key: String,
    /// The definition, sanitized.
    pub(super) value: Value,
    /// The item of an approval.
    pub(super) item: LibraryItem,
    pub(super) digest: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// Returns the member of a page that has the definitions.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }

    fn item_kind(self) -> LibraryKind {
        match self {
            Self::Resources => LibraryKind::Resources,
            Self::Templates => LibraryKind::Template,
            Self::Prompts => LibraryKind::Prompt,
        }
    }

    fn is_readable(self, definition: &Map<String, Value>) -> bool {
        let definition = Value::Object(definition.clone());
        match self {
            Self::Resources => serde_json::from_value::<Resource>(definition).is_ok(),
            Self::Templates => serde_json::from_value::<ResourceTemplate>(definition).is_ok(),
            Self::Prompts => serde_json::from_value::<Prompt>(definition).is_ok(),
        }
    }
}

impl Definition {
    /// Reads a definition. Parts that cannot be read, or that are not passed on, are left out.
    ///
    /// # Errors
    /// If it has no usable name or URI, or is too large.
    pub(super) fn read(kind: ListKind, mut value: Value, options: &RemoteOptions) -> Result<Self, ToolNotice> {
        let written = value.get(kind.key()).cloned();
        if let Some(redactor) = &options.redactor {
            redactor.redact_value(&mut value);
        }
        if value.get(kind.key()) != written.as_ref() {
            return Err(ToolNotice::new(kind.member(), "the name of a definition contains a secret"));
        }
        let Value::Object(mut definition) = value else {
            return Err(ToolNotice::new(kind.member(), "a definition is not an object"));
        };
        let Some(key) = definition.get(kind.key()).and_then(Value::as_str).map(str::to_owned) else {
            return Err(ToolNotice::new(kind.member(), format!("a definition has no `{}`", kind.key())));
        };
        let notice = |why: &str| ToolNotice::new(&key, why);
        if key.is_empty() || key.len() > MAX_KEY_BYTES || count_hidden(&key) > 0 {
            return Err(notice("its name is empty, too long or has hidden characters"));
        }
        // Clients need a name, and some servers have none.
        if !definition.get("name").is_some_and(Value::is_string) {
            definition.insert("name".to_owned(), key.clone().into());
        }
        if !kind.is_readable(&definition) {
            mend(kind, &mut definition);
        }
        if !kind.is_readable(&definition) {
            return Err(notice("its definition is malformed"));
        }
        let whole = Value::Object(definition.clone());
        if whole.to_string().len() > MAX_DEFINITION_BYTES {
            return Err(notice("its definition is larger than 16 KiB"));
        }
        let item = LibraryItem::new(kind.item_kind(), &key, &whole);
        let digest = item.digest();
        retain_passed_metadata(&mut definition, options.app_origins());
        retain_safe_icons(&mut definition);
        let value = printable_value(&Value::Object(definition)).0.into_owned();
        Ok(Self { key, value, item, digest })
    }
}

/// Removes the members without which the definition can be read.
fn mend(kind: ListKind, definition: &mut Map<String, Value>) {
    let mut required = definition.clone();
    OPTIONAL_MEMBERS.iter().for_each(|member| drop(required.remove(*member)));
    for member in OPTIONAL_MEMBERS {
        let Some(value) = definition.get(member) else { continue };
        let mut with_member = required.clone();
        with_member.insert(member.to_owned(), value.clone());
        if !kind.is_readable(&with_member) {
            definition.remove(member);
        }
    }
}

/// A page of a list.
pub(super) struct Page {
    pub(super) definitions: Vec<Value>,
    pub(super) next: Option<String>,
}

/// Requests a page of a list.
pub(super) async fn list_page(
    connection: &Connection,
    kind: ListKind,
    cursor: Option<String>,
) -> Result<Page, ServiceError> {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    let request = serde_json::from_value(json!({"method": kind.method(), "params": params}));
    let request: ClientRequest = request.map_err(|_| ServiceError::UnexpectedResponse)?;
    let answer = connection.unless_closed(connection.peer().send_request(request)).await?;
    let Value::Object(mut page) = result::to_value(answer) else { return Err(ServiceError::UnexpectedResponse) };
    let Some(Value::Array(definitions)) = page.remove(kind.member()) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let next = page.remove("nextCursor").and_then(|cursor| cursor.as_str().map(str::to_owned));
    Ok(Page { definitions, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_definition(kind: ListKind, value: Value) -> Result<Definition, ToolNotice> {
        Definition::read(kind, value, &RemoteOptions::default())
    }

    #[test]
    fn a_definition_is_mended_or_left_out() {
        let odd =
            json!({"uri": "a://b", "title": 5, "size": "large", "mimeType": "text/plain", "_meta": {"ui": {}, "x": 1}});
        let read_odd = read_definition(ListKind::Resources, odd).unwrap();
        let expected = json!({"uri": "a://b", "name": "a://b", "mimeType": "text/plain", "_meta": {"x": 1}});
        assert_eq!((read_odd.value, read_odd.key.as_str()), (expected, "a://b"));
        let hidden = json!({"name": "p", "description": "a\u{200b}", "arguments": [{"name": "x"}]});
        let hidden = read_definition(ListKind::Prompts, hidden).unwrap();
        assert_eq!(hidden.value["description"], "a\\u{200b}");
        for (kind, bad) in [
            (ListKind::Resources, json!(null)),
            (ListKind::Resources, json!({"name": "x"})),
            (ListKind::Templates, json!({"uri": "a://{b}"})),
            (ListKind::Prompts, json!({"name": "a\u{200b}"})),
            (ListKind::Prompts, json!({"name": "p", "description": "x".repeat(20_000)})),
        ] {
            assert!(read_definition(kind, bad.clone()).is_err(), "{bad}");
        }
    }

    fn digest_of(about: &str) -> Digest {
        let value = json!({"name": "p", "description": about});
        Definition::read(ListKind::Prompts, value, &RemoteOptions::default()).unwrap().digest
    }

    #[test]
    fn the_digest_covers_what_the_server_wrote() {
        assert_eq!(digest_of("a"), digest_of("a"));
        assert_ne!(digest_of("a"), digest_of("b"));
    }
}
