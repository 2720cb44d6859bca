//! The subscriptions of a session to resources of servers, and the notifications that follow from them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::client::{RemoteLibrary, ResourceSubscription};

/// Maximum number of resources that one session is subscribed to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 100;

/// The resources that a session is subscribed to.
#[derive(Default)]
pub(super) struct ResourceSubscriptions(Mutex<HashMap<String, ResourceSubscription>>);

impl ResourceSubscriptions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ResourceSubscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a resource of a server.
    pub(super) async fn subscribe(&self, library: &RemoteLibrary, uri: &str) -> Result<(), ErrorData> {
        let is_full = |known: &HashMap<String, _>| known.len() >= MAX_SUBSCRIPTIONS && !known.contains_key(uri);
        if is_full(&self.lock()) {
            let why = format!("a session can subscribe to {MAX_SUBSCRIPTIONS} resources; unsubscribe from one first");
            return Err(ErrorData::invalid_request(why, None));
        }
        let subscription = library.subscribe(uri).await.map_err(|why| ErrorData::internal_error(why, None))?;
        self.lock().insert(uri.to_owned(), subscription);
        Ok(())
    }

    /// Ends a subscription, if there is one.
    pub(super) fn unsubscribe(&self, uri: &str) {
        // It ends outside of the lock.
        let _ended = self.lock().remove(uri);
    }

    fn contains(&self, uri: &str) -> bool {
        self.lock().contains_key(uri)
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

/// Passes the changes of a server's library on until the client is gone.
pub(super) fn pass_on_changes(
    library: &RemoteLibrary,
    subscriptions: Arc<ResourceSubscriptions>,
    recipient: Recipient,
    closed: CancellationToken,
) {
    let events = library.events();
    let mut resources = events.subscribe_to_resources();
    let mut prompts = events.subscribe_to_prompts();
    let mut updates = events.subscribe_to_updates();
    tokio::spawn(async move {
        loop {
            let is_there = tokio::select! {
                () = closed.cancelled() => return,
                change = resources.next() => change.is_some() && recipient.resources_changed().await,
                change = prompts.next() => change.is_some() && recipient.prompts_changed().await,
                updated = updates.recv() => match updated {
                    Ok(uri) => !subscriptions.contains(&uri) || recipient.resource_updated(&uri).await,
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => false,
                },
            };
            if !is_there {
                return;
            }
        }
    });
}
