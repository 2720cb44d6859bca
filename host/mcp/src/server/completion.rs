//! `completion/complete` for prompts and resource templates of servers.

use rmcp::model::{CompleteRequestParams, Reference};
use serde_json::{Map, Value, json};

use super::served_library::ServedLibrary;
use crate::client::{LibraryMethod, RemoteLibrary};

/// Returns the server that completes an argument, and the request to it. `None` if nothing does: the prompts of an operator
/// have no completions.
pub(super) fn to_server<'a>(
    library: &ServedLibrary<'a>,
    request: &CompleteRequestParams,
) -> Option<(&'a RemoteLibrary, Value)> {
    let (server, reference) = match &request.r#ref {
        Reference::Prompt(prompt) => {
            let (server, name) = library.server_of_prompt(&prompt.name)?;
            (server, json!({"type": "ref/prompt", "name": name}))
        }
        Reference::Resource(template) => {
            let server = library.server_of_resource(&template.uri)?;
            (server, json!({"type": "ref/resource", "uri": template.uri}))
        }
        _ => return None,
    };
    let completes = library.servers(LibraryMethod::Complete).any(|other| other.name() == server.name());
    let argument = json!({"name": request.argument.name, "value": request.argument.value});
    let mut params = Map::from_iter([("ref".to_owned(), reference), ("argument".to_owned(), argument)]);
    if let Some(arguments) = request.context.as_ref().and_then(|context| context.arguments.as_ref()) {
        params.insert("context".to_owned(), json!({ "arguments": arguments }));
    }
    completes.then_some((server, Value::Object(params)))
}
