//! Subscriptions of sessions to resources of a server, of which the server has one for each resource.

#![expect(deprecated, reason = "servers of the revisions before the newest take single subscriptions")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientRequest, ProtocolVersion, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequest,
    UnsubscribeRequestParams,
};
use rmcp::service::ServiceError;
use tokio_util::sync::CancellationToken;

use crate::client::connection::Connection;

/// Maximum number of resources of one server that sessions are subscribed to.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// The resources of a server that sessions are subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<HashMap<Arc<str>, Subscribed>>);

struct Subscribed {
    sessions: usize,
    /// Ends the subscription at a server of the newest revision.
    ended: CancellationToken,
}

/// A subscription of a session. It ends when this is dropped.
pub(crate) struct ResourceSubscription {
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) uri: Arc<str>,
    pub(super) connection: std::sync::Weak<Connection>,
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        if !self.subscriptions.leave(&self.uri) {
            return;
        }
        let Some(connection) = self.connection.upgrade().filter(|connection| !is_newest(connection)) else { return };
        let uri = self.uri.to_string();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let request = UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri));
                let _gone = connection.peer().send_request(ClientRequest::UnsubscribeRequest(request)).await;
            });
        }
    }
}

impl Subscriptions {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Subscribed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session to those that are subscribed. Returns a token that ends the subscription if it is the first one.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn join(&self, uri: &Arc<str>) -> Result<Option<CancellationToken>, String> {
        let mut subscribed = self.lock();
        if let Some(known) = subscribed.get_mut(uri) {
            known.sessions += 1;
            return Ok(None);
        }
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            return Err(format!("there are {MAX_SUBSCRIPTIONS} subscriptions to resources of this server already"));
        }
        let ended = CancellationToken::new();
        subscribed.insert(Arc::clone(uri), Subscribed { sessions: 1, ended: ended.clone() });
        Ok(Some(ended))
    }

    /// Removes a session. Returns true if it was the last one.
    fn leave(&self, uri: &str) -> bool {
        let mut subscribed = self.lock();
        let Some(known) = subscribed.get_mut(uri) else { return false };
        known.sessions = known.sessions.saturating_sub(1);
        if known.sessions > 0 {
            return false;
        }
        known.ended.cancel();
        subscribed.remove(uri);
        true
    }

    /// Subscribes to everything again, on a new connection.
    pub(super) fn renew(self: &Arc<Self>, connection: &Arc<Connection>) {
        let all: Vec<_> = self.lock().iter().map(|(uri, known)| (Arc::clone(uri), known.ended.clone())).collect();
        for (uri, ended) in all {
            let connection = Arc::clone(connection);
            tokio::spawn(async move {
                let _gone = subscribe(&connection, &uri, ended).await;
            });
        }
    }
}

fn is_newest(connection: &Connection) -> bool {
    connection.peer().peer_info().is_some_and(|server| server.protocol_version >= ProtocolVersion::V_2026_07_28)
}

/// Subscribes to a resource until `ended` is cancelled.
pub(super) async fn subscribe(
    connection: &Connection,
    uri: &str,
    ended: CancellationToken,
) -> Result<(), ServiceError> {
    if !is_newest(connection) {
        let request = SubscribeRequest::new(SubscribeRequestParams::new(uri));
        return connection.peer().send_request(ClientRequest::SubscribeRequest(request)).await.map(drop);
    }
    let mut filter = SubscriptionFilter::default();
    filter.resource_subscriptions = Some(vec![uri.to_owned()]);
    let mut subscription = connection.peer().listen(filter).await?;
    let closed = connection.closed();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = ended.cancelled() => return,
                () = closed.cancelled() => return,
                event = subscription.next() => if !matches!(event, Ok(Some(_))) { return },
            }
        }
    });
    Ok(())
}
