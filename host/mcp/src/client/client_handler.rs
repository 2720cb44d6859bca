//! Answers to requests of a server to its client.

#![expect(deprecated, reason = "servers of the revisions before the newest may still ask for roots")]

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCreateRequestMethod,
    Implementation, ListRootsRequestMethod, ListRootsResult,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

/// A handler that answers `ping` and rejects every other request. The client offers neither sampling, nor elicitation,
/// nor roots, and advertises none of them: each would be power that the operator has not
/// granted to the server.
pub(crate) struct ServerRequestHandler;

impl ClientHandler for ServerRequestHandler {
    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("fumehood", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), this)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::method_not_found::<ElicitationCreateRequestMethod>())
    }
}
