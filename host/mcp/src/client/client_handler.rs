//! Answers to requests of a server to its client.

#![expect(deprecated, reason = "servers of the revisions before the newest ask for samples and roots")]

use std::sync::Arc;

use fumehood_core::call::client_requests::ClientRequestKind;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult, ElicitRequestParams,
    ElicitResult, ErrorCode, Implementation, ListRootsRequestMethod, ListRootsResult,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::message_tracker::MessageTracker;
use super::server_requests::ServerRequests;

/// A handler that answers `ping`, passes questions and samples on to the client of a call where the operator allows it,
/// and rejects every other request. Roots are not offered: they are power that the operator has not granted to the server.
pub(crate) struct ServerRequestHandler {
    requests: Arc<ServerRequests>,
    tracker: Arc<MessageTracker>,
}

impl ServerRequestHandler {
    pub(crate) fn new(requests: Arc<ServerRequests>, tracker: Arc<MessageTracker>) -> Self {
        Self { requests, tracker }
    }

    async fn pass_on(
        &self,
        kind: ClientRequestKind,
        params: Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        let origin = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
            _ => None,
        };
        let passed = self.requests.pass_on(kind, params, self.tracker.client_of(origin));
        tokio::select! {
            answer = passed => answer,
            () = context.ct.cancelled() => Err(ErrorData::invalid_request("the server cancelled its request", None)),
        }
    }

    /// Like [`Self::pass_on`], for parameters and results that rmcp knows.
    async fn pass_on_typed<P: Serialize, T: DeserializeOwned>(
        &self,
        kind: ClientRequestKind,
        params: P,
        context: &RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let unreadable = |error: serde_json::Error| ErrorData::invalid_params(error.to_string(), None);
        let params = serde_json::to_value(params).map_err(unreadable)?;
        let answer = self.pass_on(kind, params, context).await?;
        serde_json::from_value(answer)
            .map_err(|error| ErrorData::internal_error(format!("malformed answer of the client: {error}"), None))
    }
}

impl ClientHandler for ServerRequestHandler {
    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("fumehood", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.requests.capabilities(), this)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.pass_on_typed(ClientRequestKind::Elicitation, request, &context).await
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.pass_on_typed(ClientRequestKind::Sampling, request, &context).await
    }

    /// Answers requests that rmcp could not parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        match ClientRequestKind::from_method(&request.method) {
            Some(kind) => {
                let params = request.params.unwrap_or_default();
                self.pass_on(kind, params, &context).await.map(CustomResult::new)
            }
            None => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }
}
