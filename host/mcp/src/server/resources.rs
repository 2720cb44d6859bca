//! The methods of resources and prompts, served from the library.

use std::collections::BTreeMap;
use std::ops::Bound;

use fumehood_core::text::sanitize::printable;
use rmcp::model::{
    ContentBlock, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult,
    ListResourcesResult, PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, Role,
};
use serde_json::json;

use super::call_tool_result;
use super::sanitizer::Sanitizer;
use crate::library::{self, Entry, Library, PromptError};
use crate::template::Parameter;

/// Prefix of a cursor; other texts are rejected.
const CURSOR_PREFIX: &str = "after:";
/// Maximum length of a URI or name that an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Returns a page of `resources/list`.
pub(crate) fn list_resources(
    library: &Library,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListResourcesResult, ErrorData> {
    let (entries, next_cursor) = paginate(library.entries(), request, size)?;
    let listed = entries.into_iter().map(to_resource).collect();
    Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(listed) })
}

/// Returns a page of `prompts/list`.
pub(crate) fn list_prompts(
    library: &Library,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListPromptsResult, ErrorData> {
    let (prompts, next_cursor) = paginate(library.prompts(), request, size)?;
    let listed = prompts.into_iter().map(to_prompt).collect();
    Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(listed) })
}

/// Reads the current contents of an entry, for `resources/read`.
pub(crate) async fn read_resource(library: &Library, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(entry) = library.entries().get(uri) else {
        let uri = truncate_printable(uri);
        let message = format!("there is no resource {uri}; `resources/list` says which there are");
        return Err(ErrorData::resource_not_found(message, Some(json!({"uri": uri}))));
    };
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

/// Renders a prompt with its arguments, for `prompts/get`. The entries that it refers to come before its text.
pub(crate) async fn get_prompt(
    library: &Library,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let (before, text) = library.render_prompt(&request.name, &arguments).await.map_err(|error| match error {
        PromptError::Unknown => {
            let message = format!(
                "there is no prompt {}; `prompts/list` says which there are",
                truncate_printable(&request.name)
            );
            ErrorData::invalid_params(message, None)
        }
        PromptError::Arguments(error) => ErrorData::invalid_params(printable(&error.to_string()).into_owned(), None),
        PromptError::Unreadable(why) => unreadable_error(why),
    })?;
    let mut sanitizer = Sanitizer::default();
    let attached = |(entry, bytes)| PromptMessage::new(Role::User, attachment(entry, bytes, &mut sanitizer));
    let mut messages: Vec<PromptMessage> = before.into_iter().map(attached).collect();
    messages.push(PromptMessage::new_text(Role::User, sanitizer.text(text.replace("\r\n", "\n"))));
    let mut result = GetPromptResult::new(messages);
    result.description = library.prompts().get(&request.name).and_then(|prompt| prompt.description.clone());
    sanitizer.report(&mut result.meta);
    Ok(result)
}

fn attachment(entry: &Entry, bytes: Vec<u8>, sanitizer: &mut Sanitizer) -> ContentBlock {
    match call_tool_result::decode_text(&entry.mime_type, bytes, sanitizer) {
        Ok(text) => {
            let contents = ResourceContents::text(text, entry.uri.clone());
            ContentBlock::resource(contents.with_mime_type(entry.mime_type.clone()))
        }
        Err(bytes) => call_tool_result::blob_block(&entry.mime_type, bytes, entry.uri.clone(), sanitizer),
    }
}

/// Returns at most `size` values from the cursor on, and the cursor of the next page, which names the last key before
/// it.
fn paginate<T>(
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
    ErrorData::invalid_params("this cursor is not one of this server; list again from the start", None)
}

fn to_resource(entry: &Entry) -> Resource {
    let mut resource = Resource::new(entry.uri.clone(), entry.name.clone()).with_mime_type(entry.mime_type.clone());
    (resource.title, resource.description) = (entry.title.clone(), entry.description.clone());
    resource
}

fn to_prompt(from: &library::Prompt) -> Prompt {
    let argument = |it: &Parameter| {
        PromptArgument::new(it.name.clone()).with_description(it.description.clone()).with_required(it.required)
    };
    let arguments: Vec<PromptArgument> = from.parameters.iter().map(argument).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    let mut prompt = Prompt::new(from.name.clone(), from.description.clone(), arguments);
    prompt.title.clone_from(&from.title);
    prompt
}

fn unreadable_error(why: String) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, printable(&why).into_owned(), None)
}

fn truncate_printable(text: &str) -> String {
    printable(text).chars().take(MAX_QUOTED_CHARS).collect()
}
