//! Components that gateways push and workers fetch: one bucket of JetStream, with each component in chunks under its digest.
//!
//! Nothing here decides what may run. A worker names the digest that its own lock approves, and takes no other bytes.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fumehood_core::digest::Digest;
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, BucketError};
use crate::link::ServerOptions;

/// The last part of the bucket's name.
const BUCKET: &str = "components";
/// Size of a chunk, in bytes, unless the server takes smaller messages only.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum size of a component, in bytes.
const MAX_COMPONENT_BYTES: u64 = 256 << 20;
/// Maximum time for a component.
const TRANSFER_TIME: Duration = Duration::from_mins(2);
/// Attempts of a chunk that others write at the same time.
const ATTEMPTS: usize = 3;

/// Errors of pushing or fetching a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentStoreError {
    /// The bucket cannot be used.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// No gateway has pushed it.
    #[error("no gateway has pushed the component {0} yet; set `push = true` in [cell] of a gateway that approved it")]
    Missing(Digest),
    /// It was pushed in part.
    #[error("the component {0} is incomplete; a gateway must push it again")]
    Partial(Digest),
    /// The bytes that were pushed are others.
    #[error("the pushed component {expected} has the digest {found}; it is not used, and is fetched again later")]
    Corrupted {
        /// The digest under which it was pushed.
        expected: Digest,
        /// The digest of what is there.
        found: Digest,
    },
    /// It is too large.
    #[error("the component {digest} has {bytes} bytes; the maximum for a transfer is {MAX_COMPONENT_BYTES}")]
    TooLarge {
        /// The component.
        digest: Digest,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// It took too long.
    #[error("the transfer of the component {0} took longer than two minutes; it is retried later")]
    Slow(Digest),
}

/// The entry that makes a component complete. It is written last.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    bytes: u64,
    chunks: u32,
}

/// The components that the gateways of a cell have pushed.
pub struct ComponentStore {
    bucket: Bucket,
    verified: Mutex<VerifiedComponents>,
}

/// The components that were complete and right while the bucket had this state.
#[derive(Default)]
struct VerifiedComponents {
    state: (u64, u64),
    components: HashSet<Digest>,
}

impl fmt::Debug for ComponentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComponentStore").field("bucket", &self.bucket.name()).finish_non_exhaustive()
    }
}

impl ComponentStore {
    /// Creates a store, which connects when it is used.
    #[must_use]
    pub fn new(server: ServerOptions) -> Self {
        Self { bucket: Bucket::new(server, BUCKET), verified: Mutex::default() }
    }

    /// Connects, and makes the bucket if there is none.
    ///
    /// # Errors
    /// If the server cannot be reached, has no JetStream or is too old, or the bucket has other settings.
    pub async fn open(&self) -> Result<(), BucketError> {
        self.bucket.open().await
    }

    /// Pushes a component, unless it is there complete and right. What is there is looked at again only after somebody wrote
    /// into the bucket. Returns whether something was pushed.
    ///
    /// # Errors
    /// If it is too large, or the bucket cannot be written.
    pub async fn push(&self, bytes: &[u8]) -> Result<bool, ComponentStoreError> {
        let digest = Digest::of(bytes);
        if bytes.len() as u64 > MAX_COMPONENT_BYTES {
            return Err(ComponentStoreError::TooLarge { digest, bytes: bytes.len() as u64 });
        }
        let pushing = async {
            let state = self.bucket.state().await?;
            if self.is_verified(state, digest) {
                return Ok(false);
            }
            let is_there = match self.fetch_now(digest).await {
                Ok(_) => true,
                Err(ComponentStoreError::Bucket(error)) => return Err(error.into()),
                Err(_) => false,
            };
            if !is_there {
                self.push_now(digest, bytes).await?;
            }
            self.set_verified(if is_there { state } else { self.bucket.state().await? }, digest);
            Ok(!is_there)
        };
        tokio::time::timeout(TRANSFER_TIME, pushing).await.unwrap_or(Err(ComponentStoreError::Slow(digest)))
    }

    /// Fetches a component. Its bytes have this digest.
    ///
    /// # Errors
    /// If it is not there, not complete, or something else.
    pub async fn fetch(&self, digest: Digest) -> Result<Vec<u8>, ComponentStoreError> {
        let fetching = tokio::time::timeout(TRANSFER_TIME, self.fetch_now(digest)).await;
        fetching.unwrap_or(Err(ComponentStoreError::Slow(digest)))
    }

    async fn push_now(&self, digest: Digest, bytes: &[u8]) -> Result<(), BucketError> {
        self.bucket.open().await?;
        let chunk_bytes = CHUNK_BYTES.min(self.bucket.max_message_bytes().unwrap_or(CHUNK_BYTES) / 2).max(1);
        let mut chunks = 0_u32;
        for chunk in bytes.chunks(chunk_bytes) {
            self.put(&chunk_key(digest, chunks), Bytes::copy_from_slice(chunk)).await?;
            chunks = chunks.saturating_add(1);
        }
        let manifest = serde_json::to_vec(&Manifest { bytes: bytes.len() as u64, chunks }).unwrap_or_default();
        self.put(&manifest_key(digest), manifest.into()).await
    }

    /// Sets an entry. Others that push the same component set the same value.
    async fn put(&self, key: &str, value: Bytes) -> Result<(), BucketError> {
        for _ in 0..ATTEMPTS {
            let current = self.bucket.get(key).await?;
            if current.value.as_ref() == Some(&value) {
                return Ok(());
            }
            match self.bucket.put(key, current.revision, 0, Some(value.clone())).await {
                Err(BucketError::Conflict) => {}
                other => return other.map(drop),
            }
        }
        Err(BucketError::Conflict)
    }

    async fn fetch_now(&self, digest: Digest) -> Result<Vec<u8>, ComponentStoreError> {
        let manifest = self.bucket.get(&manifest_key(digest)).await?.value;
        let manifest = manifest.ok_or(ComponentStoreError::Missing(digest))?;
        let partial = || ComponentStoreError::Partial(digest);
        let Manifest { bytes: size, chunks } = serde_json::from_slice(&manifest).map_err(|_| partial())?;
        if size > MAX_COMPONENT_BYTES {
            return Err(ComponentStoreError::TooLarge { digest, bytes: size });
        }
        let mut bytes = Vec::new();
        for number in 0..chunks {
            let chunk = self.bucket.get(&chunk_key(digest, number)).await?.value.ok_or_else(partial)?;
            bytes.extend_from_slice(&chunk);
            // An empty chunk would let a manifest of many chunks go on for long.
            if chunk.is_empty() || bytes.len() as u64 > size {
                return Err(partial());
            }
        }
        match Digest::of(&bytes) {
            found if found == digest => Ok(bytes),
            found => Err(ComponentStoreError::Corrupted { expected: digest, found }),
        }
    }

    fn is_verified(&self, state: (u64, u64), digest: Digest) -> bool {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        verified.state == state && verified.components.contains(&digest)
    }

    fn set_verified(&self, state: (u64, u64), digest: Digest) {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.state != state {
            *verified = VerifiedComponents { state, components: HashSet::new() };
        }
        verified.components.insert(digest);
    }
}

fn manifest_key(digest: Digest) -> String {
    format!("{}.manifest", digest.hex())
}

fn chunk_key(digest: Digest, number: u32) -> String {
    format!("{}.{number}", digest.hex())
}
