//! Requests of a server to the clients of its calls: which are allowed, and what is passed on.

#![expect(deprecated, reason = "servers of the revisions before the newest ask for samples")]

use std::sync::Arc;

use fumehood_core::call::client_requests::ClientRequestKind;
use fumehood_core::call::result::CallError;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::sanitize::printable_value;
use fumehood_core::tool::name::Namespace;
use fumehood_transport::Url;
use futures_util::future::try_join_all;
use rmcp::model::{
    ClientCapabilities, CreateMessageRequest, ElicitRequest, ElicitResult, ElicitationCapability, ErrorCode, ErrorData,
    FormElicitationCapability, InputRequest, InputRequiredResult, InputResponses, JsonObject, SamplingCapability,
    UrlElicitationCapability,
};
use serde_json::{Value, json};

use super::call_client::CallClient;
use super::call_error;
use crate::apps;

/// Maximum size of a question to a user, and of the answer, in bytes.
const MAX_QUESTION_BYTES: usize = 64 << 10;
/// Maximum size of a request to a model, in bytes.
const MAX_SAMPLING_BYTES: usize = 1 << 20;
/// Maximum number of tokens that a server may ask of a model at once.
const MAX_SAMPLING_TOKENS: u64 = 8192;
const TOO_LARGE: &str = "the server's request is too large to be forwarded";

/// The requests of a server to clients that the operator allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerRequestPolicy {
    /// True if it may ask users for input.
    pub elicitation: bool,
    /// True if it may use the models of clients.
    pub sampling: bool,
    /// True if its tools may show pages to clients that have MCP Apps.
    pub apps: bool,
}

/// The rules for the requests of a server.
pub(crate) struct ServerRequests {
    server: Namespace,
    policy: ServerRequestPolicy,
    redactor: Option<Redactor>,
}

impl ServerRequests {
    pub(crate) fn new(server: Namespace, policy: ServerRequestPolicy, redactor: Option<Redactor>) -> Arc<Self> {
        Arc::new(Self { server, policy, redactor })
    }

    /// Returns the capabilities of the client that the server connects to.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.policy.elicitation {
            let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::new()));
        }
        if self.policy.sampling {
            let mut sampling = SamplingCapability::default();
            sampling.tools = Some(JsonObject::new());
            capabilities.sampling = Some(sampling);
        }
        if self.policy.apps {
            capabilities.extensions.get_or_insert_default().insert(apps::EXTENSION.to_owned(), apps::capability());
        }
        capabilities
    }

    /// Passes a request of the server on to the client whose call it belongs to, if that is known.
    pub(crate) async fn pass_on(
        &self,
        kind: ClientRequestKind,
        params: Value,
        client: Result<CallClient, &'static str>,
    ) -> Result<Value, ErrorData> {
        // One that was not offered does not exist.
        self.check_policy(kind).map_err(|why| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None))?;
        let client = client.map_err(|why| ErrorData::invalid_request(why, None))?;
        self.ask(kind, params, &client).await.map_err(|why| ErrorData::invalid_request(why, None))
    }

    /// Answers everything that a server of the newest revision needs before a call can go on.
    ///
    /// # Errors
    /// If something is not allowed or cannot be answered.
    pub(crate) async fn answer_inputs(
        &self,
        needed: InputRequiredResult,
        client: &CallClient,
    ) -> Result<(InputResponses, Option<String>), CallError> {
        // At once, so that a client of the newest revision gets all of them with one answer.
        let asking = needed.input_requests.unwrap_or_default().into_iter().map(async |(key, request)| {
            let answer = self.answer_input(request, client).await;
            answer.map(|answer| (key, answer)).map_err(call_error::from_refused_input)
        });
        let answers = try_join_all(asking).await?.into_iter().collect();
        Ok((answers, needed.request_state))
    }

    async fn answer_input(&self, request: InputRequest, client: &CallClient) -> Result<Value, String> {
        let (kind, params) = match request {
            InputRequest::Elicitation(ElicitRequest { params, .. }) => {
                (ClientRequestKind::Elicitation, serde_json::to_value(params))
            }
            InputRequest::CreateMessage(CreateMessageRequest { params, .. }) => {
                (ClientRequestKind::Sampling, serde_json::to_value(params))
            }
            _ => return Err("the server sent a request that is not forwarded".to_owned()),
        };
        self.ask(kind, params.map_err(|error| error.to_string())?, client).await
    }

    fn check_policy(&self, kind: ClientRequestKind) -> Result<(), String> {
        let server = &self.server;
        match kind {
            ClientRequestKind::Elicitation if !self.policy.elicitation => {
                Err(format!("the operator does not allow the server `{server}` to ask users"))
            }
            ClientRequestKind::Sampling if !self.policy.sampling => {
                Err(format!("the operator does not allow the server `{server}` to use the models of clients"))
            }
            _ => Ok(()),
        }
    }

    async fn ask(&self, kind: ClientRequestKind, params: Value, client: &CallClient) -> Result<Value, String> {
        self.check_policy(kind)?;
        let params = self.prepare(kind, params)?;
        let answer = client.ask(kind, params).await?;
        match kind {
            ClientRequestKind::Elicitation => check_answer(answer),
            ClientRequestKind::Sampling => Ok(answer),
        }
    }

    /// Returns the parameters as they are passed on: bounded, redacted, sanitized, and with the name of the server.
    fn prepare(&self, kind: ClientRequestKind, params: Value) -> Result<Value, String> {
        let max = match kind {
            ClientRequestKind::Elicitation => MAX_QUESTION_BYTES,
            ClientRequestKind::Sampling => MAX_SAMPLING_BYTES,
        };
        if params.to_string().len() > max {
            return Err(TOO_LARGE.to_owned());
        }
        let mut params = params;
        if let Some(redactor) = &self.redactor {
            redactor.redact_value(&mut params);
        }
        let Value::Object(mut params) = printable_value(&params).0.into_owned() else {
            return Err("the server's request is malformed".to_owned());
        };
        params.remove("_meta");
        match kind {
            ClientRequestKind::Elicitation => {
                check_url(&params)?;
                let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
                let message = format!("{} asks: {message}", self.server);
                params.insert("message".to_owned(), message.into());
            }
            ClientRequestKind::Sampling => {
                let tokens = params.get("maxTokens").and_then(Value::as_u64).unwrap_or(MAX_SAMPLING_TOKENS);
                params.insert("maxTokens".to_owned(), tokens.min(MAX_SAMPLING_TOKENS).into());
                // What other servers told the client is none of this one's business.
                params.insert("includeContext".to_owned(), "none".into());
            }
        }
        Ok(Value::Object(params))
    }
}

/// Checks the address that a user is sent to.
fn check_url(params: &JsonObject) -> Result<(), String> {
    if params.get("mode").and_then(Value::as_str) != Some("url") {
        return Ok(());
    }
    let url = params.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
    let is_plain = |url: &Url| matches!(url.scheme(), "http" | "https") && url.username().is_empty();
    if url.filter(is_plain).is_some_and(|url| url.password().is_none()) {
        Ok(())
    } else {
        Err("the server's URL for the user is not a web page".to_owned())
    }
}

/// Checks the answer of a user.
fn check_answer(answer: Value) -> Result<Value, String> {
    if answer.to_string().len() > MAX_QUESTION_BYTES {
        return Err("the client's answer is too large to be forwarded".to_owned());
    }
    let unreadable = |error: serde_json::Error| format!("malformed answer of the client: {error}");
    let ElicitResult { action, content, .. } = serde_json::from_value(answer).map_err(unreadable)?;
    let mut checked = json!({ "action": action });
    if let (Some(content), Value::Object(checked)) = (content, &mut checked) {
        checked.insert("content".to_owned(), content);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(policy: ServerRequestPolicy) -> Arc<ServerRequests> {
        let redactor = Redactor::from_values([("key", "hunter22"), ("pin", "4242424242")]).unwrap();
        ServerRequests::new(Namespace::parse("files").unwrap(), policy, redactor)
    }

    #[test]
    fn a_question_names_its_server_and_hides_nothing() {
        let requests = requests(ServerRequestPolicy::default());
        let prepared = requests.prepare(
            ClientRequestKind::Elicitation,
            json!({
                "message": "Is it hunter22\u{200b}?",
                "requestedSchema": {"type": "object", "properties": {"hunter22": {"maximum": 4242424242_u64}}},
                "_meta": {"a": 1},
            }),
        );
        let prepared = prepared.unwrap();
        let properties = json!({"[secret key]": {"maximum": "[secret pin]"}});
        assert_eq!(prepared["requestedSchema"], json!({"type": "object", "properties": properties}));
        let message = prepared["message"].as_str().unwrap();
        assert!(message.starts_with("files asks: Is it ") && message.ends_with("\\u{200b}?"), "{message}");
        assert!(!message.contains("hunter22") && prepared.get("_meta").is_none(), "{prepared}");
        let long = json!({"message": "x".repeat(70_000)});
        assert_eq!(requests.prepare(ClientRequestKind::Elicitation, long), Err(TOO_LARGE.to_owned()));
        for (url, is_accepted) in [
            ("https://example.com/login?x=1", true),
            ("javascript:alert(1)", false),
            ("file:///etc/passwd", false),
            ("https://bank.example@evil.example/", false),
        ] {
            let prepared = requests.prepare(ClientRequestKind::Elicitation, json!({"mode": "url", "url": url}));
            assert_eq!(prepared.is_ok(), is_accepted, "{url}");
        }
    }

    #[test]
    fn sampling_is_bounded_and_sees_no_other_server() {
        let requests = requests(ServerRequestPolicy::default());
        let asked = json!({"messages": [], "maxTokens": 1_000_000, "includeContext": "allServers"});
        let prepared = requests.prepare(ClientRequestKind::Sampling, asked).unwrap();
        assert_eq!((&prepared["maxTokens"], &prepared["includeContext"]), (&json!(8192), &json!("none")));
        assert!(requests.check_policy(ClientRequestKind::Sampling).unwrap_err().contains("`files`"));
        assert_eq!(requests.capabilities(), ClientCapabilities::default());
        let all = ServerRequestPolicy { elicitation: true, sampling: true, apps: true };
        let offered = self::requests(all).capabilities();
        assert!(offered.elicitation.is_some() && offered.sampling.is_some() && offered.extensions.is_some());
    }

    #[test]
    fn an_answer_has_an_action_and_perhaps_content() {
        let answer = json!({"action": "accept", "content": {"a": 1}});
        assert_eq!(check_answer(answer.clone()), Ok(answer));
        assert_eq!(check_answer(json!({"action": "decline"})), Ok(json!({"action": "decline"})));
        assert!(check_answer(json!({"content": {}})).is_err());
    }
}
