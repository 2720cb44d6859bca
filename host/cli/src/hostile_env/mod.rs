//! The surroundings of hostile tools: granted folders with a canary beside them, servers on loopback and secrets, and
//! checks of whether anything got out.

mod server;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context as _, Result};
use fumehood::permission::files::{Folder, Quota};
use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::permission::{Injection, Secret, SecretValue};
use fumehood::{CallResult, Grant, Resolver};
use fumehood_platform::files;
use tempfile::TempDir;

use self::server::{Listener, Server};

/// Content of a file beside the granted folders, which no tool may read.
const CANARY: &str = "CANARY-8d1f0c5a";
/// Secret that the host puts into requests, and that no guest may see.
const SECRET: &str = "s3cr3t-canary-4b7e";
/// Maximum size that a tool may add to the folder that is granted for writing, in bytes.
const MAX_ADDED_BYTES: u64 = 1 << 20;
/// Maximum number of files and folders that a tool may add to it.
const MAX_ADDED_ENTRIES: u64 = 50;
/// Entries of each granted folder at first: a folder, a file, three links and a pipe.
const INITIAL_ENTRIES: u64 = 6;
/// Size of their files, in bytes.
const INITIAL_BYTES: u64 = 4;
/// Maximum size of responses that a tool may receive, in bytes.
const MAX_RECEIVED_BYTES: u64 = 256 << 10;

/// The powers that a hostile tool is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Powers {
    /// Nothing.
    None,
    /// One folder for reading (0) and one for writing (1), next to a file that is not granted.
    Folders,
    /// The bad server on loopback, and a secret for requests below `/secret/`.
    Server,
    /// Hosts that anybody may have registered, on the port of the listener.
    Strangers,
}

/// The surroundings of one run. Its files are removed when it is dropped.
pub(crate) struct HostileEnv {
    root: TempDir,
    server: Server,
    listener: Listener,
    /// Number of quotas for the folder that is granted for writing. Each counts what its own component adds.
    quotas: AtomicU64,
}

impl HostileEnv {
    /// Creates the folders and starts the servers.
    ///
    /// # Errors
    /// If there is no room for the folders, or no free port on 127.0.0.1.
    pub(crate) async fn prepare() -> Result<Self> {
        let root = tempfile::tempdir().context("cannot create the folders for hostile tools")?;
        let at = |path: &str| root.path().join(path);
        for folder in ["read", "write"] {
            std::fs::create_dir_all(at(folder).join("sub"))?;
            std::fs::write(at(folder).join("file.txt"), "file")?;
            files::create_link("../canary", &at(folder).join("link-out"))?;
            files::create_link("link-loop", &at(folder).join("link-loop"))?;
            files::create_link("/proc/self/environ", &at(folder).join("link-proc"))?;
            files::create_pipe(&at(folder).join("pipe"))?;
        }
        std::fs::write(at("canary"), CANARY)?;
        let listener = Listener::start().context("there is no free port on 127.0.0.1")?;
        Ok(Self { server: Server::start(SECRET).await?, listener, root, quotas: AtomicU64::new(0) })
    }

    /// Builds the grant of these powers.
    ///
    /// # Errors
    /// If a rule below is malformed, which is a bug, or the system does not report a port.
    pub(crate) fn grant(&self, powers: Powers) -> Result<Grant> {
        Ok(match powers {
            Powers::None => Grant::none(),
            Powers::Folders => {
                self.quotas.fetch_add(1, Relaxed);
                let quota = Quota::new(MAX_ADDED_BYTES, MAX_ADDED_ENTRIES)?;
                let write = fumehood::permission::files::Access::Write(quota);
                let read = Folder::read(&format!("{}:/r", self.path("read").display()))?;
                Grant::none().with_folder(read)?.with_folder(Folder::new(self.path("write"), "/w", write)?)?
            }
            Powers::Server => {
                let at = format!("http://127.0.0.1:{}", self.server.port());
                let rules = vec![format!("GET,POST {at}/**").parse()?];
                let limits = HttpLimits { bytes_in: MAX_RECEIVED_BYTES, ..HttpLimits::default() };
                let http = HttpGrant::new(rules, vec!["127.0.0.1/32".parse()?], limits)?;
                let into = Injection::header("Authorization", "Bearer {secret}")?;
                let secret = Secret::new("api", SecretValue::new(SECRET)?, &format!("{at}/secret/**"), into)?;
                Grant::none().with_http(http).with_secret(secret)?
            }
            Powers::Strangers => {
                let port = self.listener.port()?;
                let rules = ["http", "https"].map(|scheme| format!("GET {scheme}://*.example.com:{port}/**").parse());
                let rules = rules.into_iter().collect::<Result<_, _>>()?;
                Grant::none().with_http(HttpGrant::new(rules, Vec::new(), HttpLimits::default())?)
            }
        })
    }

    /// Replaces `{server}` and `{listener}` in arguments by their ports.
    ///
    /// # Errors
    /// If the system does not report the port.
    pub(crate) fn arguments(&self, text: &str) -> Result<String> {
        let [server, listener] = [self.server.port(), self.listener.port()?].map(|port| port.to_string());
        Ok(text.replace("{server}", &server).replace("{listener}", &listener))
    }

    /// Returns a resolver that finds every name at 127.0.0.1.
    pub(crate) fn resolver() -> Arc<dyn Resolver> {
        Arc::new(LoopbackResolver)
    }

    /// Describes what got out, if anything did. A connection to the listener is reported once, anything else by every
    /// later check too.
    pub(crate) fn find_escape(&self) -> Option<&'static str> {
        if !self.listener.has_no_connection() {
            return Some("a tool connected to the listener");
        }
        if self.server.has_received_secret() {
            return Some("a secret was sent elsewhere");
        }
        let canary = std::fs::read_to_string(self.path("canary"));
        if canary.is_ok_and(|text| text == CANARY) && self.is_within_quota() {
            return None;
        }
        Some("files outside of the granted folders changed, or a quota was exceeded")
    }

    /// Returns whether a result contains the canary or the secret.
    pub(crate) fn has_leak(result: &CallResult) -> bool {
        let text = serde_json::to_string(result).unwrap_or_else(|_| CANARY.to_owned());
        text.contains(CANARY) || text.contains(SECRET)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn is_within_quota(&self) -> bool {
        let quotas = self.quotas.load(Relaxed);
        let [read, write] = ["read", "write"].map(|folder| usage(&self.path(folder)));
        read.is_ok_and(|now| now == (INITIAL_ENTRIES, INITIAL_BYTES))
            && write.is_ok_and(|(entries, bytes)| {
                entries <= quotas * MAX_ADDED_ENTRIES + INITIAL_ENTRIES
                    && bytes <= quotas * MAX_ADDED_BYTES + INITIAL_BYTES
            })
    }
}

/// Counts entries, and bytes of files, in a folder and below it.
fn usage(folder: &Path) -> io::Result<(u64, u64)> {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum.0 += 1;
        if metadata.is_dir() {
            let inner = usage(&entry.path())?;
            sum = (sum.0 + inner.0, sum.1 + inner.1);
        } else if metadata.is_file() {
            sum.1 += metadata.len();
        }
    }
    Ok(sum)
}

/// A resolver that finds every name at 127.0.0.1.
struct LoopbackResolver;

impl Resolver for LoopbackResolver {
    fn resolve<'a>(&'a self, _host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}
