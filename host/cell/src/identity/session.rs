//! Sessions of a gateway and a worker: keys that both derive from one exchange, and frames with a code under them.
//!
//! The exchange is X25519 with a key of each side that is used once and signed by the node (RFC 7748); the keys are derived with
//! HKDF (RFC 5869), bound to the cell, both names, both public keys, both runs and the direction. A frame has
//!
//! | part | bytes |
//! |---|---|
//! | form: 2 | 1 |
//! | id of the session | 8 |
//! | counter of the sender | 8 |
//! | length of the header, big-endian | 4 |
//! | header: a message, in JSON | as many |
//! | body: arguments or a result | the rest |
//! | HMAC-SHA-256 over all of it (RFC 2104) | 32 |

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::digest::Digest;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keys::NodePublicKey;
use super::replay::ReplayWindow;

/// The first byte of a frame of a session.
pub(crate) const SESSION_FORM: u8 = 2;
/// Bytes before the header.
const PREFIX_BYTES: usize = 21;
const CODE_BYTES: usize = 32;
/// Bytes of a public key of the exchange.
const EXCHANGE_KEY_BYTES: usize = 32;

/// Errors of sessions and their frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SessionError {
    /// The bytes are no frame of a session.
    #[error("a message that is not a frame of a session")]
    Malformed,
    /// There is no such session, or no longer.
    #[error("a message of an unknown session")]
    Unknown,
    /// The code does not match.
    #[error("a message in the session with `{0}` that it has not sent")]
    Code(String),
    /// The frame was received before, or is far older than the newest one.
    #[error("a repeated message from `{0}`")]
    Replayed(String),
    /// The header is not what this version expects.
    #[error("a message with a header that cannot be read or written: {0}")]
    Header(#[source] serde_json::Error),
    /// The exchange of keys failed.
    #[error("a key exchange with `{0}` without a result")]
    Exchange(String),
    /// The system gave no random bytes.
    #[error("the system returned no random bytes for a session")]
    Random,
}

/// The public half of a key of one exchange, written in base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ExchangeKey([u8; EXCHANGE_KEY_BYTES]);

impl ExchangeKey {
    /// Returns a number that tells exchanges apart. It is no secret and proves nothing.
    #[must_use]
    pub(crate) fn nonce(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }
}

impl fmt::Debug for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode(self.0))
    }
}

impl From<ExchangeKey> for String {
    fn from(key: ExchangeKey) -> Self {
        BASE64_STANDARD.encode(key.0)
    }
}

impl TryFrom<String> for ExchangeKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| "a key of an exchange is 32 bytes in base64".to_owned())
    }
}

/// The private half of a key that is used for one exchange.
pub(crate) struct Exchange {
    private: EphemeralPrivateKey,
    public: ExchangeKey,
}

impl fmt::Debug for Exchange {
    /// Leaves out the private half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Generates a key.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn generate() -> Result<Self, SessionError> {
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(|_| SessionError::Random)?;
        let public = private.compute_public_key().map_err(|_| SessionError::Random)?;
        let public = public.as_ref().try_into().map_err(|_| SessionError::Random)?;
        Ok(Self { private, public: ExchangeKey(public) })
    }

    /// Returns the public half.
    #[must_use]
    pub(crate) fn public(&self) -> ExchangeKey {
        self.public
    }
}

/// One of the two nodes of a session.
#[derive(Debug, Clone)]
pub(crate) struct Party {
    /// Its name.
    pub(crate) name: String,
    /// The key that it signs with.
    pub(crate) key: NodePublicKey,
    /// The random number of its run.
    pub(crate) run: u64,
    /// The public half of its key of the exchange.
    pub(crate) exchange: ExchangeKey,
}

/// The side of this node in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It sends calls.
    Gateway,
    /// It runs them.
    Worker,
}

/// A session with another node.
pub(crate) struct Session {
    id: u64,
    peer: Arc<str>,
    peer_run: u64,
    peer_id: Arc<str>,
    seal_key: hmac::Key,
    open_key: hmac::Key,
    sent: AtomicU64,
    received: Mutex<ReplayWindow>,
    is_confirmed: AtomicBool,
    is_retired: AtomicBool,
}

impl fmt::Debug for Session {
    /// Leaves out the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("id", &self.id).field("peer", &self.peer).field("peer_run", &self.peer_run).finish_non_exhaustive()
    }
}

impl Session {
    /// Derives the keys of a session. Both sides must name the same cell, gateway and worker.
    ///
    /// # Errors
    /// If the key of the other side is none.
    pub(crate) fn derive(
        own: Exchange,
        side: Side,
        cell: &str,
        gateway: &Party,
        worker: &Party,
    ) -> Result<Self, SessionError> {
        let peer = if side == Side::Gateway { worker } else { gateway };
        let failed = || SessionError::Exchange(peer.name.clone());
        let transcript = transcript(cell, gateway, worker);
        let other = UnparsedPublicKey::new(&X25519, peer.exchange.0);
        let secret = agree_ephemeral(own.private, &other, |shared| {
            Salt::new(HKDF_SHA256, b"fumehood cell session 1").extract(shared)
        })
        .map_err(|_| failed())?;
        let to_worker = key_of(&secret, &transcript, b"gateway to worker").ok_or_else(failed)?;
        let to_gateway = key_of(&secret, &transcript, b"worker to gateway").ok_or_else(failed)?;
        let (seal_key, open_key) =
            if side == Side::Gateway { (to_worker, to_gateway) } else { (to_gateway, to_worker) };
        Ok(Self {
            id: transcript.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)),
            peer: peer.name.as_str().into(),
            peer_run: peer.run,
            peer_id: format!("{}:{:016x}", peer.name, peer.run).into(),
            seal_key,
            open_key,
            sent: AtomicU64::new(0),
            received: Mutex::default(),
            is_confirmed: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
        })
    }

    /// Returns the id, which is no secret.
    #[must_use]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name of the other node.
    #[must_use]
    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    /// Returns the run of the other node.
    #[must_use]
    pub(crate) fn peer_run(&self) -> u64 {
        self.peer_run
    }

    /// Returns the name and the run of the other node as one text, for telling its runs apart.
    #[must_use]
    pub(crate) fn peer_id(&self) -> &Arc<str> {
        &self.peer_id
    }

    /// Returns whether the other node has the keys, too.
    #[must_use]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Relaxed)
    }

    /// Returns whether nothing is to be sent in this session any more.
    #[must_use]
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Notes that the other node has the keys. Returns whether that is new.
    pub(crate) fn confirm(&self) -> bool {
        !self.is_confirmed.swap(true, Ordering::Relaxed)
    }

    /// Sends nothing in this session any more. What the other node sends is still accepted.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// If the message cannot be written as JSON, or is too long.
    pub(crate) fn seal<M: Serialize>(&self, message: &M, body: &[u8]) -> Result<Vec<u8>, SessionError> {
        let counter = self.sent.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut frame = Vec::with_capacity(PREFIX_BYTES + 512 + body.len() + CODE_BYTES);
        frame.push(SESSION_FORM);
        frame.extend_from_slice(&self.id.to_be_bytes());
        frame.extend_from_slice(&counter.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut frame, message).map_err(SessionError::Header)?;
        let length = u32::try_from(frame.len().saturating_sub(PREFIX_BYTES)).map_err(|_| SessionError::Malformed)?;
        let place = frame.get_mut(PREFIX_BYTES - 4..PREFIX_BYTES).ok_or(SessionError::Malformed)?;
        place.copy_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        let code = hmac::sign(&self.seal_key, &frame);
        frame.extend_from_slice(code.as_ref());
        Ok(frame)
    }

    /// Verifies a frame of this session, and that it was not received before. Nothing of the header is read before.
    ///
    /// # Errors
    /// If it is none that the other node has sent to this one, once.
    pub(crate) fn open<'a, M: DeserializeOwned>(&self, frame: &'a [u8]) -> Result<(M, &'a [u8]), SessionError> {
        let (text, code) = frame.split_last_chunk::<CODE_BYTES>().ok_or(SessionError::Malformed)?;
        hmac::verify(&self.open_key, text, code).map_err(|_| SessionError::Code(self.peer.to_string()))?;
        let (prefix, rest) = text.split_first_chunk::<PREFIX_BYTES>().ok_or(SessionError::Malformed)?;
        let [_form, _, _, _, _, _, _, _, _, counter @ .., l0, l1, l2, l3] = prefix;
        let is_new = {
            let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            received.accept(u64::from_be_bytes(*counter))
        };
        if !is_new {
            return Err(SessionError::Replayed(self.peer.to_string()));
        }
        let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
        let length = usize::try_from(length).map_err(|_| SessionError::Malformed)?;
        let (header, body) = rest.split_at_checked(length).ok_or(SessionError::Malformed)?;
        Ok((serde_json::from_slice(header).map_err(SessionError::Header)?, body))
    }
}

/// Returns the id of the session that a frame says it is of; `None` if it is no frame of a session.
#[must_use]
pub(crate) fn session_id(frame: &[u8]) -> Option<u64> {
    let (form, rest) = frame.split_first()?;
    let id = rest.first_chunk()?;
    (*form == SESSION_FORM).then(|| u64::from_be_bytes(*id))
}

/// The length of a derived key.
struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        CODE_BYTES
    }
}

fn key_of(secret: &Prk, transcript: &Digest, direction: &[u8]) -> Option<hmac::Key> {
    let info = [transcript.as_bytes().as_slice(), direction];
    let mut key = [0; CODE_BYTES];
    secret.expand(&info, KeyLength).ok()?.fill(&mut key).ok()?;
    Some(hmac::Key::new(HMAC_SHA256, &key))
}

/// Returns the digest of everything that both sides must agree on.
fn transcript(cell: &str, gateway: &Party, worker: &Party) -> Digest {
    let mut text = Vec::new();
    push_part(&mut text, b"fumehood cell session 1");
    push_part(&mut text, cell.as_bytes());
    for party in [gateway, worker] {
        push_part(&mut text, party.name.as_bytes());
        push_part(&mut text, party.key.as_bytes());
        push_part(&mut text, &party.run.to_be_bytes());
        push_part(&mut text, &party.exchange.0);
    }
    Digest::of(&text)
}

/// Appends a part behind its length, so that no two lists of parts have the same text.
fn push_part(text: &mut Vec<u8>, part: &[u8]) {
    text.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    text.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NodeKey;

    fn party(name: &str, exchange: &Exchange) -> Party {
        Party {
            name: name.to_owned(),
            key: NodeKey::generate().unwrap().0.public(),
            run: 7,
            exchange: exchange.public(),
        }
    }

    /// Returns the sessions of a gateway and a worker, which see each other through `change`.
    fn sessions(change: impl FnOnce(&mut String, &mut Party, &mut Party)) -> (Session, Session) {
        let own = Exchange::generate().unwrap();
        let other = Exchange::generate().unwrap();
        let gateway = party("g", &own);
        let worker = party("w", &other);
        let mut cell = "cell".to_owned();
        let mut seen_gateway = gateway.clone();
        let mut seen_worker = worker.clone();
        change(&mut cell, &mut seen_gateway, &mut seen_worker);
        let of_gateway = Session::derive(own, Side::Gateway, "cell", &gateway, &worker).unwrap();
        let of_worker = Session::derive(other, Side::Worker, &cell, &seen_gateway, &seen_worker).unwrap();
        (of_gateway, of_worker)
    }

    #[test]
    fn opens_what_the_other_side_sealed_once() {
        let (gateway, worker) = sessions(|_, _, _| {});
        assert_eq!((gateway.id(), &**gateway.peer(), &**worker.peer()), (worker.id(), "w", "g"));
        let frame = gateway.seal(&5_u32, b"body").unwrap();
        assert_eq!(session_id(&frame), Some(worker.id()));
        assert_eq!(worker.open::<u32>(&frame).unwrap(), (5, b"body".as_slice()));
        assert!(matches!(worker.open::<u32>(&frame), Err(SessionError::Replayed(_))));
        // Back to its sender: another direction, another key.
        assert!(matches!(gateway.open::<u32>(&frame), Err(SessionError::Code(_))));
    }

    #[test]
    fn every_changed_byte_is_found() {
        let (gateway, worker) = sessions(|_, _, _| {});
        let frame = gateway.seal(&5_u32, b"body").unwrap();
        for index in 0..frame.len() {
            let mut changed = frame.clone();
            changed[index] ^= 1;
            assert!(worker.open::<u32>(&changed).is_err(), "{index}");
        }
        for length in 0..frame.len() {
            assert!(worker.open::<u32>(&frame[..length]).is_err(), "{length}");
        }
        assert!(worker.open::<u32>(&frame).is_ok());
    }

    #[test]
    fn keys_are_bound_to_cell_names_keys_and_runs() {
        type Change = fn(&mut String, &mut Party, &mut Party);
        let changes: [Change; 6] = [
            |cell, _, _| cell.push('x'),
            |_, gateway, _| gateway.name = "h".to_owned(),
            |_, _, worker| worker.name = "v".to_owned(),
            |_, gateway, _| gateway.key = NodeKey::generate().unwrap().0.public(),
            |_, gateway, _| gateway.run += 1,
            |_, _, worker| worker.run += 1,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let (gateway, worker) = sessions(change);
            let frame = gateway.seal(&5_u32, b"body").unwrap();
            assert!(matches!(worker.open::<u32>(&frame), Err(SessionError::Code(_))), "{index}");
        }
    }
}
