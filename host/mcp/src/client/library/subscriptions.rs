//! Subscriptions of sessions to resources of a server, of which the server has one for each resource.

#![expect(deprecated, reason = "servers of the revisions before the newest take single subscriptions")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rmcp::model::{
    ClientRequest, ProtocolVersion, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequest,
    UnsubscribeRequestParams,
};
use rmcp::service::ServiceError;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::client::connection::Connection;

/// Maximum number of resources of one server that sessions are subscribed to.
const MAX_SUBSCRIPTIONS: usize = 10_000;
/// Maximum number of subscriptions of one principal's sessions to resources of one server.
const MAX_OWNED_SUBSCRIPTIONS: usize = 500;

/// The resources of a server that sessions are subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    /// The connection that has the subscriptions.
    connection: Weak<Connection>,
    by_uri: HashMap<Arc<str>, SubscriptionState>,
    /// The number of subscriptions of each principal.
    owned: HashMap<Arc<str>, usize>,
}

/// The answer of a server to a subscription, which all sessions get.
pub(super) type Outcome = Arc<OnceCell<Result<(), String>>>;

struct SubscriptionState {
    sessions: usize,
    /// Ends the subscription at a server of the newest revision.
    ended: CancellationToken,
    outcome: Outcome,
}

/// A subscription of a session. It ends when this is dropped.
pub(crate) struct ResourceSubscription {
    subscriptions: Arc<Subscriptions>,
    uri: Arc<str>,
    owner: Arc<str>,
    ended: CancellationToken,
    outcome: Outcome,
}

impl ResourceSubscription {
    /// Returns the answer of the server, which is empty before the first session has it.
    pub(super) fn outcome(&self) -> Outcome {
        Arc::clone(&self.outcome)
    }

    /// Returns the token that ends the subscription at a server of the newest revision.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let was_refused = matches!(self.outcome.get(), Some(Err(_)));
        let connection = self.subscriptions.leave(&self.uri, &self.owner).filter(|_| !was_refused);
        let Some(connection) = connection.filter(|connection| !is_newest(connection)) else { return };
        let uri = Arc::clone(&self.uri);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { unsubscribe(&connection, &uri).await });
        }
    }
}

impl Subscriptions {
    fn lock(&self) -> std::sync::MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session of this principal to those that are subscribed.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn join(this: &Arc<Self>, uri: &str, owner: &Arc<str>) -> Result<ResourceSubscription, String> {
        let uri = Arc::<str>::from(uri);
        let (ended, outcome) = this.lock().join(&uri, owner)?;
        let subscriptions = Arc::clone(this);
        let owner = Arc::clone(owner);
        Ok(ResourceSubscription { subscriptions, uri, owner, ended, outcome })
    }

    /// Removes a session. If it was the last one, returns the connection with the subscription.
    fn leave(&self, uri: &str, owner: &str) -> Option<Arc<Connection>> {
        let mut subscribers = self.lock();
        let was_last = subscribers.leave(uri, owner);
        was_last.then(|| subscribers.connection.upgrade()).flatten()
    }

    /// Subscribes to everything again, on a new connection.
    pub(super) fn renew(self: &Arc<Self>, connection: &Arc<Connection>) {
        let mut subscribers = self.lock();
        subscribers.connection = Arc::downgrade(connection);
        let all: Vec<_> =
            subscribers.by_uri.iter().map(|(uri, known)| (Arc::clone(uri), known.ended.clone())).collect();
        drop(subscribers);
        for (uri, ended) in all {
            let connection = Arc::clone(connection);
            tokio::spawn(async move {
                let renewed = subscribe(&connection, &uri, ended.clone()).await;
                // The last session may have left meanwhile.
                if renewed.is_ok() && ended.is_cancelled() && !is_newest(&connection) {
                    unsubscribe(&connection, &uri).await;
                }
            });
        }
    }
}

impl Subscribers {
    fn join(&mut self, uri: &Arc<str>, owner: &Arc<str>) -> Result<(CancellationToken, Outcome), String> {
        if self.owned.get(owner).is_some_and(|owned| *owned >= MAX_OWNED_SUBSCRIPTIONS) {
            let why = "your sessions have the maximum number of subscriptions to resources of this server";
            return Err(format!("{why}, {MAX_OWNED_SUBSCRIPTIONS}; unsubscribe from one first"));
        }
        if !self.by_uri.contains_key(uri) && self.by_uri.len() >= MAX_SUBSCRIPTIONS {
            return Err(format!("there are already {MAX_SUBSCRIPTIONS} subscriptions to resources of this server"));
        }
        let known = self.by_uri.entry(Arc::clone(uri)).or_insert_with(|| SubscriptionState {
            sessions: 0,
            ended: CancellationToken::new(),
            outcome: Outcome::default(),
        });
        known.sessions += 1;
        *self.owned.entry(Arc::clone(owner)).or_default() += 1;
        Ok((known.ended.clone(), Arc::clone(&known.outcome)))
    }

    fn leave(&mut self, uri: &str, owner: &str) -> bool {
        if let Some(owned) = self.owned.get_mut(owner) {
            *owned = owned.saturating_sub(1);
            if *owned == 0 {
                self.owned.remove(owner);
            }
        }
        let Some(known) = self.by_uri.get_mut(uri) else { return false };
        known.sessions = known.sessions.saturating_sub(1);
        if known.sessions > 0 {
            return false;
        }
        known.ended.cancel();
        self.by_uri.remove(uri);
        true
    }
}

fn is_newest(connection: &Connection) -> bool {
    connection.peer().peer_info().is_some_and(|server| server.protocol_version >= ProtocolVersion::V_2026_07_28)
}

/// Ends a subscription at a server of the revisions before the newest.
async fn unsubscribe(connection: &Connection, uri: &str) {
    let request = UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri));
    let _gone = connection.peer().send_request(ClientRequest::UnsubscribeRequest(request)).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn note_uri(n: usize) -> Arc<str> {
        Arc::<str>::from(format!("note://{n}"))
    }

    #[test]
    fn one_principal_leaves_room_for_others() {
        let mut subscribers = Subscribers::default();
        let [ann, bob] = [Arc::<str>::from("ann"), Arc::from("bob")];
        for n in 0..MAX_OWNED_SUBSCRIPTIONS {
            subscribers.join(&note_uri(n), &ann).unwrap();
        }
        assert!(subscribers.join(&note_uri(0), &ann).unwrap_err().contains("unsubscribe"));
        let (ended, outcome) = subscribers.join(&note_uri(0), &bob).unwrap();
        outcome.set(Err("no".to_owned())).unwrap();
        assert!(!subscribers.leave(&note_uri(0), &ann));
        let (_, again) = subscribers.join(&note_uri(0), &ann).unwrap();
        assert_eq!(again.get(), Some(&Err("no".to_owned())), "those who join later get the same answer");
        assert!(!subscribers.leave(&note_uri(0), &ann) && subscribers.leave(&note_uri(0), &bob));
        assert!(ended.is_cancelled());
        let (_, new) = subscribers.join(&note_uri(0), &bob).unwrap();
        assert_eq!(new.get(), None, "after the last one, the server is asked again");
    }
}
