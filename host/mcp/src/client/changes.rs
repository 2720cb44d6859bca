//! News of changed tools from servers of the newest revision, which tell only those that asked for it.

use rmcp::model::{ServerPeerInfo, SubscriptionFilter};
use rmcp::service::Peer;
use rmcp::{RoleClient, model::ProtocolVersion};
use tokio_util::sync::CancellationToken;

/// Asks for the news, for as long as the connection is there. What they say is read where all messages are looked at. A
/// server that does not want to tell does not: its tools are looked at again with the next connection.
pub(crate) fn follow(peer: &Peer<RoleClient>, closed: &CancellationToken) {
    if !peer.peer_info().is_some_and(|server| tells_on_request(&server)) {
        return;
    }
    let (peer, closed) = (peer.clone(), closed.clone());
    tokio::spawn(async move {
        let listening = peer.listen(SubscriptionFilter::builder().tools_list_changed().build());
        let Ok(mut news) = listening.await else { return };
        loop {
            tokio::select! {
                () = closed.cancelled() => return,
                told = news.next() => if !matches!(told, Ok(Some(_))) { return },
            }
        }
    });
}

fn tells_on_request(server: &ServerPeerInfo) -> bool {
    let tools = server.capabilities.tools.as_ref();
    server.protocol_version >= ProtocolVersion::V_2026_07_28
        && tools.is_some_and(|tools| tools.list_changed == Some(true))
}
