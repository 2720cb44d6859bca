//! The methods of prompts, served from the operator's library and those of servers.

use fumehood_core::text::sanitize::printable;
use rmcp::model::{
    ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams,
    Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
};

use super::library::{self, Entry, Library, PromptError};
use super::resources::{paginate, truncate_printable, unreadable_error};
use super::sanitizer::Sanitizer;
use super::served_library::ServedLibrary;
use super::template::Parameter;
use super::tools::call_tool_result;
use crate::client::LibraryMethod;

/// Returns a page of `prompts/list`.
pub(crate) async fn list_prompts(
    library: &ServedLibrary<'_>,
    request: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<ListPromptsResult, ErrorData> {
    library.refresh(LibraryMethod::Get).await;
    let mut all = library.prompts();
    all.extend(library.own().prompts().iter().map(|(name, prompt)| (name.clone(), to_prompt(prompt))));
    let (listed, next_cursor) = paginate(&all, request, size)?;
    let listed = listed.into_iter().cloned().collect();
    Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(listed) })
}

/// Renders a prompt with its arguments, for `prompts/get`. The entries that it refers to come before its text.
pub(crate) async fn get_prompt(
    library: &Library,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let (before, text) = library.render_prompt(&request.name, &arguments).await.map_err(|error| match error {
        PromptError::Unknown => {
            let message =
                format!("unknown prompt {}; `prompts/list` lists the prompts", truncate_printable(&request.name));
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
