//! A bucket of JetStream: entries with revisions in one stream, laid out as those of NATS KV, so that its tools can read them.

use std::fmt;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::header::{HeaderMap, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL};
use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamErrorKind, PublishError, PublishErrorKind, RequestErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{Context, ErrorCode, context};
use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::error::CellError;
use crate::link::ServerOptions;

/// The oldest release of the server, as (major, minor): messages with a lifetime of their own.
const MIN_SERVER: (i64, i64) = (2, 11);
/// Time between two looks at whether the connection is there again.
const CONNECTION_LOOK: Duration = Duration::from_millis(10);
/// Time for which a deleted entry leaves a mark, so that a write which was delayed until after the deletion is refused.
const TOMBSTONE_TIME: Duration = Duration::from_hours(24);
/// The header that marks a deleted entry, as in NATS KV.
const OPERATION: &str = "KV-Operation";
/// The header with the number of the write that an entry comes from.
const WRITE: &str = "Fumehood-Write";

/// Errors of a bucket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The server cannot be reached.
    #[error(transparent)]
    Connect(#[from] CellError),
    /// The server has no JetStream, or not for this user.
    #[error(
        "the NATS server does not answer JetStream requests; start it with `-js`, and allow this node the subjects in \
         docs/cell.md"
    )]
    NoJetStream,
    /// The server is too old.
    #[error("the NATS server has version {0}; buckets need {major}.{minor} or later", major = MIN_SERVER.0, minor = MIN_SERVER.1)]
    Version(String),
    /// The bucket has other settings than this program relies on.
    #[error("the bucket `{bucket}` has wrong settings: expected {expected}; change them with `nats stream edit`")]
    Settings {
        /// The name of the bucket.
        bucket: String,
        /// The setting.
        expected: &'static str,
    },
    /// The bucket was removed while it was in use.
    #[error("the bucket `{0}` no longer exists; restore it, or restart this node to create an empty one")]
    Gone(String),
    /// Another write was faster.
    #[error("the entry was changed by another writer")]
    Conflict,
    /// The server did not do it.
    #[error("the NATS server refused the request: {0}")]
    Refused(String),
    /// The server may have done it, and its answer was lost.
    #[error("the answer of the NATS server was lost: {0}")]
    Lost(String),
}

impl BucketError {
    /// Returns whether the same request may succeed a moment later, and was not carried out.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Connect(CellError::Connect { .. }) | Self::NoJetStream | Self::Lost(_))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// The revision: zero if there is no entry, and no mark of a deleted one.
    pub(crate) revision: u64,
    /// The number of the write that it comes from; zero if it has none.
    pub(crate) write: u64,
    /// The value; `None` if there is none, or it was deleted.
    pub(crate) value: Option<Bytes>,
}

/// A bucket of JetStream, which is opened by its first use. Cheap to share behind an `Arc`.
pub(crate) struct Bucket {
    server: ServerOptions,
    name: String,
    opened: OnceCell<OpenBucket>,
}

struct OpenBucket {
    client: Client,
    context: Context,
    stream: Stream<()>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("name", &self.name).field("server", &self.server).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Names a bucket of a cell.
    pub(crate) fn new(server: ServerOptions, purpose: &str) -> Self {
        let name = format!("{}-{purpose}", server.prefix);
        Self { server, name, opened: OnceCell::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects, and makes the bucket if there is none. Does nothing the next time.
    ///
    /// # Errors
    /// If the server cannot be reached, lacks JetStream or is too old, or the bucket has other settings.
    pub(crate) async fn open(&self) -> Result<(), BucketError> {
        self.opened().await.map(drop)
    }

    async fn opened(&self) -> Result<&OpenBucket, BucketError> {
        let opened = self.opened.get_or_try_init(async || {
            let client = self.server.connect().await?;
            if !client.is_server_compatible(MIN_SERVER.0, MIN_SERVER.1, 0) {
                return Err(BucketError::Version(client.server_info().version));
            }
            let context = async_nats::jetstream::new(client.clone());
            let stream = format!("KV_{}", self.name);
            let config = match context.get_stream(&stream).await {
                Ok(found) => found.cached_info().config.clone(),
                Err(error) => match error.kind() {
                    GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                        self.create(&context).await?.config
                    }
                    GetStreamErrorKind::JetStream(error) => return Err(BucketError::Refused(error.to_string())),
                    _ => return Err(request_error(&error)),
                },
            };
            self.check(&config)?;
            let stream = context.get_stream_no_info(stream).await.map_err(|error| request_error(&error))?;
            Ok(OpenBucket { client, context, stream })
        });
        let opened = opened.await?;
        while opened.client.connection_state() != State::Connected {
            tokio::time::sleep(CONNECTION_LOOK).await;
        }
        Ok(opened)
    }

    async fn create(&self, context: &Context) -> Result<Info, BucketError> {
        let config = Config {
            name: format!("KV_{}", self.name),
            subjects: vec![format!("$KV.{}.>", self.name)],
            max_messages: -1,
            max_bytes: -1,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: 1,
            deny_delete: true,
            // Reads go to the leader, which has seen every write.
            allow_direct: false,
            allow_message_ttl: true,
            ..Config::default()
        };
        let created = context.create_stream(config).await;
        created.map(|stream| stream.cached_info().clone()).map_err(|error| match error.kind() {
            CreateStreamErrorKind::JetStream(error) => BucketError::Refused(error.to_string()),
            _ => request_error(&error),
        })
    }

    fn check(&self, config: &Config) -> Result<(), BucketError> {
        let needed = [
            (config.max_messages_per_subject == 1, "a history of 1"),
            (config.allow_message_ttl, "`allow_msg_ttl`"),
            (!config.allow_direct, "no `allow_direct`"),
        ];
        match needed.into_iter().find(|(is_met, _)| !is_met) {
            None => Ok(()),
            Some((_, expected)) => Err(BucketError::Settings { bucket: self.name.clone(), expected }),
        }
    }

    /// Returns the number of the last write and the number of entries: while both stay the same, nobody wrote.
    ///
    /// # Errors
    /// If the server does not say.
    pub(crate) async fn state(&self) -> Result<(u64, u64), BucketError> {
        let info = self.opened().await?.stream.get_info().await.map_err(|error| request_error(&error))?;
        Ok((info.state.last_sequence, info.state.messages))
    }

    /// Returns the maximum size of a message, in bytes; `None` before the bucket is open.
    pub(crate) fn max_message_bytes(&self) -> Option<usize> {
        self.opened.get().map(|opened| opened.client.max_payload())
    }

    /// Returns the current entry of a key.
    ///
    /// # Errors
    /// If the server does not say.
    pub(crate) async fn get(&self, key: &str) -> Result<Entry, BucketError> {
        let opened = self.opened().await?;
        let message = match opened.stream.get_last_raw_message_by_subject(&self.subject(key)).await {
            Ok(message) => message,
            Err(error) => {
                return match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(Entry::default()),
                    LastRawMessageErrorKind::JetStream(error) => Err(self.refusal(&error)),
                    _ => Err(request_error(&error)),
                };
            }
        };
        let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
        let is_deleted = header(OPERATION).is_some();
        let write = header(WRITE).and_then(|write| u64::from_str_radix(&write, 16).ok()).unwrap_or(0);
        Ok(Entry { revision: message.sequence, write, value: (!is_deleted).then_some(message.payload) })
    }

    /// Sets or deletes the entry of a key, if it has this revision. Returns the new one.
    ///
    /// # Errors
    /// [`BucketError::Conflict`] if it has another revision, or if the server does not do it.
    pub(crate) async fn put(
        &self,
        key: &str,
        expected: u64,
        write: u64,
        value: Option<Bytes>,
    ) -> Result<u64, BucketError> {
        let opened = self.opened().await?;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(expected));
        headers.insert(WRITE, format!("{write:x}").as_str());
        if value.is_none() {
            headers.insert(OPERATION, "DEL");
            headers.insert(NATS_MESSAGE_TTL, HeaderValue::from(TOMBSTONE_TIME.as_secs()));
        }
        let published =
            opened.context.publish_with_headers(self.subject(key), headers, value.unwrap_or_default()).await;
        let acknowledged = published.map_err(|error| self.publish_error(&error))?.await;
        acknowledged.map(|ack| ack.sequence).map_err(|error| self.publish_error(&error))
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    fn refusal(&self, error: &async_nats::jetstream::Error) -> BucketError {
        match error.error_code() {
            ErrorCode::STREAM_NOT_FOUND => BucketError::Gone(self.name.clone()),
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::CLUSTER_NOT_AVAILABLE | ErrorCode::INSUFFICIENT_RESOURCES => {
                BucketError::NoJetStream
            }
            _ => BucketError::Refused(error.to_string()),
        }
    }

    fn publish_error(&self, error: &PublishError) -> BucketError {
        match error.kind() {
            PublishErrorKind::WrongLastSequence => BucketError::Conflict,
            // Nobody listens: the stream is gone, or its server starts.
            PublishErrorKind::StreamNotFound => BucketError::NoJetStream,
            PublishErrorKind::MaxPayloadExceeded => BucketError::Refused(error.to_string()),
            _ => match std::error::Error::source(error).and_then(<dyn std::error::Error>::downcast_ref) {
                Some(refusal) => self.refusal(refusal),
                None => BucketError::Lost(error.to_string()),
            },
        }
    }
}

/// Returns the error of a request about a stream that was not answered.
fn request_error(error: &(impl std::error::Error + 'static)) -> BucketError {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(request) = cause.downcast_ref::<context::RequestError>()
            && matches!(request.kind(), RequestErrorKind::NoResponders)
        {
            return BucketError::NoJetStream;
        }
        source = cause.source();
    }
    BucketError::Lost(error.to_string())
}
