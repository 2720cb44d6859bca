//! Signed messages: a header in JSON, a body of raw bytes, and a signature over both.
//!
//! | part | bytes |
//! |---|---|
//! | version | 1 |
//! | length of the header, big-endian | 4 |
//! | header: [`Envelope`] | as many |
//! | body: arguments or a result | the rest |
//! | signature (Ed25519) | 64 |

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keys::{NodeKey, NodePublicKey};

/// The version of the frame.
const VERSION: u8 = 1;
/// Bytes before the header.
const PREFIX_BYTES: usize = 5;
const SIGNATURE_BYTES: usize = 64;

/// The role of a sender. It is part of what is signed, so that no message of one role passes for one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A gateway, to a worker.
    Gateway,
    /// A worker, to a gateway.
    Worker,
    /// A worker, to all gateways.
    Announcer,
    /// A gateway, to a worker: a grant.
    Grantor,
    /// A gateway, to every worker: a job.
    JobGateway,
    /// A worker, to every other and to every gateway: the claim of a job.
    JobWorker,
    /// A worker, to every gateway: the end of a job.
    JobEnd,
    /// A gateway, to every gateway: the record of a job.
    JobRecord,
}

impl Role {
    fn context(self) -> &'static [u8] {
        match self {
            Self::Gateway => b"fumehood cell 1: gateway to worker\0",
            Self::Worker => b"fumehood cell 1: worker to gateway\0",
            Self::Announcer => b"fumehood cell 1: worker to all\0",
            Self::Grantor => b"fumehood cell 1: grant of a gateway\0",
            Self::JobGateway => b"fumehood cell 1: job of a gateway\0",
            Self::JobWorker => b"fumehood cell 1: claim of a worker\0",
            Self::JobEnd => b"fumehood cell 1: end of a job\0",
            Self::JobRecord => b"fumehood cell 1: record of a job\0",
        }
    }
}

/// The header of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope<M> {
    /// The name of the sender.
    pub(crate) from: String,
    /// The name of the receiver, and the run of it that is meant, where the sender knows it.
    pub(crate) to: String,
    /// The message.
    pub(crate) message: M,
}

/// A message whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame<'a, M> {
    /// The header.
    pub(crate) envelope: Envelope<M>,
    /// The body.
    pub(crate) body: &'a [u8],
}

/// Errors of [`open`] and [`seal`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FrameError {
    /// The bytes are no frame of this version.
    #[error("a message that is not a frame of version {VERSION}")]
    Malformed,
    /// The header is not what this version expects.
    #[error("a message with a header that cannot be read: {0}")]
    Header(#[source] serde_json::Error),
    /// The sender is not in the configuration.
    #[error("a message of `{0}`, whose key is not in the configuration")]
    Unknown(String),
    /// The message is for another node.
    #[error("a message of `{0}` that is for another node")]
    Receiver(String),
    /// The signature does not match.
    #[error("a message from `{0}` without a valid signature")]
    Signature(String),
}

/// Signs a message.
///
/// # Errors
/// If the header cannot be written as JSON, or is too long.
pub(crate) fn seal<M: Serialize>(
    key: &NodeKey,
    role: Role,
    envelope: &Envelope<M>,
    body: &[u8],
) -> Result<Vec<u8>, FrameError> {
    let header = serde_json::to_vec(envelope).map_err(FrameError::Header)?;
    let length = u32::try_from(header.len()).map_err(|_| FrameError::Malformed)?;
    let context = role.context();
    let mut text = Vec::with_capacity(context.len() + PREFIX_BYTES + header.len() + body.len() + SIGNATURE_BYTES);
    text.extend_from_slice(context);
    text.push(VERSION);
    text.extend_from_slice(&length.to_be_bytes());
    text.extend_from_slice(&header);
    text.extend_from_slice(body);
    let signature = key.sign(&text);
    text.drain(..context.len());
    text.extend_from_slice(signature.as_ref());
    Ok(text)
}

/// Verifies a message. `key_of` returns the key of a sender.
///
/// # Errors
/// If it is malformed, or not signed by the sender that it names. Nothing of an unverified message is acted upon: only the
/// name of its sender is read.
pub(crate) fn open<'a, M: DeserializeOwned>(
    bytes: &'a [u8],
    role: Role,
    key_of: impl FnOnce(&str) -> Option<NodePublicKey>,
) -> Result<Frame<'a, M>, FrameError> {
    let (signed, signature) = bytes.split_last_chunk::<SIGNATURE_BYTES>().ok_or(FrameError::Malformed)?;
    let (prefix, rest) = signed.split_first_chunk::<PREFIX_BYTES>().ok_or(FrameError::Malformed)?;
    let [version, length @ ..] = prefix;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| FrameError::Malformed)?;
    if *version != VERSION {
        return Err(FrameError::Malformed);
    }
    let (header, body) = rest.split_at_checked(length).ok_or(FrameError::Malformed)?;
    let envelope: Envelope<M> = serde_json::from_slice(header).map_err(FrameError::Header)?;
    let Some(key) = key_of(&envelope.from) else { return Err(FrameError::Unknown(envelope.from)) };
    let text = [role.context(), signed].concat();
    if !key.verifies(&text, signature) {
        return Err(FrameError::Signature(envelope.from));
    }
    Ok(Frame { envelope, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> (NodePublicKey, Vec<u8>) {
        let (key, _) = NodeKey::generate().unwrap();
        let envelope = Envelope { from: "g".to_owned(), to: "w".to_owned(), message: 7_u32 };
        (key.public(), seal(&key, Role::Gateway, &envelope, b"{\"a\":1}").unwrap())
    }

    #[test]
    fn opens_what_was_sealed() {
        let (key, bytes) = sealed();
        let frame = open::<u32>(&bytes, Role::Gateway, |_| Some(key)).unwrap();
        assert_eq!((frame.envelope.message, frame.body), (7, b"{\"a\":1}".as_slice()));
    }

    #[test]
    fn every_changed_byte_is_found() {
        let (key, bytes) = sealed();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(open::<u32>(&changed, Role::Gateway, |_| Some(key)).is_err(), "{index}");
        }
        for length in 0..bytes.len() {
            assert!(open::<u32>(&bytes[..length], Role::Gateway, |_| Some(key)).is_err(), "{length}");
        }
    }

    #[test]
    fn a_message_of_one_role_is_none_of_another() {
        let (key, bytes) = sealed();
        let jobs = [Role::JobGateway, Role::JobWorker, Role::JobEnd, Role::JobRecord];
        for role in [Role::Worker, Role::Announcer, Role::Grantor].into_iter().chain(jobs) {
            assert!(matches!(open::<u32>(&bytes, role, |_| Some(key)), Err(FrameError::Signature(_))));
        }
        assert!(matches!(open::<u32>(&bytes, Role::Gateway, |_| None), Err(FrameError::Unknown(_))));
    }
}
