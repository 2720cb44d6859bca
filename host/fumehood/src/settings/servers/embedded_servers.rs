//! The MCP servers of a host inside another program, whose tools are called like the tools of its components.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_config::mcp::McpServerSection;
use fumehood_config::secret::ValueSource;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::tool::ToolProvider;
use fumehood_core::tool::name::Namespace;
use fumehood_mcp::{
    ConnectError, Credentials, Endpoint, Headers, Launch, LaunchWrapper, Remote, RemoteOptions, ToolNotice,
    check_address,
};
use fumehood_server::Token;

use super::jail::{JailPlace, server_jail};
use super::options::{entry_lines, server_options};
use crate::agents::{ListChange, ListObserver, McpTools};
use crate::lock::Lock;
use crate::settings::embedding::{EmbeddedHost, absolute};
use crate::settings::error::SettingsError;
use crate::settings::values::read_value;

/// The hidden command of the program `fumehood` that becomes a server's program, and ends with this process.
const END_WITH_PARENT: &str = "end-with-parent";

/// A server that was added.
#[derive(Debug, Clone)]
pub struct AddedServer {
    /// The name, which the full names of its tools begin with.
    pub name: String,
    /// The full names of its tools.
    pub tools: Vec<String>,
    /// The tools that are left out, with the reasons: one line for each reason.
    pub ignored: Vec<String>,
}

/// Errors of [`EmbeddedHost::add_server`]. Nothing of the server is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is not possible, or the value of a secret is not available.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A server or a component has the name.
    #[error("`{0}` is the name of another server or component; choose another name, or remove the other one first")]
    NameTaken(Namespace),
    /// The lock has no approval of the way to start or reach the server.
    #[error("the server `{0}` is not what the lock approves; review it with `fumehood approve {0}`")]
    NotApproved(Namespace),
    /// The server does not answer.
    #[error("cannot use the server `{name}`")]
    Connect {
        /// The name of the server.
        name: Namespace,
        /// The error of the connection.
        source: ConnectError,
    },
    /// The host was shut down.
    #[error("the host was shut down")]
    Closed,
}

/// The servers of one host.
#[derive(Default)]
pub(in crate::settings) struct EmbeddedServers {
    tools: Arc<McpTools>,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    /// The names of the servers, and of those that are being added.
    taken: BTreeSet<Namespace>,
    is_closed: bool,
}

impl fmt::Debug for EmbeddedServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServers").finish_non_exhaustive()
    }
}

impl EmbeddedServers {
    pub(in crate::settings) fn provider(&self) -> Arc<dyn ToolProvider> {
        Arc::clone(&self.tools) as _
    }

    /// Returns whether a server has this name, or one that could be mistaken for it.
    pub(in crate::settings) fn has_name(&self, name: &Namespace) -> bool {
        self.names().has(name)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name for a server that is being added. It is free again when the reservation is dropped.
    fn reserve(&self, name: Namespace) -> Result<Reservation<'_>, ServerError> {
        let mut names = self.names();
        if names.is_closed {
            return Err(ServerError::Closed);
        }
        if names.has(&name) {
            return Err(ServerError::NameTaken(name));
        }
        names.taken.insert(name.clone());
        Ok(Reservation { servers: self, name: Some(name) })
    }

    /// Removes a server, and returns whether it was there.
    async fn remove(&self, name: &Namespace) -> bool {
        let was_there = self.tools.remove(name).await;
        if was_there {
            self.names().taken.remove(name);
        }
        was_there
    }

    /// Removes all servers, and accepts no more.
    pub(in crate::settings) async fn close(&self) {
        let names = {
            let mut names = self.names();
            names.is_closed = true;
            names.taken.clone()
        };
        for name in names {
            self.remove(&name).await;
        }
    }
}

impl Names {
    fn has(&self, name: &Namespace) -> bool {
        let fold = |name: &Namespace| name.as_str().replace('-', "_");
        self.taken.iter().any(|taken| fold(taken) == fold(name))
    }
}

/// The name of a server that is being added.
struct Reservation<'a> {
    servers: &'a EmbeddedServers,
    name: Option<Namespace>,
}

impl Reservation<'_> {
    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.servers.names().taken.remove(&name);
        }
    }
}

/// Changes take effect without a notice: a program lists the tools whenever it needs them.
struct SilentObserver;

impl ListObserver for SilentObserver {
    fn tools_changed(&self, _: &Namespace, _: &ListChange) {}
}

impl EmbeddedHost {
    /// Starts or connects to an MCP server, and adds its tools. They follow the server's list from then on. With a lock,
    /// the server and its tools have to be what was approved.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn add_server(&self, name: &str, section: &McpServerSection) -> Result<AddedServer, ServerError> {
        let name = Namespace::parse(name).map_err(|error| SettingsError::setting("name", error))?;
        if self.has_component(&name) {
            return Err(ServerError::NameTaken(name));
        }
        let servers = self.embedded_servers();
        let reservation = servers.reserve(name.clone())?;
        let entry = entry_lines(section);
        let approved = match self.lock() {
            Some(file) => {
                let lock = Lock::open(file).map_err(SettingsError::Lock)?;
                if lock.entry(&name).is_none_or(|approved| approved.lines() != entry) {
                    return Err(ServerError::NotApproved(name));
                }
                Some(lock.locked(&name))
            }
            None => None,
        };
        let remote = remote(name.clone(), section, self.program())?;
        let added = match approved {
            Some(approved) => servers.tools.add_pinned(&remote, entry, approved).await.map(drop),
            None => servers.tools.add(&remote).await,
        };
        added.map_err(|source| ServerError::Connect { name: name.clone(), source })?;
        reservation.keep();
        servers.tools.follow_remote(&remote, &(Arc::new(SilentObserver) as _));
        if servers.names().is_closed {
            servers.remove(&name).await;
            return Err(ServerError::Closed);
        }
        let tools = servers.tools.tools();
        let its = tools.iter().filter(|tool| tool.namespace() == Some(&name));
        let tools = its.map(|tool| tool.full_name().to_owned()).collect();
        let ignored = ToolNotice::lines(&servers.tools.refused_of(&name));
        Ok(AddedServer { name: name.to_string(), tools, ignored })
    }

    /// Removes a server with its tools, and ends its program. Returns whether it was there.
    pub async fn remove_server(&self, name: &str) -> bool {
        match Namespace::parse(name) {
            Ok(name) => self.embedded_servers().remove(&name).await,
            Err(_) => false,
        }
    }
}

/// The values of a server's secrets.
struct SecretValues {
    variables: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    bearer: Option<String>,
}

impl SecretValues {
    fn read(section: &McpServerSection, here: &Path) -> Result<Self, SettingsError> {
        let bearer = section.bearer.as_ref().map(|source| read_secret("bearer", source, here)).transpose()?;
        Ok(Self {
            variables: read_secrets("secret_env", &section.secret_env, here)?,
            headers: read_secrets("secret_headers", &section.secret_headers, here)?,
            bearer,
        })
    }

    fn is_sent(&self) -> bool {
        self.bearer.is_some() || !self.headers.is_empty()
    }

    fn redactor(&self) -> Result<Option<Redactor>, SettingsError> {
        let named = self.variables.iter().chain(&self.headers).map(|(name, value)| (name.as_str(), value.as_str()));
        let values = named.chain(self.bearer.as_deref().map(|value| ("bearer", value)));
        Redactor::from_values(values).map_err(|error| SettingsError::setting("secrets", error))
    }
}

fn read_secret(setting: &str, source: &ValueSource, here: &Path) -> Result<String, SettingsError> {
    read_value(source, here).map_err(|error| SettingsError::setting(setting, error))
}

fn read_secrets(
    setting: &str,
    sources: &BTreeMap<String, ValueSource>,
    here: &Path,
) -> Result<Vec<(String, String)>, SettingsError> {
    let read = |(name, source): (&String, &ValueSource)| {
        Ok((name.clone(), read_secret(&format!("{setting}.{name}"), source, here)?))
    };
    sources.iter().map(read).collect()
}

/// Creates the client of a server. Nothing is started or connected to yet.
fn remote(name: Namespace, section: &McpServerSection, program: &Path) -> Result<Remote, SettingsError> {
    let here = absolute("folder", Path::new("."))?;
    let secrets = SecretValues::read(section, &here)?;
    let mut headers = Headers::default();
    let plain = section.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let secret = secrets.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in plain.chain(secret) {
        headers.add(name, value).map_err(|error| SettingsError::setting("headers", error))?;
    }
    if section.package.is_some() {
        let message = "only the command `fumehood` starts installed packages; give a `command` without a `package`";
        return Err(SettingsError::setting("package", message));
    }
    let options = RemoteOptions { headers, redactor: secrets.redactor()?, ..server_options(section) };
    let endpoint = match (section.command.as_deref().and_then(<[String]>::split_first), &section.url) {
        (Some((server, arguments)), None) => {
            program_endpoint(server, arguments, section, secrets.variables, &here, program)?
        }
        (None, Some(url)) => {
            check_address(url, secrets.is_sent()).map_err(|error| SettingsError::setting("url", error))?;
            let token = secrets.bearer.as_deref().map(Token::from_foreign).transpose();
            let token = token.map_err(|error| SettingsError::setting("bearer", error))?;
            Endpoint::Http { url: url.clone(), credentials: token.map_or(Credentials::None, Credentials::Token) }
        }
        _ => return Err(SettingsError::setting("command", "expected either a `command` or a `url`")),
    };
    Ok(Remote::new(name, endpoint, options))
}

/// Creates the endpoint of a program, which ends with this process. In a jail, its home is removed with it.
fn program_endpoint(
    server: &str,
    arguments: &[String],
    section: &McpServerSection,
    secrets: Vec<(String, String)>,
    here: &Path,
    program: &Path,
) -> Result<Endpoint, SettingsError> {
    let plain = section.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let wrapper = LaunchWrapper {
        program: program.to_owned(),
        arguments: vec![END_WITH_PARENT.to_owned(), std::process::id().to_string()],
    };
    let place = JailPlace { program: program.to_owned(), base: here.to_owned(), home: None, passes_signals: false };
    Ok(Endpoint::Process(Launch {
        // A name is looked up in PATH.
        program: if server.contains('/') { here.join(server) } else { PathBuf::from(server) },
        arguments: arguments.to_vec(),
        environment: plain.chain(secrets).collect(),
        folder: section.folder.as_ref().map(|folder| here.join(folder)),
        wrapper: Some(wrapper),
        sandbox: server_jail(section, place)?,
    }))
}
