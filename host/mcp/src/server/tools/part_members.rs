//! Members of the parts of a server's result, which clients of a gateway get as the server wrote them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::text::untrusted::Untrusted;
use rmcp::model::{Annotations, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::{Map, Value};

/// The members of parts by their positions, sanitized.
#[derive(Debug, Default)]
pub(super) struct PartMembers(Vec<Value>);

impl PartMembers {
    /// Sanitizes the members of a result.
    pub(super) fn new(parts: Option<&Untrusted<Value>>) -> Self {
        match parts.map(|parts| parts.to_sanitized().into_owned()) {
            Some(Value::Array(parts)) => Self(parts),
            _ => Self::default(),
        }
    }

    /// Returns the part at this position with its members.
    pub(super) fn set(&self, at: usize, block: ContentBlock) -> ContentBlock {
        let Some(members) = self.0.get(at).and_then(Value::as_object) else { return block };
        let annotations = read(members, "annotations");
        let meta = read_metadata(members);
        let block = match members.get("resource").and_then(Value::as_object) {
            Some(resource) => to_resource(block, resource),
            None => block,
        };
        match block {
            ContentBlock::Text(mut text) => {
                text.annotations = annotations;
                text.meta = meta;
                ContentBlock::Text(text)
            }
            ContentBlock::Image(mut image) => {
                image.annotations = annotations;
                image.meta = meta;
                ContentBlock::Image(image)
            }
            ContentBlock::Audio(mut audio) => {
                audio.annotations = annotations;
                audio.meta = meta;
                ContentBlock::Audio(audio)
            }
            ContentBlock::Resource(mut resource) => {
                resource.annotations = annotations;
                resource.meta = meta;
                ContentBlock::Resource(resource)
            }
            ContentBlock::ResourceLink(link) => ContentBlock::ResourceLink(set_link(link, members, annotations, meta)),
            other => other,
        }
    }
}

fn set_link(
    mut link: Resource,
    members: &Map<String, Value>,
    annotations: Option<Annotations>,
    meta: Option<MetaObject>,
) -> Resource {
    let name: Option<String> = read(members, "name");
    link.name = name.unwrap_or(link.name);
    link.title = read(members, "title");
    link.description = read(members, "description");
    link.size = read(members, "size");
    link.icons = read(members, "icons");
    link.annotations = annotations;
    link.meta = meta;
    link
}

/// Returns an embedded resource with the contents of a part, and the URI and the type that its server gave.
fn to_resource(block: ContentBlock, resource: &Map<String, Value>) -> ContentBlock {
    let Some(uri) = read::<String>(resource, "uri") else { return block };
    let contents = match block {
        ContentBlock::Text(text) => ResourceContents::text(text.text, uri),
        ContentBlock::Image(image) => ResourceContents::blob(image.data, uri),
        ContentBlock::Audio(audio) => ResourceContents::blob(audio.data, uri),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::BlobResourceContents { blob, .. } => ResourceContents::blob(blob, uri),
            // Bytes of a text type, which were a blob.
            ResourceContents::TextResourceContents { text, .. } => {
                ResourceContents::blob(BASE64_STANDARD.encode(text), uri)
            }
            other => other,
        },
        other => return other,
    };
    ContentBlock::resource(set_contents(contents, read(resource, "mimeType"), read_metadata(resource)))
}

/// Sets the type and the metadata of contents, which may have none.
fn set_contents(
    mut contents: ResourceContents,
    declared: Option<String>,
    own_meta: Option<MetaObject>,
) -> ResourceContents {
    if let ResourceContents::TextResourceContents { mime_type, meta, .. }
    | ResourceContents::BlobResourceContents { mime_type, meta, .. } = &mut contents
    {
        *mime_type = declared;
        *meta = own_meta;
    }
    contents
}

fn read<T: serde::de::DeserializeOwned>(members: &Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(members.get(name)?.clone()).ok()
}

fn read_metadata(members: &Map<String, Value>) -> Option<MetaObject> {
    read(members, "_meta").map(MetaObject)
}
