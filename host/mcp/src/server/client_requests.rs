//! Requests of servers to the client of a session: questions to its user, and samples of its model.

use std::sync::atomic::{AtomicU64, Ordering};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::client_requests::{ClientRequestKind, ClientRequests};
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientResult, CustomRequest, CustomResult, GetExtensions as _, RequestId, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, ServiceError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::call_request::is_stateless;
use super::running_call::QuestionSender;
use crate::transport::in_flight::InFlightRequest;

const NO_ELICITATION: &str = "the client cannot ask its user: it does not declare `elicitation`";
const NO_URLS: &str = "the client cannot send its user to a web page: it does not declare `elicitation` with `url`";
const NO_FORMS: &str = "the client cannot show its user a form: it declares `elicitation` with `url` only";
const NO_SAMPLING: &str = "the client offers no model: it does not declare `sampling`";
const NO_SAMPLING_TOOLS: &str = "the client offers no model with tools: it does not declare `sampling` with `tools`";
const NOT_IN_REVISION: &str =
    "the client uses a revision that allows requests to it only during calls, prompts and resources";

/// Returns a number that no other session has.
pub(super) fn next_session() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The way of a request to a client.
pub(super) enum ClientPath {
    /// On the stream of its call.
    Stream(StreamPath),
    /// In an incomplete result of its call.
    Result(QuestionSender),
    /// There is none.
    Missing,
}

/// The stream of a call.
pub(super) struct StreamPath {
    peer: Peer<RoleServer>,
    request: RequestId,
    /// Cancelled once the client has disconnected.
    closed: CancellationToken,
}

impl StreamPath {
    pub(super) fn new(context: &RequestContext<RoleServer>, closed: CancellationToken) -> Self {
        Self { peer: context.peer.clone(), request: context.id.clone(), closed }
    }

    async fn ask(&self, kind: ClientRequestKind, params: Value) -> Result<Value, String> {
        let mut request = ServerRequest::CustomRequest(CustomRequest::new(kind.method(), Some(params)));
        request.extensions_mut().insert(OriginatingRequestId(self.request.clone()));
        // In a task of its own: in this one, rmcp would replace the mark with the id of the request that the server sent, and the
        // question would leave the stream of the call.
        let peer = self.peer.clone();
        let sending =
            tokio::spawn(async move { peer.send_request_with_option(request, PeerRequestOptions::no_options()).await });
        let sent = sending.await.map_err(|error| format!("cannot send the question: {error}"))?;
        let answer = InFlightRequest::new(sent.map_err(refused)?).answer();
        let answer = self.closed.run_until_cancelled(answer).await.ok_or("the client has disconnected")?;
        match answer.map_err(refused)? {
            ClientResult::CustomResult(CustomResult(value)) => Ok(value),
            answer => serde_json::to_value(answer).map_err(|error| error.to_string()),
        }
    }
}

/// The client of a call.
pub(super) struct SessionClient {
    session: u64,
    capabilities: ClientCapabilities,
    path: ClientPath,
}

impl SessionClient {
    /// Creates the client of a request in the session of this number.
    pub(super) fn new(session: u64, context: &RequestContext<RoleServer>, path: ClientPath) -> Self {
        // Requests without a handshake belong to no session.
        let session = if is_stateless(context) { next_session() } else { session };
        Self { session, capabilities: context.client_capabilities().unwrap_or_default(), path }
    }

    async fn ask(&self, kind: ClientRequestKind, params: Value) -> Result<Value, String> {
        check_capability(&self.capabilities, kind, &params)?;
        match &self.path {
            ClientPath::Stream(stream) => stream.ask(kind, params).await,
            ClientPath::Result(questions) => questions.ask(kind, params).await,
            ClientPath::Missing => Err(NOT_IN_REVISION.to_owned()),
        }
    }
}

impl ClientRequests for SessionClient {
    fn session(&self) -> u64 {
        self.session
    }

    fn send(&self, kind: ClientRequestKind, params: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(self.ask(kind, params))
    }
}

fn refused(error: ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => format!("the client refused: {}", error.message),
        error => format!("the client did not answer: {error}"),
    }
}

/// Checks that the client declares what a request needs.
fn check_capability(
    capabilities: &ClientCapabilities,
    kind: ClientRequestKind,
    params: &Value,
) -> Result<(), &'static str> {
    match kind {
        ClientRequestKind::Elicitation => {
            let declared = capabilities.elicitation.as_ref().ok_or(NO_ELICITATION)?;
            let is_url = params.get("mode").and_then(Value::as_str) == Some("url");
            // One that names neither has forms.
            let has_forms = declared.form.is_some() || declared.url.is_none();
            if is_url && declared.url.is_none() {
                Err(NO_URLS)
            } else if !is_url && !has_forms {
                Err(NO_FORMS)
            } else {
                Ok(())
            }
        }
        ClientRequestKind::Sampling => {
            let declared = capabilities.sampling.as_ref().ok_or(NO_SAMPLING)?;
            let wants_tools = ["tools", "toolChoice"].iter().any(|member| params.get(*member).is_some());
            if wants_tools && declared.tools.is_none() { Err(NO_SAMPLING_TOOLS) } else { Ok(()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_declared(declared: Value, kind: ClientRequestKind, params: Value, expected: Result<(), &str>) {
        let capabilities = serde_json::from_value(declared).unwrap();
        assert_eq!(check_capability(&capabilities, kind, &params), expected, "{capabilities:?} {params}");
    }

    #[test]
    fn a_client_is_asked_for_what_it_declares() {
        let form = json!({"message": "m"});
        let url = json!({"mode": "url", "url": "https://a.example"});
        let elicitation = ClientRequestKind::Elicitation;
        check_declared(json!({}), elicitation, form.clone(), Err(NO_ELICITATION));
        check_declared(json!({"elicitation": {}}), elicitation, form.clone(), Ok(()));
        check_declared(json!({"elicitation": {}}), elicitation, url.clone(), Err(NO_URLS));
        check_declared(json!({"elicitation": {"url": {}}}), elicitation, url, Ok(()));
        check_declared(json!({"elicitation": {"url": {}}}), elicitation, form, Err(NO_FORMS));
        check_declared(json!({}), ClientRequestKind::Sampling, json!({}), Err(NO_SAMPLING));
        check_declared(json!({"sampling": {}}), ClientRequestKind::Sampling, json!({}), Ok(()));
        check_declared(
            json!({"sampling": {}}),
            ClientRequestKind::Sampling,
            json!({"tools": []}),
            Err(NO_SAMPLING_TOOLS),
        );
    }
}
