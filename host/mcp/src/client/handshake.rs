//! The handshake with a server, and the subscription to its changes after it.

use std::sync::Arc;

use rmcp::model::{ProtocolVersion, ServerPeerInfo, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, Peer, RunningService};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tokio_util::sync::CancellationToken;

use super::client_handler::ServerRequestHandler;
use super::inspecting_transport::InspectingTransport;
use super::message_tracker::MessageTracker;
use super::server_requests::ServerRequests;

/// Returns the order of revisions to try: the newest first, and the one before it for servers that do not support that.
pub(super) fn lifecycle_mode() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// Completes the handshake, and subscribes to changes.
pub(super) async fn handshake<T: Transport<RoleClient> + 'static>(
    transport: T,
    tracker: &Arc<MessageTracker>,
    requests: &Arc<ServerRequests>,
    closed: &CancellationToken,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, ServerRequestHandler>, ClientInitializeError> {
    let transport = InspectingTransport::new(transport, Arc::clone(tracker), closed.clone());
    let handler = ServerRequestHandler::new(Arc::clone(requests), Arc::clone(tracker));
    let service = handler.serve_with_lifecycle(transport, lifecycle).await?;
    subscribe_to_changes(service.peer(), closed);
    Ok(service)
}

/// Subscribes to changes of the tools, resources and prompts with `subscriptions/listen` for as long as the connection is
/// open. Servers of the newest revision send these notifications to subscribers only; [`MessageTracker`] reads them. A
/// server that does not offer them has its tools listed again with the next connection.
fn subscribe_to_changes(peer: &Peer<RoleClient>, closed: &CancellationToken) {
    let Some(filter) = peer.peer_info().and_then(|server| offered_changes(&server)) else { return };
    let peer = peer.clone();
    let closed = closed.clone();
    tokio::spawn(async move {
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        loop {
            tokio::select! {
                () = closed.cancelled() => return,
                event = subscription.next() => if !matches!(event, Ok(Some(_))) { return },
            }
        }
    });
}

/// Returns the changes that a server of the newest revision reports to subscribers.
fn offered_changes(server: &ServerPeerInfo) -> Option<SubscriptionFilter> {
    let capabilities = &server.capabilities;
    let mut wanted = SubscriptionFilter::builder().tools_list_changed().build();
    wanted.prompts_list_changed = Some(true);
    wanted.resources_list_changed = Some(true);
    let offered = wanted.supported_by(capabilities);
    let is_newest = server.protocol_version >= ProtocolVersion::V_2026_07_28;
    (is_newest && offered != SubscriptionFilter::default()).then_some(offered)
}
