//! The methods of resources, served from the operator's library and those of servers.

use std::collections::BTreeMap;
use std::ops::Bound;

use fumehood_core::text::sanitize::printable;
use rmcp::model::{
    ErrorCode, ErrorData, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceResult,
    Resource, ResourceContents,
};
use serde_json::json;

use super::library::{Entry, Library};
use super::sanitizer::Sanitizer;
use super::served_library::ServedLibrary;
use super::tools::call_tool_result;
use crate::client::LibraryMethod;

/// Prefix of a cursor; other texts are rejected.
const CURSOR_PREFIX: &str = "after:";
/// Maximum length of a URI or name that an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Returns a page of `resources/list`.
pub(crate) async fn list_resources(
    library: &ServedLibrary<'_>,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListResourcesResult, ErrorData> {
    library.refresh(LibraryMethod::Read).await;
    let mut all = library.resources();
    all.extend(library.own().entries().iter().map(|(uri, entry)| (uri.clone(), to_resource(entry))));
    let (listed, next_cursor) = paginate(&all, request, size)?;
    let listed = listed.into_iter().cloned().collect();
    Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(listed) })
}

/// Returns a page of `resources/templates/list`.
pub(crate) async fn list_resource_templates(
    library: &ServedLibrary<'_>,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListResourceTemplatesResult, ErrorData> {
    library.refresh(LibraryMethod::Read).await;
    let all = library.templates();
    let (listed, next_cursor) = paginate(&all, request, size)?;
    let listed = listed.into_iter().cloned().collect();
    Ok(ListResourceTemplatesResult { next_cursor, ..ListResourceTemplatesResult::with_all_items(listed) })
}

/// Returns the error for a URI that nothing has.
pub(crate) fn unknown_resource(uri: &str) -> ErrorData {
    let uri = truncate_printable(uri);
    let message = format!("unknown resource {uri}; `resources/list` lists the resources");
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}

/// Reads the current contents of an entry, for `resources/read`.
pub(crate) async fn read_resource(library: &Library, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let entry = library.entries().get(uri).ok_or_else(|| unknown_resource(uri))?;
    let bytes = entry.source.read().await.map_err(unreadable_error)?;
    let mut sanitizer = Sanitizer::default();
    let contents = match call_tool_result::decode_text(&entry.mime_type, bytes, &mut sanitizer) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(bytes) => ResourceContents::blob(call_tool_result::encode_base64(&bytes), uri),
    };
    let mut result = ReadResourceResult::new(vec![contents.with_mime_type(entry.mime_type.clone())]);
    sanitizer.report(&mut result.meta);
    Ok(result)
}

/// Returns at most `size` values from the cursor on, and the cursor of the next page, which names the last key before
/// it.
pub(super) fn paginate<T>(
    items: &BTreeMap<String, T>,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<(Vec<&T>, Option<String>), ErrorData> {
    let cursor = request.and_then(|request| request.cursor);
    let start = match &cursor {
        None => Bound::Unbounded,
        Some(cursor) => Bound::Excluded(cursor.strip_prefix(CURSOR_PREFIX).ok_or_else(unknown_cursor)?),
    };
    let mut rest = items.range::<str, _>((start, Bound::Unbounded));
    let page: Vec<(&String, &T)> = rest.by_ref().take(size).collect();
    let next = page.last().filter(|_| rest.next().is_some()).map(|(key, _)| format!("{CURSOR_PREFIX}{key}"));
    Ok((page.into_iter().map(|(_, value)| value).collect(), next))
}

pub(crate) fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("unknown cursor; list again from the start", None)
}

fn to_resource(entry: &Entry) -> Resource {
    let mut resource = Resource::new(entry.uri.clone(), entry.name.clone()).with_mime_type(entry.mime_type.clone());
    (resource.title, resource.description) = (entry.title.clone(), entry.description.clone());
    resource
}

pub(super) fn unreadable_error(why: String) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, printable(&why).into_owned(), None)
}

pub(super) fn truncate_printable(text: &str) -> String {
    printable(text).chars().take(MAX_QUOTED_CHARS).collect()
}
