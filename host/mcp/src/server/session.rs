//! The session of one client, and its calls.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use fumehood_core::call::event::Level;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Arguments, Call, CallContext, CancellationToken as CallToken, Observer};
use fumehood_core::telemetry;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;
use fumehood_listener::{Called, JobCall, Jobs};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, ReadResourceResult};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::call_request::{call_arguments, client_name, has_tasks, is_stateless, request_span};
use super::client_requests::{SessionClient, next_session};
use super::component_library::ComponentResource;
use super::library_result;
use super::mcp_server::Server;
use super::notifications::{Notifier, Outbox};
use super::resource_subscriptions::ResourceSubscriptions;
use super::resources;
use super::served_library::ServedLibrary;
use super::tasks;
use super::tools::call_tool_result;
use crate::apps;
use crate::client::{LibraryMethod, RemoteLibrary, passed_client_metadata};
use crate::log_level;

/// The result of `tools/call`.
pub(super) type CallToolOutcome = Result<CallToolResponse, ErrorData>;

/// The principal on whose behalf a client calls.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// The actor of its calls.
    pub(crate) actor: Option<Arc<str>>,
    /// The owner of its jobs.
    pub(crate) owner: Arc<str>,
    /// True if the flags of its trace contexts decide whether spans of its calls are collected.
    pub(crate) decides_sampling: bool,
}

/// The tool of a call, by its full name and by the one that the client knows.
#[derive(Clone, Copy)]
struct NamedCall<'n> {
    full_name: &'n str,
    shown_name: &'n str,
    /// True if it stands for a request that is no call of a tool.
    is_library_request: bool,
}

/// The session of one client.
pub(crate) struct Session {
    pub(super) server: Server,
    /// The minimum level of log lines that this client requested, as an index into the levels.
    pub(super) level: AtomicU8,
    pub(super) principal: Principal,
    /// Its calls so far.
    history: Arc<CallHistory>,
    /// The number of the session, for servers that ask its client for something.
    number: u64,
    pub(super) subscriptions: Arc<ResourceSubscriptions>,
    /// True once its client has said that it is ready.
    pub(super) is_initialized: AtomicBool,
    /// Cancelled once the client is gone, before rmcp has cleaned up after it.
    pub(super) closed: CancellationToken,
    /// Cancels what the session started when rmcp drops it.
    _ended: DropGuard,
}

impl Session {
    pub(crate) fn new(server: Server, principal: Principal, closed: CancellationToken) -> Self {
        let level = AtomicU8::new(Level::Info as u8);
        let number = next_session();
        let subscriptions = Arc::default();
        let history = Arc::default();
        let is_initialized = AtomicBool::new(false);
        let ended = closed.clone().drop_guard();
        Self { server, level, principal, history, number, subscriptions, is_initialized, closed, _ended: ended }
    }

    /// Returns the minimum level of log lines for this request. Revisions without a handshake carry it in each request.
    fn min_log_level(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        if is_stateless(context) {
            context.meta.log_level().map(log_level::from_logging_level)
        } else {
            log_level::from_rank(self.level.load(Ordering::Relaxed))
        }
    }

    /// Returns whether the client of a revision with a handshake gets log lines of this level.
    pub(super) fn wants(&self, level: Level) -> bool {
        log_level::from_rank(self.level.load(Ordering::Relaxed)).is_some_and(|min| level >= min)
    }

    /// Returns the resources and prompts that the client of a request sees.
    pub(super) fn library(&self, context: &RequestContext<RoleServer>) -> ServedLibrary<'_> {
        let capabilities = context.client_capabilities();
        ServedLibrary::new(&self.server, capabilities.is_some_and(|capabilities| apps::are_supported(&capabilities)))
    }

    /// Returns the library if it has resources. Capabilities that are not advertised return an error, not an empty list.
    pub(super) fn library_with_resources(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServedLibrary<'_>, ErrorData> {
        let library = self.library(context);
        if library.has_resources() { Ok(library) } else { Err(method_not_found(method)) }
    }

    /// Like [`Self::library_with_resources`], for prompts.
    pub(super) fn library_with_prompts(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServedLibrary<'_>, ErrorData> {
        let library = self.library(context);
        if library.has_prompts() { Ok(library) } else { Err(method_not_found(method)) }
    }

    /// Returns the server of a resource that sessions can subscribe to.
    pub(super) fn subscribable(
        &self,
        method: &str,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<&RemoteLibrary, ErrorData> {
        let library = self.library(context);
        if !library.takes_subscriptions() {
            return Err(method_not_found(method));
        }
        let server = library.server_of_resource(uri).filter(|server| server.takes_subscriptions());
        server.ok_or_else(|| resources::unknown_resource(uri))
    }

    /// Sends a request to the library of a server, as a call, and returns the result.
    pub(super) async fn ask_library<T: DeserializeOwned + Send + 'static>(
        &self,
        library: &RemoteLibrary,
        method: LibraryMethod,
        arguments: Value,
        context: RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let result = self.call_for_request(&method.full_name(library.name()), method, arguments, context).await?;
        self.server.work(result, library_result::read_result).await?
    }

    /// Reads a resource of a component, as a call, and returns its contents.
    pub(super) async fn read_component_resource(
        &self,
        resource: &ComponentResource,
        uri: &str,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResult, ErrorData> {
        let arguments = json!({ "uri": uri });
        let result = self.call_for_request(resource.reader(), LibraryMethod::Read, arguments, context).await?;
        let resource = resource.clone();
        self.server.work(result, move |result| library_result::read_contents(result, &resource)).await?
    }

    /// Calls the tool that stands for a request.
    async fn call_for_request(
        &self,
        tool: &str,
        method: LibraryMethod,
        arguments: Value,
        context: RequestContext<RoleServer>,
    ) -> Result<CallResult, ErrorData> {
        let span = request_span(tool, &context, self.principal.decides_sampling);
        let request = NamedCall { full_name: tool, shown_name: method.name(), is_library_request: true };
        let called = self.call_tool_of(request, arguments.into(), context, None);
        let Called::Ended(result) = called.instrument(span.clone()).await else {
            return Err(ErrorData::internal_error("the request became a job", None));
        };
        if let Some(error) = result.error() {
            telemetry::record_error(&span, error.kind.as_str());
        }
        Ok(*result)
    }

    /// Returns whether this server has a method of this name that takes parameters.
    pub(super) fn has_method(&self, method: &str, is_stateless: bool) -> bool {
        let library = ServedLibrary::new(&self.server, false);
        match method {
            "resources/list" | "resources/templates/list" | "resources/read" => library.has_resources(),
            "resources/subscribe" | "resources/unsubscribe" => !is_stateless && library.takes_subscriptions(),
            "prompts/list" | "prompts/get" => library.has_prompts(),
            "completion/complete" => library.has_completions(),
            _ if tasks::METHODS.contains(&method) => self.server.options().jobs.is_some(),
            _ => METHODS.contains(&method) && !(is_stateless && HANDSHAKE_METHODS.contains(&method)),
        }
    }

    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> CallToolOutcome {
        let catalogue = self.server.catalogue();
        let Some(entry) = catalogue.find(&request.name) else {
            let name: String = printable(&request.name).chars().take(MAX_FULL_NAME_BYTES).collect();
            // A provider remembers tools that it had, and says so.
            let gone = self.server.tools().find(&request.name).and_then(|tool| tool.refusal().cloned());
            let why = gone.map_or_else(|| catalogue.suggestions(), |refusal| refusal.message.to_string());
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name} ({why})"), None));
        };
        let decides_sampling = self.principal.decides_sampling;
        let span = request_span(&entry.full_name, &context, decides_sampling);
        let arguments = call_arguments(&context.extensions, request.arguments);
        let jobs = self.server.options().jobs.as_ref().filter(|_| has_tasks(&context));
        let named = NamedCall { full_name: &entry.full_name, shown_name: &request.name, is_library_request: false };
        let called = self.call_tool_of(named, arguments, context, jobs);
        let called = called.instrument(span.clone()).await;
        match called {
            Called::Job(job) => Ok(tasks::created(&job).into()),
            Called::Ended(result) => {
                if let Some(error) = result.error() {
                    telemetry::record_error(&span, error.kind.as_str());
                }
                let form = entry.form;
                let write = move |result| call_tool_result::into_call_tool_result(result, form);
                Ok(self.server.work(*result, write).await?.into())
            }
        }
    }

    async fn call_tool_of(
        &self,
        named: NamedCall<'_>,
        arguments: Arguments,
        context: RequestContext<RoleServer>,
        jobs: Option<&Jobs>,
    ) -> Called {
        let token = context.meta.get_progress_token();
        let cancelled = CallToken::new();
        let outbox = Outbox::for_client(token.is_some(), self.min_log_level(&context));
        let call = Call {
            tool: named.full_name.to_owned(),
            arguments,
            context: CallContext {
                actor: self.principal.actor.clone(),
                observer: outbox.clone().map(|outbox| outbox as Arc<dyn Observer>),
                cancelled: Some(cancelled.clone()),
                client: context.client_info().map(|client| client_name(&client)),
                client_meta: passed_client_metadata(&context.meta.0.0).map(Arc::new),
                // Requests without a handshake belong to no session.
                history: (!is_stateless(&context)).then(|| Arc::clone(&self.history)),
                client_requests: Some(Arc::new(SessionClient::new(self.number, &context, self.closed.clone()))),
                repairs: self.server.options().repairs.clone(),
                is_library_request: named.is_library_request,
                ..CallContext::default()
            },
        };
        let running = self.run(call, cancelled, &context, jobs);
        match &outbox {
            None => running.await,
            Some(outbox) => {
                let notifier = Notifier { peer: &context.peer, token, tool: named.shown_name };
                let running = async {
                    let called = running.await;
                    outbox.close();
                    called
                };
                tokio::join!(running, notifier.send_all(outbox)).0
            }
        }
    }

    /// Runs a call until it ends or becomes a job, the client cancels it, or the client is gone.
    async fn run(
        &self,
        call: Call,
        token: CallToken,
        context: &RequestContext<RoleServer>,
        jobs: Option<&Jobs>,
    ) -> Called {
        let mut call = pin!(async {
            match jobs {
                Some(jobs) => {
                    let (owner, tools) = (Arc::clone(&self.principal.owner), self.server.shared_tools());
                    // With the memory of its message, which stays counted until the call has ended.
                    jobs.call(JobCall::new(owner, tools, call, context.extensions.clone())).await
                }
                None => Called::Ended(Box::new(self.server.tools().dispatch(call).await)),
            }
        });
        tokio::select! {
            biased;
            called = &mut call => return called,
            () = self.closed.cancelled() => {}
            () = context.ct.cancelled() => {}
        }
        token.cancel();
        call.await
    }

    /// Returns the jobs that tasks are.
    pub(super) fn jobs(&self, method: &str) -> Result<&Jobs, ErrorData> {
        self.server.options().jobs.as_ref().ok_or_else(|| method_not_found(method))
    }
}

pub(super) fn method_not_found(method: &str) -> ErrorData {
    let method: String = printable(method).chars().take(MAX_FULL_NAME_BYTES).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
}

/// Methods of this server that take parameters.
const METHODS: [&str; 4] = ["tools/call", "tools/list", "logging/setLevel", "initialize"];
/// Methods that revisions without a handshake do not have.
const HANDSHAKE_METHODS: [&str; 2] = ["logging/setLevel", "initialize"];
