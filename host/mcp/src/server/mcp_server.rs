//! The server and its options, shared by all sessions.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::content::is_large;
use fumehood_core::call::result::CallResult;
use fumehood_core::schema::gate::RepairPolicy;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::{Changes, ToolProvider};
use fumehood_server::Jobs;
use fumehood_server::parse_queue::ParseQueue;
use rmcp::model::{
    ErrorData, Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    TASKS_EXTENSION_ID,
};
use tokio::sync::Semaphore;

use super::component_library::ComponentLibrary;
use super::held_calls::MAX_ALL_HELD_CALLS;
use super::library::Library;
use super::served_library::ServedLibrary;
use super::tools::{Catalogue, NamingScheme};
use crate::client::RemoteLibrary;
use crate::log_level::LogLevel;

/// The identity and the limits of a server.
///
/// ```
/// use fumehood_mcp::ServerOptions;
///
/// let options = ServerOptions {
///     name: "orders".to_owned(),
///     instructions: Some("Search for an order before you change it.".to_owned()),
///     // Wrong arguments are refused as they are.
///     repairs: None,
///     ..ServerOptions::default()
/// };
/// assert_eq!(options.message_bytes, 4 << 20);
/// ```
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The name of the server, for programs.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// Text for models about the tools as a whole, in front of the list of components and what they may do.
    pub instructions: Option<String>,
    /// The actor of calls that arrive over stdio. Tools may be given it.
    pub actor: Option<Arc<str>>,
    /// Maximum size of a message, in bytes.
    pub message_bytes: usize,
    /// Maximum number of items in one page of a list.
    pub page: usize,
    /// The repairs that the arguments of calls may get before they are refused; `None` refuses them as they are.
    pub repairs: Option<Arc<RepairPolicy>>,
    /// The scheme of tool names.
    pub naming: NamingScheme,
    /// Resources and prompts.
    pub library: Arc<Library>,
    /// The resources and prompts of MCP servers, in the order of their precedence.
    pub servers: Arc<[RemoteLibrary]>,
    /// The level of log lines that clients ask for, which servers behind a gateway get.
    pub log_level: LogLevel,
    /// The jobs that long calls become, for clients that know tasks; `None` offers no tasks.
    pub jobs: Option<Jobs>,
    /// The principal that the jobs of a client over stdio belong to.
    pub job_owner: Arc<str>,
}

impl Default for ServerOptions {
    /// Returns the defaults:
    ///
    /// - the name `fumehood` and the version of this crate
    /// - no instructions, no actor
    /// - messages of at most 4 MiB
    /// - pages of 1,000 items, because some clients never ask for the second one
    /// - the repairs of [`RepairPolicy::default`]
    /// - full names
    /// - tools only, without tasks
    fn default() -> Self {
        Self {
            name: "fumehood".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            actor: None,
            message_bytes: 4 << 20,
            page: 1000,
            repairs: Some(Arc::default()),
            naming: NamingScheme::default(),
            library: Arc::default(),
            servers: Arc::default(),
            log_level: LogLevel::default(),
            jobs: None,
            job_owner: Arc::from("client"),
        }
    }
}

/// A set of tools that is served to any number of clients. Cheap to clone; clones share their state.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::tool::ToolProvider;
/// use fumehood_mcp::{Access, HttpListener, HttpOptions, Server, ServerOptions};
///
/// /// Serves the program that started this one.
/// async fn serve_parent(tools: Arc<dyn ToolProvider>) -> Result<(), Box<dyn std::error::Error>> {
///     Ok(Server::new(tools, ServerOptions::default()).serve_stdio(std::future::pending::<()>()).await?)
/// }
///
/// /// Serves any number of clients over HTTP.
/// async fn serve_clients(tools: Arc<dyn ToolProvider>) -> Result<(), Box<dyn std::error::Error>> {
///     let server = Server::new(tools, ServerOptions::default());
///     let options = HttpOptions::new(([127, 0, 0, 1], 8080).into(), Access::Anyone);
///     let listener = HttpListener::bind(&server, options).await?;
///     println!("{}", listener.url());
///     listener.serve(std::future::pending::<()>()).await;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    tools: Arc<dyn ToolProvider>,
    options: ServerOptions,
    /// The catalogue, with the revision of the set that it was built from.
    catalogue: Mutex<Option<(u64, Arc<Catalogue>)>>,
    changes: Changes,
    /// The queue in which large results are written, one at a time.
    writers: ParseQueue,
    turn: Arc<Semaphore>,
    /// The places of calls that wait for answers of clients.
    held_places: Arc<Semaphore>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server for these tools.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolProvider>, options: ServerOptions) -> Self {
        Self::with_held_places(tools, options, Arc::new(Semaphore::new(MAX_ALL_HELD_CALLS)))
    }

    /// Like [`Self::new`], with the places of calls that wait for answers of clients.
    pub(super) fn with_held_places(
        tools: Arc<dyn ToolProvider>,
        options: ServerOptions,
        held_places: Arc<Semaphore>,
    ) -> Self {
        let changes = tools.changes();
        let writers = ParseQueue::new();
        let turn = Arc::new(Semaphore::new(1));
        let catalogue = Mutex::default();
        Self { inner: Arc::new(Inner { tools, options, catalogue, changes, writers, turn, held_places }) }
    }

    /// Returns the places of calls that wait for answers of clients.
    pub(super) fn held_places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.inner.held_places)
    }

    /// Does some work on the result of a call: on a large one in a queue, on another thread, so that other clients do not
    /// wait for it.
    ///
    /// # Errors
    /// If the server ends.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        result: CallResult,
        work: impl FnOnce(CallResult) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        if !is_large(result.content()) {
            return Ok(work(result));
        }
        let worked = self.inner.writers.run(Arc::clone(&self.inner.turn), move || work(result)).await;
        worked.ok_or_else(|| ErrorData::internal_error("the server is shutting down, so the result was not sent", None))
    }

    /// Returns the actor of calls that arrive over stdio.
    #[must_use]
    pub fn actor(&self) -> Option<Arc<str>> {
        self.inner.options.actor.clone()
    }

    /// Returns the tools, for servers of single tenants.
    pub(crate) fn shared_tools(&self) -> Arc<dyn ToolProvider> {
        Arc::clone(&self.inner.tools)
    }

    pub(crate) fn tools(&self) -> &dyn ToolProvider {
        self.inner.tools.as_ref()
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    pub(crate) fn changes(&self) -> Changes {
        self.inner.changes.clone()
    }

    /// Returns the current catalogue, built anew if the set has changed.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        // The revision is read first: a change in between costs one more listing, and never leaves an old one in place.
        let change = self.inner.changes.revision();
        let mut cached = self.inner.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        match cached.as_ref() {
            Some((revision, catalogue)) if *revision == change => Arc::clone(catalogue),
            _ => {
                let catalogue = Arc::new(self.build_catalogue());
                *cached = Some((change, Arc::clone(&catalogue)));
                catalogue
            }
        }
    }

    fn build_catalogue(&self) -> Catalogue {
        let ServerOptions { naming, instructions, library, .. } = self.options();
        let tools = self.inner.tools.tools();
        let resources = ComponentLibrary::new(self.tools(), &tools, library);
        Catalogue::new(&tools, *naming, instructions.as_deref()).with_resources(&tools, resources)
    }

    /// Returns the server's answer to `initialize`.
    pub(crate) fn config(&self) -> ServerConfig {
        let options = self.options();
        let mut capabilities =
            ServerCapabilities::builder().enable_logging().enable_tools().enable_tool_list_changed().build();
        // Capabilities without entries are not advertised: an empty list would mean that entries may appear.
        let library = ServedLibrary::new(self, false);
        let has_servers = !options.servers.is_empty();
        let has_component_resources = library.has_component_resources();
        capabilities.resources = library.has_resources().then(|| {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = (has_servers || has_component_resources).then_some(true);
            resources.subscribe = library.takes_subscriptions().then_some(true);
            resources
        });
        capabilities.prompts = library.has_prompts().then(|| {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = has_servers.then_some(true);
            prompts
        });
        capabilities.completions = library.has_completions().then(JsonObject::new);
        if options.jobs.is_some() {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        let mut config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(printable(&options.name), printable(&options.version)));
        config.instructions = self.catalogue().instructions().map(str::to_owned);
        config
    }
}
