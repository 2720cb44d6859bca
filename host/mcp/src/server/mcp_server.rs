//! What is served: one set of tools and how it presents itself, shared by all sessions.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::sanitize::printable;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use tokio::sync::watch;

use super::catalogue::Catalogue;
use super::catalogue::Naming;
use crate::library::Library;
use crate::toolbox::Toolbox;

/// How a server presents itself, and what it takes.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Its name, for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What a model should know about its tools as a whole, before the list of components and what they may do.
    pub instructions: Option<String>,
    /// On whose behalf calls are made that come over stdio. Tools may be told.
    pub actor: Option<Arc<str>>,
    /// The longest message that is read, in bytes.
    pub message_bytes: usize,
    /// Items in one page of a list.
    pub page: usize,
    /// What clients call the tools.
    pub naming: Naming,
    /// What is offered besides tools.
    pub library: Arc<Library>,
}

impl Default for ServerOptions {
    /// Named `fumehood`; messages of 4 MiB, pages of 100, full names, nothing but tools.
    fn default() -> Self {
        Self {
            name: "fumehood".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            actor: None,
            message_bytes: 4 << 20,
            page: 100,
            naming: Naming::Full,
            library: Arc::default(),
        }
    }
}

/// A set of tools, to be served to any number of clients. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    toolbox: Arc<dyn Toolbox>,
    options: ServerOptions,
    /// Of which change the catalogue is, and the catalogue.
    catalogue: Mutex<Option<(u64, Arc<Catalogue>)>>,
    changes: watch::Receiver<u64>,
}

impl Server {
    /// Serves these tools.
    #[must_use]
    pub fn new(toolbox: Arc<dyn Toolbox>, options: ServerOptions) -> Self {
        let changes = toolbox.changes();
        Self { inner: Arc::new(Inner { toolbox, options, catalogue: Mutex::default(), changes }) }
    }

    /// On whose behalf calls are made that come over stdio.
    #[must_use]
    pub fn actor(&self) -> Option<Arc<str>> {
        self.inner.options.actor.clone()
    }

    pub(crate) fn toolbox(&self) -> &dyn Toolbox {
        self.inner.toolbox.as_ref()
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.clone()
    }

    /// The tools as they are now.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        // The number first: a change in between means one list too many, never an old one cached.
        let change = *self.inner.changes.borrow();
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
        let ServerOptions { naming, instructions, .. } = self.options();
        Catalogue::new(self.inner.toolbox.list(), *naming, instructions.as_deref())
    }

    /// What clients are told when they connect.
    pub(crate) fn config(&self) -> ServerConfig {
        let options = self.options();
        let mut capabilities =
            ServerCapabilities::builder().enable_logging().enable_tools().enable_tool_list_changed().build();
        // What is not there is not offered: an empty list would say that something might be.
        capabilities.resources = (!options.library.entries().is_empty()).then(Default::default);
        capabilities.prompts = (!options.library.prompts().is_empty()).then(Default::default);
        let mut config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(printable(&options.name), printable(&options.version)));
        config.instructions = self.catalogue().instructions().map(str::to_owned);
        config
    }
}
