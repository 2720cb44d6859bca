//! Changes of the tools that a server lists, as it reports them or as a new connection finds them.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, ServerPeerInfo, SubscriptionFilter};
use rmcp::service::Peer;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::remote::Remote;

/// Wait after the first of some notifications: servers often send one for each tool.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Minimum interval between two lists that notifications lead to.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum of that interval.
const MAX_INTERVAL: Duration = Duration::from_secs(30);
/// Lists take at most one part in this number of the time.
const DUTY: u32 = 20;

/// A subscription to the changes of a server's tools. It asks an open connection for a new list when the server sends
/// `notifications/tools/list_changed`, however often that is, at most once a second and for a twentieth of the time.
#[derive(Debug)]
pub struct ListChanges {
    remote: Remote,
    lists: watch::Receiver<u64>,
    /// The time from which another list may be asked for.
    next: Instant,
}

impl ListChanges {
    pub(super) fn new(remote: Remote, lists: watch::Receiver<u64>) -> Self {
        Self { remote, lists, next: Instant::now() }
    }

    /// Waits until the list of tools is another one than before. Dropping the future may lose a notification, which then
    /// takes effect with the next call.
    pub async fn next(&mut self) {
        let announcements = self.remote.announcements();
        loop {
            tokio::select! {
                biased;
                changed = self.lists.changed() => match changed {
                    Ok(()) => return,
                    // The server is kept by this subscription.
                    Err(_closed) => std::future::pending().await,
                },
                () = announcements.notified() => {
                    tokio::time::sleep(DEBOUNCE).await;
                    tokio::time::sleep_until(self.next).await;
                    let started = Instant::now();
                    self.remote.list_if_announced().await;
                    let interval = started.elapsed().saturating_mul(DUTY).clamp(MIN_INTERVAL, MAX_INTERVAL);
                    self.next = started + interval;
                }
            }
        }
    }
}

/// Subscribes to changes of the tools, resources and prompts with `subscriptions/listen` for as long as the connection is
/// open. Servers of the newest revision send these notifications to subscribers only; `MessageTracker` reads them. A
/// server that does not offer them has its tools listed again with the next connection.
pub(super) fn subscribe_to_changes(peer: &Peer<RoleClient>, closed: &CancellationToken) {
    let Some(filter) = peer.peer_info().and_then(|server| offered_changes(&server)) else { return };
    let (peer, closed) = (peer.clone(), closed.clone());
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
