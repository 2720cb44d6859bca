//! Entries of the library as resources of the protocol, and its prompts.

use std::collections::BTreeMap;
use std::ops::Bound;

use fumehood_core::sanitize::printable;
use rmcp::model::{
    ContentBlock, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult,
    ListResourcesResult, PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, Role,
};
use serde_json::json;

use super::answer;
use super::sanitizer::Sanitizer;
use crate::library::{self, Entry, Library, PromptError};
use crate::template::Parameter;

/// In front of a key in a cursor, so that other texts are refused.
const CURSOR: &str = "after:";
/// Characters of what was asked for that are repeated.
const LONGEST: usize = 200;

/// A page of entries.
pub(crate) fn resources(
    library: &Library,
    asked: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListResourcesResult, ErrorData> {
    let (entries, next_cursor) = page(library.entries(), asked, size)?;
    let listed = entries.into_iter().map(resource).collect();
    Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(listed) })
}

/// A page of prompts.
pub(crate) fn prompts(
    library: &Library,
    asked: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListPromptsResult, ErrorData> {
    let (prompts, next_cursor) = page(library.prompts(), asked, size)?;
    let listed = prompts.into_iter().map(prompt).collect();
    Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(listed) })
}

/// What an entry says now.
pub(crate) async fn read(library: &Library, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(entry) = library.entries().get(uri) else {
        let uri = shown(uri);
        let message = format!("there is no resource {uri}; `resources/list` says which there are");
        return Err(ErrorData::resource_not_found(message, Some(json!({"uri": uri}))));
    };
    let bytes = entry.source.read().await.map_err(unreadable)?;
    let mut sanitizer = Sanitizer::default();
    let contents = match answer::text_of(&entry.mime_type, bytes, &mut sanitizer) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(bytes) => ResourceContents::blob(answer::encoded(&bytes), uri),
    };
    let mut result = ReadResourceResult::new(vec![contents.with_mime_type(entry.mime_type.clone())]);
    sanitizer.report(&mut result.meta);
    Ok(result)
}

/// A prompt with its arguments in it. What the text is about comes before it.
pub(crate) async fn prompted(library: &Library, asked: GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let arguments = asked.arguments.unwrap_or_default();
    let (before, text) = library.prompt(&asked.name, &arguments).await.map_err(|error| match error {
        PromptError::Unknown => {
            let message = format!("there is no prompt {}; `prompts/list` says which there are", shown(&asked.name));
            ErrorData::invalid_params(message, None)
        }
        PromptError::Arguments(error) => ErrorData::invalid_params(printable(&error.to_string()).into_owned(), None),
        PromptError::Unreadable(why) => unreadable(why),
    })?;
    let mut sanitizer = Sanitizer::default();
    let attached = |(entry, bytes)| PromptMessage::new(Role::User, attachment(entry, bytes, &mut sanitizer));
    let mut messages: Vec<PromptMessage> = before.into_iter().map(attached).collect();
    messages.push(PromptMessage::new_text(Role::User, sanitizer.text(text.replace("\r\n", "\n"))));
    let mut result = GetPromptResult::new(messages);
    result.description = library.prompts().get(&asked.name).and_then(|prompt| prompt.description.clone());
    sanitizer.report(&mut result.meta);
    Ok(result)
}

fn attachment(entry: &Entry, bytes: Vec<u8>, sanitizer: &mut Sanitizer) -> ContentBlock {
    match answer::text_of(&entry.mime_type, bytes, sanitizer) {
        Ok(text) => {
            let contents = ResourceContents::text(text, entry.uri.clone());
            ContentBlock::resource(contents.with_mime_type(entry.mime_type.clone()))
        }
        Err(bytes) => answer::blob(&entry.mime_type, bytes, entry.uri.clone(), sanitizer),
    }
}

/// At most `size` values from the cursor on, and the cursor of the next page, which names the last key before it.
fn page<T>(
    of: &BTreeMap<String, T>,
    asked: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<(Vec<&T>, Option<String>), ErrorData> {
    let cursor = asked.and_then(|asked| asked.cursor);
    let start = match &cursor {
        None => Bound::Unbounded,
        Some(cursor) => Bound::Excluded(cursor.strip_prefix(CURSOR).ok_or_else(unknown_cursor)?),
    };
    let mut rest = of.range::<str, _>((start, Bound::Unbounded));
    let page: Vec<(&String, &T)> = rest.by_ref().take(size).collect();
    let next = page.last().filter(|_| rest.next().is_some()).map(|(key, _)| format!("{CURSOR}{key}"));
    Ok((page.into_iter().map(|(_, value)| value).collect(), next))
}

pub(crate) fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("this cursor is not one of this server; list again from the start", None)
}

fn resource(entry: &Entry) -> Resource {
    let mut resource = Resource::new(entry.uri.clone(), entry.name.clone()).with_mime_type(entry.mime_type.clone());
    (resource.title, resource.description) = (entry.title.clone(), entry.description.clone());
    resource
}

fn prompt(of: &library::Prompt) -> Prompt {
    let argument = |it: &Parameter| {
        PromptArgument::new(it.name.clone()).with_description(it.description.clone()).with_required(it.required)
    };
    let arguments: Vec<PromptArgument> = of.parameters.iter().map(argument).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    let mut prompt = Prompt::new(of.name.clone(), of.description.clone(), arguments);
    prompt.title.clone_from(&of.title);
    prompt
}

fn unreadable(why: String) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, printable(&why).into_owned(), None)
}

fn shown(text: &str) -> String {
    printable(text).chars().take(LONGEST).collect()
}
