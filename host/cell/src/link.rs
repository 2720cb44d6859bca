//! The connection of a gateway or worker to NATS: signed messages and those of sessions, without a queue that can grow.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Subscriber};
use bytes::Bytes;
use fumehood_core::log;
use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::unconstrained;

use crate::error::CellError;
use crate::identity::{Envelope, Frame, FrameError, NodeKey, NodePublicKey, Role, Session, open, seal};

/// Maximum number of messages that wait to be sent. Further ones are dropped, as a network does.
const MAX_OUTBOX: usize = 4096;
/// Maximum number of received messages that wait to be read.
const MAX_INBOX: usize = 16 * 1024;
/// Maximum time between two attempts to reach the server again.
const MAX_RECONNECT_DELAY: Duration = Duration::from_millis(250);
/// Time between two signs of life to the server.
const PING_EVERY: Duration = Duration::from_secs(2);
/// Maximum length of a node's name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Bytes of a message that its header and signature may take beyond its body.
const MAX_OVERHEAD_BYTES: usize = 8 * 1024;

/// The way to the NATS server.
#[derive(Clone)]
pub struct ServerOptions {
    /// The URL of the server, such as `tls://nats.example:4222`.
    pub nats: String,
    /// The first part of every subject, and of the names of buckets.
    pub prefix: String,
    /// The name of this gateway or worker: letters, digits, `-` and `_`.
    pub name: String,
    /// User and password for the server.
    pub password: Option<(String, String)>,
    /// A file of certificates that vouch for the server, in PEM, instead of those of the system.
    pub tls_roots: Option<PathBuf>,
    /// The files of a certificate and its private key for the server, in PEM.
    pub tls_identity: Option<(PathBuf, PathBuf)>,
}

/// The way to the NATS server, and the identity in the cell.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The way to the server.
    pub server: ServerOptions,
    /// The private key of this gateway or worker.
    pub key: Arc<NodeKey>,
    /// The names and public keys of those that messages are accepted from.
    pub peers: BTreeMap<String, NodePublicKey>,
}

impl fmt::Debug for ServerOptions {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nats, prefix, name, password: _, tls_roots, tls_identity } = self;
        let mut shown = f.debug_struct("ServerOptions");
        shown.field("nats", nats).field("prefix", prefix).field("name", name);
        shown.field("tls_roots", tls_roots).field("tls_identity", tls_identity).finish_non_exhaustive()
    }
}

impl ServerOptions {
    /// Connects, and logs in.
    ///
    /// # Errors
    /// If the name is invalid, or the server cannot be reached.
    pub(crate) async fn connect(&self) -> Result<Client, CellError> {
        for name in [&self.name, &self.prefix] {
            if !is_node_name(name) {
                return Err(CellError::Name(name.clone()));
            }
        }
        let mut connect = ConnectOptions::new()
            .name(format!("fumehood {}", self.name))
            // Replies are for this node alone, which permissions of the server can hold.
            .custom_inbox_prefix(format!("{}.inbox.{}", self.prefix, self.name))
            .ping_interval(PING_EVERY)
            .subscription_capacity(MAX_INBOX)
            .client_capacity(MAX_OUTBOX)
            .reconnect_delay_callback(|attempts| {
                let factor = u32::try_from(attempts).unwrap_or(u32::MAX);
                Duration::from_millis(20).saturating_mul(factor).min(MAX_RECONNECT_DELAY)
            })
            .require_tls(self.nats.starts_with("tls:"))
            .event_callback(|event| async move {
                let is_fault = !matches!(event, Event::Connected | Event::Closed);
                log::emit_cell_connection(event, is_fault);
            });
        if let Some((user, password)) = &self.password {
            connect = connect.user_and_password(user.clone(), password.clone());
        }
        if let Some(file) = &self.tls_roots {
            connect = connect.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.tls_identity {
            connect = connect.add_client_certificate(certificate.clone(), key.clone());
        }
        let failed = |source| CellError::Connect { url: self.nats.clone(), source };
        connect.connect(self.nats.as_str()).await.map_err(failed)
    }
}

/// Returns whether a text can be the name of a gateway or worker, or the first part of subjects.
#[must_use]
pub fn is_node_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain)
}

/// A connection to the NATS server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    options: Arc<NodeOptions>,
}

impl Link {
    /// Connects, and logs in.
    ///
    /// # Errors
    /// If the name is invalid, or the server cannot be reached.
    pub(crate) async fn connect(options: NodeOptions) -> Result<Self, CellError> {
        if let Some(name) = options.peers.keys().find(|name| !is_node_name(name)) {
            return Err(CellError::Name(name.clone()));
        }
        let client = options.server.connect().await?;
        Ok(Self { client, options: Arc::new(options) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.options.server.name
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns the maximum size of a body, in bytes.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.client.max_payload().saturating_sub(MAX_OVERHEAD_BYTES)
    }

    /// Subscribes to a subject under the prefix.
    ///
    /// # Errors
    /// If the connection is closed.
    pub(crate) async fn subscribe(&self, subject: &str) -> Result<Subscriber, CellError> {
        let subject = format!("{}.{subject}", self.options.server.prefix);
        let subscribed = self.client.subscribe(subject).await.map_err(|_| CellError::Closed)?;
        // So that the server knows of it before anybody is told of this node.
        self.client.flush().await.map_err(|_| CellError::Closed)?;
        Ok(subscribed)
    }

    /// Returns the connection, for messages that are none of the protocol.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn key(&self) -> &NodeKey {
        &self.options.key
    }

    /// Returns the public key of another node.
    pub(crate) fn key_of(&self, name: &str) -> Option<NodePublicKey> {
        self.options.peers.get(name).copied()
    }

    /// Returns the name of the cell: the first part of its subjects.
    pub(crate) fn cell(&self) -> &str {
        &self.options.server.prefix
    }

    /// Signs a message, and sends it. Returns whether it will be sent.
    pub(crate) fn send<M: Serialize>(&self, role: Role, subject: &str, to: &str, message: M, body: &[u8]) -> bool {
        let envelope = Envelope { from: self.options.server.name.clone(), to: to.to_owned(), message };
        match seal(&self.options.key, role, &envelope, body) {
            Ok(sealed) => self.publish(subject, sealed),
            Err(error) => {
                tracing::error!(target: "fumehood::cell", "a message was not sent: {error}");
                false
            }
        }
    }

    /// Sends a message in a session. Returns whether it will be sent.
    pub(crate) fn send_in<M: Serialize>(&self, session: &Session, subject: &str, message: &M, body: &[u8]) -> bool {
        match session.seal(message, body) {
            Ok(sealed) => self.publish(subject, sealed),
            Err(error) => {
                tracing::error!(target: "fumehood::cell", "a message was not sent: {error}");
                false
            }
        }
    }

    /// Hands a message to the connection, which writes all that wait at once. One that finds no room is dropped, as a network
    /// does, and so is one without a connection: late messages would be old news.
    fn publish(&self, subject: &str, bytes: Vec<u8>) -> bool {
        let subject = format!("{}.{subject}", self.options.server.prefix);
        if !self.is_connected() {
            return false;
        }
        // Unconstrained, because a task that has done much would be told that there is no room.
        let sent = unconstrained(self.client.publish(subject, Bytes::from(bytes))).now_or_never();
        matches!(sent, Some(Ok(())))
    }

    /// Verifies a message, and that it is for this node or for all.
    ///
    /// # Errors
    /// If it is none that this node may act upon.
    pub(crate) fn open<'a, M: DeserializeOwned>(
        &self,
        bytes: &'a [u8],
        role: Role,
    ) -> Result<Frame<'a, M>, FrameError> {
        let frame = open::<M>(bytes, role, |name| self.options.peers.get(name).copied())?;
        if role != Role::Announcer && frame.envelope.to != self.options.server.name {
            return Err(FrameError::Receiver(frame.envelope.from));
        }
        Ok(frame)
    }

    /// Waits until everything that was sent has left.
    pub(crate) async fn flush(&self) {
        if self.is_connected() {
            let _closed = self.client.flush().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_tokens_of_subjects() {
        assert!(is_node_name("worker-1_a"));
        for name in ["", "a.b", "a b", ">", "*", "ä", &"a".repeat(65)] {
            assert!(!is_node_name(name), "{name}");
        }
    }
}
