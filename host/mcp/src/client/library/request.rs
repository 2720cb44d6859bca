//! Requests to a library, as a call has them.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use rmcp::model::{ClientRequest, RequestMetaObject};
use serde_json::{Value, json};

use super::{LibraryMethod, RemoteLibrary, result};
use crate::apps;
use crate::client::call_error;
use crate::client::metadata::retain_passed_metadata;
use crate::client::remote_options::RemoteOptions;

pub(in crate::client) struct LibraryRequest {
    pub(in crate::client) method: LibraryMethod,
    /// The parameters. The gate has checked their types.
    pub(in crate::client) params: Value,
    pub(in crate::client) meta: RequestMetaObject,
}

impl LibraryRequest {
    fn text(&self, pointer: &str) -> &str {
        self.params.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Checks that what is asked for may be passed on.
    ///
    /// # Errors
    /// If it is a page, and the operator allows none, or a prompt that is not approved.
    pub(super) fn check(&self, library: &RemoteLibrary, options: &RemoteOptions) -> Result<(), CallError> {
        let server = library.name();
        let prompt = match self.method {
            LibraryMethod::Read if apps::is_app_uri(self.text("/uri")) && options.app_origins().is_none() => {
                let why = format!("pages of the server `{server}` are not allowed by the operator");
                return Err(call_error::from_refused_input(why));
            }
            LibraryMethod::Get => self.text("/name"),
            LibraryMethod::Complete if self.text("/ref/type") == "ref/prompt" => self.text("/ref/name"),
            LibraryMethod::Read | LibraryMethod::Complete => return Ok(()),
        };
        if library.prompts().iter().any(|(name, _)| name == prompt) {
            return Ok(());
        }
        let why = format!("the server `{server}` has no such prompt, or its current version is not approved");
        Err(CallError::new(ErrorKind::NeedsApproval, why).with_hint(format!("`fumehood approve {server}` shows it")))
    }

    /// Adds answers of the client that the server asked for.
    pub(super) fn add_answers(&mut self, answers: impl serde::Serialize, state: Option<String>) {
        if let Value::Object(params) = &mut self.params {
            params.insert("inputResponses".to_owned(), serde_json::to_value(answers).unwrap_or_default());
            params.insert("requestState".to_owned(), state.into());
        }
    }

    /// Builds the request of the protocol.
    ///
    /// # Errors
    /// A sentence, if there is none with these parameters.
    pub(super) fn build(&self) -> Result<ClientRequest, String> {
        let mut params = self.params.clone();
        if let (false, Value::Object(params)) = (self.meta.0.0.is_empty(), &mut params) {
            params.insert("_meta".to_owned(), json!(self.meta));
        }
        let request = json!({"method": self.method.name(), "params": params});
        serde_json::from_value(request).map_err(|error| format!("cannot send the request: {error}"))
    }

    /// Returns the result in the form of the protocol; parts that cannot be read are described.
    pub(super) fn normalize(&self, result: Value, options: &RemoteOptions) -> Option<Value> {
        let Value::Object(mut result) = result else { return None };
        match self.method {
            LibraryMethod::Read => result::normalize_read(result, self.text("/uri"), options.app_origins()),
            LibraryMethod::Get => result::normalize_messages(result, options.app_origins()),
            LibraryMethod::Complete => {
                result.retain(|member, _| ["completion", "_meta"].contains(&member.as_str()));
                retain_passed_metadata(&mut result, None);
                result.contains_key("completion").then_some(Value::Object(result))
            }
        }
    }
}
