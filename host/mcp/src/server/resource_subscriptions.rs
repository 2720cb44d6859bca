//! The subscriptions of a session to resources of servers, and the notifications that follow from them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::tool::name::Namespace;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::mcp_server::Server;
use super::served_library::answers;
use crate::client::{LibraryMethod, RemoteLibrary, ResourceSubscription};

/// Maximum number of resources that one session is subscribed to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 100;

/// The resources that a session is subscribed to.
#[derive(Default)]
pub(super) struct ResourceSubscriptions(Mutex<HashMap<Key, Subscription>>);

/// A server, and the URI of a resource of it.
type Key = (Namespace, String);

/// A subscription, or the place of one that the server was asked for.
#[derive(Default)]
struct Subscription {
    /// The number of requests that are under way.
    requests: usize,
    active: Option<ResourceSubscription>,
}

/// A request for a subscription. When this is dropped, its place is free again, unless it became a subscription.
struct Reservation<'a> {
    subscriptions: &'a ResourceSubscriptions,
    key: Key,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut known = self.subscriptions.lock();
        let Some(subscription) = known.get_mut(&self.key) else { return };
        subscription.requests = subscription.requests.saturating_sub(1);
        if subscription.requests == 0 && subscription.active.is_none() {
            known.remove(&self.key);
        }
    }
}

impl ResourceSubscriptions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a resource of a server, for this principal.
    pub(super) async fn subscribe(
        &self,
        library: &RemoteLibrary,
        uri: &str,
        owner: &Arc<str>,
    ) -> Result<(), ErrorData> {
        let place = self.reserve((library.name().clone(), uri.to_owned()))?;
        // Rare, and larger than what any other request of a client waits for.
        let subscribing = Box::pin(library.subscribe(uri, owner));
        let subscription = subscribing.await.map_err(|why| ErrorData::internal_error(why, None))?;
        let replaced = self.lock().get_mut(&place.key).and_then(|it| it.active.replace(subscription));
        // It ends outside of the lock.
        drop(replaced);
        Ok(())
    }

    /// Takes the place of a subscription.
    fn reserve(&self, key: Key) -> Result<Reservation<'_>, ErrorData> {
        let mut known = self.lock();
        if known.len() >= MAX_SUBSCRIPTIONS && !known.contains_key(&key) {
            let why = format!("a session can subscribe to {MAX_SUBSCRIPTIONS} resources; unsubscribe from one first");
            return Err(ErrorData::invalid_request(why, None));
        }
        known.entry(key.clone()).or_default().requests += 1;
        Ok(Reservation { subscriptions: self, key })
    }

    /// Ends a subscription, if there is one.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let ended: Vec<_> = self.lock().extract_if(|(_, known), _| known == uri).collect();
        // They end outside of the lock.
        drop(ended);
    }

    fn contains(&self, server: &Namespace, uri: &str) -> bool {
        let key = (server.clone(), uri.to_owned());
        self.lock().get(&key).is_some_and(|subscription| subscription.active.is_some())
    }
}

/// The recipient of notifications about resources and prompts.
#[derive(Clone)]
pub(super) enum Recipient {
    /// The client of a session.
    Session(Peer<RoleServer>),
    /// A subscription of a client without a session.
    Subscription(SubscriptionSink),
}

impl Recipient {
    async fn resources_changed(&self) -> bool {
        match self {
            Self::Session(peer) => peer.notify_resource_list_changed().await.is_ok(),
            Self::Subscription(sink) => sink.notify_resource_list_changed().await.is_ok(),
        }
    }

    async fn prompts_changed(&self) -> bool {
        match self {
            Self::Session(peer) => peer.notify_prompt_list_changed().await.is_ok(),
            Self::Subscription(sink) => sink.notify_prompt_list_changed().await.is_ok(),
        }
    }

    async fn resource_updated(&self, uri: &str) -> bool {
        match self {
            Self::Session(peer) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok()
            }
            Self::Subscription(sink) => sink.notify_resource_updated(uri).await.is_ok(),
        }
    }
}

/// Passes the changes of a library on until the client is gone, as far as the server's tools include it.
pub(super) fn pass_on_changes(
    server: &Server,
    library: &RemoteLibrary,
    subscriptions: Arc<ResourceSubscriptions>,
    recipient: Recipient,
    closed: CancellationToken,
) {
    let events = library.events();
    let mut resources = events.subscribe_to_resources();
    let mut prompts = events.subscribe_to_prompts();
    let mut updates = events.subscribe_to_updates();
    let server = server.clone();
    let library = library.clone();
    tokio::spawn(async move {
        let has = |method| answers(&server, &library, method);
        loop {
            let is_there = tokio::select! {
                () = closed.cancelled() => return,
                change = resources.next() => match change {
                    Some(_) => !has(LibraryMethod::Read) || recipient.resources_changed().await,
                    None => false,
                },
                change = prompts.next() => match change {
                    Some(_) => !has(LibraryMethod::Get) || recipient.prompts_changed().await,
                    None => false,
                },
                updated = updates.recv() => match updated {
                    Ok(uri) if subscriptions.contains(library.name(), &uri) && has(LibraryMethod::Read) => {
                        recipient.resource_updated(&uri).await
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => false,
                },
            };
            if !is_there {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_before_the_server_is_asked() {
        let subscriptions = ResourceSubscriptions::default();
        let server = Namespace::parse("files").unwrap();
        let reserve = |n: usize| subscriptions.reserve((server.clone(), format!("note://{n}")));
        let places: Vec<_> = (0..MAX_SUBSCRIPTIONS).map(|n| reserve(n).unwrap()).collect();
        assert!(reserve(MAX_SUBSCRIPTIONS).is_err());
        drop(reserve(0).unwrap());
        assert!(reserve(MAX_SUBSCRIPTIONS).is_err(), "another request for the same resource is under way");
        assert!(!subscriptions.contains(&server, "note://0"), "a place is no subscription yet");
        drop(places);
        assert!(subscriptions.lock().is_empty() && reserve(MAX_SUBSCRIPTIONS).is_ok());
    }
}
