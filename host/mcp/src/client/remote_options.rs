//! Limits and settings of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fumehood_core::digest::Digest;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::schema::gate::GateLimits;
use fumehood_core::tool::ResultForm;

use super::headers::Headers;
use super::library::LibraryOptions;
use super::remote_tool::NamePrefix;
use super::server_requests::ServerRequestPolicy;
use crate::log_level::LogLevel;

/// Limits and settings of a server.
///
/// ```
/// use std::collections::BTreeSet;
/// use std::time::Duration;
///
/// use fumehood_mcp::{HeaderError, Headers, RemoteOptions};
///
/// let mut headers = Headers::default();
/// headers.add("x-api-key", "0123456789abcdef")?;
/// let options = RemoteOptions {
///     deadline: Duration::from_secs(10),
///     only: Some(BTreeSet::from(["search".to_owned()])),
///     headers,
///     ..RemoteOptions::default()
/// };
/// // Secrets are not printed.
/// assert!(!format!("{options:?}").contains("0123456789abcdef"));
/// # Ok::<(), HeaderError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Maximum time of a call without progress. It is enforced even if the server never answers.
    pub deadline: Duration,
    /// Maximum time of a call in all, however often its server reports progress.
    pub max_time: Duration,
    /// Timeout of connecting and listing together.
    pub patience: Duration,
    /// Maximum size of a result, in bytes.
    pub output: usize,
    /// Maximum size of a single string in the arguments of a call, in bytes.
    pub string: usize,
    /// Other limits of schemas, arguments and results.
    pub gate: GateLimits,
    /// Maximum number of unsolicited messages in one call or in one minute between calls: notifications, logs,
    /// requests. More end the connection.
    pub unasked: u32,
    /// The tools to use, by the server's own names; `None` for all.
    pub only: Option<BTreeSet<String>>,
    /// Maximum number of its tools.
    pub max_tools: usize,
    /// Maximum size of the descriptions of all of its tools together, in bytes.
    pub descriptions: usize,
    /// The beginning of its tools' names for models and clients; `None` for its own name.
    pub prefix: Option<NamePrefix>,
    /// The form of its results that a model reads.
    pub result_form: ResultForm,
    /// Headers of every request to a server at a URL.
    pub headers: Headers,
    /// Redacts secrets from everything that the server sends in its calls.
    pub redactor: Option<Redactor>,
    /// The level of log lines that clients asked for.
    pub log_level: LogLevel,
    /// The digests of approved tools, by the server's own names. Other tools are pinned as they are first seen.
    pub pins: BTreeMap<String, Digest>,
    /// The resources and prompts that are passed on.
    pub library: LibraryOptions,
    /// The requests to clients that are passed on.
    pub client_requests: ServerRequestPolicy,
}

impl Default for RemoteOptions {
    /// Returns the defaults:
    ///
    /// - a minute for a call, ten with progress, and 15 s to connect
    /// - results and strings of at most 1 MiB, and the limits of [`GateLimits::default`]
    /// - 10,000 unsolicited messages
    /// - all tools, 1,000 at most, under its own name, with descriptions of 1 MiB together, and no pins
    /// - the text of a result that has a text and a structured form
    /// - no headers, no redaction, no level of log lines
    /// - neither resources nor prompts, and no requests to clients
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            max_time: Duration::from_secs(600),
            patience: Duration::from_secs(15),
            output: 1 << 20,
            string: 1 << 20,
            gate: GateLimits::default(),
            unasked: 10_000,
            only: None,
            max_tools: 1000,
            descriptions: 1 << 20,
            prefix: None,
            result_form: ResultForm::TextFirst,
            headers: Headers::default(),
            redactor: None,
            log_level: LogLevel::default(),
            pins: BTreeMap::new(),
            library: LibraryOptions::default(),
            client_requests: ServerRequestPolicy::default(),
        }
    }
}

impl RemoteOptions {
    /// Returns the origins that pages of the server may reach; `None` if no pages are passed on.
    pub(super) fn app_origins(&self) -> Option<&[String]> {
        self.client_requests.apps.then_some(self.library.app_origins.as_slice())
    }
}
