//! What a server may ask of its client: whether it is there, and nothing else.

#![expect(deprecated, reason = "servers of the revisions before the newest may still ask for roots")]

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCreateRequestMethod,
    Implementation, ListRootsRequestMethod, ListRootsResult,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

/// Hears what a server asks. It offers neither the model, nor the person in front of it, nor folders, and says so: what a
/// server is told here would be power that nobody granted it.
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
