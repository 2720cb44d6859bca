//! Jobs in JetStream: a work queue of their ids, and entries under their ids.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store, UpdateErrorKind};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context, Error as JetStreamError, ErrorCode};
use bytes::Bytes;
use fumehood_core::digest::Digest;
use fumehood_core::job::JobId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::CellError;
use crate::identity::{Envelope, Frame, FrameError, NodePublicKey, Role, open, seal};
use crate::link::Link;
use crate::protocol::Offer;

/// Minimum version of the server.
const MIN_SERVER: (i64, i64) = (2, 10);
/// Time without a sign of a worker after which its job is delivered to another one.
pub(super) const ACK_WAIT: Duration = Duration::from_secs(3);
/// Maximum time of one request to JetStream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of all entries, in bytes.
const MAX_ENTRY_BYTES: i64 = 1 << 30;
/// Maximum size of a message in the queue, in bytes: an id.
const MAX_QUEUED_BYTES: i32 = 1024;
/// Number of hexadecimal digits that name what a job needs, or whom it belongs to.
const TOKEN_DIGITS: usize = 32;
/// The code of an error of JetStream: the stream has as much as it may have.
const STREAM_FULL: u64 = 10_077;

/// Options of jobs in a cell.
#[derive(Debug, Clone)]
pub struct JobQueueOptions {
    /// The names and public keys of all gateways whose jobs are accepted.
    pub gateways: BTreeMap<String, NodePublicKey>,
    /// The names and public keys of all workers whose results are accepted.
    pub workers: BTreeMap<String, NodePublicKey>,
    /// Maximum number of jobs that wait or run.
    pub max_queued: u32,
    /// The time for which a job and its result are kept.
    pub keep: Duration,
}

/// The queue and the entries of the jobs of a cell. Cheap to clone.
#[derive(Clone)]
pub(super) struct JobStream {
    link: Link,
    context: Context,
    entries: Store,
    options: JobQueueOptions,
}

/// JetStream does not answer, or refuses a request.
#[derive(Debug, thiserror::Error)]
#[error("JetStream: {0}")]
pub(super) struct StreamError(pub(super) String);

/// Errors of [`JobStream::enqueue`].
#[derive(Debug, thiserror::Error)]
pub(super) enum EnqueueError {
    #[error("the queue of jobs is full")]
    Full,
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// An entry, with the number of its last change.
#[derive(Debug, Clone)]
pub(super) struct JobEntry {
    pub(super) value: Bytes,
    pub(super) revision: u64,
}

impl fmt::Debug for JobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobStream").field("cell", &self.link.cell()).finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> StreamError {
    StreamError(error.to_string())
}

/// Returns a token of subjects and keys for anything.
fn token_of(text: &[u8]) -> String {
    let digits = Digest::of(text).hex();
    digits.get(..TOKEN_DIGITS).unwrap_or(&digits).to_owned()
}

/// Returns the token of a component with its powers.
fn offer_token(offer: &Offer) -> String {
    token_of(&[offer.component.as_bytes().as_slice(), offer.powers.as_bytes().as_slice()].concat())
}

impl JobStream {
    /// Opens the queue and the entries. They are made as these options say if they do not exist, and also otherwise if `is_owner`
    /// is true: gateways decide, so that workers with other options change nothing.
    ///
    /// # Errors
    /// If the server has no JetStream, or refuses.
    pub(super) async fn open(link: &Link, options: JobQueueOptions, is_owner: bool) -> Result<Self, CellError> {
        let mut context = jetstream::new(link.client().clone());
        context.set_timeout(REQUEST_TIMEOUT);
        // Older ones answer in a way that says nothing.
        if !link.client().is_server_compatible(MIN_SERVER.0, MIN_SERVER.1, 0) {
            let version = link.client().server_info().version;
            return Err(unusable_error(format!("the server has version {version}")));
        }
        let queue = stream::Config {
            name: format!("{}-jobs", link.cell()),
            subjects: vec![format!("{}.jobs.queue.*", link.cell())],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            max_messages: i64::from(options.max_queued),
            max_message_size: MAX_QUEUED_BYTES,
            max_age: options.keep,
            storage: StorageType::File,
            ..stream::Config::default()
        };
        let stream = if is_owner {
            context.create_or_update_stream(queue).await.map(|_| ())
        } else {
            context.get_or_create_stream(queue).await.map(|_| ())
        };
        stream.map_err(unusable_error)?;
        let bucket = kv::Config {
            bucket: format!("{}-jobs", link.cell()),
            history: 1,
            max_age: options.keep,
            max_bytes: MAX_ENTRY_BYTES,
            storage: StorageType::File,
            ..kv::Config::default()
        };
        let entries = if is_owner {
            context.create_or_update_key_value(bucket).await
        } else {
            match context.get_key_value(bucket.bucket.clone()).await {
                Ok(found) => Ok(found),
                Err(_) => context.create_key_value(bucket).await,
            }
        };
        let entries = entries.map_err(unusable_error)?;
        Ok(Self { link: link.clone(), context, entries, options })
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn request_key(id: JobId) -> String {
        format!("job.{id}.request")
    }

    pub(super) fn claim_key(id: JobId) -> String {
        format!("job.{id}.claim")
    }

    pub(super) fn end_key(id: JobId) -> String {
        format!("job.{id}.end")
    }

    pub(super) fn record_key(owner: &str, id: JobId) -> String {
        format!("owner.{}.{id}", token_of(owner.as_bytes()))
    }

    /// Returns the key of an entry of the index, which names the job of a key of calls.
    pub(super) fn index_key(owner: &str, key: &Digest) -> String {
        format!("key.{}.{}", token_of(owner.as_bytes()), key.hex())
    }

    /// Signs a message of this node for a whole cell.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn seal<M: Serialize>(&self, role: Role, message: M, body: &[u8]) -> Result<Bytes, FrameError> {
        let from = self.link.name().to_owned();
        let to = self.link.cell().to_owned();
        seal(self.link.key(), role, &Envelope { from, to, message }, body).map(Bytes::from)
    }

    /// Verifies a message for the cell.
    ///
    /// # Errors
    /// If no node of this role has signed it, or it is for another cell.
    pub(super) fn verify<'a, M: DeserializeOwned>(
        &self,
        bytes: &'a [u8],
        role: Role,
    ) -> Result<Frame<'a, M>, FrameError> {
        let peers = match role {
            Role::JobWorker | Role::JobEnd => &self.options.workers,
            _ => &self.options.gateways,
        };
        let frame = open::<M>(bytes, role, |name| {
            let own = (name == self.link.name()).then(|| self.link.key().public());
            peers.get(name).copied().or(own)
        })?;
        if frame.envelope.to == self.link.cell() { Ok(frame) } else { Err(FrameError::Receiver(frame.envelope.from)) }
    }

    /// Reads an entry; `None` if there is none.
    pub(super) async fn get(&self, key: &str) -> Result<Option<JobEntry>, StreamError> {
        let entry = self.entries.entry(key).await.map_err(failed)?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        Ok(entry.map(|entry| JobEntry { value: entry.value, revision: entry.revision }))
    }

    /// Creates an entry. Returns whether it did not exist.
    pub(super) async fn create(&self, key: &str, value: Bytes) -> Result<bool, StreamError> {
        match self.entries.create(key, value.clone()).await {
            Ok(_) => Ok(true),
            // An answer that was lost is no other's entry.
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
                Ok(self.get(key).await?.is_some_and(|entry| entry.value == value))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Replaces an entry if this was its last revision. Returns the new one; `None` if it has changed.
    pub(super) async fn replace(&self, key: &str, value: Bytes, revision: u64) -> Result<Option<u64>, StreamError> {
        match self.entries.update(key, value, revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes an entry. Nothing stays in its place, because what stays would count as a job of its owner.
    pub(super) async fn remove(&self, key: &str) -> Result<(), StreamError> {
        let subject = format!("{}{key}", self.entries.prefix);
        self.entries.stream.purge().filter(subject).await.map(|_| ()).map_err(failed)
    }

    /// Returns the keys of the records of an owner.
    pub(super) async fn keys_of(&self, owner: &str) -> Result<Vec<String>, StreamError> {
        use futures_util::TryStreamExt as _;
        let filter = format!("{}owner.{}.*", self.entries.prefix, token_of(owner.as_bytes()));
        let subjects = self.entries.stream.info_with_subjects(filter).await.map_err(failed)?;
        let found: Vec<(String, usize)> = subjects.try_collect().await.map_err(failed)?;
        let prefix = self.entries.prefix.as_str();
        Ok(found.into_iter().filter_map(|(subject, _)| subject.strip_prefix(prefix).map(str::to_owned)).collect())
    }

    /// Puts a job into the queue, for workers with a component and its powers. A second time changes nothing.
    pub(super) async fn enqueue(&self, offer: &Offer, id: JobId) -> Result<(), EnqueueError> {
        let subject = format!("{}.jobs.queue.{}", self.link.cell(), offer_token(offer));
        let message = jetstream::message::PublishMessage::build().payload(id.to_string().into());
        let publish = self.context.send_publish(subject, message.message_id(id.to_string()));
        let published = match publish.await {
            Ok(acknowledged) => acknowledged.await,
            Err(error) => Err(error),
        };
        match published {
            Ok(_) => {
                // So that a worker with a place does not wait until it looks again.
                let hint = format!("{}.jobs.hint", self.link.cell());
                let _looked_for_later = self.link.client().publish(hint, Bytes::new()).await;
                Ok(())
            }
            Err(error) if is_full(&error) => Err(EnqueueError::Full),
            Err(error) => Err(EnqueueError::Stream(failed(error))),
        }
    }

    /// Returns the consumer of the jobs that need a component with its powers.
    pub(super) async fn consumer(&self, offer: &Offer) -> Result<PullConsumer, StreamError> {
        let token = offer_token(offer);
        let config = pull::Config {
            durable_name: Some(token.clone()),
            filter_subject: format!("{}.jobs.queue.{token}", self.link.cell()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            inactive_threshold: self.options.keep.saturating_mul(2),
            ..pull::Config::default()
        };
        let stream = self.context.get_stream(format!("{}-jobs", self.link.cell())).await.map_err(failed)?;
        stream.get_or_create_consumer(&token, config).await.map_err(failed)
    }
}

fn unusable_error(error: impl fmt::Display) -> CellError {
    CellError::JetStream(error.to_string())
}

/// Returns whether a message was refused because the stream has as many as it may have.
fn is_full(error: &PublishError) -> bool {
    let code = error.source().and_then(|source| source.downcast_ref::<JetStreamError>());
    error.kind() == PublishErrorKind::Other && code.is_some_and(|error| error.error_code() == ErrorCode(STREAM_FULL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_owners_never_leave_their_token() {
        let id = JobId::from_bits(7);
        for owner in ["a", "a.b", "*", ">", "", "ä"] {
            let key = JobStream::record_key(owner, id);
            assert_eq!(key.split('.').count(), 3, "{owner}: {key}");
            assert!(key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'.'), "{owner}: {key}");
        }
        assert_ne!(JobStream::record_key("a", id), JobStream::record_key("b", id));
    }

    fn offer_of(component: &str, powers: &str) -> Offer {
        Offer { component: Digest::of(component.as_bytes()), powers: Digest::of(powers.as_bytes()) }
    }

    #[test]
    fn jobs_of_other_powers_wait_in_another_queue() {
        assert_ne!(offer_token(&offer_of("a", "b")), offer_token(&offer_of("a", "c")));
        assert_ne!(offer_token(&offer_of("a", "b")), offer_token(&offer_of("b", "a")));
    }
}
